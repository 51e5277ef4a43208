"""A topology as a picture: the bridges in a row, VNFs and hosts above, the tester below.

First what is around the bridges, as boxes with text (``nodes_of``); then where all of it is, pure geometry in inches,
y upwards (``lay_out``); then the drawing (``topology_chart``). Of very many nodes a few are drawn, and one that says
how many more there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from pytest_nfvperf.adapters.report.chart import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, PURPLE, SKY, VERMILION
from pytest_nfvperf.adapters.report.picture import WIDTH, new_figure
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.topology_text import (
    Kinds,
    describe_directions,
    extras,
    kind_of,
    mirror_words,
    route_words,
)
from pytest_nfvperf.model.topology.links import BridgePort, LinkEnd
from pytest_nfvperf.model.topology.ports import HostNic, Namespace, Nic, Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

LETTER = 0.078
"""Width of a letter of a box's text, in inches, as all measures here."""
LINE = 0.165
"""Height of a line of text."""
BRIDGE_HEIGHT = 0.86
MARGIN = 0.2
DUT_LABEL = 0.95
"""Kept free at the right of the bridges, for the name of their datapath."""
_BETWEEN_NODES, _BETWEEN_ROWS, _TO_HOST = 0.16, 0.42, 0.22
_SPREAD = 0.16
"""Between links that join the same bridges."""
_HEAD, _FOOT = 0.4, 0.3

MOST_BRIDGES = 9
_MOST_NODES, _MOST_LINES = 6, 6
_KEPT = 3
"""Bridges that are drawn at each end if there are too many."""
_COPIES_WIDTH = 22
"""Letters in a line about copies."""

BEHIND = "behind"
"""The kind of a wire between a port and the host that shares it."""

Point = tuple[float, float]
_Style = Literal["-", "--"] | tuple[int, tuple[int, ...]]
"""Of a line: solid, dashed, or (offset, lengths) in points."""


class Sort(StrEnum):
    GENERATOR = "generator"
    MONITOR = "monitor"
    VNF = "VNF"
    NAMESPACE = "namespace"
    ROUTER = "router"
    TUNNEL = "tunnel"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One box. ``ends``: the ports that it is joined to, as (bridge, port); ``kinds``: what each of them is.

    ``behind``: who shares its port.
    """

    sort: Sort
    lines: tuple[str, ...]
    ends: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    is_ghost: bool = False
    behind: DrawnNode | None = None


def nodes_of(topology: Topology, kinds: Kinds) -> list[DrawnNode]:
    nodes = [*_generator(topology, kinds), *_vnfs(topology, kinds), *_namespaces(topology)]
    for tunnel in topology.tunnels:
        lines = (tunnel.port, f"{tunnel.kind} {tunnel.key}", f"to {tunnel.remote}", f"MTU {tunnel.mtu}")
        nodes.append(DrawnNode(Sort.TUNNEL, lines, ((tunnel.bridge, tunnel.port),), (str(tunnel.kind),)))
    copies = {mirror.output: f"copies: {mirror_words(mirror)}" for mirror in topology.mirrors}
    put_on = [[line for _, port in node.ends for line in wrap(copies.get(port, ""), _COPIES_WIDTH)] for node in nodes]
    return [replace(node, lines=(*node.lines, *lines)) for node, lines in zip(nodes, put_on, strict=True)]


def _generator(topology: Topology, kinds: Kinds) -> list[DrawnNode]:
    nodes = []
    for port in topology.ports:
        if port.role is PortRole.FORWARDER:
            continue
        sort = Sort.MONITOR if port.role is PortRole.MONITOR else Sort.GENERATOR
        behind: DrawnNode | None = None
        for one in topology.behind:  # at most one host shares the port
            if one.port == port.name:
                host = next(namespace for namespace in topology.namespaces if namespace.name == one.namespace)
                behind = DrawnNode(Sort.NAMESPACE, (host.name, str(Sort.NAMESPACE), *_details(host, [one])), (), ())
        lines, ends = (port.name, str(sort), *extras(port)), ((port.bridge, port.name),)
        nodes.append(DrawnNode(sort, lines, ends, (kind_of(port, kinds),), behind=behind))
    return nodes


def _vnfs(topology: Topology, kinds: Kinds) -> list[DrawnNode]:
    sides: dict[str, list[Port]] = {}
    for port in topology.ports:
        if port.role is PortRole.FORWARDER:
            sides.setdefault(port.owner, []).append(port)
    nodes = []
    for owner, ports in sides.items():
        said = dict.fromkeys(word for port in ports for word in extras(port))
        lines = (owner, f"VNF, {ports[0].vnf_mode}", *said)
        ends = tuple((port.bridge, port.name) for port in ports)
        nodes.append(DrawnNode(Sort.VNF, lines, ends, tuple(kind_of(port, kinds) for port in ports)))
    return nodes


def _namespaces(topology: Topology) -> list[DrawnNode]:
    nodes = []
    for namespace in topology.namespaces:
        nics = [nic for nic in topology.nics if nic.namespace == namespace.name]
        if not nics and any(one.namespace == namespace.name for one in topology.behind):
            continue  # it is drawn with the port that it is behind
        sort = Sort.ROUTER if namespace.routing else Sort.NAMESPACE
        ends = tuple((nic.bridge, nic.port) for nic in nics)
        lines = (namespace.name, str(sort), *_details(namespace, nics))
        nodes.append(DrawnNode(sort, lines, ends, tuple(str(nic.kind) for nic in nics)))
    return nodes


def _details(namespace: Namespace, nics: Sequence[Nic | HostNic]) -> list[str]:
    said = []
    for nic in nics:
        said += [f"{nic.name} {address}" for address in nic.addresses] or [nic.name]
        said += extras(nic)
    said += route_words(namespace)
    return said if len(said) <= _MOST_LINES else [*said[: _MOST_LINES - 1], f"… {len(said) - _MOST_LINES + 1} more"]


class Shape(StrEnum):
    BRIDGE = "bridge"
    NODE = "node"
    GHOST = "ghost"


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its centre and size. ``lines``: its text, the first one its name."""

    shape: Shape
    sort: Sort | None
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A line between two boxes. ``sag``: how far its middle hangs below the straight line."""

    kind: str
    a: Point
    b: Point
    sag: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """How frames cross a bridge, from edge to edge over its ``middle``."""

    a: Point
    b: Point
    middle: Point


@dataclass(slots=True)
class Layout:
    """What is to be drawn, in a picture of this size; ``dut`` is the frame around the bridges."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    dut: tuple[float, float, float, float] = (0, 0, 0, 0)


