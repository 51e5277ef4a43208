"""Ratios of two subjects from paired readings: by block, or from windows at the same speed of the cores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean, median
from typing import TYPE_CHECKING

from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.windows import FULL_SPEED, WindowRate
from pytest_nfvperf.model.statistics import CONFIDENCE, SampleEstimate, interval_rank, student_t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]


WindowBlock = tuple[Sequence[WindowRate], Sequence[WindowRate]]
"""Windows of a and of b in one block of fresh builds; values of 0 or infinity are left out."""

FEWEST_JACKKNIFED = 5
"""Blocks: the spread of fewer is too uncertain itself."""

FEWEST_ON_A_RIG = 3
"""Blocks of either subject on every rig, from which on rigs are regression factors. With fewer, what a rig does and
what one build happened to do cannot be separated."""

AT_ITS_BEST = 0.85
"""Quantile of windows. Seventy comparisons of a DUT with itself differed by 0.75 % at 0.5, by 0.51 % at 0.75, by
0.32 % at 0.85, and by 0.36 % at 0.9."""

_SHARED = FULL_SPEED - 1
"""A core that is slowed by this has another user. No slowdown between none and this was seen, so this is a step."""

_SLOWEST = 1.0
"""What slows a core by more than a second user does is an interruption; it counts as this much."""

_LEAST_UNEXPLAINED = 0.1
"""Share of the subject that the cores' speed does not explain. With less, one was read on slow cores, the other not."""

_BISQUARE = 4.685
"""Of Tukey's weights: 95 % of the efficiency of least squares where the errors are normal."""

_SIGMA = 1.4826
"""Standard deviation over the median of absolute deviations, of normal errors."""

_LEAST_SIGMA = 1e-6
_ROUNDS = 12


# Ratios from paired readings, by block.
#
# Readings that alternate within tenths of a second share the machine's state. Pairs of one build share more, such as
# memory layout: so each block of fresh builds gives one value, and the blocks are the sample.


