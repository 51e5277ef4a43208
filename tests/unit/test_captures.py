"""Captures as traffic: files that scapy writes, and frames that scapy parses."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, in4_chksum
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter, PcapWriter, wrpcap

from pytest_nfvperf import Traffic
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.captures import signature_layout, walk
from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_at
from pytest_nfvperf.model.traffic.packet import CapturedFrames, captured_frames
from tests.examples import examples

MACS = {"source_mac": "02:00:00:00:00:11", "destination_mac": "02:00:00:00:00:22"}
SIGNATURE = bytes(range(0xA1, 0xA1 + 14))
HERE = {"src": "10.1.0.1", "dst": "10.2.0.1"}
BACK = {"src": "10.2.0.1", "dst": "10.1.0.1"}
LAYERS = Ether(src="02:aa:00:00:00:01", dst="02:aa:00:00:00:02")


def dns_and_http() -> list[Packet]:
    """As a resolver's and a web server's: queries, answers, a handshake, requests and segments."""
    question = DNSQR(qname="www.example.com")
    answer = DNSRR(rrname="www.example.com", rdata="10.2.0.80")
    return [
        Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.1.0.1", pdst="10.1.0.254"),
        LAYERS / IP(**HERE) / UDP(sport=40001, dport=53) / DNS(id=7, qd=question),
        LAYERS / IP(**BACK) / UDP(sport=53, dport=40001) / DNS(id=7, qr=1, qd=question, an=answer),
        LAYERS / IP(**HERE) / TCP(sport=40002, dport=80, flags="S", options=[("MSS", 1460)]),
        LAYERS / IP(**BACK) / TCP(sport=80, dport=40002, flags="SA", options=[("MSS", 1460)]),
        LAYERS / IP(**HERE) / TCP(sport=40002, dport=80, flags="A"),
        LAYERS / IP(**HERE) / TCP(sport=40002, dport=80, flags="PA", seq=1) / b"GET / HTTP/1.1\r\nHost: www\r\n\r\n",
        LAYERS / IP(**BACK) / TCP(sport=80, dport=40002, flags="A", seq=1) / (b"<html>" * 243 + b"x"),
        LAYERS / IP(**BACK) / TCP(sport=80, dport=40002, flags="FA", seq=1461),
    ]


def gtp_u() -> list[Packet]:
    """As at an N3 interface: user packets in tunnels, some by QinQ, and an echo request of the path."""
    outer = LAYERS / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=2152, dport=2152)
    user = IP(**HERE) / UDP(sport=5000, dport=6000) / Raw(b"u" * 40)
    user6 = IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP() / Raw(b"6" * 30)
    return [
        *(outer / GTP_U_Header(teid=teid, gtp_type=255) / user for teid in range(1, 6)),
        outer / GTP_U_Header(teid=9, gtp_type=255) / IP(**HERE) / TCP(dport=443, flags="PA") / Raw(b"t" * 101),
        outer / GTP_U_Header(teid=9, gtp_type=255) / user6,
        outer / GTP_U_Header(teid=9, gtp_type=255) / IP(**HERE) / ICMP() / Raw(b"p" * 56),
        outer / GTP_U_Header(teid=0, gtp_type=1, seq=1, S=1),
        LAYERS / Dot1AD(vlan=10) / Dot1Q(vlan=20) / outer.payload / GTP_U_Header(teid=7, gtp_type=255) / user,
    ]


def iperf_with_jumbos() -> list[Packet]:
    """As of iperf: full segments of two MTUs, their acknowledgements with timestamps, and datagrams."""
    stamped = [("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]
    segment = TCP(dport=5201, flags="A", options=stamped) / Raw(b"j" * 8948)
    return [
        *(LAYERS / IP(**HERE) / segment for _ in range(4)),
        *(LAYERS / IP(**BACK) / TCP(sport=5201, flags="A", options=stamped) for _ in range(2)),
        *(LAYERS / IP(**HERE) / UDP(dport=5201) / Raw(b"d" * 1470) for _ in range(3)),
        LAYERS / IPv6(src="2001:db8::1", dst="2001:db8::2") / TCP(dport=5201, flags="A") / Raw(b"6" * 1428),
    ]


CAPTURES: dict[str, tuple[Callable[[], list[Packet]], int, dict[str, int]]] = {
    "dns_http": (dns_and_http, 5, {"TCP with less than 14 bytes of payload": 4}),
    "gtp_u": (gtp_u, 9, {"GTP-U signalling": 1}),
    "iperf": (iperf_with_jumbos, 8, {"TCP with less than 14 bytes of payload": 2}),
}


@pytest.fixture(params=CAPTURES)
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[Packet], int, dict[str, int]]:
    make, kept, left_out = CAPTURES[request.param]
    path = tmp_path / f"{request.param}.pcap"
    wrpcap(str(path), make())
    return path, make(), kept, left_out


def written(tmp_path: Path, *packets: Packet | bytes, name: str = "some.pcap") -> Path:
    path = tmp_path / name
    wrpcap(str(path), list(packets))
    return path


def program_of(frames: CapturedFrames, *, reverse: bool = False) -> FrameProgram:
    return frames.program((), (), **MACS, reverse=reverse)


def sent(frames: CapturedFrames, *, reverse: bool = False, signature: bytes = SIGNATURE) -> list[bytes]:
    program = program_of(frames, reverse=reverse)
    return [frame_at(program, number, signature) for number in range(len(program.order))]


def recomputed(frame: bytes) -> bytes:
    """What scapy builds of the frame's fields without its checksums, which it then computes."""
    packet = Ether(frame)
    layer: Any = packet
    while layer:
        if "chksum" in layer.fields and not (isinstance(layer, UDP) and layer.chksum == 0):
            del layer.chksum
        layer = layer.payload
    return bytes(packet)


