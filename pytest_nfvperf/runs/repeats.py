"""One outcome of several searches of the same: of each goal the middle figure, and those of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nfvperf.model.measure.observe import goal_ends
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome


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
