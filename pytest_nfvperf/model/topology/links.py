"""What joins two bridges: patch ports, a veth pair, a tunnel, an underlay; and how frames cross a bridge."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_nfvperf.model.display import WordChoice
from pytest_nfvperf.model.topology.ports import AS_IT_IS, DEFAULT_MTU, Offloads, Vlan

NODE_NAME = "[a-z][a-z0-9-]{0,11}"
"""A regular expression. Names of directories and sockets begin with it, and those are short."""


BridgePort = tuple[str, str]
"""A port, as (bridge, port)."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Frames entering ``bridge`` by ``in_port`` leave it by ``out_port`` (an OpenFlow flow)."""

    bridge: str
    in_port: str
    out_port: str


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link: frames leave ``bridge`` by ``port`` and enter ``peer_bridge`` by ``peer_port``."""

    bridge: str
    port: str
    peer_bridge: str
    peer_port: str


@dataclass(frozen=True, slots=True)
class BridgeLink:
    """What joins two bridges so that frames pass from one to the other. ``kind``: the word for it in texts."""

    kind: ClassVar[str]
    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str

    @property
    def ends(self) -> tuple[LinkEnd, LinkEnd]:
        return (
            LinkEnd(self.bridge_a, self.port_a, self.bridge_b, self.port_b),
            LinkEnd(self.bridge_b, self.port_b, self.bridge_a, self.port_a),
        )


@dataclass(frozen=True, slots=True)
class Patch(BridgeLink):
    """A patch-port pair between two bridges, by the ports' names."""

    kind: ClassVar[str] = "patch"
    vlan: Vlan | None = None


@dataclass(frozen=True, slots=True)
class VethLink(BridgeLink):
    """A veth pair between two bridges, by the names of its ends, which the kernel limits to 15 bytes.

    ``mtu`` (bytes without Ethernet header and FCS) and ``offloads`` are those of both ends.
    """

    kind: ClassVar[str] = "veth"
    mtu: int = DEFAULT_MTU
    offloads: Offloads = AS_IT_IS
    vlan: Vlan | None = None


class TunnelKind(WordChoice):
    """Encapsulations, by OVS's names of interface types."""

    VXLAN = "vxlan"
    GENEVE = "geneve"
    GRE = "gre"


ENCAPSULATION_BYTES = {TunnelKind.VXLAN: 50, TunnelKind.GENEVE: 50, TunnelKind.GRE: 42}
"""What an encapsulation over IPv4 adds to the underlay's packet, inner Ethernet header included:
IP 20, UDP 8, VXLAN or Geneve (without options) 8, Ethernet 14; GRE with a key 8 in place of 16."""


def encapsulation_bytes(kind: TunnelKind, address: str) -> int:
    """What an encapsulation between such addresses adds to the underlay's packet, inner Ethernet header included."""
    # An IPv6 header has 40 bytes (RFC 8200), an IPv4 header 20.
    return ENCAPSULATION_BYTES[kind] + (20 if ipaddress.ip_address(address).version == 6 else 0)


@dataclass(frozen=True, slots=True)
class Underlay(BridgeLink):
    """The link between two nodes: its ends are ports of a bridge on each.

    ``mtu``: bytes without Ethernet header and FCS. ``line_rate_bps``: layer-1 bit/s each way; None: the testbed's.
    """

    kind: ClassVar[str] = "underlay"
    mtu: int = DEFAULT_MTU
    line_rate_bps: float | None = None


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A tunnel port of ``bridge``. The underlay is another bridge, or the host of the DUT.

    Attributes:
        local, remote: addresses of the tunnel's ends in the underlay, both IPv4 or both IPv6.
        key: VNI, or GRE key.
        keys: how many, from ``key`` on: each flow of frames is in one of them, as its addresses and ports choose.
        mtu: of what goes through the tunnel: bytes without Ethernet header and FCS.
        underlay_mtu: MTU between the tunnel's ends.
    """

    bridge: str
    port: str
    kind: TunnelKind
    local: str
    remote: str
    key: int = 0
    mtu: int = 1450
    underlay_mtu: int = DEFAULT_MTU
    keys: int = 1

    @property
    def keys_text(self) -> str:
        """``7``, or ``7..1006``."""
        return str(self.key) if self.keys == 1 else f"{self.key}..{self.key + self.keys - 1}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node, and the bridges that stand on it."""

    name: str
    bridges: tuple[str, ...]


# Tunnels from node to node.


@dataclass(frozen=True, slots=True)
class Overlay(BridgeLink):
    """Two tunnel ports that are each other's ends, and the underlay that carries what they encapsulate."""

    kind: ClassVar[str] = "tunnel"
    underlay: Underlay


def overlays(nodes: Sequence[Node], tunnels: Sequence[Tunnel], underlays: Sequence[Underlay]) -> list[Overlay]:
    """The tunnels whose both ends are there, with an underlay between their nodes; each pair once."""
    node_of = {bridge: node.name for node in nodes for bridge in node.bridges}
    pairs = []
    for number, tunnel in enumerate(tunnels):
        for other in tunnels[number + 1 :]:
            between = {node_of.get(tunnel.bridge, ""), node_of.get(other.bridge, "")}
            link = next(
                (link for link in underlays if {node_of[link.bridge_a], node_of[link.bridge_b]} == between), None
            )
            same_keys = (tunnel.kind, tunnel.key, tunnel.keys) == (other.kind, other.key, other.keys)
            if link is not None and same_keys and any(facing(tunnel, [other])):
                pairs.append(Overlay(tunnel.bridge, tunnel.port, other.bridge, other.port, link))
    return pairs


def facing(tunnel: Tunnel, tunnels: Iterable[Tunnel]) -> Iterator[Tunnel]:
    """Tunnels between the same two addresses, from the other side: each has the other's local address as its remote."""
    ends = [ipaddress.ip_address(text) for text in (tunnel.remote, tunnel.local)]
    for other in tunnels:
        if other is not tunnel and ends == [ipaddress.ip_address(text) for text in (other.local, other.remote)]:
            yield other


# Paths over linked bridges.


def shortest(start: str, goal: str, links: Iterable[BridgeLink]) -> list[LinkEnd] | None:
    """The path over the fewest links from one bridge to another: empty for the same bridge, None without a path."""
    leaving: dict[str, list[LinkEnd]] = {}
    for link in links:
        for end in link.ends:
            leaving.setdefault(end.bridge, []).append(end)
    came_by: dict[str, LinkEnd | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came_by:
        here = waiting.popleft()
        for end in leaving.get(here, ()):
            if end.peer_bridge not in came_by:
                came_by[end.peer_bridge] = end
                waiting.append(end.peer_bridge)
    if goal not in came_by:
        return None
    found: list[LinkEnd] = []
    while (last := came_by[goal]) is not None:
        found.append(last)
        goal = last.bridge
    return found[::-1]


def crossings_along(path: Sequence[LinkEnd], bridge: str, first: str, last: str) -> list[Crossing]:
    """Each bridge's crossings in both directions, from port ``first`` of ``bridge`` over the links to port ``last``."""
    bridges = [bridge, *(end.peer_bridge for end in path)]
    entries = [first, *(end.peer_port for end in path)]
    exits = [*(end.port for end in path), last]
    hops = zip(bridges, entries, exits, strict=True)
    return [crossing for name, a, b in hops for crossing in (Crossing(name, a, b), Crossing(name, b, a))]
