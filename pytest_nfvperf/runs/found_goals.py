"""A search's result, with the rig's part in it: its ceiling, disturbed loads, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import Cost, GoalOutcome, PlateauPoint, SearchStatus
from pytest_nfvperf.runs.trials import Trial

NEAR_CEILING = 0.95
"""A result above this share of the rig's own ceiling is generator-limited (How we measure, rule 3)."""


def near_ceiling(goal: GoalOutcome, ceiling_fps: float | None) -> bool:
    """True where the rig itself hardly does more."""
    return ceiling_fps is not None and goal.load_fps is not None and goal.load_fps >= ceiling_fps * NEAR_CEILING


def marked(
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
    if near_ceiling(goal, ceiling_fps):
        detail = f"within 5 % of the generator's own ceiling of {format_fps(ceiling_fps or 0)} per direction"
        return replace(goal, generator_limited=True, detail=detail)
    if goal.status is SearchStatus.AT_MAXIMUM and goal.load_fps < NEAR_CEILING * (maximum_fps or 0):
        detail = "the generator held no higher load when the search began"
        return replace(goal, generator_limited=True, detail=detail)
    if spoiled:
        detail = f"the rig could not measure {len(spoiled)} higher load(s) validly; {spoiled[0]}"
        return replace(goal, generator_limited=True, detail=detail)
    return goal


def marked_low(goal: GoalOutcome, *why: str) -> GoalOutcome:
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
