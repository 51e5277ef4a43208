"""What an overlay puts on the underlay between two nodes, byte for byte: captured there, and computed by scapy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.nodes_datapath import BuiltNodes, NodesDatapath
from pytest_nfvperf.adapters.ovs.ovsdb import value_of
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import compose, node
from pytest_nfvperf.model.topology.links import TunnelKind, encapsulation_bytes
from pytest_nfvperf.model.topology.parts import namespace, tunnel, underlay
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import NODES
from tests.functional.ovs_support import needs_root, some_tunnels, testbed, until

pytestmark = needs_root

KEY = 0x123456
OUTER = {4: ("172.31.0.1", "172.31.0.2"), 6: ("fd00:1f::1", "fd00:1f::2")}
MARK = b"a frame of pod1"
PORTS = {TunnelKind.VXLAN: 4789, TunnelKind.GENEVE: 6081}


@pytest.fixture(scope="module")
def nodes(journal: Journal) -> Iterator[NodesDatapath]:
    datapath = NodesDatapath.start(testbed("netdev"), journal, Dut(nodes=NODES), name="frames")
    yield datapath
    datapath.close()


def pods(kind: TunnelKind, ip: int) -> Topology:
    """A namespace on each node, and a tunnel between them."""

    def side(number: int):
        local, remote = OUTER[ip] if number == 1 else OUTER[ip][::-1]
        pod = namespace(
            f"pod{number}", f"int{number}", f"10.1.0.{number}/24", mac=f"02:00:00:00:00:0{number}", mtu=1400
        )
        return node(
            f"node{number}",
            pod,
            tunnel(f"int{number}", local=local, remote=remote, kind=kind, key=KEY, port=f"tun{number}"),
            f"phy{number}",
        )

    return compose(f"frames-{kind}-{ip}", side(1), side(2), underlay("phy1", "phy2", ports=("up1", "up2")))


def inner() -> bytes:
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return bytes(ether / IP(src="10.1.0.1", dst="10.1.0.2") / UDP(sport=7, dport=9) / Raw(MARK))


def send(frame: bytes) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("eth0", 0))
        raw.send(frame)


def mac_of(built: BuiltNodes, number: int) -> str:
    db = built.node(f"node{number}").instance.db
    db.refresh()
    return str(value_of(db.rows("Interface")[f"phy{number}"].mac_in_use))


def expected(built: BuiltNodes, kind: TunnelKind, ip: int, source_port: int) -> bytes:
    """RFC 7348, 8926, 2890: all of it but the UDP source port, which is a hash of the inner headers."""
    local, remote = OUTER[ip]
    protocol = 47 if kind is TunnelKind.GRE else 17
    outer: Packet = (
        IP(src=local, dst=remote, id=0, flags="DF", ttl=64, proto=protocol)
        if ip == 4
        else IPv6(src=local, dst=remote, hlim=64, nh=protocol)
    )
    if kind is TunnelKind.GRE:
        shim: Packet = GRE(key_present=1, key=KEY, proto=0x6558)
    else:
        checksum = {"chksum": 0} if ip == 4 else {}  # RFC 6935: over IPv6 there is one unless both ends agree
        udp = UDP(sport=source_port, dport=PORTS[kind], **checksum)
        vni = VXLAN(flags="Instance", vni=KEY) if kind is TunnelKind.VXLAN else GENEVE(vni=KEY, proto=0x6558)
        shim = udp / vni
    return bytes(Ether(src=mac_of(built, 1), dst=mac_of(built, 2)) / outer / shim / Raw(inner()))


@pytest.mark.parametrize(("kind", "ip"), some_tunnels())
def test_the_outer_frame_is_what_the_rfcs_say(nodes: NodesDatapath, kind: TunnelKind, ip: int) -> None:
    built = nodes.build(pods(kind, ip))
    try:
        built.wait_ready(5)
        with closing(HostCapture(nodes.node("node2").instance.home.name, "up2")) as capture:
            capture.start()
            inside(Path("/run/netns") / built.netns("pod1"), partial(send, inner()))
            arrived = nodes.node("node2").collector
            assert until(lambda: arrived.snapshot().as_dict().get("tun2.rx_packets", 0) >= 1)
            frames = [frame for frame in capture.stop().samples if MARK in frame]
        (frame,) = frames
        source_port = 0 if kind is TunnelKind.GRE else Ether(frame)[UDP].sport
        assert frame == expected(built, kind, ip, source_port)
        assert len(frame) - len(inner()) == encapsulation_bytes(kind, OUTER[ip][0]), "what line_rate_fps() counts"
        if kind is not TunnelKind.GRE:
            assert source_port >= 32768
    finally:
        built.close()
