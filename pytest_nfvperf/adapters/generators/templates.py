"""Frame templates and streams for the embedded engine, built by scapy.

Every frame is Ethernet, an optional 802.1Q tag, IPv4 and UDP, as RFC 2544 appendix C.2.2 draws its
test frame, then the engine's 14-byte signature, then a pattern (byte n of the frame is n modulo
256) that lets the engine reuse its buffers at any frame size.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic import FCS_BYTES, Imix, Traffic
from pytest_nfvperf.model.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

SIGNATURE_BYTES = 14
UDP_SOURCE_PORT = 0xC020
"""RFC 2544 appendix C.2.2.1; flows beyond the address range count up from here."""
UDP_DESTINATION_PORT = 7
"""RFC 2544 appendix C.2.2.1: echo."""
_MAX_MIX_ORDER = 256


def intended_frames(load_fps: int, duration_s: float) -> int:
    """Frames due: floor(load * duration), computed on the decimal that the user wrote, not on its float."""
    return int(Decimal(load_fps) * Decimal(repr(duration_s)))


def mix_order(recipe: Sequence[tuple[int, int]]) -> list[int]:
    """The order in which a mix's sizes are sent: each as evenly spread as its weight allows.

    Args:
        recipe: ``((frame_size, weight), ...)``.

    Returns:
        Indexes into the recipe, as many as the weights' sum.
    """
    total = sum(weight for _, weight in recipe)
    if total > _MAX_MIX_ORDER:
        raise ConfigError(f"the weights of an IMIX may sum up to {_MAX_MIX_ORDER}, not {total}; reduce them")
    credit = [0] * len(recipe)
    order = []
    for _ in range(total):
        credit = [have + weight for have, (_, weight) in zip(credit, recipe, strict=True)]
        chosen = credit.index(max(credit))
        credit[chosen] -= total
        order.append(chosen)
    return order


@lru_cache(maxsize=256)
def build_frame(size: int, src_mac: str, dst_mac: str, src_ip: str, dst_ip: str, vlan: int | None) -> bytes:
    """One template of ``size`` bytes with FCS, without the FCS; checksums filled in, UDP's 0 (RFC 768: none)."""
    # scapy takes half a second to import: only who sends pays for it.
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415
    from scapy.layers.l2 import Dot1Q, Ether  # noqa: PLC0415
    from scapy.packet import Raw  # noqa: PLC0415

    headers = Ether(src=src_mac, dst=dst_mac)
    if vlan is not None:
        headers /= Dot1Q(vlan=vlan)
    headers /= IP(src=src_ip, dst=dst_ip, ttl=64, id=0) / UDP(
        sport=UDP_SOURCE_PORT, dport=UDP_DESTINATION_PORT, chksum=0
    )
    room = size - FCS_BYTES - signature_offset(vlan)
    payload = bytes(SIGNATURE_BYTES) + bytes((signature_offset(vlan) + at) % 256 for at in range(SIGNATURE_BYTES, room))
    return bytes(headers / Raw(payload))


def signature_offset(vlan: int | None) -> int:
    """Where the signature stands: behind Ethernet (14), tag (4), IPv4 (20) and UDP (8) headers."""
    return 42 if vlan is None else 46


def recipe_of(traffic: Traffic) -> tuple[tuple[int, int], ...]:
    """Frame sizes with their weights; a single size is a mix of one."""
    return traffic.frame_size.recipe if isinstance(traffic.frame_size, Imix) else ((traffic.frame_size, 1),)


def flow_ranges(traffic: Traffic, src_ip: str) -> dict[str, int]:
    """Flow ranges: addresses up to the end of the first one's /16, less broadcast, then UDP source ports."""
    first = int(ipaddress.IPv4Address(src_ip))
    addresses = max(1, min(traffic.flows, 0xFFFE - (first & 0xFFFF) + 1))
    return {"count": traffic.flows, "addresses": addresses, "first_address": first, "first_port": UDP_SOURCE_PORT}


def directed_addresses(
    traffic: Traffic, direction: Direction, ports: Mapping[str, GeneratorPort], *, reverse: bool
) -> tuple[str, str, str, str]:
    """Source and destination MAC, source and destination IP of one direction's frames.

    Where the traffic gives no MACs they are the sender's own, and the one it was told to send to or else the
    receiver's; on the way back what the traffic gives changes sides.
    """
    macs = (traffic.dst_mac, traffic.src_mac) if reverse else (traffic.src_mac, traffic.dst_mac)
    ips = (traffic.dst_ip, traffic.src_ip) if reverse else (traffic.src_ip, traffic.dst_ip)
    sender = ports[direction.tx]
    return macs[0] or sender.mac, macs[1] or sender.eth_peer or ports[direction.rx].mac, *ips


def stream(
    traffic: Traffic,
    direction: Direction,
    ports: Mapping[str, GeneratorPort],
    *,
    reverse: bool,
    load_fps: int,
    frames: int,
) -> dict[str, Any]:
    """One direction as the engine's ``trial`` command wants it.

    Args:
        traffic: the profile.
        direction: who sends to whom.
        ports: attached ports by name, for their MACs.
        reverse: this is the way back: addresses given by the traffic change sides.
        load_fps: frames/s.
        frames: how many are due.
    """
    addresses = directed_addresses(traffic, direction, ports, reverse=reverse)
    recipe = recipe_of(traffic)
    return {
        "tx": direction.tx,
        "rx": direction.rx,
        "fps": load_fps,
        "frames": frames,
        "signature": signature_offset(traffic.vlan),
        "templates": [build_frame(size, *addresses, traffic.vlan).hex() for size, _ in recipe],
        "order": mix_order(recipe),
        "flows": flow_ranges(traffic, addresses[2]),
        "queue_depth": ports[direction.tx].queue_depth,
    }


def reversals(directions: Sequence[Direction]) -> list[bool]:
    """Which directions go back where an earlier one came from."""
    ways = [(direction.tx, direction.rx) for direction in directions]
    return [(rx, tx) in ways[:at] for at, (tx, rx) in enumerate(ways)]


def streams(
    traffic: Traffic, directions: Sequence[Direction], ports: Mapping[str, GeneratorPort], load_fps: int, frames: int
) -> list[dict[str, Any]]:
    """All directions; one that goes back where an earlier one came from has the addresses swapped."""
    return [
        stream(traffic, direction, ports, reverse=reverse, load_fps=load_fps, frames=frames)
        for direction, reverse in zip(directions, reversals(directions), strict=True)
    ]


def trial_request(spec: TrialSpec, ports: Mapping[str, GeneratorPort]) -> dict[str, Any]:
    """The arguments of the engine's ``trial`` command. ConfigError for a load that makes no frame."""
    frames = intended_frames(spec.load_fps, spec.duration_s)
    if frames < 1:
        raise ConfigError(
            f"{spec.load_fps} frames/s for {spec.duration_s} s makes no frame; use a higher load or a longer duration"
        )
    return {
        "streams": streams(spec.traffic, spec.directions, ports, spec.load_fps, frames),
        "residual_ns": round(spec.residual_s * 1e9),
        "latency": spec.latency,
    }
