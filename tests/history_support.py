"""Histories without testbeds: series of given values, and runs that are written as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from pytest_nfvperf.model.evidence.records import KINDS, RecordIds, RunEndData, TestData, TestEndData, make_record
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
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


def write_run(
    folder: Path, number: int, rate: float, *, killed: bool = False, start_ns: int = START_NS, **facts: Any
) -> Path:
    """The results directory of a run with one outcome of this forwarding rate; with ``rate`` 0 without one."""
    ids, directory = RecordIds(), folder / f"run-{number:02}"
    directory.mkdir(parents=True)
    writer = EvidenceWriter(directory / "evidence.jsonl")
    fingerprint = {"cpu_model": "EPYC", "ovs": "3.1.0", **facts}
    samples = Samples("forwarding_rate", "pps", tuple(rate * share for share in (0.99, 0.995, 1.0, 1.0, 1.005, 1.01)))
    payloads: list[Any] = [replace(run_data(), fingerprint=fingerprint), TestData(LABELS)]
    payloads += [Outcome(LABELS, "frmol", 64.0, 2, samples=(samples,))] if rate else []
    payloads += [] if killed else [TestEndData("passed", 1.0), RunEndData(0, 2.0)]
    for place, payload in enumerate(payloads):
        test = "" if isinstance(payload, RunEndData) or not place else "t.py::rate"
        writer.emit(
            make_record(
                payload,
                id=ids.next(KINDS[type(payload)]),
                run=directory.name,
                test=test,
                time_ns=start_ns + number * MINUTE_NS + place,
            )
        )
    writer.close()
    return directory
