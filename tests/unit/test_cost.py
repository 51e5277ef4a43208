"""What a trial cost, and of which trial a search takes the cycles a packet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.measure.confirmation import cost_of
from pytest_nfvperf.measure.trials import Trial, trial_cost
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, SearchStatus
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec

CHANGES = {"pmd.cycles_busy": 900_000, "pmd.cycles_idle": 100_000, "pmd.packets_received": 5000}
SPEC = TrialSpec(Traffic(64), 1000, 1.0, (Direction("p0", "p1"),))


def trial(name: str, *, saturating: bool) -> Trial:
    result = TrialResult(replace(SPEC, saturating=saturating, latency=not saturating), (), RigHealth())
    return Trial(name, result, None, replace(trial_cost(result, CHANGES, 1, 0.0), trial_id=name), 1.0)


@pytest.mark.parametrize(("saturating", "cycles"), [(True, 180.0), (False, None)])
def test_cycles_a_packet_are_a_cost_at_saturation_only(saturating: bool, cycles: float | None) -> None:
    cost = trial("trial-1", saturating=saturating).cost
    assert (cost.pmd_cycles_per_packet, cost.pmd_busy_ratio) == (cycles, 0.9)


def test_a_search_has_the_cycles_of_its_plateau_and_the_rest_of_its_confirmation() -> None:
    trials = [trial("trial-1", saturating=True), trial("trial-2", saturating=False)]
    held = Confirmation("trial-2", 1000, 1.0, 0.0, True, 1000)
    goals = [SearchedGoal(Goal("ndr", 0.0), SearchStatus.FOUND, 1000, confirmation=held)]
    plateau = PlateauPoint("trial-1", 2000.0, 1990.0, 2010.0, 40)
    cost = cost_of(goals, trials, [plateau])
    assert cost is not None
    assert (cost.trial_id, cost.pmd_cycles_per_packet, cost.saturated_trial_id) == ("trial-2", 180.0, "trial-1")
    without = cost_of(goals, trials, [])
    assert without is not None
    assert without.pmd_cycles_per_packet is None
    assert cost_of(goals, trials, [replace(plateau, generator_limited="not all windows were full")]) == without
    assert cost_of([replace(goals[0], confirmation=None)], trials, [plateau]) is None
