"""Changes in the series of a history: which are told, and which make a check fail. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.compare.decision import HIGHER, LOWER
from pytest_nfvperf.model.history.entry import Acknowledgement
from pytest_nfvperf.model.history.series import Series

LEAST_RUNS = 6
"""Runs that a series must have before anything is said of it."""

SMALLEST = 0.03
"""Changes below this share are not told."""

_MOVED = 2
"""Runs by which a change may move as more runs come in, and still be the one that was acknowledged."""


class Direction(StrEnum):
    """What a change means. CHANGED: nobody says which way is better."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Step:
    """A change point.

    Attributes:
        at: index of the first point after it.
        before, after: medians between it and the neighbouring change points.
        p_value: of no change at all, corrected for all places that were looked at.
    """

    at: int
    before: float
    after: float
    p_value: float

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Change:
    """A step with what it means.

    Attributes:
        recovered: the newest runs are as good again as those before the step.
        acknowledged: by whoever knows of it.
    """

    step: Step
    run: str
    when: str
    direction: Direction
    recovered: bool = False
    acknowledged: Acknowledgement | None = None

    @property
    def counts(self) -> bool:
        """True for a change for the worse that is still there, and that nobody acknowledged."""
        return self.direction is Direction.WORSE and not self.recovered and self.acknowledged is None


@dataclass(frozen=True, slots=True)
class Watched:
    """A series with its changes. ``why_not``: why nothing can be said of it; else empty."""

    series: Series
    changes: tuple[Change, ...] = ()
    why_not: str = ""


def why_not(series: Series) -> str:
    """Why nothing can be said of a series, or an empty text."""
    if any(value <= 0 for value in series.values):
        return "a value of 0 or below has no ratio"
    if len(series.points) < LEAST_RUNS:
        return f"too few runs: {len(series.points)} of {LEAST_RUNS}"
    return ""


def changes(
    series: Series,
    steps: Sequence[Step],
    better: str | None,
    acknowledged: Sequence[Acknowledgement],
    smallest: float = SMALLEST,
) -> tuple[Change, ...]:
    """What the steps of a series mean.

    Args:
        series: that they are of.
        steps: in order.
        better: HIGHER, LOWER or None.
        acknowledged: of the whole history.
        smallest: share below which a level is the same as another.
    """
    known = _acknowledged(series, steps, acknowledged)
    found = []
    for step in steps:
        first = series.points[step.at].run
        direction = _direction(step.ratio, better)
        now = steps[-1].after / step.before
        recovered = direction is Direction.WORSE and not _is_worse(now, better, smallest)
        found.append(Change(step, first.run, first.when, direction, recovered, known.get(step.at)))
    return tuple(found)


def _direction(ratio: float, better: str | None) -> Direction:
    if better is None:
        return Direction.CHANGED
    return Direction.BETTER if (ratio > 1) == (better == HIGHER) else Direction.WORSE


def _is_worse(ratio: float, better: str | None, smallest: float) -> bool:
    return ratio > 1 + smallest if better == LOWER else ratio < 1 - smallest


def _acknowledged(
    series: Series, steps: Sequence[Step], acknowledged: Sequence[Acknowledgement]
) -> dict[int, Acknowledgement]:
    """By the place of the step: an acknowledgement is about the one nearest to it, and about no other."""
    places = {point.run.run: place for place, point in enumerate(series.points)}
    found = {}
    for each in acknowledged:
        if not series.is_about(each.test, each.metric) or each.at not in places or not steps:
            continue
        place = places[each.at]
        nearest = min((step.at for step in steps), key=lambda at: abs(at - place))
        if abs(nearest - place) <= _MOVED:
            found[nearest] = each
    return found
