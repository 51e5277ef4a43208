"""Checks of what a testbed file names: a lab's NICs, CPUs, hugepages and system OVS; the nodes' OVS and tuning."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.host.cpus import isolated_cpus, read_cpus
from pytest_nfvperf.adapters.host.nic import NicFacts, read_nic
from pytest_nfvperf.adapters.host.nic_binding import PciBus, check_dpdk_device, is_to_be_made, why_not_set_up
from pytest_nfvperf.adapters.host.pci import read_device
from pytest_nfvperf.adapters.machine.check import Check, CheckState, Finding
from pytest_nfvperf.adapters.machine.fingerprint import running_facts
from pytest_nfvperf.adapters.net.borrowed_interfaces import check_free
from pytest_nfvperf.adapters.net.ends import interface_exists
from pytest_nfvperf.adapters.ovs.installation import lacks_kernel_module, locate
from pytest_nfvperf.adapters.ovs.nodes_datapath import NODE_HOSTS
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl
from pytest_nfvperf.adapters.ovs.system_ovs import find_system
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import is_pci, ports_here
from pytest_nfvperf.model.testbed.testbed import (
    TESTBED_DUT,
    DutPort,
    NicSpec,
    NodeSpec,
    Testbed,
    dut_of_node,
    ovs_for_dut,
)


def lab_checks(testbed: Testbed) -> list[Check]:
    """Check all that the file names, without starting or changing anything; cables are checked when measuring."""
    found = [
        _port(port, f"port {port.name}", testbed, pmds=True)
        for port in ports_here(testbed)
        if port.kind != "vhost-user"
    ]
    for number, device in zip(testbed.generator.ports, testbed.generator.devices, strict=False):
        if is_pci(device):
            port = DutPort(f"generator.{number}", "pci", pci=device)
        else:
            port = DutPort(f"generator.{number}", "interface", interface=device)
        found.append(_port(port, f"generator port {number}", testbed))
    found += [_set_up(nic, testbed) for nic in testbed.nics]
    if found:
        found.append(Check("polling CPUs", *_isolated(testbed)))
    if testbed.ovs.instance == "system":
        found.append(Check("the system's OVS", *_system(testbed), needed=True))
    return found


def _set_up(nic: NicSpec, testbed: Testbed) -> Check:
    """What the run does to a NIC before it measures, and why it cannot."""
    device = PciBus().device(nic.pci)
    found = "absent" if device is None else f"driver {device.driver or 'none'}, {device.sriov_numvfs or 0} VFs"
    seen = f"{found}; the run does, and undoes at its end: {nic}"
    problem = None if is_to_be_made(nic.pci, testbed.nics) else why_not_set_up(nic, PciBus())
    state = CheckState.OK if problem is None else CheckState.MISSING
    return Check(f"set-up of {nic.pci}", state, seen, problem or "", needed=problem is not None)


def _port(port: DutPort, name: str, testbed: Testbed, *, pmds: bool = False) -> Check:
    """``pmds``: the testbed's PMDs serve the port, not the generator."""
    nic = read_nic(port)
    seen = _seen(port, nic)
    problem = _absent(port, name, testbed)
    if problem:
        return Check(name, CheckState.MISSING, seen, problem, needed=True)
    nodes = {cpu.node for cpu in read_cpus(testbed.cpus.pmd)} if pmds else set()
    if nic.numa_node is not None and nodes and nic.numa_node not in nodes:
        advice = (
            f"it is on NUMA node {nic.numa_node}, the PMDs are on {', '.join(map(str, nodes))}: give them CPUs there"
        )
        return Check(name, CheckState.WARN, seen, advice)
    return Check(name, CheckState.OK, seen)


def _seen(port: DutPort, nic: NicFacts) -> str:
    known = nic.known()
    parts = list(dict.fromkeys(str(known[name]) for name in ("model", "driver", "dpdk_driver") if name in known))
    parts += [f"firmware {nic.firmware}"] if nic.firmware else []
    parts += [f"{nic.speed_mbps / 1000:g} Gbit/s"] if nic.speed_mbps else []
    parts += [f"link {nic.link}"] if nic.link else []
    parts += [f"NUMA {nic.numa_node}"] if nic.numa_node is not None else []
    there = interface_exists(port.interface) if port.interface is not None else read_device(port.pci or "") is not None
    return f"{port.pci or port.interface}: {', '.join(parts) or ('nothing known' if there else 'absent')}"


def _absent(port: DutPort, name: str, testbed: Testbed) -> str:
    """Why a port cannot be used at all; "" if it can."""
    try:
        if port.pci is not None:
            check_dpdk_device(port.pci, name, "", testbed.nics)
        else:
            check_free(port.interface or "", name, "")
    except (ConfigError, TestbedError) as error:
        return error.message
    return ""


def _isolated(testbed: Testbed) -> Finding:
    polling = sorted({*testbed.cpus.pmd, *testbed.cpus.generator})
    open_to_all = [cpu for cpu in polling if cpu not in isolated_cpus()]
    seen = f"PMD {_listed(testbed.cpus.pmd)}; generator {_listed(testbed.cpus.generator)}"
    if not open_to_all:
        return CheckState.OK, f"{seen}; all isolated", ""
    numbers = _listed(open_to_all)
    return CheckState.WARN, seen, f"not isolated: boot with isolcpus={numbers} nohz_full={numbers}"


def _system(testbed: Testbed) -> Finding:
    try:
        sockets = find_system(testbed.ovs.run_dir)
        control = Unixctl(sockets.control, "ovs-vswitchd")
        try:
            version = control.call("version").splitlines()[0]
            queues = running_facts(control.call("dpif-netdev/pmd-rxq-show"), {})["rxq_to_pmd"]
        finally:
            control.close()
    except TestbedError as error:
        return CheckState.MISSING, testbed.ovs.run_dir or "/run/openvswitch", error.message
    polled = ", ".join(f"{queue} on CPU {cpu}" for queue, cpu in queues.items()) or "no queue is polled"
    return CheckState.OK, f"{version} in {sockets.directory}; {polled}", ""


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "planned"


def node_checks(testbed: Testbed) -> list[Check]:
    return [_node(testbed, node) for node in testbed.nodes]


def _node(testbed: Testbed, node: NodeSpec) -> Check:
    name, _, described = f"node {node}".partition(": ")
    dut = dut_of_node(testbed, TESTBED_DUT, node.name)
    datapath = dut.kind or testbed.ovs.datapath
    try:
        if node.host is not None:
            facts = NODE_HOSTS.part("ssh")(testbed).look_at(node)
            seen = f"nfvperf {facts['nfvperf']}, Open vSwitch {facts['ovs']}, datapath {facts['datapath']}"
            return Check(name, CheckState.OK, f"{seen}; {described}")
        binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=datapath == "dpdk")
    except NfvperfError as error:
        return Check(name, CheckState.MISSING, described, str(error), needed=True)
    lacking = lacks_kernel_module() if datapath == "system" else node.tuning.unknown_to(binaries.major_minor)
    if lacking is not None:
        return Check(name, CheckState.MISSING, described, lacking, needed=True)
    return Check(name, CheckState.OK, f"Open vSwitch {binaries.version}, datapath {datapath}; {described}")
