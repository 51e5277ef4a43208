"""One run in a history: its figures, and what they were measured on. The shape of a file (docs/history.md). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_nfvperf.model.samples import Bound
from pytest_nfvperf.model.sla.baseline import Subject
from pytest_nfvperf.model.sla.verdict import Observation

SCHEMA = 1
AT_LEAST, AT_MOST, ABOUT = Bound.AT_LEAST.value, Bound.AT_MOST.value, Bound.ABOUT.value


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        metric, unit, value: as an Observation's.
        at: the load that it belongs to; None where it belongs to none.
        low, high: its interval; None where it was not sampled.
        bound: AT_LEAST or AT_MOST where the value is only a bound, ABOUT where it is not even that; else empty.
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

    def observation(self) -> Observation:
        """As an SLA takes it."""
        return Observation(
            self.metric,
            self.value,
            self.unit,
            self.at,
            lower_bound=self.bound in {AT_LEAST, ABOUT},
            upper_bound=self.bound in {AT_MOST, ABOUT},
            bound_reason=self.bound_reason,
            low=self.low,
            high=self.high,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures of one subject. ``labels``: what sets the subject apart."""

    labels: dict[str, str]
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A run.

    Attributes:
        run: its id, which is the name of its file, too.
        when: day and minute of its start, UTC.
        started_ns: the same by the wall clock.
        result: what became of it: "accepted", "killed", ...
        testbed: its name.
        versions: of OVS, DPDK, kernel and nfvperf, as far as they are known.
        fingerprint: what must be equal for two runs to be compared.
    """

    run: str
    when: str
    started_ns: int
    result: str
    testbed: str
    versions: dict[str, str]
    measured: tuple[Measured, ...]
    fingerprint: dict[str, Any] = field(default_factory=dict)

    def observed(self) -> dict[Subject, list[Observation]]:
        """The figures by their subject, for a baseline."""
        return {
            frozenset(one.labels.items()): [figure.observation() for figure in one.figures] for one in self.measured
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


def measured(found: Mapping[Subject, Sequence[Observation]]) -> tuple[Measured, ...]:
    """The figures of a run, in an order that does not depend on the tests'; infinite ones are left out."""
    ordered = sorted((sorted(subject), seen) for subject, seen in found.items())
    kept = ((dict(labels), tuple(map(_figure, filter(_is_number, seen)))) for labels, seen in ordered)
    return tuple(Measured(labels, figures) for labels, figures in kept if figures)


def _is_number(seen: Observation) -> bool:
    return math.isfinite(seen.value)


def _figure(seen: Observation) -> Figure:
    bound = "" if seen.bound is Bound.BETWEEN else seen.bound.value  # its ends say that
    low, high = (end if end is not None and math.isfinite(end) else None for end in (seen.low, seen.high))
    return Figure(seen.metric, seen.unit, seen.value, seen.at, low, high, bound, seen.bound_reason)
