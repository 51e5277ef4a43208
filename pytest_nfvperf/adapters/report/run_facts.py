"""What a run was measured on and with, in words."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, worker_of
from pytest_nfvperf.model.display import format_seconds, how_many
from pytest_nfvperf.model.evidence.records import RunData
from pytest_nfvperf.model.testbed.ovs_settings import DATAPATHS
from pytest_nfvperf.model.testbed.testbed import TESTPMD, DatapathInfo

SIMULATED = "Simulated: DUT and generator are a model, and no packet was sent. No figure is of a real datapath."


def simulated_lines(run: RunEvidence) -> list[str]:
    """``SIMULATED`` for a run of ``SimulatedBackend``, which none of its readers may take for a measurement."""
    data = run.run
    if data is None or data.dut is None or data.dut.version != "simulated":
        return []
    # A recording that is played has a simulated DUT, and the answers of a real generator.
    return [SIMULATED] if data.generator is None or data.generator.engine == "fake" else []


def dut_facts(run: RunEvidence, data: RunData) -> list[tuple[str, str]]:
    """The testbed's own DUT and each that a test asked for, with installation and build.

    Equal ones share a line. Of one that differs, what differs is said.
    """
    found: list[tuple[str, DatapathInfo]] = [] if data.dut is None else [("DUT", data.dut)]
    own = None if data.dut is None else (data.dut.kind, data.dut.installation)
    others: dict[tuple[str, str], DatapathInfo] = {}
    for test in run.tests.values():
        for deployed in test.topologies.values():
            info = deployed.info
            if info is not None and (deployed.dut.version or (info.kind, info.installation) != own):
                others.setdefault((deployed.dut.version or "", info.kind), info)
    found += [(f"DUT {name} ({kind})" if name else f"DUT {kind}", info) for (name, kind), info in others.items()]
    alike: dict[str, list[tuple[str, DatapathInfo]]] = {}
    for name, info in found:
        versions, datapath, *built = _dut_parts(info)
        text = f"{versions}, {datapath}" + (f" ({'; '.join(built)})" if built else "")
        alike.setdefault(text, []).append((name, info))
    if not alike:
        return [("DUT", "not started")]
    first, *_ = alike.values()
    return [
        (
            ", ".join([of_it[0][0], *(name.removeprefix("DUT ") for name, _ in of_it[1:])]),
            _difference_text(first[0], text, *of_it[0]),
        )
        for text, of_it in alike.items()
    ]


def _dut_parts(info: DatapathInfo) -> list[str]:
    built = [f"{name} {text}" for name, text in (("from", info.origin), *info.build) if text]
    return [versions_text(info), f"{info.kind} datapath" + (f": {info.detail}" if info.detail else ""), *built]


def _difference_text(first: tuple[str, DatapathInfo], text: str, name: str, info: DatapathInfo) -> str:
    """``as DUT old, but OVS 3.5.0; from debian:trixie``; the whole text for the first, and for another datapath."""
    of_first = _dut_parts(first[1])
    own = [part for part in _dut_parts(info) if part not in of_first]
    known_names, names = ({part.partition(" ")[0] for part in _dut_parts(each)} for each in (first[1], info))
    gone = [f"no {name}" for name in sorted(known_names - names)]
    if name == first[0] or info.kind != first[1].kind or not set(of_first) & set(_dut_parts(info)):
        return text
    return f"as {first[0]}, but {'; '.join([*own, *gone])}"


def versions_text(info: DatapathInfo) -> str:
    """Such as "OVS 3.1.0 with DPDK 22.11.4"."""
    if info.kind == TESTPMD:
        return f"testpmd of DPDK {info.version}"
    of_ovs = all(kind in DATAPATHS for kind in info.kind.split("+"))  # nodes may have several
    text = f"OVS {info.version}" if of_ovs else info.version
    return text + (f" with DPDK {info.dpdk_version}" if info.dpdk_version else "")


def measured_on(run: RunEvidence) -> dict[str, list[str]]:
    """For each testbed the evidence files of the processes that measured on it, in the order of the tests."""
    files = dict.fromkeys(test.file for test in run.tests.values() if test.measured)
    found: dict[str, list[str]] = {}
    for file in files:
        if file in run.runs:
            found.setdefault(run.runs[file].testbed.name, []).append(file)
    return found


def describe_testbed(run: RunEvidence) -> list[str]:
    """``testbed r650-a measured 12 tests (gw0, gw2)``, a line each; none in a run without workers."""
    lines = []
    for name, files in measured_on(run).items():
        count = sum(test.measured and test.file in files for test in run.tests.values())
        workers = ", ".join(filter(None, map(worker_of, files)))
        if workers:
            lines.append(f"testbed {name} measured {how_many(count, 'test')} ({workers})")
    return lines


def not_for_testbed_lines(left: Mapping[str, Collection[str]]) -> list[str]:
    """Tests that were not selected, a line a reason: ``not for this testbed: 25 tests: the testbed has no NIC``."""
    return [f"not for this testbed: {how_many(len(ids), 'test')}: {reason}" for reason, ids in left.items() if ids]


def facts(run: RunEvidence, data: RunData) -> list[tuple[str, str]]:
    started = datetime.datetime.fromtimestamp(run.started_ns / 1e9, datetime.UTC)
    generator, cpus = data.generator, data.testbed.cpus
    engine = "not started" if generator is None else f"{generator.engine} {generator.version}, {generator.detail}"
    plan = [("PMD", cpus.pmd), ("generator", cpus.generator), ("VNF", cpus.vnf), ("rest", cpus.housekeeping)]
    names = list(measured_on(run))
    testbed = f"{data.testbed.name}{' (discovered)' if data.testbed.discovered else ''}"
    if len(names) > 1:
        testbed = f"{len(names)}, alike but for CPUs and devices: {', '.join(names)}"
    resumed = []
    if run.resumed:  # how much a later process took over from one that was killed
        adopted = sum(test.file in run.resumed for test in run.tests.values() if test.node_id)
        left = f"{', '.join(sorted(run.resumed))}: {how_many(adopted, 'test')} taken over from there"
        resumed = [("Resumed", f"{left}, {sum(map(bool, run.tests)) - adopted} measured afterwards")]
    return [
        *dut_facts(run, data),
        ("Generator", engine),
        ("CPUs", " · ".join(f"{name} {', '.join(map(str, owned))}" for name, owned in plan if owned)),
        ("Testbed", testbed),
        ("SLA", ", ".join(data.sla) or "those beside the suites"),
        ("Profile", data.profile),
        *(("Not selected", line.partition(": ")[2]) for line in not_for_testbed_lines(run.not_for_testbed)),
        *resumed,
        ("Started", f"{started:%Y-%m-%d %H:%M:%S} UTC, took {format_seconds(run.took_s)}"),
        ("Command", command_line(data.argv)),
    ]


def flattened(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """A nested fingerprint as (dotted name, text) pairs."""
    if not isinstance(value, dict):
        return [(prefix, str(value))]
    return [pair for key, item in value.items() for pair in flattened(item, f"{prefix}.{key}" if prefix else str(key))]


def command_line(argv: Sequence[str]) -> str:
    """As typed. The path of the program says nothing, and ``python -m pytest`` runs a file of its own."""
    if not argv:
        return ""
    program = Path(argv[0])
    name = f"python -m {program.parent.name}" if program.name == "__main__.py" else program.name
    return f"{name} {shlex.join(argv[1:])}".strip()
