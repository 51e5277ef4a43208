"""Confirmation of a search's result: long trials at the load that was found, repeated searches, and their goals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.measure.validity import InvalidTrialsError
from pytest_nfvperf.model.display import format_fps, format_ratio
from pytest_nfvperf.model.measure.observe import goal_ends
from pytest_nfvperf.model.measure.outcome import (
    NOT_CONFIRMED,
    Confirmation,
    Cost,
    Goal,
    GoalOutcome,
    Outcome,
    PlateauPoint,
    SearchStatus,
)
from pytest_nfvperf.model.traffic.policy import POLICY
from pytest_nfvperf.model.traffic.trial import Doubt

# One outcome of several searches of the same: of each goal the middle figure, and those of all.


def over_repeats(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of searches that were repeated: of each goal the middle result, of two the lower one.

    Its confirmation is a trial that was really run. Cost, latency and sessions are those of the search whose last goal
    is in the middle.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    goals = tuple(_middle(repeats, outcomes) for repeats in zip(*(outcome.goals for outcome in outcomes), strict=True))
    usual = next(outcome for outcome in outcomes if outcome.goals[-1].confirmation == goals[-1].confirmation)
    return replace(
        usual,
        goals=goals,
        trials=tuple(trial for outcome in outcomes for trial in outcome.trials),
        elapsed_s=sum(outcome.elapsed_s for outcome in outcomes),
        plateaus=tuple(point for outcome in outcomes for point in outcome.plateaus),
    )


def _middle(repeats: Sequence[GoalOutcome], outcomes: Sequence[Outcome]) -> GoalOutcome:
    """The goal in the middle. A search that ended below its minimum found a figure, too: at most that minimum."""
    ends = [goal_ends(goal, outcome) for goal, outcome in zip(repeats, outcomes, strict=True)]
    figures = tuple(fps for fps, _, _ in ends)
    found = sorted((fps, at) for at, fps in enumerate(figures) if fps is not None)
    at = found[(len(found) - 1) // 2][1] if found else 0
    return replace(repeats[at], repeated_fps=figures, repeated_ends=tuple((low, high) for _, low, high in ends))


# A search's result, with the rig's part in it: its ceiling, disturbed loads, and the cost.


def at_ceiling(goal: GoalOutcome, ceiling_fps: float | None) -> bool:
    """True where the rig itself hardly does more."""
    return ceiling_fps is not None and goal.load_fps is not None and goal.load_fps >= ceiling_fps * POLICY.at_ceiling


def mark_rig_limits(
    goal: GoalOutcome, ceiling_fps: float | None, spoiled: Sequence[str], maximum_fps: float | None = None
) -> GoalOutcome:
    """Say so when it was the rig that set the limit: the DUT does at least this.

    A search that ended at its maximum below ``maximum_fps`` had to do with what the generator held.
    """
    if goal.load_fps is None:
        # A search that the rig drove down to its minimum gives no figure of the DUT.
        if goal.status is not SearchStatus.BELOW_MINIMUM or not spoiled:
            return goal
        detail = f"the rig could not measure {len(spoiled)} load(s) validly; {spoiled[-1]}"
        return replace(goal, status=SearchStatus.ABORTED, upper_fps=None, detail=detail)
    if at_ceiling(goal, ceiling_fps):
        detail = f"within 5 % of the generator's own ceiling of {format_fps(ceiling_fps or 0)} per direction"
        return replace(goal, generator_limited=True, detail=detail)
    if goal.status is SearchStatus.AT_MAXIMUM and goal.load_fps < POLICY.at_ceiling * (maximum_fps or 0):
        detail = "the generator held no higher load when the search began"
        return replace(goal, generator_limited=True, detail=detail)
    if spoiled:
        detail = f"the rig could not measure {len(spoiled)} higher load(s) validly; {spoiled[0]}"
        return replace(goal, generator_limited=True, detail=detail)
    return goal


def mark_slowed(goal: GoalOutcome, *why: str) -> GoalOutcome:
    """Say so when the host kept CPUs apart, or shared their cores: undisturbed, the DUT does at least this."""
    if not any(why) or goal.status is SearchStatus.ABORTED:
        return goal
    slowed = "; ".join(filter(None, why))
    detail = "; ".join(filter(None, (goal.detail, slowed)))
    return replace(goal, generator_limited=goal.load_fps is not None, slowed=slowed, detail=detail)


def cost_of(goals: Sequence[GoalOutcome], trials: Sequence[Trial], plateau: Sequence[PlateauPoint]) -> Cost | None:
    """The cost at the first goal's confirmation trial, the longest at a load that counts; cycles are the plateau's."""
    by_id = {trial.id: trial.cost for trial in trials}
    confirmed = [goal.confirmation.trial_id for goal in goals if goal.confirmation]
    cost = next((by_id[trial_id] for trial_id in confirmed if trial_id in by_id), None)
    if cost is None or not plateau or plateau[0].generator_limited:
        return cost
    saturated = by_id[plateau[0].trial_id]
    return replace(cost, pmd_cycles_per_packet=saturated.pmd_cycles_per_packet, saturated_trial_id=saturated.trial_id)


# The confirmation trial: full length, at the load of a search (How we measure, rule 6).
#
# MLRsearch tolerates bad trials at its lower bound by design (exceed ratio), so a longer run at that load may
# lose a frame. Then the load falls in growing steps until one full-length trial meets the goal, and both loads
# are reported. Of a load of which the DUT lost a tenth, nine tenths at most come through, so no load between is
# tried. Once a trial has passed, the loads above it are tried once more: a machine disturbs for some seconds, and
# that should not lower a figure. Not so once patience is spent: that machine disturbs all the time.


def confirm_all(
    measurer: LoadMeasurer, outcomes: Sequence[GoalOutcome], *, duration_s: float, attempts: int | None = None
) -> tuple[GoalOutcome, ...]:
    """Confirm the loads of several goals, the strictest first: a load that meets it meets the others."""
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
    attempts: int | None = None,
    held: Confirmation | None = None,
) -> GoalOutcome:
    """Confirm a load; returns the outcome with its confirmation.

    ``attempts``: most loads, from the search's down; None for all. ``held``: a confirmation that passed for a stricter
    goal: no lower load need be tried. An outcome without a load is returned as it is. If no trial was valid there is no
    confirmation, and the detail says why.
    """
    if outcome.load_fps is None:
        return outcome
    ended = _tried(measurer, outcome, duration_s, POLICY.confirmation_shares[:attempts], held)
    floor = _higher(ended.confirmation, held)
    patient = measurer.patience_s > 0 and measurer.elapsed_s() < POLICY.retry_lengths * duration_s
    if floor is not None and _left_open(floor, ended) and patient:
        ended = _above_again(measurer, outcome, duration_s, ended, floor)
    confirmation = _higher(ended.confirmation, held)
    if confirmation is None and ended.spoiled is not None:
        return replace(outcome, detail=f"{NOT_CONFIRMED}: {ended.spoiled.why}")
    spoiled = _left_open(confirmation, ended)
    return replace(outcome, confirmation=confirmation, spoiled=spoiled, refuted_fps=ended.refuted_fps)


def _higher(confirmation: Confirmation | None, held: Confirmation | None) -> Confirmation | None:
    """The one that counts: what held for a stricter goal, unless a higher load passed."""
    if held is None or (confirmation and confirmation.passed and confirmation.load_fps > held.load_fps):
        return confirmation
    return held


@dataclass(frozen=True, slots=True)
class _Spoiled:
    """A load at which the rig disturbed every trial. ``through_fps``: what came through of it."""

    load_fps: float
    why: str
    through_fps: float


@dataclass(frozen=True, slots=True)
class _Ended:
    """What trials from a load down came to.

    ``confirmation``: the last valid one: it passed, unless none did. ``spoiled``: the lowest disturbed load.
    ``most_fps``: what came through in the worst valid trial: no higher load can pass. ``refuted_fps``: the lowest
    load of a valid trial that lost too much.
    """

    confirmation: Confirmation | None = None
    spoiled: _Spoiled | None = None
    most_fps: float = math.inf
    refuted_fps: int | None = None


def _left_open(confirmation: Confirmation | None, ended: _Ended) -> str:
    """The load above the confirmed one that the rig left open; "" where a valid trial below it lost too much."""
    spoiled = ended.spoiled
    if confirmation is None or not confirmation.passed or spoiled is None or ended.most_fps < spoiled.load_fps:
        return ""
    return f"the rig let nothing be confirmed at {format_fps(spoiled.load_fps)}: {spoiled.why}"


def _tried(
    measurer: LoadMeasurer,
    outcome: GoalOutcome,
    duration_s: float,
    shares: Sequence[float],
    held: Confirmation | None = None,
    *,
    again: bool = False,
) -> _Ended:
    """Trials from the search's load down until one passes, or what held for another goal is reached.

    The next load is no higher than what came through: of a load of which the DUT lost a tenth, nine tenths at most do.
    Where the rig disturbed all trials the next load is a twentieth below: queues bear a longer absence at less load.
    ``again``: each of these shares is tried, and once.
    """
    ended = _Ended()
    found_fps = through_fps = outcome.load_fps or 0.0
    fine_until = measurer.elapsed_s() + POLICY.fine_lengths * duration_s
    for share in shares:
        load = found_fps * share
        coarse = not again and (ended.spoiled is not None or measurer.elapsed_s() > fine_until)
        if load > through_fps or (coarse and share not in POLICY.coarse_shares):
            continue
        if held is not None and load <= held.load_fps:
            break
        tried = _one(measurer, outcome.goal, duration_s, load, 0 if again else measurer.repeats_left)
        if isinstance(tried, _Spoiled):
            ended, through_fps = replace(ended, spoiled=tried), tried.through_fps
            continue
        ended = replace(ended, confirmation=tried)
        if tried.passed:
            break
        through_fps = load * (1 - (tried.loss_ratio or 0.0) + outcome.goal.loss_ratio)
        ended = replace(ended, most_fps=through_fps, refuted_fps=_lower(ended.refuted_fps, tried.load_fps))
    return ended


def _above_again(
    measurer: LoadMeasurer, outcome: GoalOutcome, duration_s: float, ended: _Ended, floor: Confirmation
) -> _Ended:
    """Loads between the one that held and the refuted ones, once more: a machine disturbs for some seconds only."""
    found_fps = outcome.load_fps or 0.0
    least_fps = floor.load_fps * POLICY.above_confirmed
    between = [share for share in POLICY.retried_shares if least_fps < found_fps * share <= ended.most_fps]
    again = _tried(measurer, outcome, duration_s, between, again=True)
    most_fps, spoiled = min(again.most_fps, ended.most_fps), again.spoiled
    if spoiled is not None and ended.spoiled is not None and spoiled.load_fps == ended.spoiled.load_fps:
        spoiled = ended.spoiled  # its reason is that of all repeats
    refuted_fps = _lower(ended.refuted_fps, again.refuted_fps)
    if again.confirmation is None or not again.confirmation.passed:
        return _Ended(floor, spoiled or ended.spoiled, most_fps, refuted_fps)
    return _Ended(again.confirmation, spoiled, most_fps, refuted_fps)


def _lower(*loads: int | None) -> int | None:
    return min((load for load in loads if load is not None), default=None)


def _one(
    measurer: LoadMeasurer, goal: Goal, duration_s: float, load_fps: float, repeats: int
) -> Confirmation | _Spoiled:
    """One confirmation, or how the rig disturbed all trials at this load.

    Its load is what was really offered: skipped frames, though few, are no part of it.
    """
    purpose = f"confirmation of {goal.name}"
    try:
        trial = measurer.measure(duration_s, load_fps, purpose, repeats, goal.loss_ratio)
    except InvalidTrialsError as error:
        return _Spoiled(load_fps, str(error), load_fps)
    result, ratio = trial.result, trial.result.assumed_loss_ratio
    doubt, meets = result.doubt, ratio <= goal.loss_ratio
    if doubt is Doubt.SHORT_OF_LOAD:
        why = f"{trial.id} {_SHORT.format(format_ratio(result.offered_share))}"
        return _Spoiled(load_fps, why, load_fps * result.offered_share)
    # Loss that may be anybody's, but is little enough for the goal, is no reason against the load.
    if doubt is Doubt.GIVEN_UP or (doubt is Doubt.WHOSE_LOSS and (not meets or result.given_up)):
        why = f"{trial.id} {_IN_VAIN if doubt is Doubt.GIVEN_UP else _UNTOLD}"
        return _Spoiled(load_fps, why, load_fps * (1 - (result.loss_ratio or 0.0)))
    judged = result.judged_windows
    if judged is None or result.windows is None:
        offered = round(result.offered_fps or load_fps)
        return Confirmation(trial.id, offered, result.due_s, ratio, meets, result.offered)
    offered = round(load_fps * (1 - judged.skipped_ratio))
    seconds, elsewhere = judged.windows * result.windows.length_ns / 1e9, result.lost - judged.lost
    passed = meets and not result.given_up
    return Confirmation(trial.id, offered, result.due_s, ratio, passed, judged.offered, seconds, elsewhere)


_UNTOLD = "lost frames, and too little of it was undisturbed to tell whose loss that was"
_SHORT = "offered {} of it: the generator did not hold the load"
_IN_VAIN = "was given up for lost frames that turned out to be the machine's"
