"""Frames of packets that scapy builds: parsed and built again by scapy, they are the same, checksums included."""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.mpls import MPLS
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.igmp import IGMP
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    PadN,
    RouterAlert,
)
from scapy.layers.l2 import ARP, GRE_PPTP, LLC, SNAP, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.sctp import SCTP, SCTPChunkData, SCTPChunkInit
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_at, frame_of
from pytest_nfvperf.model.traffic.packet import PacketStack
from pytest_nfvperf.model.traffic.packet_program import PacketSettings, Vary
from tests.examples import examples

MACS = {"source_mac": "02:00:00:00:00:01", "destination_mac": "02:00:00:00:00:02"}
SIGNATURE = bytes(range(0xA1, 0xA1 + 14))

STACKS: dict[str, tuple[Packet, tuple[Vary, ...]]] = {
    "udp": (Ether() / IP() / UDP(), (Vary("IP.src", 300), Vary("UDP.sport", 16, step=3))),
    "udp-no-checksum": (Ether() / IP() / UDP(chksum=0), (Vary("IP.dst", 300, order="random"),)),
    "tcp-syn": (Ether() / IP() / TCP(flags="S"), (Vary("TCP.sport", 64, first=1024), Vary("TCP.seq", 9, step=1 << 20))),
    "tcp-options": (
        Ether() / IP() / TCP(options=[("MSS", 1460), ("NOP", None), ("WScale", 7), ("SAckOK", b"")]),
        (Vary("IP.dst", 1000, order="random"), Vary("TCP.dport", 5)),
    ),
    "vlan": (Ether() / Dot1Q(vlan=7, prio=3) / IP() / UDP(), (Vary("Dot1Q.vlan", 4000), Vary("Dot1Q.prio", 5))),
    "qinq": (
        Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(dport=80),
        (Vary("Dot1AD.vlan", 10), Vary("Dot1Q.vlan", 4000, order="random")),
    ),
    "three-tags": (Ether() / Dot1Q() / Dot1Q() / Dot1Q() / IPv6() / UDP(), (Vary("Dot1Q[3].vlan", 4000),)),
    "mpls": (Ether() / MPLS(label=16) / IP() / UDP(), (Vary("MPLS.label", 1000), Vary("MPLS.ttl", 3, first=60))),
    "mpls-two": (
        Ether() / MPLS(label=16, s=0) / MPLS(label=17, s=1) / IPv6() / TCP(),
        (Vary("MPLS[2].label", 1 << 19, first=1 << 19, order="random"), Vary("MPLS.cos", 8)),
    ),
    "gtpu": (
        Ether() / IP() / UDP(sport=50000) / GTP_U_Header(teid=5) / IP() / UDP(),
        (Vary("GTP_U_Header.teid", 1 << 20, order="random"), Vary("IP[2].dst", 60000), Vary("UDP[2].dport", 9)),
    ),
    "gtpu-session": (
        Ether() / IP() / UDP(sport=50000) / GTP_U_Header(teid=5) / GTPPDUSessionContainer(QFI=9) / IPv6() / TCP(),
        (Vary("GTP_U_Header.teid", 100), Vary("IPv6.dst", 60000), Vary("GTPPDUSessionContainer.QFI", 60, first=1)),
    ),
    "gre": (Ether() / IP() / GRE() / IP() / UDP(), (Vary("IP[2].src", 1000), Vary("IP.src", 3))),
    "gre-checksum": (
        Ether() / IP() / GRE(chksum_present=1) / IP() / TCP(),
        (Vary("IP[2].src", 1000), Vary("TCP.sport", 100, order="random")),
    ),
    "gre-key": (Ether() / IP() / GRE(key_present=1, key=9) / IP() / UDP(), (Vary("GRE.key", 1 << 30),)),
    "nvgre": (Ether() / IP() / GRE(key_present=1, key=9) / Ether() / IP() / UDP(), (Vary("Ether[2].src", 1 << 30),)),
    "pptp": (Ether() / IP() / GRE_PPTP(call_id=4, seqnum_present=0) / Raw(b"xyz"), (Vary("GRE_PPTP.call_id", 99),)),
    "vxlan": (
        Ether() / IP() / UDP(sport=50000) / VXLAN(vni=5, flags="Instance") / Ether() / IP() / TCP(),
        (Vary("VXLAN.vni", 1 << 20), Vary("UDP.sport", 1000), Vary("IP[2].dst", 9), Vary("Ether[2].dst", 77)),
    ),
    "vxlan-in-vlan": (
        Ether() / Dot1Q(vlan=5) / IP() / UDP(sport=50000) / VXLAN(vni=5) / Ether() / Dot1Q(vlan=6) / IP() / UDP(),
        (Vary("Dot1Q[2].vlan", 100),),
    ),
    "vxlan6": (
        Ether() / IPv6() / UDP(chksum=0) / VXLAN(vni=5) / Ether() / IPv6() / UDP(),
        (Vary("IPv6[2].dst", 1 << 24, order="random"),),
    ),
    "geneve": (
        Ether() / IP() / UDP(sport=50000) / GENEVE(vni=7, options=[]) / Ether() / IP() / UDP(),
        (Vary("GENEVE.vni", 1 << 20, order="random"), Vary("UDP[2].sport", 4)),
    ),
    "ipip": (Ether() / IP() / IP() / TCP(), (Vary("IP.src", 3), Vary("IP[2].src", 60000), Vary("TCP.ack", 1 << 30))),
    "6in4": (Ether() / IP() / IPv6() / UDP(), (Vary("IPv6.src", 60000), Vary("IP.dst", 60000))),
    "4in6": (Ether() / IPv6() / IP() / UDP(), (Vary("IPv6.src", 60000), Vary("IP.dst", 60000))),
    "ipv6": (Ether() / IPv6(tc=0xB8) / UDP(), (Vary("IPv6.fl", 1 << 20), Vary("IPv6.src", 1 << 31, step=7))),
    "ipv6-hopopts": (
        Ether() / IPv6() / IPv6ExtHdrHopByHop(options=[RouterAlert(), PadN()]) / TCP(),
        (Vary("IPv6.dst", 60000), Vary("TCP.sport", 64)),
    ),
    "ipv6-routing": (
        Ether() / IPv6() / IPv6ExtHdrRouting(type=0, addresses=["2001:db8::5", "2001:db8::6"]) / UDP(),
        (Vary("IPv6.src", 60000), Vary("UDP.sport", 64)),
    ),
    "srv6": (
        Ether() / IPv6() / IPv6ExtHdrSegmentRouting(addresses=["2001:db8::5", "2001:db8::6"]) / IP() / UDP(),
        (Vary("IP.dst", 600),),
    ),
    "ipv6-fragment": (
        Ether() / IPv6() / IPv6ExtHdrFragment(id=7, m=1) / UDP(),
        (Vary("IPv6ExtHdrFragment.id", 1 << 20, order="random"), Vary("UDP.sport", 3)),
    ),
    "ipv6-dstopts": (
        Ether() / IPv6() / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"1234")]) / TCP(),
        (Vary("TCP.sport", 9),),
    ),
    "ipv6-many": (
        Ether() / IPv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment() / ICMPv6EchoRequest(),
        (Vary("ICMPv6EchoRequest.id", 1000), Vary("IPv6.src", 9)),
    ),
    "icmp": (Ether() / IP() / ICMP(), (Vary("ICMP.id", 60000), Vary("ICMP.seq", 60000))),
    "icmpv6": (Ether() / IPv6() / ICMPv6EchoRequest(), (Vary("ICMPv6EchoRequest.seq", 60000), Vary("IPv6.dst", 9))),
    "nd": (
        Ether() / IPv6() / ICMPv6ND_NS(tgt="2001:db8::1") / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:07"),
        (Vary("ICMPv6ND_NS.tgt", 1000), Vary("ICMPv6NDOptSrcLLAddr.lladdr", 1000, order="random")),
    ),
    "sctp": (
        Ether() / IP() / SCTP(sport=1, dport=2, tag=77) / SCTPChunkData(data=b"", tsn=1),
        (Vary("SCTP.tag", 1 << 30), Vary("SCTP.sport", 999), Vary("IP.src", 5)),
    ),
    "sctp6": (
        Ether() / IPv6() / SCTP() / SCTPChunkInit(),
        (Vary("SCTPChunkInit.init_tag", 1000, first=1, order="random"),),
    ),
    "sctp-in-vxlan": (
        Ether() / IP() / UDP(sport=50000) / VXLAN() / Ether() / IP() / SCTP() / SCTPChunkData(data=b""),
        (Vary("SCTP.sport", 1000), Vary("IP[2].src", 6)),
    ),
    "arp": (Ether() / ARP(op=1), (Vary("ARP.psrc", 1000), Vary("ARP.hwsrc", 1000, first="02:00:00:00:10:00"))),
    "ipv4-options": (Ether() / IP(options=[IPOption_Router_Alert()]) / UDP(), (Vary("IP.src", 1000),)),
    "ipv4-fields": (
        Ether() / IP(tos=0xB8, flags="DF") / UDP(),
        (Vary("IP.id", 60000), Vary("IP.ttl", 64, first=64), Vary("IP.tos", 64, first=0, step=4)),
    ),
    "pppoe": (Ether() / PPPoE(sessionid=1) / PPP() / IP() / UDP(), (Vary("PPPoE.sessionid", 60000), Vary("IP.src", 4))),
    "pppoe-qinq": (
        Ether() / Dot1AD(vlan=5) / Dot1Q(vlan=6) / PPPoE() / PPP() / IPv6() / TCP(),
        (Vary("Dot1Q.vlan", 4000), Vary("IPv6.dst", 9)),
    ),
    "plain-type": (Ether(type=0x88B5), (Vary("Ether.src", 1000, first="02:00:00:00:10:00"),)),
    "type-and-bytes": (Ether(type=0x88B5) / Raw(b"some bytes"), (Vary("Ether.dst", 1000), Vary("Ether.src", 1000))),
    "llc": (Dot3() / LLC(dsap=0x42, ssap=0x42, ctrl=3), (Vary("Dot3.src", 1000), Vary("LLC.ssap", 9))),
    "snap": (Dot3() / LLC() / SNAP(code=0x800) / IP() / UDP(), (Vary("IP.src", 1000),)),
    "multicast": (Ether() / IP(dst="239.1.2.3") / UDP(dport=5000), (Vary("IP.dst", 1000),)),
    "multicast6": (Ether() / IPv6(dst="ff0e::1") / UDP(dport=5000), (Vary("IPv6.dst", 1000),)),
    "broadcast": (Ether(dst="ff:ff:ff:ff:ff:ff") / IP(dst="255.255.255.255") / UDP(), (Vary("UDP.dport", 1000),)),
    "igmp": (
        Ether() / IP(dst="224.0.0.22", options=[]) / IGMP(type=0x16, gaddr="239.1.1.1"),
        (Vary("IGMPv2_MR.gaddr", 999),),
    ),
    "dns": (Ether() / IP() / UDP() / DNS(qd=[DNSQR(qname="example.org")]), (Vary("DNS.id", 60000),)),
    "payload": (Ether() / IP() / UDP(dport=5000) / Raw(b"the user's own payload"), (Vary("IP.dst", 60000),)),
}