def test_a_capture_is_sent_in_its_order_and_sizes(capture: Any):
    path, packets, kept, left_out = capture
    frames = captured_frames(path)

    assert dict(frames.left_out) == left_out
    assert frames.count == kept == len(packets) - sum(left_out.values())
    signable = [
        bytes(each) for each in packets if not isinstance(signature_layout(walk(padded(each)), len(padded(each))), str)
    ]
    assert [len(frame) for frame in sent(frames)] == [max(60, len(frame)) for frame in signable]
    assert Traffic(packet=frames).mean_frame_size == sum(max(60, len(each)) + 4 for each in signable) / kept


def padded(packet: Packet) -> bytes:
    return bytes(packet).ljust(60, b"\0")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rewrite", [False, True])
def test_every_checksum_is_what_scapy_computes_and_the_signature_is_there(capture: Any, rewrite: bool, reverse: bool):
    frames = captured_frames(capture[0], rewrite_addresses=rewrite)

    for frame in sent(frames, reverse=reverse):
        assert recomputed(frame) == frame
        assert frame.count(SIGNATURE) == 1


def test_frames_differ_from_the_capture_in_signature_macs_and_checksums_only(capture: Any):
    path, packets, _, _ = capture
    kept = [
        padded(each) for each in packets if not isinstance(signature_layout(walk(padded(each)), len(padded(each))), str)
    ]

    for was, now in zip(kept, sent(captured_frames(path)), strict=True):
        at = now.index(SIGNATURE)
        differing = [n for n in range(12, len(now)) if was[n] != now[n] and not at <= n < at + 14]
        layers = [layer for layer in Ether(was).layers() if layer in {TCP, UDP, ICMP, ICMPv6EchoRequest}]
        assert len(differing) <= 2 * len(layers)
        assert all(n < at for n in differing)


def test_mac_addresses_are_the_ports_and_broadcast_stays(tmp_path: Path):
    frames = captured_frames(written(tmp_path, *dns_and_http()))

    first, second, *_ = map(Ether, sent(frames))
    assert (first.src, first.dst) == (MACS["source_mac"], "ff:ff:ff:ff:ff:ff")
    assert (second.src, second.dst) == (MACS["source_mac"], MACS["destination_mac"])


def test_mac_addresses_can_stay(tmp_path: Path):
    frames = captured_frames(written(tmp_path, *gtp_u()), rewrite_macs=False)

    assert {(frame.src, frame.dst) for frame in map(Ether, sent(frames))} == {(LAYERS.src, LAYERS.dst)}
    assert {(frame.src, frame.dst) for frame in map(Ether, sent(frames, reverse=True))} == {(LAYERS.dst, LAYERS.src)}


