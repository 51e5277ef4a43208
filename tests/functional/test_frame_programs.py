"""Frame programs on a real engine: what it sends, and what it makes of frames that a DUT of scapy's has changed.

Ports are files (DPDK's net_pcap): what one sends is read by scapy, changed, and received by another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet
from scapy.utils import RawPcapReader, wrpcap

from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.generators.frames import program_of, program_stream
from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_of
from pytest_nfvperf.model.traffic.packet import PacketStack
from pytest_nfvperf.model.traffic.packet_program import PacketSettings, Vary
from pytest_nfvperf.model.traffic.traffic import Traffic, Vxlan
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.examples import examples
from tests.functional.engine_talk import Talk, talk, talks
from tests.functional.generator_support import hugepages_mib, run_dir
from tests.unit.test_packet_stacks import STACKS, built_again, varied

__all__ = ["talk", "talks"]

FRAMES = 150
FLUSHED = 64
"""Frames that a port loses before a trial begins: as many as its ring has room for."""

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
PORTS = {name: GeneratorPort(name, "x", mac) for name, mac in zip("ab", MACS, strict=True)}
DIRECTION = Direction("a", "b")
NAT = ("IP.src", "IP.dst", "TCP.sport")


class Files:
    """An engine whose ports are files."""

    def __init__(self, talk: Talk, directory: Path) -> None:
        self._talk, self._directory, self._trials, self._ports = talk, directory, 0, 0

    def _attach(self, name: str, device: str) -> None:
        self._ports += 1
        port = {"cmd": "attach", "name": name, "device": device, "mac": MACS[0], "rx_descriptors": FLUSHED, "mtu": 9000}
        answer = self._talk.ask(**port)
        assert answer["ok"], answer

    def _trial(self, streams: Sequence[dict[str, Any]]) -> Any:
        self._trials += 1
        answer = self._talk.ask(cmd="trial", residual_ns=50_000_000, streams=streams, latency=False)
        assert answer["ok"], answer
        return answer

    def sent(self, *programs: FrameProgram, least: int = 1) -> list[bytes]:
        """What a trial of these streams, on one port, puts into its file; a busy machine may skip some of it."""
        caught: list[bytes] = []
        for _ in range(20):
            if len(caught := self._sent_once(programs)) >= least:
                break
        assert len(caught) >= least, "twenty trials in a row were too disturbed"
        return caught

    def _sent_once(self, programs: Sequence[FrameProgram]) -> list[bytes]:
        written = self._directory / f"{self._ports}.pcap"
        self._attach("a", f"net_pcap,tx_pcap={written}")
        self._attach("unused", "net_ring")
        streams = [stream("unused", program) for program in programs]
        counts = self._trial(streams)["streams"]
        for name in ("a", "unused"):
            assert self._talk.ask(cmd="detach", name=name)["ok"]
        with RawPcapReader(str(written)) as frames:
            caught = [data for data, _ in frames]
        assert len(caught) == sum(one["sent"] for one in counts)
        return caught

    def received(self, program: FrameProgram, *arriving: Sequence[bytes], ends: int | None = None) -> Any:
        """The answer of a trial in which ports r0, r1 ... receive these frames: see signed_again().

        ``ends``: at how many of these ports the stream ends; None: at all.
        """
        receivers = [f"r{number}" for number in range(len(arriving))]
        for name, frames in zip(receivers, arriving, strict=True):
            file = self._directory / f"{self._ports}.pcap"
            fillers = [bytes(Ether() / ARP())] * FLUSHED
            wrpcap(str(file), [*fillers, *frames])
            self._attach(name, f"net_pcap,rx_pcap={file},tx_pcap=/dev/null")
        self._attach("a", "net_ring")
        answer = self._trial([stream(receivers[:ends], program)])
        for name in ("a", *receivers):
            assert self._talk.ask(cmd="detach", name=name)["ok"]
        assert [answer["ports"][name]["flushed"] for name in receivers] == [FLUSHED] * len(receivers)
        return answer


def signed_again(made: FrameProgram, caught: Sequence[bytes]) -> list[bytes]:
    """Frames that a trial sent, as the next one would: its number is in signatures, which checksums are over."""
    again = []
    for frame in caught:
        at = next(offset for offset in made.signatures if frame[offset : offset + 2] == b"\x4e\x66")
        number, signature = number_of(frame, at), bytearray(frame[at : at + 14])
        signature[2] = signature[2] % 255 + 1  # the engine's trials are numbered 1 to 255
        template = made.order[number % len(made.order)]
        assert at == made.signatures[template]
        again.append(frame_of(made, template, number % made.combinations, bytes(signature)))
    return again


def stream(rx: str | list[str], program: FrameProgram) -> dict[str, Any]:
    return {"tx": "a", "rx": rx, "fps": 20_000, "frames": FRAMES, **program_stream(program)}


def program(traffic: Traffic) -> FrameProgram:
    return program_of(traffic, DIRECTION, PORTS, reverse=False)


@pytest.fixture
def files(talk: Talk, tmp_path: Path) -> Files:
    return Files(talk, tmp_path)


def number_of(frame: bytes, signature: int) -> int:
    return int.from_bytes(frame[signature + 4 : signature + 8], "little")


def test_each_frame_of_fifty_stacks_is_what_the_program_says(files: Files) -> None:
    """Byte for byte, as the model builds it, which scapy's own building is held to (tests/unit)."""
    for name, (packet, given_fields) in STACKS.items():
        # the engine has a table
        vary = tuple(replace(field, count=min(field.count, 1 << 20)) for field in given_fields)
        stack = PacketStack.of(packet, PacketSettings(vary))
        least = stack.least_frame_size
        made = stack.program(
            (least, least + 1, 700), (0, 1, 0, 2), source_mac=MACS[0], destination_mac=MACS[1], reverse=False
        )
        caught = files.sent(made)
        for number, frame in enumerate(caught):
            template = made.order[number % len(made.order)]
            at = made.signatures[template]
            assert number_of(frame, at) == number, name
            expected = frame_of(made, template, number % made.combinations, frame[at : at + 14])
            assert frame == expected, f"{name}: frame {number}"


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(varied(), st.booleans(), st.integers(0, 40))
def test_frames_of_random_stacks_have_the_checksums_that_scapy_computes(
    files: Files, made: tuple[Packet, tuple[Vary, ...]], together: bool, longer: int
) -> None:
    """For each value of the fields that comes up in a trial."""
    packet, vary = made
    stack = PacketStack.of(packet, PacketSettings(vary, together))
    size = stack.least_frame_size + longer
    sent = stack.program((size,), (0,), source_mac=MACS[0], destination_mac=MACS[1], reverse=False)
    for number, frame in enumerate(files.sent(sent)):
        assert number_of(frame, stack.header_bytes) == number
        assert len(frame) == size - 4
        assert built_again(frame, packet, stack.header_bytes) == frame


