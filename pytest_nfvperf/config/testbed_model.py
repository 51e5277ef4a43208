"""The shape of a testbed file as data classes; how it becomes a Testbed, and a Testbed a file again.

The keys of most sections are described by the data classes of the model that hold them (``model/testbed``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pytest_nfvperf.config.validate import VersionedFile
from pytest_nfvperf.config.yaml_file import KeyPath
from pytest_nfvperf.model.testbed.keys import BitRate, Cpus, Form, Key, LocalPath, VersionName
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    DutBond,
    DutPort,
    GeneratorSpec,
    LabSpeaker,
    NicSpec,
    NodeSpec,
    OvsSpec,
    StreamsSpec,
    Testbed,
)

LOOPBACK = "127.0.0.1"
"""Where a TRex server listens that we start."""


def _whole_mib(value: float) -> int:
    if value % 1:
        raise ValueError(f"{value * (1 << 20):g} bytes is not a whole number of MiB: write e.g. '1024 MiB'")
    return int(value)


@dataclass(frozen=True, slots=True)
class OvsSection(OvsSpec):
    """``dut.ovs``: how to get the DUT's OVS."""

    pmd_cpus: Annotated[Cpus, Key("CPUs of the poll-mode threads")] = ()


@dataclass(frozen=True, slots=True)
class DutSection:
    """``dut``: what is measured."""

    ovs: Annotated[OvsSection, Key()] = field(default_factory=OvsSection)
    ports: Annotated[tuple[DutPort, ...], Key("ports that generator ports are cabled to")] = ()
    bonds: Annotated[tuple[DutBond, ...], Key("ports that are one port of the bridge")] = ()


@dataclass(frozen=True, slots=True)
class GeneratorSection(GeneratorSpec):
    """``generator``: what sends and receives."""

    cpus: Annotated[Cpus, Key("CPUs of the embedded generator's polling threads")] = ()


@dataclass(frozen=True, slots=True)
class VnfSection:
    """``vnf``: what runs VNFs that do not say it themselves."""

    kind: Annotated[
        Annotated[str, Form(words=("loop", "testpmd", "qemu"))] | None,
        Key("testpmd where each VNF has a CPU of its own, else loop"),
    ] = None


@dataclass(frozen=True, slots=True)
class UnderlaySection:
    """``underlay``: what joins nodes."""

    line_rate_bps: Annotated[
        Annotated[BitRate, Field(gt=0)] | None,
        Key("layer-1 bit rate: no more is offered than it carries", "10 Gbps", written="line_rate"),
    ] = None


@dataclass(frozen=True, slots=True)
class TestbedFile:
    """A testbed file."""

    __test__ = False

    name: Annotated[
        str,
        Form(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]+$", longest=100),
        Key(example="r650-cx6"),
    ]
    dut: Annotated[DutSection, Key()] = field(default_factory=DutSection)
    generator: Annotated[GeneratorSection, Key()] = field(default_factory=GeneratorSection)
    links: Annotated[
        tuple[tuple[str, str], ...], Key("cables: [generator.PORT, dut.NAME]", [["generator.0", "dut.dpdk0"]])
    ] = ()
    cpus: Annotated[CpuPlan, Key()] = field(default_factory=CpuPlan)
    vnf: Annotated[VnfSection, Key()] = field(default_factory=VnfSection)
    streams: Annotated[StreamsSpec, Key()] = field(default_factory=StreamsSpec)
    speakers: Annotated[tuple[LabSpeaker, ...], Key("routing daemons that run already")] = ()
    ovs: Annotated[
        tuple[tuple[VersionName, LocalPath], ...],
        Form(mapping=True),
        Key(
            "more versions of Open vSwitch, for tests that ask for one by name: a prefix or root, relative to this "
            "file, 'installed', or a name of `nfvperf ovs list`",
            {"old": "debian:bullseye", "new": "/opt/ovs-3.3.4"},
        ),
    ] = ()
    nodes: Annotated[
        tuple[NodeSpec, ...],
        Form(mapping=True),
        Key("of topologies with several nodes: what each node is, by its name"),
    ] = ()
    underlay: Annotated[UnderlaySection, Key()] = field(default_factory=UnderlaySection)
    nics: Annotated[
        tuple[NicSpec, ...],
        Form(mapping=True),
        Key(
            "NICs of this machine that the run sets up and gives back as they were, by PCI address",
            {"0000:3b:00.0": {"bind": "vfio-pci"}},
        ),
    ] = ()
    hugepages_mib: Annotated[
        int,
        Form(unit="MiB", check=_whole_mib),
        Key("hugepage memory of the run", "1024 MiB", written="hugepages"),
    ] = 0
    discovered: Annotated[bool, Key("written by the tool for a testbed found without a file")] = False


