"""Profiles: how thoroughly is measured. All defaults of the measuring method are here.

``--nfv-profile``: *smoke* to see that it works here, *quick* while developing, *gate* before something is accepted,
*full* for a report, *soak* for hours. Times are in seconds, ratios are 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.measure.outcome import Goal

S1_SOAK_FPS = 4e6
"""Load of S1's endurance run, frames/s per direction."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The fixture ``profile``: one set of measuring parameters.

    Attributes:
        pdr_loss_ratio: of the partial drop rate; the NDR's is 0.
        relative_width: bounds this close end a search, a ratio of the load.
        exceed_ratio: share of trials that may exceed the goal's loss (MLRsearch).
        initial_trial_s: short trials.
        final_trial_s: trials that decide.
        duration_sum_s: their sum at one load.
        time_limit_s: of the whole run (``--nfv-time-limit``); None for none. Repeats, and waits for a quiet machine,
            use only what the tests to come do not need.
        search_budget: how many times its plan (``plan_search_s``) a search may take, as long as that time is spare.
        search_residual_s: wait for residual frames.
        confirmation_s: one full-length trial; 0 for none.
        warmup_s: an ignored trial at full load.
        invalid_trial_budget: repeats of a trial that the rig disturbed.
        latency_loads: ratios of the PDR, each for ``latency_trial_s``.
        loss_curve_step: downwards from the maximum, a ratio.
        back_to_back_repeats: of RFC 9004's burst search.
        back_to_back_max_s: longest burst.
        rfc2544_trial_s: RFC 2544 section 24: 60.
        rfc2544_residual_s: RFC 2544 section 23: 2.
        tst009_max_rejections: max(r) of ETSI TST 009.
        soak_sample_s: between samples.
        soak_fps: default load of a soak, per direction.
        comparison_repeats: fewest a side, in rounds.
        comparison_turns: of each block, an even number; after the first look twice as many.
        comparison_turn_s: so short that the machine is the same in two compared readings.
        comparison_trial_s: a reading in rounds.
        comparison_stream_s, comparison_omit_s: a reading of TCP streams, and the unmeasured time before it; together
            whole seconds.
        comparison_budget_s: no further repeats begin after it.
    """

    name: str
    pdr_loss_ratio: float = 0.005
    relative_width: float = 0.005
    exceed_ratio: float = 0.5
    initial_trial_s: float = 1.0
    final_trial_s: float = 1.0
    duration_sum_s: float = 21.0
    time_limit_s: float | None = None
    search_budget: float = 4.0
    search_residual_s: float = 0.1
    confirmation_s: float = 60.0
    warmup_s: float = 1.0
    invalid_trial_budget: int = 10
    latency_loads: tuple[float, ...] = (0.1, 0.5, 0.9)
    latency_trial_s: float = 10.0
    loss_curve_step: float = 0.1
    loss_curve_trial_s: float = 10.0
    back_to_back_repeats: int = 20
    back_to_back_max_s: float = 2.0
    rfc2544_trial_s: float = 60.0
    rfc2544_residual_s: float = 2.0
    tst009_max_rejections: int = 2
    soak_s: float = 900.0
    soak_sample_s: float = 1.0
    soak_fps: float = S1_SOAK_FPS
    comparison_repeats: int = 5
    comparison_turns: int = 16
    comparison_turn_s: float = 0.1
    comparison_trial_s: float = 5.0
    comparison_stream_s: float = 8.0
    comparison_omit_s: float = 2.0
    comparison_budget_s: float = 900.0

    @property
    def ndr(self) -> Goal:
        return self._goal("ndr", 0.0)

    @property
    def pdr(self) -> Goal:
        return self._goal("pdr", self.pdr_loss_ratio)

    @property
    def goals(self) -> tuple[Goal, ...]:
        return (self.ndr, self.pdr)

    def _goal(self, name: str, loss_ratio: float) -> Goal:
        return Goal(
            name=name,
            loss_ratio=loss_ratio,
            relative_width=self.relative_width,
            exceed_ratio=self.exceed_ratio,
            initial_trial_s=self.initial_trial_s,
            final_trial_s=self.final_trial_s,
            duration_sum_s=self.duration_sum_s,
        )


GATE = Profile("gate")

QUICK = replace(
    GATE,
    name="quick",
    initial_trial_s=0.2,
    final_trial_s=0.5,
    duration_sum_s=1.5,
    relative_width=0.01,  # the confirmation's first step
    search_budget=1.5,
    confirmation_s=1.0,
    warmup_s=0.5,
    invalid_trial_budget=5,
    latency_trial_s=1.0,
    loss_curve_trial_s=1.0,
    back_to_back_repeats=3,
    rfc2544_trial_s=0.5,
    rfc2544_residual_s=0.2,
    soak_s=20.0,
    soak_sample_s=1.6,  # a sample takes 20 ms and more: with one a second, sampling disturbs a soak on two cores
    soak_fps=S1_SOAK_FPS / 2,  # wherever a host puts the CPUs of generator and PMD, they sustain it
    comparison_turns=2,  # a verdict that they leave open takes twice as many blocks
    comparison_turn_s=0.08,
    comparison_trial_s=0.3,
    comparison_stream_s=0.7,
    comparison_omit_s=0.3,
    comparison_budget_s=75.0,  # a verdict that is clear at once takes a third of it
)

SMOKE = replace(
    QUICK,
    name="smoke",
    duration_sum_s=1.0,  # its trials are no shorter than quick's: a stall of 5 ms would be 5 % of 0.1 s
    time_limit_s=600.0,
    warmup_s=0.3,
    latency_trial_s=0.5,
    loss_curve_trial_s=0.5,
    back_to_back_repeats=2,
    soak_s=15.0,
    comparison_budget_s=45.0,
)
"""One case of each suite, in about 3 minutes in all: what passes it works here, and is not accepted by it."""

FULL = replace(
    GATE,
    name="full",
    latency_trial_s=60.0,
    loss_curve_trial_s=60.0,
    back_to_back_repeats=50,
    soak_s=12 * 3600.0,
)

SOAK = replace(FULL, name="soak")

PROFILES = {profile.name: profile for profile in (SMOKE, QUICK, GATE, FULL, SOAK)}

TRIAL_OVERHEAD_S = 0.15
"""On top of its duration and residual wait: spec, start, counters before and after."""

_FEWEST_TRIALS = 12
"""With short sums it is the initial trials and the coarser targets before the final one that count."""


def estimate_search_trials(goals: Sequence[Goal]) -> int:
    """How many trials MLRsearch usually takes to find all goals in one pass; a test holds it against the real package.

    A load is decided once more than half of the duration sum agrees (exceed ratio 0.5). Against a DUT whose capacity
    wanders by 1 %, some four loads are decided for one goal and two more for each further one.
    """
    if not goals:
        return 0
    goal = max(goals, key=lambda each: each.duration_sum_s)
    in_sum = goal.duration_sum_s / goal.final_trial_s
    to_decide = min(math.floor((1 - goal.exceed_ratio) * in_sum) + 1, math.ceil(in_sum))
    return max(_FEWEST_TRIALS, to_decide * (2 + 2 * len(goals)))


MINIMUM_SHARE = 0.001
"""Minimum load of a search, as a share of the maximum."""

_TRIALS_TO_CONFIRM = 2.5
"""Of each goal: the load that a search found seldom passes a longer trial, and one that loses is given up early."""

_PLATEAUS, _PLATEAU_S = 3, 0.4


def plan_search_s(profile: Profile, *, latency: bool = False) -> float:
    """Seconds that a measurement of NDR and PDR takes on a quiet machine: search, confirmation, latency, plateaus."""
    return estimate_search_s(profile, profile.goals) + after_search_s(profile, latency=latency)


def estimate_bisection_s(profile: Profile, repeats: int = 0) -> float:
    """Seconds that a binary search takes at most, warm-up included, confirmation not.

    That is one down to the minimum load, where each trial loses. ``repeats``: of each lossy trial.
    """
    trials = math.ceil(math.log2(1 / (profile.relative_width * MINIMUM_SHARE)))
    trial_s = profile.rfc2544_trial_s + profile.rfc2544_residual_s + TRIAL_OVERHEAD_S
    return profile.warmup_s + trials * (1 + repeats) * trial_s


def after_search_s(profile: Profile, goals: int = 2, *, latency: bool = False) -> float:
    """What follows a search, s."""
    around_s = profile.search_residual_s + TRIAL_OVERHEAD_S
    confirmed = goals * _TRIALS_TO_CONFIRM * (profile.confirmation_s + around_s) if profile.confirmation_s else 0.0
    return confirmed + _PLATEAUS * (_PLATEAU_S + around_s) + (latency_s(profile) if latency else 0.0)


def latency_s(profile: Profile) -> float:
    return len(profile.latency_loads) * (profile.latency_trial_s + profile.search_residual_s + TRIAL_OVERHEAD_S)


def estimate_search_s(profile: Profile, goals: Sequence[Goal]) -> float:
    """Seconds that a search of these goals usually takes, warm-up included, confirmation not."""
    if not goals:
        return 0.0
    trial_s = max(goal.final_trial_s for goal in goals)
    each_s = trial_s + profile.search_residual_s + TRIAL_OVERHEAD_S
    return profile.warmup_s + estimate_search_trials(goals) * each_s
