"""Searches on a host that shares the DUT's core now and then: what they find is the DUT's, not the host's."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.report.texts import trial_line
from pytest_nfvperf.measure.confirmation import ConfirmationSearch
from pytest_nfvperf.measure.cpu_placement import RetryBudget
from pytest_nfvperf.measure.load_series import loss_of_trial
from pytest_nfvperf.measure.measurer import WARM_UP, LoadLimits, LoadMeasurer, window_s
from pytest_nfvperf.measure.search_algorithms import mlr_search
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import Inconclusive, TrialResult
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WindowState, WitnessWindows
from pytest_nfvperf.model.evidence.records import trial_data
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.ledger import Ledger
from pytest_nfvperf.model.measure.outcome import Goal, Outcome, SearchStatus
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialSpec
from pytest_nfvperf.session.run import bounding
from tests.outcomes import measured
from tests.sample_trials import counts_of
from tests.unit.test_never_wrong import Row, trial_of
from tests.unit.test_search_algorithms import NDR, PDR, measurer_on

CAPACITY, SLOW = 6e6, 0.6
LIMITS = LoadLimits(10_000, 10e6)
FULL, SHARED = 1600, 2200


@dataclass
class OnASharedHost(FakeGenerator):
    """Its DUT forwards CAPACITY, but SLOW times that in windows in which somebody else uses the core.

    ``shared``: share of the time in which that begins or ends. ``drops``: share that the DUT itself loses of all.
    """

    shared: float = 0.0
    drops: float = 0.0

    def simulated(self, spec: TrialSpec) -> TrialResult:
        if spec.window_s is None:
            return super().simulated(spec)
        count = round(spec.duration_s / spec.window_s)
        chance = random.Random(len(self.specs))
        speed = [SHARED if chance.random() < self.shared else FULL for _ in range(count)]
        number_of_directions = len(spec.directions)
        due = round(spec.load_fps * spec.window_s) * number_of_directions
        slow = [SHARED in ends for ends in pairwise([FULL, *speed])]
        taken = [
            min(due, round(CAPACITY * (SLOW if each else 1) * spec.window_s) * number_of_directions) for each in slow
        ]
        missing = [round(frames * self.drops) for frames in taken]
        windows = windows_of(spec.window_s, due, taken, missing, speed)
        lost = sum(due - frames for frames in taken) // number_of_directions, sum(missing) // number_of_directions
        counts = tuple(_counts(direction, due * count // number_of_directions, *lost) for direction in spec.directions)
        return replace(super().simulated(spec), counts=counts, invalid=(), windows=windows)


def windows_of(window_s: float, due: int, taken: list[int], missing: list[int], speed: list[int]) -> Windows:
    zeros = (0,) * len(taken)
    thread = ThreadWindows(
        late_ns=zeros,
        sent=tuple(taken),
        refused=tuple(due - frames for frames in taken),
        skipped=zeros,
        received=tuple(frames - gone for frames, gone in zip(taken, missing, strict=True)),
        missing=tuple(missing),
        absent_ns=zeros,
        speed=(FULL,) * len(taken),
    )
    return Windows(round(window_s * 1e9), (thread,), (WitnessWindows(1, zeros, tuple(speed)),), FULL)


def _counts(direction: object, intended: int, refused: int, dropped: int) -> DirectionCounts:
    sent = intended - refused
    return counts_of(direction, sent=sent, received=sent - dropped, refused=refused)  # type: ignore[arg-type]


def goals_on(generator: OnASharedHost) -> tuple[LoadMeasurer, dict[str, float | None]]:
    measurer = measurer_on(generator)
    found = mlr_search(measurer, [_short(NDR), _short(PDR)], LIMITS)
    return measurer, {goal.goal.name: goal.load_fps for goal in found}


def found_at(load_fps: float | None, goal: Goal = NDR) -> SearchedGoal:
    return SearchedGoal(goal, SearchStatus.FOUND, load_fps=load_fps)


def _short(goal: Goal) -> Goal:
    return replace(goal, initial_trial_s=0.2, final_trial_s=0.5, duration_sum_s=2.0)


@pytest.mark.parametrize("shared", [0.0, 0.2, 0.3])
def test_what_the_search_finds_does_not_depend_on_the_host(shared: float) -> None:
    measurer, found = goals_on(OnASharedHost(CAPACITY, shared=shared))
    assert found["ndr"] == pytest.approx(CAPACITY, rel=0.006)
    assert found["pdr"] == pytest.approx(CAPACITY, rel=0.012)
    lossy = [trial.result.loss_ratio for trial in measurer.trials if trial.result.spec.load_fps <= CAPACITY]
    assert shared == 0 or max(lossy, default=0) > 0.02, "over the whole trial frames were lost below the capacity"
    assert [measurer.disturbed(found_at(found[goal.name], goal)) for goal in (NDR, PDR)] == ["", ""]


def test_frames_that_the_dut_drops_are_its_own_on_any_host() -> None:
    for shared in (0.0, 0.3):
        measurer = measurer_on(OnASharedHost(CAPACITY, shared=shared, drops=0.01))
        (ndr,) = mlr_search(measurer, [_short(NDR)], LIMITS)
        assert ndr.status is SearchStatus.BELOW_MINIMUM
        loss = loss_of_trial(measurer.measure(1.0, 1e6, "fixed load"))
        assert loss.point.loss_ratio == pytest.approx(0.01, rel=0.01)


def test_where_nothing_is_undisturbed_patience_ends_and_the_figure_is_at_least() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=1.0))
    trial = measurer.measure(0.5, 5e6, "search")
    assert trial.result.judgement.inconclusive is not None
    assert len(measurer.sink.records) == 4, "three repeats at a load"
    for load_mpps in range(30):
        measurer.measure(0.5, 5e6 + load_mpps * 1e4, "search")
    assert measurer.retry_budget_s <= 0
    assert len(measurer.sink.records) == pytest.approx(31 + POLICY.retry_budget_s / (0.5 + measurer.residual_s), abs=3)
    why = measurer.disturbed(found_at(4e6))
    assert why.startswith("in 31 of 31 trials, such as trial-")
    assert "the host shares the cores of generator and DUT" in why


def test_without_loss_a_trial_speaks_however_disturbed_it_was() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=1.0))
    trial = measurer.measure(0.5, 3e6, "search")
    assert trial.result.judgement.inconclusive is None
    assert measurer.retry_budget_s == POLICY.retry_budget_s
    assert measurer.disturbed(found_at(2e6)) == ""


def test_a_search_that_waited_in_vain_leaves_the_next_one_half_its_patience() -> None:
    retry_budget = RetryBudget()
    allowed = []
    for left_s in (-1.0, -1.0, -1.0, 3.0):
        retry_budget.learn(left_s)
        allowed.append(retry_budget.allowed_s)
    assert allowed == [
        POLICY.retry_budget_s / 2,
        POLICY.retry_budget_s / 4,
        POLICY.least_retry_budget_s,
        POLICY.retry_budget_s,
    ]


def test_an_ignored_trial_needs_no_patience() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=1.0))
    measurer.attempt(0.5, 8e6, WARM_UP)
    assert measurer.disturbed(found_at(2e6)) == ""


def test_a_confirmation_tells_both_losses() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=0.2))
    found = mlr_search(measurer, [_short(PDR)], LIMITS)
    (pdr,) = ConfirmationSearch(measurer, 5.0, attempts=3).confirm_all(found)
    confirmation = pdr.confirmation
    assert confirmation is not None
    assert confirmation.passed
    assert 1.0 < (confirmation.undisturbed_s or 0) < 4.5
    assert confirmation.lost_disturbed > 100_000
    outcome = measured(Outcome(labels=(), algorithm="mlrsearch", mean_frame_size=64.0, directions=2), pdr)
    observed = next(each for each in outcome.figures if each.metric == "pdr")
    assert f"{confirmation.lost_disturbed:,} more while the machine disturbed it" in observed.confidence


def test_the_evidence_has_what_disturbed_a_trial_and_when() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=0.3))
    result = measurer.measure(1.0, 5.9e6, "fixed load").result
    data = trial_data(result, wall_s=1.0, encode=None)
    assert data.result.windows is None, "their summary is enough, and a thousandth of the size"
    assert data.undisturbed == result.judgement.undisturbed
    assert {each.state for each in data.disturbances} >= {WindowState.CHANGED, WindowState.DUT_SHARED}
    assert 0.4 * result.lost < sum(each.lost for each in data.disturbances) <= result.lost, "the longest are listed"


def of_windows(states: str, lost: dict[int, int], goal: float | None = None, offered: int = 100) -> TrialResult:
    """A trial of one window of 10 ms a letter: alone, shared (the DUT's core), or taken away (the DUT's CPU)."""
    zeros = [0] * len(states)
    missing = [lost.get(at, 0) for at in range(len(states))]
    speed = [SHARED if state == "s" else FULL for state in states]
    windows = windows_of(0.01, offered, [offered] * len(states), missing, speed)
    late = tuple(2_000_000 if state == "t" else 0 for state in states)
    windows = replace(windows, witnesses=(replace(windows.witnesses[0], late_ns=late),))
    result = measurer_on(OnASharedHost(CAPACITY)).measure(0.01 * len(states), 10_000, "search").result
    counts = (_counts(result.counts[0].direction, offered * len(states), sum(zeros), sum(missing)),)
    return replace(result, spec=replace(result.spec, give_up_loss=goal), counts=counts, invalid=(), windows=windows)


def test_a_load_that_is_borne_on_slower_cores_is_borne() -> None:
    """Hardly a window is undisturbed, and all loss falls into those in which the host took the DUT's CPU away."""
    states = "as" * 40 + "ttt" + "sa" * 8
    result = of_windows(states, {81: 50, 82: 20, 83: 5})
    assert result.judgement.undisturbed is not None
    assert not result.judgement.undisturbed.enough
    assert result.judgement.windows == result.judgement.running
    assert (result.judgement.counted.loss_ratio, result.judgement.inconclusive) == (0.0, None)
    data = trial_data(result, wall_s=1.0, encode=None)
    assert (data.running, data.judgement.counted.lost) == (result.judgement.running, 0)
    assert trial_line(data).endswith("in the 95% of it in which all CPUs ran; 75 more in the rest")


