"""A topology as a picture, in the style of all other charts."""

from __future__ import annotations

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from pytest_nfvperf.adapters.report.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILION,
    new_figure,
)
from pytest_nfvperf.adapters.report.topology_layout import (
    BEHIND,
    LINE,
    Box,
    Flow,
    Layout,
    Shape,
    Wire,
    lay_out,
)
from pytest_nfvperf.adapters.report.topology_nodes import Sort
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.topology_labels import directions_words

WIDTH = 10.4
"""Of every picture, so that letters are as large in all of them."""

_HEAD = 0.4
_FOOT = 0.3

_Style = Literal["-", "--"] | tuple[int, tuple[int, ...]]
"""Of a line: solid, dashed, or (offset, lengths) in points."""

_WIRES: dict[str, tuple[str, _Style]] = {
    "vhost-user": (BLUE, "-"),
    "physical": (INK, "-"),
    "veth": (ORANGE, "-"),
    "patch": (MUTED, "--"),
    "underlay": (INK, (0, (4, 1))),
    "internal": (GREEN, "-"),
    "tap": (PURPLE, "-"),
    "af_packet": (SKY, "-"),
    "af_xdp": (SKY, "--"),
    "vxlan": (VERMILION, "--"),
    "geneve": (VERMILION, "--"),
    "gre": (VERMILION, "--"),
    BEHIND: (GREEN, (0, (1, 1))),
}
_NAMES = {
    "patch": "patch ports",
    "veth": "veth pair",
    "internal": "internal port",
    "af_xdp": "AF_XDP",
    BEHIND: "shares the port",
}
_SORTS = {
    Sort.GENERATOR: BLUE,
    Sort.MONITOR: SKY,
    Sort.VNF: PURPLE,
    Sort.NAMESPACE: GREEN,
    Sort.ROUTER: ORANGE,
    Sort.TUNNEL: VERMILION,
}


def topology_chart(deployed: TopologyData) -> Figure:
    """Bridges in a row, VNFs and namespaces above, the generator below; lines inside a bridge are its flows."""
    layout = lay_out(deployed.topology, deployed.port_kinds)
    width, height = max(WIDTH, layout.width), layout.height + _HEAD + _FOOT
    figure = new_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(-_FOOT, layout.height + _HEAD)
    axes.set_axis_off()
    left = max(0.0, (width - layout.width) / 2)
    _Pen(axes, left).draw(deployed, layout)
    return figure