def block_ratio(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Median of b / a over the pairs (a, b); None without a pair of positive finite values."""
    ratios = [b / a for a, b in pairs if 0 < a < math.inf and 0 < b < math.inf]
    return median(ratios) if ratios else None


def paired_ratio(ratios: Sequence[float], confidence: float = CONFIDENCE) -> SampleEstimate:
    """Estimate a ratio from one of each block; ValueError for none, or one that is not positive and finite.

    Hodges-Lehmann's estimate for one sample, with the exact interval of Wilcoxon's signed-rank test (Hollander and
    Wolfe, 3.2 and 3.3), on logarithms: six blocks are the fewest that bound anything at 95 %.
    """
    if not ratios:
        raise ValueError("a ratio needs at least one block")
    if not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError(f"a ratio is positive and finite, unlike one of {list(ratios)}")
    logs = sorted(math.log(ratio) for ratio in ratios)
    averages = sorted((a + b) / 2 for at, a in enumerate(logs) for b in logs[at:])
    middle = math.exp(median(averages))
    rank, level = interval_rank(_signed_rank_counts(len(logs)), confidence)
    if rank == 0:
        return SampleEstimate(middle, 0.0, math.inf, level)
    return SampleEstimate(middle, math.exp(averages[rank - 1]), math.exp(averages[-rank]), level)


def jackknife(
    statistic: Callable[[Sequence[int]], float | None], blocks: int, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return a statistic of all blocks, and half its interval (Efron and Tibshirani 1993, chapter 11).

    The interval is by Student's t. None where ``statistic`` has no value of all blocks; half is infinite where it lacks
    a value without one of them, or blocks are too few.
    """
    whole = statistic(range(blocks))
    if whole is None:
        return None
    without_one = [statistic([block for block in range(blocks) if block != left_out]) for left_out in range(blocks)]
    values = [value for value in without_one if value is not None]
    if len(values) < max(blocks, FEWEST_JACKKNIFED):
        return whole, math.inf
    mean = fmean(values)
    error = math.sqrt((blocks - 1) / blocks * sum((value - mean) ** 2 for value in values))
    return whole, student_t(confidence, blocks - 1) * error


@cache
def _signed_rank_counts(n: int) -> tuple[int, ...]:
    """Number of sign patterns for each value 0 .. n(n+1)/2 of the signed-rank statistic."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for weight in range(1, n + 1):
        for value in range(len(counts) - 1, weight - 1, -1):
            counts[value] += counts[value - weight]
    return tuple(counts)


# The ratio of two subjects at the same speed of the machine's cores.
#
# One robust regression explains the logarithm of each window's value (``WindowRate``) by its subject, the slowdown of
# both cores and the rig: an analysis of covariance. Turns are in random order, so other disturbances meet both subjects
# alike.


def separable_rigs(blocks: Sequence[WindowBlock]) -> tuple[int, ...]:
    """Rigs to use as regression factors: all if each carried both subjects often enough, otherwise none.

    A rig's processes stay for a whole comparison: seen, one rig of five was 7.5 % slower than the others throughout.
    Subjects change rigs from block to block, as in a Latin square.
    """
    carried = [Counter(rig for block in blocks for rig in {window.rig for window in block[side]}) for side in (0, 1)]
    rigs = {*carried[0], *carried[1]}
    numbered = sorted(rig for rig in rigs if rig is not None)
    enough = all(count[rig] >= FEWEST_ON_A_RIG for count in carried for rig in rigs)
    return tuple(numbered) if enough and len(numbered) == len(rigs) else ()


def speed_ratio(blocks: Sequence[WindowBlock], rigs: Sequence[int] = (), best: float = AT_ITS_BEST) -> float | None:
    """B / a at the same speed of the cores, both at their best; of the middle, where the best is not known.

    ``rigs``: as of ``separable_rigs``. ``best``: quantile: AT_ITS_BEST of a rate, 1 - AT_ITS_BEST of a time. None for
    too few windows of either, or where either was read at another speed of the cores.
    """
    found = _log_ratios(blocks, rigs, best)
    return None if found is None else math.exp(found[0])


def speed_estimate(
    blocks: Sequence[WindowBlock], confidence: float = CONFIDENCE, best: float = AT_ITS_BEST
) -> SampleEstimate | None:
    """``speed_ratio`` with its interval, by leaving out one block after another; None where there is no ratio.

    Where its interval and that of the middle do not overlap, one subject itself is slower for a part of the time: then
    the middle gives the ratio.
    """
    rigs = separable_rigs(blocks)
    fitted = cache(lambda chosen: _log_ratios([blocks[number] for number in chosen], rigs, best))

    def interval(part: int) -> SampleEstimate | None:
        def of_blocks(chosen: Sequence[int]) -> float | None:
            logs = fitted(tuple(chosen))
            return None if logs is None else logs[part]

        estimate = jackknife(of_blocks, len(blocks), confidence)
        if estimate is None:
            return None
        log, reach = estimate
        if math.isinf(reach):
            return SampleEstimate(math.exp(log), 0.0, math.inf, 0.0)
        return SampleEstimate(math.exp(log), math.exp(log - reach), math.exp(log + reach), confidence)

    at_best, middle = interval(0), interval(1)
    if at_best is None or middle is None:
        return None
    contradicted = middle.high < at_best.low or at_best.high < middle.low
    return middle if contradicted else at_best


def ratios_by_block(blocks: Sequence[WindowBlock], best: float = AT_ITS_BEST) -> tuple[float, ...]:
    """Ratio of each block that has windows of both. The effect of the cores' speed is estimated from all blocks."""
    rigs = separable_rigs(blocks)
    fitted = _fit(_both(blocks, rigs))
    if fitted is None:
        return ()
    each = (_both([block], rigs) for block in blocks)
    return tuple(math.exp(_at_best(both, fitted, best)) for both in each if all(map(len, both)))


def _log_ratios(blocks: Sequence[WindowBlock], rigs: Sequence[int], best: float) -> tuple[float, float] | None:
    """Logarithms of b / a at the same speed: of their best windows, as far as they are known, and of the middle.

    No witness sees much of what the machine does, such as a neighbour that takes the memory's bandwidth. It only ever
    makes windows slower, for a tenth of a second or a block. So subjects are compared at an upper quantile of their
    windows.

    Seen in thirty comparisons of a DUT with itself, 50 s each, on a busy host: by their middle they differed by 0.6 %
    (root of the mean square); by 1.4 % where windows of the same state (core shared or not) were compared, and by 1.7 %
    where whole readings were. In seventy others, five builds in 30 s: by their middle 0.65 %, at their best 0.32 %.
    """
    both = _both(blocks, rigs)
    fitted = _fit(both)
    if fitted is None:
        return None
    middle = float(fitted[0])
    return (_at_best(both, fitted, best) if _best_is_known(blocks) else middle), middle


def _best_is_known(blocks: Sequence[WindowBlock]) -> bool:
    for subject in (0, 1):
        unrefused = [window.unrefused for block in blocks for window in block[subject]]
        if sum(unrefused) > POLICY.most_unrefused_at_best * len(unrefused):
            return False
    return True


def _at_best(both: tuple[Vector, Vector], fitted: Vector, best: float) -> float:
    """Difference of the quantiles, after subtracting the effect of the cores' speed."""
    import numpy as np  # noqa: PLC0415 - it takes long to load, for who compares only

    of_a, of_b = (float(np.quantile(side[:, -1] - side[:, 1:-1] @ fitted[1:], best)) for side in both)
    return of_b - of_a


def _both(blocks: Sequence[WindowBlock], rigs: Sequence[int]) -> tuple[Vector, Vector]:
    of_a, of_b = ([window for block in blocks for window in block[subject]] for subject in (0, 1))
    return _table(of_a, 0, rigs), _table(of_b, 1, rigs)


def _fit(both: tuple[Vector, Vector]) -> Vector | None:
    """Coefficients of the columns of ``_table``, the first that of subject b; None where there is no ``speed_ratio``.

    A shared host slows the cores of generator and DUT by up to a half, for milliseconds to seconds.
    """
    import numpy as np  # noqa: PLC0415 - it takes long to load, for who compares only

    of_a, of_b = both
    if min(len(of_a), len(of_b)) < POLICY.windows_for_a_comparison:
        return None
    table = np.concatenate([of_a, of_b])
    explaining, values = table[:, :-1], table[:, -1]
    subject, speed = explaining[:, 0], explaining[:, 1:]
    unexplained = subject - speed @ _least_squares(speed, subject, np.ones(len(subject)))
    if float(np.var(unexplained)) < _LEAST_UNEXPLAINED * float(np.var(subject)):
        return None
    return _robust(explaining, values)


def _table(windows: Sequence[WindowRate], subject: int, rigs: Sequence[int]) -> Vector:
    """A row a window: the subject, 1, terms of both cores' slowdown, the rig, and the logarithm of the value."""
    import numpy as np  # noqa: PLC0415 - it takes long to load, for who compares only

    usable = [window for window in windows if 0 < window.value < math.inf]
    rows = [(window.generator_slowed, window.dut_slowed, window.value) for window in usable]
    observed = np.array(rows, dtype=np.float64).reshape(-1, 3)
    generator, dut = (np.clip(observed[:, column], 0.0, _SLOWEST) for column in (0, 1))
    ones = np.ones(len(observed))
    shared = [np.minimum(slowed, _SHARED) for slowed in (generator, dut)]
    on = [np.array([window.rig == rig for window in usable], dtype=np.float64) for rig in rigs[1:]]
    columns = [ones * subject, ones, generator, dut, generator * dut, *shared, generator**2, dut**2, *on]
    return np.column_stack([*columns, np.log(observed[:, 2])])


def _robust(explaining: Vector, values: Vector) -> Vector:
    """Iterated least squares with Tukey's bisquare weights (Maronna and others 2019, chapters 4 and 5)."""
    import numpy as np  # noqa: PLC0415 - it takes long to load, for who compares only

    weights = np.ones(len(values))
    found = _least_squares(explaining, values, weights)
    for _ in range(_ROUNDS):
        off = values - explaining @ found
        sigma = max(_LEAST_SIGMA, _SIGMA * float(np.median(np.abs(off))))
        weights = np.clip(1 - (off / (_BISQUARE * sigma)) ** 2, 0.0, None) ** 2
        found = _least_squares(explaining, values, weights)
    return found


def _least_squares(explaining: Vector, values: Vector, weights: Vector) -> Vector:
    """The shortest solution of the normal equations: where cores are never slowed, columns are all 0."""
    import numpy as np  # noqa: PLC0415 - it takes long to load, for who compares only

    weighted = explaining * weights[:, None]
    return np.asarray(np.linalg.lstsq(weighted.T @ explaining, weighted.T @ values, rcond=1e-10)[0], dtype=np.float64)
