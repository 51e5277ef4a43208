"""Ratios from pairs: the exact interval, and the jackknife."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.measure.same_speed import block_ratio, jackknife, paired_ratio

RATIOS = st.lists(st.floats(0.1, 10), min_size=1, max_size=12)


def test_a_block_is_the_median_of_its_pairs() -> None:
    assert block_ratio([(2, 2), (4, 2), (1, 3)]) == 1
    assert block_ratio([(0, 2), (math.inf, 1)]) is None


@given(RATIOS)
def test_the_estimate_is_within_the_ratios_and_its_interval(ratios: list[float]) -> None:
    found = paired_ratio(ratios)
    assert min(ratios) * 0.999 <= found.value <= max(ratios) * 1.001
    assert found.low <= found.value * 1.000001
    assert found.high >= found.value * 0.999999


@given(RATIOS, st.floats(0.1, 10))
def test_the_estimate_follows_a_common_factor(ratios: list[float], factor: float) -> None:
    scaled = paired_ratio([ratio * factor for ratio in ratios])
    assert scaled.value == pytest.approx(paired_ratio(ratios).value * factor)


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


def test_a_block_without_which_there_is_nothing_bounds_nothing() -> None:
    assert jackknife(lambda chosen: 1.0 if 3 in chosen else None, 8) == (1.0, math.inf)
    assert jackknife(lambda _: None, 8) is None


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = jackknife(lambda chosen: sum(values[at] for at in chosen) / len(chosen), 6)
    assert found is not None
    assert found[0] == 3.5
    assert found[1] == pytest.approx(2.5706 * math.sqrt(3.5 / 6), rel=1e-3)  # t of 5 degrees of freedom
