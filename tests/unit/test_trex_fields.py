"""Frame programs as instructions of TRex's field engine: what the server makes of them is what every engine sends.

The server's own way of running them is here in short (trex-core, stx/stl/trex_stl_stream_vm.h), with its oddities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP, SCTPChunkData
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from pytest_nfvperf.features.trex.child_process import stream_of
from pytest_nfvperf.features.trex.stream_plan import instructions
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_at
from pytest_nfvperf.model.traffic.packet import PacketStack
from pytest_nfvperf.model.traffic.packet_program import PacketSettings, Vary

MACS = {"source_mac": "02:00:00:00:00:0a", "destination_mac": "02:00:00:00:00:0b"}
SIGNATURE_BYTES = 14


class FakeApi:
    """Keeps what the client library's classes are made with."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **told: list(args[0]) if args else {"made": name, **told}


class FieldEngine:
    """A server's field engine with one stream: ``instructions`` as the client library was told."""

    def __init__(self, told: Sequence[dict[str, Any]]) -> None:
        self._variables = [one for one in told if one["made"] == "STLVmFlowVar"]
        self._others = [one for one in told if one["made"] != "STLVmFlowVar"]
        self._followers = {one.get("next_var") for one in self._variables} - {None}
        self._memory = {one["name"]: before(one) for one in self._variables}
        self._positions = {one["name"]: 0 for one in self._variables}
        for one, behind in zip(self._variables, [*self._variables[1:], None], strict=True):
            assert one.get("next_var") is None or (behind and one["next_var"] == behind["name"])
            assert one["name"] not in self._followers or one["split_to_cores"] is False
        assert sum(one["size"] for one in self._variables) <= 64

    def next_frame(self, template: bytes) -> bytes:
        frame = bytearray(template)
        at = 0
        while at < len(self._variables):
            through = self._count(self._variables[at])
            at += 1
            while not through and at < len(self._variables) and self._variables[at]["name"] in self._followers:
                at += 1
        for one in self._others:
            if one["made"] == "STLVmFixIpv4":
                fix_ipv4(frame, one["offset"])
            else:
                self._write(frame, one)
        return bytes(frame)

    def _count(self, one: dict[str, Any]) -> bool:
        """Whether it is through; then, and only then, what follows it counts."""
        name, step = one["name"], one["step"]
        if "value_list" in one:
            position = self._positions[name]
            self._memory[name] = one["value_list"][position]
            self._positions[name] = (position + step) % len(one["value_list"])
            return bool(position < step)
        low, high, now = one["min_value"], one["max_value"], self._memory[name]
        left = now - low if one["op"] == "dec" else high - now
        self._memory[name] = moved(low, high, now, step, down=one["op"] == "dec")
        return left < step

    def _write(self, frame: bytearray, one: dict[str, Any]) -> None:
        value, size = self._memory[one["fv_name"]], self._size(one["fv_name"])
        assert value < 1 << size * 8
        at = one["pkt_offset"]
        if one["made"] == "STLVmWrFlowVar":
            frame[at : at + size] = value.to_bytes(size, "big")
            return
        width, mask = one["pkt_cast_size"], one["mask"]
        assert one["made"] == "STLVmWrMaskFlowVar"
        assert size <= 4  # of eight bytes it would read the wrong half
        window = int.from_bytes(frame[at : at + width], "big")
        window = window & ~mask | value << one["shift"] & mask & 0xFFFFFFFF
        frame[at : at + width] = (window & (1 << width * 8) - 1).to_bytes(width, "big")

    def _size(self, name: str) -> int:
        return next(int(one["size"]) for one in self._variables if one["name"] == name)


def before(one: dict[str, Any]) -> int:
    """What the server keeps at first: the value before the initial one; of a list, something else."""
    if "value_list" in one:
        return len(one["value_list"]) - 1
    low, high, begin, step = one["min_value"], one["max_value"], one["init_value"], one["step"]
    assert 0 <= low <= begin <= high < 1 << one["size"] * 8
    assert (high - low + 1) % step == 0  # the client library refuses others, or sends something between
    return moved(low, high, begin, step % (high - low + 1), down=one["op"] != "dec")


def moved(low: int, high: int, now: int, step: int, *, down: bool) -> int:
    """One step on, or from the end of the range to its other end."""
    left = now - low if down else high - now
    if step <= left:
        return now - step if down else now + step
    return high - (step - left - 1) if down else low + step - left - 1


def fix_ipv4(frame: bytearray, at: int) -> None:
    header = IP(bytes(frame[at : at + (frame[at] & 15) * 4]))
    del header.chksum
    frame[at + 10 : at + 12] = bytes(header)[10:12]


