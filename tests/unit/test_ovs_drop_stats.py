"""Meters and drop flows of a bridge, read back from OpenFlow 1.4's own layout."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.ovs.counters import MOST_FLOWS, parse_drop_flows, parse_meters, read_drops
from pytest_nfvperf.adapters.ovs.openflow import OpenFlowConnection, OpenFlowRefusedError

APPLY_OUTPUT = struct.pack("!HH4xHHIH6x", 4, 24, 0, 16, 2, 0)
GOTO = struct.pack("!HHB3x", 1, 8, 3)
METER = struct.pack("!HHI", 6, 8, 7)
CLEAR = struct.pack("!HH4x", 5, 8)


def oxm(field: int, value: bytes, mask: bytes = b"") -> bytes:
    return struct.pack("!HBB", 0x8000, field << 1 | bool(mask), len(value + mask)) + value + mask


def flow(packets: int, match: bytes = b"", instructions: bytes = b"", *, table: int = 0, priority: int = 1) -> bytes:
    whole = struct.pack("!HH", 1, 4 + len(match)) + match
    whole = whole.ljust(-(-len(whole) // 8) * 8, b"\0")
    length = 48 + len(whole) + len(instructions)
    head = struct.pack("!HBxIIHHHHH2xQQQ", length, table, 1, 2, priority, 0, 0, 0, 0, 5, packets, 99)
    return head + whole + instructions


def meter(number: int, *bands: int) -> bytes:
    body = b"".join(struct.pack("!QQ", packets, 0) for packets in bands)
    return struct.pack("!IH6xIQQII", number, 40 + len(body), 1, 50, 60, 1, 2) + body


@given(st.dictionaries(st.integers(1, 1 << 31), st.lists(st.integers(0, 1 << 60), max_size=3), max_size=4))
def test_each_meter_drops_what_its_bands_drop(meters: dict[int, list[int]]) -> None:
    body = b"".join(meter(number, *bands) for number, bands in meters.items())
    assert dict(parse_meters(body)) == {number: sum(bands) for number, bands in meters.items()}


def test_only_flows_without_an_output_are_drop_flows() -> None:
    said = [
        flow(1, instructions=APPLY_OUTPUT),
        flow(2, instructions=GOTO),
        flow(3, instructions=METER + APPLY_OUTPUT),
        flow(4, oxm(0, b"\0\0\0\1")),
        flow(5, instructions=METER),
        flow(6, instructions=CLEAR, table=2, priority=0),
        flow(7, instructions=struct.pack("!HH4x", 4, 8)),
    ]
    assert list(parse_drop_flows(b"".join(said), {1: "p0"})) == [
        ("priority=1,in_port=p0", 4),
        ("priority=1", 5),
        ("table=2,priority=0", 6),
        ("priority=1", 7),
    ]


def test_matches_are_written_as_ovs_ofctl_writes_them() -> None:
    match = (
        oxm(0, b"\0\0\0\7")
        + oxm(5, b"\x08\x00")
        + oxm(11, bytes([198, 18, 0, 1]), bytes([255, 255, 255, 0]))
        + oxm(3, bytes.fromhex("020000000001"))
        + oxm(16, b"\x00\x35")
        + oxm(33, b"\xab")
    )
    ((text, _),) = parse_drop_flows(flow(1, match), {1: "p0"})
    assert text == (
        "priority=1,in_port=7,eth_type=0x800,ipv4_src=198.18.0.1/255.255.255.0,eth_dst=02:00:00:00:00:01,"
        "udp_dst=53,oxm33=0xab"
    )


class Answers(OpenFlowConnection):
    """A bridge that answers from a table."""

    def __init__(self, answers: dict[int, bytes]) -> None:
        self.answers = answers

    def ask(self, request: int, body: bytes = b"") -> bytes:
        if request not in self.answers:
            raise OpenFlowRefusedError("vswitchd refused")
        return self.answers[request]


def tables(active: int) -> bytes:
    return struct.pack("!B3xIQQ", 0, active, 0, 0)


def test_flows_that_drop_alike_are_one_counter_and_meters_may_be_missing() -> None:
    bridge = Answers({3: tables(2), 1: flow(4) + flow(5)})
    assert read_drops(bridge, "br0", {}) == {"flow.br0.priority=1": 9}
    bridge = Answers({3: tables(1), 1: flow(4), 9: meter(7, 3)})
    assert read_drops(bridge, "br0", {}) == {"meter.br0.7": 3, "flow.br0.priority=1": 4}


def test_a_bridge_with_very_many_flows_is_not_asked_for_them() -> None:
    assert read_drops(Answers({3: tables(MOST_FLOWS + 1), 9: b""}), "br0", {}) == {}
