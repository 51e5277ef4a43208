"""What the nodes of a testbed file need of their machines: their OVS, and what each is tuned to."""

from __future__ import annotations

from pytest_nfvperf.adapters.machine.check import Check, CheckState
from pytest_nfvperf.adapters.ovs.installation import lacks_kernel_module, locate
from pytest_nfvperf.adapters.ovs.nodes_datapath import NODE_HOSTS
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, NodeSpec, Testbed, dut_of_node, ovs_for_dut


def node_checks(testbed: Testbed) -> list[Check]:
    return [_node(testbed, node) for node in testbed.nodes]


def _node(testbed: Testbed, node: NodeSpec) -> Check:
    name, _, said = str(node).partition(": ")
    name = f"node {name}"
    dut = dut_of_node(testbed, TESTBED_DUT, node.name)
    datapath = dut.kind or testbed.ovs.datapath
    if node.host is not None:
        return _far(testbed, node, name, said)
    try:
        binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=datapath == "dpdk")
    except NfvperfError as error:
        return Check(name, CheckState.MISSING, said, str(error), needed=True)
    lacking = lacks_kernel_module() if datapath == "system" else node.tuning.unknown_to(binaries.major_minor)
    if lacking is not None:
        return Check(name, CheckState.MISSING, said, lacking, needed=True)
    return Check(name, CheckState.OK, f"Open vSwitch {binaries.version}, datapath {datapath}; {said}")


def _far(testbed: Testbed, node: NodeSpec, name: str, said: str) -> Check:
    try:
        facts = NODE_HOSTS.part("ssh")(testbed).look_at(node)
    except NfvperfError as error:
        return Check(name, CheckState.MISSING, said, str(error), needed=True)
    has = f"nfvperf {facts['nfvperf']}, Open vSwitch {facts['ovs']}, datapath {facts['datapath']}"
    return Check(name, CheckState.OK, f"{has}; {said}")
