"""What is around the bridges of a topology: generator ports, VNFs, namespaces, tunnels; as boxes with text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from textwrap import wrap

from pytest_nfvperf.model.testbed.topology_labels import Kinds, extras, kind_of, mirror_words, route_words
from pytest_nfvperf.model.topology.nodes import Behind, Namespace, Nic, Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology

_MOST_LINES = 6
_COPIES_WIDTH = 22


class Sort(StrEnum):
    """Who it is."""

    GENERATOR = "generator"
    MONITOR = "monitor"
    VNF = "VNF"
    NAMESPACE = "namespace"
    ROUTER = "router"
    TUNNEL = "tunnel"


@dataclass(frozen=True, slots=True)
class Node:
    """One box. ``ends``: the ports that it is joined to, as (bridge, port); ``kinds``: what each of them is.

    ``behind``: who shares its port.
    """

    sort: Sort
    lines: tuple[str, ...]
    ends: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    is_ghost: bool = False
    behind: Node | None = None


def nodes_of(topology: Topology, kinds: Kinds) -> list[Node]:
    """All of them, in the order of the topology."""
    nodes = [*_generator(topology, kinds), *_vnfs(topology, kinds), *_namespaces(topology), *_tunnels(topology)]
    copies = {mirror.output: f"copies: {mirror_words(mirror)}" for mirror in topology.mirrors}
    return [replace(node, lines=(*node.lines, *_copied_to(node, copies))) for node in nodes]


def _copied_to(node: Node, copies: Mapping[str | None, str]) -> list[str]:
    """What mirrors put on its ports."""
    return [line for _, port in node.ends for line in wrap(copies.get(port, ""), _COPIES_WIDTH)]


def _generator(topology: Topology, kinds: Kinds) -> list[Node]:
    nodes = []
    for port in topology.ports:
        if port.role is PortRole.FORWARDER:
            continue
        sort = Sort.MONITOR if port.role is PortRole.MONITOR else Sort.GENERATOR
        lines = (port.name, str(sort), *extras(port))
        ends = ((port.bridge, port.name),)
        nodes.append(Node(sort, lines, ends, (kind_of(port, kinds),), behind=_behind(topology, port)))
    return nodes


def _behind(topology: Topology, port: Port) -> Node | None:
    """The host that shares an endpoint's port: there is one at most."""
    for one in topology.behind:
        if one.port == port.name:
            host = next(namespace for namespace in topology.namespaces if namespace.name == one.namespace)
            return Node(Sort.NAMESPACE, (host.name, str(Sort.NAMESPACE), *_details(host, [one])), (), ())
    return None


def _vnfs(topology: Topology, kinds: Kinds) -> list[Node]:
    sides: dict[str, list[Port]] = {}
    for port in topology.ports:
        if port.role is PortRole.FORWARDER:
            sides.setdefault(port.owner, []).append(port)
    nodes = []
    for owner, ports in sides.items():
        said = dict.fromkeys(word for port in ports for word in extras(port))
        lines = (owner, f"VNF, {ports[0].vnf_mode}", *said)
        ends = tuple((port.bridge, port.name) for port in ports)
        nodes.append(Node(Sort.VNF, lines, ends, tuple(kind_of(port, kinds) for port in ports)))
    return nodes


def _namespaces(topology: Topology) -> list[Node]:
    nodes = []
    for namespace in topology.namespaces:
        nics = [nic for nic in topology.nics if nic.namespace == namespace.name]
        if not nics and any(one.namespace == namespace.name for one in topology.behind):
            continue  # it is drawn with the port that it is behind
        sort = Sort.ROUTER if namespace.routing else Sort.NAMESPACE
        ends = tuple((nic.bridge, nic.port) for nic in nics)
        lines = (namespace.name, str(sort), *_details(namespace, nics))
        nodes.append(Node(sort, lines, ends, tuple(str(nic.kind) for nic in nics)))
    return nodes


def _details(namespace: Namespace, nics: Sequence[Nic | Behind]) -> list[str]:
    said = [line for nic in nics for line in (*_addressed(nic), *extras(nic))]
    said += route_words(namespace)
    return said if len(said) <= _MOST_LINES else [*said[: _MOST_LINES - 1], f"… {len(said) - _MOST_LINES + 1} more"]


def _addressed(nic: Nic | Behind) -> list[str]:
    return [f"{nic.name} {address}" for address in nic.addresses] or [nic.name]


def _tunnels(topology: Topology) -> list[Node]:
    return [
        Node(
            Sort.TUNNEL,
            (tunnel.port, f"{tunnel.kind} {tunnel.key}", f"to {tunnel.remote}", f"MTU {tunnel.mtu}"),
            ((tunnel.bridge, tunnel.port),),
            (str(tunnel.kind),),
        )
        for tunnel in topology.tunnels
    ]
