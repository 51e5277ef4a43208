"""Change points: how often chance makes one, how often a step is found, and what is none."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.features.history.change_points import _least_by_ranks, steps
from pytest_nfvperf.features.history.series import AT_LEAST, AT_MOST
from tests.examples import examples
from tests.history_support import series

SERIES = 200
ONE_IN_TWENTY = SERIES // 20


def how_often(seed: int, make: Callable[[random.Random], list[float]], told: Callable[[list[int]], bool]) -> int:
    chance = random.Random(seed)
    return sum(told([step.at for step in steps(series(make(chance)))]) for _ in range(SERIES))


def noise(chance: random.Random, count: int, level: float = 4e6, share: float = 0.03) -> list[float]:
    return [level * chance.gauss(1, share) for _ in range(count)]


@pytest.mark.parametrize("seed", [1, 2])
def test_chance_alone_makes_a_change_in_fewer_than_one_series_of_twenty(seed: int) -> None:
    assert how_often(seed, lambda chance: noise(chance, 20), bool) <= ONE_IN_TWENTY


@pytest.mark.parametrize(("seed", "ratio"), [(1, 0.9), (2, 1.1)])
def test_a_step_of_a_tenth_is_found_in_nineteen_series_of_twenty(seed: int, ratio: float) -> None:
    def make(chance: random.Random) -> list[float]:
        return noise(chance, 15) + noise(chance, 5, 4e6 * ratio)

    found = how_often(seed, make, lambda indices: any(abs(index - 15) <= 1 for index in indices))
    assert found >= SERIES - ONE_IN_TWENTY


@given(st.integers(0, 19), st.sampled_from([0.5, 0.8, 1.3, 3.0]), st.integers(0, 99))
@settings(max_examples=examples(60), deadline=None)
def test_one_run_that_strays_is_no_change(index: int, factor: float, seed: int) -> None:
    values = noise(random.Random(seed), 20, share=0.001)
    values[index] *= factor
    assert steps(series(values)) == []


@given(st.integers(0, 99), st.floats(1e-6, 1e12))
@settings(max_examples=examples(30), deadline=None)
def test_the_unit_does_not_matter(seed: int, unit: float) -> None:
    chance = random.Random(seed)
    values = noise(chance, 10) + noise(chance, 6, 5e6)
    indices = [step.at for step in steps(series(values))]
    assert [step.at for step in steps(series([value * unit for value in values]))] == indices


def test_the_second_run_after_a_step_makes_it_speak() -> None:
    steady = [4.0, 4.01, 3.99, 4.0, 4.02, 4.0, 3.98, 4.0]
    assert steps(series([*steady, 3.6])) == []
    (step,) = steps(series([*steady, 3.6, 3.61]))
    assert (step.at, step.before, step.after) == (8, pytest.approx(4.0), pytest.approx(3.605, rel=1e-3))
    assert step.ratio == pytest.approx(0.901, rel=1e-3)
    assert step.p_value < 0.001


def test_figures_that_repeat_to_the_last_digit_can_change() -> None:
    assert [step.at for step in steps(series([250.0] * 5 + [260.0] * 3 + [250.0] * 4))] == [5, 8]


@pytest.mark.parametrize(("smallest", "count"), [(0.03, 0), (0.01, 1)])
def test_a_change_below_the_smallest_is_none(smallest: float, count: int) -> None:
    values = [100.0, 100.1, 99.9, 100.0, 100.1, 98.0, 98.1, 97.9, 98.0]
    assert len(steps(series(values), smallest)) == count


def test_a_series_that_is_too_short_has_no_change() -> None:
    assert steps(series([100.0] * 3 + [50.0] * 2)) == []
    assert len(steps(series([100.0] * 3 + [50.0] * 3))) == 1


@pytest.mark.parametrize(
    ("values", "bounds", "count"),
    [
        ([4.0] * 6 + [3.5] * 4, [""] * 6 + [AT_LEAST] * 4, 0),
        ([4.0] * 6 + [3.5] * 4, [AT_LEAST] * 6 + [""] * 4, 1),
        ([4.0] * 6 + [3.5] * 4, [AT_MOST] * 6 + [""] * 4, 0),
        ([3.5] * 6 + [4.0] * 4, [AT_LEAST] * 6 + [""] * 4, 0),
        ([3.5] * 6 + [4.0] * 4, [""] * 6 + [AT_LEAST] * 4, 1),
    ],
)
def test_a_bound_does_not_speak_for_a_change_that_it_may_hide(
    values: list[float], bounds: list[str], count: int
) -> None:
    assert len(steps(series(values, bounds))) == count


@pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 4), (3, 40), (8, 8), (9, 9), (8, 60), (30, 31)])
def test_ranks_without_ties_give_no_smaller_probability_than_the_one_that_spares_the_test(n: int, m: int) -> None:
    from scipy import stats

    for shifted in (0, n + m):
        found = stats.mannwhitneyu(range(n), range(n + shifted, n + shifted + m), alternative="two-sided").pvalue
        assert _least_by_ranks(n, m) <= found * (1 + 1e-9)
