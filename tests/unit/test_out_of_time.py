"""Whatever is cut off when the time is over, what is reported stays true of the DUT, and says that it is a bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_never_wrong import judged
from test_search_algorithms import LIMITS, NDR, PDR, measurer_on

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.clocks import TimeLimit, VirtualClock
from pytest_nfvperf.measure.confirmation import ConfirmationSearch
from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.measure.search_algorithms import binary_search, mlr_search
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.measure.outcome import Outcome, SearchStatus
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.outcomes import measured

CONFIRMATION_S = 5.0


def outcome_of(measurer: LoadMeasurer, *, by_bisection: bool) -> Outcome:
    """What a search and its confirmations find in the time that the measurer has."""
    found = (binary_search(measurer, NDR, LIMITS),) if by_bisection else mlr_search(measurer, (NDR, PDR), LIMITS)
    measurer.reserved_s = 0.0
    goals = ConfirmationSearch(measurer, CONFIRMATION_S).confirm_all(found)
    return measured(Outcome((("topology", "t"),), "mlrsearch", 64.0, 2, trials=("trial-1",)), *goals)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(200_000, 9_000_000),
    st.floats(0.0, 90.0),
    st.floats(0.0, 20.0),
    st.sampled_from([0.9, 0.98, 1.0, 1.02, 1.1]),
    st.booleans(),
)
def test_no_verdict_is_wrong_when_the_time_is_over(
    capacity: int, most_s: float, reserved_s: float, load_share: float, by_bisection: bool
) -> None:
    measurer = measurer_on(FakeGenerator(float(capacity)))
    measurer.most_s, measurer.reserved_s = most_s, reserved_s
    outcome, limit = outcome_of(measurer, by_bisection=by_bisection), round(capacity * load_share)
    for bound, keeps in ((">=", capacity >= limit), ("<=", capacity <= limit)):
        judgement = judged(outcome, "ndr", f"'{bound} {limit} pps'")
        if judgement is Judgement.PASS:
            assert keeps or abs(capacity - limit) < capacity * NDR.relative_width
        elif judgement is Judgement.FAIL:
            assert not keeps or abs(capacity - limit) < capacity * NDR.relative_width


@pytest.mark.parametrize("most_s", [1.0, 6.0, 9.0, 14.0, 21.0])
def test_an_interval_that_is_wider_than_a_search_makes_it_says_why(most_s: float) -> None:
    measurer = measurer_on(FakeGenerator(4e6, loss_ratio=1e-5))
    measurer.most_s = most_s
    outcome = outcome_of(measurer, by_bisection=True)
    seen = outcome.figure("ndr", "pps")
    (goal,) = outcome.goals
    if seen is None:
        assert goal.status is SearchStatus.ABORTED
        assert goal.detail.startswith("out of time")
        return
    low, high = seen.interval
    narrow = math.isfinite(high) and (high - low) <= 2 * NDR.relative_width * high
    assert narrow or "out of time" in seen.detail or goal.status is SearchStatus.BELOW_MINIMUM


def test_a_last_trial_far_below_gives_a_bound_where_nothing_was_confirmed_in_time() -> None:
    """The search finds a load at which the longer trials lose: without time for a descent, half of it is tried."""

    measurer = measurer_on(FakeGenerator(4e6))
    (found,) = mlr_search(measurer, (NDR,), LIMITS)
    weaker = measurer_on(FakeGenerator(3e6))
    weaker.most_s = 0.0
    (goal,) = ConfirmationSearch(weaker, CONFIRMATION_S).confirm_all([found])

    assert goal.confirmation is not None
    assert goal.confirmation.passed
    assert goal.confirmation.load_fps == pytest.approx(found.load_fps / 2, rel=0.01)
    assert goal.disturbed.startswith("out of time")
    seen = measured(Outcome((), "mlrsearch", 64.0, 2, trials=("t",)), goal).figure("ndr", "pps")
    assert seen is not None
    low, high = seen.interval
    assert low <= 3e6 <= high


def test_repeats_use_only_what_the_tests_to_come_do_not_need() -> None:
    clock = VirtualClock()
    limit = TimeLimit(60.0, clock)
    assert limit.spare_s == 60.0
    limit.reserved_s = 45.0
    clock.sleep(10.0)
    assert (limit.left_s, limit.spare_s) == (50.0, 5.0)
    clock.sleep(10.0)
    assert (limit.spare_s, limit.is_over) == (0.0, False)
    limit.check(39.0)
    with pytest.raises(OutOfTimeError):
        limit.check(41.0)
    clock.sleep(40.0)
    assert limit.is_over
    with pytest.raises(OutOfTimeError):
        limit.check()


def test_an_invalid_trial_is_not_repeated_in_the_time_of_other_tests() -> None:
    measurer = measurer_on(FakeGenerator(4e6, invalid_every=1))
    measurer.runner.context.time_limit.reserved_s = math.inf
    with pytest.raises(InvalidTrialsError, match="out of time for another") as raised:
        measurer.measure(1.0, 1e6, "search")
    assert len(raised.value.trials) == 1
