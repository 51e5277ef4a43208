"""Statistics of samples: bounds, medians, intervals, ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import combinations
from statistics import NormalDist, median

from pytest_nfvperf.model.metrics import metric_of

CONFIDENCE = 0.95

GAP_TO_WIDTH = 3.0
"""Of two bands: gap over the wider one's width. Of normal samples of 5 to 20 values fewer than 5 % show such a gap."""

SMALLEST_GAP = 0.01
"""Of two bands: gap over the median. Searches of 0.5 % width give neighbouring steps, which are no bands."""

FEWEST_FOR_A_SLOPE = 3
"""Subjects. Two make a ratio, not a line."""


class Bound(StrEnum):
    """How a value relates to the true one.

    EXACT: the best estimate, with or without an interval. BETWEEN: one end of an interval that holds the true value.
    ABOUT: the true value may lie on either side.
    """

    EXACT = ""
    AT_LEAST = "at least"
    AT_MOST = "at most"
    BETWEEN = "between"
    ABOUT = "about"

    @classmethod
    def of(cls, *, low: bool, high: bool) -> Bound:
        """By which ends are open."""
        return (cls.ABOUT if high else cls.AT_MOST) if low else (cls.AT_LEAST if high else cls.EXACT)

    @property
    def opens_low(self) -> bool:
        return self in (Bound.AT_MOST, Bound.ABOUT)

    @property
    def opens_high(self) -> bool:
        return self in (Bound.AT_LEAST, Bound.ABOUT)

    @property
    def mark(self) -> str:
        """The sign before the value in a table: ``≥ ``, ``≤ `` or ``~ ``, none of the others."""
        return {Bound.AT_LEAST: "≥ ", Bound.AT_MOST: "≤ ", Bound.ABOUT: "~ "}.get(self, "")


@dataclass(frozen=True, slots=True)
class Samples:
    """Readings of one metric on one subject, in order, in its base unit.

    Attributes:
        evidence: ids of their trials.
        bound: how the values relate to what the DUT does: AT_LEAST, AT_MOST or ABOUT where the rig bounds them.
        why: why they are only a bound, for a person.
    """

    metric: str
    unit: str
    values: tuple[float, ...]
    evidence: tuple[str, ...] = ()
    bound: Bound = Bound.EXACT
    why: str = ""

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def by_worst(self) -> bool:
        """True when one bad reading decides."""
        return metric_of(self.metric).by_worst

    @property
    def figure(self) -> float:
        """The value of verdicts, tables and the report: the median, or a decisive reading that is farthest from 1."""
        return max(self.values, key=lambda value: abs(value - 1)) if self.by_worst else self.median


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a ratio was found from readings that alternated.

    Attributes:
        blocks: of fresh builds, each of which gives one ratio.
        pairs: readings in the same turn, over all blocks.
        dropped: reasons of dropped readings, each with their number.
        noise_low, noise_high: interval of the baseline over a second build of itself: the session's noise floor.
        ratios: of each block.
        noise_ratios: of each block, the baseline over its second build.
    """

    blocks: int
    pairs: int
    dropped: tuple[tuple[str, int], ...] = ()
    noise_low: float | None = None
    noise_high: float | None = None
    ratios: tuple[float, ...] = ()
    noise_ratios: tuple[float, ...] = ()

    @property
    def bias(self) -> float:
        """How far equal subjects differ beyond their interval: 1 where they do not, else a factor above 1."""
        if self.noise_low is None or self.noise_high is None:
            return 1.0
        return max(1.0, self.noise_low, 1 / self.noise_high)


@dataclass(frozen=True, slots=True)
class Relative:
    """A subject's samples over those of a baseline measured in the same rounds or turns.

    Attributes:
        baseline: the labels in which it differs, such as (("bridges", "1"),).
        ratio: of rounds by Hodges and Lehmann, of turns at their best (measure/same_speed.py).
        low, high: its interval; ``high`` None: unbounded.
        smallest_detectable: relative difference.
        why: why an end is open though the samples are many: "generator-limited".
        baseline_value: the baseline's median.
        baseline_bound: whether the baseline is only a bound itself.
        pairing: None for rounds.
    """

    metric: str
    baseline: tuple[tuple[str, str], ...]
    ratio: float
    low: float
    high: float | None
    confidence: float
    smallest_detectable: float | None
    why: str = ""
    baseline_value: float | None = None
    baseline_bound: Bound = Bound.EXACT
    pairing: Pairing | None = None


@dataclass(frozen=True, slots=True)
class Slope:
    """How a metric changes with each one more of something, over a series of subjects.

    Attributes:
        per: what is counted, such as "bridges".
        value, low, high: change for one more, in ``unit``, with its interval.
        share, share_low, share_high: the same as a ratio of the baseline's median.
        why: why nothing bounds the slope: readings of the series are only bounds themselves.
    """

    metric: str
    unit: str
    per: str
    value: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    confidence: float
    why: str = ""


# Estimates from few values. SLAs and engineers compare by ratios. Intervals are exact rank intervals: five repeats a
# side are too few for anything that assumes a distribution.


@dataclass(frozen=True, slots=True)
class SampleEstimate:
    """What values of a sample say of the true one: a median, a slope, or the ratio of two samples b / a.

    Attributes:
        value: the best estimate.
        low, high: its interval; 0 and inf when so few values bound no ratio.
        confidence: the real level. Of a ratio at least the requested one; below it (down to 0) when no interval
            reaches it.
    """

    value: float
    low: float
    high: float
    confidence: float

    @property
    def differs(self) -> bool:
        """True when the interval of a ratio excludes 1."""
        return self.low > 1 or self.high < 1

    @property
    def smallest_detectable(self) -> float:
        """The smallest relative difference that a ratio's data could have shown, e.g. 0.02 for 2 %; inf if none."""
        if math.isinf(self.high):
            return math.inf
        return max(self.high / self.value, self.value / self.low) - 1