def built_again(frame: bytes, packet_sent: Packet, headers: int) -> bytes:
    """The frame as scapy parses it, with all lengths and checksums that scapy computes computed anew.

    What is behind the layers is left as it is: scapy takes our signature for DNS, and the like.
    """
    own = packet_sent.getlayer(Raw)
    headers -= len(own.load) if own else 0
    layers = len(packet_sent.layers()) - bool(own)
    packet = layer = type(packet_sent)(frame)
    for number in range(layers):
        for described in layer.fields_desc:
            computed = described.name in {
                "chksum",
                "cksum",
                "len",
                "plen",
                "ihl",
                "dataofs",
                "length",
                "optionlen",
                "payload_len",
            }
            if computed and described.name in layer.fields and described.default is None:
                no_checksum = isinstance(layer, UDP) and described.name == "chksum" and layer.chksum == 0
                if not no_checksum:
                    delattr(layer, described.name)
        layer.clear_cache()
        if number == layers - 1 and layer.payload:
            layer.remove_payload()
            layer.add_payload(Raw(frame[headers:]))
        layer = layer.payload
    return bytes(packet)


def programs(stack: PacketStack, sizes: tuple[int, ...]) -> list[FrameProgram]:
    return [stack.program(sizes, range(len(sizes)), **MACS, reverse=reverse) for reverse in (False, True)]


