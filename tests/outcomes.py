"""Outcomes as the measuring code makes them: figures from what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.bounds import (
    PlateauPoint,
    Reasons,
    SearchedGoal,
    TrialLoss,
    burst_figures,
    completed,
    cost_figures,
    cost_missing,
    goal_figures,
    goals_missing,
    latency_figures,
    latency_missing,
    plateau_figure,
    queue_figures,
    sampled,
    session_figure,
    soak_figures,
    soak_missing,
    with_offload,
)
from pytest_nfvperf.model.measure.outcome import Goal, LatencyPoint, LossPoint, Outcome, SearchStatus

NDR = SearchedGoal(Goal("ndr", 0.0), SearchStatus.FOUND, 4_020_000, 4_040_000)
LATENCY = LatencyPoint(
    at="50 % of pdr",
    load_fps=2_000_000,
    trial_id="trial-0003",
    min_ns=4000,
    p50_ns=12_000,
    p90_ns=20_000,
    p99_ns=48_200,
    p999_ns=90_000,
    max_ns=120_000,
    samples=1000,
)
"""An NDR that a search found, and the latency at half of a PDR."""


def measured(
    outcome: Outcome,
    *goals: SearchedGoal,
    losses: Iterable[TrialLoss] = (),
    plateaus: Iterable[PlateauPoint] = (),
    burst: Reasons = (),
    why_no_latency: str = "",
) -> Outcome:
    """The outcome with the figures of what it holds, of these goals and losses, and of plateaus."""
    losses = tuple(losses) or tuple(TrialLoss(point) for point in outcome.loss_curve)
    outcome = replace(
        outcome,
        goals=tuple(goal.result for goal in goals) or outcome.goals,
        loss_curve=tuple(loss.point for loss in losses),
    )
    found: list[Figure] = [*goal_figures(goals, outcome)]
    missing = outcome.missing | goals_missing(goals, found) | cost_missing(outcome.cost)
    for point in outcome.latency:
        found += latency_figures(point)
        missing |= latency_missing(point, why_no_latency)
    for loss in losses:
        found += loss.figures()
        missing |= loss.missing()
    found += burst_figures(outcome.back_to_back, outcome.trials, burst) if outcome.back_to_back else []
    if outcome.cost is not None:
        found += [*cost_figures(outcome.cost, goals, found)]
    if outcome.soak is not None:
        found += soak_figures(outcome.soak, outcome.trials)
        missing |= soak_missing(outcome.soak)
    found += [session_figure(outcome.sessions)] if outcome.sessions else []
    if points := [point.figure() for point in plateaus]:
        found.append(plateau_figure(points))
    spread, none = queue_figures(outcome.queue_frames, outcome.trials)
    outcome = replace(outcome, figures=(*outcome.figures, *found, *spread), missing=missing | none)
    return completed(with_offload(sampled(outcome), outcome.offload))


def loss(
    load_fps: int, ratio: float, trial: str = "trial-1", frames: tuple[int, int] = (0, 0), **more: object
) -> TrialLoss:
    """A loss of (lost, offered) frames; ``more``: further fields of a TrialLoss."""
    point = LossPoint(load_fps, ratio, trial, *frames, offered_fps=load_fps)
    return TrialLoss(point, **more)  # type: ignore[arg-type]
