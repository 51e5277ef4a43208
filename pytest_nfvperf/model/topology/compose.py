"""The topologies that the suites share, as data.

Names are the field's (VSPERF, CSIT): *phy2phy* is port - bridge - port, *pvp* passes one
VNF, *pvvp* two. On the embedded testbed "phy" is the generator's vhost-user port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar

from pytest_nfvperf.model.arguments import CHECKED_LATER, IpVersion, Mtu, Name, checked, whole, word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import BridgeRules, Mirror
from pytest_nfvperf.model.topology.connections import Connections
from pytest_nfvperf.model.topology.limiters import Limiter
from pytest_nfvperf.model.topology.links import (
    BridgeLink,
    BridgePort,
    Crossing,
    Node,
    Overlay,
    Patch,
    Tunnel,
    Underlay,
    VethLink,
    crossings_along,
    overlays,
    shortest,
)
from pytest_nfvperf.model.topology.parts import MAC_TO_FILL, Path, endpoint, nic, path
from pytest_nfvperf.model.topology.ports import AS_IT_IS, HostNic, Namespace, Nic, Offloads, Port, PortRole, VnfMode
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

BRIDGE = "br0"

CHAIN_NETWORK = "198.18.0"
"""Addresses of the namespaces at a chain's ends: RFC 2544, appendix C.2.2, keeps them for benchmarks."""
CHAIN_NETWORK_6 = "2001:2:"
"""The prefix for benchmarks, RFC 5180."""
_CHAIN_ADDRESSES = {4: f"{CHAIN_NETWORK}.%d/24", 6: f"{CHAIN_NETWORK_6}:%d/64"}
"""Of the namespaces, by IP version and number of the end."""


def generator_mac(port: int) -> str:
    """MAC of the generator's port with this number, counted from 0."""
    # VNFs have 02:4e:46:00:VNF:SIDE with VNF from 1
    number = 0x10 + port if port < 0xF0 else 0x10000 + port
    return "02:4e:46:" + number.to_bytes(3, "big").hex(":")


def vnf_mac(vnf: int, side: int) -> str:
    """MAC of side 0 or 1 of the VNF with this number, counted from 1."""
    return f"02:4e:46:00:{vnf:02x}:{side:02x}"


_BOTH_DIRECTIONS = (Direction("p0", "p1"), Direction("p1", "p0"))


@checked()
def phy2phy(*, bidirectional: bool = True, mtu: Mtu = 1500) -> Topology:
    """Port - bridge - port: the shortest path through the datapath."""
    return vnf_chain(0, bidirectional=bidirectional, mtu=mtu)


@checked()
def pvp(*, bidirectional: bool = True, mtu: Mtu = 1500) -> Topology:
    """Port - bridge - VNF - bridge - port, all on one bridge."""
    return vnf_chain(1, bidirectional=bidirectional, mtu=mtu)


@checked()
def pvvp(*, bidirectional: bool = True, mtu: Mtu = 1500) -> Topology:
    """As pvp, through two VNFs one after the other."""
    return vnf_chain(2, bidirectional=bidirectional, mtu=mtu)


@checked()
def vnf_chain(vnfs: Annotated[int, whole(0, 100)], *, bidirectional: bool = True, mtu: Mtu = 1500) -> Topology:
    """A bridge that frames cross ``vnfs`` + 1 times, through so many VNFs in turn.

    VNFs forward as testpmd's io mode does, so the frames' MACs stay those of the generator.
    ``mtu``: bytes without Ethernet header and FCS.
    """
    forwarders = [
        Port(f"v{n}{own}", BRIDGE, PortRole.FORWARDER, vnf_mac(n, side), f"vnf{n}", f"v{n}{peer}", VnfMode.IO, mtu=mtu)
        for n in range(1, vnfs + 1)
        for side, (own, peer) in enumerate((("a", "b"), ("b", "a")))
    ]
    return compose(
        {0: "phy2phy", 1: "pvp", 2: "pvvp"}.get(vnfs, f"pv{vnfs}p"),
        *(endpoint(name, BRIDGE, mtu=mtu) for name in ("p0", "p1")),
        *forwarders,
        path("p0", *(f"vnf{n}" for n in range(1, vnfs + 1)), "p1"),
        *_BOTH_DIRECTIONS[: 1 + bidirectional],
    )


