"""A topology as a picture: the bridges in a row, VNFs and hosts above, the tester below.

First what is around the bridges, as boxes with text (``nodes_of``); then where all of it is, pure geometry in inches,
y upwards (``Layout``); then the drawing, as SVG (``topology_chart``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from textwrap import wrap
from typing import Literal

from markupsafe import Markup

from pytest_nfvperf.adapters.report.vega import BLUE, GREEN, MUTED, ORANGE, PURPLE, SKY, VERMILION
from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.topology_text import (
    Kinds,
    describe_directions,
    extras,
    kind_of,
    mirror_words,
    nic_words,
    route_words,
)
from pytest_nfvperf.model.topology.links import BridgePort
from pytest_nfvperf.model.topology.ports import Namespace, Nic, Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology

_INK, _PAPER = "currentColor", "var(--paper, white)"
"""Colours of the page around it."""
_INCH = 96
"""In pixels, the unit of the picture."""
_LEAST_WIDTH = 10.4
"""So that letters have the same size in all pictures."""
_LETTER, _LINE = 0.078, 0.165
"""Width of a letter of a box's text, and height of a line, in inches, as all measures here."""
_BRIDGE_HEIGHT, _MARGIN, _HEAD, _FOOT = 0.86, 0.2, 0.4, 0.3
_DUT_LABEL = 0.95
"""Kept free at the right of the bridges, for the name of their datapath."""
_BETWEEN_BRIDGES, _BETWEEN_NODES, _BETWEEN_ROWS = 0.62, 0.16, 0.42
_SPREAD = 0.16
"""Between links that join the same bridges."""
_WIDEST = 26.0
"""A wider picture cannot be read: it is not drawn, and the text has all."""
_MOST_LINES, _NOTE_LETTERS = 6, 22
"""Lines about a namespace's interfaces; letters in a line about copies, and about who shares a port."""

FLOW = "flow"
"""The kind of a line that shows how frames cross a bridge."""

Point = tuple[float, float]
_SOLID, _DASHED, _LONG_DASHES = "", "7 4", "10 3"


class Sort(StrEnum):
    GENERATOR = "generator"
    MONITOR = "monitor"
    VNF = "VNF"
    NAMESPACE = "namespace"
    ROUTER = "router"
    TUNNEL = "tunnel"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One box beside the bridges. ``ends``: the ports that it is joined to; ``kinds``: what each of them is."""

    sort: Sort
    lines: tuple[str, ...]
    ends: tuple[BridgePort, ...]
    kinds: tuple[str, ...]

    @property
    def width(self) -> float:
        return max(0.5 + 0.22 * (len(self.ends) > 1), max(map(len, self.lines)) * _LETTER + 0.16)

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + 0.14


def nodes_of(topology: Topology, kinds: Kinds) -> list[DrawnNode]:
    owned: dict[tuple[bool, str], list[Port]] = {}
    for port in topology.ports:
        forwards = port.role is PortRole.FORWARDER
        owned.setdefault((forwards, port.owner if forwards else port.name), []).append(port)
    nodes = [_of_ports(kinds, name, ports) for (_, name), ports in owned.items()]
    for namespace in topology.namespaces:
        nics = [nic for nic in topology.nics if nic.namespace == namespace.name]
        if nics or all(one.namespace != namespace.name for one in topology.behind):
            nodes.append(_of_namespace(namespace, nics))
    for tunnel in topology.tunnels:
        lines = (tunnel.port, f"{tunnel.kind} {tunnel.key}", f"to {tunnel.remote}", f"MTU {tunnel.mtu}")
        nodes.append(DrawnNode(Sort.TUNNEL, lines, ((tunnel.bridge, tunnel.port),), (str(tunnel.kind),)))
    notes = {mirror.output: f"copies: {mirror_words(mirror)}" for mirror in topology.mirrors}
    notes |= {one.port: f"behind it {one.namespace}: {nic_words(one)}" for one in topology.behind}
    put_on = [[line for _, port in node.ends for line in wrap(notes.get(port, ""), _NOTE_LETTERS)] for node in nodes]
    return [replace(node, lines=(*node.lines, *lines)) for node, lines in zip(nodes, put_on, strict=True)]


def _of_ports(kinds: Kinds, name: str, ports: Sequence[Port]) -> DrawnNode:
    """The generator's port, or the ports of a VNF."""
    roles = {PortRole.FORWARDER: Sort.VNF, PortRole.MONITOR: Sort.MONITOR}
    sort = roles.get(ports[0].role, Sort.GENERATOR)
    what = f"VNF, {ports[0].vnf_mode}" if sort is Sort.VNF else str(sort)
    lines = dict.fromkeys([name, what, *(word for port in ports for word in extras(port))])
    ends = tuple((port.bridge, port.name) for port in ports)
    return DrawnNode(sort, tuple(lines), ends, tuple(kind_of(port, kinds) for port in ports))


