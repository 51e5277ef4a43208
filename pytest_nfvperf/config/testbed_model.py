"""The shape of a testbed file; how it becomes a Testbed, and a Testbed a file again.

The keys of most sections are fields of the data classes of the model that hold them (``model/testbed``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pytest_nfvperf.config.validate import SchemaVersion
from pytest_nfvperf.config.yaml_file import KeyPath
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
    words,
)
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import (
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

    def place(where: str) -> str:
        """A path, or a name without a slash, which is looked up later."""
        return str(folder / where) if "/" in where else where

    ovs, generator, streams = file.dut.ovs, file.generator, file.streams
    claims = {claim.owner: claim.cpus for claim in reversed(cpu_claims(file))}
    versions = tuple(NamedOvs(name, place(where)) for name, where in file.ovs.items())
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
        streams=replace(streams, path=streams.path and place(streams.path)),
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
