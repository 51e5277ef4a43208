"""Searches against a simulated DUT: what they find, and what they say when they cannot."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listed_sink import Listed

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.confirmation import ConfirmationSearch
from pytest_nfvperf.measure.load_series import back_to_back, loss_curve
from pytest_nfvperf.measure.measurer import LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.search_algorithms import binary_search, mlr_search
from pytest_nfvperf.measure.trials import Context, InvalidTrialsError, Recorder, TrialRunner
from pytest_nfvperf.model.figure import Why
from pytest_nfvperf.model.measure.bounds import SearchedGoal, burst_figures, goal_figures
from pytest_nfvperf.model.measure.outcome import Goal, Outcome, SearchStatus
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress
from tests.examples import examples

LIMITS = LoadLimits(10_000, 10e6)
NDR = Goal("ndr", 0.0, duration_sum_s=5.0)
PDR = Goal("pdr", 0.005, duration_sum_s=5.0)
TST009 = partial(binary_search, max_repeats=2)


def measurer_on(generator: FakeGenerator, **kwargs) -> LoadMeasurer:
    topology = phy2phy()
    generator.attach([GeneratorPort(p.name, "", p.mac) for p in topology.ports])
    clock = VirtualClock()
    generator.clock = clock
    sink = Listed()
    runner = TrialRunner(
        generator,
        [],
        check_alive=lambda: None,
        context=Context(Recorder("r", [sink], clock), Progress(), clock),
        repeats=2,
    )
    measurer = LoadMeasurer(runner, Traffic(frame_size=64), topology.directions, **kwargs)
    measurer.sink = sink
    return measurer


@settings(max_examples=examples(20), deadline=None)
@given(st.floats(50_000, 9.5e6))
def test_mlrsearch_brackets_the_capacity_within_its_width(capacity):
    ndr, pdr = mlr_search(measurer_on(FakeGenerator(capacity)), (NDR, PDR), LIMITS)

    assert (ndr.status, pdr.status) == (SearchStatus.FOUND, SearchStatus.FOUND)
    assert capacity * (1 - 0.011) <= ndr.load_fps <= capacity + 1
    assert ndr.load_fps <= pdr.load_fps <= capacity / (1 - 0.005) + 1


@settings(max_examples=examples(20), deadline=None)
@given(st.floats(50_000, 9.5e6), st.sampled_from([binary_search, TST009]))
def test_binary_searches_bracket_the_capacity_within_their_width(capacity, search):
    found = search(measurer_on(FakeGenerator(capacity)), NDR, LIMITS)

    assert found.status is SearchStatus.FOUND
    assert capacity * (1 - 0.006) <= found.load_fps <= capacity + 1
    assert found.load_fps <= capacity <= found.upper_fps + 1


@pytest.mark.parametrize("search", [binary_search, TST009])
def test_a_dut_faster_than_the_maximum_ends_at_the_maximum(search):
    found = search(measurer_on(FakeGenerator(50e6)), NDR, LIMITS)

    assert (found.status, found.load_fps, found.upper_fps) == (SearchStatus.AT_MAXIMUM, 10_000_000, None)


@pytest.mark.parametrize("tail_fps", [4.9e6, 3.3e6, 7.7e6])
def test_a_search_comes_down_to_what_the_generator_can_send_however_many_loads_that_takes(tail_fps):
    """Seen: a search among 10,000 flows, for which the rig's ceiling was not made, ended as aborted."""
    generator = FakeGenerator(50e6, ceiling_fps=tail_fps)
    measurer = measurer_on(generator)
    ndr, pdr = mlr_search(measurer, (NDR, PDR), LIMITS)

    assert (ndr.status, pdr.status) == (SearchStatus.FOUND, SearchStatus.FOUND)
    assert tail_fps * 0.94 <= ndr.load_fps <= tail_fps * 1.06
    assert measurer.too_high == len(measurer.disturbed_loads) > 0
    assert binary_search(measurer_on(FakeGenerator(50e6, ceiling_fps=tail_fps)), NDR, LIMITS).load_fps > 0.9 * tail_fps


