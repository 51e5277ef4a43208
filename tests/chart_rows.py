"""What a chart shows, read from its Vega-Lite description."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

Chart = Sequence[dict[str, Any]]


def layers(chart: Chart, panel: int = 0) -> Iterator[dict[str, Any]]:
    """Those of a panel, the ones behind first."""
    for group in chart[panel]["layer"]:
        yield from group["layer"]


def rows(chart: Chart, name: str, panel: int = 0) -> list[dict[str, Any]]:
    """The points of a series."""
    found = [row for group in chart[panel]["layer"] for row in group["data"]["values"]]
    return [row for row in found if row.get("series") == name]


def values(chart: Chart, name: str, panel: int = 0) -> tuple[list[Any], list[float]]:
    """Where they are."""
    of_it, field = rows(chart, name, panel), axis(chart, "y", panel)["field"]
    return [row["x"] for row in of_it], [row[field] for row in of_it]


def legend(chart: Chart, panel: int = 0) -> list[str]:
    """All names in the legends of a panel, each once."""
    found = [channel.get("legend") for layer in layers(chart, panel) for channel in layer["encoding"].values()]
    return list(dict.fromkeys(name for one in found if one for name in one["values"]))


def axis(chart: Chart, name: str, panel: int = 0) -> dict[str, Any]:
    """Of the group in front."""
    axis: dict[str, Any] = chart[panel]["layer"][-1]["encoding"][name]
    return axis


def charts_in(page: str) -> list[list[dict[str, Any]]]:
    """The panels of each chart of a page, by the number that its element has."""
    (packed,) = re.findall(r'<script type="text/plain" id="charts">(.*?)</script>', page)
    charts: list[list[dict[str, Any]]] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return charts