@dataclass(slots=True)
class _Column:
    """A bridge, or the ghost of those left out, with what is above and below it."""

    name: str
    is_ghost: bool
    above: list[DrawnNode] = field(default_factory=list)
    below: list[DrawnNode] = field(default_factory=list)
    x: float = 0.0
    width: float = 0.0


def lay_out(topology: Topology, kinds: Kinds) -> Layout:
    return _Placing(topology, kinds).layout()


class _Placing:
    def __init__(self, topology: Topology, kinds: Kinds) -> None:
        self._topology = topology
        self._columns = _columns(topology)
        self._by_name = {column.name: column for column in self._columns}
        self._spanning: list[DrawnNode] = []
        self._anchors: dict[BridgePort, Point] = {}
        self._roomy = len(self._columns) <= 5
        self._made = Layout()
        for node in nodes_of(topology, kinds):
            on = list(dict.fromkeys(bridge for bridge, _ in node.ends if bridge in self._by_name))
            if len(on) > 1 or not node.ends:  # above all bridges
                self._spanning.append(node)
            elif on:
                column = self._by_name[on[0]]
                (column.below if node.sort in {Sort.GENERATOR, Sort.TUNNEL} else column.above).append(node)
        for column in self._columns:
            column.above, column.below = _few(column.above), _few(column.below)
        # Kept free beside the nodes of a bridge, for wires to nodes on several bridges.
        self._aside = 0.2 if self._spanning else 0.0

    def layout(self) -> Layout:
        gap = 0.62 if self._roomy else 0.34
        x = MARGIN + 0.2
        for column in self._columns:
            nodes = max(_row_width(column.above), _row_width(column.below))
            words = max(map(len, self._lines(column))) * LETTER + 0.2
            column.width = max(nodes + 2 * self._aside, words, 0.72)
            column.x = x + column.width / 2
            x += column.width + gap
        self._made.width = x - gap + 0.2 + DUT_LABEL
        self._place_rows()
        self._place_wires()
        self._place_flows()
        return self._made

    def _lines(self, column: _Column) -> tuple[str, ...]:
        if column.is_ghost:
            return (column.name,)
        mirrors = self._topology.bridge_mirrors(column.name)
        copied = [f"copies in VLAN {m.output_vlan}" for m in mirrors if m.output_vlan is not None and self._roomy]
        if any(crossing.bridge == column.name for crossing in self._topology.crossings):
            return (column.name, *copied)
        return (column.name, *(["learns MACs"] if self._roomy else ["learns", "MACs"]), *copied)

    def _place_rows(self) -> None:
        lower = [node for column in self._columns for node in column.below]
        hosts = [0 if node.behind is None else _TO_HOST + node_height(node.behind) for node in lower]
        below = max((node_height(node) + host for node, host in zip(lower, hosts, strict=True)), default=0)
        above = max((node_height(node) for column in self._columns for node in column.above), default=0)
        bottom = MARGIN + (below + _BETWEEN_ROWS if below else 0.15)
        middle = bottom + BRIDGE_HEIGHT / 2
        top = bottom + BRIDGE_HEIGHT
        second = top + _BETWEEN_ROWS + (above + 0.2 if above else 0)
        for column in self._columns:
            shape = Shape.GHOST if column.is_ghost else Shape.BRIDGE
            self._made.boxes.append(
                Box(shape, None, self._lines(column), column.x, middle, column.width, BRIDGE_HEIGHT)
            )
            self._place_nodes(column, column.below, lambda height: bottom - _BETWEEN_ROWS - height / 2, bottom)
            self._place_nodes(column, column.above, lambda height: top + _BETWEEN_ROWS + height / 2, top)
        spanned = self._place_spanning(second, top)
        self._made.height = max(second if above else top + 0.3, spanned) + MARGIN
        first, last = self._columns[0], self._columns[-1]
        left, right = first.x - first.width / 2 - 0.16, last.x + last.width / 2 + 0.16
        self._made.dut = (left, bottom - 0.13, right - left, BRIDGE_HEIGHT + 0.26)

    def _place_nodes(
        self, column: _Column, nodes: Sequence[DrawnNode], centre: Callable[[float], float], edge: float
    ) -> None:
        """Side by side over the width of the bridge, with a wire from each to the bridge's edge."""
        wide = _row_width(nodes)
        room = column.width - 2 * self._aside
        free = (room - wide) / (len(nodes) - 1) if len(nodes) > 1 else 0
        x = column.x - (room if len(nodes) > 1 else wide) / 2
        for node in nodes:
            width, height = node_width(node), node_height(node)
            y = centre(height)
            self._made.boxes.append(_node_box(node, x + width / 2, y))
            facing = y - height / 2 if y > edge else y + height / 2
            step = width / (len(node.ends) + 1)
            for number, (bridge, port) in enumerate(node.ends, 1):
                at = x + step * number
                self._anchors[bridge, port] = (at, edge)
                self._made.wires.append(Wire(node.kinds[number - 1], (at, facing), (at, edge)))
            if node.behind is not None:
                middle, top = x + width / 2, y - height / 2 - _TO_HOST
                self._made.boxes.append(_node_box(node.behind, middle, top - node_height(node.behind) / 2))
                self._made.wires.append(Wire(BEHIND, (middle, top), (middle, y - height / 2)))
            x += width + _BETWEEN_NODES + free

    def _place_spanning(self, row: float, top: float) -> float:
        """Nodes on several bridges, in a row of their own over the middle of each one's; returns its upper edge."""
        upper, taken = 0.0, 0.0
        for node in self._spanning:
            on = [self._by_name[bridge] for bridge, _ in node.ends if bridge in self._by_name]
            width, height = node_width(node), node_height(node)
            wanted = sum(column.x for column in on) / len(on) if on else self._made.width - width / 2 - MARGIN
            x = max(wanted, taken + width / 2 + _BETWEEN_NODES)
            taken = x + width / 2
            y = row + height / 2
            upper = max(upper, y + height / 2)
            self._made.boxes.append(_node_box(node, x, y))
            self._made.width = max(self._made.width, taken + MARGIN)
            # A wire goes to the nearest corner of each bridge, past what is above it.
            count = len(node.ends)
            for number, (bridge, port) in enumerate(node.ends):
                column = self._by_name.get(bridge)
                if column is not None:
                    side = 1 if x >= column.x else -1
                    self._anchors[bridge, port] = (column.x + side * (column.width / 2 - 0.07), top)
                    start = (x + (number - (count - 1) / 2) * min(0.3, width / (count + 1)), row)
                    self._made.wires.append(Wire(node.kinds[number], start, self._anchors[bridge, port]))
        return upper

    def _place_wires(self) -> None:
        """Links between bridges: neighbours by a straight line, others by one that sags below those between."""
        between: dict[tuple[str, str], list[tuple[str, LinkEnd]]] = {}
        order = {column.name: number for number, column in enumerate(self._columns)}
        ghost = next((column.name for column in self._columns if column.is_ghost), None)
        for link in self._topology.links:
            for end in link.ends:
                left, right = (name if name in order else ghost for name in (end.bridge, end.far_bridge))
                if left is not None and right is not None and order[left] < order[right]:
                    between.setdefault((left, right), []).append((link.kind, end))
        for (left, right), ends in between.items():
            self._wire_between(self._by_name[left], self._by_name[right], ends, order[right] - order[left])

    def _wire_between(self, left: _Column, right: _Column, ends: Sequence[tuple[str, LinkEnd]], apart: int) -> None:
        middle = self._made.dut[1] + self._made.dut[3] / 2
        ends = ends if not (left.is_ghost or right.is_ghost) else ends[:1]
        for number, (kind, end) in enumerate(ends):
            y = middle + (number - (len(ends) - 1) / 2) * _SPREAD
            a, b = (left.x + left.width / 2, y), (right.x - right.width / 2, y)
            sag = 0.0
            if apart > 1:
                foot = self._made.dut[1] + 0.13
                a, b = (left.x + left.width / 2 - 0.07, foot), (right.x - right.width / 2 + 0.07, foot)
                sag = 0.3 + 0.05 * apart
            self._anchors[end.bridge, end.port], self._anchors[end.far_bridge, end.far_port] = a, b
            self._made.wires.append(Wire(kind, a, b, sag, kind if apart == 1 and self._roomy else ""))

    def _place_flows(self) -> None:
        """A pair of crossings once."""
        drawn: set[frozenset[BridgePort]] = set()
        for crossing in self._topology.crossings:
            ends = ((crossing.bridge, crossing.in_port), (crossing.bridge, crossing.out_port))
            column = self._by_name.get(crossing.bridge)
            if column is None or frozenset(ends) in drawn or not all(end in self._anchors for end in ends):
                continue
            drawn.add(frozenset(ends))
            y = self._made.dut[1] + self._made.dut[3] / 2
            a, b = (self._anchors[end] for end in ends)
            self._made.flows.append(Flow(a, b, ((a[0] + b[0]) / 2, y)))


