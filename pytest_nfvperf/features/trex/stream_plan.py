"""The streams of a trial on TRex: which frames, how many, how fast, and what makes them differ.

Each class in each direction has one stream for each frame size, and one of latency frames, which are part of the load:
the frames and the rates of all streams add up exactly. Each stream continues with the flow where the previous one
ended.

The server's field engine changes a stream's template from frame to frame. It has counters, lists of values, and a
fix-up of IPv4 header checksums. It computes no other checksum without a NIC's help. So a frame program is sent in one
of two ways, whichever can do it:

- A variable for each field. A checksum over the payload stays as it is, because a word of the payload, where other
  engines have the signature, takes back what the field adds.
- A list for each run of bytes that differ, with its content in each frame. Any field and any checksum, but only
  for a limited number of frames until all begins again.

TRex counts frames by the number of their stream, which the server writes into the first IPv4 header's identification
or the first IPv6 header's flow label (trex-core, src/stx/stl/trex_stl_stream_vm.h and src/flow_stat_parser.cpp).
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pytest_nfvperf.adapters.generators.frames import (
    build_frame,
    directed_addresses,
    flow_ranges,
    frames_of,
    program_of,
    recipe_of,
)
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.model.traffic.frame_program import Checksum, FrameProgram, VaryingField, frame_at
from pytest_nfvperf.model.traffic.mix import ClassStream, shares
from pytest_nfvperf.model.traffic.traffic import (
    FCS_BYTES,
    IP_BYTES,
    TEST_PAYLOAD_BYTES,
    UDP_BYTES,
    VXLAN_SOURCE_PORTS,
    WIRE_OVERHEAD_BYTES,
    Traffic,
)
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

MAX_LATENCY_STREAMS = 128
"""Limit of a server: each has a ring of sequence numbers there."""
MAX_FLOW_COUNTERS = 1023
"""Limit of a server without hardware counters; a NIC may have fewer."""
MIN_LATENCY_BYTES = 60
"""Without FCS. The server pads a shorter one and then does not count it."""
LATENCY_FPS = 1000
"""Latency frames/s per class and direction: the server's receive core processes each of them."""
LATENCY_SHARE = 10
"""At most one frame in ten is a latency frame."""
LATENCY_PAYLOAD_BYTES = 16
"""The server writes number and time over the last bytes of a latency frame: they must be payload."""
_IPV4_SOURCE, _IPV6_SOURCE = 12, 8
_LATENCY_IDS = 1 << 16


@dataclass(frozen=True, slots=True)
class TrexPort:
    """An acquired port.

    Attributes:
        number: TRex's.
        speed_bps: layer-1 bit rate; that of a virtual port is a fiction.
        virtual: af_packet, memif, virtio and the like.
        counters: flow statistics ids that it can count; None if the server does not say.
        gateway_mac: ARP's answer; None for ports without a route.
    """

    number: int
    port: GeneratorPort
    speed_bps: float | None = None
    virtual: bool = False
    counters: int | None = None
    gateway_mac: str | None = None


def port_of(port: GeneratorPort, answer: Mapping[str, Any]) -> TrexPort:
    speed = answer.get("speed_gbps")
    return TrexPort(
        number=port_number(port),
        port=port,
        speed_bps=None if not speed else float(speed) * 1e9,
        virtual=answer["virtual"],
        counters=answer.get("counters"),
        gateway_mac=answer.get("gateway_mac"),
    )


def port_number(port: GeneratorPort) -> int:
    if not port.device.isdecimal():
        raise ConfigError(
            f"port {port.name!r} is reached by {port.device!r}, but TRex knows its ports by number: cable it in the "
            "testbed file, e.g. 'links: [[generator.0, dut.dpdk0]]'"
        )
    return int(port.device)


