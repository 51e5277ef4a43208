"""A topology as data: bridges, what is joined to them, and how frames cross them.

Pure: builds nothing. A Datapath builds it and returns handles that own their teardown.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from pytest_nfvperf.model.arguments import MAC, Name, checked
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import VLAN_NUMBERS, BridgeRules, Mirror, wrong_mirrors, wrong_rules
from pytest_nfvperf.model.topology.connections import Connections, wrong_connections
from pytest_nfvperf.model.topology.limiters import Limiter
from pytest_nfvperf.model.topology.links import (
    NODE_NAME,
    BridgeLink,
    Crossing,
    Node,
    Patch,
    Tunnel,
    TunnelKind,
    Underlay,
    VethLink,
    encapsulation_bytes,
    facing,
    overlays,
    shortest,
)
from pytest_nfvperf.model.topology.ports import (
    LONGEST_KERNEL_NAME,
    HostNic,
    Namespace,
    Nic,
    NicKind,
    Port,
    PortRole,
    VnfMode,
)
from pytest_nfvperf.model.traffic.trial import Direction

MOST_KEYS_OF_ONE = 1 << 16
"""OVS distributes frames to as many (ovs-actions(7), multipath)."""

_NO_MAC = "02:00:00:00:00:00"
"""MAC of an uplink: nobody sends to an underlay's end."""
_MOST_MTU = 65535  # of an IP packet
_LEAST_MTU = 68  # RFC 791: every link can carry this much
_MOST_KEYS = {TunnelKind.VXLAN: 1 << 24, TunnelKind.GENEVE: 1 << 24, TunnelKind.GRE: 1 << 32}
_MOST_METERS = 32  # of a bridge: each has a bit of a register
"""RFC 7348, 8926: a VNI has 24 bits; RFC 2890: a key has 32."""


