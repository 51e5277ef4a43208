"""From outcomes to figures: only what was measured, with what it proves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_nfvperf.model.figure import Why, exact
from pytest_nfvperf.model.measure.bounds import SearchedGoal, completed
from pytest_nfvperf.model.measure.outcome import (
    BackToBack,
    Confirmation,
    Cost,
    Goal,
    LatencyPoint,
    Outcome,
    QueueFrames,
    SearchStatus,
    frames_by_queue,
    loss_bound_text,
)
from pytest_nfvperf.model.sla.rules import normal_load_name, same_load, share_of_goal, show_load
from pytest_nfvperf.model.statistics import Bound
from tests.outcomes import loss, measured

NDR = Goal("ndr", 0.0)
FOUND = SearchedGoal(NDR, SearchStatus.FOUND, load_fps=4_000_000, upper_fps=4_020_000)
CONFIRMED = replace(FOUND, confirmation=Confirmation("trial-9", 4_000_000, 5.0, 0.0, True))


GENERATOR = {"limit": "within 5 % of the generator's own ceiling"}


def outcome(*goals, losses=(), burst=(), **fields):
    raw = Outcome((("topology", "phy2phy"),), "mlrsearch", 64.0, 2, trials=("trial-1", "trial-2"), **fields)
    return measured(raw, *goals, losses=losses, burst=burst)


def seen(outcome, metric, unit="pps"):
    found = [o for o in outcome.figures if (o.metric, o.unit) == (metric, unit)]
    assert len(found) == 1
    return found[0]


def test_a_goal_in_three_units():
    figures = {o.unit: o for o in outcome(FOUND, line_rate_fps=14_880_952.38).figures}
    assert figures["pps"].value == 4e6
    assert figures["bps"].value == 4e6 * 64 * 8
    assert figures["line_ratio"].value == pytest.approx(0.2688)
    assert figures["pps"].evidence == ("trial-1", "trial-2")
    assert figures["pps"].confidence == "not confirmed by a full-length trial"
    assert (figures["pps"].low, figures["pps"].high, figures["pps"].why) == (4e6, 4e6, ())
    assert figures["bps"].low == figures["bps"].high == figures["bps"].value
    assert figures["line_ratio"].low == figures["line_ratio"].high == figures["line_ratio"].value


def test_no_line_ratio_without_a_line_rate():
    assert {o.unit for o in outcome(FOUND).figures} == {"pps", "bps"}


def test_honest_zero_of_a_confirmation():
    figure = seen(outcome(CONFIRMED), "ndr")
    assert figure.confidence == "confirmed by 5 s: 0 lost of 40,000,000: loss ratio < 7.5e-08 at 95 %"
    assert figure.evidence == ("trial-9",)
    loss = seen(outcome(CONFIRMED), "loss_ratio", "ratio")
    assert (loss.value, loss.at, loss.evidence) == (0.0, "100 % of ndr", ("trial-9",))


def test_counted_frames_are_better_than_computed_ones():
    counted = replace(CONFIRMED, confirmation=replace(CONFIRMED.confirmation, offered_frames=39_999_990))
    assert "0 lost of 39,999,990" in seen(outcome(counted), "ndr").confidence


def test_a_failed_confirmation_leaves_an_upper_bound():
    failed = replace(FOUND, confirmation=Confirmation("trial-9", 3_960_000, 60.0, 2e-5, False))
    figure = seen(outcome(failed), "ndr")
    assert (figure.value, figure.low, figure.high, figure.why) == (3_960_000, None, 3_960_000, (Why.UNCONFIRMED,))
    assert figure.detail == "confirmation of 60 s lost 0.002 %, ndr allows 0 %"
    assert figure.confidence == "not confirmed by 60 s: 9,504 lost of 475,200,000 (the search found 4.00 Mpps)"


def test_what_was_confirmed_lower_down_is_what_counts():
    limited = replace(CONFIRMED, status=SearchStatus.AT_MAXIMUM, **GENERATOR)
    lower = replace(limited, confirmation=Confirmation("trial-9", 3_980_000, 5.0, 0.0, True), refuted_fps=4_000_000)
    figure = seen(outcome(lower), "ndr")
    assert (figure.value, figure.low, figure.high) == (3_980_000, 3_980_000, 3_980_000)
    assert "the search found 4.00 Mpps" in figure.confidence


def test_frames_that_the_generator_left_out_of_a_confirmation_leave_the_bound_what_it_is():
    """Seen: ``FAIL pdr >= 90 % of baseline: at most 85.29 %`` beside ``>= 1.48`` in the table."""
    limited = replace(CONFIRMED, **GENERATOR)
    lower = replace(limited, confirmation=Confirmation("trial-9", 3_980_000, 5.0, 0.0, True))
    figure = seen(outcome(lower), "ndr")
    assert (figure.bound, figure.detail) == (Bound.AT_LEAST, "generator-limited")
    assert figure.interval == (3_980_000, math.inf)


def test_what_the_machine_slowed_bounds_nothing_from_above():
    slowed = {"slowed": "the host kept the CPUs apart", **GENERATOR}
    passed = replace(CONFIRMED, **slowed, refuted_fps=4_000_000)
    failed = replace(FOUND, **slowed, confirmation=Confirmation("trial-9", 3_960_000, 60.0, 2e-5, False))
    below = SearchedGoal(NDR, SearchStatus.BELOW_MINIMUM, upper_fps=10_000, slowed="the host kept the CPUs apart")
    bounds = [seen(outcome(goal), "ndr").bound for goal in (passed, failed, below)]
    assert bounds == [Bound.AT_LEAST, Bound.ABOUT, Bound.ABOUT]


def test_a_confirmation_a_little_below_line_rate_is_at_least_that():
    goal = SearchedGoal(NDR, SearchStatus.AT_MAXIMUM, load_fps=14_880_952)
    low = replace(goal, confirmation=Confirmation("trial-9", 14_800_000, 5.0, 0.0, True))
    figure = seen(outcome(low, line_rate_fps=14_880_952.38), "ndr", "line_ratio")
    assert figure.bound is Bound.AT_LEAST


def test_a_confirmation_that_could_not_be_had():
    figure = seen(outcome(replace(FOUND, unconfirmed="not confirmed: 10 invalid trials")), "ndr")
    assert (figure.low, figure.why, figure.detail) == (None, (Why.UNCONFIRMED,), "not confirmed: 10 invalid trials")
    assert figure.confidence == "not confirmed: 10 invalid trials"


@pytest.mark.parametrize("goal", [FOUND, CONFIRMED])
def test_generator_limited_is_a_lower_bound(goal):
    figure = seen(outcome(replace(goal, **GENERATOR)), "ndr")
    assert (figure.high, figure.why, figure.detail) == (None, (Why.GENERATOR,), "generator-limited")


def test_at_the_search_s_maximum():
    goal = replace(FOUND, status=SearchStatus.AT_MAXIMUM, upper_fps=None)
    figure = seen(outcome(goal), "ndr")
    assert (figure.high, figure.why, figure.detail) == (None, (Why.UNTRIED,), "met at the search's maximum load")


def test_line_rate_is_no_bound_but_the_end():
    """14,880,952.38 frames/s fill 10 Gbit/s; a search asks for whole frames, and the DUT cannot do more."""
    goal = SearchedGoal(NDR, SearchStatus.AT_MAXIMUM, load_fps=14_880_952, **GENERATOR)
    figure = seen(outcome(goal, line_rate_fps=14_880_952.38), "ndr", "line_ratio")
    assert (figure.value, figure.low, figure.high) == (1.0, 1.0, 1.0)


def test_below_the_minimum_is_at_most_that():
    goal = SearchedGoal(NDR, SearchStatus.BELOW_MINIMUM, upper_fps=10_000, detail="loss at the minimum load")
    figure = seen(outcome(goal), "ndr")
    assert (figure.value, figure.low, figure.high) == (10_000, None, 10_000)
    assert (figure.why, figure.detail) == ((Why.MINIMUM,), "below the search's minimum load")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (SearchStatus.ABORTED, "search aborted: out of time"),
        (SearchStatus.BELOW_MINIMUM, "search below minimum: out of"),
    ],
)
def test_no_figure_without_a_result(status, why):
    nothing = outcome(SearchedGoal(NDR, status, detail="out of time"))
    assert nothing.figures == ()
    assert nothing.missing["ndr"].startswith(why)


def test_everything_measured_leaves_nothing_unmeasured():
    assert outcome(FOUND).missing == {}


POINT = LatencyPoint(
    at="50% of pdr",
    load_fps=2_000_000,
    trial_id="trial-4",
    min_ns=900,
    p50_ns=5_000,
    p90_ns=9_000,
    p99_ns=48_200,
    p999_ns=None,
    max_ns=90_000,
    samples=10_000,
)


def test_latency():
    figures = {o.metric: o for o in outcome(latency=(POINT,)).figures}
    assert {name: o.value for name, o in figures.items()} == {
        "latency_min": 900, "latency_p50": 5_000, "latency_p90": 9_000, "latency_p99": 48_200, "latency_max": 90_000,
    }  # fmt: skip
    assert {(o.unit, o.at, o.confidence, o.evidence) for o in figures.values()} == {
        ("ns", "50 % of pdr", "10,000 samples", ("trial-4",))
    }
    assert outcome(latency=(POINT,)).missing == {"latency_p999": "no latency samples at 50% of pdr"}


@pytest.mark.parametrize(
    ("samples", "bounds"),
    [(1000, ["", "", ""]), (999, ["", "", "at least"]), (3, ["", "at least", "at least"])],
)
def test_a_percentile_of_too_few_samples_is_at_least_their_maximum(samples, bounds):
    point = LatencyPoint(
        at="1 Mpps",
        load_fps=10**6,
        trial_id="trial-1",
        min_ns=1,
        p50_ns=2,
        p90_ns=3,
        p99_ns=4,
        p999_ns=5,
        max_ns=6,
        samples=samples,
    )
    percentiles = outcome(latency=(point,))
    figures = [seen(percentiles, f"latency_{name}", "ns") for name in ("p50", "p99", "p999")]
    assert [str(figure.bound) for figure in figures] == bounds


def test_latency_at_a_load_of_its_own():
    point = replace(POINT, at="4 Mpps", load_fps=4_000_000)
    assert {o.at for o in outcome(latency=(point,)).figures} == {"4000000 pps"}


def test_loss_points():
    points = (loss(8_000_000, 0.1, frames=(1_600_000, 16_000_000)), loss(4_000_000, 0.0, "trial-2"))
    figures = outcome(losses=points).figures
    assert [(o.at, o.value, o.confidence) for o in figures if o.metric == "loss_ratio"] == [
        ("8000000 pps", 0.1, "1,600,000 lost of 16,000,000"), ("4000000 pps", 0.0, "loss ratio 0 %"),
    ]  # fmt: skip
    assert [(o.at, o.value) for o in figures if o.metric == "lost_frames"] == [
        ("8000000 pps", 1_600_000),
        ("4000000 pps", 0),
    ]


def test_back_to_back():
    burst = BackToBack(8_000_000, (900, 1_100), 1_000.0, 2.5e-5)
    figure = seen(outcome(back_to_back=burst), "back_to_back_frames", "frames")
    assert (figure.value, figure.detail, figure.confidence) == (1_000, "", "mean of 2 repeats")
    assert seen(outcome(back_to_back=burst), "corrected_buffer_s", "s").value == 2.5e-5
    longest = [(Why.UNTRIED, "the longest burst lost nothing")]
    endless = outcome(back_to_back=replace(burst, corrected_buffer_s=None), burst=longest)
    figure = seen(endless, "back_to_back_frames", "frames")
    assert (figure.high, figure.why, figure.detail) == (None, (Why.UNTRIED,), "the longest burst lost nothing")
    assert [o.metric for o in endless.figures] == ["back_to_back_frames"]


def test_what_a_core_forwards_at_a_load_that_is_a_bound_is_one():
    limited = replace(CONFIRMED, **GENERATOR)
    figure = seen(outcome(limited, cost=Cost("trial-9", mpps_per_core=8.0)), "mpps_per_core")
    assert (figure.bound, figure.detail) == (Bound.AT_LEAST, "generator-limited")
    assert seen(outcome(CONFIRMED, cost=Cost("trial-9", mpps_per_core=8.0)), "mpps_per_core").bound is Bound.EXACT
    tolerant = replace(limited, goal=Goal("pdr", 0.005))
    both = seen(outcome(CONFIRMED, tolerant, cost=Cost("trial-9", mpps_per_core=8.0)), "mpps_per_core")
    assert both.bound is Bound.AT_LEAST, "the trial confirmed both loads, and one is a bound"


def test_cost_has_only_what_the_testbed_offers():
    cost = Cost("trial-3", pmd_cycles_per_packet=180.0, mpps_per_core=11.5, dut_cpu_seconds=5.0)
    assert {(o.metric, o.value, o.unit) for o in outcome(cost=cost).figures} == {
        ("cycles_per_packet", 180.0, "cycles"), ("mpps_per_core", 11.5e6, "pps"), ("dut_cpu_seconds", 5.0, "s"),
    }  # fmt: skip


def test_cycles_are_those_of_the_trial_at_saturation():
    cost = Cost("trial-3", 180.0, 0.98, saturated_trial_id="trial-2")
    evidence = {o.metric: o.evidence for o in outcome(cost=cost).figures}
    assert evidence == {"cycles_per_packet": ("trial-2",), "pmd_busy": ("trial-3",)}
    assert outcome(cost=cost).missing == {}


def test_without_a_trial_at_saturation_cycles_are_missing_and_the_reason_is_told():
    missing = outcome(cost=Cost("trial-3", pmd_busy_ratio=0.4)).missing
    assert missing["cycles_per_packet"].startswith("no trial was at saturation: below it a poll-mode thread counts")
    assert outcome(cost=Cost("trial-3", dut_cpu_seconds=1.0)).missing == {}, "no PMD: nobody expects its cycles"


@pytest.mark.parametrize(
    ("loss_ratio", "offered", "text"),
    [
        (None, 10, "loss unknown"),
        (0.0, None, "loss ratio 0 %"),
        (0.0, 0, "loss ratio 0 %"),
        (0.0, 3_000_000, "0 lost of 3,000,000: loss ratio < 1e-06 at 95 %"),
        (0.5, 10, "5 lost of 10"),
    ],
)
def test_honest_loss(loss_ratio, offered, text):
    assert loss_bound_text(loss_ratio, offered) == text


def test_names_of_loads():
    assert share_of_goal(0.1, "pdr") == "10 % of pdr"
    assert share_of_goal(0.29, "ndr") == "29 % of ndr"
    assert normal_load_name(" 50.0% of  pdr", 7) == "50 % of pdr"
    assert normal_load_name("anything", 7) == "7 pps"
    assert same_load("4000000 pps", "4003000 pps")
    assert not same_load("4000000 pps", "4010000 pps")
    assert not same_load("50 % of pdr", "50 % of ndr")
    assert not same_load(None, "4000000 pps")
    assert (show_load("4000000 pps"), show_load("50 % of pdr")) == ("4.00 Mpps", "50 % of pdr")


QUEUES = {
    "dpdk0.rx_packets": 1000,
    "dpdk0.rx_q1_packets": 250,
    "dpdk0.rx_q0_packets": 750,
    "dpdk0.rx_q0_bytes": 48_000,
    "dpdk1.rx_q0_packets": 10,
    "holed.rx_q1_packets": 5,
    "dpdk2.tx_q0_packets": 7,
}


def test_frames_by_queue_are_those_of_complete_sets_of_counters():
    spread = frames_by_queue(QUEUES)
    assert spread == (QueueFrames("dpdk0", (750, 250)), QueueFrames("dpdk1", (10,)))
    assert str(spread[0]) == "dpdk0: 750, 250"
    assert [each.imbalance for each in spread] == [1.5, 1.0]


def test_the_port_that_spreads_worst_is_the_figure():
    spread = (QueueFrames("p0", (500, 500)), QueueFrames("p1", (900, 100)), QueueFrames("p2", (1000,)))
    figure = seen(outcome(queue_frames=spread), "rss_imbalance", "ratio")
    assert figure.value == pytest.approx(1.8)
    assert figure.confidence == "frames by receive queue, p1: 900, 100"
    assert figure.evidence == ("trial-2",)


@pytest.mark.parametrize("spread", [(QueueFrames("p2", (1000,)),), (QueueFrames("p0", (0, 0)),)])
def test_without_several_queues_that_count_there_is_no_imbalance(spread):
    fixed = outcome(queue_frames=spread)
    assert "rss_imbalance" not in {o.metric for o in fixed.figures}
    assert fixed.missing == {"rss_imbalance": "no port took frames on several receive queues"}
    assert outcome(queue_frames=()).missing == {}


@pytest.mark.parametrize(("unit", "cores"), [("pps", 2), ("bps", 2), ("line_ratio", 2), ("ns", 0)])
def test_a_rate_in_any_unit_is_one_of_so_many_cores(unit: str, cores: int) -> None:
    outcome = Outcome((), "streams", 64.0, 2, figures=(exact("tcp_throughput", 1e9, unit),), cores=2)
    assert [each.cores for each in completed(outcome).figures] == [cores]
