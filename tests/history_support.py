"""Histories without testbeds: series of given values, and runs that are written as evidence."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.features.history.series import (
    FigureSeries,
    HistoryEntry,
    HistoryFigure,
    SeriesPoint,
    SubjectFigures,
)
from pytest_nfvperf.model.evidence.records import (
    KINDS,
    AttachmentData,
    RecordIds,
    RunEndData,
    TestData,
    TestEndData,
    make_record,
)
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
from tests.outcomes import measured
from tests.sample_run import run_data

LABELS = (("frame_size", "64"), ("suite", "throughput"), ("test", "test_rate"), ("topology", "phy2phy"))
MINUTE_NS = 60_000_000_000
START_NS = 1_748_736_000 * 10**9
"""2025-06-01, UTC: from when on runs of histories are."""


def entry(number: int, *figures: HistoryFigure, labels: Mapping[str, str] | None = None, **facts: Any) -> HistoryEntry:
    """Run ``run-03`` of a history."""
    measured = (SubjectFigures(dict(LABELS if labels is None else labels), figures),)
    made = HistoryEntry(
        f"run-{number:02}", f"2026-11-{number:02} 09:30", number * MINUTE_NS, "passed", "lab", {}, measured
    )
    return replace(made, **facts)


def series(values: Sequence[float], bounds: Sequence[str] = (), metric: str = "pdr") -> FigureSeries:
    """A series of a run a value."""
    each = [*bounds, *[""] * (len(values) - len(bounds))]
    figures = [HistoryFigure(metric, "pps", value, bound=bound) for value, bound in zip(values, each, strict=True)]
    points = tuple(SeriesPoint(entry(number, figure), figure) for number, figure in enumerate(figures, 1))
    return FigureSeries("throughput/test_rate", "throughput/test_rate", metric, "pps", "", 1, points)


SUBJECTS = [
    {"suite": "throughput", "test": "test_ndr_pdr", "topology": topology, "frame_size": size}
    for topology in ("phy2phy", "pvp")
    for size in ("64", "512", "1518")
]
NOISY_WEEKS = (range(20, 27), range(50, 57))
"""Numbers of the runs, from 0, in which the rig was disturbed."""

PLANTED = {14: {"ovs": ("3.2.1", "3.3.0")}, 32: {"dpdk": ("23.11.1", "24.11.0")}, 45: {"kernel": ("6.1.0", "6.12.0")}}
"""By the first run after it, what changed, before and after; what changes at other runs moves nothing."""

_HARMLESS = {8: ("nfvperf", "0.2"), 16: ("nfvperf", "0.3"), 30: ("kernel", "6.1.0"), 47: ("nfvperf", "0.4")}


def sixty_runs(seed: int = 1) -> list[HistoryEntry]:
    """A run a night, six subjects with five metrics each: planted changes, noisy weeks, and a new test at the end."""
    chance = random.Random(seed)
    versions = {"ovs": "3.2.1", "dpdk": "23.11.1", "kernel": "6.0.0", "nfvperf": "0.1"}
    entries = []
    for number in range(60):
        versions |= {name: new for name, (_, new) in PLANTED.get(number, {}).items()}
        versions |= dict([_HARMLESS[number]]) if number in _HARMLESS else {}
        slower = chance.uniform(0, 0.25) if any(number in week for week in NOISY_WEEKS) else 0.0
        subjects = [SubjectFigures(labels, _nightly(chance, labels, number, slower)) for labels in SUBJECTS]
        if number > 55:
            new = {"suite": "mirror", "test": "test_rate", "topology": "phy2phy", "frame_size": "64"}
            subjects.append(SubjectFigures(new, (HistoryFigure("mirror_rate", "pps", 3e6),)))
        day = datetime.fromtimestamp(START_NS / 1e9, UTC) + timedelta(days=number)
        started_ns = int(day.timestamp()) * 10**9
        run, when = f"{day:%Y%m%d}-013000-{4000 + number}", f"{day:%Y-%m-%d} 01:30"
        entries.append(
            HistoryEntry(
                run, when, started_ns, "accepted", "lab", dict(versions), tuple(subjects), {"cpu_model": "EPYC"}
            )
        )
    return entries


def _nightly(chance: random.Random, labels: Mapping[str, str], number: int, slower: float) -> tuple[HistoryFigure, ...]:
    """``slower``: share by which a disturbance slows this run; it hits each figure more or less."""
    size, pvp = int(labels["frame_size"]), labels["topology"] == "pvp"
    rate = 7.3e6 * (0.42 if pvp else 1.0) * (64 / size) ** 0.2
    rate *= 0.92 if number >= 14 and pvp else 1.0
    rate *= 1.06 if number >= 45 and not pvp else 1.0
    rate *= 1 - slower * chance.uniform(0.7, 1.3)
    cost = 280 * (2.2 if pvp else 1.0) * (1.09 if number >= 14 and pvp else 1.0) / (1 - slower)
    latency = 42_000 * (1.25 if number >= 32 else 1.0) * (1 + 4 * slower * chance.uniform(0.5, 1.5))
    ndr, pdr = (rate * share * chance.gauss(1, 0.01) for share in (1.0, 1.05))
    return (
        HistoryFigure("ndr", "pps", ndr, low=ndr * 0.99, high=ndr * 1.01),
        HistoryFigure("pdr", "pps", pdr, low=pdr * 0.99, high=pdr * 1.01),
        HistoryFigure("latency_p99", "ns", latency * chance.gauss(1, 0.04), "50 % of pdr"),
        HistoryFigure("cycles_per_packet", "cycles", cost * chance.gauss(1, 0.008)),
        HistoryFigure("dut_cpu_seconds", "s", 10.0 * cost / 280 * chance.gauss(1, 0.02)),
    )


def write_run(
    folder: Path,
    number: int,
    rate: float,
    *,
    killed: bool = False,
    start_ns: int = START_NS,
    attached: str = "",
    **facts: Any,
) -> Path:
    """The results directory of a run with one outcome of this forwarding rate; with ``rate`` 0 without one.

    ``attached``: name of a drawing beside the evidence; "" for none.
    """
    ids, directory = RecordIds(), folder / f"run-{number:02}"
    directory.mkdir(parents=True)
    writer = EvidenceWriter(directory / "evidence.jsonl")
    fingerprint = {"cpu_model": "EPYC", "ovs": "3.1.0", **facts}
    samples = Samples("forwarding_rate", "pps", tuple(rate * share for share in (0.99, 0.995, 1.0, 1.0, 1.005, 1.01)))
    payloads: list[Any] = [replace(run_data(), fingerprint=fingerprint), TestData(LABELS)]
    payloads += [measured(Outcome(LABELS, "frmol", 64.0, 2, samples=(samples,)))] if rate else []
    payloads += [AttachmentData("drawing", "image/svg+xml", path=attached)] if attached else []
    payloads += [] if killed else [TestEndData("passed", 1.0), RunEndData(0, 2.0)]
    for index, payload in enumerate(payloads):
        test = "" if isinstance(payload, RunEndData) or not index else "t.py::rate"
        writer.emit(
            make_record(
                payload,
                id=ids.next(KINDS[type(payload)]),
                run=directory.name,
                test=test,
                time_ns=start_ns + number * MINUTE_NS + index,
            )
        )
    writer.close()
    return directory
