"""Statistics against brute force and against what they promise."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from pytest_nfvperf.model.statistics import (
    median_interval,
    ratio_estimate,
    rule_of_three,
    slope_estimate,
    student_t,
    trend_p_value,
    two_bands,
)

POSITIVE = st.floats(1e-3, 1e12)


class TestRatio:
    def test_five_a_side(self):
        """5 against 5: the third smallest and third largest of 25 ratios, 96.8 % (Hollander and Wolfe, table A.6)."""
        a, b = [100.0, 101, 102, 103, 104], [110.0, 111, 112, 113, 114]
        ratios = sorted(y / x for x in a for y in b)
        estimate = ratio_estimate(a, b)
        assert (estimate.low, estimate.value, estimate.high) == (ratios[2], ratios[12], ratios[22])
        assert estimate.confidence == pytest.approx(1 - 2 * 4 / 252)
        assert estimate.differs

    def test_four_a_side_are_the_fewest(self):
        assert math.isinf(ratio_estimate([1, 1, 1], [2, 2, 2]).high)
        assert ratio_estimate([1, 1, 1], [2, 2, 2]).low == 0
        assert not ratio_estimate([1, 1, 1], [2, 2, 2]).differs
        assert ratio_estimate([1, 1, 1], [2, 2, 2]).smallest_detectable == math.inf
        assert ratio_estimate([1] * 4, [2] * 4).differs

    @pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 5), (4, 6)])
    def test_coverage_is_the_level_it_states(self, n, m):
        """Over all orders of equally distributed values the interval misses 1 exactly as often as stated."""
        values = [1.5**k for k in range(n + m)]
        missed = total = 0
        for chosen in itertools.combinations(values, n):
            estimate = ratio_estimate(chosen, [value for value in values if value not in chosen])
            missed += estimate.differs
            total += 1
        assert missed / total == pytest.approx(1 - estimate.confidence)
        assert estimate.confidence >= 0.95

    @given(st.lists(POSITIVE, min_size=4, max_size=8), st.lists(POSITIVE, min_size=4, max_size=8))
    def test_swapping_sides_inverts(self, a, b):
        there, back = ratio_estimate(a, b), ratio_estimate(b, a)
        assert there.low == pytest.approx(1 / back.high)
        assert there.high == pytest.approx(1 / back.low)
        assert there.low <= there.value <= there.high

    @given(st.lists(POSITIVE, min_size=4, max_size=8), st.floats(1.0001, 100))
    def test_a_pure_factor_is_found(self, a, factor):
        assert ratio_estimate(a, [value * factor for value in a]).low <= factor * (1 + 1e-9)
        assert ratio_estimate([5.0] * 4, [5.0 * factor] * 4).value == pytest.approx(factor)

    def test_smallest_detectable_is_the_noise(self):
        noisy = ratio_estimate([90, 95, 100, 105, 110], [91, 96, 100, 104, 111])
        quiet = ratio_estimate([99, 99.5, 100, 100.5, 101], [99.1, 99.6, 100, 100.4, 101.1])
        assert not noisy.differs
        assert noisy.smallest_detectable > 5 * quiet.smallest_detectable > 0

    @pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
    def test_only_positive_figures(self, value):
        with pytest.raises(ValueError, match=f"a ratio needs positive finite values, not {value}"):
            ratio_estimate([1, 2], [3, value])

    def test_no_values(self):
        with pytest.raises(ValueError, match="at least one value a side"):
            ratio_estimate([], [1])


class TestLoss:
    def test_rule_of_three(self):
        assert rule_of_three(40_000_000) == pytest.approx(7.5e-8)
        assert rule_of_three(2) == 1.0
        with pytest.raises(ValueError, match="at least one frame, not 0"):
            rule_of_three(0)


class TestTrend:
    def test_a_falling_series(self):
        assert trend_p_value([100.0 - 2 * k for k in range(12)]) < 0.05

    def test_constant_is_no_trend(self):
        assert trend_p_value([7.0] * 20) == 1.0
        assert trend_p_value([0.0] * 3) == 1.0

    @pytest.mark.parametrize("n", [4, 5, 6, 7])
    def test_small_samples_are_exact(self, n):
        """The p-value is the share of all orders at least as ordered."""
        orders = list(itertools.permutations(range(n)))

        def score(order):
            return abs(sum((b > a) - (b < a) for a, b in itertools.combinations(order, 2)))

        scores = [score(order) for order in orders]
        for order in random.Random(1).sample(orders, 20):
            share = sum(other >= score(order) for other in scores) / len(orders)
            assert trend_p_value([float(value) for value in order]) == pytest.approx(share)

    def test_ties_are_corrected_for(self):
        """S = 9, variance (5 * 4 * 15 - 2 * 1 * 9) / 18, z = 8 / 3.958."""
        assert trend_p_value([1.0, 1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.0433, abs=1e-4)

    def test_false_alarms_are_as_rare_as_stated(self):
        """Noise without a trend over 30 samples: about 5 % are called significant."""
        rng = random.Random(7)
        alarms = sum(trend_p_value([rng.gauss(100, 1) for _ in range(30)]) < 0.05 for _ in range(600))
        assert 0.02 < alarms / 600 < 0.08

    def test_one_outlier_does_not_tilt(self):
        series = [100.0] * 30
        series[15] = 1.0
        assert trend_p_value(series) >= 0.05

    @given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=25))
    def test_reversing_changes_nothing(self, y):
        assert trend_p_value(y) == pytest.approx(trend_p_value(y[::-1]))

    def test_what_it_refuses(self):
        with pytest.raises(ValueError, match="a trend needs 3 values or more, not 2"):
            trend_p_value([1, 2])


class TestBands:
    def test_two_bands(self):
        assert two_bands([5.1, 7.2, 5.0, 7.1, 5.2]) == ([5.0, 5.1, 5.2], [7.1, 7.2])

    @pytest.mark.parametrize(
        "values", [[], [1], [1, 2, 3], [5.0] * 6, [1, 2, 3, 4, 5], [5.0, 5.1, 5.2, 5.1, 9.0], [5.0, 5.0, 5.025, 5.025]]
    )
    def test_one_band(self, values):
        """An even spread is one band, a band with one outlier, and two steps of a search."""
        assert two_bands(values) is None

    @pytest.mark.parametrize("n", [5, 10, 20])
    def test_rarely_seen_in_plain_noise(self, n):
        rng = random.Random(n)
        seen = sum(two_bands([rng.gauss(100, 20) for _ in range(n)]) is not None for _ in range(2000))
        assert seen / 2000 < 0.05

    @given(
        st.lists(st.floats(100, 101), min_size=2, max_size=6),
        st.lists(st.floats(105, 106), min_size=2, max_size=6),
        st.randoms(),
    )
    def test_bands_are_the_values(self, low, high, rng):
        mixed = [*low, *high]
        rng.shuffle(mixed)
        assert two_bands(mixed) == (sorted(low), sorted(high))


class TestMedianInterval:
    @pytest.mark.parametrize(
        ("n", "ends", "level"),
        [(1, (1, 1), 0.0), (5, (1, 5), 0.9375), (6, (1, 6), 0.96875), (8, (1, 8), 0.9921875), (9, (2, 8), 0.9609375)],
    )
    def test_ranks_and_levels(self, n, ends, level):
        """The sign test's table (Hollander and Wolfe, A.2): with fewer than six values 95 % cannot be had."""
        found = median_interval([float(value) for value in range(n, 0, -1)])
        assert (found.low, found.high, found.confidence) == (*ends, pytest.approx(level))

    def test_it_holds_the_median_as_often_as_it_says(self):
        rng = random.Random(7)
        held = [_holds(median_interval([rng.expovariate(1) for _ in range(9)]), math.log(2)) for _ in range(2000)]
        assert 0.94 < sum(held) / len(held) < 0.98

    def test_nothing(self):
        with pytest.raises(ValueError, match="at least one value"):
            median_interval([])