def test_streams_of_different_headers_share_the_buffers_of_a_port(files: Files) -> None:
    """A capture whose frames are not the pattern, short and long ones in turn, beside plain frames."""
    odd = bytes(range(255, -1, -1)) * 6
    frames = [bytes(Ether(dst=MACS[1], src=MACS[0], type=0x88B5)) + odd[:size] for size in (60, 1400, 300, 1500)]
    offsets = (20, 700, 200, 1400)
    templates = [frame[:at] + bytes(14) + frame[at + 14 :] for frame, at in zip(frames, offsets, strict=True)]
    capture = FrameProgram(tuple(templates), offsets, (3, 0, 1, 2))
    others = [program(Traffic(1518, flows=7)), program(Traffic(128, vxlan=Vxlan(), flows=9)), capture]
    seen = dict.fromkeys(range(len(others)), 0)
    for frame in files.sent(*others):
        found = [
            at
            for at, made in enumerate(others)
            for number, offset in enumerate(made.signatures)
            if len(frame) == len(made.templates[number])
            and frame[offset : offset + 2] == b"\x4e\x66"
            and frame[offset + 3] & 0x3F == at
        ]
        assert len(found) == 1
        made = others[found[0]]
        number = seen[found[0]]
        template = made.order[number % len(made.order)]
        offset = made.signatures[template]
        assert frame == frame_of(made, template, number % made.combinations, frame[offset : offset + 14])
        seen[found[0]] += 1
    assert min(seen.values()) > 0