def _columns(topology: Topology) -> list[_Column]:
    names = list(topology.bridges)
    if len(names) <= MOST_BRIDGES:
        return [_Column(name, is_ghost=False) for name in names]
    kept = [[_Column(name, is_ghost=False) for name in part] for part in (names[:_KEPT], names[-_KEPT:])]
    return [*kept[0], _Column(f"… {len(names) - 2 * _KEPT} bridges …", is_ghost=True), *kept[1]]


def _few(nodes: list[DrawnNode]) -> list[DrawnNode]:
    """All of them; of very many the first and the last, and a ghost between."""
    if len(nodes) <= _MOST_NODES:
        return nodes
    ghost = DrawnNode(nodes[0].sort, (f"… {len(nodes) - _MOST_NODES + 1} more …",), (), (), is_ghost=True)
    return [*nodes[: _MOST_NODES - 2], ghost, nodes[-1]]


def _row_width(nodes: Sequence[DrawnNode]) -> float:
    return sum(node_width(node) for node in nodes) + _BETWEEN_NODES * max(0, len(nodes) - 1)


def node_width(node: DrawnNode) -> float:
    """Of a box that holds its longest line, and is as wide as the one behind it."""
    own = max(0.5 + 0.22 * (len(node.ends) > 1), max(len(line) for line in node.lines) * LETTER + 0.16)
    return own if node.behind is None else max(own, node_width(node.behind))


