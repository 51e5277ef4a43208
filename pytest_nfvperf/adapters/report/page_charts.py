"""Charts on a page: the browser draws them, with Vega in the page, or in a file of a site.

gzip and base64 make Vega 0.4 MB instead of 0.9, and charts a third; the browser unpacks both (DecompressionStream) once
the page is shown. ``python -m tools.vega`` makes Vega's file.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from pytest_nfvperf.adapters.report.picture import as_file, shown, to_png, to_svgs
from pytest_nfvperf.adapters.report.templating import TEMPLATES
from pytest_nfvperf.adapters.report.vega import View

_LIBRARY = TEMPLATES / "vega.js.gz"
_ID = re.compile(r'<(?!g |path|clipPath|image)\w+[^>]* id="([^"]+)"')


class PageCharts:
    """The charts of a page, and the files that pictures of them have in ``charts/``."""

    def __init__(self) -> None:
        self._charts: dict[str, tuple[Sequence[View], str]] = {}
        self._drawings: dict[str, str] = {}
        self._shown: list[object] = []

    @property
    def any(self) -> bool:
        """True if the page needs Vega."""
        return bool(self._charts)

    def add(self, panels: Sequence[View], name: str, title: str) -> Markup:
        """A chart for charts.js. ``name``: of its file. ``title``: for screen readers."""
        self._charts[_file_name(name)] = (panels, title)
        self._shown.append(shown(list(panels)))
        made = Markup('<div class="chart" role="group" aria-label="{}" data-chart="{}"></div>')
        return made.format(title, len(self._shown) - 1)

    def data(self) -> Markup:
        """What ``add`` gave a number, packed for charts.js."""
        return packed(json.dumps(self._shown, separators=(",", ":")))

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
            files |= {name: as_file(to_svgs(panels, title)) for name, (panels, title) in self._charts.items()}
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