class TestSlope:
    def test_a_line_is_found_exactly(self):
        found = slope_estimate([1, 1, 2, 4, 9], [10.0, 10, 12, 16, 26])
        assert (found.value, found.low, found.high) == (2, 2, 2)

    @pytest.mark.parametrize("truth", [0.0, -0.3])
    def test_it_holds_the_true_slope_as_often_as_it_says(self, truth):
        """Five readings on each of four chains, as a study has them."""
        rng = random.Random(11)
        x = [float(n) for n in (1, 2, 4, 9) for _ in range(5)]
        held = [_holds(slope_estimate(x, [100 + truth * n + rng.gauss(0, 1) for n in x]), truth) for _ in range(600)]
        assert 0.92 < sum(held) / len(held) < 0.98

    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [([1, 2], [1, 2], "3 points"), ([1, 2, 3], [1, 2], "equal number"), ([1, 1, 1], [1, 2, 3], "two different x")],
    )
    def test_too_little(self, x, y, message):
        with pytest.raises(ValueError, match=message):
            slope_estimate(x, y)


def _holds(found, truth):
    return found.low <= truth <= found.high


@given(confidence=st.floats(0.01, 0.9999), freedom=st.integers(1, 400))
def test_students_t_is_that_of_scipy(confidence: float, freedom: int) -> None:
    assert student_t(confidence, freedom) == pytest.approx(float(t.ppf((1 + confidence) / 2, freedom)), rel=1e-8)


@pytest.mark.parametrize(("confidence", "freedom"), [(0, 3), (1, 3), (0.95, 0)])
def test_students_t_refuses_what_has_no_value(confidence: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no value of Student's t"):
        student_t(confidence, freedom)
