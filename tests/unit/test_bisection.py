"""Noisy bisection: right where there is a change, refusing where there is none, honest about what it cannot tell."""

from __future__ import annotations

import math
import random

import pytest
from bisect_support import METRIC, TEST, SimulatedVersions, bisected, culprit, series, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.features.bisect.beliefs import (
    Normal,
    entropy,
    expected_information_bits,
    expected_run_information_bits,
    narrowest,
    posterior,
)
from pytest_nfvperf.features.bisect.bisection import BisectionVerdict, VerdictKind
from pytest_nfvperf.features.bisect.events import By, Estimate, Question, pooled
from tests.examples import examples

NOISE = 0.03
"""Standard deviation of one block's log-ratio."""


def question(count: int, **given: object) -> Question:
    return Question(tuple(f"v{version}" for version in range(count)), **given)  # type: ignore[arg-type]


def refusal(versions: SimulatedVersions, asked: Question | None = None) -> BisectionVerdict:
    found = verdict(bisected(versions, asked))
    assert found.refused
    return found


@pytest.mark.parametrize("seed", range(10))
def test_a_tenth_in_one_of_16_is_found_among_few(seed: int) -> None:
    guilty = random.Random(seed).randint(1, 16)
    versions = SimulatedVersions(series(17, guilty, 0.9), NOISE, seed)

    assert culprit(bisected(versions)) == guilty
    assert len(versions.between_ends) <= math.log2(16) + 3


@pytest.mark.parametrize("seed", range(20))
def test_a_series_without_a_change_is_refused_with_the_figures(seed: int) -> None:
    versions = SimulatedVersions(series(17, None, 1.0), NOISE, seed)
    found = refusal(versions)

    assert found.kind is VerdictKind.NOT_DIFFERENT
    assert found.text == (
        "v16 is not shown to be worse than v0 by 0.5% or more in 32 blocks: there is nothing to bisect"
    )
    assert [(subject.test, subject.metric) for subject, _ in found.figures] == [(TEST, METRIC)]
    assert not versions.between_ends


@pytest.mark.parametrize("seed", range(10))
def test_a_hundredth_is_found_where_the_noise_is_a_thousandth(seed: int) -> None:
    guilty = random.Random(seed).randint(1, 16)

    assert culprit(bisected(SimulatedVersions(series(17, guilty, 0.99), 0.001, seed))) == guilty


def test_swapped_ends_are_called_swapped() -> None:
    found = refusal(SimulatedVersions(series(9, 4, 1.1), NOISE))

    assert found.kind is VerdictKind.SWAPPED
    assert found.text == "v8 is better than v0, which is given as good: exchange --good and --bad"


def test_of_two_versions_the_second_is_confirmed() -> None:
    versions = SimulatedVersions(series(2, 1, 0.9), NOISE)

    assert culprit(bisected(versions)) == 1
    assert versions.asked[-1].purpose == "again"


def test_versions_that_do_not_build_stay_candidates() -> None:
    """The change is in one of three that cannot be told apart: the range is named, and nothing more."""
    cannot = frozenset({5, 6})
    found = verdict(bisected(SimulatedVersions(series(17, 6, 0.9), NOISE, cannot=cannot)))

    assert found.kind is VerdictKind.RANGE
    assert found.candidates is not None
    assert (found.candidates.first, found.candidates.last) == (5, 7)
    assert found.candidates.mass >= 0.95


def test_versions_that_do_not_build_elsewhere_do_not_hinder() -> None:
    assert culprit(bisected(SimulatedVersions(series(17, 3, 0.9), NOISE, cannot=frozenset({8, 9, 10, 12})))) == 3


@pytest.mark.parametrize("end", [0, 8])
def test_an_end_that_does_not_build_is_refused(end: int) -> None:
    found = refusal(SimulatedVersions(series(9, 4, 0.9), cannot=frozenset({end})))

    assert found.kind is VerdictKind.UNUSABLE
    assert found.text == f"v{end} cannot be used: it does not build"


def test_two_changes_are_called_several() -> None:
    levels = [math.log(0.9) * ((version >= 4) + (version >= 11)) for version in range(17)]
    found = verdict(bisected(SimulatedVersions(levels, NOISE)))

    assert found.kind is VerdictKind.SEVERAL
    assert all(4 <= version < 11 for version in found.between)


def test_noise_that_hides_a_side_leaves_a_range() -> None:
    """A small change in much noise: the range holds it, or one version was found for good reasons."""
    found = [verdict(bisected(SimulatedVersions(series(17, 9, 0.93), 0.1, seed))) for seed in range(12)]
    ranges = [each.candidates for each in found if each.kind is VerdictKind.RANGE and each.candidates]

    assert ranges
    assert all(each.first <= 9 <= each.last for each in ranges)


def test_the_culprit_is_measured_again_and_disagreement_is_said() -> None:
    """The culprit differs from the good end, and not from its parent: a drift that the blocks did not average out."""

    class Drifting(SimulatedVersions):
        def measure(self, ask):  # type: ignore[no-untyped-def]
            if ask.purpose == "again":
                self.levels = [0.0] * len(self.levels)
            return super().measure(ask)

    found = verdict(bisected(Drifting(series(9, 4, 0.9), NOISE)))

    assert (found.kind, found.confirmed) == (VerdictKind.FOUND, False)


