"""What the nodes of a testbed file need of this machine: their OVS, and what each is tuned to."""

from __future__ import annotations

from pytest_nfvperf.adapters.doctor.check import Check, State
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.testbed.dut_version import ovs_of
from pytest_nfvperf.model.testbed.node_spec import NodeSpec, dut_of_node
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Testbed


def node_checks(testbed: Testbed) -> list[Check]:
    """A line for each node of the file; none where it names none."""
    return [_node(testbed, node) for node in testbed.nodes]


def _node(testbed: Testbed, node: NodeSpec) -> Check:
    name, _, said = str(node).partition(": ")
    name = f"node {name}"
    dut = dut_of_node(testbed, TESTBEDS_OWN, node.name)
    datapath = dut.kind or testbed.ovs.datapath
    try:
        binaries = locate(ovs_of(testbed.ovs, dut).prefix, dpdk=datapath == "dpdk")
    except NfvperfError as error:
        return Check(name, State.MISSING, said, str(error), needed=True)
    unknown = node.tuning.unknown_to(binaries.major_minor)
    if unknown is not None:
        return Check(name, State.MISSING, said, unknown, needed=True)
    return Check(name, State.OK, f"Open vSwitch {binaries.version}, datapath {datapath}; {said}")
