"""Finds the sweeps in a suite's outcomes: groups that differ in one label only, such as the frame size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.report.subjects import title
from pytest_nfvperf.adapters.report.sweep_chart import SweepSeries
from pytest_nfvperf.model.measure.outcome import Outcome

MOST_SERIES = 4
"""Curves in one chart; more are not told apart."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one chart shows. ``axis`` is the label on the x axis; ``labels`` what all series have in common."""

    axis: str
    series: tuple[SweepSeries, ...]
    labels: dict[str, str]


def find_sweeps(outcomes: Sequence[Outcome]) -> list[Sweep]:
    """Sweeps over frame size first, then over every other label that counts something (flows, bridges)."""
    searched = [outcome for outcome in outcomes if outcome.goals]
    names = dict.fromkeys(name for outcome in searched for name in outcome.label)
    counting = [name for name in names if all(o.label.get(name, "0").isdigit() for o in searched)]
    axes = ["frame_size", *(name for name in counting if name != "frame_size")]
    return [sweep for axis in axes if axis in names for sweep in _along(axis, searched)]


def _along(axis: str, outcomes: Sequence[Outcome]) -> list[Sweep]:
    groups: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for outcome in outcomes:
        if axis in outcome.label:
            key = (*((k, v) for k, v in outcome.labels if k != axis), ("algorithm", outcome.algorithm))
            groups.setdefault(key, []).append(outcome)
    curves = {key: group for key, group in groups.items() if len({o.label[axis] for o in group}) > 1}
    common = _common([dict(key) for key in curves])
    names = [_name(dict(key), common | {"test": ""}) for key in curves]
    if len(set(names)) < len(names):
        names = [_name(dict(key), common) for key in curves]
    series = [SweepSeries(name, tuple(group)) for name, group in zip(names, curves.values(), strict=True)]
    return [Sweep(axis, tuple(series[i : i + MOST_SERIES]), common) for i in range(0, len(series), MOST_SERIES)]


def _common(labels: Sequence[dict[str, str]]) -> dict[str, str]:
    if not labels:
        return {}
    return {k: v for k, v in labels[0].items() if all(other.get(k) == v for other in labels[1:])}


def _name(labels: dict[str, str], common: dict[str, str]) -> str:
    """What the curve is about, and in what else it differs from its neighbours."""
    always = {"topology", "frame_size", "flows", "direction"}
    return title({name: value for name, value in labels.items() if name in always or name not in common})
