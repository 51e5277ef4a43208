"""Ratios from readings that were taken in pairs, in blocks. Pure.

Readings that alternate within tenths of a second share the machine's state. Pairs of one build share more, such as
where memory lies: so each block of fresh builds gives one value, and the blocks are the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean, median

from pytest_nfvperf.model.statistics import CONFIDENCE, RatioEstimate

FEWEST_JACKKNIFED = 5
"""Blocks: the spread of fewer says too little of itself."""


def block_ratio(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Median of b / a over the pairs (a, b) of one block; None without a pair of positive finite values."""
    ratios = [b / a for a, b in pairs if 0 < a < math.inf and 0 < b < math.inf]
    return median(ratios) if ratios else None


def paired_ratio(ratios: Sequence[float], confidence: float = CONFIDENCE) -> RatioEstimate:
    """The ratio behind independent ratios, one a block; ValueError for none, or one that is not positive and finite.

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
    rank, level = _interval_rank(len(logs), confidence)
    if rank == 0:
        return RatioEstimate(middle, 0.0, math.inf, level)
    return RatioEstimate(middle, math.exp(averages[rank - 1]), math.exp(averages[-rank]), level)


def jackknife(
    statistic: Callable[[Sequence[int]], float | None], blocks: int, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """A statistic of all blocks, and how far its interval reaches either way (Efron and Tibshirani 1993, chapter 11).

    The interval is by Student's t. None where all blocks hold too little; infinity where too few do without one.
    """
    from scipy.stats import t  # noqa: PLC0415 - half a second, for who compares only

    whole = statistic(range(blocks))
    if whole is None:
        return None
    others = [statistic([at for at in range(blocks) if at != left_out]) for left_out in range(blocks)]
    known = [value for value in others if value is not None]
    if len(known) < max(blocks, FEWEST_JACKKNIFED):
        return whole, math.inf
    mean = fmean(known)
    error = math.sqrt((blocks - 1) / blocks * sum((value - mean) ** 2 for value in known))
    return whole, float(t.ppf((1 + confidence) / 2, blocks - 1)) * error


def _interval_rank(n: int, confidence: float) -> tuple[int, float]:
    """Rank of the interval's ends among the averages of pairs, and its real level; rank 0 if none reaches it."""
    rank, level, tail = 0, 0.0, 0
    for at, count in enumerate(_signed_rank_counts(n)):
        tail += count
        reached = 1 - 2 * tail / 2**n
        if reached < confidence:
            break
        rank, level = at + 1, reached
    return rank, level


@cache
def _signed_rank_counts(n: int) -> tuple[int, ...]:
    """Number of sign patterns for each value 0 .. n(n+1)/2 of the signed-rank statistic."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for weight in range(1, n + 1):
        for value in range(len(counts) - 1, weight - 1, -1):
            counts[value] += counts[value - weight]
    return tuple(counts)