def _of_namespace(namespace: Namespace, nics: Sequence[Nic]) -> DrawnNode:
    said = []
    for nic in nics:
        said += [f"{nic.name} {address}" for address in nic.addresses] or [nic.name]
        said += extras(nic)
    said += route_words(namespace)
    if len(said) > _MOST_LINES:
        said = [*said[: _MOST_LINES - 1], f"… {len(said) - _MOST_LINES + 1} more"]
    sort = Sort.ROUTER if namespace.routing else Sort.NAMESPACE
    ends = tuple((nic.bridge, nic.port) for nic in nics)
    return DrawnNode(sort, (namespace.name, str(sort), *said), ends, tuple(str(nic.kind) for nic in nics))


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its centre and size. ``lines``: its text, the first one its name. ``sort``: None of a bridge."""

    sort: Sort | None
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """From the first point to the last: straight, or a curve by two points between. ``kind``: of the port, or FLOW."""

    kind: str
    points: tuple[Point, ...]
    label: str = ""


@dataclass(slots=True)
class _Column:
    """A bridge with what is above and below it."""

    lines: tuple[str, ...]
    above: list[DrawnNode] = field(default_factory=list)
    below: list[DrawnNode] = field(default_factory=list)
    x: float = 0.0
    width: float = 0.0


class Layout:
    """What is to be drawn, in a picture of this size; ``dut`` is the frame around the bridges."""

    def __init__(self, topology: Topology, kinds: Kinds) -> None:
        self._topology = topology
        self._columns = {bridge: _Column(_bridge_lines(topology, bridge)) for bridge in topology.bridges}
        self._spanning: list[DrawnNode] = []  # above several bridges, or on none
        self._anchors: dict[BridgePort, Point] = {}  # where a port is on the edge of its bridge
        self.width = self.height = 0.0
        self.boxes: list[Box] = []
        self.lines: list[DrawnLine] = []
        self.dut: tuple[float, float, float, float] = (0, 0, 0, 0)
        for node in nodes_of(topology, kinds):
            on = {bridge for bridge, _ in node.ends}
            if len(on) != 1:
                self._spanning.append(node)
            else:
                column = self._columns[on.pop()]
                (column.below if node.sort in {Sort.GENERATOR, Sort.TUNNEL} else column.above).append(node)
        self._place_boxes()
        self._place_links()
        self._place_flows()

    def _place_boxes(self) -> None:
        columns = [*self._columns.values()]
        aside = 0.2 if self._spanning else 0.0  # free beside the nodes of a bridge, for wires to nodes on several
        x = _MARGIN + 0.2
        for column in columns:
            nodes = max(_row_width(column.above), _row_width(column.below))
            column.width = max(nodes + 2 * aside, max(map(len, column.lines)) * _LETTER + 0.2, 0.72)
            column.x = x + column.width / 2
            x += column.width + _BETWEEN_BRIDGES
        self.width = x - _BETWEEN_BRIDGES + 0.2 + _DUT_LABEL
        below = max((node.height for column in columns for node in column.below), default=0)
        above = max((node.height for column in columns for node in column.above), default=0)
        bottom = _MARGIN + (below + _BETWEEN_ROWS if below else 0.15)
        top = bottom + _BRIDGE_HEIGHT
        for column in columns:
            middle = bottom + _BRIDGE_HEIGHT / 2
            self.boxes.append(Box(None, column.lines, column.x, middle, column.width, _BRIDGE_HEIGHT))
            self._arrange_nodes(column, column.below, bottom, -1, aside)
            self._arrange_nodes(column, column.above, top, 1, aside)
        row = top + _BETWEEN_ROWS + (above + 0.2 if above else 0)
        spanned = self._arrange_spanning(row, top)
        self.height = max(row if above else top + 0.3, spanned) + _MARGIN
        left, right = columns[0].x - columns[0].width / 2 - 0.16, columns[-1].x + columns[-1].width / 2 + 0.16
        self.dut = (left, bottom - 0.13, right - left, _BRIDGE_HEIGHT + 0.26)

    def _arrange_nodes(
        self, column: _Column, nodes: Sequence[DrawnNode], edge: float, side: Literal[-1, 1], aside: float
    ) -> None:
        """Side by side over the width of the bridge, with a wire from each to this edge. ``side``: 1 is above it."""
        wide, room = _row_width(nodes), column.width - 2 * aside
        free = (room - wide) / (len(nodes) - 1) if len(nodes) > 1 else 0
        x = column.x - (room if len(nodes) > 1 else wide) / 2
        for node in nodes:
            facing = edge + side * _BETWEEN_ROWS
            middle = x + node.width / 2, facing + side * node.height / 2
            self.boxes.append(Box(node.sort, node.lines, *middle, node.width, node.height))
            for number, (end, kind) in enumerate(zip(node.ends, node.kinds, strict=True), 1):
                at = x + node.width / (len(node.ends) + 1) * number
                self._anchors[end] = (at, edge)
                self.lines.append(DrawnLine(kind, ((at, facing), (at, edge))))
            x += node.width + _BETWEEN_NODES + free

    def _arrange_spanning(self, row: float, top: float) -> float:
        """Nodes on several bridges, in a row of their own over the middle of each one's; returns its upper edge."""
        upper = right = 0.0
        for node in self._spanning:
            on = [self._columns[bridge].x for bridge, _ in node.ends]
            wanted = sum(on) / len(on) if on else self.width - node.width / 2 - _MARGIN
            x = max(wanted, right + node.width / 2 + _BETWEEN_NODES)
            right, upper = x + node.width / 2, max(upper, row + node.height)
            self.boxes.append(Box(node.sort, node.lines, x, row + node.height / 2, node.width, node.height))
            self.width = max(self.width, right + _MARGIN)
            # A wire goes to the nearest corner of each bridge, past what is above it.
            count = len(node.ends)
            for number, (end, kind) in enumerate(zip(node.ends, node.kinds, strict=True)):
                column = self._columns[end[0]]
                side = 1 if x >= column.x else -1
                self._anchors[end] = (column.x + side * (column.width / 2 - 0.07), top)
                start = (x + (number - (count - 1) / 2) * min(0.3, node.width / (count + 1)), row)
                self.lines.append(DrawnLine(kind, (start, self._anchors[end])))
        return upper

    def _place_links(self) -> None:
        """Links between bridges: neighbours by a straight line, others by one that sags below those between."""
        order = {name: number for number, name in enumerate(self._columns)}
        ends = [(link.kind, end) for link in self._topology.links for end in link.ends]
        ends = [(kind, end) for kind, end in ends if order[end.bridge] < order[end.peer_bridge]]
        links, drawn = Counter((end.bridge, end.peer_bridge) for _, end in ends), Counter[tuple[str, str]]()
        for kind, end in ends:
            pair = (end.bridge, end.peer_bridge)
            left, right = (self._columns[name] for name in pair)
            rows_between = order[pair[1]] - order[pair[0]]
            y = self.dut[1] + self.dut[3] / 2 + (drawn[pair] - (links[pair] - 1) / 2) * _SPREAD
            drawn[pair] += 1
            a, b = (left.x + left.width / 2, y), (right.x - right.width / 2, y)
            line = DrawnLine(kind, (a, b), kind)
            if rows_between > 1:
                foot = self.dut[1] + 0.13
                a, b = (a[0] - 0.07, foot), (b[0] + 0.07, foot)
                low = foot - 0.3 - 0.05 * rows_between
                line = DrawnLine(kind, (a, (a[0], low), (b[0], low), b))
            self._anchors[end.bridge, end.port], self._anchors[end.peer_bridge, end.peer_port] = a, b
            self.lines.append(line)

    def _place_flows(self) -> None:
        """A pair of crossings once, by way of the bridge's middle: an arch where both ends are on one side."""
        drawn: set[frozenset[BridgePort]] = set()
        for crossing in self._topology.crossings:
            ends = ((crossing.bridge, crossing.in_port), (crossing.bridge, crossing.out_port))
            if frozenset(ends) in drawn:
                continue
            drawn.add(frozenset(ends))
            (ax, ay), (bx, by) = (self._anchors[end] for end in ends)
            middle = self.dut[1] + self.dut[3] / 2
            turns = [ay + (middle - ay) * 0.8] * 2 if ay == by else [(ay + middle) / 2, (by + middle) / 2]
            self.lines.append(DrawnLine(FLOW, ((ax, ay), (ax, turns[0]), (bx, turns[1]), (bx, by))))


