"""What a lab's testbed file needs of the machines that it names: NICs, CPUs, hugepages, the system's OVS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import isolated_cpus, read_cpus
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.host.nic import NicFacts, read_nic
from pytest_nfvperf.adapters.machine.check import Check, CheckState
from pytest_nfvperf.adapters.machine.fingerprint import running_facts
from pytest_nfvperf.adapters.net.borrowed import check_free
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl
from pytest_nfvperf.adapters.ovs.system_ovs import find_system
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import is_pci, ports_here
from pytest_nfvperf.model.testbed.testbed import DutPort, Testbed

_PCI_DEVICES = Path("/sys/bus/pci/devices")
_FOR_DPDK = frozenset({"vfio-pci", "igb_uio", "uio_pci_generic", "mlx4_core", "mlx5_core", "mana"})
"""Drivers with which DPDK can take a NIC; NVIDIA's and Microsoft's stay with the kernel (DPDK: "Linux Drivers")."""


def lab_checks(testbed: Testbed) -> list[Check]:
    """Check all that the file names, without starting or changing anything; cables are checked when measuring."""
    found = [_port(port, f"port {port.name}", testbed) for port in ports_here(testbed) if port.kind != "vhost-user"]
    found += [
        _generator_device(device, number)
        for number, device in list(zip(testbed.generator.ports, testbed.generator.devices, strict=False))
    ]
    if found:
        found += [_isolated(testbed), _memory(testbed)]
    return found + ([_system(testbed)] if testbed.ovs.instance == "system" else [])


def _generator_device(device: str, number: int) -> Check:
    if is_pci(device):
        port = DutPort(f"generator.{number}", "pci", pci=device)
    else:
        port = DutPort(f"generator.{number}", "interface", interface=device)
    return _port(port, f"generator port {number}", None)


def _port(port: DutPort, name: str, testbed: Testbed | None) -> Check:
    nic = read_nic(port)
    seen = _seen(port, nic)
    problem = _absent(port, name)
    if problem:
        return Check(name, CheckState.MISSING, seen, problem, needed=True)
    if port.pci is not None and nic.driver not in _FOR_DPDK:
        advice = f"DPDK cannot take it from the driver {nic.driver or 'none'}: dpdk-devbind.py -b vfio-pci {port.pci}"
        return Check(name, CheckState.WARN, seen, advice)
    nodes = {cpu.node for cpu in read_cpus(testbed.cpus.pmd)} if testbed is not None else set()
    if nic.numa_node is not None and nodes and nic.numa_node not in nodes:
        advice = (
            f"it is on NUMA node {nic.numa_node}, the PMDs are on {', '.join(map(str, nodes))}: give them CPUs there"
        )
        return Check(name, CheckState.WARN, seen, advice)
    return Check(name, CheckState.OK, seen)


def _seen(port: DutPort, nic: NicFacts) -> str:
    known = nic.known()
    parts = [str(known[name]) for name in ("model", "driver") if name in known]
    parts = list(dict.fromkeys(parts))
    parts += [f"firmware {nic.firmware}"] if nic.firmware else []
    parts += [f"{nic.speed_mbps / 1000:g} Gbit/s"] if nic.speed_mbps else []
    parts += [f"link {nic.link}"] if nic.link else []
    parts += [f"NUMA {nic.numa_node}"] if nic.numa_node is not None else []
    return f"{port.pci or port.interface}: {', '.join(parts) or 'nothing known'}"


def _absent(port: DutPort, name: str) -> str:
    """Why a port cannot be used at all; "" if it can."""
    if port.pci is not None:
        there = (_PCI_DEVICES / port.pci.lower()).exists()
        return "" if there else f"this machine has no PCI device {port.pci}: see lspci -D"
    try:
        check_free(port.interface or "", name, "")
    except ConfigError as error:
        return error.message
    return ""


def _isolated(testbed: Testbed) -> Check:
    polling = sorted({*testbed.cpus.pmd, *testbed.cpus.generator})
    open_to_all = [cpu for cpu in polling if cpu not in isolated_cpus()]
    name, seen = "polling CPUs", f"PMD {_listed(testbed.cpus.pmd)}; generator {_listed(testbed.cpus.generator)}"
    if not open_to_all:
        return Check(name, CheckState.OK, f"{seen}; all isolated")
    numbers = _listed(open_to_all)
    return Check(name, CheckState.WARN, seen, f"not isolated: boot with isolcpus={numbers} nohz_full={numbers}")


def _memory(testbed: Testbed) -> Check:
    pages = read_hugepages()
    free = pages.free_mib
    wanted = testbed.hugepages_mib
    if testbed.ovs.datapath != "dpdk" or not wanted:
        return Check("hugepages of the lab", CheckState.OK, f"{free} MiB free, the file asks for none")
    if free >= wanted:
        return Check("hugepages of the lab", CheckState.OK, f"{free} MiB free of {wanted} MiB asked for")
    advice = f"{pages.advice(wanted)}, or a smaller 'hugepages' in the file"
    seen = f"{free} MiB free{pages.in_pages} of {wanted} MiB asked for"
    return Check("hugepages of the lab", CheckState.WARN, seen, advice)


def _system(testbed: Testbed) -> Check:
    name = "the system's OVS"
    try:
        sockets = find_system(testbed.ovs.run_dir)
        control = Unixctl(sockets.control, "ovs-vswitchd")
        try:
            version = control.call("version").splitlines()[0]
            queues = running_facts(control.call("dpif-netdev/pmd-rxq-show"), {})["rxq_to_pmd"]
        finally:
            control.close()
    except TestbedError as error:
        return Check(name, CheckState.MISSING, testbed.ovs.run_dir or "/run/openvswitch", error.message, needed=True)
    polled = ", ".join(f"{queue} on CPU {cpu}" for queue, cpu in queues.items()) or "no queue is polled"
    return Check(name, CheckState.OK, f"{version} in {sockets.directory}; {polled}", needed=True)


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "planned"
