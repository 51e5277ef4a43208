"""Headers of test frames: how long they are, and the VXLAN that can be around a frame (RFC 7348)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

from pytest_nfvperf.model.arguments import IP, MAC, checked, whole
from pytest_nfvperf.model.errors import ConfigError

HEADER_BYTES = 14
"""Ethernet: two MAC addresses and the type."""

VLAN_TAG_BYTES = 4
UDP_BYTES = 8
IP_BYTES = {4: 20, 6: 40}
"""By IP version; without options and extension headers."""

VXLAN_BYTES = 8
VXLAN_PORT = 4789
"""RFC 7348 section 5: the outer UDP destination port."""

VXLAN_SOURCE_PORTS = range(49152, 65536)
"""RFC 7348 section 5: the dynamic range, of which the outer UDP source port is taken."""

_MAX_VNI = (1 << 24) - 1


def ip_version(address: str) -> int:
    """4 or 6; ConfigError for what is no IP address."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError as error:
        raise ConfigError(f"{address!r} is no IPv4 or IPv6 address") from error


def same_ip_version(name: str, address: str, other_name: str, other: str) -> None:
    """Raise ConfigError for two addresses that cannot be those of one packet."""
    if ip_version(address) != ip_version(other):
        raise ConfigError(
            f"{name} {address} is IPv{ip_version(address)}, and {other_name} {other} is IPv{ip_version(other)}: "
            "write two of one version"
        )


@checked(vni=whole(0, _MAX_VNI), src_ip=IP, dst_ip=IP, inner_src_mac=MAC, inner_dst_mac=MAC)
@dataclass(frozen=True, slots=True)
class Vxlan:
    """The VXLAN around every frame of a traffic (RFC 7348): outer IP and UDP, VXLAN, and the inner frame's Ethernet.

    Its outer UDP checksum is 0, over IPv6 too (RFC 6935 allows it for tunnels).

    Attributes:
        vni: VXLAN network identifier, 0..16777215.
        src_ip, dst_ip: of the tunnel's ends, both IPv4 or both IPv6; the other direction swaps them.
        inner_src_mac, inner_dst_mac: of the inner frame; on the way back they change sides.
    """

    vni: int = 1
    src_ip: str = "192.0.2.1"
    dst_ip: str = "192.0.2.2"
    inner_src_mac: str = "02:00:00:00:0d:01"
    inner_dst_mac: str = "02:00:00:00:0d:02"

    def __post_init__(self) -> None:
        same_ip_version("VXLAN: src_ip", self.src_ip, "dst_ip", self.dst_ip)

    @property
    def ip_version(self) -> int:
        """4 or 6: of the outer addresses."""
        return ip_version(self.src_ip)

    @property
    def header_bytes(self) -> int:
        """What it adds to a frame: outer IP and UDP, VXLAN, inner Ethernet."""
        return IP_BYTES[self.ip_version] + UDP_BYTES + VXLAN_BYTES + HEADER_BYTES

    def reversed(self) -> Vxlan:
        """The VXLAN of the other direction."""
        return replace(
            self,
            src_ip=self.dst_ip,
            dst_ip=self.src_ip,
            inner_src_mac=self.inner_dst_mac,
            inner_dst_mac=self.inner_src_mac,
        )
