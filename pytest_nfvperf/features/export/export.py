"""nfvperf export: CSV of one or many runs."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, read_run
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import GOALS, METRICS
from pytest_nfvperf.model.traffic.trial import DirectionCounts

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands


# docs/reference/export.md lists the columns. Tests compare that page with these tables.

Kind = Literal["text", "int", "float", "bool"]
Cell = str | int | float | bool | None

LABELS = ("suite", "topology", "frame_size", "flows", "direction", "datapath", "profile")


@dataclass(frozen=True, slots=True)
class ExportRow:
    """What a row is made of. ``labels``: of its subject. ``found``: the item itself."""

    run: RunEvidence
    test: TestEvidence
    id: str
    labels: Mapping[str, str]
    found: Any


@dataclass(frozen=True, slots=True)
class Column:
    """``cell`` returns None if it was not measured."""

    name: str
    kind: Kind
    meaning: str
    cell: Callable[[ExportRow], Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and what gives its rows. ``optional``: without a row it is not written."""

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[RunEvidence], Iterator[ExportRow]]
    optional: bool = False


def _testbed_of(run: RunEvidence) -> str | None:
    return run.run.testbed.name if run.run is not None else None


def _label(name: str) -> Column:
    return Column(name, "text", f"the label {name}", lambda row: row.labels.get(name))


_COMMON = (
    Column("run", "text", "id of the run", lambda row: row.run.run_id),
    Column("testbed", "text", "its testbed", lambda row: _testbed_of(row.run)),
    Column("test", "text", "pytest's node id; empty outside of tests", lambda row: row.test.node_id),
    Column("id", "text", "id of the record", lambda row: row.id),
    *map(_label, LABELS),
    Column("labels", "text", "all labels, as JSON", lambda row: json.dumps(dict(sorted(row.labels.items())))),
)


def _of(name: str, kind: Kind, meaning: str, cell: Callable[[Any], Cell]) -> Column:
    return Column(name, kind, meaning, lambda row: cell(row.found))


def _percentile(name: str, percentile: float, meaning: str) -> Column:
    def cell(trial: TrialData) -> int | None:
        latency = trial.result.latency
        return None if latency is None else latency.percentile_ns(percentile)

    return _of(name, "int", meaning, cell)


def _part(name: str, kind: Kind, meaning: str, of: str, attribute: str) -> Column:
    """A column of a part that may be missing, such as the ledger of a trial."""

    def cell(found: Any) -> Cell:
        part = getattr(found, of)
        return None if part is None else getattr(part, attribute)

    return _of(name, kind, meaning, cell)


def _goal(name: str, title: str) -> tuple[Column, Column]:
    def value(outcome: Outcome) -> float | None:
        seen = outcome.figure(name, "pps")
        return None if seen is None else seen.value

    def bound(outcome: Outcome) -> str | None:
        seen = outcome.figure(name, "pps")
        return None if seen is None else str(seen.bound)

    kinds = "what it says of the true one: empty, at least, at most, between, about"
    return (
        _of(f"{name}_fps", "float", f"{title}, frames/s per direction", value),
        _of(f"{name}_bound", "text", kinds, bound),
    )


_CYCLES = _part("cycles_per_packet", "float", "cycles of the PMD threads per packet", "cost", "pmd_cycles_per_packet")

