"""A search for the highest load that meets a goal: by bisection, or by MLRsearch with a coarse first guess."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_nfvperf.measure.measurer import LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Goal, SearchStatus

if TYPE_CHECKING:
    from MLRsearch import GoalResult, MeasurementResult, MultipleLossRatioSearch, SearchGoal

MLRSEARCH = "mlrsearch"

COARSE_WIDTH = 0.02
"""Relative width of a search on a machine that disturbs all the time. On such a host five searches with a width of
0.5 % took 45 to 90 s, and their figures differed by a tenth."""

_NO_TIMEOUT_S = 1e9

_MET_AT_MAXIMUM = "met at the maximum load"
_log = logging.getLogger(__name__)

# Binary searches: RFC 2544 section 26.1, and ETSI TST 009 section 12.3.3 with loss verification.


def binary_search(measurer: LoadMeasurer, goal: Goal, limits: LoadLimits, *, max_repeats: int = 0) -> SearchedGoal:
    """Bisect from the maximum down to an interval narrower than ``goal.relative_width`` of its upper end.

    One trial of ``goal.final_trial_s`` decides each load (RFC 2544). With ``max_repeats``, ETSI's max(r), a load is
    lossy only after so many repeats: background activity of a shared machine does not decide.
    """
    meets = partial(_meets, measurer, goal, max_repeats)
    low, high = limits.minimum_fps, limits.maximum_fps
    lower: float | None = None  # these two were tried
    upper: float | None = None
    try:
        if meets(high):
            return SearchedGoal(goal, SearchStatus.AT_MAXIMUM, load_fps=int(high), detail=_MET_AT_MAXIMUM)
        upper = high
        while (high - low) / high > goal.relative_width and high - low > 1:
            middle = (low + high) / 2
            if meets(middle):
                low = lower = middle
            else:
                high = upper = middle
        if lower is None and not meets(low):
            return _below_minimum(goal, int(low))
    except OutOfTimeError as error:
        return _out_of_time(goal, error, lower, upper)
    except InvalidTrialsError as error:
        return SearchedGoal(goal, SearchStatus.ABORTED, detail=str(error))
    return SearchedGoal(goal, SearchStatus.FOUND, load_fps=int(low), upper_fps=int(high))


def _meets(measurer: LoadMeasurer, goal: Goal, max_repeats: int, load_fps: float) -> bool:
    for repeat in range(max_repeats + 1):
        trial = measurer.measure_if_possible(goal.final_trial_s, load_fps, "loss verification" if repeat else "search")
        if trial is None:
            return False  # repeated often enough already
        if trial.result.judgement.assumed_loss_ratio <= goal.loss_ratio:
            return True
    return False


def _out_of_time(goal: Goal, error: OutOfTimeError, lower_fps: float | None, upper_fps: float | None) -> SearchedGoal:
    """What is known of a goal when the time is over: an interval, or a bound, or nothing."""
    lower, upper = (None if bound is None else int(bound) for bound in (lower_fps, upper_fps))
    if lower is not None:
        return SearchedGoal(goal, SearchStatus.FOUND, lower, upper, detail=str(error), disturbed=str(error))
    return SearchedGoal(goal, SearchStatus.ABORTED, upper_fps=upper, detail=str(error), disturbed=str(error))


def _below_minimum(goal: Goal, upper_fps: int | None) -> SearchedGoal:
    detail = f"loss ratio above {goal.loss_ratio:g} already at the minimum load"
    return SearchedGoal(goal, SearchStatus.BELOW_MINIMUM, upper_fps=upper_fps, detail=detail)


# MLRsearch (RFC 9971) by FD.io's own package: NDR and PDR in one pass that shares trials. It takes 0.3 s to import.


class _Bridge:
    """Measures for MLRsearch, as its ``AbstractMeasurer`` does.

    Skipped frames are the rig's and were never offered: they are no loss. Refused frames were offered, and are lost. If
    the trial has enough undisturbed windows, only their losses count.
    """

    def __init__(self, measurer: LoadMeasurer) -> None:
        self._measurer = measurer

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        from MLRsearch import MeasurementResult  # noqa: PLC0415

        trial = self._measurer.measure_if_possible(intended_duration, intended_load, "search")
        if trial is None:  # go on below; the outcome says that it is a lower bound
            return MeasurementResult(intended_duration, intended_load, offered_count=1, loss_count=1)
        counted = trial.result.judgement.counted
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=counted.offered,
            loss_count=max(0, counted.lost),
            duration_with_overheads=trial.wall_s,
        )


def mlr_search(measurer: LoadMeasurer, goals: Sequence[Goal], limits: LoadLimits) -> tuple[SearchedGoal, ...]:
    """Search all goals in one pass; one outcome a goal, in this order.

    When the measurer is out of time, each has the interval that is known by then.
    """
    from MLRsearch import Config, MultipleLossRatioSearch, SearchGoal  # noqa: PLC0415

    theirs = [
        SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
            fail_fast=False,
        )
        for goal in goals
    ]
    config = Config()
    config.goals = theirs
    config.min_load = limits.minimum_fps  # first: the package's own default is above a slow line's maximum
    config.max_load = limits.maximum_fps
    config.search_duration_max = _NO_TIMEOUT_S  # the measurer ends it, and keeps what is known
    config.warmup_duration = 0.0  # ours runs before, and may be invalid without harm
    search = MultipleLossRatioSearch(config)
    try:
        results = search.search(_Bridge(measurer), debug=_log.debug)
    except InvalidTrialsError as error:
        return tuple(SearchedGoal(goal, SearchStatus.ABORTED, detail=str(error)) for goal in goals)
    except OutOfTimeError as error:
        return tuple(
            _out_of_time(goal, error, *_known_bounds(search, their)) for goal, their in zip(goals, theirs, strict=True)
        )
    return tuple(_goal_outcome(goal, results[their]) for goal, their in zip(goals, theirs, strict=True))


def _known_bounds(search: MultipleLossRatioSearch, goal: SearchGoal) -> tuple[float | None, float | None]:
    """The bounds of a goal in a search that did not end, frames/s per direction.

    The upper one is by trials of full length. Without a lower one by those, it is that of the goal's shorter trials,
    which a confirmation is to check.
    """
    target = search.scaling.goal_to_final_target[goal]
    bounds = search.database.get_relevant_bounds(target=target)
    lower, upper = bounds.clo, bounds.chi
    while lower is None and (target := target.preceding) is not None:
        lower = search.database.get_relevant_bounds(target=target).clo
    return None if lower is None else float(lower), None if upper is None else float(upper)


def _goal_outcome(goal: Goal, result: GoalResult) -> SearchedGoal:
    # int() of a bound would be its place in the load grid.
    lower, upper = (
        None if bound is None else round(float(bound))
        for bound in (result.relevant_lower_bound, result.relevant_upper_bound)
    )
    if lower is None:
        return _below_minimum(goal, upper)
    if upper is None:
        return SearchedGoal(goal, SearchStatus.AT_MAXIMUM, load_fps=lower, detail=_MET_AT_MAXIMUM)
    return SearchedGoal(goal, SearchStatus.FOUND, load_fps=lower, upper_fps=upper)


def goals_worth_searching(goals: Sequence[Goal], so_far: Iterable[Trial]) -> tuple[Goal, ...]:
    """The goals; with wider bounds and half the trials if the machine disturbs all the time.

    Then too few windows of the trials so far were undisturbed to tell the DUT's loss from the machine's, and the result
    is a lower bound anyway.
    """
    shares = [share for trial in so_far if (share := trial.result.judgement.undisturbed) is not None]
    windows, undisturbed = sum(share.of for share in shares), sum(share.windows for share in shares)
    if windows < POLICY.windows_to_know_a_host or undisturbed >= POLICY.undisturbed_to_judge * windows:
        return tuple(goals)
    return tuple(
        replace(
            goal,
            relative_width=max(goal.relative_width, COARSE_WIDTH),
            duration_sum_s=max(goal.final_trial_s, goal.duration_sum_s / 2),
        )
        for goal in goals
    )


def coarse_note(results: Sequence[SearchedGoal], goals: Sequence[Goal]) -> tuple[str, ...]:
    """A note if the search was coarser than its goals."""
    widths = {goal.name: goal.relative_width for goal in goals}
    searched = [found.goal for found in results]
    wider = [goal.relative_width for goal in searched if goal.relative_width > widths.get(goal.name, 1)]
    if not wider:
        return ()
    return (f"searched to {format_ratio(max(wider))} only: the machine disturbed nearly all of the trials before",)
