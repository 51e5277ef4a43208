"""Limits that are a share of an earlier run's figures, and machines that can be compared at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.model.evidence.comparison import MACHINE_FACTS, unlike
from pytest_nfvperf.model.figure import Figure, exact
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.sla.verdict import Baseline, Judgement, Verdict, subject_of

LABELS = {"suite": "throughput", "test": "test_ndr_pdr", "frame_size": "64", "firmware": "22.36"}
PDR = exact("pdr", 4e6, "pps", evidence=("trial-7",))
BITS = exact("pdr", 4e6 * 512, "bps")
THEN = Baseline("the baseline old", "2026-11-20 09:30", {subject_of(LABELS): [PDR, BITS]})


def judged(
    text: str, now: Figure, baseline: Baseline | None = THEN, labels: Mapping[str, str] = LABELS, at: str = ""
) -> Verdict:
    rule = Rule((), ((now.metric, parse_limit(now.metric, text, at or None)),), "sla.yaml:3: rules[0]")
    (verdict,) = judge([rule], labels, [now], lambda _: None, baseline=baseline)
    return verdict


@pytest.mark.parametrize(
    ("fps", "judgement", "observed"), [(3.9e6, "PASS", 0.975), (3.8e6, "FAIL", 0.95), (4.4e6, "PASS", 1.1)]
)
def test_a_figure_is_judged_as_a_share_of_the_earlier_one(fps: float, judgement: str, observed: float) -> None:
    verdict = judged(">= 97 % of baseline", exact("pdr", fps, "pps", evidence=PDR.evidence))
    assert verdict.judgement is Judgement[judgement]
    assert verdict.observed == pytest.approx(observed)
    assert verdict.requirement == "pdr >= 97 % of baseline"
    assert verdict.confidence == (
        "against the run of 2026-11-20 09:30; how much a figure moves from run to run is not in its interval"
    )
    assert verdict.evidence == ("trial-7",)


def test_a_bound_on_either_side_shows_less() -> None:
    at_least = PDR.bounded(high=True, detail="the generator's ceiling")
    assert judged(">= 97 % of baseline", at_least).judgement is Judgement.PASS
    bounded = replace(THEN, observed={subject_of(LABELS): [at_least]})
    verdict = judged(">= 97 % of baseline", PDR, bounded)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "baseline: the generator's ceiling" in verdict.reason


def test_another_firmware_is_what_a_baseline_is_for() -> None:
    assert judged(">= 97 % of baseline", PDR, labels={**LABELS, "firmware": "22.37"}).judgement is Judgement.PASS


def test_the_load_is_the_same_on_both_sides() -> None:
    slow, fast = (exact("latency_p99", ns, "ns", at=at) for ns, at in ((9e4, "90 % of pdr"), (2e4, "10 % of pdr")))
    then = replace(THEN, observed={subject_of(LABELS): [slow, fast]})
    now = replace(fast, value=2.1e4, low=2.1e4, high=2.1e4)
    verdict = judged("<= 110 % of baseline", now, then, at="10 % of pdr")
    assert (verdict.judgement, verdict.observed) == (Judgement.PASS, pytest.approx(1.05))


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        (None, "no baseline was given: --nfv-baseline DIR names the results of an earlier run"),
        (replace(THEN, observed={}), "the baseline old has no such test: it measured nothing"),
        (
            replace(THEN, observed={subject_of({**LABELS, "frame_size": "128"}): [PDR]}),
            "the baseline old has no such test: the most similar one has frame_size 128, here 64",
        ),
        (
            replace(THEN, unlike=("cpu_model: A then, B now",)),
            "the baseline old was measured on another machine (cpu_model: A then, B now)",
        ),
        (
            replace(THEN, observed={subject_of(LABELS): [exact("ndr", 4e6, "pps")]}),
            "the baseline old: pdr was not measured by this test (it measured ndr)",
        ),
        (replace(THEN, observed={subject_of(LABELS): [replace(PDR, value=0.0)]}), "the baseline old has pdr 0"),
    ],
)
def test_without_a_figure_to_compare_with_nothing_is_shown(baseline: Baseline | None, reason: str) -> None:
    verdict = judged(">= 97 % of baseline", PDR, baseline)
    assert verdict.observed is None, "4 Mpps are no share of anything"
    assert (verdict.judgement, verdict.reason) == (Judgement.INCONCLUSIVE, reason)


def test_a_topology_may_still_be_compared_with_in_the_same_run() -> None:
    assert parse_limit("pdr", ">= 90 % of baselines").relative_to == (("topology", "baselines"),)
    limit = parse_limit("pdr", ">= 90 % of  baseline")
    assert (limit.relative_to, limit.of_baseline, limit.is_share, limit.unit) == (None, True, True, "ratio")


def test_machines_are_alike_whatever_versions_run_on_them() -> None:
    then = {"cpu_model": "EPYC", "ovs": "3.1.0", "kernel": "6.1", "ports": {"p0": {"device": "1019", "firmware": "1"}}}
    now = {"cpu_model": "EPYC", "ovs": "3.5.0", "kernel": "6.12", "ports": {"p0": {"device": "1019", "firmware": "2"}}}
    assert unlike(then, now) == ()
    now["ports"] = {"p0": {"device": "101b"}, "p1": {"kind": "dpdk", "rxq": 2}}
    assert unlike(then, now) == (
        ("port p0", "device 1019", "device 101b"),
        ("port p1", "unknown", "kind dpdk, rxq 2"),
    )


@given(st.sampled_from(MACHINE_FACTS), st.integers(), st.integers())
def test_each_fact_of_a_machine_counts(fact: str, was: int, is_now: int) -> None:
    found = unlike({fact: was}, {fact: is_now})
    assert found == (() if was == is_now else ((fact, str(was), str(is_now)),))
