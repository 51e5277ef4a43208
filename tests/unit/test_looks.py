"""Planned looks at a comparison's data: all together they may take equal subjects for different ones in 5 %."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean

import pytest
from scipy.stats import multivariate_normal

from pytest_nfvperf.measure.alternation import (
    FEWEST_BLOCKS,
    LOOK_CONFIDENCE,
    LOOKS,
    BlockReadings,
    Schedule,
    read_blocks,
)
from pytest_nfvperf.measure.same_speed import jackknife, paired_ratio
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.statistics import CONFIDENCE, ratio_estimate

STUDIES, SEED = 10_000, 3


def test_the_level_is_enough_for_four_looks_evenly_spaced() -> None:
    """The sums that two looks see correlate by the root of the smaller one's share of the larger one."""
    assert LOOKS == (1, 2, 3, 4)
    bound = NormalDist().inv_cdf((1 + LOOK_CONFIDENCE) / 2)
    correlations = [[math.sqrt(min(a, b) / max(a, b)) for b in LOOKS] for a in LOOKS]
    looks = multivariate_normal(cov=correlations, seed=SEED)
    within = looks.cdf([bound] * len(LOOKS), lower_limit=[-bound] * len(LOOKS))
    assert CONFIDENCE < within < CONFIDENCE + 0.01


@pytest.mark.thorough("ten thousand simulated studies")
def test_rounds_of_equal_subjects_seldom_differ() -> None:
    """By the interval of Mann and Whitney, after 5, 10, 15 and 20 rounds."""
    rng = random.Random(SEED)

    def differs() -> bool:
        def take(number: int, block: int, left: int) -> Reading:
            return Reading({"x": rng.lognormvariate(0, 0.01)}, "t")

        def enough(so_far: BlockReadings) -> bool:
            a, b = ([each.values["x"] for block in so_far.readings(side) for each in block] for side in (0, 1))
            found.append(ratio_estimate(a, b, LOOK_CONFIDENCE).differs)
            return found[-1]

        found: list[bool] = []
        read_blocks(2, lambda _: None, take, Schedule(5, 1e9), enough=enough, elapsed_s=lambda: 0.0)
        return any(found)

    assert sum(differs() for _ in range(STUDIES)) / STUDIES < 0.05


def by_ranks(logs: Sequence[float]) -> bool:
    ratio = paired_ratio([math.exp(log) for log in logs], LOOK_CONFIDENCE)
    return ratio.low > 1 or ratio.high < 1


def by_jackknife(logs: Sequence[float]) -> bool:
    found = jackknife(lambda blocks: fmean(logs[at] for at in blocks), len(logs), LOOK_CONFIDENCE)
    assert found is not None
    return abs(found[0]) > found[1]


@pytest.mark.thorough("ten thousand simulated studies")
@pytest.mark.parametrize("told", [by_ranks, by_jackknife])
def test_blocks_of_equal_subjects_seldom_differ(told: Callable[[Sequence[float]], bool]) -> None:
    """By the interval of Wilcoxon, and by that of leaving out a block, after 8, 16, 24 and 32 blocks."""
    rng = random.Random(SEED)
    looks = Schedule(FEWEST_BLOCKS, math.inf, turns=2).looks

    def differs() -> bool:
        logs = [rng.gauss(0, 0.01) for _ in range(looks[-1])]
        return any(told(logs[:look]) for look in looks)

    assert looks[0] == FEWEST_BLOCKS
    assert sum(differs() for _ in range(STUDIES)) / STUDIES < 0.05


def test_the_first_look_bounds_a_ratio() -> None:
    assert paired_ratio([1.0] * (FEWEST_BLOCKS - 1), LOOK_CONFIDENCE).high < math.inf