def test_mlrsearch_at_the_maximum_and_below_the_minimum():
    (top,) = mlr_search(measurer_on(FakeGenerator(50e6)), (NDR,), LIMITS)
    (bottom,) = mlr_search(measurer_on(FakeGenerator(5e6, loss_ratio=0.01)), (NDR,), LIMITS)

    assert top.status is SearchStatus.AT_MAXIMUM
    assert bottom.status is SearchStatus.BELOW_MINIMUM
    assert bottom.load_fps is None
    assert bottom.detail == "loss ratio above 0 already at the minimum load"


def test_a_lossy_dut_is_below_the_minimum_for_the_binary_search():
    found = binary_search(measurer_on(FakeGenerator(5e6, loss_ratio=0.01)), NDR, LIMITS)

    assert (found.status, found.load_fps) == (SearchStatus.BELOW_MINIMUM, None)


def test_invalid_trials_are_repeated_and_never_counted():
    measurer = measurer_on(FakeGenerator(4e6, invalid_every=3))

    found = binary_search(measurer, NDR, LIMITS)

    assert found.status is SearchStatus.FOUND
    assert 4e6 * 0.994 <= found.load_fps <= 4e6
    disturbed = [r for r in measurer.sink.records if r.data["result"]["invalid"]]
    assert disturbed, "the evidence lists invalid trials"
    assert all(trial.result.valid for trial in measurer.trials)


def test_a_rig_that_is_never_valid_aborts_and_says_why():
    (found,) = mlr_search(measurer_on(FakeGenerator(4e6, invalid_every=1)), (NDR,), LIMITS)

    assert found.status is SearchStatus.ABORTED
    assert found.load_fps is None
    assert "3 trials in a row were invalid (skipped_frames 3x); the last, trial-0012: skipped_frames:" in found.detail


class Disturbed(FakeGenerator):
    """Whose trials between 4.9 and 5.1 Mpps are all invalid; the DUT would do 6."""

    def run_trial(self, spec):
        self.invalid_every = 1 if 4.9e6 < spec.load_fps < 5.1e6 else None
        return super().run_trial(spec)


@pytest.mark.parametrize("search", [binary_search, TST009])
def test_a_load_that_the_rig_cannot_measure_bounds_the_search_from_above(search):
    measurer = measurer_on(Disturbed(6e6))
    found = search(measurer, NDR, LoadLimits(10_000, 10e6))

    assert found.status is SearchStatus.FOUND
    assert 4.8e6 < found.load_fps <= 4.9e6
    assert measurer.disturbed_loads
    assert measurer.disturbed_loads[0].startswith("5.00 Mpps: 3 trials in a row were invalid (skipped_frames")


def test_a_search_that_is_out_of_time_ends_with_the_interval_that_it_knows():
    measurer = measurer_on(FakeGenerator(4e6))
    measurer.most_s = 8.0  # it takes 11

    (found,) = mlr_search(measurer, (NDR,), LIMITS)

    assert found.status is SearchStatus.FOUND
    assert found.load_fps < 4e6 < (found.upper_fps or math.inf)
    assert found.disturbed.startswith("out of time")


def test_a_search_that_is_out_of_time_at_once_finds_nothing():
    measurer = measurer_on(FakeGenerator(4e6))
    measurer.most_s = 0.0

    (found,) = mlr_search(measurer, (NDR,), LIMITS)

    assert (found.status, found.load_fps, found.upper_fps) == (SearchStatus.ABORTED, None, None)
    assert found.detail.startswith("out of time")


def test_tst009_forgives_what_rfc2544_does_not():
    def mean_found(search) -> float:
        found = [search(measurer_on(FakeGenerator(4e6, noise=0.05, seed=seed)), NDR, LIMITS) for seed in range(20)]
        return fmean(outcome.load_fps for outcome in found)

    assert mean_found(binary_search) < mean_found(TST009)