def _bridge_lines(topology: Topology, bridge: str) -> tuple[str, ...]:
    crossed = any(crossing.bridge == bridge for crossing in topology.crossings)
    copied = [f"copies in VLAN {m.output_vlan}" for m in topology.bridge_mirrors(bridge) if m.output_vlan is not None]
    return (bridge, *([] if crossed else ["learns MACs"]), *copied)


def _row_width(nodes: Sequence[DrawnNode]) -> float:
    return sum(node.width for node in nodes) + _BETWEEN_NODES * max(0, len(nodes) - 1)


_LINES: dict[str, tuple[str, str, float, str]] = {
    FLOW: (_INK, _SOLID, 1.3, "OpenFlow flow"),
    "vhost-user": (BLUE, _SOLID, 2.6, ""),
    "physical": (_INK, _SOLID, 2.6, ""),
    "veth": (ORANGE, _SOLID, 2.6, "veth pair"),
    "patch": (MUTED, _DASHED, 2.6, "patch ports"),
    "underlay": (_INK, _LONG_DASHES, 2.6, ""),
    "internal": (GREEN, _SOLID, 2.6, "internal port"),
    "tap": (PURPLE, _SOLID, 2.6, ""),
    "af_packet": (SKY, _SOLID, 2.6, ""),
    "af_xdp": (SKY, _DASHED, 2.6, "AF_XDP"),
    "vxlan": (VERMILION, _DASHED, 2.6, ""),
    "geneve": (VERMILION, _DASHED, 2.6, ""),
    "gre": (VERMILION, _DASHED, 2.6, ""),
}
"""Colour, dashes, width in pixels, and name where it is not the kind."""
_OTHER = (_INK, _SOLID, 2.6, "")
_SORTS = {
    Sort.GENERATOR: BLUE,
    Sort.MONITOR: SKY,
    Sort.VNF: PURPLE,
    Sort.NAMESPACE: GREEN,
    Sort.ROUTER: ORANGE,
    Sort.TUNNEL: VERMILION,
}


