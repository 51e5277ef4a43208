"""Testbed files: reading, checking and writing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_nfvperf.config.lab_checks import port_kind
from pytest_nfvperf.config.nodes_section import nodes_section, to_nodes, underlay_section
from pytest_nfvperf.config.speakers_section import speakers_section, to_speakers
from pytest_nfvperf.config.streams_section import streams_section, to_streams
from pytest_nfvperf.config.testbed_checks import (
    NumaReader,
    SysfsNuma,
    check_testbed,
    cpu_claims,
    usable_cores,
)
from pytest_nfvperf.config.testbed_model import GeneratorModel, PortModel, TestbedModel
from pytest_nfvperf.config.trex_model import trex_section, trex_spec
from pytest_nfvperf.config.tuning_section import to_tuning, tuning_section
from pytest_nfvperf.config.units import BIT_RATE, shortest
from pytest_nfvperf.config.validate import validated
from pytest_nfvperf.config.yaml_file import Document, dump, parse_document, read_document
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import CableSpec, CpuPlan, DutBond, DutPort, GeneratorSpec, OvsSpec, Testbed

LOOPBACK = "127.0.0.1"
"""Where a TRex server listens that we start."""

_MIB = 1 << 20


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
    model = validated(TestbedModel, document)
    warnings = check_testbed(
        model, document, cores=usable_cores() if cores is None else cores, numa=numa or SysfsNuma()
    )
    return _to_testbed(model, Path(document.file).parent), warnings


def _to_testbed(model: TestbedModel, beside: Path) -> Testbed:
    ovs = model.dut.ovs
    claims = {claim.owner: claim.cpus for claim in reversed(cpu_claims(model))}
    return Testbed(
        name=model.name,
        ovs=OvsSpec(
            ovs.instance,
            ovs.prefix,
            ovs.datapath,
            tuple(ovs.other_config.items()),
            ovs.run_dir,
            ovs.hw_offload,
            ovs.tc_policy,
            to_tuning(ovs.tuning),
            tuple(NamedOvs(name, _place(where, beside)) for name, where in model.ovs.items()),
        ),
        cpus=CpuPlan(*(claims.get(owner, ()) for owner in ("housekeeping", "pmd", "generator", "vnf"))),
        ports=tuple(_to_port(port) for port in model.dut.ports),
        generator=_to_generator(model.generator, beside),
        links=tuple(CableSpec(a.removeprefix("generator."), b.removeprefix("dut.")) for a, b in model.links),
        hugepages_mib=int(model.hugepages or 0) // _MIB,
        discovered=model.discovered,
        vnf_kind=model.vnf.kind,
        streams=to_streams(model.streams, beside),
        speakers=to_speakers(model.speakers),
        nodes=to_nodes(model.nodes, beside),
        underlay_line_rate_bps=model.underlay.line_rate,
        bonds=tuple(DutBond(bond.name, bond.members, bond.mode, bond.lacp) for bond in model.dut.bonds),
    )


def _place(where: str, beside: Path) -> str:
    """A path counts from the file; what has no slash is the name of a version."""
    return str(beside / where) if "/" in where else where


def _to_generator(model: GeneratorModel, beside: Path) -> GeneratorSpec:
    recording = None if model.recording is None else str(beside / model.recording)
    return GeneratorSpec(
        engine=model.engine,
        server=model.server or (LOOPBACK if model.trex and model.trex.start else None),
        client=model.client,
        ports=model.ports,
        force=model.force,
        devices=model.devices,
        recording=recording,
        trex=trex_spec(model.trex),
    )


def _to_port(port: PortModel) -> DutPort:
    return DutPort(
        name=port.name,
        kind=port_kind(port),
        pci=port.pci,
        interface=port.interface,
        rxq=port.rxq,
        rx_descriptors=port.rx_descriptors,
        tx_descriptors=port.tx_descriptors,
        mtu=port.mtu,
        line_rate_bps=port.line_rate,
        driver=port.driver,
        representor=port.representor,
        model=port.model,
        node=port.node,
    )


def testbed_to_yaml(testbed: Testbed) -> str:
    """The testbed as the text of a file that reads back to an equal testbed. A discovered testbed is written too."""
    plan = testbed.cpus
    owners = {"housekeeping": plan.housekeeping, "pmd": plan.pmd, "generator": plan.generator, "vnf": plan.vnf}
    ovs = {
        "instance": testbed.ovs.instance,
        "prefix": testbed.ovs.prefix,
        "datapath": testbed.ovs.datapath,
        "other_config": dict(testbed.ovs.other_config) or None,
        "run_dir": testbed.ovs.run_dir,
        "hw_offload": testbed.ovs.hw_offload or None,
        "tc_policy": testbed.ovs.tc_policy,
        "tuning": tuning_section(testbed.ovs.tuning),
    }
    dut = {
        "ovs": _given(ovs),
        "ports": [_from_port(port) for port in testbed.ports] or None,
        "bonds": [_from_bond(bond) for bond in testbed.bonds] or None,
    }
    generator = {
        "engine": testbed.generator.engine,
        "server": testbed.generator.server,
        "client": testbed.generator.client,
        "ports": list(testbed.generator.ports),
        "force": testbed.generator.force or None,
        "devices": list(testbed.generator.devices) or None,
        "recording": testbed.generator.recording,
        "trex": trex_section(testbed.generator.trex),
    }
    return dump(
        _given(
            {
                "schema": 1,
                "name": testbed.name,
                "dut": _given(dut),
                "generator": _given(generator),
                "links": [_from_link(link) for link in testbed.links] or None,
                "cpus": {owner: list(cpus) for owner, cpus in owners.items() if cpus} or None,
                "speakers": speakers_section(testbed.speakers),
                "vnf": {"kind": testbed.vnf_kind} if testbed.vnf_kind else None,
                "streams": streams_section(testbed.streams),
                "ovs": {version.name: version.where for version in testbed.ovs.versions} or None,
                "nodes": nodes_section(testbed.nodes),
                "underlay": underlay_section(testbed.underlay_line_rate_bps),
                "hugepages": f"{testbed.hugepages_mib} MiB" if testbed.hugepages_mib else None,
                "discovered": testbed.discovered or None,
            }
        )
    )


testbed_to_yaml.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it for its name


def _from_link(link: CableSpec) -> list[str]:
    # A cable names the bare ports; whoever wrote the prefix already meant the same end.
    return [f"generator.{link.generator.removeprefix('generator.')}", f"dut.{link.dut.removeprefix('dut.')}"]


def _from_port(port: DutPort) -> dict[str, Any]:
    return _given(
        {
            "name": port.name,
            "kind": port.kind,
            "pci": port.pci,
            "interface": port.interface,
            "rxq": port.rxq,
            "rx_descriptors": port.rx_descriptors,
            "tx_descriptors": port.tx_descriptors,
            "mtu": port.mtu,
            "line_rate": None if port.line_rate_bps is None else shortest(port.line_rate_bps, BIT_RATE),
            "driver": port.driver,
            "representor": port.representor,
            "model": port.model,
            "node": port.node,
        }
    )


def _from_bond(bond: DutBond) -> dict[str, Any]:
    return {"name": bond.name, "members": list(bond.members), "mode": bond.mode, "lacp": bond.lacp}


def _given(mapping: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None}