def check_streams(streams: Sequence[Mapping[str, Any]], ports: Iterable[TrexPort]) -> None:
    """Raise ConfigError for streams that the server would refuse only at the start, or count wrongly."""
    by_number = {port.number: port for port in ports}
    latency = sum(stream["latency"] for stream in streams)
    if latency > MAX_LATENCY_STREAMS:
        raise ConfigError(
            f"{latency} latency streams are more than the {MAX_LATENCY_STREAMS} of a TRex server: use fewer "
            "directions, or measure without latency"
        )
    counted = len(streams) - latency
    most = min([MAX_FLOW_COUNTERS, *(port.counters for port in by_number.values() if port.counters)])
    if counted > most:
        raise ConfigError(
            f"{counted} streams need a counter each, and this TRex has {most}: send fewer different "
            "frames or sizes, or fewer directions"
        )
    for stream in streams:
        size = len(stream["frame"]) // 2
        if stream["latency"] and size < MIN_LATENCY_BYTES:
            raise ConfigError(
                f"TRex pads a latency frame of {size + FCS_BYTES} bytes and never counts it: send at least "
                f"{MIN_LATENCY_BYTES + FCS_BYTES} bytes (with FCS), or measure without latency"
            )
    for number in sorted({stream["port"] for stream in streams}):
        _check_line_rate([stream for stream in streams if stream["port"] == number], by_number[number])