def made_by_server(program: FrameProgram, begin: int = 0) -> Iterator[bytes]:
    """The frames that the server makes, from a stream that begins with this combination."""
    plan = {
        "latency": False,
        "id": 7,
        "frame": program.templates[0].hex(),
        "fps": 1.0,
        "frames": 5,
        "start_after_us": 0,
        "fields": instructions(program, begin),
    }
    made = stream_of(FakeApi(), plan)
    engine = FieldEngine(made["packet"]["vm"] or ())
    while True:
        yield engine.next_frame(program.templates[0])


def program_of(
    packet: Packet, *vary: Vary, size: int = 0, reverse: bool = False, together: bool = True
) -> FrameProgram:
    stack = PacketStack.of(packet, PacketSettings(vary, together))
    return stack.program((size or stack.least_frame_size,), (0,), reverse=reverse, **MACS)


def assert_same(program: FrameProgram, begin: int = 0, frames: int = 300) -> None:
    """The server sends what any engine sends, with whatever it has where the others have their signature."""
    at = program.signatures[0]
    for number, sent in enumerate(islice(made_by_server(program, begin), frames), begin):
        assert sent == frame_at(program, number, sent[at : at + SIGNATURE_BYTES])


INNER = IP() / UDP(chksum=0)
SENT = [
    (Ether() / IP() / UDP(), [Vary("IP.dst", 1000)]),
    (Ether() / IP() / UDP(chksum=0), [Vary("IP.dst", 1000, order="random")]),
    (Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(dport=80, flags="S"), [Vary("TCP.sport", 64, step=2)]),
    (
        Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20, prio=3) / IP() / TCP(),
        [Vary("Dot1Q.vlan", 100), Vary("Dot1AD.prio", 8, 0)],
    ),
    (Ether() / IP() / TCP(), [Vary("IP.dst", 10_000, order="random"), Vary("TCP.sport", 64, step=2)]),
    (Ether() / IP() / TCP(), [Vary("IP.src", 70_000), Vary("TCP.dport", 3, 80), Vary("TCP.sport", 5, 1024, step=1000)]),
    (Ether() / IP(tos=0x20) / UDP(), [Vary("IP.tos", 4, step=4), Vary("Ether.src", 300, "02:00:00:00:01:fe")]),
    (Ether() / IP() / ICMP(), [Vary("ICMP.seq", 100), Vary("IP.dst", 7)]),
    (Ether() / IPv6() / UDP(), [Vary("IPv6.dst", 100_000)]),
    (Ether() / IPv6() / ICMPv6EchoRequest(), [Vary("ICMPv6EchoRequest.id", 10, step=1000), Vary("IPv6.src", 10)]),
    (Ether() / IPv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / TCP(), [Vary("IPv6.dst", 900, order="random")]),
    (Ether() / IP() / SCTP() / SCTPChunkData(tsn=1), [Vary("SCTP.sport", 100), Vary("SCTPChunkData.tsn", 10)]),
    (
        Ether() / IP() / UDP(chksum=0) / VXLAN(vni=7) / Ether() / INNER,
        [Vary("IP[2].dst", 20_000), Vary("VXLAN.vni", 5)],
    ),
    (Ether() / IP() / UDP() / VXLAN(vni=7) / Ether() / IP() / TCP(), [Vary("IP[2].dst", 100), Vary("TCP.sport", 10)]),
    (Ether() / IP() / UDP() / GENEVE(vni=7) / Ether() / IPv6() / UDP(), [Vary("IPv6.dst", 200, order="random")]),
    (Ether() / IP() / UDP() / GTP_U_Header() / IP() / UDP(), [Vary("GTP_U_Header.teid", 1000), Vary("IP[2].src", 3)]),
    (
        Ether() / IP() / GRE(chksum_present=1) / IP() / TCP(),
        [Vary("IP[2].src", 50), Vary("TCP.sport", 9, order="random")],
    ),
    (Ether() / IP() / TCP(), [Vary("TCP.seq", 1 << 20, 0, step=64)]),
    (Ether() / IP() / TCP(), [Vary("TCP.sport", 20_000, 60_001, step=-3), Vary("IP.tos", 6, 10, step=-2)]),
]


@pytest.mark.parametrize(
    ("packet", "vary"), SENT, ids=[f"{packet.summary()[:40]} {len(vary)}" for packet, vary in SENT]
)
@pytest.mark.parametrize("together", [True, False], ids=["together", "each"])
def test_the_server_sends_the_same_bytes(packet: Packet, vary: list[Vary], together: bool) -> None:
    for reverse in (False, True):
        program = program_of(packet, *vary, size=200, reverse=reverse, together=together)
        assert_same(program)


@given(st.sampled_from(SENT), st.integers(0, 1 << 24), st.booleans())
def test_streams_continue_where_the_one_before_ended(
    sent: tuple[Packet, list[Vary]], begin: int, together: bool
) -> None:
    packet, vary = sent
    program = program_of(packet, *vary, size=200, together=together)
    begin %= program.combinations
    if not any("values" in one and one["next"] for one in instructions(program)["variables"]):
        assert_same(program, begin, 20)
    else:
        assert instructions(program, begin) == instructions(
            program
        )  # a list that others wait for begins with its first


