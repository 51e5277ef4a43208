"""Compares captured copies of a trial's frames with what was sent: byte for byte, and by their sequence numbers."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_nfvperf.adapters.generators.templates import SIGNATURE_BYTES, Addresses, build_frame
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.frame_route import route
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, Imix, Traffic
from pytest_nfvperf.model.traffic.trial import Direction

_SIGNATURE = struct.Struct("<HBBI")  # native/signature.h: magic, trial, stream, sequence number
_MAGIC = 0x664E
_MOST_SHOWN = 5


@dataclass(slots=True)
class LegCopies:
    """Copies of one crossing's frames.

    Attributes:
        source, destination: MAC addresses of the frames there.
        seen: how often each sequence number came.
    """

    source: str
    destination: str
    seen: Counter[int] = field(default_factory=Counter)

    @property
    def copies(self) -> int:
        """Distinct frames of which a copy came."""
        return len(self.seen)

    @property
    def duplicated(self) -> int:
        """Further copies of them."""
        return self.seen.total() - len(self.seen)


@dataclass(frozen=True, slots=True)
class CopiedFrames:
    """What a capture of a mirror holds of the last trial in it.

    Attributes:
        legs: copies of each crossing's frames.
        others: frames that are not of the trial, or have other addresses: those of other trials, the bridge's own.
        wrong: what differs in frames that are not as they were sent, the first few.
    """

    legs: tuple[LegCopies, ...]
    others: int
    wrong: tuple[str, ...]


def legs_of(topology: Topology, direction: Direction, traffic: Traffic) -> tuple[LegCopies, ...]:
    """The MAC addresses of a direction's frames at each crossing.

    Raises:
        ValueError: the topology does not define the path of the direction.
    """
    passes = route(topology, direction)
    if passes is None:
        raise ArgumentError(f"topology {topology.name!r} does not define the path of {direction}")
    first = topology.port(direction.tx)
    source = traffic.src_mac or first.mac
    destination = traffic.dst_mac or first.eth_peer or topology.port(direction.rx).mac
    legs = [LegCopies(source, destination)]
    for crossed in passes[:-1]:
        vnf = topology.port(crossed.exit)
        if vnf.eth_peer is not None and vnf.peer is not None:
            source, destination = topology.port(vnf.peer).mac, vnf.eth_peer
        legs.append(LegCopies(source, destination))
    return tuple(legs)


def check_frames(
    frames: Iterable[bytes], topology: Topology, direction: Direction, traffic: Traffic, *, snaplen: int | None = None
) -> CopiedFrames:
    """Compare captured frames with those that the generator sent. Their addresses tell at which crossing.

    It compares all bytes except the signature, which holds the sequence number and the send time.

    Args:
        frames: captured, without FCS.
        topology: that they crossed.
        direction: of the trial.
        traffic: of the trial: one flow, one frame size.
        snaplen: bytes that copies were cut to, or None.
    """
    legs = legs_of(topology, direction, traffic)
    expected = {leg.destination: _expected(traffic, leg)[:snaplen] for leg in legs}
    by_destination = {leg.destination: leg for leg in legs}
    start = traffic.header_bytes
    signed = [(frame, _trial_and_number(frame, start)) for frame in frames]
    last = next((known[0] for _, known in reversed(signed) if known is not None), None)
    others, wrong = 0, list[str]()
    for frame, known in signed:
        destination = frame[:6].hex(":")
        if known is None or known[0] != last or destination not in by_destination:
            others += 1
            continue
        by_destination[destination].seen[known[1]] += 1
        if not _same(frame, expected[destination], start) and len(wrong) < _MOST_SHOWN:
            wrong.append(_difference(frame, expected[destination], start))
    return CopiedFrames(legs, others, tuple(wrong))


def _trial_and_number(frame: bytes, start: int) -> tuple[int, int] | None:
    """Of a frame with a signature; None for any other."""
    if len(frame) < start + SIGNATURE_BYTES:
        return None
    magic, trial, _, number = _SIGNATURE.unpack_from(frame, start)
    return (trial, number) if magic == _MAGIC else None


def _expected(traffic: Traffic, leg: LegCopies) -> bytes:
    if isinstance(traffic.frame_size, Imix) or traffic.flows > 1:
        raise ArgumentError(
            "captured frames of several sizes or flows cannot be compared with one frame: send one flow of one size"
        )
    addresses = Addresses(leg.source, leg.destination, traffic.src_ip, traffic.dst_ip, traffic.vlan, traffic.vxlan)
    return build_frame(traffic.frame_size, addresses)


def _same(frame: bytes, expected: bytes, start: int) -> bool:
    end = start + SIGNATURE_BYTES
    return frame[:start] == expected[:start] and frame[end:] == expected[end:]


def _difference(frame: bytes, expected: bytes, start: int) -> str:
    """In scapy's words where headers differ, else by the byte."""
    from scapy.layers.l2 import Ether  # noqa: PLC0415 - takes half a second; only who finds a wrong frame pays for it

    if len(frame) != len(expected):
        return f"{len(frame) + FCS_BYTES} bytes with FCS in place of {len(expected) + FCS_BYTES}"
    if frame[:start] != expected[:start]:
        return f"{Ether(frame).summary()} in place of {Ether(expected).summary()}"
    at = next(n for n in range(start + SIGNATURE_BYTES, len(frame)) if frame[n] != expected[n])
    return f"byte {at} is {frame[at]:#04x} in place of {expected[at]:#04x}"
