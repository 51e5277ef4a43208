"""The confirmation trial: full length, at the load that a search found (MEASURING.md rule 6).

MLRsearch tolerates bad trials at its lower bound by design (exceed ratio), so the very load
it names may lose a frame in a longer run. When it does, the load is lowered in growing steps
until one full-length trial meets the goal, and both loads are reported; a trial that has lost more than its goal
allows is given up. Where the rig spoils every
trial at a load, the next is well below: the DUT's queues bear a longer absence at less load.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.model.outcome import NOT_CONFIRMED, Confirmation, GoalOutcome
from pytest_nfvperf.runs.measurer import LoadMeasurer, loss_of
from pytest_nfvperf.runs.trials import InvalidTrialsError


def confirm(measurer: LoadMeasurer, outcome: GoalOutcome, *, duration_s: float, attempts: int) -> GoalOutcome:
    """Confirm a found load; returns the outcome with its confirmation.

    An outcome without a load is returned as it is. When no valid trial could be had at all the
    confirmation stays absent and the detail says why.
    """
    if outcome.load_fps is None:
        return outcome
    confirmation = None
    spoiled: InvalidTrialsError | None = None
    for share in _SHARES[:attempts]:
        if spoiled is not None and share not in _FAR_BELOW:
            continue
        load = outcome.load_fps * share
        try:
            trial = measurer.measure(
                duration_s, load, f"confirmation of {outcome.goal.name}", _REPEATS, outcome.goal.loss_ratio
            )
        except InvalidTrialsError as error:
            spoiled = error
            continue
        ratio = loss_of(trial)
        passed = ratio <= outcome.goal.loss_ratio
        # What was really offered: skipped frames, though few, are no part of the load that was borne.
        offered = round(trial.result.offered_fps or load)
        confirmation = Confirmation(trial.id, offered, trial.result.due_s, ratio, passed, trial.result.offered)
        if confirmation.passed:
            break
    if confirmation is None and spoiled is not None:
        return replace(outcome, detail=f"{NOT_CONFIRMED}: {spoiled}")
    return replace(outcome, confirmation=confirmation)


_SHARES = (1.0, 0.99, 0.96, 0.9, 0.8, 0.5, 0.25)
"""Shares of the found load at which a full-length trial is tried, one after the other. The last are far down: on a
machine whose host pauses it a few seconds without any loss are rare near the limit, and what was borne far below
is still a figure, where none would be none."""

_FAR_BELOW = (0.9, 0.5, 0.25)
"""Those that are tried after the rig spoiled a load."""

_REPEATS = 2
"""Of an invalid full-length trial, which takes long: a lower load is more likely to bear the rig's absences."""
