"""A topology drawn in text, for the terminal, bridge by bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from textwrap import wrap

from pytest_nfvperf.model.testbed.lab_cables import topology_cables
from pytest_nfvperf.model.testbed.testbed import ON_DPDK, Testbed
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.links import Patch, Tunnel, Underlay, VethLink
from pytest_nfvperf.model.topology.ports import (
    DEFAULT_MTU,
    HostNic,
    Namespace,
    Nic,
    Port,
    PortKind,
    PortRole,
    Vlan,
    VnfKind,
)
from pytest_nfvperf.model.topology.topology import Topology, bridge_of, node_of_bridge

WIDTH = 100
"""Columns of a drawing; a longer line is continued on the next."""
_MOST_PORTS, _MOST_BRIDGES = 12, 9
"""Of one bridge, and of a topology; the rest is counted."""
_MOST_VLANS = 6
_DESTINATIONS = {"0.0.0.0/0": "default route", "::/0": "default route"}
_NO_KINDS: Kinds = {}
_OFFLOADS = {"tso": "TSO", "gso": "GSO", "gro": "GRO", "tx_checksum": "tx checksum", "rx_checksum": "rx checksum"}


def topology_text(topology: Topology, *, datapath: str = "", kinds: Kinds = _NO_KINDS) -> str:
    """The drawing, without a newline at its end.

    ``datapath``: what it is built on; "" where that is not known. ``kinds``: what its ports for generator and VNFs are.
    """
    head = " · ".join(text for text in (topology.name, datapath, describe_directions(topology)) if text)
    body = [
        line
        for bridge in _shortened(topology.bridges, "bridges", _MOST_BRIDGES)
        for line in _bridge(topology, bridge, kinds)
    ]
    routes = [f"{namespace_words(n)}: {'; '.join(route_words(n))}" for n in topology.namespaces if n.routes]
    body += _shortened(routes, "more")
    lines = [*_folded(head, WIDTH), *(f"  {part}" for line in body for part in _folded(line, WIDTH - 2))]
    return "\n".join(lines)


def _folded(line: str, width: int) -> list[str]:
    """The line on as many as it needs; what continues is indented, and the tree's trunk goes on beside it."""
    trunk = "│" if line.startswith("├") else " "
    return wrap(line, width, subsequent_indent=f"{trunk}     ", break_long_words=False, break_on_hyphens=False)


def _bridge(topology: Topology, bridge: str, kinds: Kinds) -> list[str]:
    if bridge not in topology.bridges:
        return [bridge]  # it says how many were left out
    crossed = any(crossing.bridge == bridge for crossing in topology.crossings)
    rows = _shortened(_rows(topology, bridge, kinds), "ports")
    marks = ["├─"] * (len(rows) - 1) + ["└─"] * bool(rows)
    own = _shortened([line for one in topology.rules if one.bridge == bridge for line in one.flows], "more")
    mirrors = [
        f"mirror {mirror.name} -> {mirror.output or f'VLAN {mirror.output_vlan}'}: {mirror_words(mirror)}"
        for mirror in topology.bridge_mirrors(bridge)
    ]
    limiters = [str(one) for one in topology.limiters if bridge_of(topology, one) == bridge]
    limiters += [str(one) for one in topology.connections if one.bridge == bridge]
    below = [f"   {line}" for line in (*_flows(topology, bridge), *mirrors, *limiters, *own)]
    lines = [f"{mark} {row}" for mark, row in zip(marks, rows, strict=True)]
    node = node_of_bridge(topology).get(bridge)
    on_node = "" if node is None else f", on {node}"
    rules = "".join(f"; {one}" for one in topology.rules if one.bridge == bridge and one.learns)
    return [f"{bridge}{on_node}" if crossed else f"{bridge}{on_node} (learns MAC addresses{rules})", *lines, *below]


def _rows(topology: Topology, bridge: str, kinds: Kinds) -> list[str]:
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
    cells += [
        (end.port, link.kind, ", ".join([f"to {end.peer_bridge} {end.peer_port}", *extras(link)]))
        for link in topology.links
        for end in link.ends
        if end.bridge == bridge
    ]
    cells += [(t.port, str(t.kind), tunnel_words(t)) for t in topology.tunnels if t.bridge == bridge]
    wide = [max((len(cell[column]) for cell in cells), default=0) for column in (0, 1)]
    return [f"{name:{wide[0]}}  {kind:{wide[1]}}  {what}".rstrip() for name, kind, what in cells]


def _flows(topology: Topology, bridge: str) -> list[str]:
    """``p0 <-> v1a`` for a pair of crossings, ``p0 -> m0`` for a single one, a line for all of a bridge."""
    crossed = [(c.in_port, c.out_port) for c in topology.crossings if c.bridge == bridge]
    pairs = {frozenset(pair): pair for pair in reversed(crossed)}  # the first of two that are each other's reverse
    arrows = [f"{a} {'<->' if (b, a) in crossed else '->'} {b}" for a, b in reversed(pairs.values())]
    return [", ".join(_shortened(arrows, "more"))] if arrows else []


def _shortened(lines: Sequence[str], what: str, most: int = _MOST_PORTS) -> list[str]:
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 2], f"… {len(lines) - most + 1} {what} …", lines[-1]]


# How the parts of a topology are called in drawings, in one line each.


Kinds = Mapping[str, str]
"""What the ports for generator and VNFs are on the DUT, by name: vhost-user, veth, physical, ..."""


