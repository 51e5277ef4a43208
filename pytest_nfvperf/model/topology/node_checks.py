"""What is wrong with a topology's nodes, underlays and overlays, said before anything is built."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pytest_nfvperf.model.topology.compute_nodes import NODE_NAME, node_of_bridge
from pytest_nfvperf.model.topology.links import Patch, Tunnel, TunnelKind, VethLink
from pytest_nfvperf.model.topology.nodes import PortRole
from pytest_nfvperf.model.topology.overlays import facing, overlays

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

_NAME = re.compile(NODE_NAME)
MOST_KEYS_OF_ONE = 1 << 16
"""OVS deals frames out to as many (ovs-actions(7), multipath)."""

_MOST_KEYS = {TunnelKind.VXLAN: 1 << 24, TunnelKind.GENEVE: 1 << 24, TunnelKind.GRE: 1 << 32}
"""RFC 7348, 8926: a VNI has 24 bits; RFC 2890: a key has 32."""


def wrong_nodes(topology: Topology) -> str | None:
    """What is wrong, and what to do; None where nothing is."""
    problem = _wrong_addresses(topology)
    if problem is not None:
        return problem
    if not topology.nodes:
        return "underlays join nodes, and it has none: put its parts on node(...)" if topology.underlays else None
    checks: tuple[Callable[[Topology], str | None], ...] = (
        _wrong_names,
        _misplaced_bridges,
        _torn_apart,
        _wrong_underlays,
        _wrong_tunnels,
        _too_large,
    )
    return next((problem for find in checks if (problem := find(topology)) is not None), None)


def _wrong_addresses(topology: Topology) -> str | None:
    for tunnel in topology.tunnels:
        try:
            ends = [ipaddress.ip_address(address) for address in (tunnel.local, tunnel.remote)]
        except ValueError as error:
            return f"tunnel {tunnel.port!r}: {error}"
        if ends[0].version != ends[1].version:
            return f"tunnel {tunnel.port!r}: {tunnel.local} and {tunnel.remote} must be both IPv4 or both IPv6"
        if ends[0] == ends[1]:
            return f"tunnel {tunnel.port!r} leads to its own address {tunnel.local}: it would be a loop"
        if not 0 <= tunnel.key < _MOST_KEYS[tunnel.kind]:
            return f"tunnel {tunnel.port!r}: {tunnel.kind} has no key {tunnel.key}: 0..{_MOST_KEYS[tunnel.kind] - 1}"
        if not 1 <= tunnel.keys <= min(MOST_KEYS_OF_ONE, _MOST_KEYS[tunnel.kind] - tunnel.key):
            return f"tunnel {tunnel.port!r} has 1..{MOST_KEYS_OF_ONE} keys of those that there are, not {tunnel.keys}"
    return None


def _wrong_names(topology: Topology) -> str | None:
    seen: set[str] = set()
    for node in topology.nodes:
        if not _NAME.fullmatch(node.name):
            return f"node {node.name!r}: a name has up to 12 small letters, digits and -, such as node1"
        if node.name in seen:
            return f"node {node.name!r} is used twice: give all parts of a node in one node(...)"
        seen.add(node.name)
    return None


def _misplaced_bridges(topology: Topology) -> str | None:
    placed: dict[str, str] = {}
    for node in topology.nodes:
        for bridge in node.bridges:
            if bridge not in topology.bridges:
                return f"unknown bridge {bridge!r} stands on node {node.name!r}"
            if bridge in placed:
                return f"bridge {bridge!r} stands on {placed[bridge]!r} and on {node.name!r}: choose one"
            placed[bridge] = node.name
    lost = next((bridge for bridge in topology.bridges if bridge not in placed), None)
    if lost is None:
        return None
    return f"bridge {lost!r} stands on no node: list it in one, such as node({topology.nodes[0].name!r}, {lost!r}, ...)"


def _torn_apart(topology: Topology) -> str | None:
    """What is one thing stands on one node."""
    at = node_of_bridge(topology)
    links: list[Patch | VethLink] = [*topology.patches, *topology.veths]
    for link in links:
        if at[link.bridge_a] != at[link.bridge_b]:
            return (
                f"{link.port_a!r} and {link.port_b!r} join bridges of two nodes: only an underlay does, such as "
                f"underlay({link.bridge_a!r}, {link.bridge_b!r})"
            )
    bridges = {port.name: port.bridge for port in topology.ports}
    interfaces = [
        *((f"namespace {nic.namespace!r}", at[nic.bridge]) for nic in topology.nics),
        *((f"namespace {one.namespace!r}", at[bridges[one.port]]) for one in topology.behind),
        *((f"VNF {p.owner!r}", at[p.bridge]) for p in topology.ports if p.role is PortRole.FORWARDER),
    ]
    return _on_two(interfaces)


def _on_two(places: Iterable[tuple[str, str]]) -> str | None:
    first: dict[str, str] = {}
    for what, node in places:
        if first.setdefault(what, node) != node:
            return f"{what} stands on nodes {first[what]!r} and {node!r}: choose one"
    return None


def _wrong_underlays(topology: Topology) -> str | None:
    at = node_of_bridge(topology)
    joined: dict[frozenset[str], str] = {}
    for link in topology.underlays:
        pair = frozenset({at[link.bridge_a], at[link.bridge_b]})
        if len(pair) == 1:
            return (
                f"underlay {link.port_a!r} - {link.port_b!r} joins bridges of one node, {at[link.bridge_a]!r}: use a "
                "patch or a veth"
            )
        if pair in joined:
            return f"underlays {joined[pair]!r} and {link.port_a!r} join the same two nodes: choose one"
        if link.line_rate_bps is not None and not 0 < link.line_rate_bps < float("inf"):
            return (
                f"underlay {link.port_a!r} - {link.port_b!r}: {link.line_rate_bps} is no line rate: write bit/s, such "
                "as 10e9"
            )
        joined[pair] = link.port_a
    return None


def _wrong_tunnels(topology: Topology) -> str | None:
    found = overlays(topology.nodes, topology.tunnels, topology.underlays)
    links = {port: one.underlay for one in found for port in (one.port_a, one.port_b)}
    at = node_of_bridge(topology)
    for tunnel in topology.tunnels:
        if tunnel.port not in links:
            return _why_no_end(topology, tunnel)
        link = links[tunnel.port]
        if tunnel.bridge in {link.bridge_a, link.bridge_b}:
            return (
                f"tunnel {tunnel.port!r} is on {tunnel.bridge!r}, where its underlay ends: what it sends would enter "
                "it again; put the tunnel on a bridge of its own"
            )
        if link.mtu < tunnel.underlay_mtu:
            return (
                f"tunnel {tunnel.port!r} counts on an underlay of MTU {tunnel.underlay_mtu}, and {link.port_a!r} - "
                f"{link.port_b!r} carries {link.mtu}: give both the same"
            )
        others = [one for one in topology.underlays if at[tunnel.bridge] in {at[one.bridge_a], at[one.bridge_b]}]
        if len(others) > 1:
            return f"node {at[tunnel.bridge]!r} has a tunnel and {len(others)} underlays: give it one"
    return None


def _why_no_end(topology: Topology, tunnel: Tunnel) -> str:
    what = f"tunnel {tunnel.port!r} ({tunnel.kind} {tunnel.keys_text} from {tunnel.local} to {tunnel.remote})"
    for other in facing(tunnel, topology.tunnels):
        if (other.kind, other.key, other.keys) != (tunnel.kind, tunnel.key, tunnel.keys):
            return (
                f"{what} meets {other.port!r}, which is {other.kind} {other.keys_text}: frames would be dropped there; "
                "give both ends the same kind and key (VNI)"
            )
        return f"{what} and its other end {other.port!r} are on nodes that no underlay joins: add underlay(...)"
    return (
        f"{what} has no other end: put tunnel(..., local={tunnel.remote!r}, remote={tunnel.local!r}) on a bridge of "
        "another node"
    )


def _too_large(topology: Topology) -> str | None:
    """A node's generator port must not send what no tunnel beside it carries."""
    for tunnel in topology.tunnels:
        for port in topology.ports:
            if port.bridge == tunnel.bridge and port.mtu > tunnel.mtu:
                needed = port.mtu + tunnel.underlay_mtu - tunnel.mtu
                return (
                    f"port {port.name!r} has MTU {port.mtu}, tunnel {tunnel.port!r} on its bridge carries "
                    f"{tunnel.mtu}: give the underlay MTU {needed} or more, or the port less"
                )
    return None