def node_height(node: DrawnNode) -> float:
    return LINE * len(node.lines) + 0.14


def _node_box(node: DrawnNode, x: float, y: float) -> Box:
    shape = Shape.GHOST if node.is_ghost else Shape.NODE
    return Box(shape, node.sort, node.lines, x, y, node_width(node), node_height(node))


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
    from matplotlib.lines import Line2D  # noqa: PLC0415 - an extra

    layout = lay_out(deployed.topology, deployed.port_kinds)
    width, height = max(WIDTH, layout.width), layout.height + _HEAD + _FOOT
    figure = new_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    left = max(0.0, (width - layout.width) / 2)
    axes.set_xlim(-left, width - left)
    axes.set_ylim(-_FOOT, layout.height + _HEAD)
    axes.set_axis_off()
    top, (left, right) = layout.height + _HEAD - 0.08, axes.get_xlim()
    axes.text(left + 0.05, top, deployed.topology.name, color=INK, fontsize=10.5, fontweight="bold", va="top")
    directions = describe_directions(deployed.topology)
    if directions:
        axes.text(right - 0.05, top, directions, color=INK, fontsize=8.5, va="top", ha="right")
    x, y, dut_width, dut_height = layout.dut
    axes.add_patch(_rounded(layout.dut, 0.08, edge=MUTED, dashes=(0, (3, 3))))
    name = f"DUT\n{deployed.datapath}\ndatapath"
    axes.text(x + dut_width + 0.08, y + dut_height / 2, name, color=MUTED, fontsize=8, va="center", linespacing=1.3)
    # What is in front comes last.
    for box in layout.boxes:
        _draw_box(axes, box)
    for flow in layout.flows:
        _draw_flow(axes, flow)
    for wire in layout.wires:
        _draw_wire(axes, wire)
    for box in layout.boxes:
        _draw_text(axes, box)
    kinds = dict.fromkeys(wire.kind for wire in layout.wires)
    lines = [(*_WIRES.get(kind, (INK, "-")), 2.0, _NAMES.get(kind, kind)) for kind in kinds]
    lines += [(INK, "-", 1.0, "OpenFlow flow")] if layout.flows else []
    handles = [Line2D([], [], color=c, linestyle=style, linewidth=w, label=name) for c, style, w, name in lines]
    if handles:
        look: Any = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "borderaxespad": 0.0}
        axes.legend(handles=handles, loc="lower center", ncols=len(handles), **look)
    return figure