_TRIAL = (
    _of("purpose", "text", "why it was run", lambda t: t.result.spec.purpose),
    _of("valid", "bool", "false: the rig disturbed it, and it counts for nothing", lambda t: t.result.valid),
    _of("reasons", "text", "why it is invalid", lambda t: "; ".join(map(str, t.result.invalid))),
    _of("repeat_of", "text", "id of the invalid trial that it repeats", lambda t: t.repeat_of),
    _of("load_fps", "int", "intended load, frames/s per direction", lambda t: t.result.spec.load_fps),
    _of("duration_s", "float", "how long frames were due, s", lambda t: t.result.due_s),
    _of("intended", "int", "frames due, all directions", lambda t: t.result.intended),
    _of("offered", "int", "frames that the DUT was asked to take", lambda t: t.result.offered),
    _of("sent", "int", "frames put on the ports", lambda t: t.result.sent),
    _of("received", "int", "distinct frames received", lambda t: t.result.received),
    _of("lost", "int", "offered less received", lambda t: t.result.lost),
    _of("loss_ratio", "float", "lost / offered", lambda t: t.result.loss_ratio),
    _of("own_offered", "int", "offered in undisturbed windows, or all", lambda t: t.judgement.counted.offered),
    _of("own_lost", "int", "of these lost, which is what a search is judged by", lambda t: t.judgement.counted.lost),
    _part("unexplained", "int", "lost frames that no counter explains", "ledger", "unaccounted"),
    _part(
        "of_others", "int", "frames in the counters that are not of the trial, or counted twice", "ledger", "foreign"
    ),
    _of("offered_fps", "float", "measured, frames/s per direction", lambda t: t.result.offered_fps),
    _of("received_fps", "float", "measured, frames/s per direction", lambda t: t.result.received_fps),
    _percentile("p50_ns", 50, "latency, ns, where it was asked for"),
    _percentile("p99_ns", 99, "the same"),
    _percentile("p999_ns", 99.9, "the same"),
    _CYCLES,
    _part("pmd_busy_ratio", "float", "share of the PMD threads' time spent on packets", "cost", "pmd_busy_ratio"),
    _of(
        "poll_gap_ns",
        "int",
        "longest time without a poll of the generator",
        lambda t: t.result.health.longest_poll_gap_ns,
    ),
    _of("wall_s", "float", "the trial with settling and reading counters, s", lambda t: t.wall_s),
)

_CLASS = (
    _of("class", "text", "its name", lambda c: c[0]),
    _of("path", "text", "sender and receiver", lambda c: str(c[1].direction)),
    _of("intended", "int", "frames due", lambda c: c[1].intended),
    _of("offered", "int", "frames that the DUT was asked to take", lambda c: c[1].offered),
    _of("received", "int", "distinct frames received", lambda c: c[1].received),
    _of("lost", "int", "offered less received", lambda c: c[1].lost),
    _of("corrupted", "int", "frames whose content was not what was sent", lambda c: c[1].corrupted),
    _of("p50_ns", "int", "latency, ns, where it was asked for", lambda c: _latency_of(c[1], 50)),
    _of("p99_ns", "int", "the same", lambda c: _latency_of(c[1], 99)),
    _of("outage_ns", "int", "longest time in which all its frames that were due are missing", lambda c: _outage(c[1])),
)

_OUTCOME = (
    _of("algorithm", "text", "what found it", lambda o: o.algorithm),
    _of("trials", "int", "how many trials it rests on", lambda o: len(o.trials)),
    _of("mean_frame_size", "float", "bytes with FCS; 0 for streams", lambda o: o.mean_frame_size),
    _of("ceiling_fps", "float", "the rig's own ceiling, frames/s per direction", lambda o: o.ceiling_fps),
    _of("line_rate_fps", "float", "of the ports, frames/s per direction", lambda o: o.line_rate_fps),
    *(column for name in GOALS for column in _goal(name, METRICS[name].title)),
    _CYCLES,
    _of("elapsed_s", "float", "how long the measurement took, s", lambda o: o.elapsed_s),
    _of("notes", "text", "what a reader must know", lambda o: "; ".join(o.notes)),
)

_FIGURE = (
    _of("metric", "text", "as the SLA language names it", lambda f: f.metric),
    _of("at", "text", "the load that it belongs to", lambda f: f.at),
    _of("class", "text", "the class of a mix that it is about; empty: all traffic", lambda f: f.of_class),
    _of("unit", "text", "base unit", lambda f: f.unit),
    _of("value", "float", "in the unit", lambda f: f.value),
    _of("low", "float", "lower end of the interval that the true value is in; empty: open", lambda f: f.low),
    _of("high", "float", "upper end; empty: open", lambda f: f.high),
    _of("bound", "text", "the same in words: empty, at least, at most, between, about", lambda f: str(f.bound)),
    _of("why", "text", "why it is only a bound", lambda f: f.detail),
    _of("ratio", "float", "to the baseline of its comparison", lambda f: f.relatives[0].ratio if f.relatives else None),
    _of("ratio_low", "float", "lower end of its interval", lambda f: f.relatives[0].low if f.relatives else None),
    _of("ratio_high", "float", "upper end; empty: open", lambda f: f.relatives[0].high if f.relatives else None),
)