def topology_chart(deployed: TopologyData, title: str) -> Markup:
    """Bridges in a row, VNFs and namespaces above, the generator below, as an ``<svg>`` element for a page.

    "" where that is too wide to be read. ``title``: for screen readers.
    """
    layout = Layout(deployed.topology, deployed.port_kinds)
    if layout.width > _WIDEST:
        return Markup("")
    width, height = max(_LEAST_WIDTH, layout.width), layout.height + _HEAD + _FOOT
    left, top = (width - layout.width) / 2, layout.height + _HEAD - 0.17
    x, y, dut_width, dut_height = layout.dut
    middle = x + dut_width / 2, y + dut_height / 2
    parts = [_rectangle(middle, (dut_width, dut_height), rx=8, stroke=MUTED, stroke_dasharray="4 4")]
    parts += [
        _text(line, (x + dut_width + 0.08, middle[1] + 0.15 * (1 - at)), 10.7, MUTED, text_anchor="start")
        for at, line in enumerate(("DUT", deployed.datapath, "datapath"))
    ]
    for box in layout.boxes:  # what is in front comes last
        edge = _INK if box.sort is None else _SORTS[box.sort]
        position = ((box.x, box.y), (box.width, box.height))
        parts.append(_rectangle(*position, rx=5, fill=_PAPER, stroke=edge))
        if box.sort is not None:
            parts.append(_rectangle(*position, rx=5, fill=edge, fill_opacity=0.13))
    parts += [_line(line) for line in sorted(layout.lines, key=lambda line: line.kind != FLOW)]
    parts += [_box_text(box) for box in layout.boxes]
    parts.append(_text(deployed.topology.name, (0.05 - left, top), 14, font_weight="bold", text_anchor="start"))
    right = (width - left - 0.05, top)
    parts.append(_text(describe_directions(deployed.topology), right, 11.3, text_anchor="end"))
    parts += _legend(layout, layout.width / 2)
    view = f"{-left * _INCH:.0f} {-(layout.height + _HEAD) * _INCH:.0f} {width * _INCH:.0f} {height * _INCH:.0f}"
    start = Markup(
        '<svg role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg" width="{:.0f}" height="{:.0f}" '
        'viewBox="{}" fill="none" stroke="none" stroke-width="1.6" paint-order="stroke" text-anchor="middle" '
        'font-family="Liberation Sans, sans-serif">'
    ).format(visible(title), width * _INCH, height * _INCH, view)
    return start + Markup("").join(parts) + Markup("</svg>")


