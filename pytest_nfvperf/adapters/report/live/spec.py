"""A chart as data: panels of traces, in the words of plotly.js (https://plotly.com/javascript/reference/)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_nfvperf.adapters.report.drawing import MUTED

Trace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: with a capital.
        x, y: titles of the axes, with units.
        traces: each with a ``name``, which is its entry in the legend; panels share the legend.
        xaxis, yaxis: what else plotly is to know of an axis.
        shapes: bands and lines behind the traces.
    """

    title: str
    x: str
    y: str
    traces: tuple[Trace, ...]
    xaxis: dict[str, Any] = field(default_factory=dict)
    yaxis: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """A chart of one panel or more, beside each other where there is room."""

    panels: tuple[Panel, ...]

    def data(self) -> dict[str, Any]:
        """For JSON. Not by ``dataclasses.asdict``, which copies each of a large run's million figures."""
        return {"panels": [{one.name: getattr(panel, one.name) for one in fields(panel)} for panel in self.panels]}


def curve(name: str, x: Sequence[Any], y: Sequence[float], color: str, **more: Any) -> Trace:
    """Points joined by a line."""
    line = {"color": color, "width": 1.8} | more.pop("line", {})
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": list(x), "y": list(y), "line": line} | more


def dots(name: str, x: Sequence[Any], y: Sequence[float], color: str, **more: Any) -> Trace:
    """Points alone."""
    marker = {"color": color, "size": 8} | more.pop("marker", {})
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), "marker": marker} | more


def level(name: str, ends: tuple[float, float], y: float, color: str, dash: str = "solid") -> Trace:
    """A horizontal line from one x to another."""
    return curve(name, ends, (y, y), color, mode="lines", line={"dash": dash, "width": 1.4})


def band(start: float, end: float) -> dict[str, Any]:
    """A grey band over the whole height, from one x to another."""
    place = {"type": "rect", "xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}
    return place | {"fillcolor": MUTED, "opacity": 0.22, "line": {"width": 0}, "layer": "below"}