def test_confirmation_goes_down_until_a_full_trial_holds():
    measurer = measurer_on(FakeGenerator(4e6))
    found = binary_search(measurer, NDR, LIMITS)
    optimistic = type(found)(found.goal, found.status, load_fps=4_030_000)

    confirmed = ConfirmationSearch(measurer, 5.0, attempts=5).confirm(optimistic)

    assert confirmed.load_fps == 4_030_000
    assert confirmed.confirmation.passed
    assert 3_960_000 < confirmed.confirmation.load_fps <= 4_000_000
    assert confirmed.confirmation.duration_s == 5.0


@pytest.mark.parametrize("goal", [NDR, PDR], ids=lambda goal: goal.name)
def test_a_confirmation_may_be_given_up_once_its_goal_is_missed(goal):
    measurer = measurer_on(FakeGenerator(4e6))
    ConfirmationSearch(measurer, 5.0, attempts=5).confirm(SearchedGoal(goal, SearchStatus.FOUND, load_fps=3_000_000))
    assert [record.data["result"]["spec"]["give_up_loss"] for record in measurer.sink.records] == [goal.loss_ratio]


def test_a_load_that_held_without_loss_need_not_be_tried_again_for_a_goal_that_tolerates_some():
    measurer = measurer_on(FakeGenerator(4e6))
    found = [SearchedGoal(goal, SearchStatus.FOUND, load_fps=4_100_000) for goal in (PDR, NDR)]
    pdr, ndr = ConfirmationSearch(measurer, 5.0).confirm_all(found)
    assert (pdr.goal, ndr.goal) == (PDR, NDR), "in the order given"
    assert ndr.confirmation.load_fps == 3_977_000
    assert pdr.confirmation == ndr.confirmation
    tried = [record.data["result"]["spec"]["load_fps"] for record in measurer.sink.records]
    assert tried == [4_100_000, 3_977_000, 4_100_000], "97.6 % of the first came through: 99 % of it need not be tried"


def test_above_what_held_without_loss_a_tolerant_goal_has_its_own_confirmation():
    found = [SearchedGoal(NDR, SearchStatus.FOUND, 3_900_000), SearchedGoal(PDR, SearchStatus.FOUND, 4_010_000)]
    ndr, pdr = ConfirmationSearch(measurer_on(FakeGenerator(4e6)), 5.0).confirm_all(found)
    assert (ndr.confirmation.load_fps, pdr.confirmation.load_fps) == (3_900_000, 4_010_000)


def test_a_tolerant_goal_is_never_confirmed_below_the_strict_one():
    """Of the frames due at a higher load so many were skipped that less was offered."""

    class SkipsMore(FakeGenerator):
        def run_trial(self, spec):
            result = super().run_trial(spec)
            if "pdr" not in spec.purpose:
                return result
            return replace(result, counts=tuple(replace(c, elapsed_ns=c.elapsed_ns * 2) for c in result.counts))

    found = [SearchedGoal(NDR, SearchStatus.FOUND, 3_900_000), SearchedGoal(PDR, SearchStatus.FOUND, 4_010_000)]
    ndr, pdr = ConfirmationSearch(measurer_on(SkipsMore(4e6)), 5.0).confirm_all(found)
    assert ndr.confirmation.load_fps == 3_900_000
    assert pdr.confirmation == ndr.confirmation


def test_the_confirmation_tells_how_long_a_trial_was_that_was_given_up():
    """The engine's part is told by the functional tests; here it is one that gives up after 1.25 s."""

    class GivesUp(FakeGenerator):
        def run_trial(self, spec):
            result = super().run_trial(replace(spec, duration_s=1.25))
            return replace(result, spec=spec, given_up=True)

    measurer = measurer_on(GivesUp(4e6))
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=6_000_000)
    confirmed = ConfirmationSearch(measurer, 5.0, attempts=1).confirm(found)
    assert confirmed.confirmation.duration_s == 1.25
    assert not confirmed.confirmation.passed