class TestbedModel(VersionedFile):
    """A testbed file."""

    __test__ = False
    model_config = ConfigDict(title="pytest_nfvperf testbed file")


def to_testbed(file: TestbedFile, folder: Path) -> Testbed:
    """The testbed. ``folder``: what paths of the file count from."""

    def from_folder(path: str | None) -> str | None:
        return None if path is None else str(folder / path)

    def place(where: str) -> str:
        """A path, or a name without a slash, which is looked up later."""
        return str(folder / where) if "/" in where else where

    ovs, generator, streams = file.dut.ovs, file.generator, file.streams
    claims = {claim.owner: claim.cpus for claim in reversed(cpu_claims(file))}
    versions = tuple(NamedOvs(name, place(where)) for name, where in file.ovs)
    server = generator.server or (LOOPBACK if generator.trex.start else None)
    return Testbed(
        name=file.name,
        ovs=OvsSpec(**{**_copied(OvsSpec, ovs), "versions": versions}),
        cpus=CpuPlan(**claims),
        ports=file.dut.ports,
        generator=GeneratorSpec(
            **{
                **_copied(GeneratorSpec, generator),
                "server": server,
                "recording": from_folder(generator.recording),
            }
        ),
        links=tuple(CableSpec(a.removeprefix("generator."), b.removeprefix("dut.")) for a, b in file.links),
        hugepages_mib=file.hugepages_mib,
        discovered=file.discovered,
        vnf_kind=file.vnf.kind,
        streams=replace(streams, path=streams.path and place(streams.path)),
        speakers=file.speakers,
        nodes=tuple(replace(node, ssh_config=from_folder(node.ssh_config)) for node in file.nodes),
        underlay_line_rate_bps=file.underlay.line_rate_bps,
        bonds=file.dut.bonds,
        nics=file.nics,
    )


def to_file(testbed: Testbed) -> TestbedFile:
    """The file that reads back to an equal testbed."""
    # A cable names the bare ports. Somebody may already have written the prefix.
    links = ((link.generator.removeprefix("generator."), link.dut.removeprefix("dut.")) for link in testbed.links)
    return TestbedFile(
        name=testbed.name,
        dut=DutSection(OvsSection(**_copied(OvsSpec, testbed.ovs)), testbed.ports, testbed.bonds),
        generator=GeneratorSection(**_copied(GeneratorSpec, testbed.generator)),
        links=tuple((f"generator.{generator}", f"dut.{dut}") for generator, dut in links),
        cpus=testbed.cpus,
        vnf=VnfSection(testbed.vnf_kind),
        streams=testbed.streams,
        speakers=testbed.speakers,
        ovs=tuple((version.name, version.where) for version in testbed.ovs.versions),
        nodes=testbed.nodes,
        underlay=UnderlaySection(testbed.underlay_line_rate_bps),
        nics=testbed.nics,
        hugepages_mib=testbed.hugepages_mib,
        discovered=testbed.discovered,
    )


def _copied(kind: type[Any], data: Any) -> dict[str, Any]:
    return {each.name: getattr(data, each.name) for each in fields(kind)}


@dataclass(frozen=True)
class CpuClaim:
    """One owner's claim on CPUs, and the key it is under."""

    owner: str
    cpus: tuple[int, ...]
    path: KeyPath


def cpu_claims(file: TestbedFile) -> tuple[CpuClaim, ...]:
    """Who claims which CPUs. Keys that mean the same owner are separate claims."""
    claims = [CpuClaim(owner.name, getattr(file.cpus, owner.name), ("cpus", owner.name)) for owner in fields(CpuPlan)]
    # Nodes on other machines have CPUs of those.
    of_nodes = tuple(cpu for node in file.nodes if node.ssh is None for cpu in node.cpus)
    claims += [
        CpuClaim("pmd", file.dut.ovs.pmd_cpus, ("dut", "ovs", "pmd_cpus")),
        CpuClaim("pmd", of_nodes, ("nodes",)),
        CpuClaim("generator", file.generator.cpus, ("generator", "cpus")),
    ]
    return tuple(claim for claim in claims if claim.cpus)
