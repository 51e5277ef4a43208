"""Frame templates and streams for the embedded engine, built by scapy, and checks of their captured copies.

Every frame is Ethernet, an optional 802.1Q tag, IPv4 or IPv6, and UDP (RFC 2544 appendix C.2.2), or such a frame in a
VXLAN; then the engine's 14-byte signature, then a pattern (byte n of the frame is n modulo 256) that lets the engine
reuse its buffers at any frame size.
"""

from __future__ import annotations

import ipaddress
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.topology.frame_route import route
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames, FrameSource
from pytest_nfvperf.model.traffic.frame_program import Checksum, FrameProgram, VaryingField, frame_at
from pytest_nfvperf.model.traffic.mix import ClassStream
from pytest_nfvperf.model.traffic.traffic import (
    FCS_BYTES,
    HEADER_BYTES,
    IP_BYTES,
    TEST_PAYLOAD_BYTES,
    UDP_BYTES,
    VLAN_TAG_BYTES,
    VXLAN_PORT,
    VXLAN_SOURCE_PORTS,
    Imix,
    Traffic,
    Vxlan,
    ip_version,
)
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

SIGNATURE_BYTES = TEST_PAYLOAD_BYTES
LACPDU_BYTES = 124  # without FCS; its last 50 bytes are reserved, and have the signature
UDP_SOURCE_PORT = 0xC020
"""RFC 2544 appendix C.2.2.1; flows beyond the address range count up from here."""
UDP_DESTINATION_PORT = 7
"""RFC 2544 appendix C.2.2.1: echo."""
_MAX_MIX_ORDER = 256
_SIGNATURE = struct.Struct("<HBBI")  # native/signature.h: magic, trial, stream, sequence number
_MAGIC = 0x664E
_MOST_SHOWN = 5


def intended_frames(load_fps: int, duration_s: float) -> int:
    """Frames due: floor(load * duration), computed on the decimal that the user wrote, not on its float."""
    return int(Decimal(load_fps) * Decimal(repr(duration_s)))


def frames_of(spec: TrialSpec) -> int:
    """Frames due per direction; ConfigError for a load that makes none."""
    frames = intended_frames(spec.load_fps, spec.duration_s)
    if frames < 1:
        raise ConfigError(
            f"{spec.load_fps} frames/s for {spec.duration_s} s makes no frame; use a higher load or a longer duration"
        )
    return frames


def mix_order(recipe: Sequence[tuple[int, int]]) -> list[int]:
    """The order in which a mix's sizes are sent: each as evenly spread as its weight allows.

    From ``((frame_size, weight), ...)`` to indexes into that, as many as the weights' sum.
    """
    total = sum(weight for _, weight in recipe)
    if total > _MAX_MIX_ORDER:
        raise ConfigError(f"the weights of an IMIX may sum up to {_MAX_MIX_ORDER}, not {total}; reduce them")
    credit = [0] * len(recipe)
    order = []
    for _ in range(total):
        credit = [old + weight for old, (_, weight) in zip(credit, recipe, strict=True)]
        chosen = credit.index(max(credit))
        credit[chosen] -= total
        order.append(chosen)
    return order


