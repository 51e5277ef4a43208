"""Frames of any kind over topologies: what goes in at one end comes out at the other, byte for byte."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.topology.compose import bridge_chain, compose, phy2phy, pvp
from pytest_nfvperf.model.topology.parts import endpoint, patch, path, veth
from pytest_nfvperf.model.topology.topology import Topology
from tests.functional.ovs_support import far_ends, needs_root

pytestmark = needs_root

SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL, VLAN_VALID, TPID_VALID = 263, 8, 3, 1 << 4, 1 << 6
INNER = IP(src="198.18.0.1", dst="198.19.0.1") / UDP(sport=1, dport=7)
KINDS: dict[str, Packet] = {
    "tcp": IP(src="198.18.0.1", dst="198.19.0.1") / TCP(),
    "vlan": Dot1Q(vlan=5) / INNER,
    "qinq": Dot1AD(vlan=10) / Dot1Q(vlan=20) / INNER,
    "qinq-8100": Dot1Q(vlan=10) / Dot1Q(vlan=20) / INNER,
    "mpls": MPLS(label=16, s=0, ttl=9) / MPLS(label=17, s=1, ttl=9) / INNER,
    "arp": ARP(psrc="198.18.0.1", pdst="198.19.0.1"),
    "multicast": INNER,
    "ipv6-extensions": IPv6(src="2001:2::1", dst="2001:2::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP(),
    "gtp-u": IP(src="192.0.2.1", dst="192.0.2.2") / UDP() / GTP_U_Header(teid=7) / INNER,
    "geneve": IP(src="192.0.2.1", dst="192.0.2.2") / UDP() / GENEVE(vni=7) / Ether() / INNER,
    "gre": IP(src="192.0.2.1", dst="192.0.2.2") / GRE() / INNER,
    "icmp": IP(src="198.18.0.1", dst="198.19.0.1") / ICMP(),
    "fragment": IP(src="198.18.0.1", dst="198.19.0.1", frag=3, flags="MF", proto=17) / Raw(bytes(40)),
    "own-type": Raw(bytes(60)),
}


@pytest.fixture
def build(ovs: OvsDatapath) -> Iterator[Callable[[Topology], BuiltOvsTopology]]:
    def built(topology: Topology) -> BuiltOvsTopology:
        made = ovs.build(topology)
        made.wait_ready(5)
        return made

    yield built
    ovs.remove_topologies()


@contextmanager
def listening(interface: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as raw:
        raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        raw.bind((interface, ETH_P_ALL))
        raw.settimeout(0.2)
        yield raw


def received(raw: socket.socket) -> bytes:
    """The next frame that came in, with the tag that the kernel took off (packet(7), PACKET_AUXDATA)."""
    data, auxiliary, _, address = raw.recvmsg(65536, 64)
    if address[2] == socket.PACKET_OUTGOING:
        return b""
    for level, kind, content in auxiliary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", content)
            if status & VLAN_VALID:
                data = data[:12] + struct.pack("!HH", tpid if status & TPID_VALID else 0x8100, tci) + data[12:]
    return data


def framed(name: str, source: str, destination: str) -> bytes:
    inside = KINDS[name]
    kind = {"type": 0x88B5} if name == "own-type" else {}
    destination = "01:00:5e:01:02:03" if name == "multicast" else destination
    return bytes(Ether(src=source, dst=destination, **kind) / inside / Raw(b"mark" + bytes(40)))


def arrives(frame: bytes, near: str, far: str) -> bytes | None:
    with listening(far) as there, listening(near) as here:
        here.send(frame)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            try:
                got = received(there)
            except TimeoutError:
                continue
            if b"mark" in got or got == frame:
                return got
    return None


TOPOLOGIES = {
    "phy2phy": phy2phy(),
    "patches": bridge_chain(3),
    "veths": bridge_chain(2, link="veth"),
    "learning": compose("learning", endpoint("p0", "br0"), endpoint("p1", "br0")),
    "learning-patched": compose("lp", endpoint("p0", "brA"), patch("brA", "brB"), endpoint("p1", "brB")),
    "access": compose("access", endpoint("p0", "br0", vlan=7), endpoint("p1", "br0", vlan=7)),
    "access-path": compose("ap", endpoint("p0", "br0", vlan=7), endpoint("p1", "br0", vlan=7), path("p0", "p1")),
    "pvp": pvp(),
}


@pytest.mark.parametrize("shape", TOPOLOGIES)
def test_explore(build, shape):
    topology = TOPOLOGIES[shape]
    built = build(topology)
    ends = dict(zip((one.port for one in built.attachments()), far_ends(built)))
    macs = {port.name: port.mac for port in topology.ports}
    for a, b in ((("p0", "v1a"), ("v1b", "p1")) if "v1a" in ends else (("p0", "p1"),)):
        for name in KINDS:
            frame = framed(name, "02:4e:46:00:00:10", "02:4e:46:00:00:11")
            got = arrives(frame, ends[a], ends[b])
            print(shape, a, b, name, "same" if got == frame else got and got.hex())