def ratio_estimate(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> SampleEstimate:
    """Estimate b / a from two independent samples; ValueError for none, or a value that is not positive and finite.

    The interval is the Mann-Whitney one (Hodges and Lehmann 1963; Hollander and Wolfe, 4.3): order statistics of all
    pairwise ratios. Four values a side are the fewest that bound anything at 95 %.
    """
    for value in (*a, *b):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"a ratio needs positive finite values, not {value}")
    if not a or not b:
        raise ValueError("a ratio needs at least one value a side")
    ratios = sorted(y / x for x in a for y in b)
    rank, level = interval_rank(_mann_whitney_counts(len(a), len(b)), confidence)
    if rank == 0:
        return SampleEstimate(median(ratios), 0.0, math.inf, level)
    return SampleEstimate(median(ratios), ratios[rank - 1], ratios[-rank], level)


def interval_rank(counts: Sequence[int], confidence: float) -> tuple[int, float]:
    """Rank of an exact interval's ends, counted from either end, and its real level; rank 0 if none reaches it.

    ``counts``: number of equally likely arrangements for each value of the test's statistic, from 0 on.
    """
    total = sum(counts)
    tail, rank, level = 0, 0, 0.0
    for value, count in enumerate(counts):
        tail += count
        reached = 1 - 2 * tail / total
        if reached < confidence:
            break
        rank, level = value + 1, reached
    return rank, level