@dataclass(frozen=True, slots=True)
class Addresses:
    """One direction's addresses. MAC addresses are those on the DUT's link; a ``vxlan``'s own are the outer ones."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    vlan: int | None = None
    vxlan: Vxlan | None = None


@lru_cache(maxsize=256)
def build_frame(size: int, addresses: Addresses) -> bytes:
    """One template of ``size`` bytes with FCS, without the FCS.

    UDP's checksum over IPv4 is 0 (RFC 768: none). Over IPv6 it is required (RFC 8200 section 8.1) and computed with
    the engine's signature as zeros.
    """
    # scapy takes half a second to import: only senders pay for it.
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415
    from scapy.layers.inet6 import IPv6  # noqa: PLC0415
    from scapy.layers.l2 import Dot1Q, Ether  # noqa: PLC0415
    from scapy.layers.vxlan import VXLAN  # noqa: PLC0415
    from scapy.packet import Raw  # noqa: PLC0415

    def ip(src: str, dst: str) -> Any:
        return IP(src=src, dst=dst, ttl=64, id=0) if ip_version(src) == 4 else IPv6(src=src, dst=dst, hlim=64)

    headers = Ether(src=addresses.src_mac, dst=addresses.dst_mac)
    if addresses.vlan is not None:
        headers /= Dot1Q(vlan=addresses.vlan)
    if (vxlan := addresses.vxlan) is not None:
        headers /= ip(vxlan.src_ip, vxlan.dst_ip) / UDP(sport=VXLAN_SOURCE_PORTS[0], dport=VXLAN_PORT, chksum=0)
        headers /= VXLAN(vni=vxlan.vni, flags="Instance") / Ether(src=vxlan.inner_src_mac, dst=vxlan.inner_dst_mac)
    checksum = 0 if ip_version(addresses.src_ip) == 4 else None  # None: scapy computes it
    headers /= ip(addresses.src_ip, addresses.dst_ip)
    headers /= UDP(sport=UDP_SOURCE_PORT, dport=UDP_DESTINATION_PORT, chksum=checksum)
    pattern = bytes(at % 256 for at in range(len(headers) + SIGNATURE_BYTES, size - FCS_BYTES))
    return bytes(headers / Raw(bytes(SIGNATURE_BYTES) + pattern))


def recipe_of(traffic: Traffic) -> tuple[tuple[int, int], ...]:
    """Frame sizes with their weights; a single size is a mix of one."""
    return traffic.frame_size.recipe if isinstance(traffic.frame_size, Imix) else ((traffic.frame_size, 1),)


def flow_ranges(traffic: Traffic, src_ip: str) -> dict[str, int]:
    """The ranges of flows: addresses up to the end of the first one's /16, less broadcast, then UDP source ports.

    Of IPv6 addresses the lowest four bytes change, up to the end of the /112.
    """
    first = int(ipaddress.ip_address(src_ip)) & 0xFFFFFFFF
    addresses = max(1, min(traffic.flows, 0xFFFE - (first & 0xFFFF) + 1))
    return {"count": traffic.flows, "addresses": addresses, "first_address": first, "first_port": UDP_SOURCE_PORT}


def directed_addresses(
    traffic: Traffic, direction: Direction, ports: Mapping[str, GeneratorPort], *, reverse: bool
) -> Addresses:
    """The addresses of one direction's frames.

    If the traffic gives no MACs, frames go from the sender's own to the sender's ``eth_peer``, or else to the
    receiver's. In the reverse direction the addresses that the traffic gives change sides.
    """
    macs = (traffic.dst_mac, traffic.src_mac) if reverse else (traffic.src_mac, traffic.dst_mac)
    ips = (traffic.dst_ip, traffic.src_ip) if reverse else (traffic.src_ip, traffic.dst_ip)
    vxlan = traffic.vxlan.reversed() if traffic.vxlan and reverse else traffic.vxlan
    sender = ports[direction.tx]
    source, destination = macs[0] or sender.mac, macs[1] or sender.eth_peer or ports[direction.rx].mac
    return Addresses(source, destination, *ips, traffic.vlan, vxlan)


def program_of(
    traffic: Traffic, direction: Direction, ports: Mapping[str, GeneratorPort], *, reverse: bool
) -> FrameProgram:
    """One direction's frames."""
    source = traffic.frame_source
    if source is None:
        return short_program(traffic, directed_addresses(traffic, direction, ports, reverse=reverse))
    sender = ports[direction.tx]
    receiver_mac = sender.eth_peer or ports[direction.rx].mac
    return _program_between(source, traffic, sender.mac, receiver_mac, reverse=reverse)


def _program_between(
    source: FrameSource, traffic: Traffic, source_mac: str, destination_mac: str, *, reverse: bool = False
) -> FrameProgram:
    recipe = () if source.frame_sizes else recipe_of(traffic)
    sizes = [size for size, _ in recipe]
    return source.program(
        sizes, mix_order(recipe), source_mac=source_mac, destination_mac=destination_mac, reverse=reverse
    )


