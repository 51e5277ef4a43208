"""Pictures of charts, as SVG and PNG for Allure, documents and pages without scripts: by vl-convert, an extra.

Its first picture takes 0.4 s of CPU, each further one 0.04. So the end of a run makes none, ``nfvperf report`` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec

from markupsafe import Markup

from pytest_nfvperf.adapters.report.templating import TEMPLATES
from pytest_nfvperf.adapters.report.vega import View
from pytest_nfvperf.model.display import visible

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
    place = {"width": across, "autosize": {"type": "fit-x"}, "params": [{"name": "across", "value": across}]}
    label, config = Markup.escape(visible(title)), json.loads(_THEME.read_text(encoding="utf-8")) | {"font": _FONT}
    made = []
    for panel in panels:
        svg = vl_convert.vegalite_to_svg(json.dumps(shown(panel | place | {"config": config})))
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
