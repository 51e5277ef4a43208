"""Rate against frame size, flows or chain length, in the browser, with published figures beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_nfvperf.adapters.report.drawing import MUTED, SERIES
from pytest_nfvperf.adapters.report.figures import goal_figures, goal_note, goal_seen
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, Trace, curve, dots
from pytest_nfvperf.adapters.report.published_series import PublishedSeries
from pytest_nfvperf.adapters.report.sweep_chart import AXIS_TITLES, ZERO_LOSS, Slots, SweepSeries, ceilings, value
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome
from pytest_nfvperf.model.samples import Bound
from pytest_nfvperf.model.sla.verdict import Observation


def live_sweep(
    series: Sequence[SweepSeries], published: Sequence[PublishedSeries] = (), *, axis: str = "frame_size"
) -> Live:
    """Frames/s and bit/s per direction. Solid: no loss; dashed: with the loss that PDR allows."""
    slots = Slots.of(axis, series, published)
    places = [text.replace("\n", " ") for text in slots.texts()]
    xaxis: dict[str, Any] = {"type": "category", "categoryorder": "array", "categoryarray": places}
    return Live(
        tuple(
            Panel(
                title,
                AXIS_TITLES.get(axis, axis),
                f"{unit} per direction",
                tuple(_traces(slots, places, series, published, in_bits=unit == "Gbps")),
                xaxis,
                {"rangemode": "tozero"},
            )
            for title, unit in (("Frames per second", "Mpps"), ("Bits per second", "Gbps"))
        )
    )


def _traces(
    slots: Slots,
    places: Sequence[str],
    series: Sequence[SweepSeries],
    published: Sequence[PublishedSeries],
    *,
    in_bits: bool,
) -> Iterator[Trace]:
    for one, color in zip(series, SERIES * (len(series) // len(SERIES) + 1), strict=False):
        for name in dict.fromkeys(goal.goal.name for outcome in one.outcomes for goal in outcome.goals):
            yield _goal(slots, places, one, name, color, in_bits=in_bits)
    for other in published:
        yield _published(slots, places, other, in_bits=in_bits)
    roof = ceilings(slots, series, in_bits=in_bits)
    if roof:
        marker = {"symbol": "line-ew-open", "size": 18, "line": {"width": 1.5, "color": MUTED}}
        x = sorted(roof)
        yield dots("rig's own ceiling", [places[at] for at in x], [roof[at] for at in x], MUTED, marker=marker)


def _goal(slots: Slots, places: Sequence[str], one: SweepSeries, name: str, color: str, *, in_bits: bool) -> Trace:
    found = [(slots.at(outcome), outcome, goal) for outcome in one.outcomes if (goal := outcome.goal(name))]
    loaded = sorted((each for each in found if each[2].load_fps is not None), key=lambda each: each[0])
    figures = [goal_seen(outcome, name) for _, outcome, _ in loaded]
    strict = name in ZERO_LOSS
    return curve(
        f"{one.name} {name.upper()}",
        [places[at] for at, _, _ in loaded],
        [
            value(outcome, seen.value, in_bits=in_bits) if seen else 0.0
            for (_, outcome, _), seen in zip(loaded, figures, strict=True)
        ],
        color,
        mode="lines+markers+text",
        line={"dash": "solid" if strict else "dash", "width": 1.8 if strict else 1.3},
        marker={"size": 8, "symbol": ["circle" if strict else "circle-open"] * len(loaded)},
        text=[_mark(seen) for seen in figures],
        textposition="top center",
        hovertext=[_hover(one.name, places[at], outcome, goal) for at, outcome, goal in loaded],
        hoverinfo="text",
        customdata=[goal.confirmation.trial_id if goal.confirmation else None for _, _, goal in loaded],
    )


def _mark(seen: Observation | None) -> str:
    """``≥`` where the rig, not the DUT, ended the search; ``?`` where no trial of full length confirmed it."""
    if seen is None or seen.upper_bound:
        return "?"
    return "≥" if seen.bound in {Bound.AT_LEAST, Bound.BETWEEN} else ""


def _hover(series: str, place: str, outcome: Outcome, goal: GoalOutcome) -> str:
    shown = goal_figures(outcome, goal.goal.name)
    return f"{series} {goal.goal.name.upper()}, {place}: {shown.mpps} Mpps, {shown.gbps} Gbps<br>{goal_note(goal)}"


def _published(slots: Slots, places: Sequence[str], other: PublishedSeries, *, in_bits: bool) -> Trace:
    points = sorted((slots.labels.index(str(size)), size, fps) for size, fps in other.frames_per_second().items())
    return curve(
        f"published: {other.name}",
        [places[at] for at, _, _ in points],
        [fps * size * 8 / 1e9 if in_bits else fps / 1e6 for _, size, fps in points],
        MUTED,
        line={"dash": "dot", "width": 1.2},
        marker={"symbol": "diamond", "size": 8},
        hovertext=[f"published: {other.name}<br>{other.source}"] * len(points),
        hoverinfo="text+x+y",
    )
