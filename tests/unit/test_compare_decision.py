"""What a ratio with its interval says of a side: the words, by their definition, for every ratio there is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.measure.compare import (
    LEAST_DIFFERENCE,
    MetricComparison,
    SideFigures,
    Word,
    compare_metric,
    decide,
    noise_floor,
    unread_metric,
)
from pytest_nfvperf.model.metrics import HIGHER, LOWER
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.statistics import Pairing, Relative, Samples
from pytest_nfvperf.session.comparison import side_verdict

ratios = st.floats(0.1, 10)
spreads = st.floats(0, 0.5)
floors = st.one_of(st.none(), st.floats(LEAST_DIFFERENCE, 0.5))
margins = st.floats(0.001, 0.2)
senses = st.sampled_from([HIGHER, LOWER])


def interval(ratio: float, below: float, above: float) -> tuple[float, float]:
    return ratio / (1 + below), ratio * (1 + above)


@given(ratio=ratios, below=spreads, above=spreads, floor=floors, margin=margins, better=senses)
def test_different_means_that_1_is_excluded_and_the_floor_passed(ratio, below, above, floor, margin, better):
    low, high = interval(ratio, below, above)
    word = decide(low, high, ratio, better, floor, margin)
    different = word in {Word.FASTER, Word.SLOWER}
    assert different == (floor is not None and max(ratio, 1 / ratio) - 1 > floor and not low <= 1 <= high)
    if different:
        assert (word is Word.FASTER) == ((ratio > 1) == (better == HIGHER))


@given(ratio=ratios, below=spreads, above=spreads, floor=floors, margin=margins, better=senses)
def test_same_means_that_the_interval_lies_within_the_margin(ratio, below, above, floor, margin, better):
    low, high = interval(ratio, below, above)
    if decide(low, high, ratio, better, floor, margin) is Word.SAME:
        assert 1 - margin <= low <= high <= 1 + margin


@given(ratio=ratios, below=spreads, above=spreads, floor=floors, margin=margins)
def test_what_is_faster_in_a_rate_is_slower_in_a_cost(ratio, below, above, floor, margin):
    low, high = interval(ratio, below, above)
    swapped = {Word.FASTER: Word.SLOWER, Word.SLOWER: Word.FASTER}
    rate, cost = (decide(low, high, ratio, sense, floor, margin) for sense in (HIGHER, LOWER))
    assert cost is swapped.get(rate, rate)


@given(ratio=ratios, floor=floors, margin=margins, better=senses)
def test_without_an_interval_nobody_can_tell(ratio, floor, margin, better):
    assert decide(0.0, math.inf, ratio, better, floor, margin) is Word.CANNOT_TELL


@given(low=st.floats(0.5, 1), high=st.floats(1, 2))
def test_the_floor_is_the_larger_of_one_percent_and_what_equal_sides_differ_by(low, high):
    assert noise_floor((low, high)) == max(0.01, high - 1, 1 / low - 1)


@pytest.mark.parametrize("noise", [(None, None), (0.99, None), (None, 1.01), (0.0, 1.01)])
def test_an_unbounded_floor_lets_no_difference_be_told(noise):
    assert noise_floor(noise) is None


def found(ratio, low, high, *, noise=(0.995, 1.004), bound=""):
    pairing = Pairing(8, 32, (("cpu_moved", 2),), *noise)
    relative = Relative("forwarding_rate", (("side", "a"),), ratio, low, high, 0.983, 0.02, bound, 4e6, pairing=pairing)
    return compare_metric(Samples("forwarding_rate", "pps", (3.4e6,)), relative, noise, 0.02, decides=True)


@pytest.mark.parametrize(
    ("given_ratio", "word", "reason"),
    [
        ((0.85, 0.84, 0.86), Word.SLOWER, "(0.840 .. 0.860) excludes 1, and is beyond the noise floor of 1.0%"),
        ((1.0, 0.99, 1.01), Word.SAME, "ratio 1.000 (0.990 .. 1.010) lies within 0.980 .. 1.020"),
        ((1.0, 0.97, 1.01), Word.CANNOT_TELL, "(0.970 .. 1.010) holds 1, and reaches beyond 0.980 .. 1.020"),
        ((0.993, 0.975, 0.999), Word.CANNOT_TELL, "excludes 1, but is within the noise floor of 1.0%"),
    ],
)  # fmt: skip
def test_the_reason_has_the_figures(given_ratio, word, reason):
    metric = found(*given_ratio)
    assert metric.word is word
    assert metric.reason.endswith(reason)
    assert (metric.value, metric.baseline_value, metric.dropped) == (3.4e6, 4e6, (("cpu_moved", 2),))


def test_a_wide_noise_floor_hides_a_difference_and_says_so():
    metric = found(0.97, 0.96, 0.98, noise=(0.96, 1.02))
    assert metric.word is Word.CANNOT_TELL
    assert metric.reason.endswith("excludes 1, but is within the noise floor of 4.2%")


def test_what_the_rig_limits_is_told_as_that():
    metric = found(1.0, 0.0, None, bound="generator-limited: its ceiling")
    assert metric.word is Word.CANNOT_TELL
    assert metric.reason == "ratio 1.000 (0.000 .. open): generator-limited: its ceiling"
    assert (metric.low, metric.high) == (None, None)


@pytest.mark.parametrize(
    ("word", "low", "high", "margin"),
    [
        (Word.CANNOT_TELL, 0.9, None, None),
        (Word.CANNOT_TELL, None, 1.1, None),
        (Word.CANNOT_TELL, 0.9, 1.1, -0.03),
        (Word.SLOWER, None, 0.98, -0.03),
    ],
)
def test_a_ratio_that_is_a_bound_and_does_not_decide_has_no_margin(word, low, high, margin):
    metric = MetricComparison("ndr", "pps", HIGHER, word, "", decides=True, ratio=0.97, low=low, high=high)
    verdict = side_verdict(SideFigures("new", metrics=(metric,)), "old", ())
    assert verdict.margin == (margin if margin is None else pytest.approx(margin))


def test_a_side_without_a_reading_of_what_decides_cannot_be_told():
    found = unread_metric("forwarding_rate", "pps")
    assert SideFigures("new", metrics=(found,)).deciding is found
    assert (found.word, found.better) == (Word.CANNOT_TELL, HIGHER)
    verdict = side_verdict(SideFigures("new", metrics=(found,)), "old", ())
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "the rig disturbed them all" in verdict.reason
