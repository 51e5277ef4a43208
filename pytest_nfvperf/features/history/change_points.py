"""Change points of a series: ruptures proposes them, and tests keep those that chance does not explain.

All values are logarithms, so that a step is a share of the level before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median, pstdev

from pytest_nfvperf.features.history.series import (
    ABOUT,
    AT_LEAST,
    AT_MOST,
    LEAST_RUNS,
    SMALLEST,
    STEP_NOISE_RUNS,
    FigureSeries,
    Step,
)
from pytest_nfvperf.model.errors import ConfigError

_SIGNIFICANCE = 0.04
"""Share of series without a change in which chance alone may make us report one."""

_LEAST_AFTER = 2
"""Runs on each side that must support a step: one run that strays is no step."""

_NO_NOISE = 0.001
"""Smallest standard deviation, as a share: figures that repeat to the last digit show a step, not infinity."""

_MAD_TO_SIGMA = 1.4826
_WINDOW, _RESTLESS = 6, 3
"""Differences from run to run that are looked at together; with so many large ones the runs between are disturbed."""

_LARGE = 2.5
"""A difference is large above so many usual ones. A step is one of them; a run that strays makes two."""

_MOST_DISTURBED = 1 / 3
"""Largest share of disturbed runs: if more scatter, nothing says which of them are the usual ones."""

_TESTS = 2
"""Tests of each candidate: Student's t is the stronger one with two runs on a side, ranks if a run strays."""

_NO_RUPTURES = "change points need ruptures: pip install 'pytest-nfvperf[history]'"


def disturbed_runs(several: Sequence[FigureSeries], smallest: float = SMALLEST) -> frozenset[str]:
    """Ids of runs in which most series scatter much more than in the others: a disturbed rig says nothing of levels.

    ``several``: all series of one machine, of values above 0. A step is one large difference from run to run in many
    series; a noisy week has several in a row.
    """
    scatter: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for series in several:
        logs = [math.log(value) for value in series.values]
        steps = [abs(later - earlier) for earlier, later in pairwise(logs)]
        usual = max(_NO_NOISE, median(steps or [0.0]))
        for point, difference in zip(series.points[1:], steps, strict=True):
            scatter.setdefault((point.run.started_ns, point.run.run), []).append((difference / usual, difference))
    runs = [run for _, run in sorted(scatter)]
    relative, shares = (
        [median(differences[part] for differences in scatter[key]) for key in sorted(scatter)] for part in (0, 1)
    )
    if len(runs) < 2 * _WINDOW:
        return frozenset()
    limit, least = _LARGE * median(relative), math.log1p(smallest)
    large = [difference > limit and share > least for difference, share in zip(relative, shares, strict=True)]
    disturbed: set[str] = set()
    for start in range(len(runs) - _WINDOW + 1):
        here = [index for index in range(start, start + _WINDOW) if large[index]]
        if len(here) >= _RESTLESS:
            disturbed.update(runs[here[0] : here[-1]])
    return frozenset(disturbed) if len(disturbed) <= _MOST_DISTURBED * len(runs) else frozenset()


def steps_among(
    several: Sequence[FigureSeries], smallest: float = SMALLEST, disturbed: Mapping[int, frozenset[str]] | None = None
) -> list[list[Step]]:
    """The steps of each series. A step that few series have must be clear, the more so the more series there are.

    The p-values of the steps of all series beside one another must together be below the significance by Simes' test
    for as many hypotheses as there are series.

    ``disturbed``: ``disturbed_runs`` of each machine, by its number.

    Raises:
        ConfigError: ruptures is not installed.
    """
    left_out = [(disturbed or {}).get(series.machine, frozenset()) for series in several]
    proposed = [steps(series, smallest, out) for series, out in zip(several, left_out, strict=True)]
    runs = sorted({(point.run.started_ns, point.run.run) for series in several for point in series.points})
    order = {run: position for position, (_, run) in enumerate(runs)}
    chances: dict[tuple[int, int], list[float]] = {}
    for series, own in zip(several, proposed, strict=True):
        for step in own:
            chances.setdefault((series.machine, order[series.points[step.at].run.run]), []).append(step.p_value)
    neighbours = {
        (machine, middle): sorted(
            p for position in (middle - 1, middle, middle + 1) for p in chances.get((machine, position), [])
        )
        for machine, middle in chances
    }
    combined = {key: _simes(p_values, len(several)) for key, p_values in neighbours.items()}
    confirmed = []
    for series, own, out in zip(several, proposed, left_out, strict=True):
        clear = []
        for step in own:
            # Of two steps in a row of one series only the clearer one can be that of the others.
            second = any(
                other.p_value < step.p_value and 0 < abs(other.at - step.at) <= 2 * STEP_NOISE_RUNS for other in own
            )
            position = (series.machine, order[series.points[step.at].run.run])
            p_value = _simes([step.p_value], len(several)) if second else combined[position]
            clear += [step.at] if p_value <= _SIGNIFICANCE else []
        if len(clear) == len(own):
            confirmed.append(own)
            continue
        prepared = _Prepared(series, out)  # what is left is tested anew: levels reach further now
        confirmed.append(prepared.steps_at([prepared.indices.index(index) for index in clear], smallest))
    return confirmed