_VERDICT = (
    _of("judgement", "text", "PASS, FAIL or INCONCLUSIVE", lambda v: v.judgement.value),
    _of("requirement", "text", "as the SLA says it", lambda v: v.requirement),
    _of("metric", "text", "what it is about", lambda v: v.metric),
    _of("unit", "text", "base unit of observed and limit", lambda v: v.unit),
    _of("observed", "float", "empty: not measured", lambda v: v.observed),
    _of("limit", "float", "of the requirement", lambda v: v.limit),
    _of("margin", "float", "(observed - limit) / |limit|, positive is better", lambda v: v.margin),
    _of("reason", "text", "of a FAIL or INCONCLUSIVE", lambda v: v.reason),
    _of("rule", "text", "file (from pytest's rootdir, as node ids) and place of the rule", lambda v: v.rule),
    _of("evidence", "text", "ids of the trials that it rests on", lambda v: " ".join(v.evidence)),
)


def _trials(run: RunEvidence) -> Iterator[ExportRow]:
    for test in run.tests.values():
        labels = dict(test.data.labels)
        yield from (ExportRow(run, test, key, labels, trial) for key, trial in test.trials.items())


def _latency_of(counts: DirectionCounts, percentile: float) -> int | None:
    return None if counts.latency is None else counts.latency.percentile_ns(percentile)


def _outage(counts: DirectionCounts) -> int | None:
    return None if counts.arrivals is None else counts.arrivals.outage_ns


def _classes(run: RunEvidence) -> Iterator[ExportRow]:
    """A row for each class of a trial, and direction."""
    for row in _trials(run):
        for each in row.found.result.classes:
            yield from (replace(row, found=(each.name, counts)) for counts in each.counts)


def _outcomes(run: RunEvidence) -> Iterator[ExportRow]:
    for test in run.tests.values():
        yield from (ExportRow(run, test, key, outcome.label, outcome) for key, outcome in test.outcomes.items())


def _figures(run: RunEvidence) -> Iterator[ExportRow]:
    for row in _outcomes(run):
        yield from (ExportRow(run, row.test, row.id, row.labels, figure) for figure in row.found.figures)


def _verdicts(run: RunEvidence) -> Iterator[ExportRow]:
    """Labels of the subject if the test has several, else of the test."""
    for test in run.tests.values():
        for key, verdict in test.verdicts.items():
            yield ExportRow(run, test, key, dict(verdict.subject) or dict(test.data.labels), verdict)


TABLES = (
    Table("trials", (*_COMMON, *_TRIAL), _trials),
    Table("classes", (*_COMMON, *_CLASS), _classes, optional=True),
    Table("outcomes", (*_COMMON, *_OUTCOME), _outcomes),
    Table("figures", (*_COMMON, *_FIGURE), _figures),
    Table("verdicts", (*_COMMON, *_VERDICT), _verdicts),
)
COMMON = tuple(column.name for column in _COMMON)


def export(runs: Sequence[RunEvidence], directory: Path) -> list[Path]:
    """Write a file a table, with the rows of all runs. Existing files are replaced.

    That of classes is only written where there are some.

    Raises:
        ConfigError: the files cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        filled = [table for table in TABLES if not table.optional or any(any(table.rows(run)) for run in runs)]
        return [_csv(table, runs, directory) for table in filled]
    except OSError as error:
        raise ConfigError(f"cannot export to {directory}: {error}") from error


def _csv(table: Table, runs: Sequence[RunEvidence], directory: Path) -> Path:
    path = directory / f"{table.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in table.columns])
        for row in (row for run in runs for row in table.rows(run)):
            cells = [column.cell(row) for column in table.columns]
            writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])
    return path


# The command.


def _add_parser(commands: Commands) -> None:
    text = "evidence as flat tables: trials, outcomes, figures, verdicts"
    parser = commands.add_parser("export", help=text, description=text)
    parser.add_argument("runs", type=path_like, nargs="*", default=[Path("reports/latest")], metavar="DIR")
    parser.add_argument("--output", type=path_like, default=Path("reports/export"), help="default: %(default)s")
    parser.set_defaults(command=_export)


EXPORT = Command(_add_parser)


def _export(arguments: argparse.Namespace) -> int:
    runs = [read_run(path.resolve()) for path in arguments.runs]
    for path in export(runs, arguments.output):
        print(path)
    return 0
