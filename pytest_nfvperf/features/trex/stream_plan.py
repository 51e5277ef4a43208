"""The streams of a trial on TRex: which frames, how many, how fast, and with which counter.

Each direction has one stream for each frame size, and one of latency frames, which are part of the load: the frames and
the rates of all streams add up exactly. Each stream continues with the flow where the previous one ended.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.adapters.generators.frames import (
    build_frame,
    directed_addresses,
    flow_ranges,
    frames_of,
    program_of,
    recipe_of,
)
from pytest_nfvperf.features.trex.field_engine import instructions
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.mix import classes_of, shares
from pytest_nfvperf.model.traffic.traffic import (
    FCS_BYTES,
    IP_BYTES,
    UDP_BYTES,
    VXLAN_SOURCE_PORTS,
    WIRE_OVERHEAD_BYTES,
    Traffic,
)
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, reversals
from pytest_nfvperf.ports.generator import GeneratorPort

MAX_LATENCY_STREAMS = 128
"""Limit of a server: each has a ring of sequence numbers there."""
MAX_FLOW_COUNTERS = 1023
"""Limit of a server without hardware counters; a NIC may have fewer."""
MIN_LATENCY_BYTES = 60
"""Without FCS. The server pads a shorter one and then does not count it."""
LATENCY_FPS = 1000
"""Latency frames/s per direction: the server's receive core processes each of them."""
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
        Dicts as the child's ``trial`` command takes them, and ``direction``, an index into the spec's.

    Raises:
        ConfigError: the load makes no frame, or the server could not do it.
    """
    if not isinstance(spec.traffic, Traffic):
        raise ConfigError(
            "TRex cannot count classes of a mix yet: send each class by itself, or use the embedded engine"
        )
    frames = frames_of(spec)
    made: list[dict[str, Any]] = []
    for index, (direction, reverse) in enumerate(zip(spec.directions, reversals(spec.directions), strict=True)):
        for stream in _direction_streams(spec, direction, ports, frames, reverse=reverse):
            number = len(made) + 1 + (_LATENCY_IDS if stream["latency"] else 0)
            made.append({**stream, "direction": index, "id": number})
    check_streams(made, ports.values())
    return made


def latency_frames(load_fps: int, frames: int) -> int:
    """How many of a direction's frames are latency frames; at least one."""
    rate = min(LATENCY_FPS, max(1, load_fps // LATENCY_SHARE))
    return max(1, frames * rate // load_fps)


def _direction_streams(
    spec: TrialSpec, direction: Direction, ports: Mapping[str, TrexPort], frames: int, *, reverse: bool
) -> list[dict[str, Any]]:
    (traffic,) = (each.traffic for each in classes_of(spec.traffic))
    sampled = latency_frames(spec.load_fps, frames) if spec.latency else 0
    recipe = recipe_of(traffic)
    counts = shares(frames - sampled, [weight for _, weight in recipe])
    wanted = [(size, count, False) for (size, _), count in zip(recipe, counts, strict=True) if count]
    if sampled:
        # The smallest of the traffic's frames with room for number and time
        room = traffic.header_bytes + LATENCY_PAYLOAD_BYTES + FCS_BYTES
        wanted.append((max(room, traffic.smallest_frame_size), sampled, True))
    # A port with a gateway sends to the gateway's MAC.
    attached = {
        name: replace(port.port, eth_peer=port.gateway_mac) if port.gateway_mac else port.port
        for name, port in ports.items()
    }
    addresses = directed_addresses(traffic, direction, attached, reverse=reverse)
    begins = [sum(count for _, count, _ in wanted[:at]) % traffic.flows for at in range(len(wanted))]
    return [
        {
            "port": ports[direction.tx].number,
            "rx_port": ports[direction.rx].number,
            "latency": part.latency,
            "frames": part.frames,
            "fps": spec.load_fps * part.frames / frames,
            # Streams that begin together would send in bursts: each begins a part of a frame's interval later.
            "start_after_us": round(1e6 / spec.load_fps * at / len(wanted), 3),
            "frame": build_frame(size, addresses).hex(),
            "fields": _fields(traffic, begins[at], latency=latency, reverse=reverse),
        }
        for at, part in enumerate(parts)
    ]


def _short_form_parts(
    traffic: Traffic,
    direction: Direction,
    ports: Mapping[str, GeneratorPort],
    frames: int,
    sampled: int,
    *,
    reverse: bool,
) -> list[_Part]:
    recipe = recipe_of(traffic)
    counts = shares(frames, [weight for _, weight in recipe])
    wanted = [(size, count, False) for (size, _), count in zip(recipe, counts, strict=True) if count]
    if sampled:
        wanted.append((_latency_size(traffic), sampled, True))
    addresses = directed_addresses(traffic, direction, ports, reverse=reverse)
    begins = [sum(count for _, count, _ in wanted[:at]) % traffic.flows for at in range(len(wanted))]
    return [
        _Part(build_frame(size, addresses), count, _fields(traffic, begin, latency=latency, reverse=reverse), latency)
        for (size, count, latency), begin in zip(wanted, begins, strict=True)
    ]


def _latency_size(traffic: Traffic) -> int:
    """The smallest of the traffic's frames with room for number and time, bytes with FCS."""
    return max(traffic.header_bytes + LATENCY_PAYLOAD_BYTES + FCS_BYTES, traffic.smallest_frame_size)


def _packet_parts(
    traffic: Traffic,
    direction: Direction,
    ports: Mapping[str, GeneratorPort],
    frames: int,
    sampled: int,
    *,
    reverse: bool,
) -> list[_Part]:
    """A stream for each template of the frame program, and one of latency frames."""
    program = program_of(traffic, direction, ports, reverse=reverse)
    weights = Counter(program.order)
    counts = shares(frames, list(weights.values()))
    wanted = [(_single(program, template), count, False) for template, count in zip(weights, counts, strict=True)]
    if sampled and not traffic.packet.frame_sizes:
        larger = program_of(replace(traffic, frame_size=_latency_size(traffic)), direction, ports, reverse=reverse)
        wanted.append((larger, sampled, True))
    elif sampled:
        wanted.append((_with_room(program), sampled, True))
    parts, begin = [], 0
    for single, count, latency in wanted:
        if count:
            parts.append(_Part(single.templates[0], count, instructions(single, begin % program.combinations), latency))
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