MOST_BRIDGES = 1000
"""Of a chain. OVS follows at most 64 patch ports; veth pairs have no such limit."""


@checked()
def bridge_chain(
    bridges: Annotated[int, whole(1, MOST_BRIDGES)],
    *,
    link: Annotated[str, word("patch", "veth")] = "patch",
    ends: Annotated[str, word("generator", "namespace")] = "generator",
    bidirectional: bool = True,
    mtu: Mtu = 1500,
    offloads: Offloads = AS_IT_IS,
    ip: IpVersion = 4,
) -> Topology:
    """Bridges one behind the other, as in S2: ovs-1 - ovs-2 - ... - ovs-N.

    Args:
        bridges: how many, 1 to MOST_BRIDGES.
        link: what joins neighbours: ``patch`` ports or ``veth`` pairs.
        ends: at both ends of the chain: ``generator`` ports p0 and p1, or ``namespace`` with eth0.
        bidirectional: both ends send; for generator ports.
        mtu: bytes without Ethernet header and FCS.
        offloads: of the namespaces' interfaces and of veth pairs between bridges.
        ip: version of the namespaces' addresses, 4 or 6.
    """
    names = [f"ovs-{number}" for number in range(1, bridges + 1)]
    joints = [_joint(link, number, mtu, offloads) for number in range(1, bridges)]
    outer: list[Part] = []
    if ends == "generator":
        outer += [endpoint(f"p{n}", bridge, mtu=mtu) for n, bridge in enumerate((names[0], names[-1]))]
        outer += [path("p0", "p1"), *_BOTH_DIRECTIONS[: 1 + bidirectional]]
    else:
        for n, bridge in enumerate((names[0], names[-1])):
            address = _CHAIN_ADDRESSES[ip] % (n + 1)
            outer += [Namespace(f"end{n}"), nic(f"end{n}", bridge, address, port=f"end{n}", mtu=mtu, offloads=offloads)]
    return compose(f"chain-{bridges}-{link}" if bridges > 1 else "chain-1", *names, *joints, *outer)


def _joint(link: str, number: int, mtu: int, offloads: Offloads) -> Patch | VethLink:
    """Between bridge ``number`` and the next; S2's names, patch-CONNECT-IK and ovschain-IK, shortened."""
    left, right = f"ovs-{number}", f"ovs-{number + 1}"
    if link == "patch":
        return Patch(left, f"patch-{number}-{number + 1}", right, f"patch-{number + 1}-{number}")
    port_a, port_b = f"chain-{number}-{number + 1}", f"chain-{number + 1}-{number}"
    return VethLink(left, port_a, right, port_b, mtu=mtu, offloads=offloads)


# ``compose``: a topology from parts.
#
# compose("two-bridges", endpoint("p0", "brA"), patch("brA", "brB"), endpoint("p1", "brB"), path("p0", "p1"))


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Parts that stand on a node: what ``node`` returns."""

    node: str
    parts: tuple[Part, ...]


Part: TypeAlias = Annotated[
    str
    | Port
    | Patch
    | VethLink
    | Tunnel
    | Namespace
    | Nic
    | HostNic
    | Crossing
    | Direction
    | Path
    | Mirror
    | Underlay
    | BridgeRules
    | Limiter
    | Connections
    | NodeParts
    | tuple[Any, ...],
    CHECKED_LATER,
]
"""A bridge's name, a stop of frames, a link, a flow, rules, a mirror, a limiter, connections, a node, or several."""


@checked()
def node(name: Name, *parts: Part) -> NodeParts:
    """A node, an OVS of its own, and the parts that stand on it: ``node("node1", endpoint("p0", "br-int1"))``.

    What joins nodes, ``underlay`` and ``path``, is given beside them. List the bridges that no part of the node names,
    such as one that only the underlay ends at.
    """
    return NodeParts(name, parts)


_P = ParamSpec("_P")
_Made = TypeVar("_Made", bound=Part)