@pytest.mark.parametrize("seed", range(10))
def test_a_test_that_fails_now_and_then_is_bisected_by_its_outcome(seed: int) -> None:
    guilty = random.Random(seed).randint(1, 16)
    fails = dict.fromkeys(range(guilty, 17), 0.9)
    versions = SimulatedVersions(series(17, None, 1.0), NOISE, seed, fails)
    found = bisected(versions, question(17, by=By.OUTCOMES))
    candidates = verdict(found).candidates

    assert found.subject is not None
    assert found.subject.metric is None
    assert candidates is not None
    assert candidates.first <= guilty <= candidates.last


def test_outcomes_decide_where_the_ends_differ_in_them() -> None:
    versions = SimulatedVersions(series(17, None, 1.0), NOISE, 1, dict.fromkeys(range(6, 17), 1.0))

    assert culprit(bisected(versions)) == 6
    assert len(versions.between_ends) <= math.log2(16) + 3


def test_who_names_a_metric_gets_it_though_outcomes_differ() -> None:
    versions = SimulatedVersions(series(9, 4, 0.9), NOISE, 1, dict.fromkeys(range(6, 9), 1.0))

    assert culprit(bisected(versions, question(9, metric=METRIC))) == 4
    assert all(ask.blocks for ask in versions.asked)


def test_a_test_that_fails_on_the_good_end_alone_means_swapped_ends() -> None:
    found = refusal(SimulatedVersions(series(9, None, 1.0), NOISE, 1, dict.fromkeys(range(4), 1.0)))

    assert found.kind is VerdictKind.SWAPPED
    assert found.text == (f"{TEST} fails on v0, which is given as good, and passes on v8: exchange --good and --bad")


def test_rates_decide_where_both_ends_fail_alike() -> None:
    versions = SimulatedVersions(series(9, 4, 0.9), NOISE, 1, dict.fromkeys(range(9), 1.0))

    assert culprit(bisected(versions)) == 4


chances = st.lists(st.floats(-30, 0), min_size=1, max_size=40).map(posterior)


@given(chances, st.floats(0.5, 0.99))
def test_the_narrowest_range_reaches_the_confidence_and_no_shorter_one_does(
    each: tuple[float, ...], wanted: float
) -> None:
    found = narrowest(each, wanted)
    length = found.last - found.first + 1

    assert sum(each[found.first - 1 : found.last]) >= wanted - 1e-9
    assert math.isclose(found.mass, sum(each[found.first - 1 : found.last]), abs_tol=1e-9)
    assert all(sum(each[at : at + length - 1]) < wanted + 1e-9 for at in range(len(each)))


@given(chances)
def test_entropy_is_between_nothing_and_that_of_equal_chances(each: tuple[float, ...]) -> None:
    assert -1e-9 <= entropy(each) <= math.log2(len(each)) + 1e-9
    assert math.isclose(sum(each), 1.0)


@settings(max_examples=examples(50))
@given(st.floats(0.01, 0.99), st.floats(-1, 1), st.floats(0.001, 1), st.floats(0.001, 1))
def test_a_measurement_tells_at_most_one_bit(chance: float, mean: float, one: float, other: float) -> None:
    bits = expected_information_bits(chance, Normal(0.0, one), Normal(mean, other))

    assert 0 <= bits <= entropy((chance, 1 - chance)) + 1e-6


def test_what_a_measurement_tells() -> None:
    assert expected_information_bits(0.5, Normal(0, 1e-4), Normal(1, 1e-4)) == pytest.approx(1.0, abs=1e-3)
    assert expected_information_bits(0.5, Normal(0, 1), Normal(0, 1)) == pytest.approx(0.0, abs=1e-3)
    assert expected_run_information_bits(0.5, 0.0, 1.0) == pytest.approx(1.0)
    assert expected_run_information_bits(0.5, 0.3, 0.3) == pytest.approx(0.0)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(1e-4, 1)), min_size=1, max_size=8))
def test_pooling_narrows_and_stays_within(parts: list[tuple[float, float]]) -> None:
    found = pooled([Estimate(value, variance, 4) for value, variance in parts])

    assert found.variance <= min(variance for _, variance in parts) + 1e-12
    assert min(value for value, _ in parts) - 1e-9 <= found.value <= max(value for value, _ in parts) + 1e-9
    assert found.blocks == 4 * len(parts)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(2, 40), st.data())
def test_without_noise_every_culprit_is_found(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(1, count - 1))
    versions = SimulatedVersions(series(count, guilty, 0.9), 0.001, data.draw(st.integers(0, 99)))

    assert culprit(bisected(versions)) == guilty
    assert len(versions.between_ends) <= math.ceil(math.log2(count)) + 1


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 16), st.sets(st.integers(1, 15), max_size=12), st.integers(0, 99))
def test_whatever_does_not_build_the_culprit_stays_among_the_candidates(
    guilty: int, cannot: set[int], seed: int
) -> None:
    found = verdict(bisected(SimulatedVersions(series(17, guilty, 0.8), 0.01, seed, cannot=frozenset(cannot))))

    assert found.candidates is not None
    assert found.candidates.first <= guilty <= found.candidates.last
    assert found.kind in {VerdictKind.FOUND, VerdictKind.RANGE}
