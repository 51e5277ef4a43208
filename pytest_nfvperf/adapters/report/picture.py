"""Charts on paper, by matplotlib: how all of them look, and how a figure becomes SVG for the page or PNG for the rest.

Figures are made without pyplot, so there is no global state. matplotlib is an extra (``can_draw``) and takes a second
to import, so the functions that draw import it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.report.chart import (
    INK,
    MUTED,
    PAPER,
    SERIES,
    Axis,
    Chart,
    ChartSeries,
    Panel,
    Scale,
)
from pytest_nfvperf.model.display import format_value, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

WIDTH = 10.4
"""Width of every picture in inches, so that letters have the same size in all of them."""

_DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 2)), "": "none"}
_MARKERS = {
    "": "",
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "diamond": "D",
    "cross": "P",
    "x": "x",
    "line-ew": "_",
    "line-ns": "|",
}
_POWER_OF_TEN = r"$\mathdefault"
"""How matplotlib's own labels of logarithmic axes begin."""

_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "svg.hashsalt": "nfvperf",  # the same data give the same file
    "font.family": ["sans-serif"],
}


def picture(chart: Chart) -> Figure:
    """Two panels side by side, or one as wide as both."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 - an extra
    from matplotlib.colors import LinearSegmentedColormap, LogNorm  # noqa: PLC0415 - an extra

    shown = chart.panels
    columns = min(len(shown), 2)
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(WIDTH, chart.height * rows)
    grid: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flatten())
    norm = LogNorm(1e-6, 1, clip=True)
    colours = LinearSegmentedColormap.from_list("scale", chart.scale.colours if chart.scale else [MUTED, MUTED])
    for axes, panel in zip(grid, shown, strict=False):
        _draw_panel(axes, panel, len(SERIES) if chart.legend_inside else len(panel.series), (colours, norm))
    for unused in grid[len(shown) :]:
        unused.set_axis_off()
    if chart.legend_inside:
        _finish_with_legends_inside(figure, grid[: len(shown)], shown, chart.note)
        return figure
    bottom = 0.66 if shown[0].x.places else 0.5  # a place's name may take two lines
    finish(figure, grid[: len(shown)], left_in=chart.left, right_in=1.15 if chart.scale else 0.2, bottom_in=bottom)
    if chart.scale:
        _draw_scale(figure, grid[len(shown) - 1], chart.scale, ScalarMappable(norm, colours))
    return figure


def _draw_panel(axes: Axes, panel: Panel, most: int, scale: tuple[Any, Any]) -> None:
    dress(axes, title=panel.title, x=panel.x.title, y=panel.y.title)
    for band in panel.bands:
        span = axes.axvspan if band.axis == "x" else axes.axhspan
        span(band.start, band.end, color=band.colour, alpha=band.opacity, linewidth=0, label=band.name or None)
    for rule in panel.rules:
        draw = axes.axvline if rule.axis == "x" else axes.axhline
        draw(rule.at, color=rule.colour, linewidth=rule.width, linestyle=_DASHES[rule.line], label=rule.name or None)
        if rule.label:
            at: Any = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
            axes.annotate(rule.label, (rule.at, 0.99), (3, -1), va="top", fontsize=8.5, color=rule.colour, **at)
    for series in panel.series[:most]:
        if series.levels:
            axes.scatter(
                series.x, series.y, s=30, marker=_MARKERS[series.symbol], c=series.levels, cmap=scale[0], norm=scale[1]
            )
        else:
            _draw_series(axes, series, clip=bool(panel.x.reach))
    for which, axis in (("x", panel.x), ("y", panel.y)):
        _set_axis(axes, which, axis)


def _draw_series(axes: Axes, series: ChartSeries, *, clip: bool) -> None:
    """``clip``: marks may not reach over the edge of the panel."""
    x = [value + series.shift for value in series.x]
    marker = _MARKERS[series.symbol.removesuffix("-open")]
    look: dict[str, Any] = {
        "color": series.colour,
        "linestyle": _DASHES[series.line],
        "linewidth": series.width,
        "marker": marker,
        "markersize": series.size,
        "fillstyle": "none" if series.symbol.endswith("-open") else "full",
        "label": series.name or None,
        "clip_on": clip,
    }
    if series.below and len(x) > 0:
        bars: Any = {"xerr" if series.across else "yerr": (series.below, series.above)}
        axes.errorbar(x, series.y, **bars, **look, elinewidth=1.1, capsize=3)
    else:
        axes.plot(x, series.y, **look, drawstyle="steps-post" if series.steps else "default")
    # Above the point, and beside the bar of an interval.
    at: Any = {"xytext": (6, 4)} if series.below else {"xytext": (0, 6), "ha": "center"}
    for label, left, up in zip(series.labels, x, series.y, strict=True) if series.labels else ():
        if label:
            axes.annotate(label, (left, up), textcoords="offset points", color=series.colour, fontsize=8.5, **at)


def _set_axis(axes: Axes, which: str, axis: Axis) -> None:
    """What matplotlib does not find by itself. Limits come last: they depend on what was drawn."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415 - an extra

    lines = axes.xaxis if which == "x" else axes.yaxis
    if axis.log:
        axes.set(**{f"{which}scale": "log"})
        lines.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    if axis.places:
        lines.set_ticks(range(len(axis.places)), axis.places)
        beyond = 0.4 if which == "x" else 0.6
        axes.set(**{f"{which}lim": (-beyond, len(axis.places) - 1 + beyond)})
    if axis.ticks:
        lines.set_ticks([at for at, _ in axis.ticks], [text for _, text in axis.ticks])
        lines.set_ticks([], minor=True)
    if axis.unit:
        lines.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, axis.unit)))
    if axis.reach:
        axes.set(**{f"{which}lim": axis.reach})
    elif axis.from_zero:
        top = axes.get_xlim()[1] if which == "x" else axes.get_ylim()[1] * 1.05
        axes.set(**{f"{which}lim": (0, top)})


