"""Runs as OpenMetrics text, by prometheus_client: what a time series database keeps of them.

docs/export.md lists the metrics; a test holds the two together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.conclusions import conclude
from pytest_nfvperf.adapters.evidence.export_columns import LABELS, Row, figure_rows, testbed_of, verdict_rows
from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.sla.verdict import Judgement

NO_CLIENT = "OpenMetrics need prometheus_client: pip install 'pytest-nfvperf[export]', or write CSV (--format csv)"
FILE = "metrics.openmetrics"
_SUBJECT = ("testbed", "test", *LABELS)

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge. ``samples`` gives those of a run; a figure that was not measured has none."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    samples: Callable[[RunEvidence], Iterator[Sample]]


def _subject(row: Row) -> tuple[str, ...]:
    return (testbed_of(row) or "", row.test.node_id, *(row.labels.get(name, "") for name in LABELS))


def _figures(run: RunEvidence) -> Iterator[Sample]:
    for row in figure_rows(run):
        found = row.found
        yield (*_subject(row), found.metric, found.at or "", found.unit, str(found.bound)), found.value


def _met(run: RunEvidence) -> Iterator[Sample]:
    for row in verdict_rows(run):
        verdict = row.found
        yield (*_subject(row), verdict.requirement), float(verdict.judgement is Judgement.PASS)


def _margins(run: RunEvidence) -> Iterator[Sample]:
    for row in verdict_rows(run):
        if row.found.margin is not None:
            yield (*_subject(row), row.found.requirement), row.found.margin


def _trials(run: RunEvidence) -> Iterator[Sample]:
    counts = Counter(str(trial.result.valid).lower() for trial in run.trials.values())
    yield from (((_name(run), valid), float(count)) for valid, count in counts.items())


def _tests(run: RunEvidence) -> Iterator[Sample]:
    counts = Counter(test.badge for test in conclude(run).tests)
    yield from (((_name(run), badge), float(count)) for badge, count in counts.items())


def _exit_status(run: RunEvidence) -> Iterator[Sample]:
    profile = run.run.profile if run.run is not None else ""
    yield (_name(run), profile), float(conclude(run).exit_status)


def _name(run: RunEvidence) -> str:
    return run.run.testbed.name if run.run is not None else ""


METRICS = (
    Metric(
        "nfvperf_figure", "a figure of an outcome, in `unit`", (*_SUBJECT, "metric", "at", "unit", "bound"), _figures
    ),
    Metric("nfvperf_requirement_met", "1 for a PASS, 0 for a FAIL or INCONCLUSIVE", (*_SUBJECT, "requirement"), _met),
    Metric(
        "nfvperf_requirement_margin_ratio",
        "(observed - limit) / |limit|, positive is better",
        (*_SUBJECT, "requirement"),
        _margins,
    ),
    Metric("nfvperf_run_trials", "how many trials the run has", ("testbed", "valid"), _trials),
    Metric("nfvperf_run_tests", "how many tests ended so", ("testbed", "badge"), _tests),
    Metric("nfvperf_run_exit_status", "exit status of the run", ("testbed", "profile"), _exit_status),
)


def export_openmetrics(runs: Sequence[RunEvidence], directory: Path) -> Path:
    """Write ``metrics.openmetrics``: each sample has the time at which its run ended.

    Args:
        runs: from ``read_run``.
        directory: made when missing.

    Raises:
        ConfigError: no prometheus_client, or the file cannot be written.
    """
    try:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra
        from prometheus_client.openmetrics import exposition  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(NO_CLIENT) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Runs(runs))
    in_text: Any = exposition.generate_latest  # it has no types
    path = directory / FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_bytes(in_text(registry))
    except OSError as error:
        raise ConfigError(f"cannot export to {directory}: {error}") from error
    return path


class _Runs:
    """What prometheus_client collects from."""

    def __init__(self, runs: Sequence[RunEvidence]) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Any]:
        """A family a metric. OpenMetrics wants the samples of one series together, oldest first, one at a time."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

        for metric in METRICS:
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            found = {(of, run.ended_ns): value for run in self._runs for of, value in metric.samples(run)}
            for (of, ended_ns), value in sorted(found.items()):
                family.add_metric(of, value, timestamp=ended_ns / 1e9)
            yield family