def _simes(p_values: Sequence[float], hypotheses: int) -> float:
    """The p-value of all together. ``p_values``: the smallest first."""
    return min(hypotheses * p_value / rank for rank, p_value in enumerate(p_values, 1))


def steps(series: FigureSeries, smallest: float = SMALLEST, disturbed: frozenset[str] = frozenset()) -> list[Step]:
    """The steps of a series, the oldest first; none if it is too short.

    ``series``: of values above 0. ``smallest``: share below which a difference of medians is no step. ``disturbed``:
    ids of runs to leave out.

    Raises:
        ConfigError: ruptures is not installed.
    """
    prepared = _Prepared(series, disturbed)
    if len(prepared.logs) < LEAST_RUNS:
        return []
    return prepared.steps_at(_proposed(prepared.logs), smallest)


class _Prepared:
    """Logarithms and bounds of a series without its disturbed runs; ``indices`` are theirs in the series."""

    def __init__(self, series: FigureSeries, disturbed: frozenset[str]) -> None:
        self.indices = [index for index, point in enumerate(series.points) if point.run.run not in disturbed]
        figures = [series.points[index].figure for index in self.indices]
        self.logs = [math.log(figure.value) for figure in figures]
        self.bounds = [figure.bound for figure in figures]

    def steps_at(self, indices: Sequence[int], smallest: float) -> list[Step]:
        """The steps at those of these indices that chance does not explain. The indices are among the logarithms."""
        left = list(indices)
        while left:
            tested = _tested(self.logs, self.bounds, left, smallest)
            weakest = max(tested, key=lambda step: step.p_value)
            if weakest.p_value <= _SIGNIFICANCE:
                return [self.restored(step) for step in tested]
            left.remove(weakest.at)
        return []

    def restored(self, step: Step) -> Step:
        """With its index in the series."""
        at = self.indices[step.at]
        return replace(step, at=at, disturbed_before=at - self.indices[step.at - 1] - 1)


def _proposed(logs: Sequence[float]) -> list[int]:
    """More candidates than there are steps: the tests choose among them."""
    import numpy as np  # noqa: PLC0415 - it takes long to load

    try:
        import ruptures  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(_NO_RUPTURES) from error
    # The noise is the standard deviation from neighbour to neighbour, so that steps do not count as noise.
    differences = [abs(later - earlier) for earlier, later in pairwise(logs)]
    noise = max(_NO_NOISE, median(differences) * _MAD_TO_SIGMA / math.sqrt(2))
    found = ruptures.KernelCPD(kernel="linear", min_size=_LEAST_AFTER).fit(np.array(logs)[:, None])
    return [int(index) for index in found.predict(pen=2 * math.log(len(logs)) * noise**2)[:-1]]


def _tested(logs: Sequence[float], bounds: Sequence[str], indices: Sequence[int], smallest: float) -> list[Step]:
    """Test each candidate against its neighbours."""
    edges = [0, *indices, len(logs)]
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
    from scipy import special  # noqa: PLC0415 - it takes long to load

    n, m = len(before), len(after)
    pooled = math.sqrt((n * pstdev(before) ** 2 + m * pstdev(after) ** 2) / (n + m - 2))
    t = (fmean(after) - fmean(before)) / (max(pooled, _NO_NOISE) * math.sqrt(1 / n + 1 / m))
    by_t = 2 * float(special.stdtr(n + m - 2, -abs(t)))
    if len({*before, *after}) == n + m and by_t <= _least_by_ranks(n, m):
        return by_t  # most steps are so clear, and scipy takes a millisecond for the other test
    from scipy import stats  # noqa: PLC0415 - as above

    return min(by_t, float(stats.mannwhitneyu(before, after, alternative="two-sided").pvalue))


def _least_by_ranks(n: int, m: int) -> float:
    """A probability that Mann-Whitney's test cannot go below for so many values without ties, exact or by a normal."""
    largest = (n * m / 2 - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)
    return min(2 / math.comb(n + m, n), math.erfc(largest / math.sqrt(2)))
