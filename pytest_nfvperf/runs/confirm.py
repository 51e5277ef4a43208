"""The confirmation trial: full length, at the load that a search found (MEASURING.md rule 6).

MLRsearch tolerates bad trials at its lower bound by design (exceed ratio), so the very load
it names may lose a frame in a longer run. When it does, the load is lowered in growing steps of
the goal's width until one full-length trial meets the goal, and both loads are reported.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.model.outcome import Confirmation, GoalOutcome
from pytest_nfvperf.runs.measurer import LoadMeasurer, loss_of
from pytest_nfvperf.runs.trials import InvalidTrialsError


def confirm(measurer: LoadMeasurer, outcome: GoalOutcome, *, duration_s: float, attempts: int) -> GoalOutcome:
    """Confirm a found load; returns the outcome with its confirmation.

    An outcome without a load is returned as it is. When no valid trial could be had the
    confirmation stays absent and the detail says why.
    """
    if outcome.load_fps is None:
        return outcome
    load = float(outcome.load_fps)
    confirmation = None
    for attempt in range(attempts):
        load *= 1 - outcome.goal.relative_width * _STEPS[min(attempt, len(_STEPS) - 1)]
        try:
            trial = measurer.measure(duration_s, load, f"confirmation of {outcome.goal.name}")
        except InvalidTrialsError as error:
            return replace(outcome, confirmation=confirmation, detail=f"not confirmed: {error}")
        ratio = loss_of(trial)
        passed = ratio <= outcome.goal.loss_ratio
        # What was really offered: skipped frames, though few, are no part of the load that was borne.
        offered = round(trial.result.offered_fps or load)
        confirmation = Confirmation(trial.id, offered, duration_s, ratio, passed, trial.result.offered)
        if confirmation.passed:
            break
    return replace(outcome, confirmation=confirmation)


_STEPS = (0, 2, 6, 12, 24)
"""Widths by which the load is lowered before each attempt; the first is at the found load."""