def _draw_scale(figure: Figure, panel: Axes, scale: Scale, colours: ScalarMappable) -> None:
    place = panel.get_position()
    axes = figure.add_axes((place.x1 + 0.015, place.y0, 0.012, place.height))
    bar = figure.colorbar(colours, cax=axes)
    bar.set_label(scale.title, color=INK, fontsize=8.5)
    powers = range(-6, 1)
    bar.set_ticks([10.0**power for power in powers], labels=[f"{10.0 ** (power + 2):g} %" for power in powers])
    bar.minorticks_off()
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)


def _finish_with_legends_inside(figure: Figure, grid: Sequence[Axes], panels: Sequence[Panel], note: str) -> None:
    height = figure.get_figheight()
    for axes, panel in zip(grid, panels, strict=True):
        left_out = len(panel.series) - len(SERIES)
        title = f"and {left_out} more, all below" if left_out > 0 else None
        look: dict[str, Any] = {"fontsize": 7, "frameon": False, "labelcolor": INK, "title_fontsize": 7}
        axes.legend(loc="lower right", ncols=2, title=title, **look)
    if note:
        figure.text(0.985, 0.06 / height, note, ha="right", va="bottom", fontsize=7, color=MUTED)
    bottom = (0.7 if note else 0.5) / height
    figure.subplots_adjust(left=0.07, right=0.985, top=1 - 0.3 / height, bottom=bottom, hspace=0.62, wspace=0.18)


def new_figure(width_in: float, height_in: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    figure = Figure(figsize=(width_in, height_in))
    figure.patch.set_alpha(0)
    return figure


def dress(axes: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
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


def finish(
    figure: Figure, panels: Sequence[Axes], *, left_in: float = 0.68, right_in: float = 0.12, bottom_in: float = 0.5
) -> None:
    """One legend below all panels, each label once, and margins that hold everything.

    Margins are given, since matplotlib's automatic layouts draw every chart twice more. ``left_in``, ``right_in``,
    ``bottom_in``: inches for names at the left, a colour bar, and tick labels with the axis title.
    """
    handles: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    # As many entries side by side as fit: a letter takes about 0.075 inches, the mark 0.6.
    widest = max(map(len, handles), default=0) * 0.075 + 0.6
    columns = max(1, min(len(handles), int(figure.get_figwidth() / widest)))
    rows = math.ceil(len(handles) / columns)
    # A long legend takes nothing from the panels.
    figure.set_figheight(figure.get_figheight() + 0.22 * max(rows - 2, 0))
    width, height = figure.get_size_inches()
    left, right, bottom = left_in / width, 1 - right_in / width, (bottom_in + 0.22 * rows) / height
    figure.subplots_adjust(left=left, right=right, top=1 - 0.34 / height, bottom=bottom, wspace=0.15)
    if handles:
        look: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "borderaxespad": 0.1}
        figure.legend([*handles.values()], [*handles], loc="lower center", ncols=columns, **look)


def to_svg(figure: Figure, title: str) -> str:
    """An ``<svg>`` element for a page; ``title`` is for screen readers."""
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415 - an extra

    out = io.StringIO()
    _take_literally(figure)
    FigureCanvasSVG(figure)
    with rc_context(_STYLE):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = out.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(<g|<image[^>]*?) id="[^"]*"', r"\1", svg)  # several charts share a page: ids would collide
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    # Coordinates to a hundredth of a point, finer than any screen; texts are outside of tags and stay.
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag.group()), svg)
    svg = re.sub(r"\n\s*", "\n", svg).replace(INK, "currentColor").replace(PAPER, "var(--paper, white)")
    label = visible(title).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _take_literally(figure: Figure) -> None:
    """Users' names are no formulas between dollars, and no SVG may hold control characters."""
    from matplotlib.text import Text  # noqa: PLC0415 - an extra

    for text in figure.findobj(Text):
        if not text.get_text().startswith(_POWER_OF_TEN):
            text.set_parse_math(False)
            text.set_text(visible(text.get_text()))


def to_png(figure: Figure, dpi: int = 120) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra

    out = io.BytesIO()
    _take_literally(figure)
    FigureCanvasAgg(figure)
    clear = figure.patch.get_alpha()
    figure.patch.set_alpha(1)  # else dark letters have no background, and cannot be read on a dark page
    figure.savefig(out, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    figure.patch.set_alpha(clear)
    return out.getvalue()