PLAIN = Traffic(packet=Ether() / IP() / UDP(), vary=(Vary("IP.src", 50), Vary("UDP.sport", 3)), frame_size=90)
TAGGED = Traffic(packet=Ether() / Dot1AD(vlan=5) / Dot1Q(vlan=6) / IP() / UDP(), frame_size=72)
TUNNEL = Traffic(128, vxlan=Vxlan(), flows=40)
CONNECTION = Traffic(
    packet=Ether() / IP() / TCP(flags="A"), vary=(Vary("IP.src", 40, order="random"),), rewritten=NAT, frame_size=100
)
STILL = Traffic(packet=Ether() / IP() / TCP(flags="A"), rewritten=NAT, frame_size=100)
LONG = Traffic(packet=Ether() / IPv6() / UDP(), vary=(Vary("IPv6.src", 30),), frame_size=1518)


def encapsulated(*outer: Packet) -> Callable[[bytes], bytes]:
    def change(frame: bytes) -> bytes:
        packet = outer[0]
        for layer in outer[1:]:
            packet = packet / layer
        return bytes(packet / Ether(frame))

    return change


def with_tags(*tags: Packet) -> Callable[[bytes], bytes]:
    """Between the addresses and the type; the type that the frame had is the last tag's."""

    def change(frame: bytes) -> bytes:
        packet: Packet = Ether(src=MACS[1], dst=MACS[0])
        for tag in tags:
            packet = packet / tag.copy()
        return bytes(packet / Ether(frame).payload)

    return change


def without(count: int, *, padded: bool = False) -> Callable[[bytes], bytes]:
    return lambda frame: (frame[:12] + frame[12 + count :]).ljust(60 if padded else 0, b"\0")


def translated(frame: bytes) -> bytes:
    """As a router with NAT does it; scapy computes what follows."""
    packet = Ether(frame)
    packet[IP].src, packet[IP].dst, packet[TCP].sport = "100.64.1.2", "203.0.113.9", 40000 + packet[TCP].sport % 999
    packet[IP].ttl -= 1
    del packet[IP].chksum, packet[TCP].chksum
    return bytes(packet)


def routed(frame: bytes) -> bytes:
    packet = Ether(frame)
    packet[IP].ttl, packet.src = packet[IP].ttl - 1, "02:00:00:00:00:77"
    del packet[IP].chksum
    return bytes(packet)


def half_translated(frame: bytes) -> bytes:
    packet = Ether(frame)
    packet[IP].src = "100.64.1.2"
    del packet[IP].chksum
    return bytes(packet)


