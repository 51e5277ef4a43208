"""NDR and PDR against frame size, in Mpps and in Gbps, with published figures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import MUTED, SERIES, dress, finish, new_figure
from pytest_nfvperf.adapters.report.figures import goal_seen
from pytest_nfvperf.adapters.report.published_series import PublishedSeries
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.samples import Bound
from pytest_nfvperf.model.sla.verdict import Observation

_PUBLISHED_MARKERS = ("D", "P", "X", "s")
AXIS_TITLES = {"frame_size": "frame size, bytes with FCS", "flows": "flows per direction"}
ZERO_LOSS = ("ndr", "throughput")


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """Outcomes that differ in one label only; ``name`` says what they have in common, such as "pvp"."""

    name: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Slots:
    """Evenly spaced places on the x axis: numbers rising, names (mixes) after them."""

    axis: str
    labels: tuple[str, ...]

    @staticmethod
    def of(axis: str, series: Sequence[SweepSeries], published: Sequence[PublishedSeries]) -> Slots:
        """The places that these curves need."""
        labels = {outcome.label[axis] for one in series for outcome in one.outcomes}
        labels |= {str(size) for other in published for size, _ in other.points}
        return Slots(axis, tuple(sorted(labels, key=lambda text: (not text.isdigit(), len(text), text))))

    def at(self, outcome: Outcome) -> int:
        """The outcome's place, from 0."""
        return self.labels.index(outcome.label[self.axis])

    def texts(self) -> list[str]:
        """What stands below each place."""
        grouped = "," if self.axis == "flows" else ""
        return [f"{int(t):{grouped}}" if t.isdigit() else t.replace("imix-", "IMIX\n") for t in self.labels]


def sweep_chart(
    series: Sequence[SweepSeries], published: Sequence[PublishedSeries] = (), *, axis: str = "frame_size"
) -> Figure:
    """Two panels, frames/s and bit/s per direction. Solid: no loss; dashed: with the loss that PDR allows.

    ``axis`` is the label on the x axis; published series go with "frame_size" only.
    """
    slots = Slots.of(axis, series, published)
    figure = new_figure(10.4, 4.4)
    mpps, gbps = figure.subplots(1, 2)
    for panel, title, unit in ((mpps, "Frames per second", "Mpps"), (gbps, "Bits per second", "Gbps")):
        dress(panel, title=title, x=AXIS_TITLES.get(axis, axis), y=f"{unit} per direction")
        panel.set_xticks(range(len(slots.labels)), slots.texts())
        _draw(panel, slots, series, published, in_bits=unit == "Gbps")
        panel.set_ylim(0, panel.get_ylim()[1] * 1.1)  # room for the arrows
        panel.set_xlim(-0.4, len(slots.labels) - 0.6)
    finish(figure, (mpps, gbps), bottom_in=0.66)
    return figure


