"""Charts on a page: an interactive one by plotly.js (MIT licence, of the PyPI package plotly), and its picture.

A browser that cannot, or must not run scripts, shows the pictures. gzip and base64 make plotly.js 1.9 MB instead of
4.7; the browser unpacks it (DecompressionStream) at the first chart, so a page is readable before.
"""

from __future__ import annotations

import base64
import functools
import gzip
import math
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from pytest_nfvperf.adapters.report.chart import Axis, Chart, ChartBand, ChartRule, ChartSeries, Panel, can_draw
from pytest_nfvperf.adapters.report.picture import picture, to_png, to_svg
from pytest_nfvperf.adapters.report.templating import TEMPLATES
from pytest_nfvperf.model.display import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NoteFault = Callable[[str, Exception], None]
"""Takes what went wrong in a part of a report, in words, and the error."""

NO_CHART, NO_FILES = "a chart of the report cannot be drawn", "charts cannot be written as files"

_DRAW = "`nfvperf report`, with this run's directory, draws all charts."
_ID = re.compile(r'<(?!g |path|clipPath|image)\w+[^>]* id="([^"]+)"')


def raise_fault(what: str, error: Exception) -> None:  # noqa: ARG001 - a NoteFault
    raise error


class ChartFolder:
    """Makes charts for a page, and PNG files of them in ``directory`` (None: no files).

    Without the extra ``charts`` it makes none: each is "".

    ``time_left``: False once nobody waits for more; a sentence then takes the place of each chart.
    ``pictures``: False if there are so many charts that only the browser draws those it can.
    ``note``: called for each picture that cannot be made; a sentence takes its place. By default it raises.
    """

    def __init__(
        self,
        directory: Path | None,
        time_left: Callable[[], bool] = lambda: True,
        *,
        pictures: bool = True,
        note: NoteFault = raise_fault,
    ) -> None:
        self.can_draw = can_draw()
        self.interactive = False  # until a chart is added that plotly.js draws
        self._directory = directory if self.can_draw else None
        self._time_left = time_left
        self.pictures = pictures
        self._note = note
        if self._directory is not None:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                note(NO_FILES, error)
                self._directory = None

    def add(self, chart: Chart, name: str, title: str) -> Markup:
        """An interactive chart with its picture. ``name``: of the file. ``title``: for screen readers."""
        if not self.can_draw:
            return Markup("")
        self.interactive = True
        still = self.still(chart, name, title) if self.pictures else Markup("")
        # report.js draws from data-chart. ``htmlsafe_json_dumps`` leaves no quote that would end the attribute.
        data = htmlsafe_json_dumps(live(chart), separators=(",", ":"))
        start = Markup('<div class="chart" role="group" aria-label="{}" data-chart=\'{}\'>').format(title, data)
        return start + Markup('<div class="still">{}</div></div>').format(still)

    def still(self, chart: Chart, name: str, title: str) -> Markup:
        """A chart as ``draw`` shows it."""
        return self.draw(lambda: picture(chart), name, title)

    def draw(self, make: Callable[[], Figure | None], name: str, title: str) -> Markup:
        """A picture as inline SVG. If it cannot be drawn, or nobody waits for it: a sentence. Without a figure: ""."""
        if not self.can_draw:
            return Markup("")
        if not self._time_left():
            return Markup('<p class="soft small">{} was not drawn: the run was stopped. {}</p>').format(title, _DRAW)
        try:
            figure = make()
            if figure is None:
                return Markup("")
            if self._directory is not None:
                try:
                    file_name = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
                    (self._directory / f"{file_name}.png").write_bytes(to_png(figure))
                except OSError as error:
                    self._note(NO_FILES, error)
            return Markup(to_svg(figure, title))  # noqa: S704 - made by matplotlib, which escapes texts
        except Exception as error:  # noqa: BLE001 - a chart that cannot be drawn costs the page that chart
            self._note(NO_CHART, error)
            why = type(error).__name__
            return Markup('<p class="soft small">{} cannot be drawn: {}</p>').format(visible(title), why)


def live(chart: Chart) -> dict[str, Any]:
    """A chart in the words of plotly.js (https://plotly.com/javascript/reference/), as report.js takes it."""
    return {"panels": [_live_panel(panel) for panel in chart.panels]}