def short_program(traffic: Traffic, addresses: Addresses) -> FrameProgram:
    """What a traffic without a packet means: UDP over IP, or that in a VXLAN, with flows.

    Flow f has source address f % addresses and UDP source port f // addresses of :func:`flow_ranges`. A tunnel's source
    port differs with it, which RSS spreads by.
    """
    signature = traffic.header_bytes
    udp = signature - UDP_BYTES
    ip = udp - IP_BYTES[traffic.ip_version]
    ranges = flow_ranges(traffic, addresses.src_ip)
    count = ranges["addresses"]
    fields = [
        _number("IP.src", ip + (12 if traffic.ip_version == 4 else 20), 4, ranges["first_address"], count, 1),
        _number("UDP.sport", udp, 2, ranges["first_port"], -(-traffic.flows // count), count),
    ]
    fields = [each for each in fields if each.count > 1]
    inner = tuple(range(len(fields)))
    if addresses.vxlan and traffic.flows > 1:
        outer = HEADER_BYTES + IP_BYTES[addresses.vxlan.ip_version] + (VLAN_TAG_BYTES if addresses.vlan else 0)
        ports = VXLAN_SOURCE_PORTS
        fields.append(_number("UDP.sport", outer, 2, ports.start, min(len(ports), traffic.flows), 1))
    changeable: tuple[tuple[int, int], ...]
    if traffic.ip_version == 4:
        changeable = ((ip + 1, 1), (ip + 8, 1), (ip + 10, 2))  # DSCP, TTL, checksum
        checksum = Checksum("IP.chksum", "internet", ip + 10, ip, 0, inner[:1] if count > 1 else ())
    else:
        changeable = ((ip, 4), (ip + 7, 1))  # traffic class and flow label, hop limit
        checksum = Checksum("UDP.chksum", "internet", udp + 6, udp, 0, inner, signature=True, never_zero=True)
    recipe = recipe_of(traffic)
    return FrameProgram(
        templates=tuple(build_frame(size, addresses) for size, _ in recipe),
        signatures=(signature,) * len(recipe),
        order=tuple(mix_order(recipe)),
        fields=tuple(fields),
        checksums=(checksum,),
        combinations=traffic.flows,
        compared_from=ip,
        changeable=changeable,
    )


def _number(name: str, offset: int, size: int, first: int, count: int, every: int) -> VaryingField:
    """A field that is a whole number of bytes and counts up."""
    return VaryingField(name, offset, size, shift=0, bits=8 * size, first=first, step=1, count=count, every=every)


def program_stream(program: FrameProgram) -> dict[str, Any]:
    """The keys of a stream of the engine's ``trial`` command that say which frames it has."""
    fields = [
        {key: value for key, value in asdict(field).items() if key not in {"name", "order", "arrived"}}
        | {"first": _unsigned(field.first), "step": _unsigned(field.step), "random": field.order == "random"}
        | ({} if field.arrived is None else {"from": field.arrived})
        for field in program.fields
    ]
    checksums = [
        {key: value for key, value in asdict(checksum).items() if key != "name"} for checksum in program.checksums
    ]
    return {
        "templates": [template.hex() for template in program.templates],
        "signatures": list(program.signatures),
        "order": list(program.order),
        "fields": fields,
        "checksums": checksums,
        "combinations": program.combinations,
        "compared_from": program.compared_from,
        "changeable": [list(each) for each in program.changeable],
        **({"balances": [list(each) for each in program.balances]} if program.balances else {}),
    }


def _needed(program: FrameProgram, frames: int) -> FrameProgram:
    """A capture without the templates that its first so many frames do not have: learning takes 10 of 65,536."""
    if not program.balances or frames >= len(program.order):
        return program
    order = program.order[:frames]
    numbers = {template: number for number, template in enumerate(dict.fromkeys(order))}
    return replace(
        program,
        templates=tuple(program.templates[template] for template in numbers),
        signatures=tuple(program.signatures[template] for template in numbers),
        order=tuple(numbers[template] for template in order),
        balances=tuple(program.balances[template] for template in numbers),
    )


def _with_swapped_ends(program: FrameProgram) -> FrameProgram:
    """The addresses and ports of the outer IP header may change: a sum over them, as of a checksum, does not."""
    ip = program.compared_from
    ends: set[tuple[int, int]] = set()
    for template in program.templates:
        version, words = divmod(template[ip], 16)
        ends |= {(ip + 12, 8), (ip + 4 * words, 4)} if version == 4 else {(ip + 8, 32), (ip + 40, 4)}
    return replace(program, changeable=tuple(sorted({*program.changeable, *ends})))


def _unsigned(value: int) -> int | str:
    """JSON as the engine reads it has signed numbers of 64 bits; larger ones go as text."""
    return value if value < 1 << 63 else str(value)


def streams(
    sent: Iterable[ClassStream],
    directions: Sequence[Direction],
    ports: Mapping[str, GeneratorPort],
    *,
    swapped: bool = False,
) -> list[dict[str, Any]]:
    """Streams as the engine takes them. ``swapped``: frames come back with both ends' addresses and ports swapped.

    ConfigError for frames of one receiver in several directions of one sender.
    """
    made: list[dict[str, Any]] = []
    for stream in sent:
        direction = directions[stream.direction]
        if stream.steps:
            made += _conversation(stream, direction, ports, len(made))
            continue
        common = {
            "tx": direction.tx,
            "rx": direction.rx
            if len(stream.receivers) == 1
            else [directions[receiver].rx for receiver in stream.receivers],
            "fps": stream.fps,
            "frames": stream.frames,
            "queue_depth": ports[direction.tx].queue_depth,
        }
        program = program_of(stream.sent.traffic, direction, ports, reverse=stream.reverse)
        program = _with_swapped_ends(program) if swapped else program
        made.append(common | program_stream(_needed(program, stream.frames)))
    if swapped and any(stream.steps for stream in sent):
        raise ConfigError("this DUT sends frames back to where they came from: a conversation needs one that forwards")
    for request in made:
        if isinstance(request["rx"], list) and not all(int(template[:2], 16) & 1 for template in request["templates"]):
            raise ConfigError(
                f"two directions send on port {request['tx']!r} to one address; give each direction a port of its own, "
                "or send to a group address, such as dst_mac='ff:ff:ff:ff:ff:ff'"
            )
    return made


def _conversation(
    stream: ClassStream, direction: Direction, ports: Mapping[str, GeneratorPort], first: int
) -> list[dict[str, Any]]:
    """A stream a step; ``first``: the number of the opening one in the request."""
    conversation = stream.sent.traffic.frame_source
    if not isinstance(conversation, ConversationFrames) or len(stream.receivers) > 1:
        raise ConfigError(f"two directions send on port {direction.tx!r}: a conversation has one server")
    made = []
    for number, step in enumerate(conversation.steps):
        tx, rx = (direction.rx, direction.tx) if step.from_server else (direction.tx, direction.rx)
        program = conversation.step_program(number, ports[tx].mac, ports[tx].eth_peer or ports[rx].mac)
        answers: dict[str, Any] = {"answers": [first + other for other in step.answers]}
        opening: dict[str, Any] = {"fps": stream.fps, "frames": stream.frames, "queue_depth": ports[tx].queue_depth}
        if step.after is not None:
            opening = {"after": first + step.after, "start_ns": round(conversation.hold_s * 1e9)} | opening
            del opening["queue_depth"]
        made.append({"tx": tx, "rx": rx} | (answers if step.answers else opening) | program_stream(program))
    return made


def lacp_streams(ports: Mapping[str, GeneratorPort], seconds: int) -> list[dict[str, Any]]:
    """A LACPDU a second to each member of a bond with LACP (IEEE 802.1AX, 6.4.2.3); the DUT takes it from the ring."""
    members = [port for port in ports.values() if port.lacp and not port.members]
    sent = {"fps": 1, "frames": seconds, "queue_depth": 1, "signatures": [LACPDU_BYTES - SIGNATURE_BYTES]}
    return [
        {"tx": port.name, "rx": port.name, "templates": [_lacpdu(port.mac, number).hex()], **sent}
        for number, port in enumerate(members, 1)
    ]


def _lacpdu(mac: str, number: int) -> bytes:
    """Of one system with one key, whose port of this number is in sync; with the long timeout: it holds for 90 s."""
    sender = bytes.fromhex(mac.replace(":", ""))
    actor = struct.pack("!H6sHHHB3x", 0xFFFF, sender, 1, 0xFFFF, number, 0x3D)  # priorities, and in sync: 0x3d
    head = bytes.fromhex("0180c2000002") + sender + b"\x88\x09\x01\x01"
    return (head + b"\x01\x14" + actor + b"\x02\x14" + bytes(18) + b"\x03\x10").ljust(LACPDU_BYTES, b"\0")


def trial_request(spec: TrialSpec, ports: Mapping[str, GeneratorPort]) -> dict[str, Any]:
    """The arguments of the engine's ``trial`` command. ConfigError for a load that makes no frame."""
    frames = frames_of(spec)
    sent = streams(spec.streams(frames), spec.directions, ports, swapped=spec.come_back == "swapped")
    request = {
        "streams": sent + lacp_streams(ports, math.ceil(spec.duration_s)),
        "residual_ns": round(spec.residual_s * 1e9),
        "latency": spec.latency,
    }
    if spec.give_up_loss is not None:
        request["most_refused"] = math.floor(spec.give_up_loss * frames * len(spec.directions))
    if spec.window_s is not None:
        request["window_ns"] = round(spec.window_s * 1e9)
    if spec.gap_s is not None:
        request |= {"gap_ns": round(spec.gap_s * 1e9), "rejoin": True}
    return request


@dataclass(slots=True)
class LegCopies:
    """Copies of one crossing's frames.

    Attributes:
        source, destination: MAC addresses of the frames there.
        seen: how often each sequence number arrived.
    """

    source: str
    destination: str
    seen: Counter[int] = field(default_factory=Counter)

    @property
    def copies(self) -> int:
        return len(self.seen)

    @property
    def duplicated(self) -> int:
        return self.seen.total() - len(self.seen)


@dataclass(frozen=True, slots=True)
class CopiedFrames:
    """Frames of the last trial in a mirror's capture.

    Attributes:
        legs: copies of each crossing's frames.
        others: frames of other trials, of the bridge, or with other addresses.
        wrong: the differences of the first few frames that are not as they were sent.
    """

    legs: tuple[LegCopies, ...]
    others: int
    wrong: tuple[str, ...]


def legs_of(topology: Topology, direction: Direction, traffic: Traffic) -> tuple[LegCopies, ...]:
    """The MAC addresses of a direction's frames at each crossing; ValueError if the topology defines no path for it."""
    passes = route(topology, direction)
    if passes is None:
        raise ArgumentError(f"topology {topology.name!r} does not define the path of {direction}")
    first = topology.port(direction.tx)
    source = traffic.src_mac or first.mac
    destination = traffic.dst_mac or first.eth_peer or topology.port(direction.rx).mac
    if traffic.frame_source is not None:  # it can have addresses of its own
        frame = _program_between(traffic.frame_source, traffic, source, destination).templates[0]
        source, destination = frame[6:12].hex(":"), frame[:6].hex(":")
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
    """Compare captured frames with those that the generator sent. Their addresses identify the crossing.

    It compares all bytes except the signature, which holds the sequence number and the send time.

    Args:
        frames: captured, without FCS.
        topology: the one that they crossed.
        direction: of the trial.
        traffic: of the trial: one flow, one frame size, or a packet.
        snaplen: bytes that copies were cut to, or None.
    """
    legs = legs_of(topology, direction, traffic)
    expected = {leg.destination: _expected(traffic, leg) for leg in legs}
    by_destination = {leg.destination: leg for leg in legs}
    start, end = traffic.header_bytes, traffic.header_bytes + SIGNATURE_BYTES
    signed = [(frame, _trial_and_number(frame, start)) for frame in frames]
    last = next((known[0] for _, known in reversed(signed) if known is not None), None)
    others, wrong = 0, list[str]()
    for frame, known in signed:
        destination = frame[:6].hex(":")
        if known is None or known[0] != last or destination not in by_destination:
            others += 1
            continue
        by_destination[destination].seen[known[1]] += 1
        sent = expected[destination](known[1], frame[start:end])[:snaplen]
        if (frame[:start], frame[end:]) != (sent[:start], sent[end:]) and len(wrong) < _MOST_SHOWN:
            wrong.append(_difference(frame, sent, start))
    return CopiedFrames(legs, others, tuple(wrong))


def _trial_and_number(frame: bytes, start: int) -> tuple[int, int] | None:
    """Trial and sequence number of a frame with our signature; None for any other."""
    if len(frame) < start + SIGNATURE_BYTES:
        return None
    magic, trial, _, number = _SIGNATURE.unpack_from(frame, start)
    return (trial, number) if magic == _MAGIC else None


def _expected(traffic: Traffic, leg: LegCopies) -> Callable[[int, bytes], bytes]:
    """What was sent there, by sequence number and signature: checksums of packets follow from it."""
    if traffic.frame_source is not None:
        program = _program_between(traffic.frame_source, traffic, leg.source, leg.destination)
        macs = bytes.fromhex((leg.destination + leg.source).replace(":", ""))  # a VNF rewrites those that a packet sets
        return lambda number, signature: macs + frame_at(program, number, signature)[12:]
    if isinstance(traffic.frame_size, Imix) or traffic.flows > 1:
        raise ArgumentError(
            "captured frames of several sizes or flows cannot be compared with one frame: send one flow of one size"
        )
    addresses = Addresses(leg.source, leg.destination, traffic.src_ip, traffic.dst_ip, traffic.vlan, traffic.vxlan)
    frame = build_frame(traffic.frame_size, addresses)
    return lambda _number, _signature: frame


def _difference(frame: bytes, expected: bytes, start: int) -> str:
    from scapy.layers.l2 import Ether  # noqa: PLC0415 - takes half a second, needed for wrong frames only

    if len(frame) != len(expected):
        return f"{len(frame) + FCS_BYTES} bytes with FCS in place of {len(expected) + FCS_BYTES}"
    if frame[:start] != expected[:start]:
        return f"{Ether(frame).summary()} in place of {Ether(expected).summary()}"
    at = next(n for n in range(start + SIGNATURE_BYTES, len(frame)) if frame[n] != expected[n])
    return f"byte {at} is {frame[at]:#04x} in place of {expected[at]:#04x}"