def test_a_load_that_loses_on_slower_cores_is_neither_borne_nor_refuted() -> None:
    result = of_windows("as" * 50, {30: 50})
    assert (result.judgement.windows, result.judgement.inconclusive) == (None, Inconclusive.WHOSE_LOSS)


def test_loss_that_a_goal_allows_on_slower_cores_is_allowed() -> None:
    assert of_windows("as" * 50, {30: 50}, goal=0.005).judgement.counted.loss_ratio == pytest.approx(0.005)
    assert of_windows("as" * 50, {30: 51}, goal=0.005).judgement.windows is None


@pytest.mark.parametrize(
    ("states", "lossy", "refutes"),
    [
        ("a" * 100, 1, True),  # nothing hid here
        ("aaaaas" * 17, 1, False),  # two of six are undisturbed: a neighbour may have come and gone unseen
        ("aaaaas" * 17, 34, True),  # in all of them: that is the DUT
    ],
)
def test_a_few_lossy_windows_among_few_undisturbed_ones_tell_nothing(states: str, lossy: int, refutes: bool) -> None:
    alone = [at for at in range(1, len(states) - 1) if states[at - 2 : at + 2] == "aaaa"]
    result = of_windows(states, dict.fromkeys(alone[:lossy], 3))
    assert result.judgement.undisturbed is not None
    assert result.judgement.undisturbed.enough
    assert result.judgement.undisturbed.lossy >= min(lossy, 1)
    assert (result.judgement.counted.loss_ratio or 0.0) > 0
    assert (result.judgement.inconclusive is not None) is not refutes