def sampled(program: FrameProgram, number: int = 12) -> list[int]:
    chosen = random.Random(program.combinations)
    return sorted({0, program.combinations - 1, *(chosen.randrange(program.combinations) for _ in range(number))})


@pytest.mark.parametrize("name", STACKS)
def test_every_frame_is_what_scapy_builds_from_it(name: str) -> None:
    packet, vary = STACKS[name]
    stack = PacketStack.of(packet, PacketSettings(vary))
    for program in programs(stack, (stack.least_frame_size, stack.least_frame_size + 1, 300)):
        for template, begin in enumerate(program.templates):
            for combination in sampled(program):
                frame = frame_of(program, template, combination, SIGNATURE)
                assert len(frame) == len(begin)
                assert built_again(frame, packet, stack.header_bytes) == frame
                at = program.signatures[template]
                assert frame[at : at + 14] == SIGNATURE
                behind = frame[at + 14 :]
                assert behind == bytes(n % 256 for n in range(at + 14, len(frame)))


@pytest.mark.parametrize("name", STACKS)
def test_fields_have_their_values_where_scapy_reads_them(name: str) -> None:
    packet, vary = STACKS[name]
    stack = PacketStack.of(packet, PacketSettings(vary))
    program = programs(stack, (300,))[0]
    for combination in sampled(program):
        parsed = type(packet)(frame_of(program, 0, combination, SIGNATURE))
        for field, wanted in zip(program.fields, vary, strict=True):
            layer, _, attribute = field.name.partition(".")
            kind, _, number = layer.removesuffix("]").partition("[")
            value = parsed.getlayer(kind, int(number or 1)).getfieldval(attribute)
            shown = _number(value) & ((1 << field.bits) - 1)
            assert field.name == wanted.field
            assert shown == field.value(combination)


