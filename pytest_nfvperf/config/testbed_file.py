"""Read, check and write testbed files. docs/reference/testbed-file.md says what the keys mean.

Checks are here that concern more than one key; their errors name both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.config.testbed_model import (
    GeneratorSection,
    OvsSection,
    TestbedFile,
    TestbedModel,
    cpu_claims,
    to_file,
    to_testbed,
)
from pytest_nfvperf.config.validate import data_of, section_of, section_text, validated
from pytest_nfvperf.config.yaml_file import Document, KeyPath, dump, parse_document, read_document, show_path
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.testbed.keys import normal_pci
from pytest_nfvperf.model.testbed.ovs_settings import KEYS, why_setting_refused
from pytest_nfvperf.model.testbed.testbed import DutBond, DutPort, LabSpeaker, NodeSpec, Testbed, TrexSpec

TREX_DUMMY = "dummy"
"""An interface that is none, to make a pair."""
_END = re.compile(r"(?P<side>generator|dut)\.(?P<port>.+)")
_MAY_SHARE = {"housekeeping", "generator"}


def load_testbed(
    path: str | Path, *, numa: NumaReader | None = None, cores: int | None = None
) -> tuple[Testbed, tuple[str, ...]]:
    """Read a testbed file.

    Args:
        path: the file.
        numa: where CPUs and NICs sit; this machine's by default.
        cores: physical cores of the DUT; those this process may use by default.

    Returns:
        The testbed, and warnings for a person. Empty tuples of CPUs mean "to be planned".

    Raises:
        ConfigError: file, line, key path, what is wrong and what to write instead.
    """
    return _checked(read_document(path), numa, cores)


def parse_testbed(
    text: str, file: str = "<testbed>", *, numa: NumaReader | None = None, cores: int | None = None
) -> tuple[Testbed, tuple[str, ...]]:
    """As :func:`load_testbed`, from text; ``file`` is what messages call it."""
    return _checked(parse_document(text, file), numa, cores)


def _checked(document: Document, numa: NumaReader | None, cores: int | None) -> tuple[Testbed, tuple[str, ...]]:
    file: TestbedFile = data_of(TestbedFile, validated(section_of(TestbedFile, TestbedModel), document))
    cores = usable_cores() if cores is None else cores
    warnings = check_testbed(file, document, cores=cores, numa=numa or SysfsNuma())
    return to_testbed(file, Path(document.file).parent), warnings


def testbed_to_yaml(testbed: Testbed) -> str:
    """The testbed as the text of a file that reads back to an equal testbed."""
    return dump({"schema": 1, **section_text(to_file(testbed))})


testbed_to_yaml.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it for its name


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


def check_testbed(testbed: TestbedFile, document: Document, *, cores: int, numa: NumaReader) -> tuple[str, ...]:
    """Raise ConfigError for the first contradiction; return warnings about what is only doubtful."""
    check_cabled_nodes(testbed, document)
    _check_ports(testbed, document)
    check_lab(testbed, document, numa.pci_of)
    check_generator(testbed.generator, document)
    _check_speakers(testbed.speakers, document)
    check_nodes(testbed, document)
    _check_links(testbed, document)
    return (
        *_check_cpus(testbed, document, cores),
        *_numa_warnings(testbed, numa),
        *_unlinked(testbed),
    )


def _check_ports(testbed: TestbedFile, document: Document) -> None:
    for key in ("name", "pci", "interface"):
        seen: dict[str, KeyPath] = {}
        for index, port in enumerate(testbed.dut.ports):
            value = getattr(port, key)
            path = ("dut", "ports", index, key)
            # A NIC is one port, and each of its representors another.
            same = f"{value.lower()} {port.representor}" if key == "pci" and value else value
            if key != "name" and same is not None and port.node is not None:
                same = f"{_host_of(testbed, port.node)} {same}"
            if same in seen:
                raise document.error(f"{value!r} is used twice: also by {show_path(seen[same])}", path)
            if same is not None:
                seen[same] = path
    for index, port in enumerate(testbed.dut.ports):
        problem = _device_problem(port, testbed.dut.ovs.datapath)
        if problem:
            raise document.error(problem, ("dut", "ports", index))


def _device_problem(port: DutPort, datapath: str) -> str:
    if port.pci and port.interface:
        return f"port {port.name!r} has both pci {port.pci!r} and interface {port.interface!r}: keep one"
    if port.kind in {"pci", "interface"} and not getattr(port, port.kind):
        return f"port {port.name!r} is of kind {port.kind!r} but names no {port.kind}: write '{port.kind}: ...'"
    if port.kind == "vhost-user" and (port.pci or port.interface):
        return f"port {port.name!r} is of kind 'vhost-user' but names a device {(port.pci or port.interface)!r}"
    if port.kind == "pci" and datapath != "dpdk":
        return f"port {port.name!r} is a PCI device, but dut.ovs.datapath is {datapath!r}: write 'datapath: dpdk'"
    return ""


def _check_speakers(speakers: Sequence[LabSpeaker], document: Document) -> None:
    names = [speaker.name for speaker in speakers]
    for index, speaker in enumerate(speakers):
        if speaker.name in names[:index]:
            raise document.error(f"{speaker.name!r} is used twice", ("speakers", index, "name"))
        if speaker.announces and speaker.engine == "frr":
            raise document.error(
                "FRR announces what it is asked to: leave 'announces' out", ("speakers", index, "announces")
            )


def _check_links(testbed: TestbedFile, document: Document) -> None:
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


def _check_cpus(testbed: TestbedFile, document: Document, cores: int) -> Iterator[str]:
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


def _numa_warnings(testbed: TestbedFile, numa: NumaReader) -> Iterator[str]:
    pmds = next((claim for claim in cpu_claims(testbed) if claim.owner == "pmd"), None)
    if pmds is None:
        return
    nodes = {cpu: numa.cpu_node(cpu) for cpu in pmds.cpus}
    for port in testbed.dut.ports:
        node = numa.pci_node(port.pci) if port.pci and not _host_of(testbed, port.node) else None
        if node is None or None in nodes.values() or node in nodes.values():
            continue
        seen = ", ".join(f"CPU {cpu} on node {there}" for cpu, there in nodes.items())
        yield (
            f"port {port.name!r} ({port.pci}) is on NUMA node {node}, but no PMD is ({seen}): "
            "every frame crosses the interconnect"
        )


def _unlinked(testbed: TestbedFile) -> Iterator[str]:
    linked = {end for link in testbed.links for end in link}
    linked |= {f"dut.{name}" for bond in testbed.dut.bonds if f"dut.{bond.name}" in linked for name in bond.members}
    linked |= {f"dut.{node.underlay}" for node in testbed.nodes}
    for port in testbed.dut.ports:
        if f"dut.{port.name}" not in linked:
            yield f"port {port.name!r} is in no link: no generator port is cabled to it"


# A lab: devices, representors, bonds, offload.


PciOf = Callable[[str], str | None]
"""The PCI address of a kernel interface; None where it has none, or is not there."""


def check_lab(testbed: TestbedFile, document: Document, pci_of: PciOf) -> None:
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


def _driver_problem(port: DutPort, datapath: str) -> str:
    if port.representor is not None and not port.pci:
        return f"port {port.name!r} is a representor of no NIC: write 'pci: ...', the address of the physical function"
    if port.driver is not None and port.kind != "interface":
        return f"port {port.name!r} has a driver, which only a kernel interface has: leave 'driver' out"
    if port.driver in {"af_packet", "af_xdp"} and datapath != "dpdk":
        return (
            f"port {port.name!r} is read by DPDK's {port.driver}, but dut.ovs.datapath is {datapath!r}: "
            "write 'datapath: dpdk', or 'driver: kernel'"
        )
    return ""


def _ovs_problem(ovs: OvsSection) -> tuple[str, str]:
    if ovs.run_dir and ovs.instance != "system":
        return "run_dir", "a private instance has its own directory: write 'instance: system', or leave it out"
    if ovs.hw_offload and ovs.datapath == "netdev":
        return "hw_offload", "OVS offloads flows with DPDK or by the kernel: write 'datapath: dpdk' or 'system'"
    if ovs.tc_policy and not ovs.hw_offload:
        return "tc_policy", "says nothing without offload: write 'hw_offload: true', or leave it out"
    for key, word in (("hw-offload", "hw_offload"), ("tc-policy", "tc_policy")):
        if key in dict(ovs.other_config):
            return "other_config", f"{key} decides how results are judged: write '{word}: ...' in dut.ovs instead"
    return "other_config", _other_config_problem(ovs)


def _other_config_problem(ovs: OvsSection) -> str:
    """A key that only the run sets, or that the same file sets twice."""
    for key, value in ovs.other_config:
        reason = why_setting_refused(key, value)
        # The owner of the system's OVS may have set such a key. The file may give its value, which is then compared.
        if reason and (ovs.instance == "private" or key == "pmd-cpu-mask"):
            return reason
    for word, (key, _) in KEYS.items():
        if key in dict(ovs.other_config) and getattr(ovs.tuning, word) is not None:
            return f"{key} is also given by dut.ovs.tuning.{word}: keep one"
    return ""


def _check_bonds(testbed: TestbedFile, document: Document) -> None:
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


def _member_problem(member: str, bond: DutBond, ports: list[str], owner: dict[str, str], linked: set[str]) -> str:
    if member not in ports:
        return f"unknown port {member!r}{did_you_mean(member, ports)} (there are: {listed(ports) or 'none'})"
    if member in owner:
        return f"port {member!r} is already a member of bond {owner[member]!r}"
    if f"dut.{member}" in linked:
        return f"a link names {member!r}, which is a member of bond {bond.name!r}: write dut.{bond.name} there"
    return ""


def _check_devices(testbed: TestbedFile, document: Document, pci_of: PciOf) -> None:
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


def _check_owners(testbed: TestbedFile, document: Document, pci_of: PciOf) -> None:
    """A NIC of this machine has one owner, whether it is named by its PCI address or by its kernel interface."""
    here = [port for port in testbed.dut.ports if port.node is None or not _host_of(testbed, port.node)]
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


def _generator_devices(testbed: TestbedFile) -> tuple[KeyPath, tuple[str, ...]]:
    """What a generator on this machine sends by, and the key that says so."""
    start = testbed.generator.trex.start
    if start is None or start.driver == "memif":
        return ("generator", "devices"), testbed.generator.devices
    path: KeyPath = ("generator", "trex", "start", "interfaces")
    return path, tuple(name for name in start.interfaces if name != TREX_DUMMY and start.netns is None)


# Nodes that cables join: each has its own ports, and may be another machine, reached by ssh.


def _host_of(testbed: TestbedFile, node: str | None) -> str:
    """The host of a node, as ssh knows it; "" for this machine, and for a node that the file does not have."""
    return next((each.ssh or "" for each in testbed.nodes if each.name == node), "")


def check_cabled_nodes(testbed: TestbedFile, document: Document) -> None:
    """ConfigError for a node without its cable, for a port without its node, and for a host that two nodes have."""
    hosts: dict[str, str] = {}
    for node in testbed.nodes:
        path: KeyPath = ("nodes", node.name)
        for key in ("python", "ssh_config"):
            if node.ssh is None and getattr(node, key) is not None:
                raise document.error(
                    f"{key} is of a host reached by ssh: write 'ssh: root@HOST', too, or leave it out", (*path, key)
                )
        key, problem = _underlay_problem(testbed, node)
        if problem:
            raise document.error(problem, (*path, key) if getattr(node, key) is not None else path)
        if node.ssh is not None and node.ssh in hosts:
            raise document.error(
                f"{node.ssh!r} is the host of {hosts[node.ssh]!r}, too: each node has a host of its own", (*path, "ssh")
            )
        hosts[node.ssh or ""] = node.name
    _check_ports_of_nodes(testbed, document)


def _underlay_problem(testbed: TestbedFile, node: NodeSpec) -> tuple[str, str]:
    own = [port.name for port in testbed.dut.ports if port.node == node.name]
    if node.underlay is None:
        if any(other.ssh or other.underlay for other in testbed.nodes):
            return "underlay", "which port's cable leads to the other nodes? Write 'underlay: NAME', one of dut.ports"
        return "underlay", ""
    if node.underlay not in own:
        hint = did_you_mean(node.underlay, own)
        there = listed(own) or f"none; write 'node: {node.name}' at its ports in dut.ports"
        return "underlay", f"{node.name} has no port {node.underlay!r}{hint} (there are: {there})"
    if any(f"dut.{node.underlay}" in link for link in testbed.links):
        return "underlay", f"a link cables {node.underlay!r} to the generator: leave it out of 'links'"
    return "underlay", ""


def _check_ports_of_nodes(testbed: TestbedFile, document: Document) -> None:
    cabled, names = any(node.underlay for node in testbed.nodes), [node.name for node in testbed.nodes]
    for index, port in enumerate(testbed.dut.ports):
        path: KeyPath = ("dut", "ports", index)
        if port.node is not None and port.node not in names:
            hint, there = did_you_mean(port.node, names), listed(names)
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


def check_nodes(testbed: TestbedFile, document: Document) -> None:
    """ConfigError for an unknown version, for CPUs that two nodes claim, and where nodes are not possible."""
    if not testbed.nodes:
        return
    if testbed.dut.ovs.instance == "system":
        raise document.error(
            "nodes are private OVS, and dut.ovs.instance is 'system': write 'instance: private', or leave 'nodes' out",
            ("nodes",),
        )
    versions = [name for name, _ in testbed.ovs]
    for node in testbed.nodes:
        if node.version is not None and node.version not in versions:
            hint, there = did_you_mean(node.version, versions), listed(versions) or "none"
            raise document.error(
                f"the file's section 'ovs' has no version {node.version!r}{hint} (there are: {there}): write it there, "
                f"such as 'ovs: {{{node.version}: /opt/ovs}}'",
                ("nodes", node.name, "ovs"),
            )
    _check_node_cpus([node for node in testbed.nodes if node.ssh is None], document)


def _check_node_cpus(nodes: Sequence[NodeSpec], document: Document) -> None:
    owners: dict[int, str] = {}
    for node in nodes:
        for cpu in node.cpus:
            if cpu in owners and owners[cpu] != node.name:
                raise document.error(
                    f"CPU {cpu} is also in {show_path(('nodes', owners[cpu], 'cpus'))}: give each node CPUs of its "
                    "own, or none to any; then nodes share where there are too few",
                    ("nodes", node.name, "cpus"),
                )
            owners[cpu] = node.name
    without = [node.name for node in nodes if not node.cpus]
    if owners and without:
        raise document.error(
            "the other nodes have 'cpus': write it for all of them, or for none", ("nodes", without[0])
        )


# Section ``generator``.


def check_generator(generator: GeneratorSection, document: Document) -> None:
    """Raise ConfigError for keys that the engine does not have, or that it lacks."""
    if generator.engine == "trex":
        _check_trex(generator, document)
    else:
        for key in ("server", "client", "trex"):
            if getattr(generator, key) not in {None, TrexSpec()}:
                raise document.error(
                    f"engine {generator.engine!r} has no {key}: write 'engine: trex' or leave '{key}' out",
                    ("generator", key),
                )
    _check_recording(generator, document)
    twice = sorted({port for port in generator.ports if generator.ports.count(port) > 1})
    if twice:
        raise document.error(f"port {twice[0]} is listed twice", ("generator", "ports"))


def _check_trex(generator: GeneratorSection, document: Document) -> None:
    start = generator.trex.start
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
    for index, route in enumerate(generator.trex.routes):
        if route.port not in generator.ports:
            raise document.error(
                f"port {route.port} is not one of generator.ports {list(generator.ports)}",
                ("generator", "trex", "routes", index, "port"),
            )


def _check_recording(generator: GeneratorSection, document: Document) -> None:
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
