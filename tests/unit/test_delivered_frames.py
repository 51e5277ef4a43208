"""A datapath delivers each frame once, to its port and unchanged: whatever breaks that fails each judged test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from misdelivering_dut import Misdelivers
from test_search_algorithms import measurer_on
from test_searches_by_windows import CAPACITY, OnASharedHost

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.features.history.series import measured as in_history
from pytest_nfvperf.measure.load_series import (
    DELIVERIES,
    latency_missing,
    latency_point,
    loss_of_trial,
    with_trials,
)
from pytest_nfvperf.measure.measurer import LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.search_algorithms import mlr_search
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.measure.bounds import PlateauPoint, completed, latency_figures
from pytest_nfvperf.model.measure.ledger import Ledger, LedgerLine, Loss
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, Outcome, SearchStatus
from pytest_nfvperf.model.sla.judge import judge, judge_defaults
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from tests.config_support import parse_sla
from tests.outcomes import measured

ANY = "loss_ratio: '<= 100 %'"
JUDGED = [metric for metric in DELIVERIES if metric != "reordered_ratio"]


def fixed_load(trial: Trial, traffic: Any = None) -> Outcome:
    """As search.loss_at makes it."""
    point, why = latency_point("a load", trial)
    loss = loss_of_trial(trial)
    outcome = Outcome(
        *((), "fixed-load", 64, 2),
        figures=(*loss.figures(), *latency_figures(point)),
        missing=loss.missing() | latency_missing(point, why),
        loss_curve=(loss.point,),
        latency=(point,),
        trials=(trial.id,),
    )
    return completed(with_trials(outcome, traffic, [trial]))


def trial_on(traffic: Any = None, load_fps: float = 1e6, **rig: Any) -> Trial:
    measurer = measurer_on(Misdelivers(**({"capacity_fps": 4e6} | rig)))
    measurer.traffic = traffic or measurer.traffic
    return measurer.measure(0.5, load_fps, "fixed load")


def failed(outcome: Outcome, *require: str, where: str = "") -> list[Verdict]:
    """What an SLA fails, as the fixture sla judges it."""
    text = "".join(f"  - require: {{{one}}}\n" + (f"    where: {{{where}}}\n" if where else "") for one in require)
    observed = outcome.figures
    found = judge(parse_sla(f"schema: 1\nrules:\n{text}").rules, {}, observed, lambda _: None, outcome.missing)
    return [each for each in (*found, *judge_defaults(found, {}, observed)) if each.judgement is not Judgement.PASS]


@pytest.mark.parametrize("metric", JUDGED)
def test_what_a_datapath_may_not_do_fails_by_itself(metric: str) -> None:
    (verdict,) = failed(fixed_load(trial_on(wrong={DELIVERIES[metric]: 0.1})), ANY)
    assert (verdict.judgement, verdict.metric, verdict.observed) == (Judgement.FAIL, metric, 0.1)
    assert verdict.evidence
    assert f"{100_000:,} {metric.removesuffix('_ratio')} of 1,000,000 at 1.00 Mpps" in verdict.confidence
    assert (metric == "misdirected_ratio") == ("came to p0, p1" in verdict.confidence)
    assert "each frame once" in verdict.rule


@pytest.mark.parametrize("metric", DELIVERIES)
def test_nothing_fails_a_dut_that_delivers_and_an_sla_can_ask_for_each(metric: str) -> None:
    outcome = fixed_load(trial_on())
    assert failed(outcome, ANY, f"{metric}: '<= 0'") == []
    assert outcome.figure(metric, "ratio").value == 0
    assert not any(
        figure.metric == metric for each in in_history({frozenset(): outcome.figures}) for figure in each.figures
    )


@pytest.mark.parametrize("metric", JUDGED)
def test_a_rule_for_the_metric_decides_instead(metric: str) -> None:
    outcome = fixed_load(trial_on(wrong={DELIVERIES[metric]: 0.1}))
    assert failed(outcome, ANY, f"{metric}: '<= 100 %'") == []
    (verdict,) = failed(outcome, f"{metric}: '<= 1 %'")
    assert (verdict.judgement, verdict.limit) == (Judgement.FAIL, 0.01)


def test_reordering_is_judged_where_a_rule_asks() -> None:
    outcome = fixed_load(trial_on(wrong={"out_of_order": 0.1}))
    assert failed(outcome, ANY) == []
    (verdict,) = failed(outcome, "reordered_ratio: '<= 1 %'")
    assert (verdict.judgement, verdict.observed) == (Judgement.FAIL, 0.1)


def test_nobody_judges_a_delivery_where_no_rule_judges_anything() -> None:
    observed = fixed_load(trial_on(wrong={"duplicated": 1.0})).figures
    assert list(judge_defaults((), {}, observed)) == []


@pytest.mark.parametrize("metric", DELIVERIES)
def test_what_a_generator_does_not_count_is_missing_and_fails_nothing(metric: str) -> None:
    outcome = fixed_load(trial_on(wrong={DELIVERIES[metric]: None}))
    assert outcome.figure(metric, "ratio") is None
    assert failed(outcome, ANY) == []
    (verdict,) = failed(outcome, f"{metric}: '<= 0'")
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "the generator does not count" in verdict.reason


def test_frames_to_a_group_may_come_out_of_any_port() -> None:
    generator = Misdelivers(4e6, wrong={"misdirected": 0.1, "duplicated": 0.1})
    measurer = measurer_on(generator)
    trial = measurer.measure(0.5, 1e6, "fixed load")
    to_many = (Direction("p0", "p1"), Direction("p0", "p2"))
    spread = replace(trial, result=replace(trial.result, spec=replace(trial.result.spec, directions=to_many)))
    assert [verdict.metric for verdict in failed(fixed_load(spread), ANY)] == ["duplicated_ratio"]


class CopiesAClass(FakeGenerator):
    def simulated(self, spec: TrialSpec) -> TrialResult:
        result = super().simulated(spec)
        voice, bulk = result.classes
        copied = replace(bulk, counts=tuple(replace(each, duplicated=each.received) for each in bulk.counts))
        return replace(result, classes=(voice, copied))


def test_a_class_is_judged_by_its_own_frames() -> None:
    mix = TrafficMix(voice=(Traffic(frame_size=128), 0.1), bulk=(Traffic(frame_size=64), 0.9))
    measurer = measurer_on(CopiesAClass(4e6))
    measurer.traffic = mix
    outcome = fixed_load(measurer.measure(0.5, 1e6, "fixed load"), mix)
    assert failed(outcome, ANY, where="class: voice") == []
    (verdict,) = failed(outcome, ANY, where="class: bulk")
    assert (verdict.metric, verdict.observed, dict(verdict.subject)) == ("duplicated_ratio", 1.0, {"class": "bulk"})


class CopiesAbove(Misdelivers):
    """A DUT that sends frames twice above a load."""

    copies_above = 0.0

    def simulated(self, spec: TrialSpec) -> TrialResult:
        self.wrong = {"duplicated": float(spec.load_fps > self.copies_above)}
        return super().simulated(spec)


@pytest.mark.parametrize(("copies_above", "fails"), [(5e6, 0), (1e6, 1)])
def test_of_a_search_the_confirmation_decides_and_its_steps_are_not_invalid(copies_above: float, fails: int) -> None:
    generator = CopiesAbove(4e6)
    generator.copies_above = copies_above
    measurer: LoadMeasurer = measurer_on(generator)
    (found,) = mlr_search(measurer, [Goal("ndr", 0.0)], LoadLimits(10_000, 10e6))
    assert found.load_fps == pytest.approx(4e6, rel=0.01)
    assert not measurer.disturbed_loads
    trial = measurer.measure(1.0, found.load_fps, "confirmation of ndr")
    overload = measurer.attempt(0.5, 8e6, "forwarding rate", saturating=True)
    assert overload.result.counts[0].duplicated
    confirmed = replace(found, confirmation=Confirmation(trial.id, found.load_fps, 1.0, 0.0, passed=True))
    plateau = PlateauPoint(overload.id, 4e6, 4e6, 4e6, 50)
    outcome = measured(Outcome((), "mlrsearch", 64, 2), confirmed, plateaus=[plateau])
    outcome = with_trials(outcome, measurer.traffic, measurer.trials)
    found_wrong = failed(outcome, "ndr: '>= 3 Mpps'")
    assert [verdict.metric for verdict in found_wrong] == ["duplicated_ratio"] * fails
    assert all(verdict.evidence == (trial.id,) for verdict in found_wrong)


def test_what_the_dut_counted_stands_beside_each_verdict_on_the_trial() -> None:
    trial = trial_on()
    counted = (Loss("conntrack_full", 8_313, "the connection table was full"),)
    trial = replace(trial, ledger=Ledger(trial.result.offered, trial.result.received, (), 0, counted=counted))
    outcome = fixed_load(trial)
    text = f"conntrack_full 8,313 in {trial.id}: the connection table was full"
    assert outcome.dut_counted == (text,)
    (verdict, *_) = judge(
        parse_sla(f"schema: 1\nrules:\n  - require: {{{ANY}}}\n").rules, {}, outcome.figures, lambda _: None
    )
    assert verdict.judgement is Judgement.PASS
    assert verdict.confidence.endswith(f"; the DUT counted {text}")


# Faults that are certain although the machine disturbed all trials.


def disturbed(trial: Trial, dropped: int = 0, counter: str = "drop_action_of_pipeline", *codes: Reason) -> Trial:
    """A trial of which a fifth was skipped, and of whose frames a counter says that the DUT dropped some."""
    counts = tuple(
        replace(
            each,
            skipped=each.sent // 5,
            sent=each.sent - each.sent // 5,
            received=max(0, each.received - each.sent // 5),
        )
        for each in trial.result.counts
    )
    invalid = tuple(InvalidReason(code, "") for code in codes or (Reason.SKIPPED_FRAMES,))
    result = replace(trial.result, counts=counts, invalid=invalid)
    lines = (LedgerLine("br0", counter, dropped),) if dropped else ()
    return replace(trial, result=result, ledger=Ledger(result.offered, result.received, lines, 0))


def test_all_frames_dropped_by_a_flow_fail_at_any_disturbance() -> None:
    lost = trial_on(loss_ratio=1.0)
    trial = disturbed(lost, dropped=800_000)
    assert trial.shows_a_fault()
    outcome = fixed_load(trial)
    (verdict,) = failed(outcome, "loss_ratio: '<= 50 %'")
    assert (verdict.judgement, verdict.observed) == (Judgement.FAIL, 1.0)
    assert "offered 800 kpps of the 1.00 Mpps" in verdict.reason
    assert outcome.latency[0].p99_ns is None
    (verdict,) = failed(outcome, "latency_p99: {at: 1 Mpps, limit: '<= 1 s'}")
    assert verdict.judgement is Judgement.INCONCLUSIVE


@pytest.mark.parametrize(
    ("dropped", "counter", "codes", "certain"),
    [
        (1, "drop_action_of_pipeline", (), True),
        (1, "misdirected", (Reason.CPU_MOVED, Reason.DUT_CPU_STOLEN), True),
        (0, "", (), False),
        (1, "ovs_tx_failure_drops", (), False),
        (1, "datapath_drop_meter", (), False),  # a pause overruns its bucket
        (1, "drop_action_of_pipeline", (Reason.SKIPPED_FRAMES, Reason.COUNTER_WENT_BACK), False),
    ],
)
def test_only_what_no_pause_causes_is_certain(
    dropped: int, counter: str, codes: tuple[Reason, ...], certain: bool
) -> None:
    trial = disturbed(trial_on(loss_ratio=0.1), dropped, counter, *codes)
    assert trial.shows_a_fault() is certain


def test_copies_fail_though_the_machine_disturbed_all_trials() -> None:
    trial = disturbed(trial_on(wrong={"duplicated": 1.0}))
    assert trial.shows_a_fault()
    assert [verdict.metric for verdict in failed(fixed_load(trial), ANY) if verdict.judgement is Judgement.FAIL] == [
        "duplicated_ratio"
    ]


@pytest.mark.parametrize(("limit", "judgement"), [("<= 0", Judgement.FAIL), ("<= 20 %", Judgement.INCONCLUSIVE)])
def test_a_loss_at_less_load_breaks_each_limit_that_it_exceeds(limit: str, judgement: Judgement) -> None:
    trial = trial_on(loss_ratio=0.1)
    counts = tuple(
        replace(each, sent=each.sent - each.skipped, intended=each.intended * 2, skipped=each.intended)
        for each in trial.result.counts
    )
    short = replace(trial, result=replace(trial.result, counts=counts))
    (verdict,) = failed(fixed_load(short), f"loss_ratio: '{limit}'")
    assert verdict.judgement is judgement


def test_a_class_of_which_nothing_comes_is_lost_on_any_host() -> None:
    mix = TrafficMix(voice=(Traffic(frame_size=128), 0.1), bulk=(Traffic(frame_size=64), 0.9))
    for class_loss, judgement in (
        ({"voice": 1.0}, Judgement.FAIL),
        ({"voice": 0.01, "bulk": 0.01}, Judgement.INCONCLUSIVE),
    ):
        trial = trial_on(mix, class_loss=class_loss)
        trial = replace(trial, result=replace(trial.result, invalid=(InvalidReason(Reason.SKIPPED_FRAMES, ""),)))
        (verdict, *_) = failed(fixed_load(trial, mix), "loss_ratio: '<= 0'", where="class: voice")
        assert verdict.judgement is judgement


@pytest.mark.parametrize(
    "rig",
    [OnASharedHost(CAPACITY, shared=1.0, drops=1.0), FakeGenerator(4e6, loss_ratio=1.0, invalid_every=1)],
    ids=["doubtful", "invalid"],
)
@pytest.mark.parametrize(
    ("counter", "status"),
    [("drop_action_of_pipeline", SearchStatus.BELOW_MINIMUM), ("rx_dropped", SearchStatus.ABORTED)],
)
def test_a_search_refutes_what_a_flow_drops_on_any_host(rig: FakeGenerator, counter: str, status: SearchStatus) -> None:
    """Seen: INCONCLUSIVE for a DUT that dropped all frames."""
    measurer = measurer_on(replace(rig))
    measurer.runner.make_ledger = lambda result, *_: Ledger(
        result.offered, result.received, (LedgerLine("br0", counter, result.lost),), 0
    )
    (found,) = mlr_search(measurer, [Goal("ndr", 0.0)], LoadLimits(10_000, 5e6))
    assert found.status is status or isinstance(rig, OnASharedHost)
    assert bool(measurer.disturbed(found) or measurer.disturbed_loads) is (counter == "rx_dropped")


def test_the_last_disturbed_trial_that_shows_a_fault_is_taken() -> None:
    measurer = measurer_on(Misdelivers(4e6, invalid_every=1, wrong={"duplicated": 1.0}))
    with pytest.raises(InvalidTrialsError) as raised:
        measurer.measure(0.5, 1e6, "fixed load")
    assert measurer.still_shown(raised.value, Trial.shows_a_fault) is measurer.trials[-1]
    with pytest.raises(InvalidTrialsError):
        measurer.still_shown(raised.value, lambda _: False)