BETWEEN = Ether(src=MACS[1], dst=MACS[0])  # without addresses scapy asks the network for them, 4 s a frame
OUTER = (BETWEEN, IP(src="192.0.2.1", dst="192.0.2.2"))
AS_SENT = [
    pytest.param(PLAIN, bytes, id="as-sent"),
    pytest.param(PLAIN, routed, id="routed"),
    pytest.param(PLAIN, with_tags(Dot1Q(vlan=9)), id="tag-pushed"),
    pytest.param(PLAIN, with_tags(Dot1AD(vlan=8), Dot1Q(vlan=9)), id="two-tags-pushed"),
    pytest.param(PLAIN, with_tags(MPLS(label=3, s=0), MPLS(label=4)), id="labels-pushed"),
    pytest.param(TAGGED, without(4), id="tag-popped"),
    pytest.param(TAGGED, without(8, padded=True), id="two-tags-popped-and-padded"),
    pytest.param(PLAIN, encapsulated(*OUTER, UDP(), VXLAN(vni=4)), id="in-vxlan"),
    pytest.param(PLAIN, encapsulated(*OUTER, UDP(), GENEVE(vni=4)), id="in-geneve"),
    pytest.param(LONG, encapsulated(BETWEEN, IPv6(), GRE(proto=0x6558)), id="long-in-gre"),
    pytest.param(TUNNEL, lambda frame: bytes(Ether(frame)[VXLAN].payload), id="out-of-vxlan"),
    pytest.param(CONNECTION, translated, id="nat"),
    pytest.param(STILL, translated, id="nat-of-one-flow"),
    pytest.param(CONNECTION, routed, id="routed-tcp"),
    pytest.param(LONG, bytes, id="long"),
]


@pytest.mark.parametrize(("traffic", "change"), AS_SENT)
def test_frames_are_known_however_they_come(files: Files, traffic: Traffic, change: Callable[[bytes], bytes]) -> None:
    made = program(traffic)
    caught = signed_again(made, files.sent(made))
    answer = files.received(made, [change(frame) for frame in caught])
    (counts,) = answer["streams"]
    assert counts["received"] == len(caught)
    assert (counts["corrupted"], counts["truncated"], counts["duplicated"], counts["out_of_order"]) == (0, 0, 0, 0)
    assert set(answer["ports"]["r0"]["foreign"].values()) == {0}


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda frame: frame[:at] + bytes([frame[at] ^ 4]) + frame[at + 1 :]


WRONG = [
    pytest.param(PLAIN, flipped(80), id="payload"),
    pytest.param(PLAIN, flipped(27), id="varied-field"),
    pytest.param(PLAIN, flipped(30), id="address"),
    pytest.param(PLAIN, flipped(40), id="checksum"),
    pytest.param(LONG, flipped(40), id="varied-field-of-a-long-frame"),
    pytest.param(CONNECTION, half_translated, id="nat-without-its-checksum"),
    pytest.param(STILL, half_translated, id="nat-of-one-flow-without-its-checksum"),
    pytest.param(PLAIN, lambda frame: frame + b"\0", id="too-long"),
    pytest.param(TAGGED, lambda frame: without(4)(flipped(36)(frame)), id="popped-and-changed"),
]


@pytest.mark.parametrize(("traffic", "change"), WRONG)
def test_what_is_not_as_it_was_sent_is_corrupted(
    files: Files, traffic: Traffic, change: Callable[[bytes], bytes]
) -> None:
    made = program(traffic)
    caught = signed_again(made, files.sent(made))
    (counts,) = files.received(made, [change(frame) for frame in caught])["streams"]
    assert (counts["received"], counts["corrupted"], counts["truncated"]) == (len(caught), len(caught), 0)


def test_frames_without_their_end_are_truncated(files: Files) -> None:
    made = program(PLAIN)
    caught = signed_again(made, files.sent(made))
    (counts,) = files.received(made, [with_tags(Dot1Q(vlan=9))(frame)[:76] for frame in caught])["streams"]
    assert (counts["received"], counts["corrupted"], counts["truncated"]) == (len(caught),) * 3


