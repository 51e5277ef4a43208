"""Profiles: the defaults of the measuring method, and how long they take."""

from __future__ import annotations

import dataclasses
import random
import statistics

import pytest
from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from pytest_nfvperf.model.measure.profile import (
    FULL,
    GATE,
    PROFILES,
    QUICK,
    SOAK,
    TRIAL_OVERHEAD_S,
    estimate_search_s,
    estimate_search_trials,
    plan_search_s,
)


def test_the_five_profiles():
    assert list(PROFILES) == ["smoke", "quick", "gate", "full", "soak"]
    assert [profile.name for profile in PROFILES.values()] == list(PROFILES)


def test_defaults_of_the_measuring_method():
    """docs/explanation/measuring-method.md's table, for what a gate rests on."""
    assert (GATE.final_trial_s, GATE.duration_sum_s, GATE.relative_width, GATE.exceed_ratio) == (1, 21, 0.005, 0.5)
    assert [(goal.name, goal.loss_ratio) for goal in GATE.goals] == [("ndr", 0.0), ("pdr", 0.005)]
    assert [profile.confirmation_s for profile in (QUICK, GATE, FULL, SOAK)] == [1, 60, 60, 60]
    assert [profile.rfc2544_trial_s for profile in (QUICK, GATE, FULL)] == [0.5, 60, 60]
    assert [profile.soak_s for profile in (QUICK, GATE, FULL, SOAK)] == [20, 900, 43_200, 43_200]
    assert (QUICK.final_trial_s, QUICK.duration_sum_s) == (0.5, 1.5)
    assert QUICK.relative_width == 0.01, "the first step of a confirmation, which decides the figure"
    assert GATE.latency_loads == (0.1, 0.5, 0.9)
    assert GATE.loss_curve_step <= 0.1, "RFC 2544 section 26.3"
    assert GATE.rfc2544_residual_s == 2, "RFC 2544 section 23"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_goals_carry_the_profile(profile):
    for goal in profile.goals:
        assert goal.duration_sum_s == profile.duration_sum_s
        assert goal.initial_trial_s <= goal.final_trial_s <= goal.duration_sum_s
    assert estimate_search_s(profile, profile.goals) < plan_search_s(profile) < plan_search_s(profile, latency=True)
    assert profile.search_budget > 1, "a quiet machine has the time of the plan, and a disturbed one more"


def test_profiles_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GATE.soak_s = 1.0


class WanderingDut(AbstractMeasurer):
    """Forwards up to a capacity that differs by about 1 % from trial to trial."""

    def __init__(self, capacity, seed):
        self._capacity = capacity
        self._random = random.Random(seed)
        self.seconds = []

    def measure(self, intended_duration, intended_load):
        self.seconds.append(intended_duration)
        capacity = self._capacity * self._random.gauss(1, 0.01)
        offered = int(intended_duration * intended_load * 2)
        lost = max(0, int(offered * (1 - capacity / intended_load)))
        return MeasurementResult(intended_duration, intended_load, offered, lost)


def real_search(goals, capacity, seed):
    """Number of trials and seconds that FD.io's package takes."""
    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
        )
        for goal in goals
    ]
    config.max_load, config.min_load, config.warmup_duration = 8e6, 8e3, 0.0
    dut = WanderingDut(capacity, seed)
    MultipleLossRatioSearch(config).search(dut, debug=lambda _text: None)
    return len(dut.seconds), sum(dut.seconds)


@pytest.mark.parametrize("profile", [QUICK, GATE], ids=["quick", "gate"])
@pytest.mark.parametrize("number", [1, 2])
def test_the_estimate_is_honest(profile, number):
    """Against MLRsearch itself, over capacities and seeds: no promise that is usually broken, none doubly safe."""
    goals = profile.goals[:number]
    searches = [real_search(goals, share * 8e6, seed) for share in (0.05, 0.2, 0.5, 0.7, 0.9) for seed in range(6)]
    trials = statistics.median(count for count, _ in searches)
    seconds = statistics.median(duration for _, duration in searches)
    overhead = trials * (TRIAL_OVERHEAD_S + profile.search_residual_s) + profile.warmup_s
    assert 0.7 * trials < estimate_search_trials(goals) < 1.5 * trials
    assert 0.7 < estimate_search_s(profile, goals) / (seconds + overhead) < 1.5


def test_nothing_to_search_takes_no_time():
    assert estimate_search_trials(()) == 0
    assert estimate_search_s(QUICK, ()) == 0
