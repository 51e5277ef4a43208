"""Read, check and write testbed files. docs/reference/testbed-file.md says what the keys mean.

The keys of most sections are fields of the data classes of the model that hold them (``model/testbed``). Checks that
concern more than one key are here; their errors name both.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pytest_nfvperf.config.validate import SchemaVersion, read_as, written
from pytest_nfvperf.config.yaml_file import Document, KeyPath, dump, read_document, show_path
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.fields import (
    BY_KEY,
    Flag,
    FullPciAddress,
    LinkRate,
    LocalPath,
    Mebibytes,
    Text,
    VersionName,
    file_key,
    normal_pci,
    vf_of,
    words,
)
from pytest_nfvperf.model.testbed.ovs_settings import KEYS, NamedOvs, why_setting_refused
from pytest_nfvperf.model.testbed.testbed import (
    ON_DPDK,
    CableSpec,
    CpuPlan,
    DutBond,
    DutPort,
    GeneratorSpec,
    LabSpeaker,
    NicSpec,
    NodeName,
    NodeSpec,
    OvsSpec,
    StreamsSpec,
    Testbed,
    TrexSpec,
)


@dataclass(frozen=True, slots=True)
class DutSection:
    """``dut``: what is measured."""

    ovs: OvsSpec = field(default_factory=OvsSpec)
    ports: Annotated[tuple[DutPort, ...], file_key("ports that generator ports are cabled to")] = ()
    bonds: Annotated[tuple[DutBond, ...], file_key("ports that are one port of the bridge")] = ()


@dataclass(frozen=True, slots=True)
class VnfSection:
    """``vnf``: what runs VNFs that do not say it themselves."""

    kind: Annotated[
        Annotated[str, words("loop", "testpmd", "qemu")] | None,
        file_key("testpmd where each VNF has a CPU of its own, else loop"),
    ] = None


@dataclass(frozen=True, slots=True)
class UnderlaySection:
    """``underlay``: what joins nodes."""

    line_rate_bps: Annotated[
        LinkRate | None,
        file_key("layer-1 bit rate: no more is offered than it carries", "10 Gbps", alias="line_rate"),
    ] = None


@dataclass(frozen=True, slots=True)
class TestbedFile:
    """A testbed file."""

    __test__ = False

    schema: SchemaVersion
    name: Annotated[
        str,
        Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]+$", max_length=100, examples=["r650-cx6"]),
    ]
    dut: DutSection = field(default_factory=DutSection)
    generator: GeneratorSpec = field(default_factory=GeneratorSpec)
    links: Annotated[
        tuple[tuple[Text, Text], ...],
        file_key("cables: [generator.PORT, dut.NAME]", [["generator.0", "dut.dpdk0"]]),
    ] = ()
    cpus: CpuPlan = field(default_factory=CpuPlan)
    vnf: VnfSection = field(default_factory=VnfSection)
    streams: StreamsSpec = field(default_factory=StreamsSpec)
    speakers: Annotated[tuple[LabSpeaker, ...], file_key("routing daemons that run already")] = ()
    ovs: Annotated[
        dict[VersionName, LocalPath],
        file_key(
            "more versions of Open vSwitch, for tests that ask for one by name: a prefix or root, relative to this "
            "file, 'installed', or a name of `nfvperf ovs list`",
            {"old": "debian:bullseye", "new": "/opt/ovs-3.3.4"},
        ),
    ] = field(default_factory=dict)
    nodes: Annotated[
        dict[NodeName, NodeSpec], BY_KEY, file_key("of topologies with several nodes: what each node is, by its name")
    ] = field(default_factory=dict)
    underlay: UnderlaySection = field(default_factory=UnderlaySection)
    nics: Annotated[
        dict[FullPciAddress, NicSpec],
        BY_KEY,
        file_key(
            "NICs of this machine that the run sets up and gives back as they were, by PCI address",
            {"0000:3b:00.0": {"bind": "vfio-pci"}},
        ),
    ] = field(default_factory=dict)
    hugepages_mib: Annotated[Mebibytes, file_key("hugepage memory of the run", "1024 MiB", alias="hugepages")] = 0
    discovered: Annotated[Flag, file_key("written by the tool for a testbed found without a file")] = False


def to_testbed(file: TestbedFile, folder: Path) -> Testbed:
    """The testbed. ``folder``: what paths of the file count from."""

    def from_folder(path: str | None) -> str | None:
        return None if path is None else str(folder / path)

    def expanded_path(where: str) -> str:
        """A path, or a name without a slash, which is looked up later."""
        return str(folder / where) if "/" in where else where

    ovs, generator, streams = file.dut.ovs, file.generator, file.streams
    claims = {claim.owner: claim.cpus for claim in reversed(cpu_claims(file))}
    versions = tuple(NamedOvs(name, expanded_path(where)) for name, where in file.ovs.items())
    return Testbed(
        name=file.name,
        ovs=replace(ovs, versions=versions, pmd_cpus=()),
        cpus=CpuPlan(**claims),
        ports=file.dut.ports,
        generator=replace(generator, recording=from_folder(generator.recording), cpus=()),
        links=tuple(CableSpec(a.removeprefix("generator."), b.removeprefix("dut.")) for a, b in file.links),
        hugepages_mib=file.hugepages_mib,
        discovered=file.discovered,
        vnf_kind=file.vnf.kind,
        streams=replace(streams, path=streams.path and expanded_path(streams.path)),
        speakers=file.speakers,
        nodes=tuple(replace(node, ssh_config=from_folder(node.ssh_config)) for node in file.nodes.values()),
        underlay_line_rate_bps=file.underlay.line_rate_bps,
        bonds=file.dut.bonds,
        nics=tuple(file.nics.values()),
    )


def to_file(testbed: Testbed) -> TestbedFile:
    """The file that reads back to an equal testbed."""
    # A cable names the bare ports. Somebody may already have written the prefix.
    links = ((link.generator.removeprefix("generator."), link.dut.removeprefix("dut.")) for link in testbed.links)
    return TestbedFile(
        schema=1,
        name=testbed.name,
        dut=DutSection(testbed.ovs, testbed.ports, testbed.bonds),
        generator=testbed.generator,
        links=tuple((f"generator.{generator}", f"dut.{dut}") for generator, dut in links),
        cpus=testbed.cpus,
        vnf=VnfSection(testbed.vnf_kind),
        streams=testbed.streams,
        speakers=testbed.speakers,
        ovs={version.name: version.where for version in testbed.ovs.versions},
        nodes={node.name: node for node in testbed.nodes},
        underlay=UnderlaySection(testbed.underlay_line_rate_bps),
        nics={nic.pci: nic for nic in testbed.nics},
        hugepages_mib=testbed.hugepages_mib,
        discovered=testbed.discovered,
    )


class CpuClaim(NamedTuple):
    """One owner's claim on CPUs, and the key it is under."""

    owner: str
    cpus: tuple[int, ...]
    path: KeyPath


