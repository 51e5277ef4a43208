"""MLRsearch (draft-ietf-bmwg-mlrsearch) by FD.io's own package: NDR and PDR in one pass that shares trials."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from MLRsearch import AbstractMeasurer, Config, GoalResult, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome, SearchStatus
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.measurer import LoadLimits, LoadMeasurer

_log = logging.getLogger(__name__)


class _Bridge(AbstractMeasurer):  # type: ignore[misc]  # the package is untyped
    """Measures for MLRsearch.

    Skipped frames are the rig's and were never offered: they are no loss. Refused frames were offered and are. Where
    the generator dates losses, those of undisturbed windows count.
    """

    def __init__(self, measurer: LoadMeasurer) -> None:
        self._measurer = measurer

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        trial = self._measurer.measure_if_possible(intended_duration, intended_load, "search")
        if trial is None:  # go on below; the outcome says that it is a lower bound
            return MeasurementResult(intended_duration, intended_load, offered_count=1, loss_count=1)
        counted = trial.result.dated or trial.result
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=counted.offered,
            loss_count=max(0, counted.lost),
            duration_with_overheads=trial.wall_s,
        )


def mlr_search(
    measurer: LoadMeasurer, goals: Sequence[Goal], limits: LoadLimits, *, timeout_s: float
) -> tuple[GoalOutcome, ...]:
    """Search all goals in one pass; one outcome a goal, in this order. It aborts after ``timeout_s``, and says so."""
    theirs = [_search_goal(goal) for goal in goals]
    search = MultipleLossRatioSearch(_config(theirs, limits, timeout_s))
    try:
        found = search.search(_Bridge(measurer), debug=_log.debug)
    except InvalidTrialsError as error:
        return tuple(GoalOutcome(goal, SearchStatus.ABORTED, detail=str(error)) for goal in goals)
    except RuntimeError as error:  # the package's way to say that time ran out
        detail = f"MLRsearch gave up after {measurer.elapsed_s():.0f} s (limit {timeout_s:.0f} s): {error}"
        return tuple(GoalOutcome(goal, SearchStatus.ABORTED, detail=detail) for goal in goals)
    return tuple(_outcome(goal, found[their]) for goal, their in zip(goals, theirs, strict=True))


def _config(goals: Sequence[SearchGoal], limits: LoadLimits, timeout_s: float) -> Config:
    config = Config()
    config.goals = goals
    config.min_load = limits.minimum_fps  # first: the package's own default is above a slow line's maximum
    config.max_load = limits.maximum_fps
    config.search_duration_max = timeout_s
    config.warmup_duration = 0.0  # ours runs before, and may be invalid without harm
    return config


def _search_goal(goal: Goal) -> SearchGoal:
    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.relative_width,
        initial_trial_duration=goal.initial_trial_s,
        final_trial_duration=goal.final_trial_s,
        duration_sum=goal.duration_sum_s,
        fail_fast=False,
    )


def _outcome(goal: Goal, result: GoalResult) -> GoalOutcome:
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    upper_fps = round(float(upper)) if upper is not None else None  # int() would be its place in the load grid
    if lower is None:
        detail = f"loss ratio above {goal.loss_ratio:g} already at the minimum load"
        return GoalOutcome(goal, SearchStatus.BELOW_MINIMUM, upper_fps=upper_fps, detail=detail)
    if upper is None:
        return GoalOutcome(
            goal, SearchStatus.AT_MAXIMUM, load_fps=round(float(lower)), detail="met at the maximum load"
        )
    return GoalOutcome(goal, SearchStatus.FOUND, load_fps=round(float(lower)), upper_fps=upper_fps)
