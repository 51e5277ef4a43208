"""How finely is searched where the machine disturbs all the time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.measure.search_algorithms import COARSE_WIDTH, coarse_note, goals_worth_searching
from pytest_nfvperf.model.disturbance.windows import SelectedWindows
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import SearchStatus
from pytest_nfvperf.model.measure.profile import QUICK


def trials(*undisturbed: int | None, of: int = 100) -> list[Any]:
    """Of so many undisturbed windows each; None: of a generator that tells no windows."""
    told = [None if windows is None else SelectedWindows(windows, of, 1000, 1000, 0) for windows in undisturbed]
    return [SimpleNamespace(result=SimpleNamespace(judgement=SimpleNamespace(undisturbed=each))) for each in told]


def test_a_search_is_coarse_where_hardly_a_window_was_undisturbed() -> None:
    goals = goals_worth_searching(QUICK.goals, trials(3, 0, 9))
    assert [goal.name for goal in goals] == ["ndr", "pdr"]
    assert {(goal.relative_width, goal.duration_sum_s) for goal in goals} == {(COARSE_WIDTH, QUICK.duration_sum_s / 2)}
    found = [SearchedGoal(goal, SearchStatus.FOUND, load_fps=1_000_000) for goal in goals]
    assert coarse_note(found, QUICK.goals) == (
        "searched to 2 % only: the machine disturbed nearly all of the trials before",
    )


@pytest.mark.parametrize(
    "so_far", [trials(), trials(None, None), trials(0, of=99), trials(10), trials(0, 25), trials(60, 50)]
)
def test_it_is_as_fine_as_was_asked_where_the_machine_lets_it(so_far: list[Any]) -> None:
    goals = goals_worth_searching(QUICK.goals, so_far)
    assert goals == QUICK.goals
    assert coarse_note([SearchedGoal(goal, SearchStatus.FOUND) for goal in goals], QUICK.goals) == ()


def test_who_asks_for_a_coarser_search_gets_it() -> None:
    asked = [replace(goal, relative_width=0.05, duration_sum_s=0.5) for goal in QUICK.goals]
    for goal in goals_worth_searching(asked, trials(0)):
        assert (goal.relative_width, goal.duration_sum_s) == (0.05, goal.final_trial_s)