def cpu_claims(file: TestbedFile) -> tuple[CpuClaim, ...]:
    """Who claims which CPUs. Keys that mean the same owner are separate claims."""
    claims = [CpuClaim(owner.name, getattr(file.cpus, owner.name), ("cpus", owner.name)) for owner in fields(CpuPlan)]
    # Nodes on other machines have CPUs of those.
    of_nodes = tuple(cpu for node in file.nodes.values() if node.ssh is None for cpu in node.cpus)
    claims += [
        CpuClaim("pmd", file.dut.ovs.pmd_cpus, ("dut", "ovs", "pmd_cpus")),
        CpuClaim("pmd", of_nodes, ("nodes",)),
        CpuClaim("generator", file.generator.cpus, ("generator", "cpus")),
    ]
    return tuple(claim for claim in claims if claim.cpus)


# The file: read, checked, written.

_MAY_SHARE = frozenset({"housekeeping", "generator"})


def load_testbed(path: str | Path, *, cores: int | None = None) -> tuple[Testbed, tuple[str, ...]]:
    """Read a testbed file.

    Args:
        path: the file.
        cores: physical cores of the DUT; those this process may use by default.

    Returns:
        The testbed, and warnings for a person. Empty tuples of CPUs mean "to be planned".

    Raises:
        ConfigError: file, line, key path, what is wrong and what to write instead.
    """
    document = read_document(path)
    file = read_as(TestbedFile, document)
    cores = usable_cores() if cores is None else cores
    warnings = check_testbed(file, document, cores=cores, numa=SysfsNuma())
    return to_testbed(file, Path(document.file).parent), warnings


