"""The question of a bisection, and the events so far.

Versions have numbers: 0 is the good end, the last one the bad end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.measure.cpu_profile import VIRTUAL_METRICS


class By(StrEnum):
    """What sets good from bad.

    EITHER: outcomes, where the bad end fails and the good one does not; else instructions a packet, where they differ
    and can be counted; else rates.
    """

    EITHER = "either"
    INSTRUCTIONS = "instructions"
    RATES = "rates"
    OUTCOMES = "outcomes"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        versions: names in order, the good end first and the bad one last.
        confidence: probability that one version, or one range, must reach.
        metric: only figures of this metric count; None for all.
        by: what sets good from bad.
        most_blocks: of one version, after which noise keeps its side open.
        smallest: the ends must differ in a rate by at least this part: 0.005 for 0.5 %.
        counts: instructions can be counted here: they are looked at before rates.
    """

    versions: tuple[str, ...]
    confidence: float = 0.95
    metric: str | None = None
    by: By = By.EITHER
    most_blocks: int = 32
    smallest: float = 0.005
    counts: bool = False

    @property
    def bad(self) -> int:
        """Number of the bad end."""
        return len(self.versions) - 1


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """How two versions differ in a metric of a test.

    Attributes:
        test: pytest's node id.
        metric: "forwarding_rate".
        log_ratio: natural logarithm of version over base.
        standard_error: of ``log_ratio``; what the number of blocks cannot tell of its own spread is in it.
        more_is_better: False for costs and latencies.
    """

    test: str
    metric: str
    log_ratio: float
    standard_error: float
    more_is_better: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.log_ratio) and math.isfinite(self.standard_error) and self.standard_error > 0):
            raise ValueError(f"no figure: log-ratio {self.log_ratio}, standard error {self.standard_error}")


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """A version was measured against a base, in so many blocks.

    Attributes:
        figures: those with an interval.
        again: to confirm what was found.
        note: why there is no figure.
        virtual: instructions were counted; no rate was measured.
    """

    base: int
    version: int
    blocks: int
    figures: tuple[MetricDifference, ...]
    again: bool = False
    note: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """The tests ran once on a version. ``failed``: (test, reason) of each. ``again``: to confirm what was found."""

    version: int
    passed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Unusable:
    """A version can be neither good nor bad: it does not build or start. It stays a candidate."""

    version: int
    why: str


Event = VersionComparison | Ran | Unusable


@dataclass(frozen=True, slots=True)
class Estimate:
    """A log-ratio of a version to the good end, of all its blocks."""

    value: float
    variance: float
    blocks: int

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.variance)

    def interval(self, z: float = 1.96) -> tuple[float, float, float]:
        """Ratio and its interval, as factors."""
        reach = z * self.error
        return math.exp(self.value), math.exp(self.value - reach), math.exp(self.value + reach)


def pooled(parts: Sequence[Estimate]) -> Estimate:
    """Several measurements of one version as one, each weighed by its precision."""
    weight = sum(1 / part.variance for part in parts)
    value = sum(part.value / part.variance for part in parts) / weight
    return Estimate(value, 1 / weight, sum(part.blocks for part in parts))


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one test on one version."""

    failed: int = 0
    passed: int = 0

    def __add__(self, other: Runs) -> Runs:
        return Runs(self.failed + other.failed, self.passed + other.passed)

    @property
    def count(self) -> int:
        return self.failed + self.passed


@dataclass(frozen=True, slots=True)
class BisectionSubject:
    """What a bisection goes by: a metric of a test, or (``metric`` is None) whether the test passes."""

    test: str
    metric: str | None = None

    @property
    def virtual(self) -> bool:
        """True where instructions are counted for it."""
        return self.metric in VIRTUAL_METRICS


def estimates(events: Sequence[Event], subject: BisectionSubject, *, again: bool = False) -> dict[int, Estimate]:
    """By version: what its comparisons say of the subject."""
    parts: dict[int, list[Estimate]] = {}
    for event in events:
        if isinstance(event, VersionComparison) and event.again is again:
            for figure in event.figures:
                if BisectionSubject(figure.test, figure.metric) == subject:
                    one = Estimate(figure.log_ratio, figure.standard_error**2, event.blocks)
                    parts.setdefault(event.version, []).append(one)
    return {version: pooled(found) for version, found in parts.items()}


def runs(events: Sequence[Event], test: str, *, again: bool = False) -> dict[int, Runs]:
    """By version: how often the test failed and passed."""
    found: dict[int, Runs] = {}
    for event in events:
        if isinstance(event, Ran) and event.again is again:
            failed, passed = test in dict(event.failed), test in event.passed
            if failed or passed:
                found[event.version] = found.get(event.version, Runs()) + Runs(int(failed), int(passed))
    return found


def unusable(events: Sequence[Event]) -> dict[int, str]:
    """Versions that cannot be used, and why."""
    return {event.version: event.why for event in events if isinstance(event, Unusable)}