def test_the_reverse_direction_swaps_every_layer_but_a_tunnels_ports(tmp_path: Path):
    path = written(tmp_path, *gtp_u())
    there, back = (Ether(sent(captured_frames(path), reverse=reverse)[0]) for reverse in (False, True))

    assert (back[IP].src, back[IP].dst) == (there[IP].dst, there[IP].src)
    assert (back[UDP].sport, back[UDP].dport) == (2152, 2152)
    assert (back[IP:2].src, back[IP:2].dst) == (there[IP:2].dst, there[IP:2].src)
    assert (back[UDP:2].sport, back[UDP:2].dport) == (6000, 5000)


def test_outermost_addresses_become_those_of_benchmarks_as_many_as_there_were(tmp_path: Path):
    hosts = [f"203.0.113.{n}" for n in (5, 9, 5, 7)]
    packets = [LAYERS / IP(src=src, dst="203.0.113.200") / UDP() / Raw(b"x" * 20) for src in hosts]
    six = LAYERS / IPv6(src="2001:db8::7", dst="2001:db8::8") / UDP() / Raw(b"x" * 20)
    frames = captured_frames(written(tmp_path, *packets, six), rewrite_addresses=True)

    *fours, last = map(Ether, sent(frames))
    assert [frame[IP].src for frame in fours] == ["198.18.0.1", "198.18.0.2", "198.18.0.1", "198.18.0.3"]
    assert {frame[IP].dst for frame in fours} == {"198.19.0.1"}
    assert (last[IPv6].src, last[IPv6].dst) == ("2001:2::1", "2001:2:0:8000::1")


def test_inner_addresses_are_not_rewritten(tmp_path: Path):
    frames = captured_frames(written(tmp_path, *gtp_u()), rewrite_addresses=True)

    first = Ether(sent(frames)[0])
    assert (first[IP].src, first[IP:2].src) == ("198.18.0.1", "10.1.0.1")


def test_vlans_of_a_capture(tmp_path: Path):
    assert Traffic.from_pcap(written(tmp_path, *gtp_u())).vlans == (0, 10)


STACKS = {
    "udp without checksum": LAYERS / IP(**HERE) / UDP(chksum=0) / Raw(b"p" * 30),
    "vxlan": LAYERS / IP(**HERE) / UDP(chksum=0) / VXLAN(vni=5) / LAYERS / IP(**BACK) / TCP() / Raw(b"p" * 30),
    "vxlan with a checksum": LAYERS / IP(**HERE) / UDP() / VXLAN(vni=5) / LAYERS / IP(**BACK) / UDP() / Raw(b"p" * 31),
    "geneve": LAYERS / IP(**HERE) / UDP() / GENEVE(vni=3) / LAYERS / IP(**BACK) / UDP(chksum=0) / Raw(b"p" * 30),
    "gre": LAYERS / IP(**HERE) / GRE(chksum_present=1) / IP(**BACK) / UDP(chksum=0) / Raw(b"p" * 30),
    "ip in ip": LAYERS / IP(**HERE) / IP(**BACK) / ICMP() / Raw(b"p" * 30),
    "mpls": LAYERS / MPLS(label=16, s=0) / MPLS(label=17, s=1) / IP(**HERE) / TCP() / Raw(b"p" * 17),
    "pseudowire": LAYERS / MPLS(label=16, s=1) / Raw(bytes(4)) / LAYERS / IP(**HERE) / TCP() / Raw(b"p" * 17),
    "extension headers": LAYERS / IPv6() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / TCP() / Raw(b"p" * 20),
    "echo request": LAYERS / IPv6(src="2001:db8::1", dst="2001:db8::2") / ICMPv6EchoRequest(data=b"p" * 20),
    "icmp": LAYERS / Dot1Q(vlan=3) / IP(**HERE) / ICMP(type=0) / Raw(b"p" * 20),
    "tcp options": LAYERS / IP(**HERE, options=[]) / TCP(options=[("MSS", 1460)]) / Raw(b"p" * 14),
}