def yaml_of_testbed(testbed: Testbed) -> str:
    """The testbed as the text of a file that reads back to an equal testbed."""
    return dump(written(to_file(testbed)))


class SysfsNuma:
    """Where CPUs and PCI devices are, from sysfs; None for what is not there, or not known."""

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
        """PCI address of a kernel interface."""
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


# Checks that concern more than one key. Each yields the location of a contradiction and what to write instead. Only the
# first is reported, so a check may rely on those before it.

Problem = tuple[KeyPath, str]


def check_testbed(testbed: TestbedFile, document: Document, *, cores: int, numa: SysfsNuma) -> tuple[str, ...]:
    """Raise ConfigError for the first contradiction; return warnings about what is only suspect."""
    claims = cpu_claims(testbed)
    shared = _MAY_SHARE if cores <= 2 or testbed.discovered else frozenset()  # discovered: planned for its cores
    problems = chain(
        _cabled_nodes(testbed),
        _ports_of_nodes(testbed),
        _repeated_ports(testbed),
        _devices_of_ports(testbed),
        _bonds(testbed),
        _devices_of_generator(testbed, numa),
        _nics(testbed, numa),
        _ovs_settings(testbed.dut.ovs),
        _generator(testbed.generator),
        _speakers(testbed.speakers),
        _nodes(testbed),
        _links(testbed),
        _cpus(claims, shared),
    )
    for path, problem in problems:
        raise document.error(problem, path)
    return (
        *(() if testbed.discovered else _shared_cpus(claims, shared)),  # nfvperf chose it, not the user
        *_distant_ports(testbed, claims, numa),
        *_unlinked_ports(testbed),
        *_ineffective_rings(testbed),
    )


def _known(names: Sequence[str], wrong: str) -> str:
    return f"{did_you_mean(wrong, names)} (there are: {listed(names) or 'none'})"


def _host_of(testbed: TestbedFile, node: str | None) -> str:
    """The host of a node, as ssh knows it; "" for this machine, and for a node that the file does not have."""
    return next((each.ssh or "" for each in testbed.nodes.values() if each.name == node), "")


def _repeated_ports(testbed: TestbedFile) -> Iterator[Problem]:
    for key in ("name", "pci", "interface"):
        seen: dict[str, KeyPath] = {}
        for index, port in enumerate(testbed.dut.ports):
            value = getattr(port, key)
            if value is None:
                continue
            # A NIC is one port, and each of its representors another. Each host has NICs of its own.
            same = f"{value.lower()} {port.representor}" if key == "pci" else value
            if key != "name" and port.node is not None:
                same = f"{_host_of(testbed, port.node)} {same}"
            path = ("dut", "ports", index, key)
            if seen.setdefault(same, path) != path:
                yield path, f"{value!r} is used twice: also by {show_path(seen[same])}"


def _devices_of_ports(testbed: TestbedFile) -> Iterator[Problem]:
    datapath = testbed.dut.ovs.datapath
    for index, port in enumerate(testbed.dut.ports):
        path, what, kind = ("dut", "ports", index), f"port {port.name!r}", port.kind
        if port.pci and port.interface:
            yield path, f"{what} has both pci {port.pci!r} and interface {port.interface!r}: keep one"
        if kind in {"pci", "interface"} and not getattr(port, kind):
            yield path, f"{what} is of kind {kind!r} but names no {kind}: write '{kind}: ...'"
        if kind == "vhost-user" and (port.pci or port.interface):
            yield path, f"{what} is of kind 'vhost-user' but names a device {(port.pci or port.interface)!r}"
        if kind == "pci" and datapath not in ON_DPDK:
            yield path, f"{what} is a PCI device, but dut.ovs.datapath is {datapath!r}: write 'datapath: dpdk'"
        if port.representor is not None and not port.pci:
            yield path, f"{what} is a representor of no NIC: write 'pci: ...', the address of the physical function"
        if port.driver is not None and port.kind != "interface":
            yield path, f"{what} has a driver, which only a kernel interface has: leave 'driver' out"
        if port.driver in {"af_packet", "af_xdp"} and datapath not in ON_DPDK:
            problem = (
                f"{what} is read by DPDK's {port.driver}, but dut.ovs.datapath is {datapath!r}: "
                "write 'datapath: dpdk', or 'driver: kernel'"
            )
            yield path, problem


