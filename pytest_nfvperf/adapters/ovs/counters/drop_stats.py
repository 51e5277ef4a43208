"""What a bridge drops on purpose: meters' bands, and flows without an output. By OpenFlow 1.4 (7.3.5.2, 7.3.5.14).

Meters count at once. Flows are brought up to date by the revalidators, within ``max-revalidator`` (500 ms).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Mapping

from pytest_nfvperf.adapters.ovs.openflow.connection import RefusedError
from pytest_nfvperf.adapters.ovs.openflow.multipart import Multipart, Question

MOST_FLOWS = 1000
"""With more flows on a bridge they are not listed: that would take longer than a snapshot may."""

_TABLES = Question(3)
_TABLE = struct.Struct("!B3xIQQ")  # table, active flows, lookups, matches
_FLOWS = Question(1, struct.pack("!B3xII4xQQHH4x", 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 1, 4))
_FLOW = struct.Struct("!HBxIIHHHHH2xQQQ")  # length, table, age s and ns, priority, ..., cookie, packets, bytes
_METERS = Question(9, struct.pack("!I4x", 0xFFFFFFFF))
_METER = struct.Struct("!IH6xIQQII")  # meter, length, flows, packets in, bytes in, age s and ns
_BAND = struct.Struct("!QQ")  # packets, bytes
_TYPE_LENGTH = struct.Struct("!HH")
_GOTO, _WRITE, _APPLY = 1, 3, 4
_INSTRUCTION_HEADER_BYTES = 8
_OXM = struct.Struct("!HBB")  # class, field and mask bit, length
_BASIC = 0x8000
_FIELDS = {
    0: "in_port", 3: "eth_dst", 4: "eth_src", 5: "eth_type", 6: "vlan_vid", 10: "ip_proto", 11: "ipv4_src",
    12: "ipv4_dst", 13: "tcp_src", 14: "tcp_dst", 15: "udp_src", 16: "udp_dst",
}  # fmt: skip


def read_drops(bridge: Multipart, name: str, ports: Mapping[int, str]) -> dict[str, int]:
    """``meter.NAME.ID`` and ``flow.NAME.MATCH``: frames dropped so far by each meter and drop flow of a bridge.

    ``name``: of the bridge. ``ports``: names by OpenFlow port number, for the matches.
    """
    counters = {f"meter.{name}.{meter}": dropped for meter, dropped in _meters(bridge)}
    for match, packets in _drop_flows(bridge, ports):
        counter = f"flow.{name}.{match}"
        counters[counter] = counters.get(counter, 0) + packets
    return counters


def _meters(bridge: Multipart) -> Iterator[tuple[int, int]]:
    try:
        body = bridge.ask(_METERS)
    except RefusedError:
        return  # a datapath without meters
    yield from parse_meters(body)


def parse_meters(body: bytes) -> Iterator[tuple[int, int]]:
    """Meter and frames dropped by its bands. Its bands all drop: OVS has no others."""
    while body:
        meter, length, *_ = _METER.unpack_from(body)
        bands = body[_METER.size : length]
        yield meter, sum(packets for packets, _ in _BAND.iter_unpack(bands))
        body = body[length:]


def _drop_flows(bridge: Multipart, ports: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    if sum(active for _, active, _, _ in _TABLE.iter_unpack(bridge.ask(_TABLES))) <= MOST_FLOWS:
        yield from parse_drop_flows(bridge.ask(_FLOWS), ports)


def parse_drop_flows(body: bytes, ports: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    """Match in ovs-ofctl's words and frames of each flow that outputs nowhere."""
    while body:
        length, table, _, _, priority, _, _, _, _, _, packets, _ = _FLOW.unpack_from(body)
        _, match_length = _TYPE_LENGTH.unpack_from(body, _FLOW.size)
        match = body[_FLOW.size + _TYPE_LENGTH.size : _FLOW.size + match_length]
        instructions = body[_FLOW.size + -(-match_length // 8) * 8 : length]
        if not any(_acts(instructions)):
            fields = ",".join([f"priority={priority}", *_fields(match, ports)])
            yield (f"table={table}," if table else "") + fields, packets
        body = body[length:]


def _acts(instructions: bytes) -> Iterator[bool]:
    """Of each instruction: may a frame go anywhere by it?"""
    while instructions:
        kind, length = _TYPE_LENGTH.unpack_from(instructions)
        yield kind == _GOTO or (kind in {_WRITE, _APPLY} and length > _INSTRUCTION_HEADER_BYTES)
        instructions = instructions[length:]


def _fields(match: bytes, ports: Mapping[int, str]) -> Iterator[str]:
    while match:
        kind, field, length = _OXM.unpack_from(match)
        value = match[_OXM.size : _OXM.size + length]
        masked, number = field & 1, field >> 1
        name = _FIELDS.get(number, f"oxm{number}") if kind == _BASIC else f"oxm{kind:x}.{number}"
        half = length // 2 if masked else length
        mask = "/" + _value(name, value[half:], {}) if masked else ""
        yield f"{name}={_value(name, value[:half], ports)}{mask}"
        match = match[_OXM.size + length :]


def _value(name: str, value: bytes, ports: Mapping[int, str]) -> str:
    number = int.from_bytes(value, "big")
    if name.startswith("eth_") and len(value) == 6:
        return value.hex(":")
    if name.startswith("ipv4_"):
        return str(ipaddress.IPv4Address(value))
    if name == "in_port":
        return ports.get(number, str(number))
    return f"{number:#x}" if name in {"eth_type", "vlan_vid"} or name.startswith("oxm") else str(number)