@pytest.mark.parametrize("name", STACKS)
def test_checksums_of_every_stack_are_right_with_any_signature(name: str, tmp_path: Path):
    frames = captured_frames(written(tmp_path, STACKS[name]))

    assert len(frames.frames) == 1
    for signature in (bytes(14), b"\xff" * 14, SIGNATURE, random.Random(7).randbytes(14)):
        for reverse in (False, True):
            (frame,) = sent(frames, reverse=reverse, signature=signature)
            assert recomputed(frame) == frame


def test_padding_of_an_inner_frame_is_under_the_outer_checksum(tmp_path: Path):
    packet = LAYERS / IP(**HERE) / UDP() / VXLAN(vni=5) / Ether() / ARP() / Raw(bytes(18))
    (frame,) = sent(captured_frames(written(tmp_path, packet)))

    assert frame.index(SIGNATURE) == 14 + 20 + 8 + 8 + 14 + 28
    assert in4_chksum(17, Ether(frame)[IP], frame[34:]) == 0  # with the checksum that is in it


UNSIGNABLE = {
    "IPv4 fragment": LAYERS / IP(**HERE, flags="MF") / UDP() / Raw(b"p" * 64),
    "IP protocol 89": LAYERS / IP(**HERE, proto=89) / Raw(b"p" * 64),
    "SCTP (its CRC32c cannot be kept right)": LAYERS / IP(**HERE) / SCTP() / Raw(b"p" * 64),
    "ICMP type 3": LAYERS / IP(**HERE) / ICMP(type=3) / Raw(b"p" * 64),
    "EtherType 0x88cc": Ether(dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(b"p" * 64),
    "UDP with less than 14 bytes of payload": LAYERS / IP(**HERE) / UDP() / Raw(b"p" * 13) / Raw(bytes(5)),
    "LLC (an IEEE 802.3 length in place of a type)": Ether(dst="01:80:c2:00:00:00", type=38) / Raw(b"p" * 46),
    "IP packet that is longer than its frame": Ether(type=0x800) / Raw(b"\x45" + b"\xff" * 60),
    "IPv6 packet that is longer than its frame": LAYERS / IPv6(plen=900) / UDP() / Raw(b"p" * 64),
    "IP header that is incomplete": LAYERS / IP(len=0) / UDP() / Raw(b"p" * 64),
}


@pytest.mark.parametrize("name", UNSIGNABLE)
def test_what_cannot_be_signed_is_counted_by_class(name: str, tmp_path: Path):
    good = LAYERS / IP(**HERE) / UDP() / Raw(b"p" * 30)
    if name.startswith("UDP"):
        UNSIGNABLE[name][UDP].len = 21
        UNSIGNABLE[name][IP].len = 41
    frames = captured_frames(written(tmp_path, good, UNSIGNABLE[name], UNSIGNABLE[name]))

    assert frames.left_out == ((name, 2),)
    assert frames.text == (
        "1 frame of some.pcap: 1 Ether / IP / UDP; left out, because they cannot be signed: 2 " + name
    )


@pytest.mark.parametrize("port", [4789, 6081, 2152])
@pytest.mark.parametrize("payload", [b"", b"\x08", b"0000000"])
def test_a_datagram_to_a_tunnels_port_without_a_tunnel_is_no_broken_header(tmp_path: Path, port: int, payload: bytes):
    """Keepalives are such: the UDP header was called incomplete, and the tunnel's read from Ethernet's padding."""
    good = LAYERS / IP(**HERE) / UDP() / Raw(b"p" * 30)
    probes = [LAYERS / Dot1Q(vlan=2) / Dot1Q(vlan=3) / net / UDP(dport=port) / Raw(payload) for net in (IP(), IPv6())]
    frames = captured_frames(written(tmp_path, good, *probes, *probes))

    assert frames.left_out == (("UDP with less than 14 bytes of payload", 4),)


def test_a_short_frame_is_padded_and_signed_there(tmp_path: Path):
    (frame,) = sent(captured_frames(written(tmp_path, Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="10.0.0.1"))))

    assert len(frame) == 60
    assert frame[42:56] == SIGNATURE
    assert Ether(frame)[ARP].pdst == "10.0.0.1"