def _bonds(testbed: TestbedFile) -> Iterator[Problem]:
    ports = [port.name for port in testbed.dut.ports]
    owner: dict[str, str] = {}
    linked = {link[1] for link in testbed.links}
    for index, bond in enumerate(testbed.dut.bonds):
        name, members = ("dut", "bonds", index, "name"), ("dut", "bonds", index, "members")
        if bond.name in ports:
            yield name, f"{bond.name!r} is also a port: give the bond a name of its own"
        if bond.name in [other.name for other in testbed.dut.bonds[:index]]:
            yield name, f"{bond.name!r} is used twice"
        for member in bond.members:
            if member not in ports:
                yield members, f"unknown port {member!r}{_known(ports, member)}"
            if member in owner:
                yield members, f"port {member!r} is already a member of bond {owner[member]!r}"
            if f"dut.{member}" in linked:
                mistake = f"a link names {member!r}, which is a member of bond {bond.name!r}"
                yield members, f"{mistake}: write dut.{bond.name} there"
            owner[member] = bond.name
        if len(bond.members) < 2:
            yield members, "a bond has two members or more: name them, or use the port itself"


def _devices_of_generator(testbed: TestbedFile, numa: SysfsNuma) -> Iterator[Problem]:
    generator = testbed.generator
    path: KeyPath = ("generator", "devices")
    devices = generator.devices
    if devices and generator.engine != "embedded":
        yield path, f"engine {generator.engine!r} has its own: leave 'devices' out"
    if devices and len(devices) != len(generator.ports):
        ports = list(generator.ports)
        yield path, f"{len(devices)} devices for {len(ports)} ports {ports}: write one for each"
    # A NIC of this machine has one owner, whether it is named by its PCI address or by its kernel interface.
    here = [port for port in testbed.dut.ports if not _host_of(testbed, port.node)]
    in_use = {name: f"dut.ports {port.name!r}" for port in here for name in (port.pci, port.interface) if name}
    known_by = {address: name for name in in_use if (address := numa.pci_of(name))}
    for device in devices:
        for same in filter(None, (device, numa.pci_of(device), known_by.get(device))):
            if same in in_use:
                what = repr(device) if same == device else f"{device!r}, which is the NIC {same!r},"
                yield path, f"{what} is used twice: also by {in_use[same]}"
        in_use[device] = show_path(path)


def _nics(testbed: TestbedFile, numa: SysfsNuma) -> Iterator[Problem]:
    """Set-up that contradicts itself, and VFs that will not be there. What the machine can do is asked later."""
    made = {nic.pci: nic.vfs for nic in testbed.nics.values() if nic.vfs}
    for nic in testbed.nics.values():
        path: KeyPath = ("nics", nic.pci)
        settings = ", ".join(nic.vf_settings)
        if vf_of(nic.pci) is None:
            if settings:
                yield path, f"{settings}: only a VF has this; write it at '{nic.pci} vf 0'"
            if nic.bind and nic.vfs:
                yield (*path, "bind"), "the kernel's driver of a PF makes its VFs: leave 'bind' out, or 'vfs'"
        elif nic.vfs:
            yield (*path, "vfs"), "a VF has no VFs: leave it out"
        yield from ((path, problem) for problem in _missing_vf(nic.pci, made))
    used: list[tuple[KeyPath, str]] = [
        (("dut", "ports", index, "pci"), port.pci)
        for index, port in enumerate(testbed.dut.ports)
        if port.pci and not _host_of(testbed, port.node)
    ]
    used += [(("generator", "devices", index), device) for index, device in enumerate(testbed.generator.devices)]
    for path, device in used:
        yield from ((path, problem) for problem in _missing_vf(device, made))
    bound = {nic.pci for nic in testbed.nics.values() if nic.bind}
    interfaces = [(("dut", "ports", index), port.interface) for index, port in enumerate(testbed.dut.ports)]
    interfaces += [(("generator", "devices", index), name) for index, name in enumerate(testbed.generator.devices)]
    for path, name in interfaces:
        if name and normal_pci(name) is None and (address := numa.pci_of(name)) in bound:
            yield (
                path,
                f"the kernel has no {name!r} while {show_path(('nics', str(address)))} binds it: write its address",
            )