def _element(name: str, text: str = "", /, **attributes: object) -> Markup:
    """``attributes``: with "_" in place of "-". What is "" is left out: SVG's default, or that of the picture."""
    said = Markup("").join(
        Markup(' {}="{}"').format(key.replace("_", "-"), value) for key, value in attributes.items() if value != ""
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, said, text)


def _at(x: float, y: float) -> str:
    """A point in the picture, whose y goes downwards."""
    return f"{x * _INCH:.1f} {-y * _INCH:.1f}"


def _rectangle(middle: Point, size: Point, /, **look: object) -> Markup:
    x, y = _at(middle[0] - size[0] / 2, middle[1] + size[1] / 2).split()
    width, height = (f"{inches * _INCH:.1f}" for inches in size)
    return _element("rect", x=x, y=y, width=width, height=height, **look)


def _text(text: str, position: Point, size: float, colour: str = _INK, /, **look: object) -> Markup:
    """``position``: its middle, or the end that ``text_anchor`` names."""
    x, y = _at(*position).split()
    return _element("text", visible(text), x=x, y=y, dy=".35em", font_size=size, fill=colour, **look)


def _box_text(box: Box) -> Markup:
    top = box.y + (len(box.lines) - 1) * _LINE / 2
    around = {"stroke": _PAPER, "stroke_width": 3} if box.sort is None else {}
    texts = [
        _text(line, (box.x, top - at * _LINE), 10.1 if at else 11.7, font_weight="" if at else "bold", **around)
        for at, line in enumerate(box.lines)
    ]
    return Markup("").join(texts)


def _line(line: DrawnLine) -> Markup:
    colour, dashes, width, _ = _LINES.get(line.kind, _OTHER)
    first, *others = (_at(*point) for point in line.points)
    path = f"M{first}{'L' if len(others) == 1 else 'C'}{' '.join(others)}"
    opacity = 0.75 if line.kind == FLOW else ""
    made = _element("path", d=path, stroke_opacity=opacity, stroke=colour, stroke_width=width, stroke_dasharray=dashes)
    (ax, ay), (bx, by) = line.points[0], line.points[-1]
    if line.kind != FLOW:
        made += _rectangle((ax, ay), (0.05, 0.05), fill=colour, stroke=colour)
        made += _rectangle((bx, by), (0.05, 0.05), fill=colour, stroke=colour)
    if line.label:
        made += _text(line.label, ((ax + bx) / 2, (ay + by) / 2 + 0.12), 9.9)
    return made


def _legend(layout: Layout, middle: float) -> list[Markup]:
    """The kinds of lines, in a row at the foot."""
    entries = [
        (kind, _LINES.get(kind, _OTHER)[3] or kind) for kind in dict.fromkeys(line.kind for line in layout.lines)
    ]
    widths = [0.75 + len(name) * _LETTER for _, name in entries]
    x, parts = middle - sum(widths) / 2, list[Markup]()
    for (kind, name), width in zip(entries, widths, strict=True):
        parts.append(_line(DrawnLine(kind, ((x, -0.15), (x + 0.35, -0.15)))))
        parts.append(_text(name, (x + 0.43, -0.15), 11.3, text_anchor="start"))
        x += width
    return parts
