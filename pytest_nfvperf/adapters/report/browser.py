"""What a page carries for the browser: plotly.js (MIT licence, of the PyPI package plotly), our script, packed parts.

gzip and base64 make plotly.js 1.9 MB instead of 4.7. The browser unpacks it (DecompressionStream) at the first chart,
so a page is readable before. A browser that cannot, or must not run scripts, shows the drawn pictures.
"""

from __future__ import annotations

import base64
import functools
import gzip
import re

import plotly
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from pytest_nfvperf.adapters.report.templating import TEMPLATES

LIBRARY = f"plotly.js of plotly {plotly.__version__}, MIT licence"
_ID = re.compile(r'<(?!g |path|clipPath|image)\w+[^>]* id="([^"]+)"')


@functools.cache
def library() -> Markup:
    """plotly.js, packed."""
    return packed(get_plotlyjs())


@functools.cache
def script() -> Markup:
    """Our own script, to embed in the page."""
    return Markup((TEMPLATES / "report.js").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def packed(text: str) -> Markup:
    """A text for ``unpacked`` of the page's script; the same text gives the same letters."""
    return Markup(base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode())  # noqa: S704


def ids_in(html: str) -> str:
    """The ids that links lead to in a part of the page, with spaces between."""
    return " ".join(_ID.findall(html))