def _check_line_rate(streams: Sequence[Mapping[str, Any]], port: TrexPort) -> None:
    wire = sum(stream["fps"] * (len(stream["frame"]) // 2 + FCS_BYTES + WIRE_OVERHEAD_BYTES) * 8 for stream in streams)
    if port.speed_bps is not None and wire > port.speed_bps * (1 + 1e-9):
        rate = format_fps(sum(stream["fps"] for stream in streams))
        fiction = ", which is what TRex takes a virtual port for" if port.virtual else ""
        raise ConfigError(
            f"{rate} on port {port.port.name!r} fill {wire / 1e9:.4g} Gbit/s on the wire, and TRex port {port.number} "
            f"has {port.speed_bps / 1e9:g} Gbit/s{fiction}: lower the load, or write the port's line_rate into the "
            "testbed file so that searches stay below it"
        )


def streams(spec: TrialSpec, ports: Mapping[str, TrexPort]) -> list[dict[str, Any]]:
    """All streams of a trial, checked against the server's limits.

    Returns:
        Dicts as the child's ``trial`` command takes them, and ``sent``, an index into the spec's streams: of one class
        in one direction each.

    Raises:
        ConfigError: the load makes no frame, or the server could not do it.
        UnavailableError: no server could do it.
    """
    made: list[dict[str, Any]] = []
    for index, sent in enumerate(spec.streams(frames_of(spec))):
        for stream in _class_streams(spec, sent, ports):
            number = len(made) + 1 + (_LATENCY_IDS if stream["latency"] else 0)
            made.append({**stream, "sent": index, "id": number})
    check_streams(made, ports.values())
    return made


def latency_frames(load_fps: int, frames: int) -> int:
    """How many of a class's frames in a direction are latency frames; at least one."""
    rate = min(LATENCY_FPS, max(1, load_fps // LATENCY_SHARE))
    return max(1, frames * rate // load_fps)


_Part = tuple[bytes, int, Mapping[str, Any], bool]
"""A share of a class's frames in a direction: those that one stream sends.

Its template without FCS, how many frames, the fields that vary, and whether they are latency frames.
"""


def _class_streams(spec: TrialSpec, sent: ClassStream, ports: Mapping[str, TrexPort]) -> list[dict[str, Any]]:
    traffic, direction = sent.sent.traffic, spec.directions[sent.direction]
    sampled = latency_frames(sent.fps, sent.frames) if spec.latency else 0
    # A port with a gateway sends to the gateway's MAC.
    attached = {
        name: replace(port.port, eth_peer=port.gateway_mac) if port.gateway_mac else port.port
        for name, port in ports.items()
    }
    parts_of = _short_form_parts if traffic.frame_source is None else _packet_parts
    parts = parts_of(sent, direction, attached, sampled)
    return [
        {
            "port": ports[direction.tx].number,
            "rx_port": ports[direction.rx].number,
            "latency": latency,
            "frames": frames,
            "fps": sent.fps * frames / sent.frames,
            # Streams that begin together would send in bursts: each begins a part of a frame's interval later.
            "start_after_us": round(1e6 / sent.fps * number / len(parts), 3),
            "frame": frame.hex(),
            "fields": fields,
        }
        for number, (frame, frames, fields, latency) in enumerate(parts)
    ]


def _short_form_parts(
    sent: ClassStream, direction: Direction, ports: Mapping[str, GeneratorPort], sampled: int
) -> list[_Part]:
    """A stream for each frame size, and one of latency frames. ``sampled``: how many these are."""
    traffic, reverse = sent.sent.traffic, sent.reverse
    recipe = recipe_of(traffic)
    counts = shares(sent.frames - sampled, [weight for _, weight in recipe])
    wanted = [(size, count, False) for (size, _), count in zip(recipe, counts, strict=True) if count]
    if sampled:
        wanted.append((_latency_size(traffic), sampled, True))
    addresses = directed_addresses(traffic, direction, ports, reverse=reverse)
    begins = [sum(count for _, count, _ in wanted[:at]) % traffic.flows for at in range(len(wanted))]
    return [
        (build_frame(size, addresses), count, _fields(traffic, begin, latency=latency, reverse=reverse), latency)
        for (size, count, latency), begin in zip(wanted, begins, strict=True)
    ]


def _latency_size(traffic: Traffic) -> int:
    """The smallest of the traffic's frames with room for number and time, bytes with FCS."""
    return max(traffic.header_bytes + LATENCY_PAYLOAD_BYTES + FCS_BYTES, traffic.smallest_frame_size)


def _packet_parts(
    sent: ClassStream, direction: Direction, ports: Mapping[str, GeneratorPort], sampled: int
) -> list[_Part]:
    """A stream for each template of the frame program, and one of latency frames. ``sampled``: how many these are."""
    traffic, reverse = sent.sent.traffic, sent.reverse
    program = program_of(traffic, direction, ports, reverse=reverse)
    weights = Counter(program.order)
    counts = shares(sent.frames - sampled, list(weights.values()))
    wanted = [(_single(program, template), count, False) for template, count in zip(weights, counts, strict=True)]
    if sampled and not traffic.packet.frame_sizes:
        larger = program_of(replace(traffic, frame_size=_latency_size(traffic)), direction, ports, reverse=reverse)
        wanted.append((larger, sampled, True))
    elif sampled:
        wanted.append((_with_room(program), sampled, True))
    parts: list[_Part] = []
    begin = 0
    for single, count, latency in wanted:
        if count:
            parts.append((single.templates[0], count, instructions(single, begin % program.combinations), latency))
        begin += count
    return parts


def _single(program: FrameProgram, template: int) -> FrameProgram:
    """The same with one of its templates only."""
    return replace(
        program, templates=(program.templates[template],), signatures=(program.signatures[template],), order=(0,)
    )


def _with_room(program: FrameProgram) -> FrameProgram:
    """The same with the smallest template that has room for number and time."""
    found = [
        (len(frame), template)
        for template, (frame, signature) in enumerate(zip(program.templates, program.signatures, strict=True))
        if len(frame) - signature >= LATENCY_PAYLOAD_BYTES and len(frame) >= MIN_LATENCY_BYTES
    ]
    if not found:
        raise UnavailableError(
            f"no frame has the {LATENCY_PAYLOAD_BYTES} bytes of payload that TRex's latency frames need: measure "
            "without latency, or use the embedded engine"
        )
    return _single(program, min(found)[1])


def _fields(traffic: Traffic, begin: int, *, latency: bool, reverse: bool) -> dict[str, Any]:
    """Which bytes change from frame to frame, so that there are as many flows as the traffic has.

    ``begin`` is the flow of the first frame, from 0. Pairs of address and port always begin with the first.
    """
    if traffic.flows == 1:
        return {}
    ranges = flow_ranges(traffic, traffic.dst_ip if reverse else traffic.src_ip)
    ip_at = traffic.header_bytes - UDP_BYTES - IP_BYTES[traffic.ip_version]
    if traffic.headers_label:
        return _joint_counters(traffic, ranges, ip_at, begin, latency=latency)
    first, addresses = ranges["first_address"], ranges["addresses"]
    if addresses == traffic.flows:
        source = {"offset": ip_at + _IPV4_SOURCE, "bytes": 4, "first": first, "last": first + addresses - 1}
        return {"counters": [{**source, "begin": begin, "down": False}], "ipv4": [ip_at]}
    pairs = {
        "first_address": str(ipaddress.IPv4Address(first)),
        "last_address": str(ipaddress.IPv4Address(first + addresses - 1)),
        "first_port": ranges["first_port"],
        "last_port": ranges["first_port"] + (traffic.flows - 1) // addresses,
        "flows": traffic.flows,
        "address_at": ip_at + _IPV4_SOURCE,
        "port_at": ip_at + IP_BYTES[4],
    }
    return {"pairs": pairs, "ipv4": [ip_at]}


def _joint_counters(
    traffic: Traffic, ranges: Mapping[str, int], ip_at: int, begin: int, *, latency: bool
) -> dict[str, Any]:
    """Counters that step together with each frame: the address's lowest two bytes, and what has to follow them.

    Over IPv6 the server cannot compute UDP's checksum. So the first word of the payload counts down as the address
    counts up, and the checksum stays. It starts at 0xffff, which for the checksum equals the template's 0. A latency
    frame has number and time there instead, and a wrong checksum.
    """
    flows = traffic.flows
    if flows > ranges["addresses"] or (traffic.vxlan and flows > len(VXLAN_SOURCE_PORTS)):
        most = min(ranges["addresses"], len(VXLAN_SOURCE_PORTS) if traffic.vxlan else flows)
        raise ConfigError(
            f"TRex sends at most {most} flows of {traffic.headers_name} from these addresses, not {flows}: use fewer, "
            "or the embedded generator"
        )
    source = _IPV6_SOURCE + 12 if traffic.ip_version == 6 else _IPV4_SOURCE
    counters = [_counter(ip_at + source + 2, ranges["first_address"] & 0xFFFF, flows, begin)]
    if traffic.ip_version == 6 and not latency:
        counters.append({**_counter(traffic.header_bytes, 0x10000 - flows, flows, begin), "down": True})
    if traffic.vxlan:
        # After Ethernet, its tag and the outer IP header.
        outer_udp = ip_at - traffic.vxlan.header_bytes + IP_BYTES[traffic.vxlan.ip_version]
        counters.append(_counter(outer_udp, VXLAN_SOURCE_PORTS[0], flows, begin))
    return {"counters": counters, "ipv4": [ip_at] if traffic.ip_version == 4 else []}


def _counter(offset: int, first: int, values: int, begin: int) -> dict[str, Any]:
    """``begin``: how many values after the first it starts, or before the last if it counts down."""
    return {"offset": offset, "bytes": 2, "first": first, "last": first + values - 1, "begin": begin, "down": False}


# A frame program as instructions of the field engine.

MOST_LISTED = 16_384
"""Frames of a program that are listed one by one; each byte that differs has a list of its own on the server."""
MOST_VALUES = 65_535
"""Of one list; the server counts them in 16 bits."""
MOST_VARIABLE_BYTES = 64
"""Of all variables of a stream (svMAX_FLOW_VAR)."""
MOST_CHANGED_BYTES = 512
"""From the begin of a frame to the last byte that differs (svMAX_PACKET_OFFSET_CHANGE)."""
_MODULUS = 0xFFFF
"""Of the internet checksum: sums of 16-bit words are equal where they are equal modulo this."""
_VLAN_TYPES = (0x8100, 0x88A8)
_EMBEDDED = "or use the embedded engine"


class _NeedsLists(Exception):  # noqa: N818 - a reason, not an accident
    """Why one variable for each field cannot make a program's frames."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A value that the server keeps for a stream: counts up or down by ``step``, or goes through ``values``."""

    name: str
    size: int
    count: int
    first: int = 0
    step: int = 1
    down: bool = False
    values: tuple[int, ...] = ()

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value that its counter has to know so as to start over after ``count`` values."""
        if self.down:
            return self.first - self.step * self.count + 1, self.first
        return self.first, self.first + self.step * self.count - 1

    def starting_at(self, index: int) -> dict[str, Any]:
        """As the child takes it. The first frame for which the server counts it has value number ``index``."""
        known = {"name": self.name, "bytes": self.size, "next": None}
        if self.values:
            return {**known, "values": [*self.values[index:], *self.values[:index]]}
        begin = self.first + self.step * index * (-1 if self.down else 1)
        least, most = self.range
        return {**known, "min": least, "max": most, "step": self.step, "begin": begin, "down": self.down}


def instructions(program: FrameProgram, begin: int = 0) -> dict[str, Any]:
    """How the server makes a program's frames from its only template, as the child takes it: :func:`stream_of`.

    ``begin``: the combination of the first frame.

    Raises UnavailableError for what the server could not send, or not count.
    """
    (template,) = program.templates
    counted = counted_bits(template)
    varying = [field for field in program.fields if field.count > 1]
    for field in varying:
        if any(counted[0] <= bit < counted[1] for bit in _bits(field)):
            raise UnavailableError(
                f"TRex writes the number of its stream over {field.name}, so it cannot vary: vary another field, "
                f"{_EMBEDDED}"
            )
    if not varying:
        return {}
    try:
        made = _by_field(program, varying, begin)
    except _NeedsLists as reason:
        if program.combinations > MOST_LISTED:
            raise UnavailableError(
                f"TRex cannot send {program.combinations:,} different frames of this packet: {reason}; vary fields so "
                f"that at most {MOST_LISTED:,} differ, {_EMBEDDED}"
            ) from None
        made = _by_frame(program, begin)
    _check_limits(made, varying)
    ipv4 = [checksum.start for checksum in program.checksums if checksum.fields and _is_ipv4_header(checksum, template)]
    return {**made, "ipv4": ipv4}


def counted_bits(template: bytes) -> tuple[int, int]:
    """First bit, and the one behind the last, in which the server keeps the number of a stream.

    UnavailableError for a frame that has no such place: TRex could not count it.
    """
    at = 12
    kind = int.from_bytes(template[at : at + 2], "big")
    while kind in _VLAN_TYPES:
        at += 4
        kind = int.from_bytes(template[at : at + 2], "big")
    ip = at + 2
    if kind == 0x0800:
        return (ip + 4) * 8, (ip + 6) * 8
    if kind == 0x86DD:
        return ip * 8 + 12, ip * 8 + 32
    raise UnavailableError(
        f"TRex counts a frame by its first IPv4 or IPv6 header behind Ethernet and VLAN tags, and this frame has type "
        f"{kind:#06x} there: send IP in it, {_EMBEDDED}"
    )


def _bits(field: VaryingField) -> range:
    """Bits of the frame that a field is in."""
    end = (field.offset + field.size) * 8 - field.shift
    return range(end - field.bits, end)


def _check_limits(made: dict[str, Any], varying: Sequence[VaryingField]) -> None:
    names = ", ".join(field.name for field in varying)
    if sum(variable["bytes"] for variable in made["variables"]) > MOST_VARIABLE_BYTES:
        raise UnavailableError(
            f"TRex keeps {MOST_VARIABLE_BYTES} bytes of variables for a stream, and {names} with their checksums need "
            f"more: vary fewer fields, {_EMBEDDED}"
        )
    last = max(write["offset"] + write["bytes"] for write in made["writes"])
    if last > MOST_CHANGED_BYTES:
        raise UnavailableError(
            f"TRex changes the first {MOST_CHANGED_BYTES} bytes of a frame, and {names} with their checksums change "
            f"byte {last - 1}: use shorter headers, {_EMBEDDED}"
        )


def _is_ipv4_header(checksum: Checksum, template: bytes) -> bool:
    """Whether the server's own instruction keeps it right: one over an IPv4 header, options included, and no more."""
    start = checksum.start
    header = template[start : start + (template[start] & 15) * 4]
    if checksum.offset != start + 10 or checksum.signature or header[0] >> 4 != 4 or len(header) < 20:
        return False
    return sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2)) % _MODULUS == 0


# One variable for each field.


def _by_field(program: FrameProgram, varying: Sequence[VaryingField], begin: int) -> dict[str, Any]:
    chains = _chains(varying, program.combinations)
    words = _payload_words(program, varying)
    groups: list[tuple[list[VaryingField], list[_Variable]]] = []
    writes: list[dict[str, Any]] = []
    for chain in chains:
        made = [_field_variable(field, _stored(field, program.templates[0])) for field in chain]
        groups.append((chain, [variable for variable, _ in made]))
        writes += [write for _, write in made]
        if any(field.name in words for field in chain):
            # A field without a word is counted all the same: the words behind it wait until it is through.
            rounds = [_Variable(f"rounds of {field.name}", _size_of(field.count), field.count) for field in chain]
            group = [words.get(field.name, (counter,))[0] for field, counter in zip(chain, rounds, strict=True)]
            groups.append((chain, group))
            writes += [words[field.name][1] for field in chain if field.name in words]
    listed = any(variable.values for _, group in groups for variable in group)
    chained = any(len(chain) > 1 for chain in chains)
    if listed and chained:
        begin = 0  # whether the next variable is due depends on the place in the list, which cannot be given
    variables = [one for chain, group in groups for one in _chained(group, chain, begin)]
    return {"variables": variables, "writes": writes, "one_core": listed or chained}


def _chains(varying: Sequence[VaryingField], combinations: int) -> list[list[VaryingField]]:
    """Fields that are counted together, the fastest first; each takes its next value when the one before is through."""
    chains: list[list[VaryingField]] = []
    for field in sorted(varying, key=lambda field: field.every):
        if combinations % (field.every * field.count):
            raise _NeedsLists(f"{field.name} does not begin again with the others")
        before = (chain for chain in chains if chain[-1].every * chain[-1].count == field.every)
        if field.every == 1:
            chains.append([field])
        elif (chain := next(before, None)) is not None:
            chain.append(field)
        else:
            raise _NeedsLists(f"{field.name} changes with every {field.every:,}th frame")
    return chains


def _chained(group: Sequence[_Variable], chain: Sequence[VaryingField], begin: int) -> Iterator[dict[str, Any]]:
    """A chain's variables, to begin with this combination.

    The first frame counts a variable only if all before it begin with their first value. One that it does not count
    has to have its value already, which for the server is the one before that to begin with.
    """
    counts = True
    for signature, (variable, field) in enumerate(zip(group, chain, strict=True)):
        index = begin // field.every % field.count
        started = variable.starting_at(index if counts else (index + 1) % field.count)
        counts = counts and index == 0
        yield {**started, "next": group[signature + 1].name if signature + 1 < len(group) else None}


def _even_step(field: VaryingField) -> int | None:
    """The step with its sign of a field that a counter makes: in order, and never beyond its bits. None for others."""
    most = 1 << field.bits
    steps = field.step % most, field.step % most - most
    stays = [step for step in steps if 0 <= field.first + step * (field.count - 1) < most]
    return stays[0] if stays and field.order == "up" else None


def _values(field: VaryingField) -> tuple[int, ...]:
    if field.count > MOST_VALUES:
        how = "in random order" if field.order == "random" else f"beyond its {field.bits} bits"
        raise _NeedsLists(f"{field.name} takes {field.count:,} values {how}, and a list has at most {MOST_VALUES:,}")
    return tuple(field.value(index * field.every) for index in range(field.count))


def _stored(field: VaryingField, template: bytes) -> int:
    """What a field is in the template."""
    window = int.from_bytes(template[field.offset : field.offset + field.size], "big")
    return window >> field.shift & (1 << field.bits) - 1


def _field_variable(field: VaryingField, stored: int) -> tuple[_Variable, dict[str, Any]]:
    """What makes a field's values, and how the server writes them. ``stored``: what the template has.

    Only the bits that differ are written, so most MAC and IPv6 addresses need no more than the server can write.
    """
    step = _even_step(field)
    values = _values(field) if step is None else ()
    ends = values or (field.first, field.value((field.count - 1) * field.every))
    changed = max((value ^ stored).bit_length() for value in ends)
    end, shift = field.offset + field.size - field.shift // 8, field.shift % 8
    width = next((width for width in (1, 2, 4) if changed + shift <= width * 8 and width <= end), None)
    if width is None:
        raise _NeedsLists(f"{field.name} changes in {changed} bits, and the server writes 32")
    mask = (1 << changed) - 1
    write = {"variable": field.name, "offset": end - width, "bytes": width, "mask": mask << shift, "shift": shift}
    if step is None:
        return _Variable(field.name, width, field.count, values=tuple(value & mask for value in values)), write
    variable = _Variable(field.name, 4, field.count, field.first & mask, abs(step), step < 0)
    least, most = variable.range
    if least < 0:  # the server would start over there; what is written are the bits below
        most = variable.first + mask + 1
        variable = replace(variable, first=most)
    if most >= 1 << 32:
        raise _NeedsLists(f"{field.name} counts up to {most:,}, and the server to 32 bits")
    return replace(variable, size=max(width, _size_of(most))), write


def _size_of(most: int) -> int:
    """Bytes of a variable that counts so far."""
    return next(size for size in (1, 2, 4, 8) if most < 1 << size * 8)


def _payload_words(
    program: FrameProgram, varying: Sequence[VaryingField]
) -> dict[str, tuple[_Variable, dict[str, Any]]]:
    """By field: what the server counts in the payload, so that a checksum over payload and field stays as it is."""
    (template,), (signature,) = program.templates, program.signatures
    others = [each for each in program.checksums if not _is_ipv4_header(each, template)]
    made: dict[str, tuple[_Variable, dict[str, Any]]] = {}
    free = signature
    for field in varying:
        rises = {checksum: rise for checksum in others if (rise := _rise(program, checksum, field))}
        if not rises:
            continue
        (checksum, rise), *more = rises.items()
        if more or checksum.kind != "internet" or not checksum.signature:
            names = " and ".join(each.name for each in rises)
            raise _NeedsLists(f"{field.name} changes {names}, which the server does not compute")
        free += (free - checksum.start) % 2
        variable = _word(field, f"{field.name} in {checksum.name}", rise, _stored(field, template))
        if free + variable.size > signature + TEST_PAYLOAD_BYTES:
            raise _NeedsLists(f"the payload has no room for what keeps {checksum.name} right")
        mask = (1 << variable.size * 8) - 1
        write = {"variable": variable.name, "offset": free, "bytes": variable.size, "mask": mask, "shift": 0}
        made[field.name] = variable, write
        free += variable.size
    return made


def _word(field: VaryingField, name: str, rise: int, stored: int) -> _Variable:
    """What the payload has to take back of a field. ``rise``: of the checksum, where the field is 1 more."""
    even_step = _even_step(field)
    step = rise * (even_step or 0) % _MODULUS
    if not step:
        return _Variable(
            name, 2, field.count, values=tuple((each - stored) * rise % _MODULUS for each in _values(field))
        )
    first, down = (field.first - stored) * rise % _MODULUS, step > _MODULUS // 2
    if down:
        step = _MODULUS - step
        first += -(-max(0, step * field.count - 1 - first) // _MODULUS) * _MODULUS  # so that it ends above 0
    variable = _Variable(name, 8, field.count, first, step, down)
    return replace(variable, size=max(2, _size_of(variable.range[1])))


def _rise(program: FrameProgram, checksum: Checksum, field: VaryingField) -> int:
    """By how much a checksum grows where a field alone is 1 more; of a CRC, anything but 0."""
    still = [
        replace(other, first=_stored(other, program.templates[0]), count=1, every=1, order="up")
        for other in program.fields
    ]
    signature = program.fields.index(field)
    step = 1 if still[signature].first + 1 < 1 << field.bits else -1
    still[signature] = replace(still[signature], count=2, step=step)
    probe = replace(program, fields=tuple(still), combinations=2)
    frames = [frame_at(probe, number, bytes(TEST_PAYLOAD_BYTES)) for number in (0, 1)]
    size = 4 if checksum.kind == "crc32c" else 2
    first, second = (int.from_bytes(frame[checksum.offset : checksum.offset + size], "big") for frame in frames)
    return (second - first) * step % _MODULUS if checksum.kind == "internet" else first ^ second


# A list for each run of bytes that differ.


def _by_frame(program: FrameProgram, begin: int) -> dict[str, Any]:
    variables, writes = [], []
    for offset, width, values in _runs(program):
        name = f"bytes {offset} to {offset + width - 1}"
        variable = _Variable(name, width, program.combinations, values=values)
        variables.append(variable.starting_at(begin % program.combinations))
        writes.append({"variable": name, "offset": offset, "bytes": width, "mask": (1 << width * 8) - 1, "shift": 0})
    return {"variables": variables, "writes": writes, "one_core": True}


@lru_cache(maxsize=32)
def _runs(program: FrameProgram) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Bytes that differ from frame to frame, in pieces that the server can write: offset, width, the value of each."""
    (template,) = program.templates
    frames = [frame_at(program, number, bytes(TEST_PAYLOAD_BYTES)) for number in range(program.combinations)]
    fixed = {
        checksum.offset + byte
        for checksum in program.checksums
        if _is_ipv4_header(checksum, template)
        for byte in (0, 1)
    }
    differing = [
        at for at in range(len(template)) if at not in fixed and any(frame[at] != template[at] for frame in frames)
    ]
    runs: list[tuple[int, int, tuple[int, ...]]] = []
    while differing:
        start = differing[0]
        length = next(n for n in range(len(differing) + 1) if n == len(differing) or differing[n] != start + n)
        width = 1 << min(3, int(math.log2(length)))
        values = tuple(int.from_bytes(frame[start : start + width], "big") for frame in frames)
        runs.append((start, width, values))
        differing = differing[width:]
    return tuple(runs)
