"""The question of a bisection, and its measurements so far, called events.

Versions have numbers: 0 is the good end, the last one the bad end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.evidence.conclusion import Fate, TestConclusion
from pytest_nfvperf.model.metrics import metric_of

_VSWITCHD_DIED = re.compile(r"\bovs-vswitchd \(pid \d+\) ")


class By(StrEnum):
    """What distinguishes good from bad.

    EITHER: outcomes, if the bad end fails and the good one does not; else instructions a packet, if they differ and can
    be counted; else rates.
    """

    EITHER = "either"
    INSTRUCTIONS = "instructions"
    RATES = "rates"
    OUTCOMES = "outcomes"


@dataclass(frozen=True, slots=True)
class Question:
    """What a bisection has to answer.

    Attributes:
        versions: names in order, the good end first and the bad one last.
        confidence: probability that one version, or one range, must reach.
        metric: only figures of this metric count; None: all.
        by: what distinguishes good from bad.
        most_blocks: of one version; after that it stays undecided.
        smallest: the ends must differ in a rate by at least this part: 0.005 for 0.5 %.
        counts_instructions: they can be counted here, and are compared before rates.
    """

    versions: tuple[str, ...]
    confidence: float = 0.95
    metric: str | None = None
    by: By = By.EITHER
    most_blocks: int = 32
    smallest: float = 0.005
    counts_instructions: bool = False

    @property
    def bad(self) -> int:
        return len(self.versions) - 1


@dataclass(frozen=True, slots=True)
class BisectionSubject:
    """What a bisection compares: a metric of a test, or (``metric`` is None) whether the test passes."""

    test: str
    metric: str | None = None

    @property
    def virtual(self) -> bool:
        return metric_of(self.metric or "").virtual


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """How two versions differ in a metric of a test.

    Attributes:
        test: pytest's node id.
        metric: "forwarding_rate".
        log_ratio: natural logarithm of version over base.
        standard_error: of ``log_ratio``; includes the uncertainty of an estimate from few blocks.
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

    @property
    def subject(self) -> BisectionSubject:
        return BisectionSubject(self.test, self.metric)


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """A version was measured against a base.

    Attributes:
        base, version: by number.
        blocks: of fresh builds.
        figures: those with an interval.
        again: to confirm the culprit.
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
    """The tests ran once on a version. ``failed``: (test, reason) of each. ``again``: to confirm the culprit."""

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
    """The log-ratio of a version to the good end, from all its blocks."""

    value: float
    variance: float
    blocks: int

    @property
    def error(self) -> float:
        return math.sqrt(self.variance)

    def interval(self) -> tuple[float, float, float]:
        """Ratio, and the ends of its interval at 95 %."""
        reach = 1.96 * self.error
        return math.exp(self.value), math.exp(self.value - reach), math.exp(self.value + reach)


def pooled(parts: Sequence[Estimate]) -> Estimate:
    """Several measurements of one version as one, each weighted by its precision."""
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


def estimates(events: Sequence[Event], subject: BisectionSubject, *, again: bool = False) -> dict[int, Estimate]:
    """The estimate of the subject by version."""
    parts: dict[int, list[Estimate]] = {}
    for event in events:
        if isinstance(event, VersionComparison) and event.again is again:
            for figure in event.figures:
                if figure.subject == subject:
                    one = Estimate(figure.log_ratio, figure.standard_error**2, event.blocks)
                    parts.setdefault(event.version, []).append(one)
    return {version: pooled(found) for version, found in parts.items()}


def runs(events: Sequence[Event], test: str, *, again: bool = False) -> dict[int, Runs]:
    """How often the test failed and passed, by version."""
    counts: dict[int, Runs] = {}
    for event in events:
        if isinstance(event, Ran) and event.again is again:
            failed, passed = test in dict(event.failed), test in event.passed
            if failed or passed:
                counts[event.version] = counts.get(event.version, Runs()) + Runs(int(failed), int(passed))
    return counts


def unusable(events: Sequence[Event]) -> dict[int, str]:
    """Unusable versions, each with its reason."""
    return {event.version: event.why for event in events if isinstance(event, Unusable)}


def failed(test: TestConclusion) -> bool:
    """True for a failed test, and for one in which the DUT's own daemon died."""
    return test.fate is Fate.FAILED or (test.fate is Fate.BROKEN and bool(_VSWITCHD_DIED.search(test.reason)))


def passed(test: TestConclusion) -> bool:
    """True for a test that passed and could have failed."""
    return test.fate is Fate.PASSED and not test.tolerated
