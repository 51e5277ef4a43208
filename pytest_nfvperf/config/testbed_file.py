"""Read, check and write testbed files. docs/reference/testbed-file.md says what the keys mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_nfvperf.config.testbed_checks import (
    NumaReader,
    SysfsNuma,
    check_testbed,
    cpu_claims,
    port_kind,
    usable_cores,
)
from pytest_nfvperf.config.testbed_model import (
    GeneratorModel,
    NodeModel,
    PortModel,
    StreamsModel,
    TestbedModel,
    TuningModel,
    speakers_section,
    to_speakers,
    trex_section,
    trex_spec,
)
from pytest_nfvperf.config.units import BIT_RATE, shortest
from pytest_nfvperf.config.validate import validated
from pytest_nfvperf.config.yaml_file import Document, dump, parse_document, read_document
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, NamedOvs, Tuning
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    DutBond,
    DutPort,
    FarHost,
    GeneratorSpec,
    NodeSpec,
    OvsSpec,
    StreamsSpec,
    Testbed,
)

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
    # A path counts from the file; what has no slash is the name of a version.
    places = ((name, str(beside / where) if "/" in where else where) for name, where in model.ovs.items())
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
            tuple(NamedOvs(name, where) for name, where in places),
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
        bonds=tuple(DutBond(**dict(bond)) for bond in model.dut.bonds),
    )


def _to_generator(model: GeneratorModel, beside: Path) -> GeneratorSpec:
    keys = dict(model)
    del keys["cpus"]  # the plan of CPUs has them
    keys["recording"] = None if model.recording is None else str(beside / model.recording)
    keys["server"] = model.server or (LOOPBACK if model.trex and model.trex.start else None)
    keys["trex"] = trex_spec(model.trex)
    return GeneratorSpec(**keys)


def _to_port(port: PortModel) -> DutPort:
    # A port's keys are the fields of the data class, except for the unit in one name.
    keys = {**dict(port), "kind": port_kind(port)}
    return DutPort(line_rate_bps=keys.pop("line_rate"), **keys)


def testbed_to_yaml(testbed: Testbed) -> str:
    """The testbed as the text of a file that reads back to an equal testbed."""
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
        "bonds": [{**asdict(bond), "members": list(bond.members)} for bond in testbed.bonds] or None,
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
    # A cable names the bare ports. Somebody may already have written the prefix.
    return [f"generator.{link.generator.removeprefix('generator.')}", f"dut.{link.dut.removeprefix('dut.')}"]


def _from_port(port: DutPort) -> dict[str, Any]:
    rate = port.line_rate_bps
    section = {key: getattr(port, key) for key in PortModel.model_fields if key != "line_rate"}
    return _given({**section, "line_rate": None if rate is None else shortest(rate, BIT_RATE)})


def _given(mapping: dict[str, Any]) -> dict[str, Any]:
    """Only the keys that have a value."""
    return {key: value for key, value in mapping.items() if value is not None}


# Sections ``nodes`` and ``underlay``.


def to_nodes(models: Mapping[str, NodeModel], beside: Path) -> tuple[NodeSpec, ...]:
    """The section as data. ``beside``: the folder that paths count from."""
    specs = []
    for name, node in models.items():
        host = None
        if node.ssh is not None:
            ssh_config = None if node.ssh_config is None else str(beside / node.ssh_config)
            host = FarHost(node.ssh, node.python or "python3", ssh_config)
        tuning = to_tuning(node.tuning)
        specs.append(NodeSpec(name, node.ovs, node.datapath, node.cpus, tuning, node.underlay, host))
    return tuple(specs)


def nodes_section(nodes: Sequence[NodeSpec]) -> dict[str, Any] | None:
    """The section that reads back to ``nodes``; None when there are none."""
    return {node.name: _node_section(node) for node in nodes} or None


def _node_section(node: NodeSpec) -> dict[str, Any]:
    section = {
        "ovs": node.version,
        "datapath": node.datapath,
        "cpus": list(node.cpus) or None,
        "tuning": tuning_section(node.tuning),
        "underlay": node.underlay,
        "ssh": node.host.ssh if node.host else None,
        "python": node.host.python if node.host else None,
        "ssh_config": node.host.ssh_config if node.host else None,
    }
    return _given(section)


def underlay_section(line_rate_bps: float | None) -> dict[str, Any] | None:
    """The section that reads back to this line rate."""
    return None if line_rate_bps is None else {"line_rate": shortest(line_rate_bps, BIT_RATE)}


# Section ``dut.ovs.tuning``.


def to_tuning(model: TuningModel | None) -> Tuning:
    """The section as data. Rings are keys of ports, other keys of OVS stand in ``other_config``."""
    if model is None:
        return OVS_DEFAULT
    return Tuning(**{**dict(model), "rxq_affinity": tuple(model.rxq_affinity.items())})


def tuning_section(tuning: Tuning) -> dict[str, Any] | None:
    """The section that reads back to ``tuning``; None where nothing is set."""
    names = [field.name for field in dataclasses.fields(tuning) if field.name in TuningModel.model_fields]
    section = {name: getattr(tuning, name) for name in names}
    return _given({**section, "rxq_affinity": dict(tuning.rxq_affinity) or None}) or None


# Section ``streams``.


def to_streams(model: StreamsModel, beside: Path) -> StreamsSpec:
    """The section as data. A path with a directory counts from ``beside``; a mere name is searched for later."""
    path = model.path if model.path is None or "/" not in model.path else str(beside / model.path)
    return StreamsSpec(**{**dict(model), "path": path})


def streams_section(spec: StreamsSpec) -> dict[str, Any] | None:
    """The section that reads back to ``spec``; None where nothing is set."""
    # There are usually many ports: write a range where they are one.
    ports = list(spec.ports)
    in_a_row = len(ports) > 1 and ports == list(range(ports[0], ports[-1] + 1))
    section = {
        "path": spec.path,
        "ports": f"{ports[0]}-{ports[-1]}" if in_a_row else ports,
        "client_cpus": list(spec.client_cpus),
        "server_cpus": list(spec.server_cpus),
    }
    given = {name: value for name, value in section.items() if value}
    return {"engine": spec.engine, **given} if given else None
