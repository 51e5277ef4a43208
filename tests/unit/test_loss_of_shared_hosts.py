"""A loss of which nobody can tell whose it is fails no limit; what the DUT's own rules dropped does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_search_algorithms import measurer_on
from test_searches_by_windows import CAPACITY, OnASharedHost

from pytest_nfvperf.measure.load_series import loss_of_trial
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.disturbance.windows import LATEST_NS
from pytest_nfvperf.model.figure import Why
from pytest_nfvperf.model.measure.bounds import TrialLoss
from pytest_nfvperf.model.measure.ledger import Ledger, LedgerLine
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement, worst
from tests.config_support import parse_sla
from tests.outcomes import loss

LOAD_FPS = 5e6


def trial_on(shared: float, dropped: str = "") -> Trial:
    """At a load that the DUT bears on a core of its own; ``dropped``: the counter of a hundredth of the frames."""
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=shared))
    trial = measurer.measure(0.5, LOAD_FPS, "fixed load")
    offered, received = trial.result.offered, trial.result.received
    lines = (LedgerLine("br0", dropped, offered // 100),) if dropped else ()
    return replace(trial, ledger=Ledger(offered, received, lines, unexplained=0))


def verdict(lost: TrialLoss, limit: str) -> Judgement:
    sla = parse_sla(f"schema: 1\nrules:\n  - require: {{loss_ratio: '{limit}'}}\n")
    return worst(judge(sla.rules, {}, tuple(lost.figures()), lambda _: None))


def test_a_host_that_shares_the_core_all_the_time_fails_nothing() -> None:
    lost = loss_of_trial(trial_on(shared=1.0))
    assert lost.point.loss_ratio > 0.1
    assert lost.whose == "too little of the trial was undisturbed to tell the DUT's loss from the machine's"
    assert verdict(lost, "<= 0.1 %") is Judgement.INCONCLUSIVE
    assert verdict(lost, "<= 90 %") is Judgement.PASS


@pytest.mark.parametrize(
    ("counter", "judged"),
    [
        ("drop_action_of_pipeline", Judgement.FAIL),
        ("datapath_drop_meter", Judgement.FAIL),
        ("ovs_tx_failure_drops", Judgement.INCONCLUSIVE),
        ("datapath_drop_upcall_error", Judgement.INCONCLUSIVE),
    ],
)
def test_what_the_duts_rules_drop_is_its_own_on_any_host(counter: str, judged: Judgement) -> None:
    lost = loss_of_trial(trial_on(shared=1.0, dropped=counter))
    assert verdict(lost, "<= 0.1 %") is judged


@pytest.mark.parametrize(
    ("counter", "judged"),
    [("drop_action_of_pipeline", Judgement.FAIL), ("datapath_drop_meter", Judgement.INCONCLUSIVE)],
)
def test_what_waited_while_the_dut_paused_may_overrun_a_meter(counter: str, judged: Judgement) -> None:
    trial = trial_on(shared=1.0, dropped=counter)
    assert trial.result.windows is not None
    (witness,) = trial.result.windows.witnesses
    witness = replace(witness, late_ns=(2 * LATEST_NS, *witness.late_ns[1:]))
    windows = replace(trial.result.windows, witnesses=(witness,))
    lost = loss_of_trial(replace(trial, result=replace(trial.result, windows=windows)))
    assert verdict(lost, "<= 0.1 %") is judged


def test_on_a_quiet_host_the_loss_is_what_it_is() -> None:
    lost = loss_of_trial(trial_on(shared=0.0, dropped="drop_action_of_pipeline"))
    ratio, _ = lost.figures()
    assert (ratio.value, ratio.low, ratio.high, ratio.why) == (0, 0, 0, ())


def test_lost_frames_are_bounded_as_their_ratio_is() -> None:
    ratio, frames = loss(10, 0.2, frames=(200, 1000), least=0.01, whose="why").figures()
    assert (ratio.low, ratio.high, ratio.why, ratio.detail) == (0.01, 0.2, (Why.WHOSE_LOSS,), "why")
    assert (frames.low, frames.high, frames.why, frames.detail) == (10, 200, (Why.WHOSE_LOSS,), "why")
