"""nfvperf export: runs as CSV, as series for detectors of changes, and as metrics of OpenTelemetry."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, read_run
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.features.history.trends import entries_of, write_orion, write_otava
from pytest_nfvperf.features.otlp import send
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import GOALS
from pytest_nfvperf.model.traffic.trial import DirectionCounts

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands


# docs/reference/export.md says what each column is. A test compares that page with these tables.

Cell = str | int | float | bool | None
Columns = Mapping[str, Callable[[Any], Cell]]
"""What each column has of an item; None if it was not measured."""

Item = tuple[TestEvidence, str, Mapping[str, str], Any]
"""Test, id of the record, labels of its subject, and what the further columns are about."""

LABELS = ("suite", "topology", "frame_size", "flows", "direction", "datapath", "profile")
COMMON = ("run", "testbed", "test", "id", *LABELS, "labels")


def _common(run: RunEvidence, test: TestEvidence, record_id: str, labels: Mapping[str, str]) -> list[Cell]:
    testbed = run.run.testbed.name if run.run is not None else None
    of_subject = [labels.get(name) for name in LABELS]
    return [run.run_id, testbed, test.node_id, record_id, *of_subject, json.dumps(dict(sorted(labels.items())))]


def _latency_ns(counts: TrialResult | DirectionCounts, percentile: float) -> int | None:
    return None if counts.latency is None else counts.latency.percentile_ns(percentile)


def _part(of: str, attribute: str) -> Callable[[Any], Cell]:
    """A column of a part that may be missing, such as the ledger of a trial."""

    def cell(item: Any) -> Cell:
        part = getattr(item, of)
        return None if part is None else getattr(part, attribute)

    return cell


def _goal(name: str) -> Columns:
    def of_figure(cell: Callable[[Figure], Cell]) -> Callable[[Outcome], Cell]:
        return lambda outcome: None if (figure := outcome.figure(name)) is None else cell(figure)

    return {f"{name}_fps": of_figure(lambda f: f.value), f"{name}_bound": of_figure(lambda f: str(f.bound))}


_TRIAL: Columns = {
    "purpose": lambda t: t.result.spec.purpose,
    "valid": lambda t: t.result.valid,
    "reasons": lambda t: "; ".join(map(str, t.result.invalid)),
    "repeat_of": lambda t: t.repeat_of,
    "load_fps": lambda t: t.result.spec.load_fps,
    "duration_s": lambda t: t.result.due_s,
    "intended": lambda t: t.result.intended,
    "offered": lambda t: t.result.offered,
    "sent": lambda t: t.result.sent,
    "received": lambda t: t.result.received,
    "lost": lambda t: t.result.lost,
    "loss_ratio": lambda t: t.result.loss_ratio,
    "own_offered": lambda t: t.judgement.counted.offered,
    "own_lost": lambda t: t.judgement.counted.lost,
    "unexplained": _part("ledger", "unaccounted"),
    "of_others": _part("ledger", "foreign"),
    "offered_fps": lambda t: t.result.offered_fps,
    "received_fps": lambda t: t.result.received_fps,
    "p50_ns": lambda t: _latency_ns(t.result, 50),
    "p99_ns": lambda t: _latency_ns(t.result, 99),
    "p999_ns": lambda t: _latency_ns(t.result, 99.9),
    "cycles_per_packet": _part("cost", "pmd_cycles_per_packet"),
    "pmd_busy_ratio": _part("cost", "pmd_busy_ratio"),
    "poll_gap_ns": lambda t: t.result.health.longest_poll_gap_ns,
    "wall_s": lambda t: t.wall_s,
}
_CLASS: Columns = {
    "class": lambda c: c[0],
    "path": lambda c: str(c[1].direction),
    "intended": lambda c: c[1].intended,
    "offered": lambda c: c[1].offered,
    "received": lambda c: c[1].received,
    "lost": lambda c: c[1].lost,
    "corrupted": lambda c: c[1].corrupted,
    "p50_ns": lambda c: _latency_ns(c[1], 50),
    "p99_ns": lambda c: _latency_ns(c[1], 99),
    "outage_ns": lambda c: None if c[1].arrivals is None else c[1].arrivals.outage_ns,
}
_OUTCOME: Columns = {
    "algorithm": lambda o: o.algorithm,
    "trials": lambda o: len(o.trials),
    "mean_frame_size": lambda o: o.mean_frame_size,
    "ceiling_fps": lambda o: o.ceiling_fps,
    "line_rate_fps": lambda o: o.line_rate_fps,
    **{column: cell for name in GOALS for column, cell in _goal(name).items()},
    "cycles_per_packet": _part("cost", "pmd_cycles_per_packet"),
    "elapsed_s": lambda o: o.elapsed_s,
    "notes": lambda o: "; ".join(o.notes),
}
_FIGURE: Columns = {
    "metric": lambda f: f.metric,
    "at": lambda f: f.at,
    "class": lambda f: f.of_class,
    "unit": lambda f: f.unit,
    "value": lambda f: f.value,
    "low": lambda f: f.low,
    "high": lambda f: f.high,
    "bound": lambda f: str(f.bound),
    "why": lambda f: f.detail,
    "ratio": lambda f: f.relatives[0].ratio if f.relatives else None,
    "ratio_low": lambda f: f.relatives[0].low if f.relatives else None,
    "ratio_high": lambda f: f.relatives[0].high if f.relatives else None,
}
_VERDICT: Columns = {
    "judgement": lambda v: v.judgement.value,
    "requirement": lambda v: v.requirement,
    "metric": lambda v: v.metric,
    "unit": lambda v: v.unit,
    "observed": lambda v: v.observed,
    "limit": lambda v: v.limit,
    "margin": lambda v: v.margin,
    "reason": lambda v: v.reason,
    "rule": lambda v: v.rule,
    "evidence": lambda v: " ".join(v.evidence),
}


def _trials(run: RunEvidence) -> Iterator[Item]:
    for test in run.tests.values():
        yield from ((test, key, dict(test.data.labels), trial) for key, trial in test.trials.items())


def _classes(run: RunEvidence) -> Iterator[Item]:
    """A row for each class of a trial, and direction."""
    for test, key, labels, trial in _trials(run):
        for of_class in trial.result.classes:
            yield from ((test, key, labels, (of_class.name, counts)) for counts in of_class.counts)


def _outcomes(run: RunEvidence) -> Iterator[Item]:
    for test in run.tests.values():
        yield from ((test, key, outcome.label, outcome) for key, outcome in test.outcomes.items())


def _figures(run: RunEvidence) -> Iterator[Item]:
    for test, key, labels, outcome in _outcomes(run):
        yield from ((test, key, labels, figure) for figure in outcome.figures)


def _verdicts(run: RunEvidence) -> Iterator[Item]:
    """Labels of the subject if the test has several, else of the test."""
    for test in run.tests.values():
        for key, verdict in test.verdicts.items():
            yield test, key, dict(verdict.subject) or dict(test.data.labels), verdict


TABLES: dict[str, tuple[Columns, Callable[[RunEvidence], Iterator[Item]]]] = {
    "trials": (_TRIAL, _trials),
    "classes": (_CLASS, _classes),
    "outcomes": (_OUTCOME, _outcomes),
    "figures": (_FIGURE, _figures),
    "verdicts": (_VERDICT, _verdicts),
}


def export(runs: Sequence[RunEvidence], directory: Path) -> list[Path]:
    """Write a CSV file a table, with the rows of all runs. Existing files are replaced.

    That of classes is only written where there are some.

    Raises:
        ConfigError: the files cannot be written.
    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, (columns, items) in TABLES.items():
            if name == "classes" and not any(any(items(run)) for run in runs):
                continue
            path = directory / f"{name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow([*COMMON, *columns])
                for run in runs:
                    for test, record_id, labels, item in items(run):
                        cells = [*_common(run, test, record_id, labels), *(cell(item) for cell in columns.values())]
                        writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])
            written.append(path)
    except OSError as error:
        raise ConfigError(f"cannot export to {directory}: {error}") from error
    return written