def test_a_load_refuted_close_above_bounds_the_figure_whatever_other_trials_say() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY))
    measurer.trials.append(replace(measurer.measure(1.0, 9e6, "search"), result=of_windows("as" * 50, {30: 50})))
    assert "in 1 of 2 trials" in measurer.disturbed(found_at(5.9e6)), "9 Mpps is far above"
    measurer.measure(1.0, 6.1e6, "search")
    assert measurer.disturbed(found_at(5.9e6)) == ""
    assert measurer.disturbed(found_at(5.9e6, replace(PDR, loss_ratio=0.5))), "6.1 Mpps does not refute this goal"


def test_what_a_tolerant_goal_bears_while_cores_are_shared_refutes_no_strict_one() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=1.0))
    trial = measurer.measure(1.0, CAPACITY * SLOW * 1.002, "confirmation of pdr", give_up_loss=PDR.loss_ratio)
    assert 0 < (trial.result.judgement.counted.loss_ratio or 0.0) < PDR.loss_ratio
    assert trial.result.judgement.inconclusive is None, "the PDR may well be so high"
    measurer.measure(1.0, CAPACITY * SLOW * 1.01, "search")
    assert "too little was undisturbed" in measurer.disturbed(found_at(CAPACITY * SLOW)), "alone it bears it"


@pytest.mark.parametrize(
    ("duration_s", "expected"), [(0.05, None), (0.2, 0.005), (1.0, 0.005), (5.0, 0.01), (60.0, 0.01), (600.0, 0.1)]
)
def test_windows_are_short_but_not_too_many(duration_s: float, expected: float | None) -> None:
    assert window_s(duration_s) == expected


