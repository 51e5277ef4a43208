"""The entry of each run, series of their figures, and the changes in them.

``HistoryEntry`` and ``Acknowledgement`` define the files of a history (docs/how-to/history.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pytest_nfvperf.model.evidence.comparison import differences, unlike
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.metrics import HIGHER, LOWER, RENAMED, metric_of
from pytest_nfvperf.model.sla.verdict import Subject
from pytest_nfvperf.model.statistics import Bound

SCHEMA = 1
AT_LEAST, AT_MOST, ABOUT = Bound.AT_LEAST.value, Bound.AT_MOST.value, Bound.ABOUT.value

COMMIT = "commit"
"""Key of the versions for the commit that OVS was built from."""

LEAST_RUNS = 6
"""Runs that a series must have to be checked."""

SMALLEST = 0.03
"""Changes below this share are not reported."""

STEP_NOISE_RUNS = 2
"""Runs by which noise moves a change point: among the series that one cause changed, and as runs are added."""

_NAMED = ("suite", "test", "topology", "frame_size")
_USUAL = {"flows": "1", "direction": "bidirectional"}
_AGAIN = {"bps": "pps", "line_ratio": "pps"}
"""Units that repeat a figure, and the unit of its series."""

_Key = tuple[tuple[tuple[str, str], ...], str, str, str, int]


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """One figure, as the files of a history have it. Other fields as a Figure's.

    Attributes:
        bound: AT_LEAST or AT_MOST if the value is only a bound, ABOUT if it is not even that; else empty.
        bound_reason: why it is one.
    """

    metric: str
    unit: str
    value: float
    at: str | None = None
    low: float | None = None
    high: float | None = None
    bound: str = ""
    bound_reason: str = ""
    of_class: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", RENAMED.get(self.metric, self.metric))

    def figure(self) -> Figure:
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        found = Figure(self.metric, self.value, self.unit, low, high, at=self.at, of_class=self.of_class)
        opens_low, opens_high = self.bound in {AT_MOST, ABOUT}, self.bound in {AT_LEAST, ABOUT}
        return found.bounded(low=opens_low, high=opens_high, detail=self.bound_reason)


@dataclass(frozen=True, slots=True)
class SubjectFigures:
    """All figures of the subject with these labels."""

    labels: dict[str, str]
    figures: tuple[HistoryFigure, ...]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A run.

    Attributes:
        run: its id, and the name of its file.
        when: day and minute of its start, UTC. ``started_ns``: the same by the wall clock.
        result: "accepted", "killed", ...
        versions: of OVS, DPDK, kernel and nfvperf, and the commit of an OVS from git, as far as known.
        fingerprint: what must be equal for two runs to be compared.
    """

    run: str
    when: str
    started_ns: int
    result: str
    testbed: str
    versions: dict[str, str]
    measured: tuple[SubjectFigures, ...]
    fingerprint: dict[str, Any] = field(default_factory=dict)

    def observed(self) -> dict[Subject, list[Figure]]:
        return {
            frozenset(subject.labels.items()): [figure.figure() for figure in subject.figures]
            for subject in self.measured
        }


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A change that somebody knows of.

    Attributes:
        test: part of the name of the series.
        metric: of the series.
        at: id of the first run after the change.
        reason: for the next person.
    """

    test: str
    metric: str
    at: str
    reason: str


def measured(by_subject: Mapping[Subject, Sequence[Figure]]) -> tuple[SubjectFigures, ...]:
    """The finite figures of a run, in an order that does not depend on that of the tests; deliveries only if wrong."""
    subjects = []
    for labels, own in sorted((sorted(subject), of_it) for subject, of_it in by_subject.items()):
        figures = []
        for figure in own:
            if not math.isfinite(figure.value) or (
                metric_of(figure.metric).default_limit is not None and not figure.value
            ):
                continue
            bound = "" if figure.bound is Bound.BETWEEN else figure.bound.value  # its ends say that
            between = (None, None) if figure.low == figure.high else (figure.low, figure.high)
            low, high = (end if end is not None and math.isfinite(end) else None for end in between)
            figures.append(
                HistoryFigure(
                    metric=figure.metric,
                    unit=figure.unit,
                    value=figure.value,
                    at=figure.at,
                    low=low,
                    high=high,
                    bound=bound,
                    bound_reason=figure.detail,
                    of_class=figure.of_class,
                )
            )
        if figures:
            subjects.append(SubjectFigures(dict(labels), tuple(figures)))
    return tuple(subjects)


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """A figure of one run."""

    run: HistoryEntry
    figure: HistoryFigure


@dataclass(frozen=True, slots=True)
class FigureSeries:
    """Figures of one subject and metric on equal machines, the oldest first.

    Attributes:
        name, full_name: of the subject: without what all subjects have in common, and with all labels.
        at: the load; "" for none.
        machine: number of the machine, from 1 in the order of the runs.
    """

    name: str
    full_name: str
    metric: str
    unit: str
    at: str
    machine: int
    points: tuple[SeriesPoint, ...]

    @property
    def values(self) -> list[float]:
        return [point.figure.value for point in self.points]

    @property
    def what(self) -> str:
        """``latency_p99 at 50 % of pdr``."""
        return f"{self.metric} at {self.at}" if self.at else self.metric

    def is_about(self, test: str, metric: str = "") -> bool:
        """``test``: part of the name. ``metric``: empty for every metric."""
        return (test in self.name or test in self.full_name) and RENAMED.get(metric, metric) in ("", self.metric)


@dataclass(frozen=True, slots=True)
class MachinePeriod:
    """Runs on equal machines, the oldest first. ``differs``: how they differ from the machine before."""

    number: int
    runs: list[HistoryEntry]
    differs: tuple[str, ...] = ()


def in_order(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    return sorted(entries, key=lambda entry: (entry.started_ns, entry.run))


def machines(entries: Sequence[HistoryEntry]) -> list[MachinePeriod]:
    periods: list[MachinePeriod] = []
    for entry in in_order(entries):
        own = next((machine for machine in periods if not unlike(machine.runs[0].fingerprint, entry.fingerprint)), None)
        if own is not None:
            own.runs.append(entry)
        else:
            differs = differences(periods[-1].runs[0].fingerprint, entry.fingerprint) if periods else ()
            periods.append(MachinePeriod(len(periods) + 1, [entry], differs))
    return periods


def series_of(entries: Sequence[HistoryEntry]) -> list[FigureSeries]:
    collected: dict[_Key, list[SeriesPoint]] = {}
    for machine in machines(entries):
        for entry in machine.runs:
            for labels, figure in _figures(entry):
                key = (labels, figure.metric, figure.at or "", figure.unit, machine.number)
                collected.setdefault(key, []).append(SeriesPoint(entry, figure))
    # Short names leave out what all subjects have in common.
    shared = set.intersection(*(set(key[0]) for key in collected)) if collected else set()
    several = []
    for (labels, metric, at, unit, number), points in collected.items():
        own = tuple(label for label in labels if label not in shared or label[0] in _NAMED)
        several.append(FigureSeries(_name(own), _name(labels), metric, unit, at, number, tuple(points)))
    return sorted(several, key=lambda series: (series.full_name, series.metric, series.at, series.machine))


def _figures(entry: HistoryEntry) -> Iterator[tuple[tuple[tuple[str, str], ...], HistoryFigure]]:
    """Each figure once: a rate in frames is not repeated in bits."""
    for one in entry.measured:
        units = {(figure.metric, figure.unit) for figure in one.figures}
        for figure in one.figures:
            if (figure.metric, _AGAIN.get(figure.unit, "")) not in units:
                of_class = {"class": figure.of_class} if figure.of_class else {}
                yield tuple(sorted({**one.labels, **of_class}.items())), figure


def _name(labels: tuple[tuple[str, str], ...]) -> str:
    """``throughput/test_ndr_pdr phy2phy 64 profile=gate``."""
    known = dict(labels)
    test = "/".join(known[name] for name in ("suite", "test") if name in known)
    named = [known[name] for name in ("topology", "frame_size") if name in known]
    rest = [f"{name}={value}" for name, value in labels if name not in _NAMED and _USUAL.get(name) != value]
    return " ".join(filter(None, [test, *named, *rest])) or "-"


class ChangeMeaning(StrEnum):
    """CHANGED: nobody says which direction is better."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Step:
    """A change point.

    Attributes:
        at: index of the first point after it.
        before, after: medians between it and the neighbouring change points.
        p_value: of no change, corrected for all candidates that were tested.
        disturbed_before: number of disturbed points just before it, which were left out: the change may be among them.
    """

    at: int
    before: float
    after: float
    p_value: float
    disturbed_before: int = 0

    @property
    def earliest(self) -> int:
        """Index of the first point that can be the first after it."""
        return self.at - self.disturbed_before

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A step with its meaning.

    Attributes:
        recovered: the newest runs are as good again as those before the step.
        acknowledged: by somebody who knows of it.
    """

    step: Step
    run: str
    when: str
    direction: ChangeMeaning
    recovered: bool = False
    acknowledged: Acknowledgement | None = None

    @property
    def counts(self) -> bool:
        """True for a change for the worse that persists and that nobody acknowledged."""
        return self.direction is ChangeMeaning.WORSE and not self.recovered and self.acknowledged is None


@dataclass(frozen=True, slots=True)
class Watched:
    """A series with its changes.

    Attributes:
        why_not: why it cannot be checked; else "".
        disturbed: indices of the points that were left out, because they scatter much more than the others.
    """

    series: FigureSeries
    changes: tuple[HistoryChange, ...] = ()
    why_not: str = ""
    disturbed: frozenset[int] = frozenset()


def why_not(series: FigureSeries) -> str:
    """Why a series cannot be checked; else ""."""
    if any(value <= 0 for value in series.values):
        return "a value of 0 or below has no ratio"
    if len(series.points) < LEAST_RUNS:
        return f"too few runs: {len(series.points)} of {LEAST_RUNS}"
    return ""


def changes(
    series: FigureSeries,
    steps: Sequence[Step],
    better: str | None,
    acknowledged: Sequence[Acknowledgement],
    smallest: float = SMALLEST,
) -> tuple[HistoryChange, ...]:
    """What the steps of a series mean.

    ``better``: HIGHER, LOWER or None. ``smallest``: share below which two levels are the same.
    """
    acknowledgements = _acknowledged(series, steps, acknowledged)
    meanings = []
    for step in steps:
        first = series.points[step.at].run
        direction = ChangeMeaning.BETTER if (step.ratio > 1) == (better == HIGHER) else ChangeMeaning.WORSE
        if better is None:
            direction = ChangeMeaning.CHANGED
        # A series has recovered when its newest level is as good as the one before this step.
        now = steps[-1].after / step.before
        still_worse = now > 1 + smallest if better == LOWER else now < 1 - smallest
        recovered = direction is ChangeMeaning.WORSE and not still_worse
        meanings.append(HistoryChange(step, first.run, first.when, direction, recovered, acknowledgements.get(step.at)))
    return tuple(meanings)


def _acknowledged(
    series: FigureSeries, steps: Sequence[Step], acknowledged: Sequence[Acknowledgement]
) -> dict[int, Acknowledgement]:
    """By the index of the step. An acknowledgement covers the nearest step only."""
    indices = {point.run.run: index for index, point in enumerate(series.points)}
    by_step = {}
    for acknowledgement in acknowledged:
        if (
            not series.is_about(acknowledgement.test, acknowledgement.metric)
            or acknowledgement.at not in indices
            or not steps
        ):
            continue
        index = indices[acknowledgement.at]
        nearest = min((step.at for step in steps), key=lambda step_at: abs(step_at - index))
        if abs(nearest - index) <= STEP_NOISE_RUNS:
            by_step[nearest] = acknowledgement
    return by_step
