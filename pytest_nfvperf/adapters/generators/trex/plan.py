"""From a trial to TRex streams: which frames, how many, how fast, counted under which number.

Each direction is one stream a frame size, and one more stream of latency frames, which are part of the
load: the streams' frames add up to the frames due, and their rates to the load, exactly.
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
from pytest_nfvperf.model.traffic import FCS_BYTES, Traffic
from pytest_nfvperf.model.trial import Direction, TrialSpec

LATENCY_FPS = 1000
"""Latency frames/s per direction: the server's receive core looks at every single one of them."""

LATENCY_SHARE = 10
"""At most one frame in so many is a latency frame."""

LATENCY_PAYLOAD_BYTES = 16
"""The server writes number and time over the last bytes of a latency frame: they must be payload."""

_ETHERNET, _TAG, _IPV4, _UDP = 14, 4, 20, 8
_SOURCE_ADDRESS, _SOURCE_PORT = 12, 0
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
            "fields": {} if latency else _fields(spec.traffic, reverse=reverse),
        }
        for at, (size, count, latency) in enumerate(wanted)
    ]


def _latency_size(traffic: Traffic) -> int:
    """The smallest of the traffic's frames that has room for number and time."""
    least = _headers(traffic) + LATENCY_PAYLOAD_BYTES + FCS_BYTES
    return max(least, min(size for size, _ in recipe_of(traffic)))


def _headers(traffic: Traffic) -> int:
    return _ETHERNET + (_TAG if traffic.vlan is not None else 0) + _IPV4 + _UDP


def _frame(traffic: Traffic, direction: Direction, ports: Mapping[str, TrexPort], size: int, *, reverse: bool) -> str:
    addresses = directed_addresses(traffic, direction, addressed(ports), reverse=reverse)
    return build_frame(size, *addresses, traffic.vlan).hex()


def _fields(traffic: Traffic, *, reverse: bool) -> dict[str, Any]:
    """Which bytes change from frame to frame, so that there are as many flows as asked for."""
    if traffic.flows == 1:
        return {}
    ranges = flow_ranges(traffic, traffic.dst_ip if reverse else traffic.src_ip)
    ip_at = _headers(traffic) - _UDP - _IPV4
    udp_at = ip_at + _IPV4
    first, addresses = ranges["first_address"], ranges["addresses"]
    if addresses == traffic.flows:
        source = {"offset": ip_at + _SOURCE_ADDRESS, "bytes": 4, "first": first, "last": first + addresses - 1}
        return {"counters": [{**source, "down": False}], "ipv4": [ip_at]}
    pairs = {
        "first_address": str(ipaddress.IPv4Address(first)),
        "last_address": str(ipaddress.IPv4Address(first + addresses - 1)),
        "first_port": ranges["first_port"],
        "last_port": ranges["first_port"] + (traffic.flows - 1) // addresses,
        "flows": traffic.flows,
        "address_at": ip_at + _SOURCE_ADDRESS,
        "port_at": udp_at + _SOURCE_PORT,
    }
    return {"pairs": pairs, "ipv4": [ip_at]}
