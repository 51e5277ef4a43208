"""From a trial to TRex streams: which frames, how many, how fast, counted under which number.

Each direction is one stream a frame size, and one more stream of latency frames, which are part of the
load: the streams' frames add up to the frames due, and their rates to the load, exactly. Each stream goes
through the flows where the one before it ended, so that no flow has more than one frame more than another.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pytest_nfvperf.adapters.generators.templates import (
    build_frame,
    directed_addresses,
    flow_ranges,
    intended_frames,
    recipe_of,
    reversals,
)
from pytest_nfvperf.adapters.generators.trex.facts import TrexPort, addressed, check_streams
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.headers import IP_BYTES, UDP_BYTES, VXLAN_SOURCE_PORTS
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec

LATENCY_FPS = 1000
"""Latency frames/s per direction: the server's receive core looks at every single one of them."""

LATENCY_SHARE = 10
"""At most one frame in so many is a latency frame."""

LATENCY_PAYLOAD_BYTES = 16
"""The server writes number and time over the last bytes of a latency frame: they must be payload."""

_IPV4_SOURCE, _IPV6_SOURCE = 12, 8
_LATENCY_IDS = 1 << 16


def streams(spec: TrialSpec, ports: Mapping[str, TrexPort]) -> list[dict[str, Any]]:
    """All streams of a trial, checked against the server's limits.

    Returns:
        Dicts as the child's ``trial`` command takes them, and ``direction``, an index into the spec's.

    Raises:
        ConfigError: the load makes no frame, or the server could not do it.
    """
    frames = intended_frames(spec.load_fps, spec.duration_s)
    if frames < 1:
        raise ConfigError(
            f"{spec.load_fps} frames/s for {spec.duration_s} s makes no frame; use a higher load or a longer duration"
        )
    made: list[dict[str, Any]] = []
    for index, (direction, reverse) in enumerate(zip(spec.directions, reversals(spec.directions), strict=True)):
        for stream in _of_direction(spec, direction, ports, frames, reverse=reverse):
            number = len(made) + 1 + (_LATENCY_IDS if stream["latency"] else 0)
            made.append({**stream, "direction": index, "id": number})
    check_streams(made, ports.values())
    return made


def latency_frames(load_fps: int, frames: int) -> int:
    """How many of a direction's frames are latency frames: at least one."""
    rate = min(LATENCY_FPS, max(1, load_fps // LATENCY_SHARE))
    return max(1, frames * rate // load_fps)


def shares(frames: int, weights: Sequence[int]) -> list[int]:
    """A number of frames dealt out by weight, by largest remainder: they add up."""
    total = sum(weights)
    exact = [Fraction(frames * weight, total) for weight in weights]
    dealt = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda at: (dealt[at] - exact[at], at))
    for at in by_remainder[: frames - sum(dealt)]:
        dealt[at] += 1
    return dealt


def _of_direction(
    spec: TrialSpec, direction: Direction, ports: Mapping[str, TrexPort], frames: int, *, reverse: bool
) -> list[dict[str, Any]]:
    sampled = latency_frames(spec.load_fps, frames) if spec.latency else 0
    recipe = recipe_of(spec.traffic)
    counts = shares(frames - sampled, [weight for _, weight in recipe])
    wanted = [(size, count, False) for (size, _), count in zip(recipe, counts, strict=True) if count]
    if sampled:
        wanted.append((_latency_size(spec.traffic), sampled, True))
    begins = [sum(count for _, count, _ in wanted[:at]) % spec.traffic.flows for at in range(len(wanted))]
    return [
        {
            "port": ports[direction.tx].number,
            "rx_port": ports[direction.rx].number,
            "latency": latency,
            "frames": count,
            "fps": spec.load_fps * count / frames,
            # Streams that begin at once would send in bursts: each begins a part of a frame's turn later.
            "start_after_us": round(1e6 / spec.load_fps * at / len(wanted), 3),
            "frame": _frame(spec.traffic, direction, ports, size, reverse=reverse),
            "fields": _fields(spec.traffic, begins[at], latency=latency, reverse=reverse),
        }
        for at, (size, count, latency) in enumerate(wanted)
    ]


def _latency_size(traffic: Traffic) -> int:
    """The smallest of the traffic's frames that has room for number and time."""
    return max(traffic.header_bytes + LATENCY_PAYLOAD_BYTES + FCS_BYTES, traffic.smallest_frame_size)


def _frame(traffic: Traffic, direction: Direction, ports: Mapping[str, TrexPort], size: int, *, reverse: bool) -> str:
    addresses = directed_addresses(traffic, direction, addressed(ports), reverse=reverse)
    return build_frame(size, addresses).hex()


def _fields(traffic: Traffic, begin: int, *, latency: bool, reverse: bool) -> dict[str, Any]:
    """Which bytes change from frame to frame, so that there are as many flows as asked for.

    Args:
        traffic: whose flows.
        begin: the flow of the first frame, from 0. Pairs of address and port always begin with the first.
        latency: of latency frames.
        reverse: of the way back.
    """
    if traffic.flows == 1:
        return {}
    ranges = flow_ranges(traffic, traffic.dst_ip if reverse else traffic.src_ip)
    ip_at = traffic.header_bytes - UDP_BYTES - IP_BYTES[traffic.ip_version]
    if traffic.headers_label:
        return _side_by_side(traffic, ranges, ip_at, begin, latency=latency)
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


def _side_by_side(
    traffic: Traffic, ranges: Mapping[str, int], ip_at: int, begin: int, *, latency: bool
) -> dict[str, Any]:
    """Counters that step together with each frame: the address's lowest two bytes, and what has to follow them.

    Over IPv6 the server cannot work out UDP's checksum by itself: the first word of the payload goes down as
    the address goes up, which leaves it as it is. From 0xffff, which to the checksum is the template's 0.
    A latency frame has number and time there instead, and a wrong checksum.
    """
    flows = traffic.flows
    _check_side_by_side(traffic, ranges)
    source = _IPV6_SOURCE + 12 if traffic.ip_version == 6 else _IPV4_SOURCE
    counters = [_counter(ip_at + source + 2, ranges["first_address"] & 0xFFFF, flows, begin)]
    if traffic.ip_version == 6 and not latency:
        counters.append({**_counter(traffic.header_bytes, 0x10000 - flows, flows, begin), "down": True})
    if traffic.vxlan:
        # Behind Ethernet, its tag and the outer IP header.
        outer_udp = ip_at - traffic.vxlan.header_bytes + IP_BYTES[traffic.vxlan.ip_version]
        counters.append(_counter(outer_udp, VXLAN_SOURCE_PORTS[0], flows, begin))
    return {"counters": counters, "ipv4": [ip_at] if traffic.ip_version == 4 else []}


def _check_side_by_side(traffic: Traffic, ranges: Mapping[str, int]) -> None:
    flows = traffic.flows
    if flows > ranges["addresses"] or (traffic.vxlan and flows > len(VXLAN_SOURCE_PORTS)):
        most = min(ranges["addresses"], len(VXLAN_SOURCE_PORTS) if traffic.vxlan else flows)
        raise ConfigError(
            f"TRex sends at most {most} flows of {traffic.headers_name} from these addresses, not {flows}: use fewer, "
            "or the embedded generator"
        )


def _counter(offset: int, first: int, values: int, begin: int) -> dict[str, Any]:
    """``begin``: how many values on from the first it starts; down from the last where it counts down."""
    return {"offset": offset, "bytes": 2, "first": first, "last": first + values - 1, "begin": begin, "down": False}