def _missing_vf(device: str, made: Mapping[str, int]) -> Iterator[str]:
    """Why there will be no such VF, where the run makes those of its PF."""
    pf, number = vf_of(device) or (device, 0)
    if pf != device and number >= made.get(pf, number + 1):
        yield f"{pf} gets {made[pf]} VFs, 0 to {made[pf] - 1}, so there is no VF {number}: write 'vfs: {number + 1}'"


def _ovs_settings(ovs: OvsSpec) -> Iterator[Problem]:
    path: KeyPath = ("dut", "ovs")
    if ovs.run_dir and ovs.instance != "system":
        yield (*path, "run_dir"), "a private instance has its own directory: write 'instance: system', or leave it out"
    if ovs.hw_offload and ovs.datapath == "netdev":
        yield (*path, "hw_offload"), "OVS offloads flows with DPDK or by the kernel: write 'datapath: dpdk' or 'system'"
    if ovs.tc_policy and not ovs.hw_offload:
        yield (*path, "tc_policy"), "says nothing without offload: write 'hw_offload: true', or leave it out"
    path = (*path, "other_config")
    given = dict(ovs.other_config)
    for key, word in (("hw-offload", "hw_offload"), ("tc-policy", "tc_policy")):
        if key in given:
            yield path, f"{key} decides how results are judged: write '{word}: ...' in dut.ovs instead"
    for key, value in given.items():
        reason = why_setting_refused(key, value)
        # The owner of the system's OVS may have set such a key. The file may give its value, which is then compared.
        if reason and (ovs.instance == "private" or key == "pmd-cpu-mask"):
            yield path, reason
    for word, (key, _) in KEYS.items():
        if key in given and getattr(ovs.tuning, word) is not None:
            yield path, f"{key} is also given by dut.ovs.tuning.{word}: keep one"


def _speakers(speakers: Sequence[LabSpeaker]) -> Iterator[Problem]:
    names = [speaker.name for speaker in speakers]
    for index, speaker in enumerate(speakers):
        if speaker.name in names[:index]:
            yield ("speakers", index, "name"), f"{speaker.name!r} is used twice"
        if speaker.announces and speaker.engine == "frr":
            yield ("speakers", index, "announces"), "FRR announces what it is asked to: leave 'announces' out"


def _links(testbed: TestbedFile) -> Iterator[Problem]:
    ports_of = {
        "generator": [str(port) for port in testbed.generator.ports],
        "dut": [*(port.name for port in testbed.dut.ports), *(bond.name for bond in testbed.dut.bonds)],
    }
    cabled: dict[str, int] = {}
    for index, link in enumerate(testbed.links):
        for position, (side, end) in enumerate(zip(ports_of, link, strict=True)):
            path: KeyPath = ("links", index, position)
            given_side, _, port = end.partition(".")
            if given_side != side or not port:
                yield path, f"'{end}' is no {side} port: write e.g. [generator.0, dut.dpdk0]"
            if port not in ports_of[side]:
                yield path, f"unknown {side} port {port!r}{_known(ports_of[side], port)}"
            if end in cabled:
                yield path, f"'{end}' is used twice: also by links[{cabled[end]}]"
            cabled[end] = index


def _unlinked_ports(testbed: TestbedFile) -> Iterator[str]:
    linked = {end for link in testbed.links for end in link}
    linked |= {f"dut.{name}" for bond in testbed.dut.bonds if f"dut.{bond.name}" in linked for name in bond.members}
    linked |= {f"dut.{node.underlay}" for node in testbed.nodes.values()}
    for port in testbed.dut.ports:
        if f"dut.{port.name}" not in linked:
            yield f"port {port.name!r} is in no link: no generator port is cabled to it"