class _Pen:
    """Draws with all x moved by ``left``."""

    def __init__(self, axes: Axes, left: float) -> None:
        self._axes = axes
        self._left = left

    def draw(self, deployed: TopologyData, layout: Layout) -> None:
        """Everything, what is in front last."""
        self._title(deployed, layout)
        self._frame(deployed, layout)
        for box in layout.boxes:
            self._box(box)
        for flow in layout.flows:
            self._flow(flow)
        for wire in layout.wires:
            self._wire(wire)
        for box in layout.boxes:
            self._text(box)
        self._legend(layout)

    def _title(self, deployed: TopologyData, layout: Layout) -> None:
        top = layout.height + _HEAD - 0.08
        self._axes.text(0.05, top, deployed.topology.name, color=INK, fontsize=10.5, fontweight="bold", va="top")
        said = directions_words(deployed.topology)
        if said:
            right = self._axes.get_xlim()[1] - 0.05
            self._axes.text(right, top, said, color=INK, fontsize=8.5, va="top", ha="right")

    def _frame(self, deployed: TopologyData, layout: Layout) -> None:
        x, y, width, height = layout.dut
        self._axes.add_patch(_rounded((self._left + x, y, width, height), 0.08, edge=MUTED, dashes=(0, (3, 3))))
        self._axes.text(
            self._left + x + width + 0.08,
            y + height / 2,
            f"DUT\n{deployed.datapath}\ndatapath",
            color=MUTED,
            fontsize=8,
            va="center",
            linespacing=1.3,
        )

    def _box(self, box: Box) -> None:
        x, y = self._left + box.x - box.width / 2, box.y - box.height / 2
        edge = INK if box.shape is Shape.BRIDGE else _color(box)
        dashes: _Style = (0, (2, 2)) if box.shape is Shape.GHOST else "-"
        self._axes.add_patch(_rounded((x, y, box.width, box.height), 0.05, edge=edge, dashes=dashes, fill=PAPER))
        if box.shape is Shape.NODE:
            self._axes.add_patch(_rounded((x, y, box.width, box.height), 0.05, edge="none", fill=edge, alpha=0.13))

    def _text(self, box: Box) -> None:
        top = box.y + (len(box.lines) - 1) * LINE / 2
        for number, line in enumerate(box.lines):
            self._axes.text(
                self._left + box.x,
                top - number * LINE,
                line,
                color=INK if box.shape is not Shape.GHOST else MUTED,
                fontsize=(8.8 if number == 0 else 7.6),
                fontweight="bold" if number == 0 and box.shape is not Shape.GHOST else "normal",
                ha="center",
                va="center",
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.2} if box.shape is Shape.BRIDGE else None,
                zorder=6,
            )

    def _flow(self, flow: Flow) -> None:
        """From edge to edge by way of the middle: an arch where both ends are on one side."""
        (ax, ay), (bx, by), (_, middle) = flow.a, flow.b, flow.middle
        points = [(ax, ay), (ax, (ay + middle) / 2), (bx, (by + middle) / 2), (bx, by)]
        if ay == by:
            depth = ay + (middle - ay) * 0.8
            points = [(ax, ay), (ax, depth), (bx, depth), (bx, by)]
        self._curve(points, INK, "-", 1.0, alpha=0.75)

    def _wire(self, wire: Wire) -> None:
        color, style = _WIRES.get(wire.kind, (INK, "-"))
        (ax, ay), (bx, by) = wire.a, wire.b
        if wire.sag:
            low = min(ay, by) - wire.sag
            self._curve([(ax, ay), (ax, low), (bx, low), (bx, by)], color, style, 2.0)
        else:
            self._axes.plot([self._left + ax, self._left + bx], [ay, by], color=color, linestyle=style, linewidth=2.0)
        for x, y in (wire.a, wire.b):
            self._axes.plot([self._left + x], [y], marker="s", markersize=3.4, color=color, zorder=5)
        if wire.label:
            x, y = self._left + (ax + bx) / 2, (ay + by) / 2 + 0.06
            self._axes.text(x, y, wire.label, color=INK, fontsize=7.4, ha="center", va="bottom")

    def _curve(
        self, points: list[tuple[float, float]], color: str, style: _Style, width: float, alpha: float = 1.0
    ) -> None:
        moved = [(self._left + x, y) for x, y in points]
        path = Path(moved, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        self._axes.add_patch(
            PathPatch(path, fill=False, edgecolor=color, linestyle=style, linewidth=width, alpha=alpha, zorder=3)
        )

    def _legend(self, layout: Layout) -> None:
        """What the colours of lines mean, once each, and lines inside of bridges."""
        kinds = dict.fromkeys(wire.kind for wire in layout.wires)
        handles = [_handle(*_WIRES.get(kind, (INK, "-")), 2.0, _NAMES.get(kind, kind)) for kind in kinds]
        if layout.flows:
            handles.append(_handle(INK, "-", 1.0, "OpenFlow flow"))
        if handles:
            self._axes.legend(
                handles=handles,
                loc="lower center",
                ncols=len(handles),
                frameon=False,
                fontsize=8.5,
                labelcolor=INK,
                borderaxespad=0.0,
            )


def _color(box: Box) -> str:
    return MUTED if box.sort is None or box.shape is Shape.GHOST else _SORTS[box.sort]


def _handle(color: str, style: _Style, width: float, label: str) -> Line2D:
    return Line2D([], [], color=color, linestyle=style, linewidth=width, label=label)


def _rounded(
    rectangle: tuple[float, float, float, float],
    radius: float,
    *,
    edge: str,
    dashes: _Style = "-",
    fill: str = "none",
    alpha: float = 1.0,
) -> FancyBboxPatch:
    x, y, width, height = rectangle
    return FancyBboxPatch(
        (x + radius, y + radius),
        width - 2 * radius,
        height - 2 * radius,
        boxstyle=f"round,pad={radius},rounding_size={radius}",
        edgecolor=edge,
        facecolor=fill,
        linestyle=dashes,
        linewidth=1.2,
        alpha=alpha,
    )
