"""Tunnels from node to node: which end belongs to which, and what underlay carries them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.topology.compute_nodes import Node
from pytest_nfvperf.model.topology.links import Tunnel, Underlay


@dataclass(frozen=True, slots=True)
class Overlay:
    """Two tunnel ports that are each other's ends, and the underlay that carries what they encapsulate."""

    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str
    underlay: Underlay


def overlays(nodes: Sequence[Node], tunnels: Sequence[Tunnel], underlays: Sequence[Underlay]) -> list[Overlay]:
    """The tunnels whose both ends are there, with an underlay between their nodes; each pair once."""
    at = {bridge: node.name for node in nodes for bridge in node.bridges}
    found = []
    for number, tunnel in enumerate(tunnels):
        for other in tunnels[number + 1 :]:
            between = {at.get(tunnel.bridge, ""), at.get(other.bridge, "")}
            link = next((link for link in underlays if {at[link.bridge_a], at[link.bridge_b]} == between), None)
            if link is not None and are_ends(tunnel, other):
                found.append(Overlay(tunnel.bridge, tunnel.port, other.bridge, other.port, link))
    return found


def are_ends(one: Tunnel, other: Tunnel) -> bool:
    """True where what one sends is what the other takes."""
    return (one.kind, one.key, one.keys) == (other.kind, other.key, other.keys) and face_each_other(one, other)


def face_each_other(one: Tunnel, other: Tunnel) -> bool:
    """True where each has the other's local address as its remote one."""
    addresses = [ipaddress.ip_address(text) for text in (one.local, one.remote, other.remote, other.local)]
    return addresses[:2] == addresses[2:]


def facing(tunnel: Tunnel, tunnels: Sequence[Tunnel]) -> Iterator[Tunnel]:
    """Tunnels between the same two addresses, from the other side."""
    return (other for other in tunnels if other is not tunnel and face_each_other(tunnel, other))
