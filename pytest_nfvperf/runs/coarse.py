"""How fine a search is worth its time: where the machine disturbs all the time, its result is a lower bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome
from pytest_nfvperf.model.traffic.windows import LEAST_SHARE
from pytest_nfvperf.runs.trials import Trial

COARSE_WIDTH = 0.02
"""Relative width of such a search. On a host that shared its cores all the time five searches with a width of 0.5 %
took 45 to 90 s, and their figures differed by a tenth."""

_FEWEST_WINDOWS = 100
"""That must have been seen: a warm-up's. A host that disturbs for a moment disturbs fewer."""


def goals_worth_searching(goals: Sequence[Goal], so_far: Iterable[Trial]) -> tuple[Goal, ...]:
    """The goals; with wider bounds and half the trials where the machine disturbs all the time.

    There too few windows of the trials so far were undisturbed to tell the DUT's loss from the machine's.
    """
    seen = [each for trial in so_far if (each := trial.result.undisturbed) is not None]
    windows, undisturbed = sum(each.of for each in seen), sum(each.windows for each in seen)
    if windows < _FEWEST_WINDOWS or undisturbed >= LEAST_SHARE * windows:
        return tuple(goals)
    return tuple(
        replace(
            goal,
            relative_width=max(goal.relative_width, COARSE_WIDTH),
            duration_sum_s=max(goal.final_trial_s, goal.duration_sum_s / 2),
        )
        for goal in goals
    )


def coarse_note(found: Sequence[GoalOutcome], goals: Sequence[Goal]) -> tuple[str, ...]:
    """A note for a search that was coarser than its goals."""
    widths = {goal.name: goal.relative_width for goal in goals}
    wider = [each.goal.relative_width for each in found if each.goal.relative_width > widths.get(each.goal.name, 1)]
    if not wider:
        return ()
    return (f"searched to {format_ratio(max(wider))} only: the machine disturbed nearly all of the trials before",)
