"""No verdict is wrong about what was measured, whatever the rig did meanwhile.

A figure belongs to the load that was offered. PASS needs that load, and an interval that meets the limit whole; FAIL
needs an interval of which nothing meets it. Every place that shows a figure asks one function which bound it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_search_algorithms import NDR, measurer_on

from pytest_nfvperf.adapters.evidence.comparison import _samples
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.report.charts import load_mark
from pytest_nfvperf.adapters.report.figures import bounded_text, goal_figures, other_result
from pytest_nfvperf.adapters.report.junit import junit_properties
from pytest_nfvperf.features.export import TABLES
from pytest_nfvperf.features.history.series import measured as measured_entries
from pytest_nfvperf.measure.load_series import latency_point, loss_curve, loss_of_trial
from pytest_nfvperf.measure.measurer import LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.search_algorithms import mlr_search
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WitnessWindows
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, Outcome, SearchStatus
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement, worst
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from tests.config_support import parse_sla
from tests.examples import examples
from tests.outcomes import measured
from tests.sample_trials import counts_of

DIRECTION = Direction("a", "b")
FULL, SHARED = 1600, 2400
DUE = 1000
"""Frames due in a window of 10 ms."""


@dataclass(frozen=True)
class Row:
    """A window: of the frames due some are skipped and some refused; ``missing`` of those sent do not come."""

    skipped: int
    refused: int
    missing: int
    shared: bool
    absent: bool


SHARES = st.sampled_from([0, 0, 0, 1, 20, 41, 300, 900])
ROWS = st.builds(Row, SHARES, SHARES, SHARES, st.booleans(), st.booleans())


def trial_of(rows: list[Row], *, windowed: bool = True) -> Trial:
    skipped = [row.skipped for row in rows]
    refused = [min(row.refused, DUE - row.skipped) for row in rows]
    sent = [DUE - out - full for out, full in zip(skipped, refused, strict=True)]
    missing = [min(row.missing, own) for row, own in zip(rows, sent, strict=True)]
    zeros = (0,) * len(rows)
    thread = ThreadWindows(
        late_ns=zeros,
        sent=tuple(sent),
        refused=tuple(refused),
        skipped=tuple(skipped),
        received=tuple(own - gone for own, gone in zip(sent, missing, strict=True)),
        missing=tuple(missing),
        absent_ns=tuple(5_000_000 if row.absent else 0 for row in rows),
        speed=(FULL,) * len(rows),
    )
    witness = WitnessWindows(1, zeros, tuple(SHARED if row.shared else FULL for row in rows))
    duration_s = len(rows) / 100
    counts = counts_of(
        DIRECTION,
        sent=sum(sent),
        received=sum(sent) - sum(missing),
        refused=sum(refused),
        skipped=sum(skipped),
        elapsed_ns=len(rows) * 10_000_000,
    )
    assert counts.intended == DUE * len(rows)
    spec = TrialSpec(Traffic(frame_size=64), DUE * 100, duration_s, (DIRECTION,), window_s=0.01 if windowed else None)
    windows = Windows(10_000_000, (thread,), (witness,), FULL) if windowed else None
    return Trial("trial-1", TrialResult(spec, (counts,), RigHealth(), windows=windows), None, None, 1.0)  # type: ignore[arg-type]


def undisturbed_rows(rows: list[Row], *, slow_too: bool) -> list[Row]:
    """By hand: those with nothing in them, nor beside them; the first has no look before it."""

    def quiet(row: Row) -> bool:
        return not row.absent and (slow_too or not row.shared)

    within = [at > 0 and quiet(rows[at - 1]) and quiet(row) for at, row in enumerate(rows)]
    if slow_too:
        within = [quiet(row) for row in rows]
    sides = [True, *within, True]
    return [row for at, row in enumerate(rows) if all(sides[at : at + 3])]


def loss_and_share(rows: list[Row]) -> tuple[float, float]:
    """Lost over offered, and offered over due."""
    offered = sum(DUE - row.skipped for row in rows)
    refused = [min(row.refused, DUE - row.skipped) for row in rows]
    lost = sum(full + min(row.missing, DUE - row.skipped - full) for row, full in zip(rows, refused, strict=True))
    return (lost / offered if offered else 1.0), offered / (DUE * len(rows)) if rows else 0.0


def judged(outcome: Outcome, metric: str, limit: str) -> Judgement:
    sla = parse_sla(f"schema: 1\nrules:\n  - require: {{{metric}: {limit}}}\n")
    verdicts = judge(sla.rules, outcome.label, outcome.figures, lambda _: None, outcome.missing)
    return worst(verdicts)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=60), st.booleans(), st.sampled_from([0.0, 0.005, 0.03, 0.2, 0.6, 0.95]))
def test_no_loss_is_judged_but_at_the_load_that_was_offered(rows: list[Row], windowed: bool, limit: float) -> None:
    loss = loss_of_trial(trial_of(rows, windowed=windowed))
    outcome = measured(Outcome((), "fixed-load", 64.0, 1), losses=[loss])
    judgement = judged(outcome, "loss_ratio", f"'<= {limit * 100:g} %'")
    sets = [rows]
    if windowed:
        sets += [undisturbed_rows(rows, slow_too=False), undisturbed_rows(rows, slow_too=True)]
    losses = [loss for loss, _ in map(loss_and_share, sets)]
    if judgement is Judgement.PASS:
        assert any(loss <= limit for loss in losses)
        assert loss_and_share(rows)[1] >= 1 - POLICY.most_not_offered - 1 / (DUE * len(rows)), "over the trial"
    elif judgement is Judgement.FAIL:
        assert any(loss > limit for loss in losses), "at whatever load: at the one asked for it is no smaller"


@pytest.mark.parametrize("windowed", [True, False])
def test_a_load_of_which_a_sixth_was_offered_is_not_measured(windowed: bool) -> None:
    """Seen: PASS, "52.32 % at 40.0 Mpps", of 6.9 million frames offered and 33 million skipped."""
    rows = [Row(skipped=830, refused=80, missing=0, shared=True, absent=False)] * 50
    loss = loss_of_trial(trial_of(rows, windowed=windowed))
    outcome = measured(Outcome((), "fixed-load", 64.0, 1), losses=[loss])
    assert judged(outcome, "loss_ratio", "'<= 60 %'") is Judgement.INCONCLUSIVE
    why = "the generator offered 17.0 kpps of the 100 kpps asked for (17 %; at least 96 % is needed)"
    assert outcome.missing == {"loss_ratio": why, "lost_frames": why}
    assert other_result(outcome) == "not measured at 100 kpps (17.0 kpps offered)"
    latency, disturbed = latency_point("100 kpps", trial_of(rows, windowed=windowed))
    assert (latency.p99_ns, disturbed) == (None, why)


def test_what_was_offered_stands_beside_what_was_asked_for() -> None:
    rows = [Row(skipped=20, refused=0, missing=1, shared=False, absent=False)] * 50
    outcome = measured(Outcome((), "fixed-load", 64.0, 1), losses=[loss_of_trial(trial_of(rows))])
    assert other_result(outcome) == "loss at every load, 0.102 % at 100 kpps (98.0 kpps offered)"
    (seen, _) = outcome.figures
    assert seen.confidence.endswith(", at 98.0 kpps of the 100 kpps asked for")


class NeverOffers(FakeGenerator):
    """Says of every load that it is valid, and offers at most its ceiling of it: another generator's mistake."""

    def simulated(self, spec: TrialSpec) -> TrialResult:
        result = super().simulated(spec)
        return replace(result, invalid=())