FIELDS = {
    "Dot1Q": ("vlan",),
    "Dot1AD": ("vlan",),
    "MPLS": ("label", "ttl"),
    "IP": ("src", "dst", "id", "ttl"),
    "IPv6": ("src", "dst", "fl", "hlim"),
    "UDP": ("sport",),
    "TCP": ("sport", "dport", "seq"),
    "ICMP": ("id", "seq"),
    "ICMPv6EchoRequest": ("id", "seq"),
    "SCTP": ("tag", "sport"),
    "VXLAN": ("vni",),
    "GENEVE": ("vni",),
    "GTP_U_Header": ("teid",),
    "GRE": ("key",),
}
INNER = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:01:02")
# A source port of 50000: scapy takes what comes from its default, 53, for DNS.
TUNNELS: dict[str, Callable[[int], Packet]] = {
    "vxlan": lambda number: UDP(sport=50000) / VXLAN(vni=number) / INNER,
    "geneve": lambda number: UDP(sport=50000) / GENEVE(vni=number) / INNER,
    "gtpu": lambda number: UDP(sport=50000) / GTP_U_Header(teid=number),
    "gre": lambda number: GRE(key_present=1, key=number),
    "gre with a checksum": lambda number: GRE(chksum_present=1, key_present=1, key=number),
}
SMALL = st.integers(1, 60000)


@st.composite
def internet(draw: st.DrawFn) -> Packet:
    if draw(st.booleans()):
        first = draw(SMALL)
        return IP(src=f"10.1.0.{first % 200}", dst="10.2.1.0", id=first, ttl=first % 150, tos=first % 256)
    packet = IPv6(src="2001:db8::1:1", dst="2001:db8::2:ff", fl=draw(SMALL), hlim=draw(st.integers(1, 150)))
    if draw(st.booleans()):
        packet /= IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))])
    return packet / IPv6ExtHdrDestOpt() if draw(st.booleans()) else packet


