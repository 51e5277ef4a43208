"""How the parts of a topology are called in drawings, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from pytest_nfvperf.model.testbed.lab_cables import ends_of
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.bridges import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.links import Tunnel, Underlay, VethLink
from pytest_nfvperf.model.topology.ports import (
    DEFAULT_MTU,
    Behind,
    Namespace,
    Nic,
    Offloads,
    Port,
    PortKind,
    PortRole,
    Vlan,
    VnfKind,
)
from pytest_nfvperf.model.topology.topology import Topology

Kinds = Mapping[str, str]
"""What the ports for generator and VNFs are on the DUT, by name: vhost-user, veth, physical, ..."""


_MOST_VLANS = 6
_DESTINATIONS = {"0.0.0.0/0": "default route", "::/0": "default route"}


def port_kinds(topology: Topology, datapath: str, testbed: Testbed) -> dict[str, str]:
    """What each port is on this datapath: as the topology says, or what the testbed has for it."""
    cabled = ends_of(testbed, topology)
    own = "vhost-user" if datapath == "dpdk" else "veth"
    return {
        port.name: str(port.kind) if port.kind is not PortKind.TESTBED else ("physical" if port.name in cabled else own)
        for port in topology.ports
        if port.kind is not PortKind.TESTBED or "+" not in datapath  # nodes of several: "port" is all that is known
    }


def kind_of(port: Port, kinds: Kinds) -> str:
    """What a port is; "port" where that is not known."""
    return kinds.get(port.name, "port" if port.kind is PortKind.TESTBED else str(port.kind))


def extras(part: Port | Nic | VethLink | Underlay | Behind) -> list[str]:
    """What is not as usual: MTU, VLANs, queues, offloads."""
    said = [] if part.mtu == DEFAULT_MTU else [f"MTU {part.mtu}"]
    if isinstance(part, Underlay):
        return said + ([] if part.line_rate_bps is None else [f"{part.line_rate_bps / 1e9:g} Gbps"])
    if isinstance(part, Behind):
        return said if part.vlan is None else [*said, f"VLAN {part.vlan}"]
    said += _vlan(part.vlan)
    if not isinstance(part, VethLink) and part.queues > 1:
        said.append(f"{part.queues} queues")
    if not isinstance(part, Port):
        said += _offloads(part.offloads)
    return said


def _vlan(vlan: Vlan | None) -> list[str]:
    if vlan is None:
        return []
    said = [] if vlan.tag is None else [f"VLAN {vlan.tag}"]
    numbers = [str(number) for number in vlan.trunks[:_MOST_VLANS]]
    more = [f"{len(vlan.trunks) - _MOST_VLANS} more"] if len(vlan.trunks) > _MOST_VLANS else []
    return said + ([f"trunk {', '.join(numbers + more)}"] if numbers else [])


def _offloads(offloads: Offloads) -> list[str]:
    """``TSO off``, ``tx checksum on``; those that stay as they are, not."""
    names = {"tso": "TSO", "gso": "GSO", "gro": "GRO", "tx_checksum": "tx checksum", "rx_checksum": "rx checksum"}
    given = {field.name: getattr(offloads, field.name) for field in fields(offloads)}
    return [f"{names[name]} {'on' if value else 'off'}" for name, value in given.items() if value is not None]


def role_words(port: Port) -> str:
    """``generator``, ``monitor``, ``VNF v1, io``, ``VNF vm1 (testpmd), mac, sends to 02:4e:46:00:00:02``."""
    if port.role is PortRole.MONITOR:
        return "monitor that does not read" if port.unread else "monitor"
    said = [port.owner]
    if port.role is PortRole.FORWARDER:
        kind = "" if port.vnf_kind is VnfKind.TESTBED else f" ({port.vnf_kind})"
        said = [f"VNF {port.owner}{kind}", str(port.vnf_mode)]
    learnt = port.peer in {None, port.name}  # else a flow leads them, whatever their address
    return ", ".join([*said, f"sends to {port.eth_peer}"] if port.eth_peer and learnt else said)


def nic_words(nic: Nic | Behind) -> str:
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


def directions_words(topology: Topology) -> str:
    """``p0 and p1 send to each other``; "" where nothing is sent by the generator."""
    pairs = [(direction.tx, direction.rx) for direction in topology.directions]
    if len(pairs) == 2 and pairs[0] == pairs[1][::-1]:
        return f"{pairs[0][0]} and {pairs[0][1]} send to each other"
    return ", ".join(f"{tx} sends to {rx}" for tx, rx in pairs)
