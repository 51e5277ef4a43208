"""A chart as data: its axes, and what is on them.

``picture`` draws it on paper, ``page_charts`` in the browser; what a chart shows is said here once. It knows neither
matplotlib nor plotly. Colours are Okabe and Ito's, which stay apart under every common colour blindness, and are
readable on light and dark paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072b2", "#d98c00", "#009e73", "#b45c91", "#3f9fd6", "#d55e00"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
LIMIT_COLOUR = VERMILION
MUTED = "#7d8590"
INK = "#1b1f27"
"""Text and axes. In SVG it becomes the page's own text colour, so a chart follows dark mode."""
PAPER = "#fdfdfe"
"""Covers what is behind it. In SVG it becomes the page's own paper colour."""

Dash = Literal["solid", "dash", "dot"]

GET_CHARTS = "pip install 'pytest-nfvperf[charts]'"


def can_draw() -> bool:
    """True if matplotlib and plotly are installed, which the extra ``charts`` brings. Importing them takes a second."""
    return all(find_spec(name) is not None for name in ("matplotlib", "plotly"))


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a panel.

    Attributes:
        title: with the unit.
        places: names at 0, 1, 2 ... of an axis without numbers.
        ticks: (where, text) instead of the renderer's own.
        reach: what is shown of it, until a reader zooms.
        unit: numbers are shown as values of this unit.
    """

    title: str = ""
    places: tuple[str, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    log: bool = False
    from_zero: bool = False
    reach: tuple[float, float] | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Points, with or without a line through them.

    Attributes:
        name: in the legend; several series may share it. A series without points is a legend entry only: it explains a
            shape or a mark.
        x, y: the points; on an axis with places ``x`` counts from 0.
        symbol: of each point, in plotly's words; "" for none.
        size, width: of symbol and line, in points.
        line: joins the points; "" for none.
        steps: the line goes to the right first, then up.
        below, above: reach of each point's interval; empty for none. ``across``: intervals lie along the x axis.
        labels: beside the points.
        hover: the browser's text for each point, without the series' name.
        links: ids on the page to which a click on a point leads.
        levels: on the chart's scale; they colour the points of a picture.
        shift: moves a picture's points to the right, if series would lie on each other.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    symbol: str = ""
    size: float = 5.5
    line: Dash | Literal[""] = ""
    width: float = 1.8
    steps: bool = False
    below: Sequence[float] = ()
    above: Sequence[float] = ()
    across: bool = False
    labels: Sequence[str] = ()
    hover: Sequence[str] = ()
    links: Sequence[str | None] = ()
    levels: Sequence[float] = ()
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class ChartRule:
    """A line across a panel where ``axis`` has the value ``at``. ``label``: at its upper end."""

    at: float
    axis: Literal["x", "y"]
    colour: str
    line: Dash = "solid"
    name: str = ""
    width: float = 1.4
    label: str = ""


@dataclass(frozen=True, slots=True)
class ChartBand:
    """The area between two values of ``axis``, across a panel."""

    start: float
    end: float
    axis: Literal["x", "y"]
    colour: str
    name: str = ""
    opacity: float = 0.13


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[ChartSeries]
    rules: Sequence[ChartRule] = ()
    bands: Sequence[ChartBand] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Shares from 1e-6 to 1 as colours: an equal part of ``colours`` for each power of ten."""

    title: str
    colours: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels side by side with one legend.

    Attributes:
        height: of a row of panels in a picture, in inches; the width is always the same.
        legend_inside: each panel has its own legend; a picture then shows its first six series only.
        note: at the foot of a picture.
        left: inches for names at the left.
    """

    panels: Sequence[Panel]
    height: float
    legend_inside: bool = False
    scale: Scale | None = None
    note: str = ""
    left: float = 0.68
