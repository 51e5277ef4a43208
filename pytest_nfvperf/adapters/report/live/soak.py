"""A soak over time in the browser, a panel a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_nfvperf.adapters.report.drawing import SERIES, VERMILION
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, band, curve
from pytest_nfvperf.adapters.report.soak_chart import time_scale
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import Series


def live_soak(soak: Soak, curves: Sequence[Series]) -> Live | None:
    """All panels; grey bands are intervals that the rig spoiled, red lines those in which frames were lost."""
    panels: dict[str, list[Series]] = {}
    for one in curves:
        panels.setdefault(one.panel, []).append(one)
    factor, unit = time_scale(soak)
    shapes = [band(spoiled.start_s / factor, spoiled.end_s / factor) for spoiled in soak.spoiled]
    shapes += [_lossy(lossy.end_s / factor) for lossy in soak.lossy]
    made = [_panel(title, members, factor, unit, shapes) for title, members in panels.items()]
    return Live(tuple(made)) if made else None


def _lossy(at: float) -> dict[str, Any]:
    place = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return place | {"line": {"color": VERMILION, "width": 1}, "opacity": 0.7}


def _panel(title: str, members: Sequence[Series], factor: float, unit: str, shapes: Sequence[dict[str, Any]]) -> Panel:
    traces = tuple(
        curve(
            one.name,
            [round(t / factor, 4) for t, _ in one.points],
            [float(f"{value:.5g}") for _, value in one.points],
            SERIES[number % len(SERIES)],
            mode="lines",
            line={"width": 1.5, "dash": ("solid", "dash", "dot")[number // len(SERIES) % 3]},
        )
        for number, one in enumerate(members)
    )
    name = title[0].upper() + title[1:]
    return Panel(name, f"time, {unit}", members[0].unit, traces, {}, {"rangemode": "tozero"}, tuple(shapes))
