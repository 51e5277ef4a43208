"""A topology drawn in text, for the terminal: as one line where frames take a single path, else bridge by bridge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from pytest_nfvperf.model.testbed.topology_labels import (
    Kinds,
    directions_words,
    extras,
    kind_of,
    mirror_words,
    namespace_words,
    nic_words,
    port_words,
    route_words,
    tunnel_words,
)
from pytest_nfvperf.model.topology.links import Link, link_ends
from pytest_nfvperf.model.topology.single_path import PathNode, elided, single_path
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge

WIDTH = 100
MOST_PORTS = 12
"""Of one bridge, and of notes; the rest is counted."""

_NO_KINDS: Kinds = {}


def topology_text(topology: Topology, *, datapath: str = "", kinds: Kinds = _NO_KINDS, width: int = WIDTH) -> str:
    """The drawing, without a newline at its end.

    Args:
        topology: what to draw.
        datapath: what it is built on; "" where that is not known.
        kinds: what its ports for generator and VNFs are, from ``port_kinds``.
        width: columns; a longer line is continued on the next.
    """
    head = " · ".join(text for text in (topology.name, datapath, directions_words(topology)) if text)
    path = single_path(topology)
    if path is None:
        body = [line for bridge in _shortened(topology.bridges, "bridges") for line in _bridge(topology, bridge, kinds)]
        body += _routes(topology)
    else:
        body = [*_wrapped(_pieces(elided(path, "… {} bridges …".format)), width - 2), *_notes(topology, kinds)]
    lines = [*_folded(head, width), *(f"  {part}" for line in body for part in _folded(line, width - 2))]
    return "\n".join(lines)


def _folded(line: str, width: int) -> list[str]:
    """The line on as many as it needs; what continues is indented, and the tree's trunk goes on beside it."""
    trunk = "│" if line.startswith("├") else " "
    return wrap(line, width, subsequent_indent=f"{trunk}     ", break_long_words=False, break_on_hyphens=False)


def _pieces(path: Iterable[PathNode]) -> list[str]:
    joints = {"": "", "port": "── ", "patch": "─patch─ ", "veth": "─veth─ ", "underlay": "═underlay═ "}
    return [joints[node.by] + node.name for node in path]


def _wrapped(pieces: Iterable[str], width: int) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"  {piece}" if lines else piece)
    return lines


def _notes(topology: Topology, kinds: Kinds) -> list[str]:
    """What the line does not say: kinds of ports, addresses, and what is not as usual."""
    said: dict[str, list[str]] = {}
    for port in topology.ports:
        said.setdefault(f"{kind_of(port, kinds)}, {port_words(topology, port)}", []).append(port.name)
    notes = [f"{', '.join(names)}: {text}" for text, names in said.items()]
    for namespace in topology.namespaces:
        nics = [nic for nic in topology.nics if nic.namespace == namespace.name]
        words = [f"{nic.kind}, {nic_words(nic)}" for nic in nics]
        notes.append("; ".join([f"{namespace_words(namespace)}: {'; '.join(words)}", *route_words(namespace)]))
    notes += [f"{link.port_a}: {', '.join(extras(link))}" for link in topology.veths if extras(link)]
    notes += [f"{tunnel.port}: {tunnel_words(tunnel)}" for tunnel in topology.tunnels]
    notes += [f"{node.name}: {', '.join(node.bridges)}" for node in topology.nodes]
    notes += [f"{one.bridge}: {one}" for one in topology.rules]
    notes += [f"{bridge}: {line}" for bridge in topology.bridges for line in _mirrors(topology, bridge)]
    return _shortened(notes, "more")


def _bridge(topology: Topology, bridge: str, kinds: Kinds) -> list[str]:
    if bridge not in topology.bridges:
        return [bridge]  # it says how many were left out
    crossed = any(crossing.bridge == bridge for crossing in topology.crossings)
    rows = _shortened(_rows(topology, bridge, kinds), "ports")
    marks = ["├─"] * (len(rows) - 1) + ["└─"] * bool(rows)
    below = [f"   {line}" for line in (*_flows(topology, bridge), *_mirrors(topology, bridge))]
    lines = [f"{mark} {row}" for mark, row in zip(marks, rows, strict=True)]
    node = node_of_bridge(topology).get(bridge)
    place = "" if node is None else f", on {node}"
    rules = "".join(f"; {one}" for one in topology.rules if one.bridge == bridge)
    return [f"{bridge}{place}" if crossed else f"{bridge}{place} (learns MAC addresses{rules})", *lines, *below]


def _rows(topology: Topology, bridge: str, kinds: Kinds) -> list[str]:
    """A bridge's ports with what is behind them, in columns."""
    cells = [
        (port.name, kind_of(port, kinds), port_words(topology, port))
        for port in topology.ports
        if port.bridge == bridge
    ]
    spaces = {namespace.name: namespace_words(namespace) for namespace in topology.namespaces}
    cells += [
        (nic.port, str(nic.kind), f"{spaces[nic.namespace]}, {nic_words(nic)}")
        for nic in topology.nics
        if nic.bridge == bridge
    ]
    cells += _link_cells(topology, bridge)
    cells += [(t.port, str(t.kind), tunnel_words(t)) for t in topology.tunnels if t.bridge == bridge]
    wide = [max((len(cell[column]) for cell in cells), default=0) for column in (0, 1)]
    return [f"{name:{wide[0]}}  {kind:{wide[1]}}  {what}".rstrip() for name, kind, what in cells]


def _link_cells(topology: Topology, bridge: str) -> list[tuple[str, str, str]]:
    links: list[tuple[str, Link, list[str]]] = [("patch", link, []) for link in topology.patches]
    links += [("veth", link, extras(link)) for link in topology.veths]
    links += [("underlay", link, extras(link)) for link in topology.underlays]
    return [
        (end.port, kind, ", ".join([f"to {end.far_bridge} {end.far_port}", *said]))
        for kind, link, said in links
        for end in link_ends(link)
        if end.bridge == bridge
    ]


def _flows(topology: Topology, bridge: str) -> list[str]:
    """``p0 <-> v1a`` for a pair of crossings, ``p0 -> m0`` for a single one, a line for all of a bridge."""
    crossed = [(c.in_port, c.out_port) for c in topology.crossings if c.bridge == bridge]
    pairs = {frozenset(pair): pair for pair in reversed(crossed)}  # the first of two that are each other's reverse
    arrows = [f"{a} {'<->' if (b, a) in crossed else '->'} {b}" for a, b in reversed(pairs.values())]
    return [", ".join(_shortened(arrows, "more"))] if arrows else []


def _mirrors(topology: Topology, bridge: str) -> list[str]:
    """``mirror all -> m0: every frame``, a line each."""
    return [
        f"mirror {mirror.name} -> {mirror.output or f'VLAN {mirror.output_vlan}'}: {mirror_words(mirror)}"
        for mirror in topology.bridge_mirrors(bridge)
    ]


def _routes(topology: Topology) -> list[str]:
    lines = [f"{namespace_words(n)}: {'; '.join(route_words(n))}" for n in topology.namespaces if n.routes]
    return _shortened(lines, "more")


def _shortened(lines: Sequence[str], what: str) -> list[str]:
    """All of them; of very many the first ones, and how many more there are."""
    if len(lines) <= MOST_PORTS:
        return list(lines)
    kept = MOST_PORTS - 2
    return [*lines[:kept], f"… {len(lines) - kept - 1} {what} …", lines[-1]]