@cache
def _mann_whitney_counts(n: int, m: int) -> tuple[int, ...]:
    """Number of arrangements for each value 0..n*m of U: the Gaussian binomial's coefficients."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


def student_t(confidence: float, freedom: int) -> float:
    """The value that Student's t stays within, to either side of 0, with this probability.

    Abramowitz and Stegun, 26.7.3 and 26.7.4: a finite series in the angle whose tangent is t over the root of the
    degrees of freedom. ValueError for a probability that is not between 0 and 1, or no degree of freedom.
    """
    if not 0 < confidence < 1 or freedom < 1:
        raise ValueError(f"no value of Student's t for probability {confidence} and {freedom} degrees of freedom")
    low, high = 0.0, math.pi / 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _within_angle(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within_angle(angle: float, freedom: int) -> float:
    """Probability that t is within this angle, to either side of 0."""
    odd, cosine = freedom % 2, math.cos(angle)
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (power - 1) / power
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def rule_of_three(offered: int) -> float:
    """3 / offered: the bound of the loss ratio at 95 % after no loss (How we measure, rule 5)."""
    if offered < 1:
        raise ValueError(f"rule of three needs at least one frame, not {offered}")
    return min(1.0, 3 / offered)


def trend_p_value(y: Sequence[float]) -> float:
    """Two-sided Mann-Kendall test of a trend over time; 1.0 for a constant series, ValueError for fewer than 3 values.

    Quadratic in the number of values: give it hundreds, not millions.
    """
    if len(y) < 3:
        raise ValueError(f"a trend needs 3 values or more, not {len(y)}")
    score = sum((later > earlier) - (later < earlier) for earlier, later in combinations(y, 2))
    ties = [list(y).count(value) for value in set(y)]
    n = len(y)
    if n <= 10 and max(ties) == 1:
        return _exact_kendall_p(score, n)
    variance = _kendall_variance(ties)
    if variance <= 0 or score == 0:
        return 1.0
    z = (abs(score) - 1) / math.sqrt(variance)
    return min(1.0, 2 * (1 - NormalDist().cdf(z)))


def _kendall_variance(ties: Sequence[int]) -> float:
    """Variance of Kendall's score of values without a trend. ``ties``: how often each value occurs."""
    n = sum(ties)
    return (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18


def _exact_kendall_p(score: int, n: int) -> float:
    """From the number of permutations with each number of inversions (Mahonian numbers)."""
    counts = [1]
    for size in range(2, n + 1):
        ends = range(1, len(counts) + size)
        counts = [sum(counts[max(0, end - size) : end]) for end in ends]
    pairs = n * (n - 1) // 2
    extreme = sum(count for inversions, count in enumerate(counts) if abs(pairs - 2 * inversions) >= abs(score))
    return extreme / math.factorial(n)


def median_interval(values: Sequence[float]) -> SampleEstimate:
    """The median with its interval at 95 % by the sign test: two order statistics, and the level that they really have.

    It is the whole range, at its lower level, when so few values cannot reach that.

    Five values reach 93.75 %, six 96.9 %; none is a ValueError.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    ordered, n = sorted(values), len(values)
    rank, level, tail = 0, 1 - 2 / 2**n, 1
    while rank + 1 <= (n - 1) // 2:
        tail += math.comb(n, rank + 1)
        reached = 1 - 2 * tail / 2**n
        if reached < CONFIDENCE:
            break
        rank, level = rank + 1, reached
    return SampleEstimate(median(ordered), ordered[rank], ordered[-1 - rank], max(0.0, level))


def slope_estimate(x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE) -> SampleEstimate:
    """Theil-Sen slope of y over x, where x may repeat, with Sen's interval (1968; Hollander and Wolfe, 9.3).

    Quadratic in the number of points. ValueError for unequal lengths, fewer than 3 points, or x all equal.
    """
    if len(x) != len(y) or len(x) < 3:
        raise ValueError(f"a slope needs 3 points or more of equal number, not {len(x)} and {len(y)}")
    pairs = [(i, j) for i in range(len(x)) for j in range(i + 1, len(x)) if x[i] != x[j]]
    if not pairs:
        raise ValueError("a slope needs at least two different x")
    slopes = sorted((y[j] - y[i]) / (x[j] - x[i]) for i, j in pairs)
    ties = [list(x).count(value) for value in set(x)]
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(_kendall_variance(ties))
    rank = max(0, math.floor((len(slopes) - reach) / 2))
    return SampleEstimate(median(slopes), slopes[rank], slopes[-1 - rank], confidence)


def two_bands(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The lower and the higher band if the values fall into two, each of at least two values; else None.

    A hint (How we measure, rule 11), not a statistical test.
    """
    ordered = sorted(values)
    best = max(range(2, len(ordered) - 1), key=lambda i: ordered[i] - ordered[i - 1], default=None)
    if best is None:
        return None
    low, high = ordered[:best], ordered[best:]
    gap, width = high[0] - low[-1], max(low[-1] - low[0], high[-1] - high[0])
    if gap < GAP_TO_WIDTH * width or gap <= SMALLEST_GAP * abs(median(ordered)):
        return None
    return low, high


# From samples of several subjects to ratios and slopes.


def relative(
    samples: Samples, baseline: Samples, differing: tuple[tuple[str, str], ...], confidence: float = CONFIDENCE
) -> Relative | None:
    """The ratio of two samples; None unless all values are above 0. ``differing``: the baseline's labels."""
    if not all(each.values and all(0 < value < math.inf for value in each.values) for each in (samples, baseline)):
        return None
    return bounded_ratio(ratio_estimate(baseline.values, samples.values, confidence), samples, baseline, differing)


def bounded_ratio(
    estimate: SampleEstimate, samples: Samples, baseline: Samples, differing: tuple[tuple[str, str], ...]
) -> Relative:
    """The subject's ratio from an estimate: if either side is only a bound, an end is open."""
    reasons = [samples.why, f"baseline: {baseline.why}" if baseline.why else ""]
    unbounded = math.isinf(estimate.high) or samples.bound.opens_high or baseline.bound.opens_low
    return Relative(
        metric=samples.metric,
        baseline=differing,
        ratio=estimate.value,
        low=0.0 if samples.bound.opens_low or baseline.bound.opens_high else estimate.low,
        high=None if unbounded else estimate.high,
        confidence=estimate.confidence,
        smallest_detectable=None if math.isinf(estimate.smallest_detectable) else estimate.smallest_detectable,
        why="; ".join(dict.fromkeys(filter(None, reasons))),
        baseline_value=baseline.median,
        baseline_bound=baseline.bound,
    )


def slope(series: Sequence[tuple[float, Samples]], per: str, confidence: float = CONFIDENCE) -> Slope | None:
    """The change for each one more; shares are of the first subject.

    ``series``: (how many, samples) of each subject, all of one metric. ``per``: the label that counts. None for fewer
    than three subjects, or if the first one's median is 0.
    """
    if len(series) < FEWEST_FOR_A_SLOPE or not all(samples.values for _, samples in series):
        return None
    baseline = abs(series[0][1].median)
    if not baseline:
        return None
    points = [(x, value) for x, samples in series for value in samples.values]
    estimate = slope_estimate([x for x, _ in points], [y for _, y in points], confidence)
    return Slope(
        metric=series[0][1].metric,
        unit=series[0][1].unit,
        per=per,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        share=estimate.value / baseline,
        share_low=estimate.low / baseline,
        share_high=estimate.high / baseline,
        confidence=confidence,
        why=next((samples.why for _, samples in series if samples.why), ""),
    )