@checked()
@dataclass(frozen=True, slots=True)
class Topology:
    """Bridges, their ports and how frames cross. ``directions``: who of the endpoints sends to whom.

    A bridge without crossings does MAC learning (the NORMAL action). ``nodes``: on which DUT each bridge stands; empty
    where there is one. ``rules``: OpenFlow of bridges, beside what leads frames over paths. ``limiters``: meters,
    policers and shapers. ``connections``: what tracks them.

    Raises:
        ValueError: it cannot be built: a name used twice, unknown, or too long for the kernel, a port
            that nothing crosses to, an MTU that does not fit into a tunnel, an invalid VLAN, a mirror that
            cannot be, a tunnel to another node without its other end.
    """

    name: Name
    bridges: tuple[Name, ...]
    ports: tuple[Port, ...]
    crossings: tuple[Crossing, ...]
    directions: tuple[Direction, ...]
    patches: tuple[Patch, ...] = ()
    veths: tuple[VethLink, ...] = ()
    tunnels: tuple[Tunnel, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    nics: tuple[Nic, ...] = ()
    mirrors: tuple[Mirror, ...] = ()
    behind: tuple[HostNic, ...] = ()
    nodes: tuple[Node, ...] = ()
    underlays: tuple[Underlay, ...] = ()
    rules: tuple[BridgeRules, ...] = ()
    limiters: tuple[Limiter, ...] = ()
    connections: tuple[Connections, ...] = ()

    def __post_init__(self) -> None:
        check(self)

    def port(self, name: str) -> Port:
        """The port of this name; KeyError for an unknown one."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(f"topology {self.name!r} has no port {name!r}")

    @property
    def links(self) -> tuple[Patch | VethLink | Underlay, ...]:
        """What joins its bridges: patches, veth pairs and underlays."""
        return (*self.patches, *self.veths, *self.underlays)

    @property
    def interfaces(self) -> tuple[Nic | HostNic, ...]:
        """Interfaces of namespaces, on bridges and behind generators' ports."""
        return (*self.nics, *self.behind)

    def bridge_mirrors(self, bridge: str) -> tuple[Mirror, ...]:
        return tuple(mirror for mirror in self.mirrors if mirror.bridge == bridge)

    def bridge_ports(self, bridge: str) -> tuple[str, ...]:
        """Names of all ports of a bridge, with the ends of links, without its own local port."""
        return tuple(name for on, name in all_ports(self) if on == bridge)


def all_ports(topology: Topology) -> list[tuple[str, str]]:
    """Every port of every bridge as (bridge, port), local ports not, in the order in which they are made."""
    return [
        *((port.bridge, port.name) for port in topology.ports),
        *((nic.bridge, nic.port) for nic in topology.nics),
        *((end.bridge, end.port) for link in topology.links for end in link.ends),
        *((tunnel.bridge, tunnel.port) for tunnel in topology.tunnels),
    ]


def bridge_of(topology: Topology, limiter: Limiter) -> str:
    """The bridge on which it limits; "" for a port that the topology does not have."""
    if limiter.kind == "meter":
        return limiter.at
    return next((bridge for bridge, port in all_ports(topology) if port == limiter.at), "")


def only_generator_sends(topology: Topology) -> bool:
    """True if no VNF, namespace or node sends frames into the datapath beside the generator's own."""
    roles = {port.role for port in topology.ports}
    return roles <= {PortRole.ENDPOINT, PortRole.MONITOR} and not (topology.nics or topology.nodes)


# Nodes: several DUTs in one topology, each with its own OVS, that underlays join. A bridge stands on one node, with
# whatever is joined to it. A topology without nodes has one DUT.


def node_of_bridge(topology: Topology) -> dict[str, str]:
    """On which node each bridge stands; empty for a topology without nodes."""
    return {bridge: node.name for node in topology.nodes for bridge in node.bridges}


def node_topology(topology: Topology, name: str) -> Topology:
    """The part of a topology on one node, as a topology of its own.

    Ends of underlays become ports: uplinks. There are no directions, because frames come from other nodes. KeyError
    for an unknown node.
    """
    node = next((one for one in topology.nodes if one.name == name), None)
    if node is None:
        raise KeyError(f"topology {topology.name!r} has no node {name!r}")
    here = set(node.bridges)
    ports = tuple(port for port in topology.ports if port.bridge in here)
    nics = tuple(nic for nic in topology.nics if nic.bridge in here)
    behind = tuple(one for one in topology.behind if one.port in {port.name for port in ports})
    inhabited = {nic.namespace for nic in nics} | {one.namespace for one in behind}
    return replace(
        topology,
        name=f"{topology.name}@{name}",
        bridges=node.bridges,
        ports=(*ports, *uplinks(topology, name)),
        crossings=tuple(crossing for crossing in topology.crossings if crossing.bridge in here),
        directions=(),
        patches=tuple(patch for patch in topology.patches if patch.bridge_a in here),
        veths=tuple(veth for veth in topology.veths if veth.bridge_a in here),
        tunnels=tuple(tunnel for tunnel in topology.tunnels if tunnel.bridge in here),
        namespaces=tuple(namespace for namespace in topology.namespaces if namespace.name in inhabited),
        nics=nics,
        mirrors=tuple(mirror for mirror in topology.mirrors if mirror.bridge in here),
        behind=behind,
        rules=tuple(one for one in topology.rules if one.bridge in here),
        limiters=tuple(one for one in topology.limiters if bridge_of(topology, one) in here),
        connections=tuple(one for one in topology.connections if one.bridge in here),
        nodes=(),
        underlays=(),
    )


def uplinks(topology: Topology, name: str) -> tuple[Port, ...]:
    """The ends of underlays on a node, as ports."""
    at = node_of_bridge(topology)
    return tuple(
        Port(end.port, end.bridge, PortRole.UPLINK, _NO_MAC, at[end.peer_bridge], mtu=link.mtu)
        for link in topology.underlays
        for end in link.ends
        if at[end.bridge] == name
    )


# Checks of a topology, before anything is built. Each yields what is wrong and what would be right, in sentences. Only
# the first is told, so a check may rely on those before it.


def check(topology: Topology) -> None:
    """Raise ValueError that names the topology, the part that is wrong, and what would be right."""
    checks: tuple[Callable[[Topology], Iterator[str]], ...] = (
        _wrong_names,
        _unknown_bridges_and_namespaces,
        _wrong_kernel_names,
        _unknown_ends,
        _wrong_forwarders,
        _wrong_flows,
        lambda it: wrong_mirrors(it.mirrors, {name: it.bridge_ports(name) for name in it.bridges}, it.crossings),
        _dangling_ports,
        _wrong_macs,
        _wrong_hosts_behind,
        _wrong_networks,
        _wrong_vlans,
        _wrong_mtus,
        _wrong_tunnel_ends,
        _wrong_nodes,
        lambda it: wrong_rules(
            it.rules,
            it.bridges,
            it.tunnels,
            it.crossings,
            {port.name: port.bridge for port in it.ports if port.role is PortRole.ENDPOINT},
        ),
        _wrong_limiters,
        lambda it: wrong_connections(
            it.connections, {name: it.bridge_ports(name) for name in it.bridges}, node_of_bridge(it)
        ),
        _wrong_tunnel_mtus,
        _learning_loops,
    )
    for find in checks:
        for problem in find(topology):
            raise ArgumentError(f"topology {topology.name!r}: {problem}")


def _wrong_limiters(topology: Topology) -> Iterator[str]:
    virtual = {*(end.port for patch in topology.patches for end in patch.ends), *(one.port for one in topology.tunnels)}
    real = [port for _, port in all_ports(topology) if port not in virtual]
    lines = (
        (one.bridge, line) for one in topology.rules for flow in one.flows for line in re.findall(r"meter=(\d+)", flow)
    )
    taken = {(bridge, int(number), False) for bridge, number in lines}
    for one in topology.limiters:
        of_meter = one.kind == "meter"
        known = topology.bridge_ports(one.at) if of_meter else real
        for port in one.in_ports or (one.at,):
            if port not in known:
                yield f"{one}: {port!r} is no port that it could limit; there are: {', '.join(known) or 'none'}"
        place = (one.at, one.number, one.kind == "policer")
        if place in taken:
            other = (
                f"meter {one.number}: give another number=..." if of_meter else "limiter on that side: make one of both"
            )
            yield f"{one}: {one.at!r} has another {other}"
        taken.add(place)
        if sum(other.at == one.at for other in topology.limiters) > _MOST_METERS:
            yield f"bridge {one.at!r} has more than {_MOST_METERS} meters"


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def _wrong_names(topology: Topology) -> Iterator[str]:
    # One OVS has one list of interfaces, in which each bridge's local port is, too.
    members = [member for port in topology.ports for member in port.members]
    for what, names in (
        ("bridge", topology.bridges),
        ("port", [*topology.bridges, *(name for _, name in all_ports(topology)), *members]),
        ("namespace", [namespace.name for namespace in topology.namespaces]),
    ):
        for twice in _repeated(names):
            yield f"{what} {twice!r} is used twice"
    for twice in _repeated(f"{nic.name!r} of namespace {nic.namespace!r}" for nic in topology.nics):
        yield f"interface {twice} is used twice"


def _unknown_bridges_and_namespaces(topology: Topology) -> Iterator[str]:
    for bridge, port in sorted(all_ports(topology)):
        if bridge not in topology.bridges:
            yield f"port {port!r} is on unknown bridge {bridge!r}"
    known = {namespace.name for namespace in topology.namespaces}
    for nic in topology.interfaces:
        if nic.namespace not in known:
            yield f"interface {nic.name!r} is in unknown namespace {nic.namespace!r}"


def _kernel_links(topology: Topology) -> list[VethLink | Underlay]:
    """Those whose ends are interfaces of the kernel, or can be."""
    return [*topology.veths, *topology.underlays]


def _wrong_kernel_names(topology: Topology) -> Iterator[str]:
    for nic in topology.nics:
        if nic.kind == NicKind.INTERNAL and nic.name != nic.port:
            yield (
                f"internal port {nic.port!r} is the interface in namespace {nic.namespace!r} itself: "
                f"it cannot be {nic.name!r} there; give both the same name"
            )
    kernel_names = [
        *topology.bridges,
        *(name for nic in topology.nics for name in (nic.name, nic.port)),
        *(name for link in _kernel_links(topology) for name in (link.port_a, link.port_b)),
    ]
    for name in kernel_names:
        if len(name.encode()) > LONGEST_KERNEL_NAME:
            yield f"{name!r} is longer than the {LONGEST_KERNEL_NAME} bytes that the kernel allows; shorten it"


def _unknown_ends(topology: Topology) -> Iterator[str]:
    known = set(all_ports(topology))
    for crossing in topology.crossings:
        for end in (crossing.in_port, crossing.out_port):
            if (crossing.bridge, end) not in known:
                yield f"crossing uses {end!r}, which is not a port of {crossing.bridge!r}"
    endpoints = {port.name for port in topology.ports if port.role is PortRole.ENDPOINT}
    for direction in topology.directions:
        for end in (direction.tx, direction.rx):
            if end not in endpoints:
                yield f"direction {direction} uses {end!r}, not an endpoint"


def _wrong_forwarders(topology: Topology) -> Iterator[str]:
    owners = {port.name: port.owner for port in topology.ports}
    for port in topology.ports:
        if port.peer is not None and owners.get(port.peer) != port.owner:
            yield f"port {port.name!r} forwards to {port.peer!r}, which is not a port of {port.owner!r}"
    for port in topology.ports:
        if port.role is PortRole.FORWARDER and port.vnf_mode is VnfMode.MAC and port.eth_peer is None:
            yield (
                f"VNF {port.owner!r} in mode mac does not know where frames from {port.name!r} go on to: put it on a "
                "path, say eth_peers, or use mode io or macswap"
            )


def _wrong_flows(topology: Topology) -> Iterator[str]:
    # Frames of a port leave by one other port: a second flow would replace the first without a word.
    out: dict[tuple[str, str], str] = {}
    for crossing in topology.crossings:
        if crossing.in_port == crossing.out_port:
            yield f"frames from {crossing.in_port!r} cannot go back to it: OpenFlow drops them"
        known = out.setdefault((crossing.bridge, crossing.in_port), crossing.out_port)
        if known != crossing.out_port:
            yield f"frames from {crossing.in_port!r} shall cross to {known!r} and to {crossing.out_port!r}: choose one"


def _dangling_ports(topology: Topology) -> Iterator[str]:
    own = {one.bridge for one in topology.rules if one.flows}  # whose flows may lead frames to any port
    crossed = {crossing.bridge for crossing in topology.crossings} - own
    used = {(c.bridge, end) for c in topology.crossings for end in (c.in_port, c.out_port)}
    # No flow need lead to a monitor's port: it may be the output of a mirror.
    copied_to = {port.name for port in topology.ports if port.role is PortRole.MONITOR}
    copied_to |= {mirror.output for mirror in topology.mirrors if mirror.output is not None}
    makers = {end.port: link for link in topology.links for end in link.ends if link.kind != "underlay"}
    for bridge, port in all_ports(topology):
        if bridge in crossed and (bridge, port) not in used and port not in copied_to:
            link = makers.get(port)
            part = (
                f"{link.kind}({link.bridge_a!r}, {link.bridge_b!r})" if link is not None else "the part that makes it"
            )
            yield (
                f"port {port!r} is dangling: bridge {bridge!r} has crossings, and none uses it, so no frame would pass "
                f"it; lead a path over the port, such as path(..., {port!r}, ...), leave out {part}, or give "
                f"{bridge!r} no path at all: then it learns MAC addresses"
            )


def _wrong_macs(topology: Topology) -> Iterator[str]:
    macs = [
        *((f"port {port.name!r}", mac) for port in topology.ports for mac in (port.mac, port.eth_peer)),
        *((f"interface {nic.name!r} of namespace {nic.namespace!r}", nic.mac) for nic in topology.nics),
    ]
    for where, mac in macs:
        if mac is None:
            continue
        if not MAC.accepts(mac):
            yield f"{where}: {mac!r} is not a MAC address, such as 02:00:00:00:00:01"
        elif int(mac[:2], 16) & 1:
            yield f"{where}: {mac} is a group's address; the first byte must be even, such as 02"


def _wrong_hosts_behind(topology: Topology) -> Iterator[str]:
    endpoints = {port.name for port in topology.ports if port.role is PortRole.ENDPOINT}
    in_use: set[str] = set()
    for nic in topology.behind:
        where = f"interface {nic.name!r} of namespace {nic.namespace!r}"
        if nic.port not in endpoints:
            yield f"{where} is behind {nic.port!r}, which is not an endpoint"
        if nic.port in in_use:
            yield f"{where}: there is another one behind {nic.port!r}, and it cannot have two"
        if nic.vlan is not None and nic.vlan not in VLAN_NUMBERS:
            yield f"{where}: VLAN {nic.vlan} is not in 1..4094"
        in_use.add(nic.port)


def _wrong_networks(topology: Topology) -> Iterator[str]:
    networks: dict[str, list[ipaddress.IPv4Network | ipaddress.IPv6Network]] = {}
    addresses = [(nic, address) for nic in topology.interfaces for address in nic.addresses]
    for nic, address in addresses:
        try:
            networks.setdefault(nic.namespace, []).append(ipaddress.ip_interface(address).network)
            is_address = "/" in address
        except ValueError:
            is_address = False
        if not is_address:
            yield f"interface {nic.name!r}: {address!r} is not an address with a prefix, such as 10.1.0.1/24"
    for namespace in topology.namespaces:
        for destination, gateway in namespace.routes:
            try:
                ipaddress.ip_network(destination)
                via = ipaddress.ip_address(gateway)
            except ValueError as error:
                yield f"namespace {namespace.name!r}: route to {destination!r} by {gateway!r}: {error}"
                return
            if not any(via in network for network in networks.get(namespace.name, ())):
                yield f"namespace {namespace.name!r}: gateway {gateway} is on none of its networks"


def _wrong_vlans(topology: Topology) -> Iterator[str]:
    links: list[Patch | VethLink] = [*topology.patches, *topology.veths]
    parts = [
        *((port.name, port.vlan) for port in topology.ports),
        *((nic.port, nic.vlan) for nic in topology.nics),
        *((link.port_a, link.vlan) for link in links),
    ]
    for name, vlan in parts:
        numbers = () if vlan is None else vlan.trunks if vlan.tag is None else (vlan.tag, *vlan.trunks)
        for number in numbers:
            if number not in VLAN_NUMBERS:
                yield f"port {name!r}: VLAN {number} is not in 1..4094"


def _wrong_mtus(topology: Topology) -> Iterator[str]:
    sized = [
        *((port.name, port.mtu) for port in topology.ports),
        *((nic.port, nic.mtu) for nic in topology.nics),
        *((link.port_a, link.mtu) for link in _kernel_links(topology)),
        *((tunnel.port, tunnel.mtu) for tunnel in topology.tunnels),
    ]
    for name, mtu in sized:
        if mtu < _LEAST_MTU:
            yield f"port {name!r}: MTU {mtu} is below {_LEAST_MTU}"
        if mtu > _MOST_MTU:
            yield f"port {name!r}: MTU {mtu} is above {_MOST_MTU}"


def _wrong_tunnel_mtus(topology: Topology) -> Iterator[str]:
    for tunnel in topology.tunnels:
        room = tunnel.underlay_mtu - encapsulation_bytes(tunnel.kind, tunnel.local)
        if tunnel.mtu > room:
            yield (
                f"tunnel {tunnel.port!r}: MTU {tunnel.mtu} does not fit, {tunnel.kind} over an underlay of "
                f"{tunnel.underlay_mtu} leaves {room}"
            )
        for nic in topology.nics:
            if nic.bridge == tunnel.bridge and nic.mtu > tunnel.mtu:
                yield (
                    f"interface {nic.name!r} has MTU {nic.mtu}, tunnel {tunnel.port!r} on its bridge carries "
                    f"{tunnel.mtu}"
                )


# Checks of nodes, underlays and overlays.


def _wrong_tunnel_ends(topology: Topology) -> Iterator[str]:
    for tunnel in topology.tunnels:
        try:
            ends = [ipaddress.ip_address(address) for address in (tunnel.local, tunnel.remote)]
        except ValueError as error:
            yield f"tunnel {tunnel.port!r}: {error}"
            return
        if ends[0].version != ends[1].version:
            yield f"tunnel {tunnel.port!r}: {tunnel.local} and {tunnel.remote} must be both IPv4 or both IPv6"
        if ends[0] == ends[1]:
            yield f"tunnel {tunnel.port!r} leads to its own address {tunnel.local}: it would be a loop"
        if not 0 <= tunnel.key < _MOST_KEYS[tunnel.kind]:
            yield f"tunnel {tunnel.port!r}: {tunnel.kind} has no key {tunnel.key}: 0..{_MOST_KEYS[tunnel.kind] - 1}"
        if not 1 <= tunnel.keys <= min(MOST_KEYS_OF_ONE, _MOST_KEYS[tunnel.kind] - tunnel.key):
            yield f"tunnel {tunnel.port!r} has 1..{MOST_KEYS_OF_ONE} keys of those that there are, not {tunnel.keys}"


def _wrong_nodes(topology: Topology) -> Iterator[str]:
    if topology.nodes:
        for find in (
            _wrong_node_names,
            _bridges_without_one_node,
            _links_across_nodes,
            _wrong_underlays,
            _wrong_tunnels,
            _frames_too_large_for_tunnels,
        ):
            yield from find(topology)
    elif topology.underlays:
        yield "underlays join nodes, and it has none: put its parts on node(...)"


def _wrong_node_names(topology: Topology) -> Iterator[str]:
    for node in topology.nodes:
        if not re.fullmatch(NODE_NAME, node.name):
            yield f"node {node.name!r}: a name has up to 12 small letters, digits and -, such as node1"
    for twice in _repeated(node.name for node in topology.nodes):
        yield f"node {twice!r} is used twice: give all parts of a node in one node(...)"


def _bridges_without_one_node(topology: Topology) -> Iterator[str]:
    node_of: dict[str, str] = {}
    for node in topology.nodes:
        for bridge in node.bridges:
            if bridge not in topology.bridges:
                yield f"unknown bridge {bridge!r} stands on node {node.name!r}"
            if bridge in node_of:
                yield f"bridge {bridge!r} stands on {node_of[bridge]!r} and on {node.name!r}: choose one"
            node_of[bridge] = node.name
    for bridge in topology.bridges:
        if bridge not in node_of:
            first = topology.nodes[0].name
            yield f"bridge {bridge!r} stands on no node: list it in one, such as node({first!r}, {bridge!r}, ...)"


def _links_across_nodes(topology: Topology) -> Iterator[str]:
    # A patch, a veth pair, a namespace and a VNF each stand on one node.
    node_of = node_of_bridge(topology)
    links: list[Patch | VethLink] = [*topology.patches, *topology.veths]
    for link in links:
        if node_of[link.bridge_a] != node_of[link.bridge_b]:
            yield (
                f"{link.port_a!r} and {link.port_b!r} join bridges of two nodes: only an underlay does, such as "
                f"underlay({link.bridge_a!r}, {link.bridge_b!r})"
            )
    bridges = {port.name: port.bridge for port in topology.ports}
    interfaces = [
        *((f"namespace {nic.namespace!r}", node_of[nic.bridge]) for nic in topology.nics),
        *((f"namespace {host_nic.namespace!r}", node_of[bridges[host_nic.port]]) for host_nic in topology.behind),
        *((f"VNF {p.owner!r}", node_of[p.bridge]) for p in topology.ports if p.role is PortRole.FORWARDER),
    ]
    first: dict[str, str] = {}
    for what, node in interfaces:
        if first.setdefault(what, node) != node:
            yield f"{what} stands on nodes {first[what]!r} and {node!r}: choose one"


def _wrong_underlays(topology: Topology) -> Iterator[str]:
    at = node_of_bridge(topology)
    joined: dict[frozenset[str], str] = {}
    for link in topology.underlays:
        pair = frozenset({at[link.bridge_a], at[link.bridge_b]})
        if len(pair) == 1:
            yield (
                f"underlay {link.port_a!r} - {link.port_b!r} joins bridges of one node, {at[link.bridge_a]!r}: use a "
                "patch or a veth"
            )
        if pair in joined:
            yield f"underlays {joined[pair]!r} and {link.port_a!r} join the same two nodes: choose one"
        if link.line_rate_bps is not None and not 0 < link.line_rate_bps < float("inf"):
            yield (
                f"underlay {link.port_a!r} - {link.port_b!r}: {link.line_rate_bps} is no line rate: write bit/s, such "
                "as 10e9"
            )
        joined[pair] = link.port_a


def _wrong_tunnels(topology: Topology) -> Iterator[str]:
    pairs = overlays(topology.nodes, topology.tunnels, topology.underlays)
    links = {port: overlay.underlay for overlay in pairs for port in (overlay.port_a, overlay.port_b)}
    node_of = node_of_bridge(topology)
    for tunnel in topology.tunnels:
        if tunnel.port not in links:
            yield _why_no_end(topology, tunnel)
            return
        link = links[tunnel.port]
        if tunnel.bridge in {link.bridge_a, link.bridge_b}:
            yield (
                f"tunnel {tunnel.port!r} is on {tunnel.bridge!r}, where its underlay ends: what it sends would enter "
                "it again; put the tunnel on a bridge of its own"
            )
        if link.mtu < tunnel.underlay_mtu:
            yield (
                f"tunnel {tunnel.port!r} counts on an underlay of MTU {tunnel.underlay_mtu}, and {link.port_a!r} - "
                f"{link.port_b!r} carries {link.mtu}: give both the same"
            )
        others = [
            underlay
            for underlay in topology.underlays
            if node_of[tunnel.bridge] in {node_of[underlay.bridge_a], node_of[underlay.bridge_b]}
        ]
        if len(others) > 1:
            yield f"node {node_of[tunnel.bridge]!r} has a tunnel and {len(others)} underlays: give it one"


def _why_no_end(topology: Topology, tunnel: Tunnel) -> str:
    what = f"tunnel {tunnel.port!r} ({tunnel.kind} {tunnel.keys_text} from {tunnel.local} to {tunnel.remote})"
    other = next(facing(tunnel, topology.tunnels), None)
    if other is None:
        return (
            f"{what} has no other end: put tunnel(..., local={tunnel.remote!r}, remote={tunnel.local!r}) on a bridge "
            "of another node"
        )
    if (other.kind, other.key, other.keys) != (tunnel.kind, tunnel.key, tunnel.keys):
        return (
            f"{what} meets {other.port!r}, which is {other.kind} {other.keys_text}: frames would be dropped there; "
            "give both ends the same kind and key (VNI)"
        )
    return f"{what} and its other end {other.port!r} are on nodes that no underlay joins: add underlay(...)"


def _frames_too_large_for_tunnels(topology: Topology) -> Iterator[str]:
    for tunnel in topology.tunnels:
        for port in topology.ports:
            if port.bridge == tunnel.bridge and port.mtu > tunnel.mtu:
                needed = port.mtu + tunnel.underlay_mtu - tunnel.mtu
                yield (
                    f"port {port.name!r} has MTU {port.mtu}, tunnel {tunnel.port!r} on its bridge carries "
                    f"{tunnel.mtu}: give the underlay MTU {needed} or more, or the port less"
                )


def _learning_loops(topology: Topology) -> Iterator[str]:
    """Each link that closes a loop of bridges that learn: a broadcast, or a frame to an unknown address, would circle.

    Bridges with flows (crossings) cannot be in a loop. Links that carry only certain VLANs are assumed not to be.
    """
    learning = set(topology.bridges) - {crossing.bridge for crossing in topology.crossings}
    # Tunnels last, for they cross other links.
    links: list[BridgeLink] = [link for link in topology.links if isinstance(link, Underlay) or link.vlan is None]
    links += overlays(topology.nodes, topology.tunnels, topology.underlays)
    joined: list[BridgeLink] = []
    for link in links:
        if not {link.bridge_a, link.bridge_b} <= learning:
            continue
        path = shortest(link.bridge_a, link.bridge_b, joined)
        if path is not None:
            loop = [link.bridge_a, *(end.peer_bridge for end in path), link.bridge_a]
            yield (
                f"{link.kind} {link.port_a!r} - {link.port_b!r} closes a loop of bridges that learn MAC addresses, "
                f"{' - '.join(loop)}: frames to all would circle in it for ever; leave out one of the links, or lead a "
                "path(...) over a bridge, which then forwards by flows"
            )
        joined.append(link)