def test_no_search_finds_a_load_that_was_never_offered() -> None:
    measurer = measurer_on(NeverOffers(50e6, ceiling_fps=2e6))
    (ndr,) = mlr_search(measurer, [NDR], LoadLimits(10_000, 10e6))
    assert ndr.load_fps is not None
    assert ndr.load_fps <= 2e6 / (1 - POLICY.most_not_offered)
    assert measurer.disturbed_loads


def test_no_point_of_a_loss_curve_is_of_a_load_that_was_never_offered() -> None:
    measurer: LoadMeasurer = measurer_on(NeverOffers(50e6, ceiling_fps=2e6))
    with pytest.raises(InvalidTrialsError, match=r"unsent 3x.*50 % of the frames due were offered, limit 96 %"):
        loss_curve(measurer, 4e6)
    assert [loss.point.load_fps for loss in loss_curve(measurer, 2e6)] == [2_000_000, 1_800_000]


LIMIT_FPS = 4_000_000


@st.composite
def searches(draw: st.DrawFn) -> tuple[Outcome, float]:
    """A search as a rig makes it, and what the DUT really bears: ``truth``, frames/s per direction."""
    truth = draw(st.integers(3_000_000, 5_000_000))
    rig = draw(st.integers(3_000_000, 6_000_000))
    line = draw(st.sampled_from([None, 3_900_000.5, 4_000_000.5, 7_000_000.5]))
    most = min(rig, math.floor(line) if line else rig)
    slowed = draw(st.sampled_from(["", "the host kept the CPUs apart"]))
    bears = truth * (draw(st.floats(0.5, 1.0)) if slowed else 1.0)
    found, limited = (most, most == rig) if bears >= most else (round(bears), False)
    found = min(found, math.floor(truth))
    status = SearchStatus.AT_MAXIMUM if bears >= most else SearchStatus.FOUND
    skipped = draw(st.sampled_from([0.0, 0.001, 0.02, 0.039]))
    goal = SearchedGoal(
        Goal("ndr", 0.0),
        status,
        load_fps=found,
        upper_fps=None if status is SearchStatus.AT_MAXIMUM else found + 1,
        limit="the generator" if limited or slowed else "",
        confirmation=Confirmation("trial-9", round(found * (1 - skipped)), 5.0, 0.0, passed=True),
        slowed=slowed,
        refuted_fps=found + 1 if draw(st.booleans()) and found == round(bears) and not limited else None,
    )
    outcome = Outcome((("topology", "t"),), "mlrsearch", 64.0, 2, trials=("trial-9",), line_rate_fps=line)
    return measured(outcome, goal), min(truth, math.floor(line)) if line else truth