def _draw(
    panel: Axes, slots: Slots, series: Sequence[SweepSeries], published: Sequence[PublishedSeries], *, in_bits: bool
) -> None:
    for number, other in enumerate(published):
        _draw_published(panel, slots, other, _PUBLISHED_MARKERS[number % len(_PUBLISHED_MARKERS)], in_bits=in_bits)
    for one, color in zip(series, SERIES * (len(series) // len(SERIES) + 1), strict=False):
        names = dict.fromkeys(goal.goal.name for outcome in one.outcomes for goal in outcome.goals)
        for name in names:
            _draw_goal(panel, slots, one, name, color, in_bits=in_bits)
    _draw_ceiling(panel, slots, series, in_bits=in_bits)


def _draw_goal(panel: Axes, slots: Slots, one: SweepSeries, name: str, color: str, *, in_bits: bool) -> None:
    points = [
        (slots.at(outcome), value(outcome, seen.value, in_bits=in_bits), seen)
        for outcome in one.outcomes
        if (goal := outcome.goal(name)) and goal.load_fps is not None and (seen := goal_seen(outcome, name))
    ]
    points.sort(key=lambda point: point[0])
    strict = name in ZERO_LOSS
    sizes = [point for point in points if slots.labels[point[0]].isdigit()]
    label = f"{one.name} {name.upper()}"
    style: dict[str, Any] = {
        "color": color,
        "linewidth": 1.8 if strict else 1.2,
        "linestyle": "-" if strict else (0, (4, 2)),
    }
    face = color if strict else "none"
    panel.plot([x for x, _, _ in sizes], [y for _, y, _ in sizes], **style)
    panel.plot(
        [x for x, _, _ in points],
        [y for _, y, _ in points],
        **(style | {"linestyle": style["linestyle"] if len(sizes) > 1 else "none", "linewidth": 0}),
        marker="o",
        markersize=5.5 if strict else 6.5,
        markerfacecolor=face,
        markeredgecolor=color,
    )
    panel.plot([], [], **style, marker="o", markersize=5.5, markerfacecolor=face, label=label)
    _mark_doubt(panel, slots, one, name, points, color)
    if strict:  # where NDR is bounded so is PDR; one arrow says it
        _mark_bounds(panel, points, color)


def _mark_bounds(panel: Axes, points: Sequence[tuple[int, float, Observation]], color: str) -> None:
    """An arrow upward: the DUT does at least this."""
    bounds = [(x, y) for x, y, seen in points if seen.bound in {Bound.AT_LEAST, Bound.BETWEEN}]
    arrow = {"arrowstyle": "<|-", "color": color, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    for x, y in bounds:
        panel.annotate("", (x, y), (0, 20), textcoords="offset points", arrowprops=arrow)
    if bounds:
        panel.plot([], [], linestyle="none", marker=r"$\uparrow$", color=MUTED, label="at least (limited by the rig)")


def _mark_doubt(
    panel: Axes,
    slots: Slots,
    one: SweepSeries,
    name: str,
    points: Sequence[tuple[int, float, Observation]],
    color: str,
) -> None:
    """A question mark where no trial of full length confirmed it; a cross on the axis where there is no result."""
    for x, y, seen in points:
        if seen.upper_bound:
            offset: dict[str, Any] = {
                "textcoords": "offset points",
                "fontsize": 11,
                "fontweight": "bold",
                "color": color,
            }
            panel.annotate("?", (x, y), (7, 4), **offset)
    empty = [slots.at(o) for o in one.outcomes if (found := o.goal(name)) and found.load_fps is None]
    if empty:
        panel.plot(empty, [0] * len(empty), linestyle="none", marker="x", color=color, label=f"{one.name}: no result")


def _draw_published(panel: Axes, slots: Slots, other: PublishedSeries, marker: str, *, in_bits: bool) -> None:
    points = sorted((slots.labels.index(str(size)), size, fps) for size, fps in other.frames_per_second().items())
    panel.plot(
        [x for x, _, _ in points],
        [fps * size * 8 / 1e9 if in_bits else fps / 1e6 for _, size, fps in points],
        color=MUTED,
        linewidth=1,
        linestyle=(0, (1, 2)),
        marker=marker,
        markersize=5.5,
        label=f"published: {other.name}",
    )


def _draw_ceiling(panel: Axes, slots: Slots, series: Sequence[SweepSeries], *, in_bits: bool) -> None:
    """What the rig itself can do: the grey roof above every figure."""
    roof = ceilings(slots, series, in_bits=in_bits)
    if roof:
        x = sorted(roof)
        y = [roof[place] for place in x]
        panel.plot(
            x, y, color=MUTED, linewidth=1, marker="_", markersize=14, linestyle="none", label="rig's own ceiling"
        )


def ceilings(slots: Slots, series: Sequence[SweepSeries], *, in_bits: bool) -> dict[int, float]:
    """What the rig itself can do at each place, in the chart's unit."""
    return {
        slots.at(outcome): value(outcome, outcome.ceiling_fps, in_bits=in_bits)
        for one in series
        for outcome in one.outcomes
        if outcome.ceiling_fps is not None
    }


def value(outcome: Outcome, frames_per_second: float, *, in_bits: bool) -> float:
    """A rate of the outcome's traffic in Gbit/s (layer 2, with FCS) or in Mpps."""
    return frames_per_second * (outcome.mean_frame_size * 8 / 1e9 if in_bits else 1e-6)
