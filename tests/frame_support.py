"""Frames in scapy's hands."""

from __future__ import annotations

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet


def innermost(frame: Packet) -> Packet:
    """The frame in the VXLAN, or the frame itself."""
    return frame[VXLAN].payload if VXLAN in frame else frame


def ip_of(frame: Packet) -> Packet:
    """Its first IP header."""
    return frame[IPv6] if type(frame.payload) is IPv6 or type(frame.payload.payload) is IPv6 else frame[IP]


def rebuilt(data: bytes) -> bytes:
    """The same frame with all lengths worked out by scapy, and all checksums but those that UDP does not have."""
    layer = packet = Ether(data)
    while layer:
        for name in ("len", "plen", "chksum"):
            if layer.fields.get(name):
                del layer.fields[name]
        layer = layer.payload
    return bytes(packet)