@st.composite
def random_stacks(draw: st.DrawFn) -> Packet:
    """Tags, labels and up to two tunnels around IP, with all addresses set."""
    packet: Packet = Ether(src="02:00:00:00:02:01", dst="02:00:00:00:02:02")
    for kind in draw(st.lists(st.sampled_from((Dot1Q, Dot1AD)), max_size=2)):
        packet /= kind(vlan=draw(st.integers(0, 3000)), prio=draw(st.integers(0, 7)))
    labels = draw(st.integers(0, 2))
    for number in range(labels):
        packet /= MPLS(label=draw(SMALL), s=int(number == labels - 1), ttl=draw(st.integers(1, 150)))
    for name in draw(st.lists(st.sampled_from(sorted(TUNNELS)), max_size=2)):
        packet /= draw(internet()) / TUNNELS[name](draw(SMALL))
    inner = draw(internet())
    ports = {"sport": draw(st.integers(1, 60000)), "dport": draw(st.sampled_from((7, 9999, 40000)))}
    echo = {"id": draw(SMALL), "seq": draw(SMALL)}
    six = isinstance(inner, IPv6)
    behind = draw(
        st.sampled_from(
            (
                UDP(**ports),
                UDP(**ports, chksum=0),
                TCP(**ports, seq=draw(SMALL), options=[("MSS", 1460)]),
                ICMPv6EchoRequest(**echo) if six else ICMP(**echo),
                SCTP(**ports, tag=draw(SMALL)) / SCTPChunkData(data=b""),
            )
        )
    )
    own = draw(st.binary(max_size=5))
    return packet / inner / behind / own if own else packet / inner / behind


@st.composite
def varied(draw: st.DrawFn) -> tuple[Packet, tuple[Vary, ...]]:
    packet = draw(random_stacks())
    names, seen = [], Counter[str]()
    for kind in packet.layers():
        seen[kind.__name__] += 1
        names += [f"{kind.__name__}[{seen[kind.__name__]}].{name}" for name in FIELDS.get(kind.__name__, ())]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=6))
    order = st.sampled_from(("up", "random"))
    return packet, tuple(
        Vary(name, draw(st.integers(1, 100)), step=1, order=draw(order))  # type: ignore[arg-type]
        for name in chosen
    )


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(varied(), st.booleans(), st.integers(0, 1 << 60), st.binary(min_size=14, max_size=14), st.integers(0, 300))
def test_frames_of_a_random_stack_are_what_scapy_builds(
    made: tuple[Packet, tuple[Vary, ...]], together: bool, number: int, signature: bytes, longer: int
) -> None:
    packet, vary = made
    stack = PacketStack.of(packet, PacketSettings(vary, together))
    size = stack.least_frame_size + longer
    program = stack.program((size,), (0,), **MACS, reverse=False)
    wanted = packet.copy()
    for each, field in zip(vary, program.fields, strict=True):
        layer, _, name = each.field.partition(".")
        kind, _, at = layer.removesuffix("]").partition("[")
        value = field.value(number % program.combinations)
        old = wanted.getlayer(kind, int(at)).getfieldval(name)
        if isinstance(old, str):
            address = ipaddress.ip_address(old)
            value = str(type(address)(int(address) >> field.bits << field.bits | value))
        wanted.getlayer(kind, int(at)).setfieldval(name, value)
    behind = bytes(n % 256 for n in range(stack.header_bytes + 14, size - 4))
    assert frame_at(program, number, signature) == bytes(wanted / (signature + behind))


def _number(value: object) -> int:
    if not isinstance(value, str):
        return int(value)  # type: ignore[call-overload,no-any-return]
    octets = value.split(":")
    return int("".join(octets), 16) if len(octets) == 6 and "" not in octets else int(ipaddress.ip_address(value))
