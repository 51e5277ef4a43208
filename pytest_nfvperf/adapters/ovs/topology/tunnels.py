"""Tunnel ports, and the address of the DUT's own end in the underlay.

Userspace OVS sends what it has encapsulated by a bridge whose local port has the tunnel's local address (OVS
howto "userspace tunneling"); the kernel's routes it by the same interface. So the underlay is the bridge of
the topology that the remote end is joined to: a namespace's interface with an address in the same network, a node's
uplink, or a generator's port, which answers no ARP and is told of by hand.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.links import Tunnel, TunnelKind
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology

_PREFIXES = {4: 24, 6: 64}
"""Of the network that both ends of a tunnel are in, by the version of IP."""


@dataclass(frozen=True, slots=True)
class Underlay:
    """Where a tunnel's outer frames go.

    Attributes:
        bridge: whose local port gets the address.
        address: the tunnel's local one with its prefix length, "172.31.0.1/24".
        neighbour: MAC of the remote end, where that is a generator's port.
    """

    bridge: str
    address: str
    neighbour: str | None = None


def tunnel_port(tunnel: Tunnel, *, in_kernel: bool) -> OvsPort:
    """A tunnel as a port of its bridge. ``in_kernel``: the kernel's datapath has it, whose GRE over IPv6 is another."""
    key = str(tunnel.key) if tunnel.keys == 1 else "flow"
    options = {"local_ip": tunnel.local, "remote_ip": tunnel.remote, "key": key}
    over_6 = ipaddress.ip_address(tunnel.remote).version == 6
    kind = "ip6gre" if in_kernel and over_6 and tunnel.kind is TunnelKind.GRE else str(tunnel.kind)
    return OvsPort(tunnel.port, tunnel.bridge, tunnel.port, kind, options, has_link=False)


def underlay(topology: Topology, tunnel: Tunnel) -> Underlay:
    """The underlay of a tunnel; ConfigError unless exactly one bridge of the topology leads to the remote end."""
    local = ipaddress.ip_address(tunnel.local)
    for nic in topology.nics:
        for network in (ipaddress.ip_interface(address).network for address in nic.addresses):
            if nic.bridge != tunnel.bridge and local in network:
                return Underlay(nic.bridge, f"{local}/{network.prefixlen}")
    own = f"{local}/{_PREFIXES[local.version]}"
    uplink = next((port for port in topology.ports if port.role is PortRole.UPLINK), None)
    if uplink is not None:
        return Underlay(uplink.bridge, own)
    with_tunnels = {other.bridge for other in topology.tunnels}
    ends = [port for port in topology.ports if port.role is PortRole.ENDPOINT and port.bridge not in with_tunnels]
    if len({port.bridge for port in ends}) != 1:
        raise ConfigError(
            f"tunnel {tunnel.port!r}: no bridge of topology {topology.name!r} leads to {tunnel.remote}; join to "
            f"another bridge a namespace's interface with an address in {tunnel.local}'s network, or a generator's port"
        )
    return Underlay(ends[0].bridge, own, ends[0].mac)
