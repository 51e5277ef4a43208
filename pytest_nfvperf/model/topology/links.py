"""What joins two bridges: patch ports, a veth pair, a tunnel, an underlay; and how frames cross a bridge."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pytest_nfvperf.model.choice import Choice
from pytest_nfvperf.model.topology.nodes import AS_IT_IS, DEFAULT_MTU, Offloads, Vlan


@dataclass(frozen=True, slots=True)
class Crossing:
    """Frames entering ``bridge`` by ``in_port`` leave it by ``out_port`` (an OpenFlow flow)."""

    bridge: str
    in_port: str
    out_port: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch-port pair between two bridges, by the ports' names."""

    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str
    vlan: Vlan | None = None


@dataclass(frozen=True, slots=True)
class VethLink:
    """A veth pair between two bridges, by the names of its ends, which the kernel limits to 15 bytes.

    ``mtu`` (bytes without Ethernet header and FCS) and ``offloads`` are those of both ends.
    """

    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str
    mtu: int = DEFAULT_MTU
    offloads: Offloads = AS_IT_IS
    vlan: Vlan | None = None


class TunnelKind(Choice):
    """Encapsulations, by OVS's names of interface types."""

    VXLAN = "vxlan"
    GENEVE = "geneve"
    GRE = "gre"


ENCAPSULATION_BYTES = {TunnelKind.VXLAN: 50, TunnelKind.GENEVE: 50, TunnelKind.GRE: 42}
"""What an encapsulation over IPv4 adds to the underlay's packet, inner Ethernet header included:
IP 20, UDP 8, VXLAN or Geneve (without options) 8, Ethernet 14; GRE with a key 8 in place of 16."""

_LONGER_IPV6_HEADER = 20
"""RFC 8200, 40 bytes, less IPv4's 20."""


def encapsulation_bytes(kind: TunnelKind, address: str) -> int:
    """What an encapsulation between such addresses adds to the underlay's packet, inner Ethernet header included.

    Raises:
        ValueError: no IP address.
    """
    longer = _LONGER_IPV6_HEADER if ipaddress.ip_address(address).version == 6 else 0
    return ENCAPSULATION_BYTES[kind] + longer


@dataclass(frozen=True, slots=True)
class Underlay:
    """The link between two nodes: its ends are ports of a bridge on each.

    ``mtu``: bytes without Ethernet header and FCS. ``line_rate_bps``: layer-1 bit/s each way; None: the testbed's.
    """

    bridge_a: str
    port_a: str
    bridge_b: str
    port_b: str
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
        underlay_mtu: of the way between the tunnel's ends.
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