# The command.


def _add_parser(commands: Commands) -> None:
    text = "evidence for other tools: flat tables, series for Otava and orion, metrics for OpenTelemetry"
    parser = commands.add_parser("export", help=text, description=text)
    where = "results directory; for Otava and orion also a history"
    parser.add_argument("runs", type=path_like, nargs="*", default=[Path("reports/latest")], metavar="DIR", help=where)
    parser.add_argument("--output", type=path_like, default=Path("reports/export"), help="default: %(default)s")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--format", choices=("csv", *_TRENDS), default="csv", help="default: %(default)s")
    kind.add_argument("--otlp", metavar="URL", help="send to this collector instead, such as http://127.0.0.1:4318")
    parser.set_defaults(command=_export)


_TRENDS = {"otava": write_otava, "orion": write_orion}
EXPORT = Command(_add_parser)


def _export(arguments: argparse.Namespace) -> int:
    paths = [path.resolve() for path in arguments.runs]
    if arguments.format in _TRENDS:
        written = _TRENDS[arguments.format](entries_of(paths), arguments.output)
    elif arguments.otlp:
        written = []
        for run in map(read_run, paths):
            print(f"{run.run_id}: {how_many(send(run, arguments.otlp), 'data point')} sent")
    else:
        written = export([read_run(path) for path in paths], arguments.output)
    for path in written:
        print(path)
    return 0