def test_a_senders_unfinished_checksums_are_made_right_or_sent_as_given(tmp_path: Path):
    path = written(tmp_path, LAYERS / IP(**HERE, chksum=0x1234) / TCP(chksum=0x4321) / Raw(b"p" * 40))

    (right,) = sent(captured_frames(path))
    (given_one,) = sent(captured_frames(path, checksums="as given"))
    assert recomputed(right) == right
    assert Ether(given_one)[IP].chksum == 0x1234


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STACKS)), st.integers(0, 1400)), min_size=1, max_size=12),
    st.binary(min_size=14, max_size=14),
    st.booleans(),
)
def test_any_mix_of_frames_keeps_its_checksums(tmp_path: Path, chosen: Any, signature: bytes, reverse: bool):
    packets = [STACKS[name].copy() for name, _ in chosen]
    for packet, (name, more) in zip(packets, chosen, strict=True):
        if name != "echo request":
            packet.getlayer(Raw, 2 if name == "pseudowire" else 1).load += b"m" * more
    frames = captured_frames(written(tmp_path, *packets))

    made = sent(frames, reverse=reverse, signature=signature)
    assert [len(frame) for frame in made] == [max(60, len(bytes(packet))) for packet in packets]
    assert [recomputed(frame) for frame in made] == made


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(min_size=0, max_size=120), st.sampled_from(sorted(STACKS)), st.integers(0, 100))
def test_any_bytes_are_walked_without_an_error(noise: bytes, name: str, cut: int):
    frame = bytes(STACKS[name])[:cut] + noise

    found = walk(frame)
    layout = signature_layout(found, len(frame))
    assert isinstance(layout, str) or 14 <= layout.signature <= len(frame) - 14


# Files.


def rows(path: Path) -> list[bytes]:
    return [bytes(frame) for frame in captured_frames(path).frames]


