"""A soak over time, a panel a figure, as S1's figures 3 to 10 show it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import INK, MUTED, SERIES, VERMILION, dress, new_figure
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import STATE, Series

_COLUMNS = 2
_PANEL_IN = (5.2, 2.5)
_MOST_CURVES = len(SERIES)
_SCALES = ((7200, 3600, "h"), (300, 60, "min"), (0, 1, "s"))


def soak_chart(soak: Soak, curves: Sequence[Series]) -> Figure | None:
    """All panels; grey bands are intervals that the rig spoiled, red lines those in which frames were lost."""
    panels: dict[str, list[Series]] = {}
    for curve in curves:
        panels.setdefault(curve.panel, []).append(curve)
    if not panels:
        return None
    rows = -(-len(panels) // _COLUMNS)
    figure = new_figure(_PANEL_IN[0] * _COLUMNS, _PANEL_IN[1] * rows)
    axes = figure.subplots(rows, _COLUMNS, squeeze=False).flatten()
    factor, unit = time_scale(soak)
    note = _left_out(soak, curves)
    if note:
        figure.text(0.985, 0.06 / figure.get_figheight(), note, ha="right", va="bottom", fontsize=7, color=MUTED)
    for panel, (title, members) in zip(axes, panels.items(), strict=False):
        dress(panel, title=title[0].upper() + title[1:], x=f"time, {unit}", y=members[0].unit)
        _mark(panel, soak, factor)
        _draw(panel, members, factor)
    for empty in axes[len(panels) :]:
        empty.set_axis_off()
    figure.subplots_adjust(
        left=0.07,
        right=0.985,
        top=1 - 0.3 / figure.get_figheight(),
        bottom=(0.7 if note else 0.5) / figure.get_figheight(),
    )
    figure.subplots_adjust(hspace=0.62, wspace=0.18)
    return figure


def time_scale(soak: Soak) -> tuple[int, str]:
    """Seconds to a unit of the time axis, and the unit's name."""
    return next((step, name) for least, step, name in _SCALES if soak.elapsed_s >= least)


def _left_out(soak: Soak, curves: Sequence[Series]) -> str:
    """What is in the summary and in no curve: the end of a soak, where it is shorter than an interval."""
    longest = max(curves, key=lambda curve: len(curve.points))
    left_s = soak.elapsed_s - longest.points[-1][0]
    if len(longest.points) != soak.intervals - 1 or not 0 < left_s < soak.interval_s:
        return ""  # all is drawn, or so much that nobody sees the end
    return f"The last {format_seconds(left_s)} are in no curve: they are shorter than the other samples, and counted."


def _mark(panel: Axes, soak: Soak, factor: float) -> None:
    for spoiled in soak.spoiled:
        panel.axvspan(spoiled.start_s / factor, spoiled.end_s / factor, color=MUTED, alpha=0.25, linewidth=0)
    for lossy in soak.lossy:
        panel.axvline(lossy.end_s / factor, color=VERMILION, linewidth=0.8, alpha=0.7)


def _draw(panel: Axes, members: Sequence[Series], factor: float) -> None:
    shown = sorted(members, key=lambda curve: -max(value for _, value in curve.points))[:_MOST_CURVES]
    for number, (color, curve) in enumerate(zip(SERIES, shown, strict=False), start=1):
        times = [t / factor for t, _ in curve.points]
        width = 1.3 + (len(shown) - number) * (curve.unit == STATE)  # states lie on each other: all are to be seen
        panel.plot(times, [value for _, value in curve.points], color=color, linewidth=width, label=curve.name)
    top = max(value for curve in shown for _, value in curve.points)
    panel.set_ylim(0, top * 1.15 if top > 0 else 1)
    panel.set_xlim(left=0)
    left_out = len(members) - len(shown)
    title = f"and {left_out} more, all below" if left_out else None
    panel.legend(fontsize=7, frameon=False, labelcolor=INK, loc="lower right", ncols=2, title=title, title_fontsize=7)