def _draw_box(axes: Axes, box: Box) -> None:
    x, y = box.x - box.width / 2, box.y - box.height / 2
    edge = INK if box.shape is Shape.BRIDGE else MUTED
    if box.sort is not None and box.shape is not Shape.GHOST:
        edge = _SORTS[box.sort]
    dashes: _Style = (0, (2, 2)) if box.shape is Shape.GHOST else "-"
    axes.add_patch(_rounded((x, y, box.width, box.height), 0.05, edge=edge, dashes=dashes, fill=PAPER))
    if box.shape is Shape.NODE:
        axes.add_patch(_rounded((x, y, box.width, box.height), 0.05, edge="none", fill=edge, alpha=0.13))


def _draw_text(axes: Axes, box: Box) -> None:
    top = box.y + (len(box.lines) - 1) * LINE / 2
    for number, line in enumerate(box.lines):
        axes.text(
            box.x,
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


def _draw_flow(axes: Axes, flow: Flow) -> None:
    """From edge to edge by way of the middle: an arch where both ends are on one side."""
    (ax, ay), (bx, by), (_, middle) = flow.a, flow.b, flow.middle
    points = [(ax, ay), (ax, (ay + middle) / 2), (bx, (by + middle) / 2), (bx, by)]
    if ay == by:
        depth = ay + (middle - ay) * 0.8
        points = [(ax, ay), (ax, depth), (bx, depth), (bx, by)]
    _draw_curve(axes, points, INK, "-", 1.0, alpha=0.75)


def _draw_wire(axes: Axes, wire: Wire) -> None:
    color, style = _WIRES.get(wire.kind, (INK, "-"))
    (ax, ay), (bx, by) = wire.a, wire.b
    if wire.sag:
        low = min(ay, by) - wire.sag
        _draw_curve(axes, [(ax, ay), (ax, low), (bx, low), (bx, by)], color, style, 2.0)
    else:
        axes.plot([ax, bx], [ay, by], color=color, linestyle=style, linewidth=2.0)
    for x, y in (wire.a, wire.b):
        axes.plot([x], [y], marker="s", markersize=3.4, color=color, zorder=5)
    if wire.label:
        x, y = (ax + bx) / 2, (ay + by) / 2 + 0.06
        axes.text(x, y, wire.label, color=INK, fontsize=7.4, ha="center", va="bottom")


def _draw_curve(
    axes: Axes, points: list[tuple[float, float]], color: str, style: _Style, width: float, alpha: float = 1.0
) -> None:
    from matplotlib.patches import PathPatch  # noqa: PLC0415 - an extra
    from matplotlib.path import Path  # noqa: PLC0415 - an extra

    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    axes.add_patch(
        PathPatch(path, fill=False, edgecolor=color, linestyle=style, linewidth=width, alpha=alpha, zorder=3)
    )


def _rounded(
    rectangle: tuple[float, float, float, float],
    radius: float,
    *,
    edge: str,
    dashes: _Style = "-",
    fill: str = "none",
    alpha: float = 1.0,
) -> FancyBboxPatch:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415 - an extra

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
