"""From samples to a soak's summary, figures and verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.adapters.report.figures import soak_events, soak_facts, soak_line
from pytest_nfvperf.model.measure.soak import MOST_DISTURBED, DisturbedInterval, Gap
from pytest_nfvperf.model.measure.soak_series import (
    HITS,
    MOST_NAMED,
    MOST_POINTS,
    SoakTable,
    series,
    short_end_s,
    summarise,
    thinned,
)
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.config_support import parse_sla
from tests.examples import examples
from tests.sample_soak import LOAD, PLAN, TROUBLED, quiet_row, soak_outcome, soak_table, troubled

SLA = """
schema: 1
rules:
  - where: {suite: endurance}
    require:
      loss_ratio: "<= 0"
      lost_frames: "<= 0"
      session_flaps: "<= 0"
      sample_gaps: "<= 0"
      rate_change: ">= -1 %"
      latency_p99_change: "<= 20 %"
      memory_growth: "<= 4 MiB"
"""


def judged(soak):
    outcome = soak_outcome(soak)
    verdicts = judge(parse_sla(SLA).rules, outcome.label, outcome.figures, lambda _: None, outcome.missing)
    return {verdict.metric: verdict for verdict in verdicts}


def test_a_quiet_minute_passes_everything() -> None:
    soak = summarise(soak_table(), PLAN)
    assert (soak.offered, soak.lost, soak.disturbed_count, soak.gap_count, soak.flap_count) == (120 * LOAD, 0, 0, 0, 0)
    assert {name: verdict.judgement for name, verdict in judged(soak).items()} == dict.fromkeys(
        judged(soak), Judgement.PASS
    )
    assert "0 lost of 120,000,000: loss ratio < 2.5e-08 at 95 %" in soak_line(soak)


def test_what_went_wrong_is_told_with_its_time() -> None:
    soak = troubled()
    assert list(soak_events(soak)) == [
        "10.0 .. 11.0 s: 7 frames lost",
        "20.0 .. 21.0 s: disturbed by the rig: p1->p0: 9.1% of the frames were due while the generator was not running",
        "31.0 s: session bgp.12.12.12.2 went down",
        "40.0 .. 43.0 s: no samples of ovs: it did not answer",
    ]
    verdicts = judged(soak)
    assert verdicts["lost_frames"].judgement is Judgement.FAIL
    assert verdicts["lost_frames"].observed == 7
    assert verdicts["session_flaps"].judgement is Judgement.FAIL
    assert verdicts["sample_gaps"].judgement is Judgement.PASS, "the gap has a reason"
    assert dict(soak_facts(soak))["disturbed by the rig"] == "1 of 60 intervals, 0 frames lost in them"


def test_a_loss_in_a_stall_of_the_pmd_is_the_rigs() -> None:
    """The stall is read in the next second: it ended after the frames were counted."""
    lost = {"p0->p1.lost": 900, "p0->p1.received": LOAD - 900}
    stolen = {"pmd-sched.stolen_ns": 4e6}
    soak = summarise(soak_table(changes={10: lost, 11: stolen}), PLAN)
    assert (soak.lost, soak.disturbed_count, soak.disturbed_interval_lost) == (0, 1, 900)
    assert "kept PMD threads off their CPU for 4.00 ms, which explains 900 lost frames" in soak.disturbed[0].reason
    assert summarise(soak_table(changes={10: lost, 13: stolen}), PLAN).lost == 900, (
        "three seconds later explains nothing"
    )
    more = {"p0->p1.lost": 90_000, "p0->p1.received": LOAD - 90_000}
    assert summarise(soak_table(changes={10: more, 11: stolen}), PLAN).lost == 90_000, "nor does it explain so many"


def test_no_stall_explains_the_losses_of_several_intervals() -> None:
    """A little time taken each second explains as much each second, and not three times that."""
    explained = round(LOAD * 2 * 0.004 * 1.5)
    for lost, counted in ((explained, False), (round(explained * 1.2), True)):
        change = {"p0->p1.lost": lost, "p0->p1.received": LOAD - lost, "pmd-sched.stolen_ns": 4e6}
        soak = summarise(soak_table(changes=dict.fromkeys(range(60), change)), PLAN)
        assert (soak.lost > 0) is counted


@given(st.integers(0, 60))
@settings(max_examples=examples(30), deadline=None)
def test_too_many_spoiled_intervals_leave_a_lower_bound(count: int) -> None:
    skipped = {"p0->p1.skipped": LOAD}
    soak = summarise(soak_table(changes=dict.fromkeys(range(count), skipped)), PLAN)
    verdict = judged(soak)["lost_frames"]
    too_many = count > MOST_DISTURBED * 60
    assert verdict.judgement is (Judgement.INCONCLUSIVE if too_many else Judgement.PASS)
    if too_many:
        assert f"the rig disturbed {count} of 60 intervals" in verdict.reason


@pytest.mark.parametrize(("lost", "judgement"), [(0, Judgement.PASS), (900, Judgement.PASS), (90_000, None)])
def test_a_whole_soak_of_spoiled_intervals_is_judged_by_all_that_was_lost(lost, judgement) -> None:
    """900 of 1,000,000 frames a second and direction are below 0.1 % whosever they were; 90,000 are not."""
    skipped = {"p0->p1.skipped": LOAD // 20, "p0->p1.lost": lost, "p0->p1.received": LOAD - lost}
    soak = summarise(soak_table(changes=dict.fromkeys(range(55), skipped)), PLAN)
    assert (soak.disturbed_count, soak.is_whole) == (55, True)
    sla = SLA.replace('loss_ratio: "<= 0"', 'loss_ratio: "<= 0.1 %"').replace('      lost_frames: "<= 0"\n', "")
    outcome = soak_outcome(soak)
    verdicts = judge(parse_sla(sla).rules, outcome.label, outcome.figures, lambda _: None, outcome.missing)
    found = {verdict.metric: verdict for verdict in verdicts}
    assert found["loss_ratio"].judgement is (judgement or Judgement.INCONCLUSIVE)
    if judgement is None:
        assert "0 % (0 % .. 4.125 %): the rig disturbed 55 of 60 intervals" in found["loss_ratio"].reason
    passed = {name for name, verdict in found.items() if verdict.judgement is Judgement.PASS}
    assert passed >= {"session_flaps", "sample_gaps", "memory_growth"}
    assert found["latency_p99_change"].judgement is Judgement.INCONCLUSIVE
    assert (found["rate_change"].judgement is Judgement.PASS) is (lost == 0), "undated losses are nobody's"


def test_all_intervals_spoiled_still_bound_the_loss_and_half_the_load_does_not() -> None:
    for skipped, told in ((LOAD // 20, True), (LOAD, False)):
        soak = summarise(soak_table(changes={second: {"p0->p1.skipped": skipped} for second in range(60)}), PLAN)
        assert (soak.offered, soak.disturbed_count, soak.is_whole) == (0, 60, told)
        assert judged(soak)["lost_frames"].judgement is (Judgement.PASS if told else Judgement.INCONCLUSIVE)


def test_interrupted_it_is_inconclusive_but_for_what_failed_already() -> None:
    why = "ended after 20.0 s of 60.0 s by SIGTERM"
    clean, lossy = (summarise(soak_table(20, changes), PLAN, interrupted=why) for changes in ({}, TROUBLED))
    assert {verdict.judgement for verdict in judged(clean).values()} == {Judgement.INCONCLUSIVE}
    assert "at least 0 frames: ended after 20.0 s of 60.0 s by SIGTERM" in judged(clean)["lost_frames"].reason
    assert judged(clean)["rate_change"].reason == f"no trend over the whole time: {why}"
    assert judged(lossy)["lost_frames"].judgement is Judgement.FAIL


@pytest.mark.parametrize(
    ("metric", "column", "start", "step", "judgement"),
    [
        ("memory_growth", "vswitchd.rss", 60 << 20, 1 << 20, Judgement.FAIL),
        ("memory_growth", "vswitchd.rss", 60 << 20, 1 << 10, Judgement.PASS),
        ("rate_change", "p0->p1.received", LOAD, -1000, Judgement.FAIL),
        ("latency_p99_change", "p0->p1.p99_ns", 20_000, 200, Judgement.FAIL),
        ("latency_p99_change", "p0->p1.p99_ns", 20_000, -200, Judgement.PASS),
    ],
)
def test_a_trend_is_judged_by_its_interval(metric, column, start, step, judgement) -> None:
    changes = {second: {column: start + step * second} for second in range(60)}
    verdict = judged(summarise(soak_table(changes=changes), PLAN))[metric]
    assert verdict.judgement is judgement, verdict.reason


def test_what_the_generator_skipped_is_no_trend_of_the_duts() -> None:
    """Of the second half 3 % was never offered: all of the rest came."""
    less = round(0.97 * LOAD)
    skipped = {"p0->p1.skipped": LOAD - less, "p0->p1.sent": less, "p0->p1.received": less}
    soak = summarise(soak_table(changes=dict.fromkeys(range(30, 60), skipped)), replace(PLAN, most_skipped=0.04))
    assert soak.disturbed_count == 0
    assert judged(soak)["rate_change"].judgement is Judgement.PASS


def test_a_missing_sample_is_seen_and_named() -> None:
    table = SoakTable([name for name in quiet_row(0) if name != "t"])
    for second in [*range(10), *range(14, 60)]:
        table.add(quiet_row(second))
    soak = summarise(table, PLAN)
    assert (soak.missing_intervals, soak.unexplained) == (4, 1)
    assert soak.gaps == (Gap("generator", 10.0, 15.0, ""),)
    assert "no samples of generator: nobody knows why" in next(iter(soak_events(soak)))
    assert judged(soak)["sample_gaps"].judgement is Judgement.FAIL


def test_a_machine_that_slept_is_a_gap_with_a_reason() -> None:
    table = SoakTable([name for name in quiet_row(0) if name != "t"])
    for second in [*range(10), *range(14, 60)]:
        table.add(quiet_row(second) | ({"rig.absent_ns": 4e9} if second == 14 else {}))
    assert summarise(table, PLAN).gaps[0].reason == "the generator was not running for 4.0 s of it"


def test_spoiled_intervals_in_a_row_are_one_line_with_each_reason_once() -> None:
    usual = "{}% of it was undisturbed (both cores shared)"
    disturbed = [DisturbedInterval(10.0 + n, 11.0 + n, usual.format(n), 0) for n in range(3)]
    disturbed += [DisturbedInterval(13.0, 14.0, "core shared", 0), DisturbedInterval(20.0, 21.0, "core shared", 0)]
    soak = replace(summarise(soak_table(), PLAN), disturbed=tuple(disturbed), disturbed_count=5)
    assert list(soak_events(soak)) == [
        f"10.0 .. 14.0 s: disturbed by the rig: 4 intervals: 3 such as “{usual.format(0)}”; 1, “core shared”",
        "20.0 .. 21.0 s: disturbed by the rig: core shared",
    ]


def test_lists_are_bounded_and_counts_are_not() -> None:
    lost = {"p0->p1.lost": 1, "p0->p1.received": LOAD - 1}
    soak = summarise(soak_table(200, dict.fromkeys(range(200), lost)), replace(PLAN, duration_s=200))
    assert (len(soak.lossy), soak.lossy_count, soak.lost) == (MOST_NAMED, 200, 200)
    assert "and 150 more lossy intervals: see the file of samples" in list(soak_events(soak))


def test_nothing_sampled_proves_nothing() -> None:
    soak = summarise(soak_table(0), PLAN, interrupted="the generator died")
    verdicts = judged(soak)
    assert {verdict.judgement for verdict in verdicts.values()} == {Judgement.INCONCLUSIVE}
    assert (
        verdicts["loss_ratio"].reason
        == "no interval says anything: the generator died; the rig disturbed 0 of 0 intervals"
    )


@given(st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), max_size=300), st.integers(1, 50))
def test_thinning_is_bounded_and_keeps_within_the_values(values: list[float], most: int) -> None:
    points = thinned([float(at) for at in range(len(values))], values, most)
    present = [value for value in values if not math.isnan(value)]
    assert len(points) <= most
    assert bool(points) == bool(present)
    assert all(min(present) <= value <= max(present) for _, value in points)
    assert [at for at, _ in points] == sorted(at for at, _ in points)


@given(st.integers(1, 900))
@settings(max_examples=examples(20), deadline=None)
def test_curves_are_bounded_however_long_the_soak(seconds: int) -> None:
    curves = series(soak_table(seconds))
    assert {curve.panel for curve in curves} >= {"received rate", "latency", "PMD busy", "port packets", "sessions"}
    assert all(0 < len(curve.points) <= MOST_POINTS for curve in curves)
    (busy,) = (curve for curve in curves if curve.panel == "PMD busy")
    assert all(value == pytest.approx(40.0) for _, value in busy.points)


def test_a_daemon_that_died_is_a_session_that_is_down() -> None:
    """It counts no flaps any more."""
    dead = {"bgp.12.12.12.2.up": 0, "bgp.12.12.12.2.flaps": math.nan}
    soak = summarise(soak_table(changes=dict.fromkeys(range(30, 60), dead)), PLAN)
    assert [(flap.at_s, flap.what) for flap in soak.flaps] == [(31.0, "is not up")]
    assert judged(soak)["session_flaps"].judgement is Judgement.FAIL


def test_a_session_that_was_down_for_a_second_is_seen_in_the_chart_of_an_hour() -> None:
    down = {"bgp.12.12.12.2.up": 0, "bgp.12.12.12.2.flaps": 1}
    (session,) = (one for one in series(soak_table(3600, {1000: down})) if one.panel == "sessions")
    assert [value for _, value in session.points].count(0) == 1


def test_time_must_rise() -> None:
    table = soak_table(2)
    with pytest.raises(ValueError, match=r"time does not rise: 2\.0 s after 2\.0 s"):
        table.add(quiet_row(1))


@pytest.mark.parametrize(("span_s", "drawn"), [(0.3, 20), (0.97, 21)])
def test_a_short_sample_at_the_end_counts_and_is_in_no_curve(span_s: float, drawn: int) -> None:
    table = soak_table(20)
    rest = {name: 1.0 for name in quiet_row(0) if name.endswith((".received", ".sent"))}
    table.add({**quiet_row(20), **rest, "t": 20 + span_s})
    assert short_end_s(table) == (pytest.approx(span_s) if drawn == 20 else 0.0)
    assert {len(curve.points) for curve in series(table)} == {drawn}
    assert summarise(table, PLAN).offered == 20 * 2 * LOAD + 2


def test_a_soak_of_one_sample_is_drawn() -> None:
    assert short_end_s(soak_table(1)) == 0.0
    assert series(soak_table(1))


def test_hits_of_every_cache_are_drawn() -> None:
    shown = {curve.name for curve in series(soak_table()) if curve.panel == HITS}
    assert shown == {"pmd.c01.simple_match_hits", "pmd.c01.emc_hits"}
