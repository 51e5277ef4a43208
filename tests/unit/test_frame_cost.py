"""The near cost of a frame, by traffic and load."""

from __future__ import annotations

from pytest_nfvperf.model.disturbance.cpu_distance import NearCosts
from pytest_nfvperf.model.disturbance.policy import POLICY


def test_the_near_cost_is_that_of_the_cheaper_windows() -> None:
    costs = [25.0] * 3 + [46.0] * 17
    assert NearCosts().learn("64 B", 4e6, costs) == 25.0


def test_a_trial_that_was_far_all_the_time_is_told_by_an_earlier_one() -> None:
    near = NearCosts()
    near.learn("64 B", 4e6, [25.0] * 20)
    assert near.learn("64 B", 4e6, [46.0] * 20) == 25.0


def test_what_was_taken_for_near_is_corrected() -> None:
    near = NearCosts()
    assert near.learn("64 B", 4e6, [46.0] * 20) == 46.0
    assert near.learn("64 B", 4e6, [25.0] * 20) == 25.0


def test_other_frames_and_lower_loads_cost_otherwise() -> None:
    near = NearCosts()
    near.learn("64 B", 4e6, [25.0] * 20)
    assert near.learn("1518 B", 4e6, [90.0] * 20) == 90.0
    assert near.learn("64 B", 0.4e6, [45.0] * 20) == 45.0
    assert near.learn("64 B", 4.5e6, [30.0] * 20) == 25.0, "a fuller burst is cheaper"


def test_a_few_windows_say_nothing() -> None:
    assert NearCosts().learn("64 B", 4e6, [25.0] * (POLICY.windows_for_near_cost - 1)) == 0.0
