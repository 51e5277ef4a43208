"""Packets and fields that cannot be sent as asked: one sentence each, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from scapy.fields import ByteField, IntField, LEIntField, ShortField, XShortField
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from scapy.volatile import RandShort

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic, check_mtu


class OddSum(Packet):
    """A layer with a checksum of its own kind."""

    fields_desc: ClassVar[list[Any]] = [ShortField("key", 1), XShortField("guard", None)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        total = 0
        for byte in pkt[:2] + pay:
            total = (total * 31 + byte) & 0xFFFF
        return pkt[:2] + total.to_bytes(2, "big") + pay


class OwnSum(Packet):
    """A layer whose checksum has a usual name, and another sum."""

    fields_desc: ClassVar[list[Any]] = [ShortField("key", 1), XShortField("chksum", None)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.chksum is not None:
            return pkt + pay
        return pkt[:2] + (sum(pkt[:2] + pay) & 0xFFFF).to_bytes(2, "big") + pay


class OneWaySum(Packet):
    """A layer that has a checksum on the way back only."""

    fields_desc: ClassVar[list[Any]] = [ShortField("sport", 1), ShortField("dport", 2), ShortField("guard", 0)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return pkt[:4] + (sum(pay) & 0xFFFF if self.sport > self.dport else 0).to_bytes(2, "big") + pay


class Trailer(Packet):
    fields_desc: ClassVar[list[Any]] = [IntField("key", 1)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return pkt + pay + b"\xee\xee"


class Wide(Packet):
    fields_desc: ClassVar[list[Any]] = [ByteField(f"f{number}", 0) for number in range(30)]


class Little(Packet):
    fields_desc: ClassVar[list[Any]] = [LEIntField("key", 1)]


class Follows(Packet):
    """A layer with a field that another one follows from."""

    fields_desc: ClassVar[list[Any]] = [ByteField("key", 1), ByteField("twice", None)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return pkt[:1] + bytes([2 * self.key]) + pkt[2:] + pay


def udp() -> Packet:
    return Ether() / IP() / UDP()


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no packet": (
        lambda: Traffic(packet="Ether()"),
        "packet is 'Ether()': write a packet that scapy builds, such as Ether()/IP()/UDP()",
    ),
    "a class": (
        lambda: Traffic(packet=Ether),
        "packet is the class Ether: write a packet that scapy builds, such as Ether()/IP()/UDP()",
    ),
    "no Ethernet": (
        lambda: Traffic(packet=IP() / UDP()),
        "the packet begins with IP: put Ether() in front, as it is on the DUT's link",
    ),
    "unknown layer": (
        lambda: Traffic(packet=udp(), vary=[Vary("IPX.dst", 2)]),
        "'IPX' is no layer of Ether / IP / UDP, did you mean 'IP'? There are Ether, IP, UDP",
    ),
    "unknown field": (
        lambda: Traffic(packet=udp(), vary=[Vary("UDP.port", 2)]),
        "'port' is no field of UDP, did you mean 'sport' or 'dport'? There are sport, dport, len, chksum",
    ),
    "too few layers": (
        lambda: Traffic(packet=udp(), vary=[Vary("IP[2].dst", 2)]),
        "'IP[2].dst': Ether / IP / UDP has 1 layer IP",
    ),
    "no field's name": (
        lambda: Vary("dst", 2),
        "Vary(): field is 'dst': write a field as scapy names it, such as 'IP.dst' or 'IP[2].src'",
    ),
    "no value": (
        lambda: Vary("IP.dst", 0),
        "Vary(): count is 0: write a whole number from 1 to 4_294_967_295",
    ),
    "a wrong order": (
        lambda: Vary("IP.dst", 1, order="down"),  # type: ignore[arg-type]
        "Vary(): order is 'down': write one of up, random",
    ),
    "too many values": (
        lambda: Traffic(packet=Ether() / Dot1Q(vlan=10) / IP() / UDP(), vary=[Vary("Dot1Q.vlan", 5000)]),
        "Dot1Q.vlan has 12 bits, at most 4_095: 5_000 values from 10 on by 1 reach 5_009; begin lower, or use fewer",
    ),
    "too large a step": (
        lambda: Traffic(packet=udp(), vary=[Vary("UDP.sport", 64, first=1024, step=1024)]),
        (
            "UDP.sport has 16 bits, at most 65_535: 64 values from 1_024 on by 1_024 reach 65_536; "
            "begin lower, or use fewer"
        ),
    ),
    "too large a first": (
        lambda: Traffic(packet=udp(), vary=[Vary("UDP.sport", 2, first=65536)]),
        "UDP.sport has 16 bits, 0 to 65_535: first cannot be 65_536",
    ),
    "no address": (
        lambda: Traffic(packet=udp(), vary=[Vary("IP.dst", 2, first="the DUT")]),
        "IP.dst: first is 'the DUT': write an address like 198.19.0.1",
    ),
    "an address of the other kind": (
        lambda: Traffic(packet=udp(), vary=[Vary("IP.dst", 2, first="2001:db8::1")]),
        "IP.dst: first is '2001:db8::1': write an address like 198.19.0.1",
    ),
    "overlapping": (
        lambda: Traffic(packet=udp(), vary=[Vary("IP.dst", 2), Vary("IP[1].dst", 2)]),
        "vary: IP.dst and IP[1].dst are the same bits: leave one out",
    ),
    "nine fields": (
        lambda: Traffic(
            packet=Ether() / IP() / TCP(),
            vary=[Vary(f"TCP.{n}", 2) for n in ("sport", "dport", "seq", "ack", "window", "urgptr")]
            + [Vary(f"IP.{n}", 2) for n in ("src", "dst", "id")],
        ),
        "9 fields vary; at most 8 can: give the others one value",
    ),
    "too many combinations": (
        lambda: Traffic(
            packet=udp(), vary=[Vary("IP.src", 1 << 24), Vary("IP.dst", 1 << 24), Vary("UDP.sport", 1 << 15)]
        ),
        "the fields of Ether / IP / UDP have 9_223_372_036_854_775_808 combinations: use fewer values",
    ),
    "too many values in random order": (
        lambda: Traffic(
            packet=udp(),
            vary=[Vary("IP.src", 1 << 23, order="random"), Vary("IP.dst", (1 << 23) + 1, order="random")],
        ),
        (
            "16_777_217 values are in random order, of all fields together; at most 16_777_216 can be: use fewer, or "
            "order='up'"
        ),
    ),
    "nine checksums": (
        lambda: Traffic(packet=Ether() / IP() / IP() / IP() / IP() / IP() / IP() / IP() / IP() / UDP(), frame_size=512),
        ("Ether / IP / IP / IP / IP / IP / IP / IP / IP / UDP has 9 checksums; at most 8 are kept right"),
    ),
    "too many places that are rewritten": (
        lambda: Traffic(
            packet=Ether() / IP() / Wide(), rewritten=[f"Wide.f{number}" for number in range(30)], frame_size=128
        ),
        (
            "rewritten: its fields and their checksums are in 33 places of the frame, and at most 32 can change: name "
            "fewer"
        ),
    ),
    "a length": (
        lambda: Traffic(packet=udp(), vary=[Vary("IP.len", 2, first=60)]),
        "IP.len cannot vary: scapy computes it; write checksums='as given' to send it anyway",
    ),
    "a field that others follow": (
        lambda: Traffic(packet=Ether() / Follows(), vary=[Vary("Follows.key", 2)]),
        (
            "Follows.key cannot vary: other bytes of Follows follow from it; vary another field, or set what follows "
            "and write checksums='as given'"
        ),
    ),
    "a field that makes the frame longer": (
        lambda: Traffic(packet=Ether() / IP() / ICMP(), vary=[Vary("IP.options", 2)]),
        "IP.options cannot vary: in the packet it is [], no number or address; write first=...",
    ),
    "low byte first": (
        lambda: Traffic(packet=Ether() / Little(), vary=[Vary("Little.key", 2)]),
        "Little.key cannot vary: the frame does not store it as one number, highest byte first",
    ),
    "an unknown checksum": (
        lambda: Traffic(packet=Ether() / OddSum()),
        (
            "OddSum has a checksum that cannot be kept right, in byte 16 of the frame: leave the layer out, or "
            "write checksums='as given'"
        ),
    ),
    "a checksum on the way back": (
        lambda: Traffic(packet=Ether() / OneWaySum() / Raw(b"1")),
        (
            "OneWaySum has a checksum that cannot be kept right, in byte 19 of the frame: leave the layer out, or "
            "write checksums='as given'"
        ),
    ),
    "another sum": (
        lambda: Traffic(packet=Ether() / OwnSum() / Raw(b"1")),
        (
            "Ether / OwnSum / Raw: OwnSum.chksum cannot be kept right while the payload varies: vary something else, "
            "or write checksums='as given'"
        ),
    ),
    "a trailer": (
        lambda: Traffic(packet=Ether() / Trailer()),
        (
            "Ether / Trailer ends with a trailer behind its payload, where frames are padded: leave the "
            "layer out that adds it"
        ),
    ),
    "a wrong length": (
        lambda: Traffic(packet=Ether() / IP(len=1000) / UDP()),
        (
            "IP.len is set to 1000, which is wrong for this packet: leave it out, so that it is right in every frame, "
            "or write checksums='as given'"
        ),
    ),
    "a wrong checksum": (
        lambda: Traffic(packet=Ether() / IP() / TCP(chksum=7)),
        (
            "TCP.chksum is set to 7, which is wrong for this packet: leave it out, so that it is right in every frame, "
            "or write checksums='as given'"
        ),
    ),
    "random": (
        lambda: Traffic(packet=Ether() / IP() / UDP(sport=RandShort())),
        "UDP.sport is random: give it a value, and write vary=[Vary(...)]",
    ),
    "several": (
        lambda: Traffic(packet=Ether() / IP(dst="192.0.2.0/30") / UDP()),
        "a field of Ether / IP / UDP has several values: give it one, and write vary=[Vary(...)]",
    ),
    "what scapy cannot build": (
        lambda: Traffic(packet=Ether() / IP() / UDP(sport=70000)),
        (
            "scapy cannot build Ether / IP / UDP: While building field 'sport': Incorrect type of value for "
            "field sport: struct.error(''H' format requires 0 <= number <= 65535')"
        ),
    ),
    "too small": (
        lambda: Traffic(packet=Ether() / IPv6() / UDP() / VXLAN() / Ether() / IPv6() / UDP(), frame_size=128),
        (
            "Ether / IPv6 / UDP / VXLAN / Ether / IPv6 / UDP needs at least 150 bytes (with FCS), and the traffic has "
            "frames of 128: headers 132, signature 14, FCS 4"
        ),
    ),
    "too small in a mix": (
        lambda: Traffic(packet=Ether() / IPv6() / TCP(), frame_size=IMIXES["simple"]),
        (
            "Ether / IPv6 / TCP needs at least 92 bytes (with FCS), and the traffic has frames of 64: headers 74, "
            "signature 14, FCS 4"
        ),
    ),
    "too large": (
        lambda: check_mtu(Traffic(packet=Ether() / Dot1Q() / IP() / UDP(), frame_size=1530), 1500),
        (
            "frame size 1530 needs an MTU of 1508, but the port has 1500: send at most 1522 bytes (with FCS) or raise "
            "the port's mtu"
        ),
    ),
    "the short form, too": (
        lambda: Traffic(packet=udp(), flows=9),
        "Traffic(): flows and packet exclude each other: write it into the packet",
    ),
    "no packet to vary": (
        lambda: Traffic(vary=[Vary("IP.dst", 2)]),
        "Traffic(): vary is of a packet: write packet=Ether()/IP()/UDP(), too",
    ),
    "rewritten that there is not": (
        lambda: Traffic(packet=udp(), rewritten=["TCP.sport"]),
        "'TCP' is no layer of Ether / IP / UDP. There are Ether, IP, UDP",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_one_sentence_says_what_to_write(what: str) -> None:
    make, message = BAD[what]
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message