def _ineffective_rings(testbed: TestbedFile) -> Iterator[str]:
    """Queues and rings of a kernel interface that OVS cannot set."""
    for port in testbed.dut.ports:
        what = f"port {port.name!r} ({port.interface})"
        if port.kind != "interface":
            continue
        if port.rxq > 1 and (port.driver == "kernel" or testbed.dut.ovs.datapath not in ON_DPDK):
            yield f"{what} has rxq {port.rxq}, but OVS reads it from the kernel, by one queue: leave 'rxq' out"
        for key in ("rx_descriptors", "tx_descriptors"):
            if getattr(port, key) is not None:
                yield f"{what} has {key}, but its rings are the kernel's: leave it out, and set them by ethtool -G"


def _cpus(claims: Sequence[CpuClaim], may_share: Collection[str]) -> Iterator[Problem]:
    for claim in claims:
        for cpu in sorted(claim.cpus):
            if claim.cpus.count(cpu) > 1:
                yield claim.path, f"CPU {cpu} is listed twice"
    for earlier, later in combinations(claims, 2):
        both, here = sorted(set(later.cpus) & set(earlier.cpus)), show_path(earlier.path)
        if later.owner == earlier.owner:
            if sorted(later.cpus) != sorted(earlier.cpus):
                yield later.path, f"{list(later.cpus)} contradicts {here} {list(earlier.cpus)}: keep one"
        elif both and {later.owner, earlier.owner} != may_share:
            yield later.path, f"CPU {both[0]} is given to two owners: {here} and {show_path(later.path)}"


def _shared_cpus(claims: Sequence[CpuClaim], may_share: Collection[str]) -> Iterator[str]:
    for earlier, later in combinations(claims, 2):
        both = sorted(set(later.cpus) & set(earlier.cpus))
        if both and {later.owner, earlier.owner} == may_share:
            yield (
                f"CPU {both[0]} is shared by {show_path(earlier.path)} and {show_path(later.path)}: "
                "on a machine of two cores there is no other way, but preemptions will disturb trials"
            )


def _distant_ports(testbed: TestbedFile, claims: Sequence[CpuClaim], numa: SysfsNuma) -> Iterator[str]:
    pmds = next((claim.cpus for claim in claims if claim.owner == "pmd"), ())
    nodes = {cpu: numa.cpu_node(cpu) for cpu in pmds}
    for port in testbed.dut.ports:
        node = numa.pci_node(port.pci) if port.pci and not _host_of(testbed, port.node) else None
        if not nodes or node is None or None in nodes.values() or node in nodes.values():
            continue
        seen = ", ".join(f"CPU {cpu} on node {there}" for cpu, there in nodes.items())
        yield (
            f"port {port.name!r} ({port.pci}) is on NUMA node {node}, but no PMD is ({seen}): "
            "every frame crosses the interconnect"
        )


# Nodes: those that cables join have ports of their own, and may be other machines, reached by ssh.


def _cabled_nodes(testbed: TestbedFile) -> Iterator[Problem]:
    hosts: dict[str, str] = {}
    cabled = any(node.ssh or node.underlay for node in testbed.nodes.values())
    for node in testbed.nodes.values():
        path: KeyPath = ("nodes", node.name)
        for key in ("python", "ssh_config"):
            if node.ssh is None and getattr(node, key) is not None:
                yield (
                    (*path, key),
                    f"{key} is of a host reached by ssh: write 'ssh: root@HOST', too, or leave it out",
                )
        if node.underlay is not None:
            yield from (((*path, "underlay"), problem) for problem in _wrong_underlay(testbed, node, node.underlay))
        elif cabled:
            yield path, "which port's cable leads to the other nodes? Write 'underlay: NAME', one of dut.ports"
        if node.ssh is not None and node.ssh in hosts:
            host = f"{node.ssh!r} is the host of {hosts[node.ssh]!r}, too"
            yield (*path, "ssh"), f"{host}: each node has a host of its own"
        hosts[node.ssh or ""] = node.name


