"""Reads evidence of schema versions 1 and 2: histories and baselines of users live on.

Version 1 had other names for some keys. Version 2 wrote what bounds a value (``generator_limited``, ``at_most``,
``short`` ...) into the parts of an outcome, and every reader made figures of it. The figures are made here, by the code
that makes them in a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic import TypeAdapter

from pytest_nfvperf.model.disturbance.windows import WindowState
from pytest_nfvperf.model.evidence.records import plain
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.bounds import (
    GENERATOR_LIMITED,
    PlateauPoint,
    SearchedGoal,
    TrialLoss,
    burst_figures,
    class_loss_figures,
    completed,
    cost_figures,
    cost_missing,
    goal_figures,
    goals_missing,
    latency_figures,
    latency_missing,
    middle_figure,
    plateau_figure,
    queue_figures,
    sample_figure,
    sampled,
    session_figure,
    soak_figures,
    soak_missing,
    with_offload,
)
from pytest_nfvperf.model.measure.outcome import GoalOutcome, LossPoint, Outcome
from pytest_nfvperf.model.statistics import Bound

_DISTURBED = {
    "spoiled": "disturbed",
    "spoiled_count": "disturbed_count",
    "spoiled_offered": "disturbed_interval_offered",
    "spoiled_lost": "disturbed_interval_lost",
}
_VERSION_1 = {"soak": _DISTURBED, "outcome": _DISTURBED, "stream": {"ways": "directions", "way": "direction"}}
"""Its names of keys, in records of a kind; others may have a key of this name, such as a test's parameter."""

_BOUND_REASON = {"bound_reason": "why"}
_NOT_CONFIRMED = "not confirmed"
_FAR = "CPUs far apart"
"""A state of windows that version 2 derived from what a frame costs the generator."""

_OUTCOME = TypeAdapter(Outcome)
_GOAL = TypeAdapter(GoalOutcome)
_PLATEAU, _PLATEAU_NAMES = TypeAdapter(PlateauPoint), {"apart": "far_reason"}

Json = dict[str, Any]


def upgraded(line: Json) -> Json:
    """A line of version 1 or 2 as one of version 3."""
    data = line["data"] if line["schema"] == 2 else _renamed(line["data"], _VERSION_1.get(line["kind"], {}))
    match line["kind"]:
        case "outcome":
            data = plain(_outcome({"classes": [], **data}))
        case "comparison":
            data = _renamed(data, _BOUND_REASON)
        case "trial":
            data = {**data, "disturbances": [_disturbance(each) for each in data.get("disturbances", ())]}
    return {**line, "schema": 3, "data": data}


def _disturbance(old: Json) -> Json:
    return {**old, "state": WindowState.CHANGED.value} if old["state"] == _FAR else old


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


def _outcome(old: Json) -> Outcome:
    """The outcome, with figures made of what version 2 kept beside its values."""
    goals, losses, plateaus = (
        [_goal(goal) for goal in old["goals"]],
        [_loss(loss) for loss in old["loss_curve"]],
        [_PLATEAU.validate_python(_renamed(point, _PLATEAU_NAMES)) for point in old.get("plateaus", ())],
    )
    new = {name: value for name, value in old.items() if name not in {"plateaus", "deliveries", "figures"}}
    new["missing"] = dict(old["missing"])
    new["loss_curve"] = [_point(loss) for loss in old["loss_curve"]]
    new["samples"] = [_samples(samples) for samples in old["samples"]]
    new["relatives"], new["slopes"] = (_renamed(old[key], _BOUND_REASON) for key in ("relatives", "slopes"))
    new["classes"] = [
        {**of_class, "samples": [_samples(samples) for samples in of_class["samples"]]} for of_class in old["classes"]
    ]
    outcome = _OUTCOME.validate_json(json.dumps(new))
    figures = [*_figures(outcome, old, goals, losses, plateaus)]
    missing = outcome.missing | goals_missing(goals, figures) | cost_missing(outcome.cost)
    for point, was in zip(outcome.latency, old["latency"], strict=True):
        missing |= latency_missing(point, was.get("disturbed", ""))
    for loss in losses:
        missing |= loss.missing()
    spread, no_queues = queue_figures(outcome.queue_frames, outcome.trials)
    missing |= no_queues | (soak_missing(outcome.soak) if outcome.soak else {})
    outcome = sampled(replace(outcome, figures=(*figures, *spread), missing=missing))
    outcome = with_offload(outcome, outcome.offload)
    others = (*map(_delivery, old.get("deliveries", ())), *_of_classes(outcome, old))
    return completed(replace(outcome, figures=(*outcome.figures, *others)))