@checked()
def compose(name: Name, *parts: Part) -> Topology:
    """Make a topology of these parts.

    You need not list bridges: the topology has those that the parts name, in that order. If you list one, list
    all: this finds typing errors.

    Two endpoints send to each other unless a ``Direction`` says otherwise. Bridges on no ``path`` (and
    without a ``Crossing``) learn MAC addresses.

    Raises:
        ValueError: names the topology, what is wrong with it, and what to write instead.
    """
    given = list(_flat(name, parts))
    ports = tuple(_with_macs(_only(given, Port)))
    patches, veths = _only(given, Patch), _only(given, VethLink)
    nics, tunnels = _only(given, Nic), _only(given, Tunnel)
    nodes, underlays = tuple(_nodes(name, parts)), _only(given, Underlay)
    # Bridges that a node lists are no list of all bridges.
    outside = [part for part in parts if not isinstance(part, NodeParts)]
    listed = [part for part in _flat(name, outside) if isinstance(part, str)]
    ends = [*((nic.bridge, nic.port) for nic in nics), *((tunnel.bridge, tunnel.port) for tunnel in tunnels)]
    named = [bridge for part in given for bridge in _bridges_of(part)]
    links: list[BridgeLink] = [*patches, *veths, *underlays, *_overlays(name, nodes, tunnels, underlays)]
    paths = _Paths(name, ports, nics, links, ends)
    crossings = [*_only(given, Crossing), *paths.crossings(_only(given, Path))]
    open_peers = {port.name for port in ports if port.vnf_mode is VnfMode.MAC and port.eth_peer is None}
    ports = tuple(
        replace(port, eth_peer=paths.next_macs.get(port.name)) if port.name in open_peers else port for port in ports
    )
    return Topology(
        name=name,
        bridges=tuple(listed or dict.fromkeys([*(bridge for node in nodes for bridge in node.bridges), *named])),
        ports=ports,
        crossings=tuple(dict.fromkeys(crossings)),
        directions=_directions(name, ports, _only(given, Direction)),
        patches=patches,
        veths=veths,
        tunnels=tunnels,
        namespaces=_only(given, Namespace),
        nics=nics,
        behind=_only(given, HostNic),
        mirrors=_only(given, Mirror),
        nodes=nodes,
        underlays=underlays,
        rules=_only(given, BridgeRules),
        limiters=_only(given, Limiter),
        connections=_only(given, Connections),
    )


