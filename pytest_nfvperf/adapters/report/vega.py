"""Charts as Vega-Lite: the parts that all of them are made of.

A chart is a list of panels. A panel is a Vega-Lite view (https://vega.github.io/vega-lite/docs/), a plain dictionary:
altair's classes would check each against a schema, which takes longer than the rest of a report. ``page_parts`` shows
charts in a page, and makes files of them.

Rows of data have the keys ``series``, ``x`` and ``y`` (or those that the axes name), and may have ``low`` and ``high``
(the ends of an interval), ``label`` (beside the point), ``hover`` (its text in a browser), ``link`` (what a click leads
to), ``alone`` (no line leads there) and ``curve`` (a line of its own). Colours are Okabe and Ito's, which stay apart
under every common colour blindness, and are readable on light and dark paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072b2", "#d98c00", "#009e73", "#b45c91", "#3f9fd6", "#d55e00"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
MUTED = "#7d8590"

View = dict[str, Any]
Row = dict[str, Any]
Line = Literal["solid", "dash", "dot", ""]

_HEIGHT = 250
_LETTER = 5.4
"""Width of a letter of a legend, in pixels."""
_SHAPES = {
    "circle-open": "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0zM-.6,0a.6,.6 0 1,1 1.2,0a.6,.6 0 1,1 -1.2,0z",
    "x": "M-1,-.8l.2,-.2l.8,.8l.8,-.8l.2,.2l-.8,.8l.8,.8l-.2,.2l-.8,-.8l-.8,.8l-.2,-.2l.8,-.8z",
    "bar": "M-1.6,-.16h3.2v.32h-3.2z",
    "tick": "M-.14,-1h.28v2h-.28z",
    "solid": "M-1.8,-.16h3.6v.32h-3.6z",
    "dash": "M-1.8,-.16h1.4v.32h-1.4zM.4,-.16h1.4v.32h-1.4z",
    "dot": "M-1.8,-.16h.5v.32h-.5zM-.8,-.16h.5v.32h-.5zM.3,-.16h.5v.32h-.5zM1.3,-.16h.5v.32h-.5z",
}
"""Shapes that Vega has not: all are filled, so that one scale colours points, lines and the legend."""
_DASHES = {"solid": [], "dash": [6, 3], "dot": [2, 3], "": []}
_ZOOM = {"type": "interval", "zoom": "wheel![event.shiftKey]"}
_ZOOM["translate"] = "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!"
"""With Shift, so that wheel and finger scroll the page; a double-click shows everything again."""


_HOVER = {
    name: {"expr": "datum.hover || datum.series + ': ' + datum.y + ' at ' + datum.x"}
    for name in ("tooltip", "description")
}
_MOST_POINTS = 3_000
"""Of lines without symbols. More would keep a browser busy, and nobody can point at one of them."""


_ACROSS = "width && (containerSize()[0] || 435)"
"""Width of the place for a panel. That of its axes follows from it, and from what is beside and below them."""
_INDEPENDENT = ("fill", "stroke", "shape", "strokeDash", "strokeWidth", "size", "xOffset", "yOffset")
"""What each group of layers has a scale of its own for."""


class Look(NamedTuple):
    """How a series is drawn: ``symbol`` at its points, ``line`` through them; "" for none. ``size``: of the symbol."""

    colour: str
    symbol: str = ""
    line: Line = ""
    size: int = 50
    width: float = 1.8


LIMIT = Look(VERMILION, "bar", size=110)
"""A limit of the SLA, at one place."""


def number(
    field: str,
    title: str,
    *,
    log: bool = False,
    zero: bool = False,
    reach: tuple[float, float] | None = None,
    **axis: Any,
) -> View:
    """An axis of the numbers in a ``field`` of the rows.

    ``title``: with the unit. ``reach``: what it shows. ``axis``: properties of Vega-Lite's.
    """
    scale: View = {"type": "log"} if log else {"zero": zero}
    if reach:
        scale |= {"domain": list(reach), "nice": False}
    elif not zero and not log:
        scale["padding"] = 10  # in pixels, so that no mark lies on the edge
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"labelOverlap": True} | ({"values": [10.0**power for power in range(-3, 10)]} if log else {}) | axis,
    }


def names(field: Literal["x", "y"], title: str, shown: Sequence[str]) -> View:
    """An axis of names, in this order. Where they have too little room, those below a panel are turned."""
    axis: View = {"labelLimit": {"expr": "across * 0.4"}, "grid": False}
    if field == "x":
        turned = f"across - 70 < {len(shown) * (max(map(len, shown), default=0) + 2) * _LETTER:.0f}"
        looks = {"labelAngle": "-40 : 0", "labelAlign": "'right' : 'center'", "labelBaseline": "'middle' : 'top'"}
        axis = {"labelLimit": 130, "labelOverlap": "parity"}
        axis |= {name: {"expr": f"{turned} ? {either}"} for name, either in looks.items()}
    scale = {"type": "band", "domain": list(shown), "paddingInner": 0.6, "paddingOuter": 0.3}
    return {"field": field, "type": "nominal", "title": title or None, "sort": None, "scale": scale, "axis": axis}


def series(
    x: View, y: View, rows: Sequence[Row], looks: Mapping[str, Look], *, steps: bool = False, offset: str = ""
) -> View:
    """Lines, intervals, points and labels of several series, with a legend of those that have rows.

    ``steps``: lines go to the right first, then up. ``offset``: the key by which rows of one name stand side by side;
    intervals lie along the axis of numbers.
    """
    drawn = {row["series"] for row in rows}
    looks = {name: look for name, look in looks.items() if name in drawn}
    across, points = y["type"] == "nominal", [name for name, look in looks.items() if look.symbol]
    lines = [name for name, look in looks.items() if look.line]
    shared: View = {"x": x, "y": y}
    if any("curve" in row for row in rows):
        shared["detail"] = {"field": "curve"}
    if offset:
        order = None if offset == "series" else "ascending"
        shared["yOffset" if across else "xOffset"] = {"field": offset, "type": "nominal", "sort": order}
    stroke, fill = {"stroke": _colours(looks, listed=not points)}, {"fill": _colours(looks)}
    link: View = {"href": {"field": "link"}} if any(row.get("link") for row in rows) else {}
    intervals = any("low" in row for row in rows)
    layers: list[View] = []
    if intervals:
        along, axis = ("x", x) if across else ("y", y)
        ends = {along: axis | {"field": "low"}, f"{along}2": {"field": "high"}}
        layers.append(_layer({"type": "rule", "strokeWidth": 1.4}, stroke | ends, {"filter": "isValid(datum.low)"}))
    if lines:
        mark = {"type": "line", "interpolate": "step-after" if steps else "linear"}
        look_of = stroke | _line_looks(looks, listed=not points)
        layers.append(_layer(mark, look_of, _of(lines), {"filter": "!datum.alone"}))
    if points:
        kinds = [look.symbol or look.line for look in looks.values()]
        look_of = fill | {"shape": _scale(looks, [_SHAPES.get(kind, kind) for kind in kinds], listed=True)}
        look_of["size"] = _scale(looks, [look.size for look in looks.values()])
        layers.append(_layer({"type": "point", "filled": True, **_HOVER}, look_of | link, _of(points)))
    elif len(rows) <= _MOST_POINTS:  # what lines show where a reader points
        layers.append(_layer({"type": "point", **_HOVER}, link | {"opacity": {"value": 0}}))
    if any(row.get("label") for row in rows):
        label_offset = {"dx": 8, "dy": -7, "align": "left"} if intervals else {"dy": -9}
        layers.append(
            _layer({"type": "text", **label_offset}, fill | {"text": {"field": "label"}}, {"filter": "datum.label"})
        )
    return {"data": {"values": list(rows)}, "encoding": shared, "layer": layers}


def rules(axis: View, lines: Iterable[tuple[float, str, Look]]) -> View:
    """Lines across a panel: where ``axis`` has a value, the name for the legend, or "", and how it looks."""
    drawn = list(lines)
    looks = {name: look for _, name, look in drawn}
    rows = [{axis["field"]: at, "series": name} for at, name, _ in drawn]
    layer = _layer({"type": "rule"}, {"stroke": _colours(looks)} | _line_looks(looks))
    return {"data": {"values": rows}, "encoding": {axis["field"]: axis}, "layer": [layer]}


def bands(axis: View, areas: Iterable[tuple[float, float]], colour: str, name: str = "", opacity: float = 0.16) -> View:
    """Areas between two values of ``axis``, across a panel."""
    field = axis["field"]
    rows = [{field: start, "end": end, "series": name} for start, end in areas]
    shared = {field: axis, f"{field}2": {"field": "end"}, "opacity": {"value": opacity}}
    layer = _layer({"type": "rect"}, {"fill": _colours({name: Look(colour)})})
    return {"data": {"values": rows}, "encoding": shared, "layer": [layer]}


def bars(x: View, y: View, rows: Sequence[Row], colour: str) -> View:
    """From 0 to each value."""
    shared = {"x": x, "y": y, "opacity": {"value": 1}}
    return {
        "data": {"values": list(rows)},
        "encoding": shared,
        "layer": [_layer({"type": "bar", "fill": colour, **_HOVER}, {})],
    }


def panel(title: str, *groups: View, notes: Sequence[str] = (), height: int = _HEIGHT) -> View:
    """One pair of axes with groups of layers, the first one behind the others. Each group has a legend of its own.

    ``notes``: below the title. A click on a legend's entry shows its series alone.
    """
    shown = [group for group in groups if group["data"]["values"] or group is groups[-1]]
    for number, group in enumerate(shown):
        # ``legend``: of a channel; None for one that is not listed
        listed = [
            layer for layer in group["layer"] if any(channel.get("legend") for channel in layer["encoding"].values())
        ]
        if listed and "opacity" not in group["encoding"]:
            alone = {"name": f"alone{number}", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}
            listed[0]["params"] = [alone]
            shines = {"condition": {"param": alone["name"], "value": 1}, "value": 0.08}
            group["encoding"] = group["encoding"] | {"opacity": shines}
    front = shown[-1]
    if all(front["encoding"][axis]["type"] == "quantitative" for axis in ("x", "y")):
        front["layer"][0].setdefault("params", []).append({"name": "zoom", "select": _ZOOM, "bind": "scales"})
        for layer in (layer for group in shown for layer in group["layer"]):
            layer["mark"]["clip"] = {"expr": "length(data('zoom_store')) > 0"}  # else marks at an edge are cut
    heading = {"text": title, "subtitle": list(notes)} if notes else title
    resolve = {"scale": dict.fromkeys(_INDEPENDENT, "independent")}
    view = {"title": heading, "description": title, "height": height, "layer": shown, "resolve": resolve}
    return view | {"params": [{"name": "across", "expr": _ACROSS}]}


def _layer(mark: View, encoding: View, *transforms: View) -> View:
    return {"mark": mark, "encoding": encoding, "transform": list(transforms)}


def _of(names: Sequence[str]) -> View:
    """The rows of these series."""
    return {"filter": {"field": "series", "oneOf": list(names)}}


def _colours(looks: Mapping[str, Look], *, listed: bool = True) -> View:
    return _scale(looks, [look.colour for look in looks.values()], listed=listed)


def _line_looks(looks: Mapping[str, Look], *, listed: bool = True) -> View:
    dashes = _scale(looks, [_DASHES[look.line] for look in looks.values()], listed=listed)
    return {"strokeDash": dashes, "strokeWidth": _scale(looks, [look.width for look in looks.values()])}


def _scale(looks: Mapping[str, Look], values: Sequence[Any], *, listed: bool = False) -> View:
    """``listed``: in the legend, of as many entries side by side as have room; none for series without a name.

    What is not listed has one name more: Vega-Lite makes one legend of all scales that have the same names, or none.
    """
    named = [name for name in looks if name] if listed else []
    room = max(map(len, named), default=0) * _LETTER + 34
    legend = {"values": named, "columns": {"expr": f"max(1, floor((across - 45) / {room:.0f}))"}} if named else None
    more = 0 if listed else 1
    scale = {"domain": [*looks, *["(not listed)"] * more], "range": [*values, *values[:more]]}
    kind = "nominal" if listed else "ordinal"  # Vega-Lite warns of widths and sizes of what has no order
    return {"field": "series", "type": kind, "scale": scale, "legend": legend}