def test_a_confirmation_that_never_holds_is_reported_as_failed():
    measurer = measurer_on(FakeGenerator(1e6))
    found = type(binary_search(measurer, NDR, LIMITS))(NDR, SearchStatus.FOUND, load_fps=4_000_000)

    confirmed = ConfirmationSearch(measurer, 1.0, attempts=3).confirm(found)

    assert not confirmed.confirmation.passed
    assert confirmed.confirmation.loss_ratio > 0.7


def test_where_the_rig_spoils_a_confirmation_a_load_a_twentieth_below_is_confirmed():
    measurer = measurer_on(Disturbed(6e6))
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_050_000)

    confirmed = ConfirmationSearch(measurer, 5.0).confirm(found)

    assert confirmed.confirmation.passed
    assert confirmed.confirmation.load_fps == 4_797_500
    loads = [record.data["result"]["spec"]["load_fps"] for record in measurer.sink.records]
    assert loads == [5_050_000] * 3 + [4_797_500], "three disturbed, then 95 %"


def test_a_confirmation_that_the_rig_spoils_everywhere_stays_absent_and_says_why():
    measurer = measurer_on(FakeGenerator(6e6, invalid_every=1))
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_000_000)

    confirmed = ConfirmationSearch(measurer, 5.0).confirm(found)

    assert confirmed.confirmation is None
    assert confirmed.detail.startswith("not confirmed: the only trial was invalid (skipped_frames 1x); the last, trial")
    loads = [record.data["result"]["spec"]["load_fps"] for record in measurer.sink.records]
    assert loads == [5e6] * 3 + [4.75e6] * 3 + [4.5e6, 4.25e6, 4e6, 3.5e6, 2.5e6, 1.75e6, 1.25e6, 0.5e6], (
        "patience ends: then each load is tried once"
    )


def test_the_loss_curve_stops_after_two_lossless_points():
    points = [loss.point for loss in loss_curve(measurer_on(FakeGenerator(5.5e6)), 10e6)]

    assert [p.load_fps for p in points] == [
        10_000_000,
        9_000_000,
        8_000_000,
        7_000_000,
        6_000_000,
        5_000_000,
        4_000_000,
    ]
    assert [p.loss_ratio > 0 for p in points] == [True] * 5 + [False] * 2


def test_the_loss_curve_refuses_steps_the_rfc_does_not_allow():
    with pytest.raises(ValueError, match=r"at most 0\.1 \(RFC 2544 section 26\.3\), not 0\.2"):
        loss_curve(measurer_on(FakeGenerator(5e6)), 10e6, step=0.2)


def test_a_dut_without_loss_has_no_buffer_time():
    measurer = measurer_on(FakeGenerator(20e6))
    result, reasons = back_to_back(measurer, 10e6, repeats=2, longest_s=2.0, throughput_fps=10e6)

    assert [why for why, _ in reasons] == [Why.UNTRIED]
    assert result.burst_frames == (20_000_000, 20_000_000)
    assert result.corrected_buffer_s is None


def test_a_dut_that_sustains_no_burst_has_one_of_no_frame():
    """The search goes down to less than a frame: nothing is due then, which is no load that was not offered."""
    measurer = measurer_on(FakeGenerator(0.5))

    result, _ = back_to_back(measurer, 1e6, repeats=1, longest_s=2.0, throughput_fps=None)

    assert (result.burst_frames, measurer.disturbed_loads) == ((0,), [])


def test_the_corrected_buffer_time_is_rfc_9004s():
    class Buffered(FakeGenerator):
        """Holds 1000 frames and forwards 4 Mpps."""

        def run_trial(self, spec):
            self.capacity_fps = 4e6 + 1000 / spec.duration_s
            return super().run_trial(spec)

    result, reasons = back_to_back(measurer_on(Buffered(4e6)), 10e6, repeats=1, longest_s=2.0, throughput_fps=4e6)

    assert reasons == []
    # a burst of n frames at 10 Mpps fits when n - n * 0.4 <= 1000
    assert result.mean_burst_frames == pytest.approx(1000 / 0.6, rel=0.03)
    assert result.corrected_buffer_s == pytest.approx(1000 / 10e6, rel=0.03)


