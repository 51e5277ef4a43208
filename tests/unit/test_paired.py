"""Ratios from pairs: the exact interval, and state against state."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.runs.paired import (
    alike_estimate,
    alike_ratio,
    block_ratio,
    interquartile_mean,
    jackknife,
    paired_ratio,
)

RATIOS = st.lists(st.floats(0.1, 10), min_size=1, max_size=12)


def test_a_block_is_the_median_of_its_pairs() -> None:
    assert block_ratio([(2, 2), (4, 2), (1, 3)]) == 1
    assert block_ratio([(0, 2), (math.inf, 1)]) is None


@given(RATIOS)
def test_the_estimate_is_within_the_ratios_and_its_interval(ratios: list[float]) -> None:
    found = paired_ratio(ratios)
    assert min(ratios) * 0.999 <= found.ratio <= max(ratios) * 1.001
    assert found.low <= found.ratio * 1.000001
    assert found.high >= found.ratio * 0.999999


@given(RATIOS, st.floats(0.1, 10))
def test_the_estimate_follows_a_common_factor(ratios: list[float], factor: float) -> None:
    scaled = paired_ratio([ratio * factor for ratio in ratios])
    assert scaled.ratio == pytest.approx(paired_ratio(ratios).ratio * factor)


def test_the_interval_is_that_of_the_signed_rank_test() -> None:
    """Six blocks: the range of all averages has a level of 1 - 2/64; five reach 95 % with none."""
    found = paired_ratio([math.exp(at / 100) for at in range(1, 7)])
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.01, 0.06))
    assert found.confidence == pytest.approx(1 - 2 / 64)
    assert paired_ratio([1.0] * 5).high == math.inf


def test_the_level_of_the_interval_holds_over_all_signs() -> None:
    """Of all sign patterns of eight differences around 0, no more miss 0 than the level says."""
    sizes = [0.011, 0.023, 0.037, 0.041, 0.053, 0.067, 0.071, 0.083]
    missed = 0
    for signs in product((1, -1), repeat=8):
        found = paired_ratio([math.exp(sign * size) for sign, size in zip(signs, sizes, strict=True)])
        missed += not found.low <= 1 <= found.high
    assert missed / 2**8 == pytest.approx(1 - found.confidence)


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [math.inf], [-1.0]])
def test_what_is_no_ratio_is_refused(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="ratio"):
        paired_ratio(ratios)


def test_states_are_compared_with_the_same_state_only() -> None:
    """B is 10 % slower in both states, and was measured in the bad one far more often."""
    a = [{"good": [10.0] * 90, "bad": [5.0] * 10}]
    b = [{"good": [9.0] * 10, "bad": [4.5] * 90}]
    assert alike_ratio([(a, b)]) == pytest.approx(0.9)


def test_without_a_common_state_there_is_no_ratio() -> None:
    assert alike_ratio([([{"good": [1.0] * 9}], [{"bad": [1.0] * 9}])]) is None
    assert alike_ratio([([{"good": [1.0] * 2}], [{"good": [1.0] * 9}])]) is None
    assert alike_estimate([]) is None


def test_the_interval_over_blocks_holds_the_truth_as_often_as_it_says() -> None:
    """A true ratio of 0.95, blocks that differ by 2 %, windows by 5 %: 200 comparisons of eight blocks."""
    chance = random.Random(7)

    def side(rate: float, block: float) -> list[dict[str, list[float]]]:
        return [{"alone": [rate * block * chance.gauss(1, 0.05) for _ in range(40)]}]

    held = 0
    for _ in range(200):
        blocks = [(side(1.0, chance.gauss(1, 0.02)), side(0.95, chance.gauss(1, 0.02))) for _ in range(8)]
        found = alike_estimate(blocks)
        assert found is not None
        held += found.low <= 0.95 <= found.high
    assert 180 <= held <= 199


def test_few_blocks_bound_nothing() -> None:
    blocks = [([{"alone": [1.0] * 5}], [{"alone": [1.0] * 5}])] * 4
    found = alike_estimate(blocks)
    assert found is not None
    assert (found.ratio, found.low, found.high) == (1, 0, math.inf)


def test_a_block_without_which_there_is_nothing_bounds_nothing() -> None:
    assert jackknife(lambda chosen: 1.0 if 3 in chosen else None, 8) == (1.0, math.inf)
    assert jackknife(lambda _: None, 8) is None


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = jackknife(lambda chosen: sum(values[at] for at in chosen) / len(chosen), 6)
    assert found is not None
    assert found[0] == 3.5
    assert found[1] == pytest.approx(2.5706 * math.sqrt(3.5 / 6), rel=1e-3)  # t of 5 degrees of freedom


@given(st.lists(st.floats(1, 100), min_size=1, max_size=50))
def test_the_interquartile_mean_is_deaf_to_one_outlier(values: list[float]) -> None:
    found = interquartile_mean(values)
    assert min(values) <= found * 1.000001
    assert found <= max(values) * 1.000001
    if len(values) >= 4:
        assert interquartile_mean([*sorted(values)[:-1], 1e9]) <= max(values) * 1.000001
