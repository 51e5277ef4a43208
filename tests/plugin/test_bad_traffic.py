"""Traffic that cannot be sent: what a user sees of it is one sentence, and nothing was sent.

The sentence says what is wrong, where, and what to write. Whoever reads a run's output sees only it.
"""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter, wrpcap

from tests.plugin.test_mistakes import project
from tests.unit.test_captures import enhanced, pcapng
from tests.user_project import records

SUITE = """
import pytest
from typing import ClassVar

from scapy.fields import ShortField, XShortField
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from pytest_nfvperf import Traffic, TrafficMix, Vary


class Guarded(Packet):
    "Its checksum is none that we know."

    fields_desc: ClassVar = [ShortField("key", 1), XShortField("guard", None)]

    def post_build(self, pkt, pay):
        return pkt[:2] + (sum(pkt[:2] + pay) * 31 & 0xFFFF).to_bytes(2, "big") + pay


def udp(field, **more):
    return Traffic(packet=Ether() / IP() / UDP(), vary=[Vary(field, **more)])


def shares(*given):
    return TrafficMix(**{f"c{n}": (Traffic(), share) for n, share in enumerate(given)})


MADE = {
    "unknown_layer": lambda: udp("GRE.key", count=2),
    "unknown_field": lambda: udp("IP.dest", count=2),
    "narrow_field": lambda: Traffic(packet=Ether() / Dot1Q() / IP() / UDP(), vary=[Vary("Dot1Q.vlan", count=4097)]),
    "under_a_checksum": lambda: Traffic(packet=Ether() / Guarded() / IP() / UDP(), vary=[Vary("UDP.sport", 9)]),
    "before_a_checksum": lambda: Traffic(packet=Ether() / Guarded() / IP() / UDP(), vary=[Vary("Guarded.key", 9)]),
    "a_checksum": lambda: Traffic(packet=Ether() / IP() / UDP(), vary=[Vary("IP.chksum", 9, first=1)]),
    "overlapping": lambda: Traffic(packet=Ether() / IP() / UDP(), vary=[Vary("UDP.sport", 9), Vary("UDP[1].sport", 3)]),
    "mtu": lambda: Traffic(packet=Ether() / IP() / TCP(), frame_size=1600),
    "nine_classes": lambda: shares(*["11 %"] * 9),
    "shares": lambda: shares("50 %", "40 %"),
    "empty": lambda: Traffic.from_pcap("empty.pcap"),
    "no_frames": lambda: Traffic.from_pcap("no_frames.pcap"),
    "truncated": lambda: Traffic.from_pcap("truncated.pcap"),
    "link_types": lambda: Traffic.from_pcap("link_types.pcapng"),
    "snaplen": lambda: Traffic.from_pcap("snaplen.pcap"),
    "jumbo": lambda: Traffic.from_pcap("jumbo.pcap"),
    "imports": lambda: Traffic.from_trex("imports.py"),
}


@pytest.mark.parametrize("name", MADE)
def test_it(name, phy2phy, search):
    search.ndr_pdr(phy2phy, MADE[name]())
"""

