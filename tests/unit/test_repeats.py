"""Searches that are repeated: the middle one is the figure, all of them are its interval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.measure.confirmation import over_repeats
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal, completed, goal_figures, goals_missing
from pytest_nfvperf.model.measure.outcome import Confirmation, Goal, Outcome, SearchStatus
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from tests.config_support import parse_sla

PDR = Goal("pdr", 0.005)


def searched(number: int, mpps: float | None, *plateaus: PlateauPoint, **changed: object) -> Outcome:
    """The outcome of one search; None: it was aborted. ``changed``: fields of its goal."""
    goal = SearchedGoal(PDR, SearchStatus.ABORTED, detail="the rig let nothing be measured")
    if mpps is not None:
        fps = round(mpps * 1e6)
        confirmation = Confirmation(f"trial-{number}", fps, 5.0, 0.001, passed=True, offered_frames=10 * fps)
        goal = SearchedGoal(PDR, SearchStatus.FOUND, fps, round(1.01 * fps), confirmation=confirmation)
    goal = replace(goal, **changed)  # type: ignore[arg-type]
    outcome = Outcome(
        labels=(("suite", "mine"),),
        algorithm="mlrsearch",
        mean_frame_size=64.0,
        directions=2,
        goals=(goal.result,),
        trials=(f"trial-{number}",),
        elapsed_s=30.0,
    )
    figures = (*goal_figures([goal], outcome), *(point.figure() for point in plateaus))
    return replace(outcome, figures=figures, missing=goals_missing([goal], figures))


def together(*searches: Outcome) -> Outcome:
    return completed(over_repeats(searches))


def repeated(*mpps: float | None) -> Outcome:
    return together(*(searched(number, each) for number, each in enumerate(mpps)))


def pdr_of(outcome: Outcome) -> Figure:
    return next(seen for seen in outcome.figures if (seen.metric, seen.unit) == ("pdr", "pps"))


def judged(outcome: Outcome, limit: str) -> Verdict:
    sla = parse_sla(f"schema: 1\nrules:\n  - require: {{pdr: {limit}}}\n")
    (verdict,) = judge(sla.rules, outcome.label, outcome.figures, lambda _: None, outcome.missing)
    return verdict


def test_a_single_search_is_what_it_was() -> None:
    assert repeated(4.2) == completed(searched(0, 4.2))
    seen = pdr_of(repeated(4.2))
    assert (seen.value, seen.low, seen.high, seen.repeats) == (4.2e6, 4.2e6, 4.2e6, 1)


def test_the_middle_one_is_the_figure_and_its_trial_the_evidence() -> None:
    outcome = repeated(4.4, 4.1, 4.3, 4.0, 4.2)
    seen = pdr_of(outcome)
    assert (seen.value, seen.low, seen.high, seen.repeats) == (4.2e6, 4.0e6, 4.4e6, 5)
    assert seen.evidence == ("trial-4",)
    assert seen.confidence.endswith("; the middle of 5 searches, 4.00 Mpps .. 4.40 Mpps at 94%")
    assert outcome.trials == ("trial-0", "trial-1", "trial-2", "trial-3", "trial-4")
    assert outcome.elapsed_s == 150


def test_of_two_in_the_middle_it_is_the_lower() -> None:
    assert pdr_of(repeated(4.4, 4.1, 4.3, 4.0)).value == 4.1e6


@pytest.mark.parametrize(
    ("limit", "judgement"),
    [(">= 4 Mpps", Judgement.PASS), (">= 4.1 Mpps", Judgement.INCONCLUSIVE), (">= 4.5 Mpps", Judgement.FAIL)],
)
def test_the_verdict_is_about_the_interval(limit: str, judgement: Judgement) -> None:
    assert judged(repeated(4.4, 4.1, 4.3, 4.0, 4.2), f'"{limit}"').judgement is judgement


def test_a_search_that_found_nothing_is_told() -> None:
    seen = pdr_of(repeated(4.4, None, 4.0))
    assert (seen.value, seen.low, seen.high, seen.repeats) == (4.0e6, 4.0e6, 4.4e6, 2)
    assert "the middle of 2 of 3 searches that found one" in seen.confidence


def test_where_no_search_found_anything_the_reason_stays() -> None:
    verdict = judged(repeated(None, None), '">= 4 Mpps"')
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "the rig let nothing be measured" in verdict.reason


def test_an_sla_can_ask_for_repeats() -> None:
    limit = '{repeats: 3, limit: ">= 4 Mpps"}'
    once = judged(repeated(4.4), limit)
    assert once.judgement is Judgement.INCONCLUSIVE
    assert once.requirement == "pdr >= 4 Mpps over 3 repeats"
    assert once.reason.endswith("the SLA asks for 3 repeats, and it was measured once: --nfv-repeat 3")
    assert judged(repeated(4.4, 4.2, 4.3), limit).judgement is Judgement.PASS


@pytest.mark.parametrize(
    ("require", "message"),
    [
        ('{pdr: {repeats: 0, limit: ">= 4 Mpps"}}', "repeats is 0: write a whole number, such as 5"),
        ('{pdr: {repeats: many, limit: ">= 4 Mpps"}}', "repeats is 'many': write a whole number, such as 5"),
        ('{pmd_busy: {repeats: 5, limit: ">= 90 %"}}', "pmd_busy is not repeated: leave 'repeats' out"),
        ('{pdr: {repeat: 5, limit: ">= 4 Mpps"}}', "unknown key 'repeat', did you mean 'repeats'?"),
    ],
)
def test_repeats_that_cannot_be_are_refused(require: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        parse_sla(f"schema: 1\nrules:\n  - require: {require}\n")


def test_a_plateau_stands_beside_the_search() -> None:
    one = searched(0, 4.2, PlateauPoint("trial-7", 6.8e6, 6.7e6, 6.9e6, 60))
    (seen,) = (each for each in together(one).figures if (each.metric, each.unit) == ("forwarding_rate", "pps"))
    assert (seen.value, seen.low, seen.high, seen.evidence) == (6.8e6, 6.7e6, 6.9e6, ("trial-7",))
    both = together(one, searched(1, 4.2, PlateauPoint("trial-9", 6.6e6, 6.5e6, 6.7e6, 60)))
    (seen,) = (each for each in both.figures if (each.metric, each.unit) == ("forwarding_rate", "pps"))
    assert (seen.value, seen.low, seen.high, seen.repeats) == (6.6e6, 6.6e6, 6.8e6, 2)


@pytest.mark.parametrize("why", [{"far_reason": "390 ns apart"}, {"generator_limited": "room in its rings"}])
def test_a_plateau_that_the_rig_limited_is_a_lower_bound(why: dict[str, str]) -> None:
    one = searched(0, 4.2, PlateauPoint("trial-7", 4.4e6, 4.3e6, 4.5e6, 60, **why))
    (seen,) = (each for each in together(one).figures if (each.metric, each.unit) == ("forwarding_rate", "pps"))
    assert (seen.value, seen.high is None, seen.detail, seen.high) == (4.4e6, True, *why.values(), None)


def test_an_aborted_search_is_none_of_the_repeats_that_an_sla_asks_for() -> None:
    verdict = judged(repeated(4.4, None, 4.0), '{limit: ">= 3 Mpps", repeats: 3}')
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.reason == "the SLA asks for 3 repeats, and it was measured 2 times: --nfv-repeat 3"


def test_searches_below_the_minimum_are_figures_and_not_left_out() -> None:
    """Seen: of three searches two lost frames at the minimum load, and the third one was the median."""
    below = [
        searched(number, 4.0, status=SearchStatus.BELOW_MINIMUM, load_fps=None, upper_fps=5000, confirmation=None)
        for number in (1, 2)
    ]
    outcome = together(searched(0, 4.4), *below)
    assert judged(outcome, '{limit: ">= 3 Mpps", repeats: 3}').judgement is not Judgement.PASS
    assert pdr_of(outcome).value == 5000


def test_one_search_that_the_generator_limited_leaves_the_median_open_above() -> None:
    outcome = together(searched(0, 4.1), searched(1, 4.0, limit="the generator"), searched(2, 4.2))
    seen = pdr_of(outcome)
    assert (seen.value, seen.low, seen.high is None) == (4.1e6, 4.0e6, True)
    assert seen.detail == "some of the searches found a bound only"
    verdict = judged(outcome, '{limit: ">= 5 Mpps", repeats: 3}')
    assert verdict.judgement is Judgement.INCONCLUSIVE