@pytest.mark.parametrize("endianness", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_all_four_forms_of_pcap_are_read(tmp_path: Path, endianness: str, nano: bool):
    path = tmp_path / "one.pcap"
    with PcapWriter(str(path), endianness=endianness, nano=nano, linktype=1) as writer:
        for packet in gtp_u():
            writer.write(packet)

    assert rows(path) == rows(written(tmp_path, *gtp_u()))


def test_pcapng_is_read(tmp_path: Path):
    path = tmp_path / "one.pcapng"
    with PcapNgWriter(str(path)) as writer:
        for packet in gtp_u():
            writer.write(packet)

    assert rows(path) == rows(written(tmp_path, *gtp_u()))


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def pcapng(order: str, *blocks: bytes, links: tuple[int, ...] = (1,)) -> bytes:
    head = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    described = [block(order, 1, struct.pack(f"{order}HHI", link, 0, 0)) for link in links]
    return b"".join([block(order, 0x0A0D0D0A, head), *described, *blocks])


def enhanced(order: str, frame: bytes, interface: int = 0, length: int | None = None) -> bytes:
    head = struct.pack(f"{order}IIIII", interface, 0, 0, len(frame), len(frame) if length is None else length)
    return block(order, 6, head + frame)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_both_byte_orders_with_simple_packets_and_unknown_blocks(tmp_path: Path, order: str):
    first, second = (bytes(packet) for packet in gtp_u()[:2])
    simple = block(order, 3, struct.pack(f"{order}I", len(second)) + second)
    path = tmp_path / "hand.pcapng"
    path.write_bytes(pcapng(order, block(order, 5, bytes(12)), enhanced(order, first), simple))

    assert rows(path) == rows(written(tmp_path, first, second))


@pytest.mark.parametrize("order", ["<", ">"])
def test_obsolete_packet_blocks_are_frames(tmp_path: Path, order: str):
    first, second = (bytes(packet) for packet in gtp_u()[:2])
    head = struct.pack(f"{order}HHIIII", 1, 0xFFFF, 0, 0, len(second), len(second))
    path = tmp_path / "old.pcapng"
    path.write_bytes(pcapng(order, enhanced(order, first), block(order, 2, head + second), links=(1, 1)))

    assert rows(path) == rows(written(tmp_path, first, second))


@pytest.mark.parametrize("kind", [0xBAD, 0x40000BAD, 0x204, 8, 77])
def test_a_block_that_may_hold_frames_is_refused(tmp_path: Path, kind: int):
    """Custom blocks, sysdig's events, ARINC 429, and what nobody knows yet."""
    path = tmp_path / "other.pcapng"
    path.write_bytes(pcapng("<", enhanced("<", bytes(gtp_u()[0])), block("<", kind, bytes(8))))

    assert f"has a block of type {kind:#x}, which may hold frames" in refusal(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_kuznetzovs_form_of_pcap_is_read(tmp_path: Path, order: str):
    frames = [bytes(packet) for packet in gtp_u()[:2]]
    header = struct.pack(f"{order}IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
    path = tmp_path / "old.pcap"
    heads = [struct.pack(f"{order}IIIIIHBx", 0, 0, len(frame), len(frame), 2, 8, 0) for frame in frames]
    path.write_bytes(header + b"".join(head + frame for head, frame in zip(heads, frames, strict=True)))

    assert rows(path) == rows(written(tmp_path, *frames))


def test_a_second_section_describes_its_interfaces_anew(tmp_path: Path):
    first, second = (bytes(packet) for packet in gtp_u()[:2])
    path = tmp_path / "two.pcapng"
    path.write_bytes(pcapng("<", enhanced("<", first)) + pcapng(">", enhanced(">", second)))

    assert rows(path) == rows(written(tmp_path, first, second))


def test_a_frame_check_sequence_in_the_file_is_left_out(tmp_path: Path):
    frame = bytes(gtp_u()[0])
    path = tmp_path / "fcs.pcap"
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1 | 0x04000000 | 2 << 28)
    path.write_bytes(header + struct.pack("<IIII", 0, 0, len(frame) + 4, len(frame) + 4) + frame + b"\xee" * 4)

    assert rows(path) == rows(written(tmp_path, frame))


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        Traffic.from_pcap(path)
    assert caught.value.file == str(path)
    return caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path):
    assert refusal(tmp_path / "none.pcap") == "cannot be read: No such file or directory"
    assert refusal(tmp_path) == "cannot be read: Is a directory"


def test_an_empty_file_and_a_capture_without_frames(tmp_path: Path):
    empty, without = tmp_path / "empty.pcap", tmp_path / "without.pcap"
    empty.touch()
    with PcapWriter(str(without), linktype=1) as writer:
        writer.write_header(None)

    assert refusal(empty) == "is empty, without even a header: record it again"
    assert refusal(without) == "has no frames: record some"


def test_what_is_no_capture(tmp_path: Path):
    path = tmp_path / "text.pcap"
    path.write_text("hello world")

    assert refusal(path) == "is no capture: it begins with 68 65 6c 6c, and a pcap or pcapng file does not"


@pytest.mark.parametrize(
    ("cut", "inside"), [(-5, "a frame"), (-(len(bytes(gtp_u()[1])) + 8), "the head of a frame"), (10, "its header")]
)
def test_a_truncated_pcap(tmp_path: Path, cut: int, inside: str):
    path = written(tmp_path, *gtp_u()[:2])
    path.write_bytes(path.read_bytes()[:cut])

    whole = {"its header": "0 whole frames"}.get(inside, "1 whole frame")
    assert refusal(path) == (
        f"is truncated: it ends inside {inside}, after {whole}; copy it again, or repair it (pcapfix)"
    )


def test_a_truncated_pcapng(tmp_path: Path):
    path = tmp_path / "cut.pcapng"
    path.write_bytes(pcapng("<", *(enhanced("<", bytes(packet)) for packet in gtp_u()[:2]))[:-30])

    assert refusal(path) == (
        "is truncated: it ends inside a block, after 1 whole frame; copy it again, or repair it (pcapfix)"
    )


def test_mixed_link_types_and_another_than_ethernet(tmp_path: Path):
    frame, mixed, cooked = bytes(gtp_u()[0]), tmp_path / "mixed.pcapng", tmp_path / "cooked.pcap"
    mixed.write_bytes(pcapng("<", enhanced("<", frame), enhanced("<", frame), enhanced("<", frame, 1), links=(1, 113)))
    with PcapWriter(str(cooked), linktype=113) as writer:
        writer.write(frame)

    assert refusal(mixed) == (
        "has mixed link types (2 frames of Ethernet (link type 1), 1 frame of Linux cooked, as tcpdump -i any writes "
        "(link type 113)): record one interface, an Ethernet one"
    )
    assert refusal(cooked) == (
        "is of Linux cooked, as tcpdump -i any writes (link type 113), and only Ethernet can be sent: record an "
        "Ethernet interface"
    )


def test_interfaces_without_frames_do_not_count(tmp_path: Path):
    path = tmp_path / "any.pcapng"
    path.write_bytes(pcapng("<", enhanced("<", bytes(gtp_u()[0]), 1), links=(113, 1)))

    assert len(rows(path)) == 1


def test_frames_that_the_snaplen_cut(tmp_path: Path):
    path = tmp_path / "snap.pcap"
    frames = [bytes(packet) for packet in iperf_with_jumbos()]
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)
    path.write_bytes(
        header + b"".join(struct.pack("<IIII", 0, 0, len(frame[:96]), len(frame)) + frame[:96] for frame in frames)
    )

    assert refusal(path) == "8 of 10 frames are cut, such as to 96 of 9014 bytes: record whole frames (tcpdump -s 0)"


