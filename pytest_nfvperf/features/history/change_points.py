"""Change points of a series: ruptures proposes them, and tests keep those that chance does not explain.

All values are logarithms, so that a step is a share of the level before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev

from pytest_nfvperf.features.history.series import ABOUT, AT_LEAST, AT_MOST, LEAST_RUNS, SMALLEST, FigureSeries, Step
from pytest_nfvperf.model.errors import ConfigError

_SIGNIFICANCE = 0.04
"""Share of series without a change in which chance alone may make us report one."""

_LEAST_AFTER = 2
"""Runs on each side that must support a step: one run that strays is no step."""

_NO_NOISE = 0.001
"""Smallest standard deviation, as a share: figures that repeat to the last digit show a step, not infinity."""

_MAD_TO_SIGMA = 1.4826
_TESTS = 2
"""Tests of each place: Student's t is the stronger one with two runs on a side, ranks if a run strays."""

_NO_RUPTURES = "change points need ruptures: pip install 'pytest-nfvperf[history]'"


def steps(series: FigureSeries, smallest: float = SMALLEST) -> list[Step]:
    """The steps of a series, the oldest first; none if it is too short.

    ``series``: of values above 0. ``smallest``: share below which a difference of medians is no step.

    Raises:
        ConfigError: ruptures is not installed.
    """
    if len(series.points) < LEAST_RUNS:
        return []
    logs = [math.log(value) for value in series.values]
    bounds = [point.figure.bound for point in series.points]
    places = _proposed(logs)
    while places:
        tested = _tested(logs, bounds, places, smallest)
        weakest = max(tested, key=lambda step: step.p_value)
        if weakest.p_value <= _SIGNIFICANCE:
            return tested
        places.remove(weakest.at)
    return []


def _proposed(logs: Sequence[float]) -> list[int]:
    """More places than there are steps: the tests choose among them."""
    import numpy as np  # noqa: PLC0415 - it takes long to load

    try:
        import ruptures  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(_NO_RUPTURES) from error
    # The noise is the standard deviation from neighbour to neighbour, so that steps do not count as noise.
    apart = [abs(later - earlier) for earlier, later in pairwise(logs)]
    noise = max(_NO_NOISE, median(apart) * _MAD_TO_SIGMA / math.sqrt(2))
    found = ruptures.KernelCPD(kernel="linear", min_size=_LEAST_AFTER).fit(np.array(logs)[:, None])
    return [int(place) for place in found.predict(pen=2 * math.log(len(logs)) * noise**2)[:-1]]


def _tested(logs: Sequence[float], bounds: Sequence[str], places: Sequence[int], smallest: float) -> list[Step]:
    """Test each place against its neighbours."""
    edges = [0, *places, len(logs)]
    looked_at = len(logs) - 2 * _LEAST_AFTER + 1
    tested = []
    for start, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = logs[start:at], logs[at:end]
        low, high = median(before), median(after)
        p_value = 1.0
        is_small = abs(high - low) <= math.log1p(smallest)
        supported = _supported(before, bounds[start:at], low, high) and _supported(after, bounds[at:end], high, low)
        if supported and not is_small:
            p_value = min(1.0, _chance(before, after) * looked_at * _TESTS)
        tested.append(Step(at, math.exp(low), math.exp(high), p_value))
    return tested


def _supported(logs: Sequence[float], bounds: Sequence[str], own: float, other: float) -> bool:
    """True if enough runs are nearer to their own level than to the other side's.

    A figure of "at least 4 Mpps" is no evidence of a level below that of the other side.
    """
    hidden = {AT_LEAST if own < other else AT_MOST, ABOUT}
    supporting = [
        value
        for value, bound in zip(logs, bounds, strict=True)
        if bound not in hidden and abs(value - own) < abs(value - other)
    ]
    return len(supporting) >= _LEAST_AFTER


def _chance(before: Sequence[float], after: Sequence[float]) -> float:
    """Probability that both sides have one level: the smaller of Student's t and Mann-Whitney's."""
    from scipy import stats  # noqa: PLC0415 - it takes long to load

    n, m = len(before), len(after)
    pooled = math.sqrt((n * pstdev(before) ** 2 + m * pstdev(after) ** 2) / (n + m - 2))
    t = (fmean(after) - fmean(before)) / (max(pooled, _NO_NOISE) * math.sqrt(1 / n + 1 / m))
    by_t = 2 * float(stats.t.sf(abs(t), n + m - 2))
    return min(by_t, float(stats.mannwhitneyu(before, after, alternative="two-sided").pvalue))