class Composition:
    """Collects parts one after the other; ``topology`` composes what was collected."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def adding(self, make: Callable[_P, _Made]) -> Callable[_P, _Made]:
        """A function that makes a part as ``make`` does, and collects it."""

        @wraps(make)
        def add(*args: _P.args, **kwargs: _P.kwargs) -> _Made:
            part = make(*args, **kwargs)
            self.parts.append(part)
            return part

        return add

    def topology(self, name: str) -> Topology:
        """What was collected, composed; ValueError when that is nothing, or cannot be built."""
        if not self.parts:
            raise ArgumentError(f"topology {name!r} has no parts: give a topology, or make parts first")
        return compose(name, *self.parts)


_LINKS = (Patch, VethLink, Underlay)
_KINDS = (
    *(*_LINKS, str, Port, Tunnel, Namespace, Nic, Crossing, Direction, Path, Mirror, HostNic, BridgeRules, Limiter),
    Connections,
)


def _flat(name: str, parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, (tuple, list)):
            yield from _flat(name, part)
        elif isinstance(part, NodeParts):
            yield from _flat(name, part.parts)
        elif isinstance(part, _KINDS):
            yield part
        else:
            raise ArgumentError(
                f"topology {name!r}: {part!r} is not a part of a topology: give the name of a bridge, or what "
                "endpoint(), vnf(), patch(), veth(), tunnel(), namespace(), router(), behind(), mirror(), path(), "
                "underlay(), rules(), meter(), policer(), connections() or node() return"
            )


_Kind = TypeVar("_Kind")


def _only(parts: Iterable[Any], kind: type[_Kind]) -> tuple[_Kind, ...]:
    return tuple(part for part in parts if isinstance(part, kind))


def _bridges_of(part: object) -> tuple[str, ...]:
    if isinstance(part, (Port, Nic, Tunnel, Crossing)):
        return (part.bridge,)
    return (part.bridge_a, part.bridge_b) if isinstance(part, _LINKS) else ()


def _nodes(name: str, parts: Iterable[Any]) -> Iterator[Node]:
    """Each node with the bridges that its parts name or list."""
    for part in parts:
        if isinstance(part, (tuple, list)):
            yield from _nodes(name, part)
        elif isinstance(part, NodeParts):
            on_it = list(_flat(name, part.parts))
            named = [*(bridge for one in on_it for bridge in _bridges_of(one)), *_only(on_it, str)]
            yield Node(part.node, tuple(dict.fromkeys(named)))


def _overlays(
    name: str, nodes: tuple[Node, ...], tunnels: tuple[Tunnel, ...], underlays: tuple[Underlay, ...]
) -> list[Overlay]:
    # Underlays with an unknown bridge are left out: the topology's own check reports them.
    on_nodes = {bridge for node in nodes for bridge in node.bridges}
    joined = [link for link in underlays if {link.bridge_a, link.bridge_b} <= on_nodes]
    try:
        return overlays(nodes, tunnels, joined)
    except ValueError as error:
        raise ArgumentError(f"topology {name!r}: {error}") from error


def _with_macs(ports: Iterable[Port]) -> Iterator[Port]:
    """Fill in MACs that were left open: the generator's by port number, a VNF's by the numbers of VNF and side."""
    generators = 0
    sides: Counter[str] = Counter()  # of each VNF, in the order of the VNFs
    for port in ports:
        if port.role is PortRole.FORWARDER:
            sides[port.owner] += 1
            mac = vnf_mac(list(sides).index(port.owner) + 1, sides[port.owner] - 1)
        else:
            mac = generator_mac(generators)
            generators += 1
        yield replace(port, mac=mac) if port.mac == MAC_TO_FILL else port


def _directions(name: str, ports: Iterable[Port], given: tuple[Direction, ...]) -> tuple[Direction, ...]:
    ends = [port.name for port in ports if port.role is PortRole.ENDPOINT]
    if given or len(ends) < 2:
        return given
    if len(ends) > 2:
        raise ArgumentError(
            f"topology {name!r}: {len(ends)} endpoints: say who sends to whom, such as Direction({ends[0]!r}, "
            f"{ends[1]!r})"
        )
    return (Direction(ends[0], ends[1]), Direction(ends[1], ends[0]))


class _Paths:
    """Turns paths into crossings.

    Attributes:
        next_macs: for each port on a path by which a stop is entered, the MAC address of the stop after it.
    """

    def __init__(
        self,
        name: str,
        ports: Iterable[Port],
        nics: Iterable[Nic],
        links: Iterable[BridgeLink],
        ends: Iterable[BridgePort],
    ) -> None:
        self._name = name
        self._links = list(links)
        self._stops: dict[str, list[BridgePort]] = {}
        self.next_macs: dict[str, str | None] = {}
        self._macs = {one.port: one.mac for one in nics} | {port.name: port.mac for port in ports}
        for one in nics:
            self._stops.setdefault(one.namespace, []).append((one.bridge, one.port))
        for port in ports:
            if port.role is PortRole.FORWARDER:
                self._stops.setdefault(port.owner, []).append((port.bridge, port.name))
        # Last, so that a port is meant where a namespace or VNF has the same name.
        self._stops |= {port: [(bridge, port)] for bridge, port in ends}
        self._stops |= {port.name: [(port.bridge, port.name)] for port in ports}

    def crossings(self, paths: Iterable[Path]) -> Iterator[Crossing]:
        for one in paths:
            if len(one.stops) < 2:
                raise self._wrong(one, "a path needs at least two nodes")
            for stop, following in zip(one.stops, one.stops[1:], strict=False):
                yield from self._hop(one, stop, following)

    def _hop(self, path: Path, stop: str, following: str) -> list[Crossing]:
        (_, entry), (bridge, first) = self._ends(path, stop)[0], self._ends(path, stop)[-1]
        (peer_bridge, last), (_, peer_exit) = self._ends(path, following)[0], self._ends(path, following)[-1]
        self.next_macs |= {entry: self._macs.get(last), peer_exit: self._macs.get(first)}
        links = shortest(bridge, peer_bridge, self._links)
        if links is None:
            raise self._wrong(path, f"no patch or veth leads from bridge {bridge!r} to {peer_bridge!r}")
        return crossings_along(links, bridge, first, last)

    def _ends(self, path: Path, stop: str) -> list[BridgePort]:
        if stop not in self._stops:
            known = ", ".join(sorted(self._stops)) or "none"
            raise self._wrong(path, f"no port, VNF or namespace is called {stop!r}; there are: {known}")
        return self._stops[stop]

    def _wrong(self, path: Path, problem: str) -> ArgumentError:
        return ArgumentError(f"topology {self._name!r}: path {' - '.join(path.stops)}: {problem}")
