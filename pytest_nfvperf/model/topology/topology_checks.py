"""What is wrong with a topology, said before anything is built."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridge_rules import wrong_rules
from pytest_nfvperf.model.topology.links import Patch, Underlay, VethLink, encapsulation_bytes
from pytest_nfvperf.model.topology.loop_check import learning_loop
from pytest_nfvperf.model.topology.mirror_checks import wrong_mirror
from pytest_nfvperf.model.topology.node_checks import wrong_nodes
from pytest_nfvperf.model.topology.nodes import LONGEST_KERNEL_NAME, NicKind, PortRole, Vlan, VnfMode

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

_VLANS = range(1, 4095)
_MOST_MTU = 65535  # of an IP packet
_LEAST_MTU = 68  # RFC 791: every link can carry this much
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)


def check(topology: Topology) -> None:
    """ValueError that names the topology, the part of it that is wrong, and what would be right."""
    checks: tuple[Callable[[Topology], str | None], ...] = (
        _used_twice,
        _unknown_bridge,
        _unknown_namespace,
        _two_names_of_one,
        _too_long,
        _unknown_end,
        _unknown_peer,
        _no_eth_peer,
        _two_ways,
        wrong_mirror,
        _dangling,
        _wrong_mac,
        _behind_nothing,
        _wrong_address,
        _wrong_route,
        _wrong_vlan,
        _wrong_mtu,
        wrong_nodes,
        wrong_rules,
        _tunnel_overhead,
        learning_loop,
    )
    for find in checks:
        problem = find(topology)
        if problem is not None:
            raise ArgumentError(f"topology {topology.name!r}: {problem}")


def _first_twice(names: Iterable[str]) -> str | None:
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _links(topology: Topology) -> list[tuple[str, str]]:
    joined: list[Patch | VethLink | Underlay] = [*topology.patches, *topology.veths, *topology.underlays]
    return [end for link in joined for end in ((link.bridge_a, link.port_a), (link.bridge_b, link.port_b))]


def _kernel_links(topology: Topology) -> list[VethLink | Underlay]:
    """Those whose ends are interfaces of the kernel, or can be."""
    return [*topology.veths, *topology.underlays]


def all_ports(topology: Topology) -> list[tuple[str, str]]:
    """Every port of every bridge as (bridge, port), local ports not, in the order in which they are made."""
    return [
        *((port.bridge, port.name) for port in topology.ports),
        *((nic.bridge, nic.port) for nic in topology.nics),
        *_links(topology),
        *((tunnel.bridge, tunnel.port) for tunnel in topology.tunnels),
    ]


def _used_twice(topology: Topology) -> str | None:
    # One OVS has one list of interfaces, in which each bridge's local port is, too.
    for what, names in (
        ("bridge", topology.bridges),
        ("port", [*topology.bridges, *(name for _, name in all_ports(topology))]),
        ("namespace", [namespace.name for namespace in topology.namespaces]),
    ):
        twice = _first_twice(names)
        if twice is not None:
            return f"{what} {twice!r} is used twice"
    twice = _first_twice(f"{nic.name!r} of namespace {nic.namespace!r}" for nic in topology.nics)
    return f"interface {twice} is used twice" if twice is not None else None


def _unknown_bridge(topology: Topology) -> str | None:
    for bridge, port in sorted(all_ports(topology)):
        if bridge not in topology.bridges:
            return f"port {port!r} is on unknown bridge {bridge!r}"
    return None


def _unknown_namespace(topology: Topology) -> str | None:
    known = {namespace.name for namespace in topology.namespaces}
    for nic in topology.interfaces:
        if nic.namespace not in known:
            return f"interface {nic.name!r} is in unknown namespace {nic.namespace!r}"
    return None


def _two_names_of_one(topology: Topology) -> str | None:
    for nic in topology.nics:
        if nic.kind == NicKind.INTERNAL and nic.name != nic.port:
            return (
                f"internal port {nic.port!r} is the interface in namespace {nic.namespace!r} itself: "
                f"it cannot be {nic.name!r} there; give both the same name"
            )
    return None


def _too_long(topology: Topology) -> str | None:
    kernel_names = [
        *topology.bridges,
        *(name for nic in topology.nics for name in (nic.name, nic.port)),
        *(name for link in _kernel_links(topology) for name in (link.port_a, link.port_b)),
    ]
    for name in kernel_names:
        if len(name.encode()) > LONGEST_KERNEL_NAME:
            return f"{name!r} is longer than the {LONGEST_KERNEL_NAME} bytes that the kernel allows; shorten it"
    return None


def _unknown_end(topology: Topology) -> str | None:
    known = set(all_ports(topology))
    for crossing in topology.crossings:
        for end in (crossing.in_port, crossing.out_port):
            if (crossing.bridge, end) not in known:
                return f"crossing uses {end!r}, which is not a port of {crossing.bridge!r}"
    endpoints = {port.name for port in topology.ports if port.role is PortRole.ENDPOINT}
    for direction in topology.directions:
        for end in (direction.tx, direction.rx):
            if end not in endpoints:
                return f"direction {direction} uses {end!r}, not an endpoint"
    return None


def _unknown_peer(topology: Topology) -> str | None:
    owners = {port.name: port.owner for port in topology.ports}
    for port in topology.ports:
        if port.peer is not None and owners.get(port.peer) != port.owner:
            return f"port {port.name!r} forwards to {port.peer!r}, which is not a port of {port.owner!r}"
    return None


def _no_eth_peer(topology: Topology) -> str | None:
    for port in topology.ports:
        if port.role is PortRole.FORWARDER and port.vnf_mode is VnfMode.MAC and port.eth_peer is None:
            return (
                f"VNF {port.owner!r} in mode mac does not know where frames from {port.name!r} go on to: put it on a "
                "path, say eth_peers, or use mode io or macswap"
            )
    return None


def _two_ways(topology: Topology) -> str | None:
    """Frames of a port leave by one other port: a second flow would replace the first without a word."""
    out: dict[tuple[str, str], str] = {}
    for crossing in topology.crossings:
        if crossing.in_port == crossing.out_port:
            return f"frames from {crossing.in_port!r} cannot go back to it: OpenFlow drops them"
        known = out.setdefault((crossing.bridge, crossing.in_port), crossing.out_port)
        if known != crossing.out_port:
            return f"frames from {crossing.in_port!r} shall cross to {known!r} and to {crossing.out_port!r}: choose one"
    return None


def _dangling(topology: Topology) -> str | None:
    """A port that no flow of its bridge knows; a monitor's may be a mirror's output instead."""
    crossed = {crossing.bridge for crossing in topology.crossings}
    used = {(c.bridge, end) for c in topology.crossings for end in (c.in_port, c.out_port)}
    copied_to = {port.name for port in topology.ports if port.role is PortRole.MONITOR}
    copied_to |= {mirror.output for mirror in topology.mirrors if mirror.output is not None}
    for bridge, port in all_ports(topology):
        if bridge in crossed and (bridge, port) not in used and port not in copied_to:
            return (
                f"port {port!r} is dangling: bridge {bridge!r} has crossings, and none uses it, so no frame would pass "
                f"it; lead a path over the port, such as path(..., {port!r}, ...), leave out {_maker(topology, port)}, "
                f"or give {bridge!r} no path at all: then it learns MAC addresses"
            )
    return None


def _maker(topology: Topology, port: str) -> str:
    """The part that made a port, as its author wrote it."""
    patch = next((link for link in topology.patches if port in {link.port_a, link.port_b}), None)
    if patch is not None:
        return f"patch({patch.bridge_a!r}, {patch.bridge_b!r})"
    veth = next((link for link in topology.veths if port in {link.port_a, link.port_b}), None)
    return f"veth({veth.bridge_a!r}, {veth.bridge_b!r})" if veth is not None else "the part that makes it"


def _wrong_mac(topology: Topology) -> str | None:
    macs = [
        *((f"port {port.name!r}", mac) for port in topology.ports for mac in (port.mac, port.eth_peer)),
        *((f"interface {nic.name!r} of namespace {nic.namespace!r}", nic.mac) for nic in topology.nics),
    ]
    for where, mac in macs:
        if mac is None:
            continue
        if not _MAC.fullmatch(mac):
            return f"{where}: {mac!r} is not a MAC address, such as 02:00:00:00:00:01"
        if int(mac[:2], 16) & 1:
            return f"{where}: {mac} is a group's address; the first byte must be even, such as 02"
    return None


def _behind_nothing(topology: Topology) -> str | None:
    endpoints = {port.name for port in topology.ports if port.role is PortRole.ENDPOINT}
    taken: set[str] = set()
    for one in topology.behind:
        where = f"interface {one.name!r} of namespace {one.namespace!r}"
        if one.port not in endpoints:
            return f"{where} is behind {one.port!r}, which is not an endpoint"
        if one.port in taken:
            return f"{where}: there is another one behind {one.port!r}, and it cannot have two"
        if one.vlan is not None and one.vlan not in _VLANS:
            return f"{where}: VLAN {one.vlan} is not in 1..4094"
        taken.add(one.port)
    return None


def _wrong_address(topology: Topology) -> str | None:
    for nic in topology.interfaces:
        for address in nic.addresses:
            try:
                network = ipaddress.ip_interface(address)
            except ValueError:
                network = None
            if network is None or "/" not in address:
                return f"interface {nic.name!r}: {address!r} is not an address with a prefix, such as 10.1.0.1/24"
    return None


def _wrong_route(topology: Topology) -> str | None:
    for namespace in topology.namespaces:
        nics = [nic for nic in topology.interfaces if nic.namespace == namespace.name]
        networks = [ipaddress.ip_interface(address).network for nic in nics for address in nic.addresses]
        for destination, gateway in namespace.routes:
            try:
                ipaddress.ip_network(destination)
                via = ipaddress.ip_address(gateway)
            except ValueError as error:
                return f"namespace {namespace.name!r}: route to {destination!r} by {gateway!r}: {error}"
            if not any(via in network for network in networks):
                return f"namespace {namespace.name!r}: gateway {gateway} is on none of its networks"
    return None


def _vlans(topology: Topology) -> Iterable[tuple[str, Vlan]]:
    parts = [
        *((port.name, port.vlan) for port in topology.ports),
        *((nic.port, nic.vlan) for nic in topology.nics),
        *((patch.port_a, patch.vlan) for patch in topology.patches),
        *((veth.port_a, veth.vlan) for veth in topology.veths),
    ]
    return [(name, vlan) for name, vlan in parts if vlan is not None]


def _wrong_vlan(topology: Topology) -> str | None:
    for name, vlan in _vlans(topology):
        for number in (*(() if vlan.tag is None else (vlan.tag,)), *vlan.trunks):
            if number not in _VLANS:
                return f"port {name!r}: VLAN {number} is not in 1..4094"
    return None


def _wrong_mtu(topology: Topology) -> str | None:
    sized = [
        *((port.name, port.mtu) for port in topology.ports),
        *((nic.port, nic.mtu) for nic in topology.nics),
        *((link.port_a, link.mtu) for link in _kernel_links(topology)),
        *((tunnel.port, tunnel.mtu) for tunnel in topology.tunnels),
    ]
    for name, mtu in sized:
        if mtu < _LEAST_MTU:
            return f"port {name!r}: MTU {mtu} is below {_LEAST_MTU}"
        if mtu > _MOST_MTU:
            return f"port {name!r}: MTU {mtu} is above {_MOST_MTU}"
    return None


def _tunnel_overhead(topology: Topology) -> str | None:
    for tunnel in topology.tunnels:
        room = tunnel.underlay_mtu - encapsulation_bytes(tunnel.kind, tunnel.local)
        if tunnel.mtu > room:
            return (
                f"tunnel {tunnel.port!r}: MTU {tunnel.mtu} does not fit, {tunnel.kind} over an underlay of "
                f"{tunnel.underlay_mtu} leaves {room}"
            )
        behind = [nic for nic in topology.nics if nic.bridge == tunnel.bridge and nic.mtu > tunnel.mtu]
        if behind:
            return (
                f"interface {behind[0].name!r} has MTU {behind[0].mtu}, tunnel {tunnel.port!r} on its bridge "
                f"carries {tunnel.mtu}"
            )
    return None