def _wrong_underlay(testbed: TestbedFile, node: NodeSpec, underlay: str) -> Iterator[str]:
    own = [port.name for port in testbed.dut.ports if port.node == node.name]
    if underlay not in own:
        hint = did_you_mean(underlay, own)
        there = listed(own) or f"none; write 'node: {node.name}' at its ports in dut.ports"
        yield f"{node.name} has no port {underlay!r}{hint} (there are: {there})"
    if any(f"dut.{underlay}" in link for link in testbed.links):
        yield f"a link cables {underlay!r} to the generator: leave it out of 'links'"


def _ports_of_nodes(testbed: TestbedFile) -> Iterator[Problem]:
    cabled = any(node.underlay for node in testbed.nodes.values())
    for index, port in enumerate(testbed.dut.ports):
        path: KeyPath = ("dut", "ports", index)
        if port.node is None:
            if cabled:
                what = f"the file's nodes have ports of their own: on which one is {port.name!r}?"
                yield path, f"{what} Write 'node: NAME'"
            continue
        if port.node not in testbed.nodes:
            yield (*path, "node"), f"unknown node {port.node!r}{_known([*testbed.nodes], port.node)}"
        if not cabled:
            yield (
                (*path, "node"),
                "the file's nodes have no 'underlay', and are joined by virtual links: leave 'node' out, or write both",
            )
    if cabled and testbed.dut.bonds:
        yield ("dut", "bonds"), "nodes that cables join have no bonds: leave them out"


def _nodes(testbed: TestbedFile) -> Iterator[Problem]:
    if testbed.nodes and testbed.dut.ovs.instance == "system":
        yield (
            ("nodes",),
            "nodes are private OVS, and dut.ovs.instance is 'system': write 'instance: private', or leave 'nodes' out",
        )
    versions = [*testbed.ovs]
    for node in testbed.nodes.values():
        if node.version is not None and node.version not in versions:
            problem = (
                f"the file's section 'ovs' has no version {node.version!r}{_known(versions, node.version)}: write it "
                f"there, such as 'ovs: {{{node.version}: /opt/ovs}}'"
            )
            yield ("nodes", node.name, "ovs"), problem
    here = [node for node in testbed.nodes.values() if node.ssh is None]
    owners: dict[int, str] = {}
    for name, cpu in ((node.name, cpu) for node in here for cpu in node.cpus):
        if owners.setdefault(cpu, name) != name:
            problem = (
                f"CPU {cpu} is also in {show_path(('nodes', owners[cpu], 'cpus'))}: give each node CPUs of its own, or "
                "none to any; then nodes share where there are too few"
            )
            yield ("nodes", name, "cpus"), problem
    for node in here:
        if owners and not node.cpus:
            yield ("nodes", node.name), "the other nodes have 'cpus': write it for all of them, or for none"


# Section ``generator``.


def _generator(generator: GeneratorSpec) -> Iterator[Problem]:
    engine: KeyPath = ("generator", "engine")
    if generator.engine == "trex":
        yield from _trex(generator)
    else:
        for key in ("server", "client", "trex"):
            if getattr(generator, key) not in {None, TrexSpec()}:
                problem = f"engine {generator.engine!r} has no {key}: write 'engine: trex' or leave '{key}' out"
                yield ("generator", key), problem
    if generator.engine == "replay" and not generator.recording:
        yield engine, "engine 'replay' needs a recording: write e.g. 'recording: bug.jsonl'"
    if generator.engine != "replay" and generator.recording:
        problem = (
            f"engine {generator.engine!r} plays no recording: write 'engine: replay', or record with the option "
            "--nfv-record"
        )
        yield ("generator", "recording"), problem
    for port in sorted(generator.ports):
        if generator.ports.count(port) > 1:
            yield ("generator", "ports"), f"port {port} is listed twice"


def _trex(generator: GeneratorSpec) -> Iterator[Problem]:
    if not generator.server:
        yield ("generator", "engine"), "engine 'trex' needs its server: write e.g. 'server: tgen1'"
    for index, route in enumerate(generator.trex.routes):
        if route.port not in generator.ports:
            problem = f"port {route.port} is not one of generator.ports {list(generator.ports)}"
            yield ("generator", "trex", "routes", index, "port"), problem
