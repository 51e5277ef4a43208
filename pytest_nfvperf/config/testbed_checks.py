"""Checks of a testbed file that concern more than one key: their errors name both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.config.testbed_model import (
    TREX_DUMMY,
    BondModel,
    CpusModel,
    GeneratorModel,
    NodeModel,
    OvsModel,
    PortModel,
    TestbedModel,
    check_speakers,
)
from pytest_nfvperf.config.yaml_file import Document, KeyPath, show_path
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.testbed.lab_cables import normal_pci
from pytest_nfvperf.model.testbed.ovs_settings import KEYS, refused_setting

_END = re.compile(r"(?P<side>generator|dut)\.(?P<port>.+)")
_MAY_SHARE = {"housekeeping", "generator"}


class NumaReader(Protocol):
    """Where a CPU or a PCI device sits."""

    def cpu_node(self, cpu: int) -> int | None:
        """NUMA node of a CPU; None when it is not known or there is no such CPU."""
        ...

    def pci_node(self, pci: str) -> int | None:
        """NUMA node of a PCI device; None when it is not known or there is no such device."""
        ...

    def pci_of(self, interface: str) -> str | None:
        """PCI address of a kernel interface; None where it has none, or is not there."""
        ...


class SysfsNuma:
    """NUMA nodes from sysfs."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self._sysfs = sysfs

    def cpu_node(self, cpu: int) -> int | None:
        nodes = list((self._sysfs / f"devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
        return int(nodes[0].name.removeprefix("node")) if nodes else None

    def pci_node(self, pci: str) -> int | None:
        try:
            node = int((self._sysfs / f"bus/pci/devices/{pci.lower()}/numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None  # the kernel writes -1 for "not known"

    def pci_of(self, interface: str) -> str | None:
        # Behind a virtio interface there is a device of the virtio bus, and behind that the PCI device.
        device = (self._sysfs / "class/net" / interface / "device").resolve()
        return next((found for part in reversed(device.parts) if (found := normal_pci(part))), None)


def usable_cores(sysfs: Path = Path("/sys")) -> int:
    """Physical cores that this process may run on; SMT siblings are one core."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = sysfs / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except OSError:  # no topology in sysfs (some containers): every CPU is its own core
            cores.add(str(cpu))
    return len(cores)


@dataclass(frozen=True)
class CpuClaim:
    """One owner's claim on CPUs, and the key it is under."""

    owner: str
    cpus: tuple[int, ...]
    path: KeyPath


def check_testbed(testbed: TestbedModel, document: Document, *, cores: int, numa: NumaReader) -> tuple[str, ...]:
    """Raise ConfigError for the first contradiction; return warnings about what is only doubtful."""
    check_cabled_nodes(testbed, document)
    _check_ports(testbed, document)
    check_lab(testbed, document, numa.pci_of)
    check_generator(testbed.generator, document)
    check_speakers(testbed.speakers, document)
    check_nodes(testbed, document)
    _check_links(testbed, document)
    return (
        *_check_cpus(testbed, document, cores),
        *_numa_warnings(testbed, numa),
        *_unlinked(testbed),
    )


def _check_ports(testbed: TestbedModel, document: Document) -> None:
    for key in ("name", "pci", "interface"):
        seen: dict[str, KeyPath] = {}
        for index, port in enumerate(testbed.dut.ports):
            value = getattr(port, key)
            path = ("dut", "ports", index, key)
            # A NIC is one port, and each of its representors another.
            same = f"{value.lower()} {port.representor}" if key == "pci" and value else value
            if key != "name" and same is not None and port.node is not None:
                same = f"{host_of(testbed, port.node)} {same}"
            if same in seen:
                raise document.error(f"{value!r} is used twice: also by {show_path(seen[same])}", path)
            if same is not None:
                seen[same] = path
    for index, port in enumerate(testbed.dut.ports):
        problem = _device_problem(port, testbed.dut.ovs.datapath)
        if problem:
            raise document.error(problem, ("dut", "ports", index))


def _device_problem(port: PortModel, datapath: str) -> str:
    if port.pci and port.interface:
        return f"port {port.name!r} has both pci {port.pci!r} and interface {port.interface!r}: keep one"
    kind = port_kind(port)
    if kind in {"pci", "interface"} and not getattr(port, kind):
        return f"port {port.name!r} is of kind {kind!r} but names no {kind}: write '{kind}: ...'"
    if kind == "vhost-user" and (port.pci or port.interface):
        return f"port {port.name!r} is of kind 'vhost-user' but names a device {(port.pci or port.interface)!r}"
    if kind == "pci" and datapath != "dpdk":
        return f"port {port.name!r} is a PCI device, but dut.ovs.datapath is {datapath!r}: write 'datapath: dpdk'"
    return ""


def _check_links(testbed: TestbedModel, document: Document) -> None:
    known = {
        "generator": [str(port) for port in testbed.generator.ports],
        "dut": [*(port.name for port in testbed.dut.ports), *(bond.name for bond in testbed.dut.bonds)],
    }
    seen: dict[str, int] = {}
    for index, link in enumerate(testbed.links):
        for position, end in enumerate(link):
            side = ("generator", "dut")[position]
            path: KeyPath = ("links", index, position)
            match = _END.fullmatch(end)
            if match is None or match["side"] != side:
                raise document.error(f"'{end}' is no {side} port: write e.g. [generator.0, dut.dpdk0]", path)
            if match["port"] not in known[side]:
                hint = did_you_mean(match["port"], known[side])
                ports = listed(known[side]) or "none"
                raise document.error(f"unknown {side} port {match['port']!r}{hint} (there are: {ports})", path)
            if end in seen:
                raise document.error(f"'{end}' is used twice: also by links[{seen[end]}]", path)
            seen[end] = index


def cpu_claims(testbed: TestbedModel) -> tuple[CpuClaim, ...]:
    """Who claims which CPUs. Keys that mean the same owner are separate claims."""
    claims = [CpuClaim(owner, getattr(testbed.cpus, owner), ("cpus", owner)) for owner in CpusModel.model_fields]
    claims.append(CpuClaim("pmd", testbed.dut.ovs.pmd_cpus, ("dut", "ovs", "pmd_cpus")))
    claims.append(CpuClaim("pmd", nodes_cpus(testbed), ("nodes",)))
    claims.append(CpuClaim("generator", testbed.generator.cpus, ("generator", "cpus")))
    return tuple(claim for claim in claims if claim.cpus)


def _check_cpus(testbed: TestbedModel, document: Document, cores: int) -> Iterator[str]:
    claims = cpu_claims(testbed)
    few = cores <= 2 or testbed.discovered  # what was discovered was planned for the cores there were
    for claim in claims:
        twice = sorted({cpu for cpu in claim.cpus if claim.cpus.count(cpu) > 1})
        if twice:
            raise document.error(f"CPU {twice[0]} is listed twice", claim.path)
    for index, later in enumerate(claims):
        for earlier in claims[:index]:
            both = sorted(set(later.cpus) & set(earlier.cpus))
            if later.owner == earlier.owner:
                if sorted(later.cpus) != sorted(earlier.cpus):
                    raise document.error(
                        f"{list(later.cpus)} contradicts {show_path(earlier.path)} {list(earlier.cpus)}: keep one",
                        later.path,
                    )
            elif both and {later.owner, earlier.owner} == _MAY_SHARE and few:
                yield (
                    f"CPU {both[0]} is shared by {show_path(earlier.path)} and {show_path(later.path)}: "
                    "on a machine of two cores there is no other way, but preemptions will spoil trials"
                )
            elif both:
                raise document.error(
                    f"CPU {both[0]} is given to two owners: {show_path(earlier.path)} and {show_path(later.path)}",
                    later.path,
                )


def _numa_warnings(testbed: TestbedModel, numa: NumaReader) -> Iterator[str]:
    pmds = next((claim for claim in cpu_claims(testbed) if claim.owner == "pmd"), None)
    if pmds is None:
        return
    nodes = {cpu: numa.cpu_node(cpu) for cpu in pmds.cpus}
    for port in testbed.dut.ports:
        node = numa.pci_node(port.pci) if port.pci and not host_of(testbed, port.node or "") else None
        if node is None or None in nodes.values() or node in nodes.values():
            continue
        seen = ", ".join(f"CPU {cpu} on node {there}" for cpu, there in nodes.items())
        yield (
            f"port {port.name!r} ({port.pci}) is on NUMA node {node}, but no PMD is ({seen}): "
            "every frame crosses the interconnect"
        )


def _unlinked(testbed: TestbedModel) -> Iterator[str]:
    linked = {end for link in testbed.links for end in link}
    linked |= {f"dut.{name}" for bond in testbed.dut.bonds if f"dut.{bond.name}" in linked for name in bond.members}
    linked |= {f"dut.{node.underlay}" for node in testbed.nodes.values()}
    for port in testbed.dut.ports:
        if f"dut.{port.name}" not in linked:
            yield f"port {port.name!r} is in no link: no generator port is cabled to it"


# A lab: devices, representors, bonds, offload.


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
        # The owner of the system's OVS may have set such a key. The file may give its value, which is then compared.
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


# Nodes that cables join: each has its own ports, and may be another machine, reached by ssh.


def host_of(testbed: TestbedModel, node: str) -> str:
    """The host of a node, as ssh knows it; "" for this machine, and for a node that the file does not have."""
    return testbed.nodes[node].ssh or "" if node in testbed.nodes else ""


def check_cabled_nodes(testbed: TestbedModel, document: Document) -> None:
    """ConfigError for a node without its cable, for a port without its node, and for a host that two nodes have."""
    hosts: dict[str, str] = {}
    for name, node in testbed.nodes.items():
        path: KeyPath = ("nodes", name)
        for key in ("python", "ssh_config"):
            if node.ssh is None and getattr(node, key) is not None:
                raise document.error(
                    f"{key} is of a host reached by ssh: write 'ssh: root@HOST', too, or leave it out", (*path, key)
                )
        key, problem = _underlay_problem(testbed, name, node)
        if problem:
            raise document.error(problem, (*path, key) if getattr(node, key) is not None else path)
        if node.ssh is not None and node.ssh in hosts:
            raise document.error(
                f"{node.ssh!r} is the host of {hosts[node.ssh]!r}, too: each node has a host of its own", (*path, "ssh")
            )
        hosts[node.ssh or ""] = name
    _check_ports_of_nodes(testbed, document)


def _underlay_problem(testbed: TestbedModel, name: str, node: NodeModel) -> tuple[str, str]:
    own = [port.name for port in testbed.dut.ports if port.node == name]
    if node.underlay is None:
        if any(other.ssh or other.underlay for other in testbed.nodes.values()):
            return "underlay", "which port's cable leads to the other nodes? Write 'underlay: NAME', one of dut.ports"
        return "underlay", ""
    if node.underlay not in own:
        hint = did_you_mean(node.underlay, own)
        there = listed(own) or f"none; write 'node: {name}' at its ports in dut.ports"
        return "underlay", f"{name} has no port {node.underlay!r}{hint} (there are: {there})"
    if any(f"dut.{node.underlay}" in link for link in testbed.links):
        return "underlay", f"a link cables {node.underlay!r} to the generator: leave it out of 'links'"
    return "underlay", ""


def _check_ports_of_nodes(testbed: TestbedModel, document: Document) -> None:
    cabled = any(node.underlay for node in testbed.nodes.values())
    for index, port in enumerate(testbed.dut.ports):
        path: KeyPath = ("dut", "ports", index)
        if port.node is not None and port.node not in testbed.nodes:
            hint, there = did_you_mean(port.node, list(testbed.nodes)), listed(list(testbed.nodes))
            raise document.error(f"unknown node {port.node!r}{hint} (there are: {there})", (*path, "node"))
        if port.node is not None and not cabled:
            raise document.error(
                "the file's nodes have no 'underlay', and are joined by virtual links: leave 'node' out, or write both",
                (*path, "node"),
            )
        if port.node is None and cabled:
            raise document.error(
                f"the file's nodes have ports of their own: on which one is {port.name!r}? Write 'node: NAME'", path
            )
    if cabled and testbed.dut.bonds:
        raise document.error("nodes that cables join have no bonds: leave them out", ("dut", "bonds"))


def check_nodes(testbed: TestbedModel, document: Document) -> None:
    """ConfigError for an unknown version, for CPUs that two nodes claim, and where nodes are not possible."""
    if not testbed.nodes:
        return
    if testbed.dut.ovs.instance == "system":
        raise document.error(
            "nodes are private OVS, and dut.ovs.instance is 'system': write 'instance: private', or leave 'nodes' out",
            ("nodes",),
        )
    for name, node in testbed.nodes.items():
        if node.ovs is not None and node.ovs not in testbed.ovs:
            hint = did_you_mean(node.ovs, list(testbed.ovs))
            there = listed(list(testbed.ovs)) or "none"
            raise document.error(
                f"the file's section 'ovs' has no version {node.ovs!r}{hint} (there are: {there}): write it there, "
                f"such as 'ovs: {{{node.ovs}: /opt/ovs}}'",
                ("nodes", name, "ovs"),
            )
    _check_node_cpus({name: node for name, node in testbed.nodes.items() if node.ssh is None}, document)


def _check_node_cpus(nodes: Mapping[str, NodeModel], document: Document) -> None:
    owners: dict[int, str] = {}
    for name, node in nodes.items():
        for cpu in node.cpus:
            if cpu in owners and owners[cpu] != name:
                raise document.error(
                    f"CPU {cpu} is also in {show_path(('nodes', owners[cpu], 'cpus'))}: give each node CPUs of its "
                    "own, or none to any; then nodes share where there are too few",
                    ("nodes", name, "cpus"),
                )
            owners[cpu] = name
    without = [name for name, node in nodes.items() if not node.cpus]
    if owners and without:
        raise document.error(
            "the other nodes have 'cpus': write it for all of them, or for none", ("nodes", without[0])
        )


def nodes_cpus(testbed: TestbedModel) -> tuple[int, ...]:
    """The CPUs of all nodes on this machine, in their order; empty where the file gives none."""
    return tuple(cpu for node in testbed.nodes.values() if node.ssh is None for cpu in node.cpus)


# Section ``generator``.

_OF_TREX = ("server", "client", "trex")


def check_generator(generator: GeneratorModel, document: Document) -> None:
    """Raise ConfigError for keys that the engine does not have, or that it lacks."""
    if generator.engine == "trex":
        _check_trex(generator, document)
    else:
        for key in _OF_TREX:
            if getattr(generator, key):
                raise document.error(
                    f"engine {generator.engine!r} has no {key}: write 'engine: trex' or leave '{key}' out",
                    ("generator", key),
                )
    _check_recording(generator, document)
    twice = sorted({port for port in generator.ports if generator.ports.count(port) > 1})
    if twice:
        raise document.error(f"port {twice[0]} is listed twice", ("generator", "ports"))


def _check_trex(generator: GeneratorModel, document: Document) -> None:
    trex = generator.trex
    start = trex.start if trex else None
    if not generator.server and start is None:
        raise document.error("engine 'trex' needs its server: write e.g. 'server: tgen1'", ("generator", "engine"))
    if start is not None and generator.server not in {None, "127.0.0.1", "localhost"}:
        raise document.error(
            f"a TRex that is started here is not on {generator.server!r}: leave 'server' out, or 'trex.start'",
            ("generator", "server"),
        )
    if start is not None and generator.ports and max(generator.ports) >= len(start.interfaces):
        raise document.error(
            f"port {max(generator.ports)} is not there: trex.start has {len(start.interfaces)} interfaces, "
            f"which are ports 0..{len(start.interfaces) - 1}",
            ("generator", "ports"),
        )
    for index, route in enumerate(trex.routes if trex else ()):
        if route.port not in generator.ports:
            raise document.error(
                f"port {route.port} is not one of generator.ports {list(generator.ports)}",
                ("generator", "trex", "routes", index, "port"),
            )


def _check_recording(generator: GeneratorModel, document: Document) -> None:
    if generator.engine == "replay" and not generator.recording:
        raise document.error(
            "engine 'replay' needs a recording: write e.g. 'recording: bug.jsonl'", ("generator", "engine")
        )
    if generator.engine != "replay" and generator.recording:
        raise document.error(
            f"engine {generator.engine!r} plays no recording: write 'engine: replay', "
            "or record with the option --nfv-record",
            ("generator", "recording"),
        )
