"""The confirmation trial: full length, at the load that a search found (docs/measuring-method.md, rule 6).

MLRsearch tolerates bad trials at its lower bound by design (exceed ratio), so the very load
it names may lose a frame in a longer run. When it does, the load is lowered in growing steps
until one full-length trial meets the goal, and both loads are reported; a trial that has lost more
than its goal allows is given up. Of a load of which the DUT lost a tenth, nine tenths at most come through: no load
between is tried. Where the rig spoils every trial at a load, the next is a twentieth
below: the DUT's queues bear a longer absence at less load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import NOT_CONFIRMED, Confirmation, Goal, GoalOutcome
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.measurer import LoadMeasurer, loss_of


def confirm_all(
    measurer: LoadMeasurer, outcomes: Sequence[GoalOutcome], *, duration_s: float, attempts: int
) -> tuple[GoalOutcome, ...]:
    """Confirm the loads of several goals, the strictest first: what held for it holds for the others."""
    confirmed: dict[str, GoalOutcome] = {}
    held: Confirmation | None = None
    for outcome in sorted(outcomes, key=lambda each: each.goal.loss_ratio):
        done = confirm(measurer, outcome, duration_s=duration_s, attempts=attempts, held=held)
        confirmed[outcome.goal.name] = done
        if done.confirmation is not None and done.confirmation.passed:
            held = done.confirmation
    return tuple(confirmed[outcome.goal.name] for outcome in outcomes)


def confirm(
    measurer: LoadMeasurer,
    outcome: GoalOutcome,
    *,
    duration_s: float,
    attempts: int,
    held: Confirmation | None = None,
) -> GoalOutcome:
    """Confirm a found load; returns the outcome with its confirmation.

    Args:
        measurer: of the topology.
        outcome: of a search.
        duration_s: of a confirmation that holds.
        attempts: at so many loads, from the found one down.
        held: a confirmation that a stricter goal has passed: no lower load than its need be tried.

    An outcome without a load is returned as it is. When no valid trial could be had at all the
    confirmation stays absent and the detail says why.
    """
    if outcome.load_fps is None:
        return outcome
    confirmation, spoiled = _tried(measurer, outcome, duration_s, attempts, held)
    if held is not None and not (confirmation and confirmation.passed and confirmation.load_fps > held.load_fps):
        return replace(outcome, confirmation=held, spoiled=_left_open(held, spoiled))
    if confirmation is None and spoiled is not None:
        return replace(outcome, detail=f"{NOT_CONFIRMED}: {spoiled.why}")
    return replace(outcome, confirmation=confirmation, spoiled=_left_open(confirmation, spoiled))


def _left_open(confirmation: Confirmation | None, spoiled: _Spoiled | None) -> str:
    """What the rig left open: it spoiled a load above the one confirmed, and no valid trial lost too much there."""
    if confirmation is None or not confirmation.passed or spoiled is None or spoiled.refuted:
        return ""
    return f"the rig let nothing be confirmed at {format_fps(spoiled.load_fps)}: {spoiled.why}"


@dataclass(frozen=True, slots=True)
class _Spoiled:
    """The lowest load that the rig spoiled, and how.

    ``through_fps``: what came through of it. ``refuted``: a valid trial lost too much at a load below it.
    """

    load_fps: float
    why: str
    through_fps: float
    refuted: bool = False


def _tried(
    measurer: LoadMeasurer, outcome: GoalOutcome, duration_s: float, attempts: int, held: Confirmation | None
) -> tuple[Confirmation | None, _Spoiled | None]:
    """The last confirmation from the found load down, and why the rig could not bear a load."""
    confirmation: Confirmation | None = None
    spoiled: _Spoiled | None = None
    through_fps = outcome.load_fps or 0.0
    fine_until = measurer.elapsed_s() + _FINE * duration_s
    for share in SHARES[:attempts]:
        load = (outcome.load_fps or 0.0) * share
        coarse = spoiled is not None or measurer.elapsed_s() > fine_until
        if load > through_fps or (coarse and share not in _FAR_BELOW):
            continue
        if held is not None and load <= held.load_fps:
            break
        tried = _one(measurer, outcome.goal, duration_s, load)
        if isinstance(tried, _Spoiled):
            spoiled, through_fps = tried, tried.through_fps
            continue
        confirmation = tried
        if confirmation.passed:
            break
        through_fps = load * (1 - (confirmation.loss_ratio or 0.0) + outcome.goal.loss_ratio)
        if spoiled is not None:
            spoiled = replace(spoiled, refuted=True)
    return confirmation, spoiled


def _one(measurer: LoadMeasurer, goal: Goal, duration_s: float, load_fps: float) -> Confirmation | _Spoiled:
    """What was really offered is what was borne: skipped frames, though few, are no part of it.

    Returns:
        The confirmation, or how the rig spoiled all trials at this load.
    """
    purpose = f"confirmation of {goal.name}"
    try:
        trial = measurer.measure(duration_s, load_fps, purpose, measurer.repeats_left, goal.loss_ratio)
    except InvalidTrialsError as error:
        return _Spoiled(load_fps, str(error), load_fps)
    ratio, result = loss_of(trial), trial.result
    if result.says_nothing and (ratio > goal.loss_ratio or result.given_up):
        in_vain = result.dated is not None and ratio <= goal.loss_ratio
        why = f"{trial.id} {_IN_VAIN if in_vain else _UNTOLD}"
        return _Spoiled(load_fps, why, load_fps * (1 - (result.loss_ratio or 0.0)))
    dated = result.dated
    if dated is None or result.windows is None:
        offered = round(result.offered_fps or load_fps)
        return Confirmation(trial.id, offered, result.due_s, ratio, ratio <= goal.loss_ratio, result.offered)
    offered = round(load_fps * (1 - dated.skipped_ratio))
    seconds, elsewhere = dated.windows * result.windows.length_ns / 1e9, result.lost - dated.lost
    holds = ratio <= goal.loss_ratio and not result.given_up
    return Confirmation(trial.id, offered, result.due_s, ratio, holds, dated.offered, seconds, elsewhere)


_UNTOLD = "lost frames, and too little of it was undisturbed to tell whose loss that was"
_IN_VAIN = "was given up for lost frames that turned out to be the machine's"

SHARES = (1.0, 0.99, 0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25, 0.1)
"""Shares of the found load at which a full-length trial is tried, one after the other. What is reported is as coarse
as these steps, and a trial that does not hold is given up after a second. The last are far down: what was borne there
is still a figure, where none would be none."""

_FAR_BELOW = (0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.35, 0.25, 0.1)
"""Those that are tried after the rig spoiled a load, and after some time. At first a twentieth apart: what is reported
of a load that the rig spoils differs by such a step from run to run."""

_FINE = 3
"""For so many times a confirmation's length all shares are tried: a user waits for the figure."""