def test_a_frame_that_is_too_large(tmp_path: Path):
    large = LAYERS / IP(**HERE) / TCP() / Raw(b"x" * 32000)

    assert refusal(written(tmp_path, gtp_u()[0], large)) == (
        "frame 2 has 32058 bytes with FCS, and 9216 can be sent: record it where segmentation offload (TSO, GRO) is off"
    )


def test_too_many_frames(tmp_path: Path):
    path = tmp_path / "many.pcap"
    frame = bytes(LAYERS / IP(**HERE) / UDP() / Raw(b"x" * 18))
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    record = struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
    path.write_bytes(header + record * 65_536)
    assert captured_frames(path).count == 65_536

    path.write_bytes(header + record * 65_537)
    assert refusal(path) == (
        "has more than 65,536 frames, which is the most that can be sent: write a part of it, as "
        f"'editcap -r {path} part.pcap 1-65536' does"
    )


def test_too_many_bytes(tmp_path: Path):
    path = tmp_path / "large.pcap"
    frame = bytes(LAYERS / IP(**HERE) / UDP() / Raw(b"x" * 8958))
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + (struct.pack("<IIII", 0, 0, 9000, 9000) + frame) * 5_556)

    assert len(frame) == 9000
    assert refusal(path) == (
        "has more than 50 MB, which is the most that can be sent: write a part of it, as "
        f"'editcap -r {path} part.pcap 1-5555' does"
    )


def test_a_damaged_file_is_not_read_into_memory(tmp_path: Path):
    path = tmp_path / "damaged.pcap"
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 60))

    assert refusal(path) == "is damaged: frame 1 would have 4294967280 bytes; record it again"


def test_no_frame_that_can_be_signed(tmp_path: Path):
    path = written(tmp_path, *(LAYERS / IP(**HERE) / TCP(flags="A") for _ in range(3)), UNSIGNABLE["IPv4 fragment"])

    assert refusal(path) == (
        "has no frame that can be signed, and unsigned ones cannot be counted: 3 TCP with less than 14 bytes of "
        "payload, 1 IPv4 fragment"
    )


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2000), st.binary(max_size=40), st.booleans())
def test_a_damaged_file_ends_in_a_sentence(tmp_path: Path, at: int, noise: bytes, ng: bool):
    if ng:
        data = pcapng("<", *(enhanced("<", bytes(packet)) for packet in gtp_u()))
    else:
        data = written(tmp_path, *gtp_u()).read_bytes()
    path = tmp_path / "noise.pcap"
    path.write_bytes(data[:at] + noise + data[at + len(noise) :])

    try:
        file = str(tmp_path / captured_frames(path).file)
    except ConfigError as error:
        file = str(error.file)
    assert file == str(path)