def test_the_report_shows_the_loss_that_the_search_is_judged_by() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=0.3))
    result = measurer.measure(1.0, 5e6, "fixed load").result
    data = trial_data(result, wall_s=1.0, encode=None)
    assert result.lost > 100_000
    assert (data.judgement.counted.lost, data.judgement.counted.loss_ratio) == (0, 0.0)
    assert trial_line(data).endswith(
        f"(0 %) in the undisturbed {data.undisturbed.windows / 200:.0%} of it; {result.lost:,} more in the rest"
    )
    shared = measurer_on(OnASharedHost(CAPACITY, shared=1.0)).attempt(1.0, 5e6, WARM_UP)
    mostly_shared = trial_data(shared.result, wall_s=1.0, encode=None)
    assert mostly_shared.judgement.counted.lost == mostly_shared.result.lost > 0
    assert "undisturbed" not in trial_line(mostly_shared)


def test_a_trial_that_was_given_up_for_the_hosts_loss_does_not_hold() -> None:
    """The engine does not know which CPUs are far: it may give up for frames that are none of the DUT's."""
    result = measurer_on(OnASharedHost(CAPACITY)).measure(1.0, 5e6, "search").result
    full = replace(result, spec=replace(result.spec, give_up_loss=0.0))
    assert full.judgement.inconclusive is None
    assert replace(full, given_up=True).judgement.inconclusive is Inconclusive.GIVEN_UP


def test_a_short_trial_is_no_confirmation() -> None:
    class GivesUp(OnASharedHost):
        def simulated(self, spec: TrialSpec) -> TrialResult:
            return replace(super().simulated(spec), given_up=spec.give_up_loss is not None)

    measurer = measurer_on(GivesUp(CAPACITY))
    found = mlr_search(measurer, [_short(PDR)], LIMITS)
    (pdr,) = ConfirmationSearch(measurer, 5.0, attempts=2).confirm_all(found)
    assert pdr.confirmation is None
    assert pdr.detail.startswith("not confirmed: trial-")
    assert pdr.detail.endswith("was given up for lost frames that turned out to be the machine's")


def test_a_confirmation_of_which_nobody_can_tell_whose_loss_it_was_lowers_no_figure() -> None:
    """The next load is what came through at most, on a step well below: of 5 Mpps 3.6 came through, so 3.5 is tried."""
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=1.0))
    found = SearchedGoal(PDR, SearchStatus.FOUND, load_fps=5_000_000, upper_fps=6_010_000)
    (pdr,) = ConfirmationSearch(measurer, 1.0).confirm_all([found])
    assert pdr.confirmation is not None
    assert (pdr.confirmation.load_fps, pdr.confirmation.passed) == (3_500_000, True)
    assert pdr.disturbed.startswith("the rig let nothing be confirmed at 5.00 Mpps: trial-")
    assert pdr.disturbed.endswith("lost frames, and too little of it was undisturbed to tell whose loss that was")
    outcome = measured(Outcome(labels=(), algorithm="mlrsearch", mean_frame_size=64.0, directions=2), pdr)
    seen = next(each for each in outcome.figures if each.metric == "pdr")
    assert (seen.value, seen.low, seen.high) == (3_500_000, 3_500_000, 6_010_000)


def test_the_ledger_shown_is_of_a_trial_in_which_the_dut_lost_frames() -> None:
    """The page looks for the same trial by its record: only its ledger is written whole."""
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=0.3))
    trials = [replace(measurer.measure(1.0, load, "search"), ledger=Ledger(1, 0, (), 1)) for load in (5e6, 7e6)]
    outcome = Outcome((), "mlrsearch", 64.0, 2, trials=tuple(trial.id for trial in trials))
    assert all(trial.result.lost > 0 for trial in trials)
    bounding_one = bounding([outcome], {trial.id: trial for trial in trials})
    assert bounding_one is trials[1]


@pytest.mark.parametrize(("before_ns", "after_ns", "is_bound"), [(380, 380, True), (380, 40, False), (40, 40, False)])
def test_a_figure_of_cpus_that_were_never_near_is_a_bound_although_its_windows_look_undisturbed(
    before_ns: int, after_ns: int, is_bound: bool
) -> None:
    """Seen: 2.06 Mpps, exact, with all trials at 380 ns, where the same DUT forwards 4.7 Mpps with its CPUs near."""
    trial = trial_of([Row(0, 0, 0, shared=False, absent=False)] * 50)
    placed = CpuDistance(before_ns, after_ns, far=max(before_ns, after_ns) > 100, near_ns=100)
    measurer = measurer_on(FakeGenerator(4e6))
    measurer.trials.append(replace(trial, result=replace(trial.result, placement=placed)))

    assert trial.result.judgement.windows is not None
    assert bool(measurer.far_reason) is is_bound