def port_kinds(topology: Topology, datapath: str, testbed: Testbed) -> dict[str, str]:
    """What each port is on this datapath: as the topology says, or what the testbed has for it."""
    cabled = topology_cables(testbed, topology)
    own = "vhost-user" if datapath in ON_DPDK else "veth"
    return {
        port.name: str(port.kind) if port.kind is not PortKind.TESTBED else ("physical" if port.name in cabled else own)
        for port in topology.ports
        if port.kind is not PortKind.TESTBED or "+" not in datapath  # nodes of several: "port" is all that is known
    }


def kind_of(port: Port, kinds: Kinds) -> str:
    return kinds.get(port.name, "port" if port.kind is PortKind.TESTBED else str(port.kind))


def extras(part: Port | Nic | Patch | VethLink | Underlay | HostNic) -> list[str]:
    """What is not as usual: MTU, VLANs, queues, offloads; of a patch nothing."""
    if isinstance(part, Patch):
        return []
    said = [] if part.mtu == DEFAULT_MTU else [f"MTU {part.mtu}"]
    if isinstance(part, Underlay):
        return said + ([] if part.line_rate_bps is None else [f"{part.line_rate_bps / 1e9:g} Gbps"])
    if isinstance(part, HostNic):
        return said if part.vlan is None else [*said, f"VLAN {part.vlan}"]
    said += _vlan(part.vlan)
    if not isinstance(part, VethLink) and part.queues > 1:
        said.append(f"{part.queues} queues")
    if not isinstance(part, Port):  # those that stay as they are, not
        offloads = {_OFFLOADS[field.name]: getattr(part.offloads, field.name) for field in fields(part.offloads)}
        said += [f"{name} {'on' if value else 'off'}" for name, value in offloads.items() if value is not None]
    return said


def _vlan(vlan: Vlan | None) -> list[str]:
    if vlan is None:
        return []
    said = [] if vlan.tag is None else [f"VLAN {vlan.tag}"]
    numbers = [str(number) for number in vlan.trunks[:_MOST_VLANS]]
    more = [f"{len(vlan.trunks) - _MOST_VLANS} more"] if len(vlan.trunks) > _MOST_VLANS else []
    return said + ([f"trunk {', '.join(numbers + more)}"] if numbers else [])


def role_words(port: Port) -> str:
    """``generator``, ``monitor``, ``VNF v1, io``, ``VNF vm1 (testpmd), mac, sends to 02:4e:46:00:00:02``."""
    if port.role is PortRole.MONITOR:
        return "monitor that does not read" if port.unread else "monitor"
    said = [port.owner]
    if port.role is PortRole.FORWARDER:
        kind = "" if port.vnf_kind is VnfKind.TESTBED else f" ({port.vnf_kind})"
        said = [f"VNF {port.owner}{kind}", str(port.vnf_mode)]
    if port.members:
        said.append(f"bond of {', '.join(port.members)} ({port.bond_mode}{'' if port.lacp == 'off' else ', LACP'})")
    learnt = port.peer in {None, port.name}  # else a flow leads them, whatever their address
    return ", ".join([*said, f"sends to {port.eth_peer}"] if port.eth_peer and learnt else said)


def nic_words(nic: Nic | HostNic) -> str:
    """``eth0 198.18.0.1/24``, with what is not as usual."""
    return ", ".join([" ".join([nic.name, *nic.addresses]), *extras(nic)])


def port_words(topology: Topology, port: Port) -> str:
    """``generator, MTU 9000, behind it namespace bird: eth0 12.12.12.2/30, VLAN 177``."""
    hosts = [one for one in topology.behind if one.port == port.name]
    behind = [f"behind it namespace {one.namespace}: {nic_words(one)}" for one in hosts]
    return ", ".join([role_words(port), *extras(port), *behind])


def namespace_words(namespace: Namespace) -> str:
    """``namespace left`` or ``router r``."""
    return f"{'router' if namespace.routing else 'namespace'} {namespace.name}"


def route_words(namespace: Namespace) -> list[str]:
    """``default route by 10.1.0.254``, ``route to 10.3.0.0/24 by 10.1.0.253``."""
    return [
        f"{_DESTINATIONS.get(destination, f'route to {destination}')} by {gateway}"
        for destination, gateway in namespace.routes
    ]


def tunnel_words(tunnel: Tunnel) -> str:
    """``vxlan 7 from 10.0.0.1 to 10.0.0.2, MTU 1450``."""
    return f"{tunnel.kind} {tunnel.keys_text} from {tunnel.local} to {tunnel.remote}, MTU {tunnel.mtu}"


def mirror_words(mirror: Mirror) -> str:
    """What is copied: ``every frame``, ``from p0, to p1, in VLAN 7, first 64 bytes, by flows``."""
    said = [f"from {', '.join(mirror.select_src)}"] if mirror.select_src else []
    said += [f"to {', '.join(mirror.select_dst)}"] if mirror.select_dst else []
    said = ["every frame"] if mirror.select_all or not said else said
    said += [f"in VLAN {', '.join(map(str, mirror.select_vlan))}"] if mirror.select_vlan else []
    said += [f"first {mirror.snaplen} bytes"] if mirror.snaplen is not None else []
    said += ["by flows"] if mirror.by is MirrorMethod.FLOW else []
    return ", ".join(said)


def describe_directions(topology: Topology) -> str:
    """``p0 and p1 send to each other``; "" where nothing is sent by the generator."""
    pairs = [(direction.tx, direction.rx) for direction in topology.directions]
    if len(pairs) == 2 and pairs[0] == pairs[1][::-1]:
        return f"{pairs[0][0]} and {pairs[0][1]} send to each other"
    return ", ".join(f"{tx} sends to {rx}" for tx, rx in pairs)
