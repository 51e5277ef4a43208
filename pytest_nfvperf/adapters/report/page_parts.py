"""What pages are made of: templates, charts that the browser draws, and pictures of charts and drawings.

Templates are strict (an unknown name is an error), escape everything, and show control characters.

The browser draws charts with Vega, which is in the page or in a file of a site. gzip and base64 make Vega 0.4 MB
instead of 0.9, and charts a third; the browser unpacks both (DecompressionStream) once the page is shown.
``python -m tools.vega`` makes Vega's file.

Allure, documents and pages without scripts get SVG and PNG by vl-convert, an extra. Its first picture takes 0.4 s of
CPU, each further one 0.04. So the end of a run makes none, ``nfvperf report`` does.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pytest_nfvperf.adapters.report.vega import View
from pytest_nfvperf.model import display
from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.metrics import metric_of

TEMPLATES = Path(__file__).with_name("templates")
_LIBRARY = TEMPLATES / "vega.js.gz"
_ID = re.compile(r'<(?!g |path|clipPath|image)\w+[^>]* id="([^"]+)"')
GET_PICTURES = "pip install 'pytest-nfvperf[charts]'"
_WIDTH = 900
"""Width of a panel alone; two stand side by side on as much."""
_BETWEEN = 30
_SCALE = 1.4
"""Of a PNG: pixels for each of the page's."""
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""Of pictures: where it is drawn the letters must be as wide as where they were measured."""
_THEME = TEMPLATES / "theme.json"
"""What all charts have in common. ``currentColor`` is that of the page around it, in its light and its dark scheme."""
_SIZE = re.compile(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"')


@functools.cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "fps": display.format_fps,
        "bps": display.format_bps,
        "ns": display.format_ns,
        "seconds": display.format_seconds,
        "ratio": display.format_ratio,
        "count": lambda value: display.format_count(value, ""),
        "value": display.format_value,
        "against": display.format_against,
        "margin": display.format_margin,
        "how_many": display.how_many,
        "title_of": lambda name: metric_of(name).title,
    }
    made.globals |= {"own_file": own_file, "library": library, "packed": packed, "ids_in": ids_in}
    return made


def _shown(value: object) -> object:
    """Show control characters in what a template prints. Our own markup was treated before."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def trials_html(trials: Sequence[tuple[str, TrialData]]) -> str:
    return environment().get_template("trials.html").render(trials=list(trials))


class PageCharts:
    """The charts of a page, and the files that pictures of them have in ``charts/``."""

    def __init__(self) -> None:
        self._charts: list[tuple[Sequence[View], str, str]] = []
        self._drawings: dict[str, str] = {}

    @property
    def any(self) -> bool:
        """True if the page needs Vega."""
        return bool(self._charts)

    def add(self, panels: Sequence[View], name: str, title: str) -> Markup:
        """A chart for charts.js. ``name``: of its file. ``title``: for screen readers."""
        self._charts.append((panels, _file_name(name), title))
        made = Markup('<div class="chart" role="group" aria-label="{}" data-chart="{}"></div>')
        return made.format(title, len(self._charts) - 1)

    def data(self) -> Markup:
        """The charts by their numbers, packed for charts.js."""
        return packed(json.dumps([shown(panels) for panels, _, _ in self._charts], separators=(",", ":")))

    def add_drawing(self, svg: Markup, name: str) -> Markup:
        """What is drawn already; "" for nothing."""
        if svg:
            self._drawings[_file_name(name)] = svg
        return svg

    def write_pictures(self, folder: Path, *, of_charts: bool) -> None:
        """Write each as SVG and PNG. ``of_charts``: without, drawings alone, which takes a tenth as long.

        Raises:
            OSError: a file cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = {name: as_file([svg]) for name, svg in self._drawings.items()}
        if of_charts:
            files |= {name: as_file(to_svgs(panels, title)) for panels, name, title in self._charts}
        for name, svg in files.items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
            (folder / f"{name}.png").write_bytes(to_png(svg))


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def library() -> Markup:
    """Vega, packed."""
    return Markup(base64.b64encode(_LIBRARY.read_bytes()).decode())  # noqa: S704 - our own file


def unpacked_library() -> str:
    return gzip.decompress(_LIBRARY.read_bytes()).decode()


@functools.cache
def own_file(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def packed(text: str) -> Markup:
    """Packed for ``unpacked`` of charts.js. The same text always gives the same result."""
    return Markup(base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode())  # noqa: S704


def ids_in(html: str) -> str:
    """The link targets in a part of the page, joined by spaces."""
    return " ".join(_ID.findall(html))


def can_draw() -> bool:
    """True if vl-convert is installed, which the extra ``charts`` brings."""
    return find_spec("vl_convert") is not None


def shown(part: object) -> object:
    """A part of a chart with control characters shown: names of users may hold any, and XML none."""
    match part:
        case str():
            return visible(part)
        case dict():
            return {visible(key): shown(value) for key, value in part.items()}
        case list() | tuple():
            return [shown(value) for value in part]
    return part


def to_svgs(panels: Sequence[View], title: str) -> list[Markup]:
    """Each panel as an ``<svg>`` element for a page, whose colours it follows; ``title`` is for screen readers."""
    import vl_convert  # noqa: PLC0415 - an extra

    across = _WIDTH if len(panels) == 1 else (_WIDTH - _BETWEEN) // 2
    sizing = {"width": across, "autosize": {"type": "fit-x"}, "params": [{"name": "across", "value": across}]}
    label, config = Markup.escape(visible(title)), json.loads(_THEME.read_text(encoding="utf-8")) | {"font": _FONT}
    made = []
    for panel in panels:
        svg = vl_convert.vegalite_to_svg(json.dumps(shown(panel | sizing | {"config": config})))
        made.append(Markup(svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)))  # noqa: S704 - escaped
    return made


def inline(panels: Sequence[View], title: str) -> Markup:
    """A chart as a picture for a page without scripts; "" without vl-convert."""
    if not can_draw():
        return Markup("")
    svgs = to_svgs(panels, title)
    return svgs[0] if len(svgs) == 1 else Markup('<div class="panels">{}</div>').format(Markup("").join(svgs))


def as_file(svgs: Sequence[str]) -> str:
    """A chart as one SVG file, with fixed colours on white paper: two panels side by side, or one as wide as both."""
    across, top, parts = 1 if len(svgs) == 1 else 2, 0.0, list[str]()
    width = 0.0
    for row in (svgs[at : at + across] for at in range(0, len(svgs), across)):
        left, heights = 0.0, [0.0]
        for svg in row:
            size = _SIZE.search(svg)
            if size is None:
                raise ValueError(f"no picture of a size: {svg[:200]}")
            parts.append(str(svg).replace("<svg", f'<svg x="{left:g}" y="{top:g}"', 1))
            left += float(size[1]) + _BETWEEN
            heights.append(float(size[2]))
        width, top = max(width, left - _BETWEEN), top + max(heights)
    text = "".join(parts).replace("currentColor", "#1b1f27").replace("var(--paper, white)", "white")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{top:g}" viewBox="0 0 {width:g} {top:g}">'
    )
    return f'{head}<rect width="{width:g}" height="{top:g}" fill="white"/>{text}</svg>\n'


def to_png(svg: str) -> bytes:
    """An SVG file as PNG."""
    import vl_convert  # noqa: PLC0415 - an extra

    png: bytes = vl_convert.svg_to_png(svg, scale=_SCALE)
    return png