def _live_panel(panel: Panel) -> dict[str, Any]:
    """Named rules become traces, so that a reader can hide them. Shifts are for pictures only."""
    ends = panel.x.reach or (0, len(panel.x.places) - 1)
    levels = [
        ChartSeries(rule.name, ends, (rule.at, rule.at), rule.colour, line=rule.line, width=rule.width)
        for rule in panel.rules
        if rule.name and rule.axis == "y"
    ]
    drawn = [_trace(series, panel.x) for series in (*levels, *panel.series) if len(series.x)]
    named = {trace["name"] for trace in drawn}
    keys = [
        {"name": one.name, "colour": one.colour, "symbol": one.symbol}
        for one in panel.series
        if not len(one.x) and one.name not in named
    ]
    shapes = []
    for band in panel.bands:
        look = {"fillcolor": band.colour, "opacity": band.opacity, "line": {"width": 0}, "layer": "below"}
        shapes.append(_shape("rect", band, band.start, band.end, look))
    for rule in panel.rules:
        if not (rule.name and rule.axis == "y"):
            line = {"color": rule.colour, "dash": rule.line, "width": rule.width}
            shapes.append(_shape("line", rule, rule.at, rule.at, {"line": line}))
    keys += [{"name": one.name, "colour": one.colour, "symbol": "any"} for one in panel.bands if one.name]
    axes: dict[str, Any] = {"xaxis": _live_axis(panel.x), "yaxis": _live_axis(panel.y)}
    if names := panel.y.places:  # its values lie beside the names, too: no categories
        ticks = {"tickvals": list(range(len(names))), "ticktext": list(names)}
        axes["yaxis"] = ticks | {"range": [-0.6, len(names) - 0.4], "showgrid": False}
        axes["height"] = 120 + 44 * len(names)
    titles = {"title": panel.title, "x": panel.x.title, "y": panel.y.title}
    return {**titles, "traces": drawn, "keys": keys, **axes, "shapes": shapes}


def _live_axis(axis: Axis) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "log"} if axis.log else {}
    if axis.places:
        made |= {"type": "category", "categoryorder": "array", "categoryarray": _places(axis)}
    if axis.ticks:
        made |= {"tickvals": [at for at, _ in axis.ticks], "ticktext": [text for _, text in axis.ticks]}
    if axis.reach:
        made["range"] = [math.log10(end) for end in axis.reach] if axis.log else list(axis.reach)
    return made | ({"rangemode": "tozero"} if axis.from_zero else {})


def _places(axis: Axis) -> list[str]:
    return [name.replace("\n", " ") for name in axis.places]


def _trace(series: ChartSeries, axis: Axis) -> dict[str, Any]:
    places = _places(axis)
    labels = any(series.labels)
    parts = {"lines": series.line, "markers": series.symbol, "text": labels}
    made: dict[str, Any] = {
        "type": "scatter",
        "mode": "+".join(part for part, is_there in parts.items() if is_there),
        "name": series.name,
        "x": [places[int(at)] for at in series.x] if places else list(series.x),
        "y": list(series.y),
    }
    if series.line:
        made["line"] = {"color": series.colour, "width": series.width, "dash": series.line}
        made["line"] |= {"shape": "hv"} if series.steps else {}
    if series.symbol:
        lines_only = series.symbol.startswith(("x", "line-"))
        symbol = f"{series.symbol.replace('x', 'x-thin')}-open" if lines_only else series.symbol
        made["marker"] = {"color": series.colour, "size": round(series.size * 1.4), "symbol": symbol}
    if series.below:
        ends = {"array": list(series.above), "arrayminus": list(series.below)}
        look = {"type": "data", "symmetric": False, "thickness": 1.2, "width": 4, "color": series.colour}
        made["error_x" if series.across else "error_y"] = look | ends
    if labels:
        made |= {"text": list(series.labels), "textposition": "top right" if series.below else "top center"}
    if series.hover:
        made |= {"hovertext": list(series.hover), "hoverinfo": "text+name"}
    return made | ({"customdata": list(series.links)} if series.links else {})


def _shape(kind: str, one: ChartBand | ChartRule, start: float, end: float, look: dict[str, Any]) -> dict[str, Any]:
    along, across = ("x", "y") if one.axis == "x" else ("y", "x")
    place = {f"{along}ref": along, f"{along}0": start, f"{along}1": end}
    return {"type": kind, **place, f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1, **look}


@functools.cache
def library() -> Markup:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra

    return packed(get_plotlyjs())


def library_name() -> str:
    return f"plotly.js of plotly {version('plotly')}, MIT licence"


@functools.cache
def script() -> Markup:
    return Markup((TEMPLATES / "report.js").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def packed(text: str) -> Markup:
    """Packed for ``unpacked`` of the page's script. The same text always gives the same result."""
    return Markup(base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode())  # noqa: S704


def ids_in(html: str) -> str:
    """The link targets in a part of the page, joined by spaces."""
    return " ".join(_ID.findall(html))
