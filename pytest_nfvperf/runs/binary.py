"""Binary searches: RFC 2544 section 26.1, and ETSI TST 009 section 12.3.3 with loss verification."""

from __future__ import annotations

from collections.abc import Callable

from pytest_nfvperf.model.measure.outcome import Goal, GoalOutcome, SearchStatus
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.measurer import LoadLimits, LoadMeasurer, loss_of

Meets = Callable[[float], bool]


def rfc2544_search(measurer: LoadMeasurer, goal: Goal, limits: LoadLimits) -> GoalOutcome:
    """Throughput by RFC 2544: one trial of ``goal.final_trial_s`` decides each load.

    Bisects from the maximum down to an interval narrower than ``goal.relative_width`` of its upper end.
    """
    return _bisect(goal, limits, lambda load: _trial_meets(measurer, goal, load, "search"))


def tst009_search(measurer: LoadMeasurer, goal: Goal, limits: LoadLimits, *, max_repeats: int = 2) -> GoalOutcome:
    """Binary search with loss verification (ETSI GS NFV-TST 009).

    Loss is believed after ``max_repeats`` repeats, max(r): background activity of a shared machine does not decide.
    """

    def meets(load: float) -> bool:
        for repeat in range(max_repeats + 1):
            trial = measurer.measure_if_possible(goal.final_trial_s, load, "loss verification" if repeat else "search")
            if trial is None:
                return False  # repeated often enough already
            if loss_of(trial) <= goal.loss_ratio:
                return True
        return False

    return _bisect(goal, limits, meets)


def _trial_meets(measurer: LoadMeasurer, goal: Goal, load: float, purpose: str) -> bool:
    trial = measurer.measure_if_possible(goal.final_trial_s, load, purpose)
    return trial is not None and loss_of(trial) <= goal.loss_ratio


def _bisect(goal: Goal, limits: LoadLimits, meets: Meets) -> GoalOutcome:
    try:
        return _bisect_valid(goal, limits, meets)
    except InvalidTrialsError as error:
        return GoalOutcome(goal, SearchStatus.ABORTED, detail=str(error))


def _bisect_valid(goal: Goal, limits: LoadLimits, meets: Meets) -> GoalOutcome:
    low, high = limits.minimum_fps, limits.maximum_fps
    if meets(high):
        return GoalOutcome(goal, SearchStatus.AT_MAXIMUM, load_fps=int(high), detail="met at the maximum load")
    verified = False
    while (high - low) / high > goal.relative_width and high - low > 1:
        middle = (low + high) / 2
        if meets(middle):
            low, verified = middle, True
        else:
            high = middle
    if not verified and not meets(low):
        detail = f"loss ratio above {goal.loss_ratio:g} already at the minimum load"
        return GoalOutcome(goal, SearchStatus.BELOW_MINIMUM, upper_fps=int(low), detail=detail)
    return GoalOutcome(goal, SearchStatus.FOUND, load_fps=int(low), upper_fps=int(high))
