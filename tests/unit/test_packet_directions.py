"""What a packet's frames are in both directions, which bytes may change, and how a traffic keeps a packet."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from pytest_nfvperf.adapters.evidence.reader import parse_line
from pytest_nfvperf.adapters.report.texts import traffic_drawing, traffic_drawings
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.records import make_record, trial_data
from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_at, frames_of_program
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.packet import RecordedFrames
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import IMIXES, Imix, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec

A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


def program(traffic: Traffic, *, reverse: bool = False, sizes: tuple[int, ...] = (200,)) -> FrameProgram:
    assert traffic.frame_source is not None
    macs = (B, A) if reverse else (A, B)
    return traffic.frame_source.program(
        sizes, range(len(sizes)), source_mac=macs[0], destination_mac=macs[1], reverse=reverse
    )


def sent(traffic: Traffic, number: int = 0, *, reverse: bool = False) -> Packet:
    return Ether(frame_at(program(traffic, reverse=reverse), number, bytes(14)))


def test_addresses_that_the_packet_leaves_open_are_those_of_any_traffic() -> None:
    there, back = (sent(Traffic(packet=Ether() / IP() / UDP()), reverse=reverse) for reverse in (False, True))
    assert (there.src, there.dst, there[IP].src, there[IP].dst) == (A, B, "198.18.0.1", "198.19.0.1")
    assert (back.src, back.dst, back[IP].src, back[IP].dst) == (B, A, "198.19.0.1", "198.18.0.1")
    six = sent(Traffic(packet=Ether() / IPv6() / UDP(), frame_size=200))
    assert (six[IPv6].src, six[IPv6].dst) == ("2001:2::1", "2001:2:0:8000::1")


def test_who_sends_no_packet_does_not_import_scapy() -> None:
    code = "import sys; from pytest_nfvperf import Traffic, Vary; Traffic(flows=9); print('scapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_all_layers_change_sides_on_the_way_back() -> None:
    inner = Ether(src="02:00:00:00:00:11") / IP(src="10.1.0.1", dst="10.1.0.2") / TCP(dport=80)
    packet = Ether(src="02:00:00:00:00:21", dst="02:00:00:00:00:22") / IP() / UDP(sport=50000) / VXLAN() / inner
    back = sent(Traffic(packet=packet, frame_size=200), reverse=True)
    assert (back.src, back.dst) == ("02:00:00:00:00:22", "02:00:00:00:00:21")
    assert (back[IP].src, back[IP].dst) == ("192.0.2.2", "192.0.2.1")
    assert (back[UDP].sport, back[UDP].dport) == (50000, 4789)  # the port names the tunnel
    assert (back[Ether:2].src, back[Ether:2].dst) == ("02:00:00:00:0d:02", "02:00:00:00:00:11")
    assert (back[IP:2].src, back[IP:2].dst) == ("10.1.0.2", "10.1.0.1")
    assert (back[TCP].sport, back[TCP].dport) == (80, 20)


def test_gtp_keeps_its_port() -> None:
    packet = Ether() / IP() / UDP() / GTP_U_Header(teid=7) / IP() / UDP(sport=1, dport=2)
    back = sent(Traffic(packet=packet, frame_size=200), reverse=True)
    assert (back[UDP].dport, back[UDP:2].sport, back[UDP:2].dport) == (2152, 2, 1)


def test_a_group_stays_the_destination() -> None:
    traffic = Traffic(packet=Ether() / IP(src="10.0.0.1", dst="239.129.2.3") / UDP(sport=7000, dport=5000))
    there, back = (sent(traffic, reverse=reverse) for reverse in (False, True))
    assert (there.src, there.dst) == (A, "01:00:5e:01:02:03")
    assert (back.src, back.dst) == (B, "01:00:5e:01:02:03")
    assert (back[IP].src, back[IP].dst, back[UDP].dport) == ("10.0.0.1", "239.129.2.3", 5000)
    own = sent(Traffic(packet=Ether(src="02:00:00:00:00:77") / IP(dst="239.1.2.3") / UDP()), reverse=True)
    assert (own.src, own.dst) == ("02:00:00:00:00:77", "01:00:5e:01:02:03")
    six = sent(Traffic(packet=Ether() / IPv6(dst="ff0e::1:2") / UDP(), frame_size=200))
    assert six.dst == "33:33:00:01:00:02"


def test_arp_asks_from_the_other_side() -> None:
    traffic = Traffic(packet=Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.1", pdst="10.0.0.2"))
    there, back = (sent(traffic, reverse=reverse)[ARP] for reverse in (False, True))
    assert (there.hwsrc, there.psrc, there.pdst) == (A, "10.0.0.1", "10.0.0.2")
    assert (back.hwsrc, back.psrc, back.pdst) == (B, "10.0.0.2", "10.0.0.1")


def test_a_field_that_changes_sides_varies_there() -> None:
    vary = [Vary("IP.dst", 10, first="10.9.0.1"), Vary("TCP.dport", 2, first=80)]
    traffic = Traffic(packet=Ether() / IP() / TCP(), vary=vary, frame_size=200)
    assert [each.name for each in program(traffic).fields] == ["IP.dst", "TCP.dport"]
    assert [each.name for each in program(traffic, reverse=True).fields] == ["IP.src", "TCP.sport"]
    back = sent(traffic, 13, reverse=True)
    assert (back[IP].src, back[TCP].sport) == ("10.9.0.4", 81)


def test_fields_are_counted_jointly_the_first_fastest() -> None:
    traffic = Traffic(
        packet=Ether() / IP() / UDP(), vary=[Vary("UDP.sport", 3, first=10), Vary("UDP.dport", 2, first=20)]
    )
    frames = [Ether(frame) for frame in frames_of_program(program(traffic))]
    pairs = [(frame[UDP].sport, frame[UDP].dport) for frame in frames]
    assert pairs == [(10, 20), (11, 20), (12, 20), (10, 21), (11, 21), (12, 21)]
    assert traffic.combinations == 6


def test_fields_are_counted_each_by_itself() -> None:
    vary = [Vary("UDP.sport", 3, first=10), Vary("UDP.dport", 2, first=20)]
    traffic = Traffic(packet=Ether() / IP() / UDP(), vary=vary, together=False)
    frames = [Ether(frame) for frame in frames_of_program(program(traffic))]
    pairs = [(frame[UDP].sport, frame[UDP].dport) for frame in frames]
    assert pairs == [(10, 20), (11, 21), (12, 20), (10, 21), (11, 20), (12, 21)]


def test_random_values_do_not_repeat_and_two_fields_do_not_go_together() -> None:
    vary = [Vary("IP.src", 1000, order="random"), Vary("IP.dst", 1000, order="random")]
    traffic = Traffic(packet=Ether() / IP() / UDP(), vary=vary, together=False)
    frames = [Ether(frame) for frame in islice(frames_of_program(program(traffic)), 1000)]
    assert len({frame[IP].src for frame in frames}) == len({frame[IP].dst for frame in frames}) == 1000
    ends = [(int(frame[IP].src.split(".")[3]), int(frame[IP].dst.split(".")[3])) for frame in frames]
    assert sum(one == other for one, other in ends) < 20


def test_routers_may_change_the_innermost_header() -> None:
    four = program(Traffic(packet=Ether() / Dot1Q() / IP() / UDP()))
    assert (four.compared_from, four.changeable) == (18, ((19, 1), (26, 1), (28, 2)))
    six = program(Traffic(packet=Ether() / IPv6() / UDP(), frame_size=200))
    assert (six.compared_from, six.changeable) == (14, ((14, 4), (21, 1)))
    labelled = program(Traffic(packet=Ether() / IPv6() / UDP(), frame_size=200, vary=[Vary("IPv6.fl", 9)]))
    assert labelled.changeable == ((14, 2), (21, 1))
    tunnel = program(Traffic(packet=Ether() / IP() / UDP() / VXLAN() / Ether() / IP() / UDP(), frame_size=200))
    assert (tunnel.compared_from, tunnel.changeable) == (64, ((65, 1), (72, 1), (74, 2)))
    other = program(Traffic(packet=Ether() / Dot1Q(type=0x88B5) / Raw(b"x")))
    assert (other.compared_from, other.changeable) == (18, ())


def test_what_a_nat_rewrites_may_change_with_its_checksums() -> None:
    traffic = Traffic(packet=Ether() / IP() / TCP(), frame_size=200, rewritten=["IP.src", "TCP.sport"])
    there, back = program(traffic), program(traffic, reverse=True)
    ttl_and_dscp = {(15, 1), (22, 1), (24, 2)}
    assert set(there.changeable) == ttl_and_dscp | {(26, 4), (34, 2), (50, 2)}
    assert set(back.changeable) == ttl_and_dscp | {(30, 4), (36, 2), (50, 2)}
    assert [(each.name, each.count) for each in back.fields] == [("IP.dst", 1), ("TCP.dport", 1)]
    assert {each.name: each.fields for each in back.checksums} == {"TCP.chksum": (0, 1), "IP.chksum": (0,)}


def test_lengths_and_checksums_of_a_captured_packet_are_made_anew() -> None:
    sent_by_another = Ether(src=A, dst=B) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=6000, dport=5000) / b"abc"
    captured = Ether(bytes(sent_by_another) + bytes(9))
    assert captured[IP].len == 31
    frame = sent(Traffic(packet=captured, frame_size=200))
    assert (frame[IP].len, frame[UDP].len, frame[Raw].load[:3]) == (182, 162, b"abc")


def test_checksums_as_given_are_sent_so() -> None:
    packet = Ether() / IP(len=1000, chksum=0x1234) / UDP()
    traffic = Traffic(packet=packet, vary=[Vary("IP.dst", 100)], checksums="as given")
    frames = [Ether(frame)[IP] for frame in islice(frames_of_program(program(traffic)), 3)]
    assert [(frame.len, frame.chksum, frame.dst) for frame in frames] == [
        (1000, 0x1234, "198.19.0.1"),
        (1000, 0x1234, "198.19.0.2"),
        (1000, 0x1234, "198.19.0.3"),
    ]


def test_a_udp_checksum_of_zero_is_the_users_wish() -> None:
    frame = sent(Traffic(packet=Ether() / IP() / UDP(chksum=0), vary=[Vary("IP.dst", 9)]), 4)
    assert frame[UDP].chksum == 0


def test_sizes_of_a_mix_have_templates_of_their_own() -> None:
    traffic = Traffic(packet=Ether() / IP() / UDP(), frame_size=IMIXES["simple"], vary=[Vary("IP.dst", 7)])
    made = program(traffic, sizes=(64, 594, 1518))
    assert [len(template) for template in made.templates] == [60, 590, 1514]
    for number, size in enumerate((64, 594, 1518)):
        frame = Ether(frame_at(made, number, b"S" * 14))
        assert (len(frame), frame[IP].len) == (size - 4, size - 18)


def test_a_traffic_keeps_its_packet() -> None:
    packet = Ether() / IP() / TCP(flags="S", options=[("MSS", 1460)])
    traffic = Traffic(packet=packet, vary=[Vary("IP.dst", 7)], frame_size=100)
    packet[IP].dst = "10.0.0.1"
    assert sent(traffic)[IP].dst == "198.19.0.1"
    same = Traffic(
        packet=Ether() / IP() / TCP(flags="S", options=[("MSS", 1460)]), vary=[Vary("IP.dst", 7)], frame_size=100
    )
    assert traffic == same
    assert hash(traffic) == hash(same)
    assert traffic != Traffic(packet=packet, vary=[Vary("IP.dst", 7)], frame_size=100)
    copied = pickle.loads(pickle.dumps(traffic))
    assert copied == traffic
    assert program(copied) == program(traffic)
    assert replace(traffic, frame_size=200).packet == traffic.packet
    assert program(replace(traffic, vary=(Vary("IP.src", 3),))).fields[0].name == "IP.src"


@pytest.mark.parametrize(
    ("packet", "label", "shape"),
    [
        (Ether() / IP() / UDP(), "udp", "200-udp"),
        (Ether() / Dot1Q() / IP() / TCP(), "vlan-tcp", "200-vlan-tcp"),
        (Ether() / Dot1Q() / Dot1Q() / IPv6() / TCP(), "qinq-ipv6-tcp", "200-qinq-ipv6-tcp"),
        (Ether() / IP() / UDP() / VXLAN() / Ether() / IP() / TCP(), "vxlan-tcp", "200-vxlan-tcp"),
        (Ether() / IP() / UDP() / GTP_U_Header(teid=1) / IP() / UDP(), "gtpu-udp", "200-gtpu-udp"),
        (Ether(type=0x88B5), "ethernet", "200-ethernet"),
        (Ether() / IP(proto=253), "ip", "200-ip"),
        (Ether() / ARP(), "arp", "200-arp"),
    ],
)
def test_labels_are_short(packet: Packet, label: str, shape: str) -> None:
    traffic = Traffic(packet=packet, frame_size=200)
    assert (traffic.headers_label, traffic.shape_label) == (label, shape)
    assert traffic.headers_name == " / ".join(each.__name__ for each in packet.layers())
    assert replace(traffic, vary=(Vary("Ether.src", 5),)).shape_label == f"{shape}-vary1"


def test_evidence_keeps_what_describes_the_packet() -> None:
    vary = (Vary("IP.dst", 9, first="10.0.0.1", order="random"), Vary("TCP.sport", 64, step=2))
    traffic = Traffic(packet=Ether() / Dot1Q(vlan=20) / IP() / TCP(dport=80), vary=vary, together=False, frame_size=100)
    spec = TrialSpec(traffic, 1000, 1.0, (Direction("a", "b"),))
    data = trial_data(TrialResult(spec, (), RigHealth(), ()), wall_s=1.0, encode=None)
    line = json.dumps(make_record(data, id="trial-0001", run="r", test="t", time_ns=1).to_json())
    read = parse_line(line).data.result.spec.traffic
    assert read.packet == RecordedFrames(
        label="vlan-tcp",
        text="Ether / Dot1Q / IP / TCP",
        layers=("Ether", "Dot1Q", "IP", "TCP"),
        header_bytes=58,
        least_frame_size=76,
        combinations=576,
        frame=read.packet.frame,
        command="Ether()/Dot1Q(vlan=20)/IP()/TCP(dport=80)",
    )
    shown = Ether(bytes.fromhex(read.packet.frame))
    assert (len(shown), shown[Dot1Q].vlan, shown[IP].dst, shown[TCP].dport) == (72, 20, "10.0.0.1", 80)
    assert (read.vary, read.together, read.frame_size) == (vary, False, 100)
    for name in ("shape_label", "headers_name", "header_bytes", "least_frame_size", "ip_version", "combinations"):
        assert getattr(read, name) == getattr(traffic, name)
    assert traffic_drawing(read) == traffic_drawing(traffic)
    with pytest.raises(ConfigError) as caught:
        program(read)
    assert str(caught.value) == (
        "Ether / Dot1Q / IP / TCP was read from evidence, which describes frames and cannot send them: build it again "
        "as Ether()/Dot1Q(vlan=20)/IP()/TCP(dport=80)"
    )


def test_a_packet_is_drawn() -> None:
    vary = (Vary("IP.dst", 9, first="10.0.0.1", order="random"), Vary("UDP.sport", 1000, step=2))
    traffic = Traffic(packet=Ether() / IP() / UDP(sport=1, dport=2), vary=vary, rewritten=["IP.src", "UDP.sport"])
    lines = traffic_drawing(traffic).splitlines()
    assert lines[:7] == [
        "┌───────┬────┬─────┬───────────┬─────────┐",
        "│ Ether │ IP │ UDP │ signature │ pattern │",
        "└───────┴────┴─────┴───────────┴─────────┘",
        "IP.dst: 9 values from 10.0.0.1, in a fixed random order",
        "UDP.sport: 1,000 values by 2",
        "counted jointly: 9,000 different headers",
        "the DUT may rewrite IP.src, UDP.sport",
    ]
    assert lines[7] == "one frame, of 64 bytes with FCS:"
    assert lines[8] == "0000  02 00 00 00 00 02 02 00 00 00 00 01 08 00 45 00"
    assert traffic_drawing(Traffic(vlan=7, flows=9)) == "tagged IPv4 (VLAN 7), UDP: 64 bytes with FCS, 9 flows"
    spec = TrialSpec(traffic, 1000, 1.0, (Direction("a", "b"),))
    assert traffic_drawings([spec, spec]) == [traffic_drawing(traffic)]


@pytest.mark.parametrize(("frame_size", "size"), [(256, 256), (Imix("own", ((100, 1), (1518, 1))), 100)])
def test_a_packet_is_drawn_with_the_size_and_lengths_that_are_sent(frame_size: int | Imix, size: int) -> None:
    traffic = Traffic(packet=Ether() / IP() / UDP(), frame_size=frame_size)
    lines = traffic_drawing(traffic).splitlines()
    assert lines[3:-4] == [f"frames: {traffic.sizes_text}"] * (size == 100) + [
        f"one frame, of {size} bytes with FCS, without the pattern at its end:"
    ]
    shown = Ether(bytes.fromhex("".join(line[6:] for line in lines[-4:])))
    assert (shown[IP].len, shown[UDP].len) == (size - 18, size - 38)


def test_each_class_is_drawn_with_its_load_and_sizes() -> None:
    packet = Traffic(packet=Ether() / IP() / UDP(), frame_size=200)
    shared = TrafficMix(a=(packet, "30 %", "forward"), b=(Traffic(), "30 %", "reverse"), c=(Traffic(vlan=5), 0.7))
    fixed = TrafficMix(voice=(packet, "100 kpps"), bulk=(Traffic(), "100 %"))
    drawn = traffic_drawings(TrialSpec(mix, 10**6, 1.0, (Direction("a", "b"),)) for mix in (shared, fixed))
    assert [drawing.splitlines()[0] for drawing in drawn] == [
        "class a, 30 % of the load, forward",
        "class b, 30 % of the load, reverse",
        "class c, 70 % of the load, both directions",
        "class voice, 100 kpps per direction, both directions",
        "class bulk, 100 % of the load that the others leave, both directions",
    ]
    assert drawn[0].endswith(traffic_drawing(packet))
    assert drawn[1].endswith(f"\n{traffic_drawing(Traffic())}")
