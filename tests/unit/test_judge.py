"""Verdicts: three-valued, and a figure that is missing or only a bound never passes by luck."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.model.figure import Figure, exact
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Limit, Rule
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, worst
from pytest_nfvperf.model.statistics import Bound, Relative
from tests.config_support import parse_sla

LABELS = {"suite": "throughput", "topology": "phy2phy", "frame_size": "64", "bridges": "3"}
PASS, FAIL, INCONCLUSIVE = Judgement.PASS, Judgement.FAIL, Judgement.INCONCLUSIVE


def ndr(value: float = 4.2e6, unit: str = "pps", *, at_least: str = "", at_most: str = "", **more) -> Figure:
    """An NDR; ``at_least``, ``at_most``: why it is such a bound."""
    seen = exact("ndr", value, unit, **{"confidence": "confirmed by 5 s", "evidence": ("trial-7",), **more})
    return seen.bounded(low=bool(at_most), high=bool(at_least), detail=at_least or at_most)


NDR = ndr()


def nobody(_labels):
    raise AssertionError("an absolute bound asks no peer")


def judged(metric, text, observed, *, at=None, peers=nobody, missing=None):
    rule = Rule((), ((metric, parse_limit(metric, text, at)),), "sla.yaml:3: rules[0]")
    (verdict,) = judge([rule], LABELS, observed, peers, missing)
    return verdict


def test_pass():
    assert judged("ndr", ">= 4 Mpps", [NDR]) == Verdict(
        judgement=PASS,
        requirement="ndr >= 4 Mpps",
        metric="ndr",
        limit=4e6,
        unit="pps",
        observed=4.2e6,
        margin=pytest.approx(0.05),
        reason="4.20 Mpps",
        rule="sla.yaml:3: rules[0]",
        confidence="confirmed by 5 s",
        evidence=("trial-7",),
    )


def test_fail_has_a_negative_margin():
    verdict = judged("ndr", ">= 5 Mpps", [NDR])
    assert (verdict.judgement, verdict.margin) == (FAIL, pytest.approx(-0.16))


def test_smaller_is_better_for_latency():
    seen = [exact("latency_p99", 80_000.0, "ns", at="50 % of pdr")]
    verdict = judged("latency_p99", "<= 100 us", seen, at="50 % of pdr")
    assert (verdict.judgement, verdict.margin) == (PASS, pytest.approx(0.2))
    assert verdict.requirement == "latency_p99 <= 100 us at 50 % of pdr"
    assert judged("latency_p99", "<= 50 us", seen, at="50 % of pdr").margin == pytest.approx(-0.6)


@pytest.mark.parametrize(
    ("operator", "observed", "judgement"),
    [
        (">=", 4e6, PASS), (">", 4e6, FAIL), ("<=", 4e6, PASS), ("<", 4e6, FAIL), ("==", 4e6, PASS),
        ("==", 4.1e6, FAIL), (">", 4.1e6, PASS), ("<", 3.9e6, PASS), ("<=", 4.1e6, FAIL),
        (">=", 4e6 * (1 - 1e-12), PASS), (">", 4e6 * (1 + 1e-12), FAIL),
    ],
)  # fmt: skip
def test_operators_at_the_limit(operator, observed, judgement):
    """Equality holds up to the rounding of a unit conversion, and no further."""
    assert judged("ndr", f"{operator} 4 Mpps", [ndr(observed)]).judgement is judgement


@pytest.mark.parametrize(
    ("bound", "text", "judgement", "beyond"),
    [
        ("lower", ">= 4 Mpps", PASS, ""),
        ("lower", ">= 5 Mpps", INCONCLUSIVE, "; says nothing about >= 5.00 Mpps"),
        ("lower", "<= 4 Mpps", FAIL, ""),
        ("lower", "<= 5 Mpps", INCONCLUSIVE, "; says nothing about <= 5.00 Mpps"),
        ("lower", "== 4.2 Mpps", INCONCLUSIVE, "; says nothing about == 4.20 Mpps"),
        ("upper", ">= 5 Mpps", FAIL, ""),
        ("upper", ">= 4 Mpps", INCONCLUSIVE, "; says nothing about >= 4.00 Mpps"),
        ("upper", "<= 5 Mpps", PASS, ""),
        ("upper", "== 4 Mpps", INCONCLUSIVE, "; says nothing about == 4.00 Mpps"),
        ("upper", "== 5 Mpps", FAIL, ""),
    ],
)
def test_bounds(bound, text, judgement, beyond):
    words, why = {"lower": ("at least", "generator-limited"), "upper": ("at most", "confirmation lost frames")}[bound]
    seen = NDR.bounded(low=bound == "upper", high=bound == "lower", detail=why)
    reason = f"{words} 4.20 Mpps: {why}{beyond}"
    verdict = judged("ndr", text, [seen])
    assert (verdict.judgement, verdict.reason) == (judgement, reason)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("operator", [">=", "<=", ">", "<", "=="])
def test_what_is_no_figure_never_passes(value, operator):
    verdict = judged("ndr", f"{operator} 4 Mpps", [ndr(value)])
    assert verdict.judgement is INCONCLUSIVE
    assert verdict.reason == f"ndr is {value}: not a figure"
    assert (verdict.observed, verdict.margin) == (None, None)


def test_a_metric_that_was_not_measured_is_named():
    verdict = judged("latency_p99", "<= 100 us", [NDR], at="50 % of pdr")
    assert verdict.judgement is INCONCLUSIVE
    assert (
        verdict.reason
        == "latency_p99 was not measured by this test: ask for it, search.ndr_pdr(..., latency=True) (it measured ndr)"
    )
    assert judged("ndr", ">= 1 pps", []).reason == "ndr was not measured by this test (it measured nothing)"


def test_why_it_has_no_figure():
    verdict = judged("ndr", ">= 4 Mpps", [], missing={"ndr": "search aborted: out of time"})
    assert (verdict.judgement, verdict.reason) == (INCONCLUSIVE, "search aborted: out of time")


def test_a_limit_is_held_against_its_own_unit():
    seen = [NDR, ndr(2.15e9, "bps"), ndr(0.9, "line_ratio")]
    assert judged("ndr", ">= 2 Gbps", seen).reason == "2.15 Gbps"
    verdict = judged("ndr", ">= 95 % of line rate", seen)
    assert (verdict.judgement, verdict.reason) == (FAIL, "90 % of line rate")


def test_no_line_rate_to_be_a_share_of():
    verdict = judged("ndr", ">= 95 % of line rate", [NDR])
    assert verdict.judgement is INCONCLUSIVE
    assert verdict.reason == "ndr has no figure in line rate: the ports have no line rate"


@pytest.mark.parametrize(
    ("text", "bound", "judgement", "margin"),
    [
        (">= 5 Mpps", {"high": None}, INCONCLUSIVE, None),
        (">= 4 Mpps", {"low": None}, INCONCLUSIVE, None),
        (">= 4 Mpps", {"low": 3.9e6, "high": None, "value": 3.9e6}, INCONCLUSIVE, None),
        (">= 4 Mpps", {"high": None}, PASS, 0.05),
        (">= 5 Mpps", {"low": None}, FAIL, -0.16),
        (">= 4 Mpps", {"low": 3.9e6, "high": 4.3e6}, INCONCLUSIVE, 0.05),
    ],
)
def test_a_bound_that_does_not_decide_has_no_margin(text, bound, judgement, margin):
    verdict = judged("ndr", text, [replace(NDR, **bound)])
    assert (verdict.judgement, verdict.margin) == (judgement, margin if margin is None else pytest.approx(margin))


def test_loads_are_found_by_name():
    seen = [
        exact("loss_ratio", 0.1, "ratio", at="8000000 pps"),
        exact("loss_ratio", 0.0, "ratio", at="4000100 pps", confidence="0 lost of 8,000,200"),
    ]
    verdict = judged("loss_ratio", "<= 0", seen, at="4 Mpps")
    assert (verdict.judgement, verdict.margin, verdict.confidence) == (PASS, None, "0 lost of 8,000,200")
    assert judged("loss_ratio", "<= 0", seen, at="8 Mpps").judgement is FAIL
    verdict = judged("loss_ratio", "<= 0", seen, at="5 Mpps")
    assert verdict.judgement is INCONCLUSIVE
    assert verdict.reason == "loss_ratio was not measured at 5.00 Mpps (but at 8.00 Mpps, 4.00 Mpps)"
    verdict = judged("loss_ratio", "<= 0", seen)
    assert verdict.judgement is INCONCLUSIVE
    assert (
        verdict.reason == "loss_ratio was measured at several loads (8.00 Mpps, 4.00 Mpps): the SLA must say at which"
    )
    assert judged("loss_ratio", "<= 0", seen[1:]).judgement is PASS


def relation(mine, theirs, text=">= 95 % of {bridges: 1}"):
    asked = []

    def peers(labels):
        asked.append(dict(labels))
        return theirs

    verdict = judged("ndr", text, mine, peers=peers)
    assert asked == [{**LABELS, "bridges": "1"}]
    return verdict


def test_relation():
    verdict = relation([NDR], [ndr(4.0e6, evidence=("trial-2",))])
    assert (verdict.judgement, verdict.observed, verdict.limit) == (PASS, pytest.approx(1.05), 0.95)
    assert verdict.reason == "105 % (4.20 Mpps against 4.00 Mpps)"
    assert verdict.evidence == ("trial-7", "trial-2")
    verdict = relation([NDR], [ndr(6.0e6)])
    assert (verdict.judgement, verdict.margin) == (FAIL, pytest.approx(0.7 / 0.95 - 1))


def test_relation_at_exactly_the_limit():
    assert relation([ndr(0.95 * 4231117)], [ndr(4231117)]).judgement is PASS


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (None, "baseline bridges 1 was not measured in this run"),
        ([], "baseline bridges 1: ndr was not measured by this test (it measured nothing)"),
        ([ndr(0.0)], "baseline bridges 1 has ndr 0"),
        ([ndr(math.nan)], "baseline bridges 1 has ndr nan"),
    ],
)
def test_relation_without_a_baseline(theirs, reason):
    verdict = relation([NDR], theirs)
    assert (verdict.judgement, verdict.observed, verdict.reason) == (INCONCLUSIVE, None, reason)


def test_relation_to_a_figure_below_one():
    verdict = relation([ndr(0.4)], [ndr(0.5)])
    assert (verdict.judgement, verdict.observed) == (FAIL, pytest.approx(0.8))


LOWER = {"at_least": "generator-limited"}
UPPER = {"at_most": "confirmation failed"}


@pytest.mark.parametrize(
    ("mine", "theirs", "text", "judgement"),
    [
        # Mine may be more than seen: the ratio is at least what it looks like.
        (LOWER, {"value": 4e6}, ">= 95 % of {bridges: 1}", PASS),
        (LOWER, {"value": 8e6}, ">= 95 % of {bridges: 1}", INCONCLUSIVE),
        # The baseline may be more than seen: the ratio is at most what it looks like.
        ({}, {"value": 4e6, **LOWER}, ">= 95 % of {bridges: 1}", INCONCLUSIVE),
        ({}, {"value": 8e6, **LOWER}, ">= 95 % of {bridges: 1}", FAIL),
        # Both may be more: nothing is known.
        (LOWER, {"value": 4e6, **LOWER}, ">= 95 % of {bridges: 1}", INCONCLUSIVE),
        (LOWER, {"value": 8e6, **LOWER}, "<= 95 % of {bridges: 1}", INCONCLUSIVE),
        (UPPER, {"value": 8e6}, ">= 95 % of {bridges: 1}", FAIL),
        (UPPER, {"value": 4e6}, ">= 95 % of {bridges: 1}", INCONCLUSIVE),
        ({}, {"value": 4e6, **UPPER}, ">= 95 % of {bridges: 1}", PASS),
    ],
)
def test_relation_of_bounds(mine, theirs, text, judgement):
    assert relation([ndr(**mine)], [ndr(**theirs)], text).judgement is judgement


def test_relation_of_bounds_says_whose():
    verdict = relation([NDR], [ndr(4e6, **LOWER)])
    assert verdict.reason == (
        "at most 105 % (4.20 Mpps against at least 4.00 Mpps): baseline: generator-limited; "
        "says nothing about >= 95 %; a faster generator would resolve it: more CPUs for it, "
        "or a lab's (docs/tutorial/a-lab.md)"
    )


def test_only_matching_rules_judge():
    sla = parse_sla(
        "schema: 1\nrules:\n"
        "  - {where: {frame_size: 64}, require: {ndr: '>= 4 Mpps'}}\n"
        "  - {where: {frame_size: 128}, require: {ndr: '>= 9 Mpps'}}\n"
        "  - {where: {link: patch}, require: {ndr: '>= 9 Mpps'}}\n"
        "  - {require: {pdr: '>= 1 Mpps', ndr: ['>= 1 Mpps', '<= 5 Mpps']}}\n"
    )
    verdicts = judge(sla.rules, LABELS, [NDR], nobody)
    assert [(v.requirement, v.judgement) for v in verdicts] == [
        ("ndr >= 4 Mpps", PASS), ("pdr >= 1 Mpps", INCONCLUSIVE), ("ndr >= 1 Mpps", PASS), ("ndr <= 5 Mpps", PASS),
    ]  # fmt: skip
    assert judge(sla.rules[1:2], LABELS, [NDR], nobody) == ()


def test_worst():
    verdicts = {j: judged("ndr", text, seen) for j, text, seen in (
        (PASS, ">= 4 Mpps", [NDR]), (FAIL, ">= 5 Mpps", [NDR]), (INCONCLUSIVE, ">= 5 Mpps", []),
    )}  # fmt: skip
    assert worst([verdicts[PASS]]) is PASS
    assert worst([verdicts[PASS], verdicts[INCONCLUSIVE]]) is INCONCLUSIVE
    assert worst([verdicts[INCONCLUSIVE], verdicts[FAIL], verdicts[PASS]]) is FAIL
    assert worst([]) is INCONCLUSIVE


FIGURES = st.floats(0, 1e9)
TRUTH = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, "<": lambda a, b: a < b}


@given(
    FIGURES, FIGURES, st.sampled_from(sorted(TRUTH)), st.sampled_from(["exact", "lower", "upper"]), st.floats(0, 1e9)
)
def test_a_verdict_is_never_wrong_about_the_truth(value, limit, operator, bound, off):
    """Whatever the true value is that a bound allows, PASS means it meets the limit and FAIL that it does not."""
    truth = {"exact": value, "lower": value + off, "upper": max(0.0, value - off)}[bound]
    seen = exact("ndr", value, "pps").bounded(low=bound == "upper", high=bound == "lower")
    rule = Rule((), (("ndr", Limit(operator, limit, "pps", "")),), "")
    (verdict,) = judge([rule], {}, [seen], nobody)
    if math.isclose(truth, limit, rel_tol=1e-8) or math.isclose(value, limit, rel_tol=1e-8):
        return
    if verdict.judgement is not INCONCLUSIVE:
        assert (verdict.judgement is PASS) == TRUTH[operator](truth, limit)
    else:
        assert bound != "exact"


RATIO = Relative("forwarding_rate", (("bridges", "1"),), 0.97, 0.96, 0.98, 0.984, 0.01)


def on_ratio(text, ratio=RATIO, **labels):
    seen = Figure("forwarding_rate", 3.9e6, "pps", 3.8e6, 4e6, evidence=tuple("abcde"), relatives=(ratio,))
    rule = Rule((), (("forwarding_rate", parse_limit("forwarding_rate", text)),), "r")
    (verdict,) = judge([rule], LABELS | labels, [seen], lambda _: None)
    return verdict


@pytest.mark.parametrize(
    ("text", "ratio", "judgement", "reason"),
    [
        (">= 95 % of {bridges: 1}", RATIO, PASS, "97 % (96 % .. 98 %)"),
        (">= 99 % of {bridges: 1}", RATIO, FAIL, "97 % (96 % .. 98 %)"),
        (
            ">= 97 % of {bridges: 1}",
            RATIO,
            INCONCLUSIVE,
            "97 % (96 % .. 98 %); the interval neither shows nor refutes >= 97 %",
        ),
        (">= 96.5 % of {bridges: 1, topology: phy2phy}", RATIO, INCONCLUSIVE, "97 % (96 %"),
        (
            ">= 95 % of {bridges: 1}",
            replace(RATIO, low=0.0, why="baseline: generator-limited"),
            INCONCLUSIVE,
            "97 % (0 % .. 98 %): baseline: generator-limited; says nothing about >= 95 %",
        ),
        (
            ">= 95 % of {bridges: 1}",
            replace(RATIO, high=None, why="generator-limited"),
            PASS,
            "(96 % .. more)",
        ),
        (">= 95 % of {bridges: 2}", RATIO, INCONCLUSIVE, "baseline bridges 2 was not measured in this run"),
    ],
)
def test_a_ratio_of_interleaved_rounds_is_judged_by_its_interval(text, ratio, judgement, reason):
    verdict = on_ratio(text, ratio)
    assert verdict.judgement is judgement
    assert reason in verdict.reason


def test_what_the_ratio_rests_on_is_said():
    expected = "5 readings in interleaved rounds, interval at 98.4 %; a difference of 1 % would have shown"
    assert on_ratio(">= 95 % of {bridges: 1}").confidence == expected
    few = replace(RATIO, low=0.0, high=None, smallest_detectable=None)
    assert on_ratio(">= 95 % of {bridges: 1}", few).confidence.endswith("so few show no difference at all")


def test_the_baseline_is_all_of_itself():
    verdict = on_ratio(">= 95 % of {bridges: 3}")
    assert (verdict.judgement, verdict.observed) == (PASS, 1.0)


def test_a_sampled_figure_is_judged_by_the_interval_of_its_median():
    seen = [Figure("forwarding_rate", 3.9e6, "pps", 3.8e6, 4e6)]
    assert judged("forwarding_rate", ">= 3.7 Mpps", seen).judgement is PASS
    assert judged("forwarding_rate", ">= 4.1 Mpps", seen).judgement is FAIL
    verdict = judged("forwarding_rate", ">= 3.85 Mpps", seen)
    assert verdict.judgement is INCONCLUSIVE
    assert verdict.reason.startswith("3.90 Mpps (3.80 Mpps .. 4.00 Mpps); the interval neither shows nor refutes")


def test_a_negative_slope_meets_a_negative_limit():
    seen = [Figure("forwarding_rate_slope", -0.002, "ratio", -0.004, -0.001)]
    assert judged("forwarding_rate_slope", ">= -0.5 %", seen).judgement is PASS
    assert judged("forwarding_rate_slope", ">= 0 %", seen).judgement is FAIL


@pytest.mark.parametrize(
    ("text", "observed", "margin"),
    [(">= -1 %", -0.00097, 0.903), (">= -1 %", -0.019, -0.9), ("<= -1 %", -0.02, 1.0), ("<= -1 %", 0.0, -1.0)],
)
def test_a_margin_against_a_negative_limit_is_positive_when_better(text, observed, margin):
    verdict = judged("rate_change", text, [exact("rate_change", observed, "ratio")])
    assert verdict.margin == pytest.approx(margin)
    assert (verdict.judgement is PASS) == (margin > 0)


def compared(low, high, *, mine, theirs, reason):
    """A ratio measured in rounds, its baseline 6.02 Mpps."""
    ratio = Relative(
        metric="ndr",
        baseline=(("bridges", "1"),),
        ratio=0.98,
        low=low,
        high=high,
        confidence=0.98,
        smallest_detectable=0.02,
        why=reason,
        baseline_value=6.02e6,
        baseline_bound=Bound(theirs),
    )
    seen = ndr(5.9e6, relatives=(ratio,)).bounded(high=mine == "at least")
    return judged("ndr", ">= 95 % of {bridges: 1}", [seen])


def test_a_ratio_of_two_bounds_names_both_and_what_would_resolve_it():
    verdict = compared(0.0, None, mine="at least", theirs="at least", reason="generator-limited")
    assert verdict.judgement is INCONCLUSIVE
    assert verdict.reason == (
        "about 98 % (at least 5.90 Mpps against at least 6.02 Mpps): generator-limited; says nothing about >= 95 %; "
        "a faster generator would resolve it: more CPUs for it, or a lab's (docs/tutorial/a-lab.md)"
    )


@pytest.mark.parametrize(
    ("low", "high", "mine", "theirs", "judgement"),
    [(0.0, 0.9, "", "at least", FAIL), (0.96, None, "at least", "", PASS), (0.0, 0.99, "", "at least", INCONCLUSIVE)],
)
def test_a_bound_that_decides_decides(low, high, mine, theirs, judgement):
    assert compared(low, high, mine=mine, theirs=theirs, reason="generator-limited").judgement is judgement