@pytest.mark.thorough("a request of 100 MB")
def test_the_largest_stream_is_taken_in_a_few_seconds(tmp_path: Path) -> None:
    """65,536 templates of 762 bytes, none like another: a request of 100 MB, as large as a capture makes it."""
    pattern = bytes(range(256)) * 3
    heads = [bytes.fromhex("020000000002020000000001") + b"\x88\xb5" + at.to_bytes(4, "big") for at in range(65_536)]
    made = FrameProgram(
        tuple(head + bytes(14) + pattern[: 762 - 32] for head in heads),
        signatures=(18,) * 65_536,
        order=tuple(range(65_536)),
        compared_from=14,
    )
    with run_dir() as directory:
        eal = eal_arguments([0], [0], "largest", hugepages_mib(), ())
        own = {"RUNTIME_DIRECTORY": str(directory)}
        engine = Engine([str(build()), "--parent", str(os.getpid()), "--nice", "0", *eal], tmp_path / "log", own)
        try:
            engine.command("attach", 10, name="a", device="net_ring", mac=MACS[0])
            before = psutil.Process(engine.pid).cpu_times()
            answer = engine.command("trial", 60, residual_ns=10**8, streams=[stream("a", made)])
            after = psutil.Process(engine.pid).cpu_times()
            assert after.user + after.system - before.user - before.system < 10
        finally:
            engine.close()
    (counts,) = answer["streams"]
    assert counts["received"] == counts["sent"] > 0
    assert counts["corrupted"] == 0


def test_what_is_no_test_frame_is_foreign(files: Files) -> None:
    made = program(PLAIN)
    files.sent(made)
    strangers = [Ether() / ARP(), Ether() / IPv6() / UDP(), Ether(type=0x88CC), Ether(dst="01:80:c2:00:00:00")]
    answer = files.received(made, [bytes(each).ljust(60, b"\0") for each in strangers])
    assert answer["streams"][0]["received"] == 0
    assert answer["ports"]["r0"]["foreign"] == {
        "arp": 1,
        "ipv6": 1,
        "lldp": 1,
        "stp": 1,
        "other": 0,
        "other_trial": 0,
        "misdirected": 0,
    }


def test_frames_that_are_changed_beyond_recognition_are_corrupted_and_lost(files: Files) -> None:
    made = program(PLAIN)
    caught = signed_again(made, files.sent(made, least=20))
    cut = [flipped(made.signatures[0])(frame) for frame in caught[:3]] + [frame[:40] for frame in caught[3:5]]
    answer = files.received(made, [*cut, *caught[5:15]])
    (counts,) = answer["streams"]
    assert (counts["received"], counts["corrupted"], counts["duplicated"]) == (10, 5, 0)
    assert set(answer["ports"]["r0"]["foreign"].values()) == {0}


def test_frames_at_a_port_where_they_do_not_end_are_told_by_stream_and_port(files: Files) -> None:
    made = program(PLAIN)
    caught = signed_again(made, files.sent(made, least=20))
    answer = files.received(made, caught[:10], [*caught[10:15], *caught[10:12]], ends=1)
    (counts,) = answer["streams"]
    assert (counts["received"], counts["duplicated"], counts["misdirected"]["r1"]) == (10, 0, 7)
    assert counts["misdirected"]["a"] == counts["sent"], "a ring gives its own sender each frame"
    assert [answer["ports"][port]["foreign"]["misdirected"] for port in ("r0", "r1")] == [0, 7]


def test_a_stream_to_several_ports_is_counted_at_each(files: Files) -> None:
    """Broadcast: the first port's counts are the stream's own."""
    made = program(PLAIN)
    caught = signed_again(made, files.sent(made))
    some = [flipped(80)(frame) if number == 3 else frame for number, frame in enumerate(caught) if number % 3 == 0]
    (counts,) = files.received(made, caught, some)["streams"]
    assert (counts["received"], counts["corrupted"]) == (len(caught), 0)
    assert list(counts["receivers"]) == ["r0", "r1"]
    first, second = counts["receivers"].values()
    assert (first["received"], first["corrupted"], first["highest_seq"]) == (len(caught), 0, len(caught))
    assert (second["received"], second["corrupted"]) == (len(some), 1)
    assert second["due"]["gap_frames"] == 2
