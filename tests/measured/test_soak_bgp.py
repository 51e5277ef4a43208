"""A soak over the path that BGP announced, with real daemons: what is sampled of them, and what ends a session."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.writer import read_samples
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.features.routing.daemons import SessionSampler
from pytest_nfvperf.features.routing.model import BgpPathPlan
from pytest_nfvperf.features.routing.paths import BGP as DAEMONS
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.functional.bgp_support import needs_daemons
from tests.functional.ovs_support import needs_hugepages
from tests.functional.soak_support import At, soaking_on

pytestmark = [*needs_daemons, needs_hugepages]
SLA = Path(__file__).parents[2] / "suites" / "endurance" / "sla.yaml"
LABELS = {"suite": "endurance", "test": "test_soak_bgp"}
BGP, BFD = "bgp.12.12.12.2", "bfd.12.12.12.2"


@pytest.mark.parametrize(
    ("victim", "number", "told"),
    [
        # FRR hears of it from BFD, and counts it
        pytest.param("bird", signal.SIGSTOP, "went down", marks=pytest.mark.thorough("another end of a session")),
        ("bgpd", signal.SIGKILL, "is not up"),  # nobody is left to count
    ],
)
def test_a_session_that_goes_fails_the_soak(victim: str, number: signal.Signals, told: str, tmp_path: Path) -> None:
    plan = BgpPathPlan()
    with soaking_on(plan.topology(), tmp_path, sample_s=0.5) as soaking:  # shared machines pause for 0.2 s
        built = soaking.live.deployment.built
        path = soaking.backend.daemons(DAEMONS).start(built, plan)
        try:
            path.await_ready()
            pids = {**path.frr.pids(), **path.bird.pids()}
            fault = At(4, lambda: os.kill(pids[victim], number))
            outcome = soaking.outcome(5.0, SessionSampler(lambda: path.frr), fault, traffic=plan.traffic())
        finally:
            path.close()
    soak = outcome.soak
    assert soak is not None
    assert set(soak.sessions) == {BGP, BFD}
    assert (BGP, told) in {(flap.session, flap.what) for flap in soak.flaps}
    table = read_samples(tmp_path / "samples-soak-0001.jsonl")
    up = [value for value in table.column(f"{BGP}.up") if not math.isnan(value)]
    assert (up[0], up[-1]) == (1, 0)
    curves = {curve["name"] for curve in soaking.recorded()["series"] if curve["panel"] == "sessions"}  # type: ignore[attr-defined]
    assert curves == {BGP, BFD}
    verdicts = judge(load_sla(SLA).rules, LABELS, outcome.figures, lambda _: None, outcome.missing)
    (flaps,) = (verdict for verdict in verdicts if verdict.metric == "session_flaps")
    assert flaps.judgement is Judgement.FAIL, flaps
