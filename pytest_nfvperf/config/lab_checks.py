"""What a lab's testbed file can contradict itself in: devices, representors, bonds, offload."""

from __future__ import annotations

from collections.abc import Callable

from pytest_nfvperf.config.cabled_nodes import host_of
from pytest_nfvperf.config.testbed_model import BondModel, OvsModel, PortModel, TestbedModel
from pytest_nfvperf.config.trex_model import TREX_DUMMY
from pytest_nfvperf.config.yaml_file import Document, KeyPath, show_path
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.testbed.ovs_settings import KEYS, refused_setting

PciOf = Callable[[str], str | None]
"""The PCI address of a kernel interface; None where it has none, or is not there."""


def port_kind(port: PortModel) -> str:
    """The kind given, or what the device implies."""
    return port.kind or ("pci" if port.pci else "interface" if port.interface else "vhost-user")


def check_lab(testbed: TestbedModel, document: Document, pci_of: PciOf) -> None:
    """Raise ConfigError for the first contradiction."""
    for index, port in enumerate(testbed.dut.ports):
        problem = _driver_problem(port, testbed.dut.ovs.datapath)
        if problem:
            raise document.error(problem, ("dut", "ports", index))
    _check_bonds(testbed, document)
    _check_devices(testbed, document, pci_of)
    key, problem = _ovs_problem(testbed.dut.ovs)
    if problem:
        raise document.error(problem, ("dut", "ovs", key))


def _driver_problem(port: PortModel, datapath: str) -> str:
    if port.representor is not None and not port.pci:
        return f"port {port.name!r} is a representor of no NIC: write 'pci: ...', the address of the physical function"
    if port.driver is not None and port_kind(port) != "interface":
        return f"port {port.name!r} has a driver, which only a kernel interface has: leave 'driver' out"
    if port.driver in {"af_packet", "af_xdp"} and datapath != "dpdk":
        return (
            f"port {port.name!r} is read by DPDK's {port.driver}, but dut.ovs.datapath is {datapath!r}: "
            "write 'datapath: dpdk', or 'driver: kernel'"
        )
    return ""


def _ovs_problem(ovs: OvsModel) -> tuple[str, str]:
    if ovs.run_dir and ovs.instance != "system":
        return "run_dir", "a private instance has its own directory: write 'instance: system', or leave it out"
    if ovs.hw_offload and ovs.datapath == "netdev":
        return "hw_offload", "OVS offloads flows with DPDK or by the kernel: write 'datapath: dpdk' or 'system'"
    if ovs.tc_policy and not ovs.hw_offload:
        return "tc_policy", "says nothing without offload: write 'hw_offload: true', or leave it out"
    for key, word in (("hw-offload", "hw_offload"), ("tc-policy", "tc_policy")):
        if key in ovs.other_config:
            return "other_config", f"{key} decides how results are judged: write '{word}: ...' in dut.ovs instead"
    return "other_config", _other_config_problem(ovs)


def _other_config_problem(ovs: OvsModel) -> str:
    """A key that only the run sets, or that the same file sets twice."""
    for key, value in ovs.other_config.items():
        reason = refused_setting(key, value)
        # The system's OVS has such a key from its owner: the file may say with which value, and it is compared.
        if reason and (ovs.instance == "private" or key == "pmd-cpu-mask"):
            return reason
    tuning = ovs.tuning.model_dump(exclude_none=True) if ovs.tuning else {}
    for word, (key, _) in KEYS.items():
        if key in ovs.other_config and word in tuning:
            return f"{key} is also given by dut.ovs.tuning.{word}: keep one"
    return ""


def _check_bonds(testbed: TestbedModel, document: Document) -> None:
    ports = [port.name for port in testbed.dut.ports]
    owner: dict[str, str] = {}
    linked = {link[1] for link in testbed.links}
    for index, bond in enumerate(testbed.dut.bonds):
        path: KeyPath = ("dut", "bonds", index)
        if bond.name in ports:
            raise document.error(f"{bond.name!r} is also a port: give the bond a name of its own", (*path, "name"))
        if bond.name in [other.name for other in testbed.dut.bonds[:index]]:
            raise document.error(f"{bond.name!r} is used twice", (*path, "name"))
        for member in bond.members:
            problem = _member_problem(member, bond, ports, owner, linked)
            if problem:
                raise document.error(problem, (*path, "members"))
            owner[member] = bond.name
        if len(bond.members) < 2:
            raise document.error(
                "a bond has two members or more: name them, or use the port itself", (*path, "members")
            )


def _member_problem(member: str, bond: BondModel, ports: list[str], owner: dict[str, str], linked: set[str]) -> str:
    if member not in ports:
        return f"unknown port {member!r}{did_you_mean(member, ports)} (there are: {listed(ports) or 'none'})"
    if member in owner:
        return f"port {member!r} is already a member of bond {owner[member]!r}"
    if f"dut.{member}" in linked:
        return f"a link names {member!r}, which is a member of bond {bond.name!r}: write dut.{bond.name} there"
    return ""


def _check_devices(testbed: TestbedModel, document: Document, pci_of: PciOf) -> None:
    generator = testbed.generator
    path: KeyPath = ("generator", "devices")
    if generator.devices and generator.engine != "embedded":
        raise document.error(f"engine {generator.engine!r} has its own: leave 'devices' out", path)
    if generator.devices and len(generator.devices) != len(generator.ports):
        raise document.error(
            f"{len(generator.devices)} devices for {len(generator.ports)} ports {list(generator.ports)}: "
            "write one for each",
            path,
        )
    _check_owners(testbed, document, pci_of)


def _check_owners(testbed: TestbedModel, document: Document, pci_of: PciOf) -> None:
    """A NIC of this machine has one owner, whether it is named by its PCI address or by its kernel interface."""
    here = [port for port in testbed.dut.ports if port.node is None or not host_of(testbed, port.node)]
    taken = {name: f"dut.ports {port.name!r}" for port in here for name in (port.pci, port.interface) if name}
    known_by = {address: name for name in taken if (address := pci_of(name))}
    path, devices = _generator_devices(testbed)
    for device in devices:
        address = pci_of(device)
        for same in filter(None, (device, address, known_by.get(device))):
            if same in taken:
                what = repr(device) if same == device else f"{device!r}, which is the NIC {same!r},"
                raise document.error(f"{what} is used twice: also by {taken[same]}", path)
        taken[device] = show_path(path)


def _generator_devices(testbed: TestbedModel) -> tuple[KeyPath, tuple[str, ...]]:
    """What a generator on this machine sends by, and the key that says so."""
    trex = testbed.generator.trex
    start = trex.start if trex is not None else None
    if start is None or start.driver == "memif":
        return ("generator", "devices"), testbed.generator.devices
    path: KeyPath = ("generator", "trex", "start", "interfaces")
    return path, tuple(name for name in start.interfaces if name != TREX_DUMMY and start.netns is None)
