"""How all charts look, and how a figure becomes SVG for the page or PNG for everything else.

Figures are made without pyplot, so there is no global state. Colours are Okabe and Ito's, which
stay apart under every common colour blindness, and are readable on light and dark paper.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

from pytest_nfvperf.model.text import visible

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072b2", "#d98c00", "#009e73", "#b45c91", "#3f9fd6", "#d55e00"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
MUTED = "#7d8590"
INK = "#1b1f27"
"""Text and axes. In SVG it becomes the page's own text colour, so a chart follows dark mode."""
PAPER = "#fdfdfe"
"""Covers what is behind it. In SVG it becomes the page's own paper colour."""

_POWER_OF_TEN = r"$\mathdefault"
"""How matplotlib's own labels of logarithmic axes begin."""

_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "svg.hashsalt": "nfvperf",  # the same data give the same file
    "font.family": ["sans-serif"],
}


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Figure(figsize=(width_in, height_in))
    figure.patch.set_alpha(0)
    return figure


def dress(axes: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Titles with units, light grid, no box."""
    axes.patch.set_alpha(0)
    axes.set_title(title, loc="left", color=INK, fontsize=10.5, fontweight="bold")
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)
    axes.tick_params(colors=INK, labelsize=8.5, length=3)
    axes.grid(visible=True, color=MUTED, alpha=0.22, linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(MUTED)


def finish(figure: Figure, panels: Sequence[Axes], *, right_in: float = 0.12, bottom_in: float = 0.5) -> None:
    """One legend for all panels under them, each label once, and margins that hold everything.

    Margins are given, not searched for: matplotlib's automatic layouts draw every chart twice more.

    Args:
        figure: of any size.
        panels: its panels, side by side.
        right_in: inches kept free at the right, for a colour bar.
        bottom_in: inches that tick labels and the axis title take.
    """
    handles: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = _legend_columns(figure.get_figwidth(), list(handles))
    rows = math.ceil(len(handles) / columns)
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=0.68 / width,
        right=1 - right_in / width,
        top=1 - 0.34 / height,
        bottom=(bottom_in + 0.22 * rows) / height,
        wspace=0.15,
    )
    if handles:
        figure.legend(
            handles=list(handles.values()),
            labels=list(handles),
            loc="lower center",
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
            borderaxespad=0.1,
        )


def _legend_columns(width_in: float, labels: Sequence[str]) -> int:
    """As many entries side by side as fit: a letter takes about 0.075 inches, the mark 0.6."""
    widest = max((len(label) for label in labels), default=0) * 0.075 + 0.6
    return max(1, min(len(labels), int(width_in / widest)))


def to_svg(figure: Figure, title: str) -> str:
    """The figure as an ``<svg>`` element to embed in a page; ``title`` is read out by screen readers."""
    out = io.StringIO()
    _take_literally(figure)
    FigureCanvasSVG(figure)
    with rc_context(_STYLE):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<g|<image[^>]*?) id="[^"]*"', r"\1", svg)  # several charts share a page: ids would collide
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    svg = re.sub(r"<[^>]+>", _rounded, svg)
    svg = re.sub(r"\n\s*", "\n", svg).replace(INK, "currentColor")
    svg = svg.replace(PAPER, "var(--paper, white)")
    label = visible(title).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _take_literally(figure: Figure) -> None:
    """Texts are names of users: no formulas between dollars, and no characters that no SVG may hold."""
    for text in figure.findobj(Text):
        if not text.get_text().startswith(_POWER_OF_TEN):
            text.set_parse_math(False)
            text.set_text(visible(text.get_text()))


def _rounded(tag: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point, finer than any screen; texts are outside of tags and stay."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag.group())


def to_png(figure: Figure, dpi: int = 120) -> bytes:
    """The figure on white paper as PNG."""
    out = io.BytesIO()
    _take_literally(figure)
    FigureCanvasAgg(figure)
    clear = figure.patch.get_alpha()
    figure.patch.set_alpha(1)  # else dark letters have no background, and cannot be read on a dark page
    figure.savefig(out, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    figure.patch.set_alpha(clear)
    return out.getvalue()