FIRSTS = {
    "IP.dst": "198.18.255.200",
    "IP.tos": 1,
    "TCP.sport": 250,
    "TCP.seq": 1 << 31,
    "Dot1Q.vlan": 1,
    "Ether.src": None,
}


@given(st.lists(st.sampled_from(sorted(FIRSTS)), min_size=1, unique=True), st.data())
def test_any_fields_of_a_packet(names: list[str], data: st.DataObject) -> None:
    counts, steps, orders = st.integers(1, 60), st.integers(1, 4), st.sampled_from(["up", "random"])
    vary = [Vary(name, data.draw(counts), FIRSTS[name], data.draw(steps), data.draw(orders)) for name in names]
    program = program_of(Ether(src="02:00:00:00:00:f0") / Dot1Q() / IP() / TCP(), *vary, size=100)
    if program.combinations == 1:
        assert instructions(program) == {}
    else:
        assert_same(program, frames=150)


def test_frames_that_begin_again_are_the_first_ones() -> None:
    program = program_of(Ether() / IP() / TCP(), Vary("IP.dst", 5), Vary("TCP.sport", 3, order="random"))
    made = list(islice(made_by_server(program), 45))
    assert made[:15] == made[15:30] == made[30:]
    assert len(set(made)) == 15


def test_a_packet_that_does_not_vary_has_no_instructions() -> None:
    assert instructions(program_of(Ether() / IP() / TCP(), Vary("IP.dst", 1))) == {}


def test_what_the_server_splits_among_its_cores() -> None:
    alone = instructions(program_of(Ether() / IP() / TCP(), Vary("IP.dst", 9), Vary("TCP.sport", 4), together=False))
    assert alone["one_core"] is False
    for vary in ([Vary("IP.dst", 9), Vary("TCP.sport", 4)], [Vary("IP.dst", 9, order="random")]):
        fields = instructions(program_of(Ether() / IP() / TCP(), *vary))
        assert fields["one_core"] is True
        plan = {"id": 7, "frame": "00" * 60, "fps": 1.0, "frames": 5, "start_after_us": 0, "fields": fields}
        assert stream_of(FakeApi(), {**plan, "latency": False})["core_id"] == 0
        assert "core_id" not in stream_of(FakeApi(), {**plan, "latency": True})


TCP_IN_VXLAN = Ether() / IP() / UDP() / VXLAN() / Ether() / IP() / TCP()


@pytest.mark.parametrize(
    ("packet", "field", "seen"),
    [(Ether() / MPLS(label=16) / IP() / UDP(), "IP.dst", "0x8847"), (Ether() / ARP(), "ARP.pdst", "0x0806")],
)
def test_what_the_server_cannot_count_is_said(packet: Packet, field: str, seen: str) -> None:
    for vary in ([], [Vary(field, 10)]):
        with pytest.raises(UnavailableError) as refused:
            instructions(program_of(packet, *vary))
        assert str(refused.value) == (
            "TRex counts a frame by its first IPv4 or IPv6 header behind Ethernet and VLAN tags, and this frame has "
            f"type {seen} there: send IP in it, or use the embedded engine"
        )


@pytest.mark.parametrize(
    ("packet", "field"), [(Ether() / IP() / UDP(), "IP.id"), (Ether() / IPv6() / UDP(), "IPv6.fl")]
)
def test_what_the_server_overwrites_cannot_vary(packet: Packet, field: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        instructions(program_of(packet, Vary(field, 10)))
    assert str(refused.value) == (
        f"TRex writes the number of its stream over {field}, so it cannot vary: vary another field, or use the "
        "embedded engine"
    )


@pytest.mark.parametrize(
    ("packet", "vary", "reason"),
    [
        (
            Ether() / IP() / UDP(),
            Vary("IP.dst", 65_537, order="random"),
            "IP.dst takes 65,537 values in random order, and a list has at most 65,535",
        ),
        (
            Ether() / IP() / SCTP() / SCTPChunkData(tsn=1),
            Vary("SCTP.sport", 20_000),
            "SCTP.sport changes SCTP.chksum, which the server does not compute",
        ),
        (
            TCP_IN_VXLAN,
            Vary("IP[2].dst", 20_000),
            "IP[2].dst changes TCP.chksum and UDP.chksum, which the server does not compute",
        ),
        (
            Ether(src="02:00:00:00:00:01") / IP() / UDP(chksum=0),
            Vary("Ether.src", 20_000, step=1 << 30),
            "Ether.src changes in 45 bits, and the server writes 32",
        ),
    ],
)
def test_what_the_server_cannot_send_is_said(packet: Packet, vary: Vary, reason: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        instructions(program_of(packet, vary, size=300))
    assert str(refused.value) == (
        f"TRex cannot send {vary.count:,} different frames of this packet: {reason}; vary fields so that at most "
        "16,384 differ, or use the embedded engine"
    )
