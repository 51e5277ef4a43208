"""The path of frames through a topology that does not branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from pytest_nfvperf.model.topology.links import Link, link_ends
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology, all_ports

_End = tuple[str, str]
"""A port, as (bridge, port)."""


@dataclass(frozen=True, slots=True)
class PathNode:
    """One node of the path and how frames reach it: ``by`` is "" for the first, else patch, veth, underlay, or port."""

    by: str
    name: str
    is_bridge: bool


def single_path(topology: Topology) -> list[PathNode] | None:
    """All nodes from the first sender, or namespace, to the other end; None for a topology that branches."""
    start = _start(topology)
    if start is None:
        return None
    tracer = _PathTracer(topology)
    path = tracer.from_port(start)
    alone = {*topology.bridges, *(namespace.name for namespace in topology.namespaces)} - {node.name for node in path}
    return path if tracer.passed_all_once() and not alone else None


def _start(topology: Topology) -> _End | None:
    senders = [topology.port(direction.tx) for direction in topology.directions]
    endpoints = [port for port in topology.ports if port.role is PortRole.ENDPOINT]
    ends = [(port.bridge, port.name) for port in (*senders, *endpoints)]
    ends += [(nic.bridge, nic.port) for nic in topology.nics]
    return ends[0] if ends else None


class _PathTracer:
    def __init__(self, topology: Topology) -> None:
        self._ports = all_ports(topology)
        self._passed: list[_End] = []
        self._crossed = {crossing.bridge for crossing in topology.crossings}
        self._out = {(crossing.bridge, crossing.in_port): crossing.out_port for crossing in topology.crossings}
        self._on: dict[str, list[str]] = {}
        for bridge, port in self._ports:
            self._on.setdefault(bridge, []).append(port)
        self._names = _node_names(topology)
        self._through = _through(topology)
        self._links = _links(topology)

    def from_port(self, end: _End) -> list[PathNode]:
        """The nodes from a port on; the path ends where frames stay, or would loop."""
        path = [PathNode("", self._names[end], is_bridge=False)]
        here: _End | None = end
        by = "port"
        while here is not None and here not in self._passed:
            self._passed.append(here)
            path.append(PathNode(by, here[0], is_bridge=True))
            out = self._exit_of(here)
            if out is None or out in self._passed:
                break
            self._passed.append(out)
            if out in self._links:
                by, here = self._links[out]
                continue
            path.append(PathNode("port", self._names[out], is_bridge=False))
            by, here = "port", self._through.get(out)
        return path

    def _exit_of(self, end: _End) -> _End | None:
        """By the flow for frames of this port; without flows by the only other port."""
        bridge, port = end
        if bridge in self._crossed:
            return (bridge, self._out[end]) if end in self._out else None
        others = [other for other in self._on[bridge] if other != port]
        return (bridge, others[0]) if len(others) == 1 else None

    def passed_all_once(self) -> bool:
        """True when no port is left, and none was passed twice."""
        return sorted(self._passed) == sorted(self._ports)


def _node_names(topology: Topology) -> dict[_End, str]:
    """Who is at the far end of a port: the generator's port by its own name."""
    names = {
        (port.bridge, port.name): port.owner if port.role is PortRole.FORWARDER else port.name
        for port in topology.ports
    }
    names |= {(nic.bridge, nic.port): nic.namespace for nic in topology.nics}
    return names | {(tunnel.bridge, tunnel.port): tunnel.port for tunnel in topology.tunnels}


def _through(topology: Topology) -> dict[_End, _End]:
    """Where frames come out that went into a VNF, or a router of two interfaces."""
    ports = {port.name: port for port in topology.ports}
    through = {
        (port.bridge, port.name): (ports[port.peer].bridge, port.peer)
        for port in topology.ports
        if port.role is PortRole.FORWARDER and port.peer is not None
    }
    for namespace in topology.namespaces:
        ends = [(nic.bridge, nic.port) for nic in topology.nics if nic.namespace == namespace.name]
        if namespace.routing and len(ends) == 2:
            through |= {ends[0]: ends[1], ends[1]: ends[0]}
    return through


def _links(topology: Topology) -> dict[_End, tuple[str, _End]]:
    kinds: list[tuple[str, Link]] = [
        *(("patch", patch) for patch in topology.patches),
        *(("veth", veth) for veth in topology.veths),
        *(("underlay", underlay) for underlay in topology.underlays),
    ]
    return {
        (end.bridge, end.port): (kind, (end.far_bridge, end.far_port))
        for kind, link in kinds
        for end in link_ends(link)
    }


MOST_BRIDGES = 9
_KEPT = 3


def elided(path: Iterable[PathNode], others: Callable[[int], str]) -> list[PathNode]:
    """The path with at most MOST_BRIDGES bridges in a row: one node, named by ``others``, replaces the middle."""
    kept: list[PathNode] = []
    for is_bridge, run in groupby(path, key=lambda node: node.is_bridge):
        row = list(run)
        if is_bridge and len(row) > MOST_BRIDGES:
            middle = PathNode(row[_KEPT].by, others(len(row) - 2 * _KEPT), is_bridge=True)
            row = [*row[:_KEPT], middle, *row[-_KEPT:]]
        kept += row
    return kept