@settings(max_examples=examples(500), deadline=None)
@given(searches(), st.integers(2_900_000, 5_100_000))
def test_no_search_is_judged_beyond_what_it_says_of_the_truth(made: tuple[Outcome, float], limit: int) -> None:
    outcome, truth = made
    goal = outcome.goals[0]
    assert goal.confirmation is not None
    # What the generator left out of a confirmation that the DUT's own limit stopped is within the figure's resolution.
    assume(not goal.confirmation.load_fps < limit <= (goal.load_fps or 0))
    judgement = judged(outcome, "ndr", f'">= {limit} pps"')
    if judgement is Judgement.PASS:
        assert truth >= limit
    elif judgement is Judgement.FAIL:
        assert truth < limit + 2, "loads are whole frames"


@st.composite
def any_goal(draw: st.DrawFn) -> Outcome:
    """Any combination of marks, whether a search makes it or not."""
    load = draw(st.integers(1000, 10**7))
    confirmed = round(load * draw(st.sampled_from([1.0, 0.99, 0.9])))
    confirmation = Confirmation("trial-9", confirmed, 5.0, 0.0, passed=draw(st.booleans()))
    goal = SearchedGoal(
        Goal("ndr", 0.0),
        draw(st.sampled_from([SearchStatus.FOUND, SearchStatus.AT_MAXIMUM])),
        load_fps=load,
        upper_fps=draw(st.sampled_from([None, load + 5])),
        limit=draw(st.sampled_from(["", "the generator"])),
        confirmation=draw(st.sampled_from([None, confirmation])),
        unconfirmed=draw(st.sampled_from(["", "not confirmed: the rig"])),
        disturbed=draw(st.sampled_from(["", "the rig let nothing be confirmed at 5.00 Mpps"])),
        refuted_fps=draw(st.sampled_from([None, load, load + 5])),
        slowed=draw(st.sampled_from(["", "the host kept the CPUs apart"])),
    )
    line = draw(st.sampled_from([None, load + 0.5, 2.0 * load]))
    outcome = Outcome((("topology", "t"),), "mlrsearch", 64.0, 2, trials=("trial-9",), line_rate_fps=line)
    return measured(outcome, goal)


def seen_ndr(outcome: Outcome) -> Figure:
    seen = outcome.figure("ndr", "pps")
    assert seen is not None
    return seen


@settings(max_examples=examples(300), deadline=None)
@given(any_goal())
def test_every_place_tells_the_same_bound(outcome: Outcome) -> None:
    seen = seen_ndr(outcome)
    low, high = seen.interval
    properties = dict(junit_properties([outcome]))
    (entry,) = measured_entries({frozenset(outcome.labels): [seen]})
    (samples,) = _samples(outcome)
    (in_history, *_) = entry.figures
    columns, _ = TABLES["outcomes"]

    assert goal_figures(outcome, "ndr").mpps == bounded_text(seen, lambda fps: goal_digits(fps / 1e6))
    assert seen.value == float(properties["nfvperf.ndr.load_fps"])
    assert (properties.get("nfvperf.ndr.bound") in {"at least", "about"}) == math.isinf(high)
    assert (properties.get("nfvperf.ndr.bound") in {"at most", "about"}) == (low < seen.value)
    assert in_history.figure().interval == seen.interval
    assert ((in_history.low, in_history.high) == (None, None)) == (seen.low == seen.high)
    assert (samples.bound.opens_high, samples.bound.opens_low) == (seen.high is None, seen.low is None)
    assert columns["ndr_bound"](outcome) == str(seen.bound)
    assert (load_mark(seen) == "") == (seen.bound is Bound.EXACT)
    above, below = round(seen.value) + 10, max(1, round(seen.value) - 10)
    if seen.bound in {Bound.AT_LEAST, Bound.ABOUT}:
        assert judged(outcome, "ndr", f'">= {above} pps"') is Judgement.INCONCLUSIVE
    if seen.bound in {Bound.AT_MOST, Bound.ABOUT}:
        assert judged(outcome, "ndr", f'">= {below} pps"') is Judgement.INCONCLUSIVE
    if seen.bound is Bound.EXACT:
        assert judged(outcome, "ndr", f'">= {above} pps"') is Judgement.FAIL
        assert judged(outcome, "ndr", f'">= {below} pps"') is Judgement.PASS


def goal_digits(mpps: float) -> str:
    """As tables show Mpps."""
    return f"{mpps:.0f}" if mpps >= 100 else f"{mpps:.2f}" if mpps >= 1 else f"{mpps:.3g}"