def test_a_load_that_cannot_be_measured_raises_with_the_reasons():
    measurer = measurer_on(FakeGenerator(4e6, ceiling_fps=1e6))

    with pytest.raises(InvalidTrialsError, match="fell_behind"):
        measurer.measure(1.0, 2e6, "fixed load")


def test_load_limits_must_rise():
    with pytest.raises(ValueError, match=r"must rise from above 0: 5 \.\. 5"):
        LoadLimits(5, 5)


def test_a_confirmation_below_loads_that_the_rig_spoiled_is_a_lower_bound():
    """What the rig disturbed neither lowers a figure nor bounds it from above; what the search saw lost does."""
    measurer = measurer_on(Disturbed(6e6))
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_050_000, upper_fps=5_070_000)
    confirmed = ConfirmationSearch(measurer, 5.0).confirm(found)

    assert confirmed.disturbed.startswith(
        "the rig let nothing be confirmed at 5.05 Mpps: 3 trials in a row were invalid"
    )
    seen = next(goal_figures([confirmed], Outcome((), "mlrsearch", 64.0, 2)))
    assert (seen.value, seen.high) == (4_797_500, pytest.approx(5_070_000))
    judged = {text: judge_ndr(text, seen) for text in (">= 4.5 Mpps", ">= 5 Mpps", ">= 5.5 Mpps")}
    assert judged == {
        ">= 4.5 Mpps": Judgement.PASS,
        ">= 5 Mpps": Judgement.INCONCLUSIVE,
        ">= 5.5 Mpps": Judgement.FAIL,
    }


def test_what_was_not_confirmed_on_cores_that_the_host_kept_apart_says_both():
    why = {"unconfirmed": "not confirmed: 3 trials in a row were invalid", "slowed": "the host kept the CPUs apart"}
    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_050_000, upper_fps=5_070_000, **why)
    (seen,) = goal_figures([found], Outcome((), "mlrsearch", 64.0, 2))
    assert (seen.low, seen.high, seen.why) == (None, None, (Why.UNCONFIRMED, Why.SLOWED))
    assert seen.detail == "; ".join(why.values())


def judge_ndr(text, seen):
    (verdict,) = judge([Rule((), (("ndr", parse_limit("ndr", text)),), "")], {}, [seen], lambda _: None)
    return verdict.judgement


def test_a_confirmation_that_failed_in_a_valid_trial_below_is_the_duts():
    class Weak(FakeGenerator):
        """Spoils the found load, and loses at 90 % of it."""

        def run_trial(self, spec):
            self.invalid_every = 1 if spec.load_fps == 5_000_000 else None
            return super().run_trial(spec)

    found = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=5_000_000)
    confirmed = ConfirmationSearch(measurer_on(Weak(4e6)), 5.0).confirm(found)

    assert (confirmed.confirmation.load_fps, confirmed.disturbed) == (4_000_000, "")


def test_bursts_that_the_rig_spoiled_make_a_lower_bound():
    """The longest burst that could be measured was without loss: the DUT bears at least that."""

    class Absent(FakeGenerator):
        """Cannot hold bursts of 640 ms; the DUT would take all of them."""

        def run_trial(self, spec):
            self.invalid_every = 1 if spec.duration_s == 0.64 else None
            return super().run_trial(spec)

    measurer = measurer_on(Absent(20e6))
    result, reasons = back_to_back(measurer, 1e6, repeats=1, longest_s=2.0, throughput_fps=None)

    ((why, detail),) = reasons
    assert why is Why.DISTURBED
    assert detail.startswith("the rig disturbed longer bursts: 1.00 Mpps: 3 trials in a row were invalid")
    (seen,) = burst_figures(result, (), reasons)
    assert (seen.low, seen.high, seen.why) == (seen.value, None, (Why.DISTURBED,))