def _figures(
    outcome: Outcome, old: Json, goals: list[SearchedGoal], losses: list[TrialLoss], plateaus: list[PlateauPoint]
) -> Iterator[Figure]:
    loads: dict[str, Figure] = {}
    for figure in goal_figures(goals, outcome):
        goal = next((other for other in old["goals"] if other["goal"]["name"] == figure.metric), None)
        middle = figure if goal is None else middle_figure(figure, _repeats(goal, figure))
        loads[middle.metric] = middle
        yield middle
    for point in outcome.latency:
        yield from latency_figures(point)
    for loss, was in zip(losses, old["loss_curve"], strict=True):
        counted = was.get("lost_frames") is not None
        yield from (figure for figure in loss.figures() if counted or figure.metric != "lost_frames")
    if outcome.back_to_back is not None:
        was = old["back_to_back"]
        unlimited = "the longest burst lost nothing" if was["unlimited"] else ""
        reasons = ((Why.UNTRIED, unlimited), (Why.DISTURBED, "" if unlimited else was.get("at_least", "")))
        yield from burst_figures(outcome.back_to_back, outcome.trials, reasons)
    if outcome.cost is not None:
        yield from cost_figures(outcome.cost, goals, tuple(loads.values()))
    if outcome.soak is not None:
        yield from soak_figures(outcome.soak, outcome.trials)
    if outcome.sessions is not None:
        yield session_figure(outcome.sessions)
    if plateaus:
        yield plateau_figure([point.figure() for point in plateaus])


def _goal(old: Json) -> SearchedGoal:
    goal = _GOAL.validate_json(json.dumps(old))
    unconfirmed = goal.detail if goal.confirmation is None and goal.detail.startswith(_NOT_CONFIRMED) else ""
    slowed = old.get("slowed", "")
    limit = GENERATOR_LIMITED if old["generator_limited"] and not slowed else ""
    result: Json = {field.name: getattr(goal, field.name) for field in fields(GoalOutcome)}
    return SearchedGoal(
        **result,
        limit=limit,
        slowed=slowed,
        disturbed=old.get("disturbed", ""),
        unconfirmed=unconfirmed.removesuffix(f"; {slowed}"),  # which the detail ended with
        refuted_fps=old.get("refuted_fps"),
    )


def _repeats(old: Json, middle: Figure) -> list[Figure | None]:
    """The figures of all searches, from the loads and ends that version 2 kept of each; the one alone of a single."""
    loads = old.get("repeated_fps") or ()
    if len([fps for fps in loads if fps is not None]) < 2:
        return [middle]
    ends = old.get("repeated_ends") or [(fps, fps) for fps in loads]
    return [
        None if fps is None else Figure(middle.metric, float(fps), "pps", low or None, high)
        for fps, (low, high) in zip(loads, ends, strict=True)
    ]


def _point(old: Json) -> Json:
    return {
        "load_fps": old["load_fps"],
        "loss_ratio": old["loss_ratio"],
        "trial_id": old["trial_id"],
        "lost_frames": old.get("lost_frames") or 0,
        "offered_frames": old.get("offered_frames") or 0,
        "offered_fps": old.get("offered_fps") or old["load_fps"],
    }


def _loss(old: Json) -> TrialLoss:
    point = LossPoint(**_point(old))
    return TrialLoss(point, old.get("by_rule", 0.0), old.get("at_most", ""), old.get("short", ""))


def _samples(old: Json) -> Json:
    least, most = old.get("at_least", ""), old.get("at_most", "")
    others = {name: value for name, value in old.items() if name not in {"at_least", "at_most"}}
    return {**others, "bound": str(Bound.of(low=bool(most), high=bool(least))), "why": least or most}


def _delivery(old: Json) -> Figure:
    value = old["value"]
    return Figure(
        old["metric"],
        value,
        old["unit"],
        *(value, value, old["at"], old["of_class"]),
        confidence=old["confidence"],
        evidence=tuple(old["evidence"]),
    )


def _of_classes(outcome: Outcome, old: Json) -> Iterator[Figure]:
    for each, was in zip(outcome.classes, old["classes"], strict=True):
        for loss, bound in zip(each.losses, was["losses"], strict=True):
            yield from class_loss_figures(
                each.name, loss, bound["least_lost"], bound.get("why", ""), bound.get("short", "")
            )
        for point in each.latency:
            yield from latency_figures(point, each.name)
        for samples in each.samples:
            yield replace(sample_figure(samples), of_class=each.name)