SENTENCES = {
    "unknown_layer": "'GRE' is no layer of Ether / IP / UDP. There are Ether, IP, UDP",
    "unknown_field": "'dest' is no field of IP, did you mean 'dst'? There are version, ihl, tos, len, id, flags, frag, "
    "ttl, proto, chksum, src, dst, options",
    "narrow_field": "Dot1Q.vlan has 12 bits, at most 4_095: 4_097 values from 1 on by 1 reach 4_097; begin lower, or "
    "use fewer",
    "before_a_checksum": "Guarded.key cannot vary: other bytes of Guarded follow from it; vary another field, or set "
    "what follows and write checksums='as given'",
    "under_a_checksum": "Ether / Guarded / IP / UDP: byte 16 of the frame, in Guarded, cannot be kept right while "
    "UDP.sport varies: vary something else, or write checksums='as given'",
    "a_checksum": "IP.chksum cannot vary: scapy computes it; write checksums='as given' to send it anyway",
    "overlapping": "vary: UDP.sport and UDP[1].sport are the same bits: leave one out",
    "mtu": "search.ndr_pdr(): port 'p0' of topology 'phy2phy': frame size 1600 needs an MTU of 1582, but the port has "
    "1500: send at most 1518 bytes (with FCS) or raise the port's mtu",
    "nine_classes": "TrafficMix(): 9 classes, and 1 to 8 can be sent: write each as name=(traffic, share), such as "
    "voice=(Traffic(), '10 %')",
    "shares": "TrafficMix(): the shares of direction forward add up to 90 %, not 100 % (c0 50 %, c1 40 %): the load of "
    "a direction is all that its classes send",
    "empty": "empty.pcap: is empty, without even a header: record it again",
    "no_frames": "no_frames.pcap: has no frames: record some",
    "truncated": "truncated.pcap: is truncated: it ends inside a frame, after 1 whole frame; copy it again, or repair "
    "it (pcapfix)",
    "link_types": "link_types.pcapng: has mixed link types (1 frame of Ethernet (link type 1), 1 frame of Linux "
    "cooked, as tcpdump -i any writes (link type 113)): record one interface, an Ethernet one",
    "snaplen": "snaplen.pcap: 1 of 2 frames are cut, such as to 96 of 642 bytes: record whole frames (tcpdump -s 0)",
    "jumbo": "search.ndr_pdr(): port 'p0' of topology 'phy2phy': frame size 9046 needs an MTU of 9028, "
    "but the port has 1500: send at most 1518 bytes (with FCS) or raise the port's mtu",
    "imports": "imports.py:1: imports nowhere_to_be_found, which is not there: install it, or put it beside the "
    "profile",
}


def frame(payload: int) -> Ether:
    return Ether() / IP() / UDP(sport=1, dport=2) / (b"x" * payload)


@pytest.fixture
def files(pytester: pytest.Pytester) -> pytest.Pytester:
    """The project with the files that its tests name."""
    project(pytester, SUITE)
    here = pytester.path
    (here / "empty.pcap").touch()
    with PcapWriter(str(here / "no_frames.pcap"), linktype=1) as writer:
        writer.write_header(None)
    wrpcap(str(here / "truncated.pcap"), [frame(30), frame(600)])
    (here / "truncated.pcap").write_bytes((here / "truncated.pcap").read_bytes()[:-5])
    mixed = [enhanced("<", bytes(frame(30)), interface) for interface in (0, 1)]
    (here / "link_types.pcapng").write_bytes(pcapng("<", *mixed, links=(1, 113)))
    with PcapWriter(str(here / "snaplen.pcap"), linktype=1) as writer:
        writer.write(frame(30))
        writer.write_packet(bytes(frame(600))[:96], wirelen=642)
    wrpcap(str(here / "jumbo.pcap"), [frame(30), frame(9000)])
    (here / "imports.py").write_text("import nowhere_to_be_found\n")
    return pytester


def test_each_is_one_sentence_before_anything_is_sent(files: pytest.Pytester) -> None:
    result = files.runpytest_subprocess("--nfv-report", "none", "-q")

    told = result.stdout.lines
    for name, sentence in SENTENCES.items():
        begin = next(at for at, line in enumerate(told) if line.strip("_ ") == f"test_it[{name}]")
        assert told[begin + 1] == f"usage error: {sentence}"
    result.assert_outcomes(failed=len(SENTENCES))
    assert result.ret == 4
    result.stdout.no_fnmatch_line("*Traceback*")
    assert not records(files.path, "trial")


def test_a_plan_says_the_same(files: pytest.Pytester) -> None:
    result = files.runpytest_subprocess("--nfv-plan")

    for name, sentence in SENTENCES.items():
        line = f"mine/test_mine.py::test_it[{name}]: cannot be planned: usage error: {sentence}"
        assert line in result.stdout.lines, name
