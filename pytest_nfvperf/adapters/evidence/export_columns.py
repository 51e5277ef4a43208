"""The flat tables that evidence is exported as: their columns, each with what it means and where it comes from.

docs/export.md lists them; a test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.measure.observe import observation, observations
from pytest_nfvperf.model.measure.outcome import Cost, Outcome
from pytest_nfvperf.model.sla.verdict import Observation, Verdict

Kind = Literal["text", "int", "float", "bool"]
Cell = str | int | float | bool | None

LABELS = ("suite", "topology", "frame_size", "flows", "direction", "datapath", "profile")


@dataclass(frozen=True, slots=True)
class Row:
    """What one row is made of. ``labels``: of the subject that it is about; ``found``: the item itself."""

    run: RunEvidence
    test: TestEvidence
    id: str
    labels: Mapping[str, str]
    found: Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``cell`` returns None where the thing was not measured."""

    name: str
    kind: Kind
    meaning: str
    cell: Callable[[Row], Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and what gives its rows."""

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[RunEvidence], Iterator[Row]]


def testbed_of(row: Row) -> str | None:
    """Name of the run's testbed; None where the run record is missing."""
    return row.run.run.testbed.name if row.run.run is not None else None


def _label(name: str) -> Column:
    return Column(name, "text", f"the label {name}", lambda row: row.labels.get(name))


_COMMON = (
    Column("run", "text", "id of the run", lambda row: row.run.run_id),
    Column("testbed", "text", "its testbed", testbed_of),
    Column("test", "text", "pytest's node id; empty outside of tests", lambda row: row.test.node_id),
    Column("id", "text", "id of the record", lambda row: row.id),
    *(_label(name) for name in LABELS),
    Column("labels", "text", "all labels, as JSON", lambda row: json.dumps(dict(sorted(row.labels.items())))),
)


def _of(name: str, kind: Kind, meaning: str, cell: Callable[[Any], Cell]) -> Column:
    """A column of the item itself."""
    return Column(name, kind, meaning, lambda row: cell(row.found))


def _percentile(percentile: float) -> Callable[[TrialData], int | None]:
    def cell(trial: TrialData) -> int | None:
        latency = trial.result.latency
        return None if latency is None else latency.percentile_ns(percentile)

    return cell


def _cost(field: str) -> Callable[[TrialData | Outcome], float | None]:
    def cell(found: TrialData | Outcome) -> float | None:
        cost: Cost | None = found.cost
        return None if cost is None else getattr(cost, field)

    return cell


def _goal(name: str) -> Callable[[Outcome], float | None]:
    def cell(outcome: Outcome) -> float | None:
        seen = observation(outcome, name, "pps")
        return None if seen is None else seen.value

    return cell


def _bound(name: str) -> Callable[[Outcome], str | None]:
    def cell(outcome: Outcome) -> str | None:
        seen = observation(outcome, name, "pps")
        return None if seen is None else str(seen.bound)

    return cell


def _unexplained(trial: TrialData) -> int | None:
    return None if trial.ledger is None else trial.ledger.unaccounted


def _foreign(trial: TrialData) -> int | None:
    return None if trial.ledger is None else trial.ledger.foreign


_TRIAL = (
    _of("purpose", "text", "why it was run", lambda t: t.result.spec.purpose),
    _of("valid", "bool", "false: the rig spoiled it, and it counts for nothing", lambda t: t.result.valid),
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
    _of("own_offered", "int", "offered in undisturbed windows, or all", lambda t: t.own_offered),
    _of("own_lost", "int", "of these lost, which is what a search is judged by", lambda t: t.own_lost),
    _of("unexplained", "int", "lost frames that no counter explains", _unexplained),
    _of("of_others", "int", "frames in the counters that are not of the trial, or counted twice", _foreign),
    _of("offered_fps", "float", "measured, frames/s per direction", lambda t: t.result.offered_fps),
    _of("received_fps", "float", "measured, frames/s per direction", lambda t: t.result.received_fps),
    _of("p50_ns", "int", "latency, ns, where it was asked for", _percentile(50)),
    _of("p99_ns", "int", "the same", _percentile(99)),
    _of("p999_ns", "int", "the same", _percentile(99.9)),
    _of("cycles_per_packet", "float", "cycles of the PMD threads per packet", _cost("pmd_cycles_per_packet")),
    _of("pmd_busy_ratio", "float", "share of the PMD threads' time spent on packets", _cost("pmd_busy_ratio")),
    _of(
        "poll_gap_ns",
        "int",
        "longest time without a poll of the generator",
        lambda t: t.result.health.longest_poll_gap_ns,
    ),
    _of("wall_s", "float", "the trial with settling and reading counters, s", lambda t: t.wall_s),
)

_OUTCOME = (
    _of("algorithm", "text", "what found it", lambda o: o.algorithm),
    _of("trials", "int", "how many trials it rests on", lambda o: len(o.trials)),
    _of("mean_frame_size", "float", "bytes with FCS; 0 for streams", lambda o: o.mean_frame_size),
    _of("ceiling_fps", "float", "the rig's own ceiling, frames/s per direction", lambda o: o.ceiling_fps),
    _of("line_rate_fps", "float", "of the ports, frames/s per direction", lambda o: o.line_rate_fps),
    _of("ndr_fps", "float", "NDR, frames/s per direction", _goal("ndr")),
    _of("ndr_bound", "text", "what it says of the true one: empty, at least, at most, between, about", _bound("ndr")),
    _of("pdr_fps", "float", "PDR, frames/s per direction", _goal("pdr")),
    _of("pdr_bound", "text", "what it says of the true one: empty, at least, at most, between, about", _bound("pdr")),
    _of("throughput_fps", "float", "throughput of RFC 2544, frames/s per direction", _goal("throughput")),
    _of(
        "throughput_bound",
        "text",
        "what it says of the true one: empty, at least, at most, between, about",
        _bound("throughput"),
    ),
    _of("cycles_per_packet", "float", "cycles of the PMD threads per packet", _cost("pmd_cycles_per_packet")),
    _of("elapsed_s", "float", "how long the measurement took, s", lambda o: o.elapsed_s),
    _of("notes", "text", "what a reader must know", lambda o: "; ".join(o.notes)),
)

_FIGURE = (
    _of("metric", "text", "as the SLA language names it", lambda f: f.metric),
    _of("at", "text", "the load that it belongs to", lambda f: f.at),
    _of("unit", "text", "base unit", lambda f: f.unit),
    _of("value", "float", "in the unit", lambda f: f.value),
    _of("low", "float", "lower end of its interval, where it was sampled", lambda f: f.low),
    _of("high", "float", "upper end", lambda f: f.high),
    _of("lower_bound", "bool", "the true value is at least this", lambda f: f.lower_bound),
    _of("upper_bound", "bool", "the true value is at most this", lambda f: f.upper_bound),
    _of("bound", "text", "the same in words: empty, at least, at most, between, about", lambda f: str(f.bound)),
    _of("bound_reason", "text", "why it is only a bound", lambda f: f.bound_reason),
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


def _trials(run: RunEvidence) -> Iterator[Row]:
    for test in run.tests.values():
        labels = dict(test.data.labels)
        yield from (Row(run, test, key, labels, trial) for key, trial in test.trials.items())


def _outcomes(run: RunEvidence) -> Iterator[Row]:
    for test in run.tests.values():
        yield from (Row(run, test, key, outcome.label, outcome) for key, outcome in test.outcomes.items())


def figure_rows(run: RunEvidence) -> Iterator[Row]:
    """A row a figure of an outcome."""
    for row in _outcomes(run):
        found: tuple[Observation, ...] = observations(row.found)
        yield from (Row(run, row.test, row.id, row.labels, figure) for figure in found)


def verdict_rows(run: RunEvidence) -> Iterator[Row]:
    """A row a verdict, with the labels of what was judged."""
    for test in run.tests.values():
        for key, verdict in test.verdicts.items():
            yield Row(run, test, key, _labels_of(verdict, test), verdict)


def _labels_of(verdict: Verdict, test: TestEvidence) -> Mapping[str, str]:
    """The subject's where the test has several, else the test's."""
    return dict(verdict.subject) or dict(test.data.labels)


TABLES = (
    Table("trials", (*_COMMON, *_TRIAL), _trials),
    Table("outcomes", (*_COMMON, *_OUTCOME), _outcomes),
    Table("figures", (*_COMMON, *_FIGURE), figure_rows),
    Table("verdicts", (*_COMMON, *_VERDICT), verdict_rows),
)
COMMON = tuple(column.name for column in _COMMON)
