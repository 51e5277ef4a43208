"""Conversations: a script of frames between two ports, in which each frame that arrives makes the next one be sent.

There is no TCP stack, and no memory of a connection: all numbers of a frame follow from the number of its connection,
or are taken from the frame that it answers. So a conversation costs a generator hardly more than other frames, and its
addresses and ports may be translated on the way.
"""

from __future__ import annotations

import ipaddress
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.traffic.frame_program import (
    FCS_BYTES,
    TEST_PAYLOAD_BYTES,
    Checksum,
    FrameProgram,
    VaryingField,
)
from pytest_nfvperf.model.traffic.packet import CapturedFrames, PacketStack, RecordedFrames

Protocol = Literal["tcp", "udp", "icmp"]
Close = Literal["fin", "rst", "none"]
Nat = Literal["source", "destination", "both"]

_MOST_STEPS = 32
"""Half of the streams of an engine (native/sizes.h), so that other classes have room beside a conversation."""
_ETHERNET_BYTES, _TAG_BYTES = 14, 4
_SIGNATURE_OPTION = 253
"""RFC 4727: for experiments. Its identifier (RFC 6994) is the beginning of the signature, the same in all frames."""
_TCP_BYTES, _SIGNATURE_IN_TCP = 36, 22
_OTHER_BYTES = 8
"""UDP's header, and ICMP's. The signature begins their payload."""
LEAST_DATAGRAM = 18
"""Signature, and what fills the shortest frame over IPv4."""
_LEAST_NUMBER_BITS = 12
_WINDOW = 65535
_FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16}
_CHECKSUM_AT = {"tcp": 16, "udp": 6, "icmp": 2}
MOST_PAYLOAD = 9000


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One frame of a conversation.

    Attributes:
        name: unique in its conversation.
        from_server: the server sends it.
        answers: indexes of the steps that it answers, all of the other side: it is sent when all of them have arrived.
            () of the first.
        payload: bytes behind the L4 header.
        kind: TCP's flags as scapy writes them; of ICMP the reply's or the request's.
        after: of what closes a held connection, the index of the step that must have arrived when its time comes; it
            answers none then.
        sequence, acknowledged: bytes that its sender has sent and received before it; a SYN and a FIN count as one.
    """

    name: str
    from_server: bool
    answers: tuple[int, ...]
    payload: int
    kind: str = ""
    sequence: int = 0
    acknowledged: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class ConversationFrames:
    """The frames of a conversation, as a FrameSource. Made by Conversation (model/traffic/conversation.py).

    Attributes:
        request, response: bytes of payload from the client, and from the server. Of TCP 0 and 0: no data.
        mss: bytes of a TCP response in one frame at most.
        close: who ends a TCP connection: ``fin``, both sides; ``rst``, the client's RST; ``none`` leaves it open.
        clients: addresses, from ``client_ip`` on.
        ports: of each client, or an echo's identifiers. Each connection has another one, then another client, and then
            all begin again.
        server_port: None: 80 of TCP, 53 of UDP.
        client_ip, server_ip: both IPv4 or both IPv6.
        vlan: 802.1Q tag of every frame.
        hold_s: time from when a TCP connection was due until the client closes it; 0: at once.
        nat: the way translates the client's address and port ("source"), the server's ("destination"), or "both".
    """

    protocol: Protocol
    request: int
    response: int
    mss: int
    close: Close
    clients: int = 1
    ports: range = range(1024, 65536)
    server_port: int | None = None
    client_ip: str = "198.18.0.1"
    server_ip: str = "198.19.0.1"
    vlan: int | None = None
    nat: Nat | None = None
    hold_s: float = 0.0

    def __post_init__(self) -> None:
        client, server = map(ipaddress.ip_address, (self.client_ip, self.server_ip))
        call = f"Conversation.{self.protocol}()"
        if client.version != server.version:
            raise ArgumentError(
                f"{call}: client_ip {client} is IPv{client.version}, and server_ip {server} is IPv{server.version}: "
                "write two of one version"
            )
        if 0 <= int(server) - int(client) < self.clients:
            raise ArgumentError(f"{call}: {server} is a client's address, too: use another server_ip, or fewer clients")
        if bool(self.request) != bool(self.response):
            raise ArgumentError(f"{call}: write request and response above 0, or both 0 for connections without data")
        if self.close == "rst" and not self.request:
            raise ArgumentError(f"{call}: close='rst' answers a response: give request and response, or close by 'fin'")
        if self.hold_s and self.close == "none":
            raise ArgumentError(f"{call}: close='none' leaves connections open: leave hold_s out, or close by 'fin'")
        if self.hold_s and self.response > self.mss:
            raise ArgumentError(f"{call}: of a held connection the response is one frame: at most mss, {self.mss}")
        if self.protocol == "icmp" and self.server_port is not None:
            raise ArgumentError(f"{call}: an echo has no ports: leave server_port out")
        if self.request > self.mss:
            raise ArgumentError(f"{call}: a request of {self.request} bytes is not one frame: mss is {self.mss}")
        if len(self.steps) > _MOST_STEPS:
            raise ArgumentError(
                f"{call}: a connection has {len(self.steps)} frames, and at most {_MOST_STEPS} can be: use a shorter "
                f"response, or a larger mss than {self.mss}"
            )

    @property
    def ip_version(self) -> int:
        return ipaddress.ip_address(self.client_ip).version

    @property
    def to_port(self) -> int:
        default = {"tcp": 80, "udp": 53}.get(self.protocol, 0)
        return default if self.server_port is None else self.server_port

    @property
    def steps(self) -> tuple[ScriptStep, ...]:
        return _steps(self)

    @property
    def layers(self) -> tuple[str, ...]:
        tag = () if self.vlan is None else ("Dot1Q",)
        ip = "IP" if self.ip_version == 4 else "IPv6"
        l4 = "ICMPv6" if self.protocol == "icmp" and self.ip_version == 6 else self.protocol.upper()
        return ("Ether", *tag, ip, l4)

    @property
    def label(self) -> str:
        """``tcp-conversation``, ``vlan-ipv6-udp-conversation``."""
        tag, ip = "" if self.vlan is None else "vlan", "ipv6" if self.ip_version == 6 else ""
        return "-".join(filter(None, (tag, ip, self.protocol, "conversation")))

    @property
    def text(self) -> str:
        return f"{' / '.join(self.layers)} conversation of {', '.join(step.name for step in self.steps)}"

    @property
    def digest(self) -> str:
        return f"{zlib.crc32(repr(self).encode()):08x}"

    @property
    def header_bytes(self) -> int:
        """In front of the signature."""
        return self.l4_at + (_SIGNATURE_IN_TCP if self.protocol == "tcp" else _OTHER_BYTES)

    @property
    def ip_at(self) -> int:
        """Offset of the IP header."""
        return _ETHERNET_BYTES + (0 if self.vlan is None else _TAG_BYTES)

    @property
    def l4_at(self) -> int:
        return self.ip_at + (20 if self.ip_version == 4 else 40)

    def frame_size(self, step: ScriptStep) -> int:
        """Bytes with FCS."""
        return self.l4_at + (_TCP_BYTES if self.protocol == "tcp" else _OTHER_BYTES) + step.payload + FCS_BYTES

    @property
    def frame_sizes(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(Counter(map(self.frame_size, self.steps)).items()))

    @property
    def least_frame_size(self) -> int:
        return min(map(self.frame_size, self.steps))

    @property
    def combinations(self) -> int:
        """Addresses and ports of clients: connections until they are used again."""
        return self.clients * len(self.ports)

    def line_rate(self, bits_per_second: float, extra: int) -> float:
        """Connections/s that fill a link in the direction that is full first; ``extra``: bytes a frame on the wire."""
        sizes = Counter[bool]()
        for step in self.steps:
            sizes[step.from_server] += self.frame_size(step) + extra
        return bits_per_second / (8 * max(sizes.values()))

    def program(self, *_: Any, source_mac: str, destination_mac: str, **__: Any) -> FrameProgram:
        """The first step's frames, by which the others are known."""
        return self.step_program(0, source_mac, destination_mac)

    def step_program(self, number: int, source_mac: str, destination_mac: str) -> FrameProgram:
        """One step's frames. The MAC addresses are those of its sender's link."""
        return _program(self, number, source_mac, destination_mac)

    def recorded(self, _: int, /) -> RecordedFrames:
        frame = _program(self, 0, "02:00:00:00:00:01", "02:00:00:00:00:02").templates[0]
        return RecordedFrames(
            self.label,
            self.text,
            self.layers,
            self.header_bytes,
            self.least_frame_size,
            self.combinations,
            frame.hex(),
            self.frame_sizes,
            steps=tuple(step.name for step in self.steps),
        )


FrameSource = PacketStack | CapturedFrames | RecordedFrames | ConversationFrames
"""Where a traffic's frames come from. Each kind has

    label: short, for tables and test ids: ``qinq-tcp``.
    text: for a person: ``Ether / Dot1AD / Dot1Q / IP / TCP``.
    layers: names of the layers, outer ones first.
    header_bytes: what stands in front of the signature, at most.
    least_frame_size: the smallest frame that it can fill, bytes with FCS.
    frame_sizes: ``((frame_size, weight), ...)``, bytes with FCS, where the source and not ``Traffic.frame_size`` says
        how large its frames are; () otherwise.
    combinations: frames until its varying fields begin again.
    program(sizes, order, source_mac, destination_mac, reverse): one direction's frames. ``sizes``: of the templates; ()
        where ``frame_sizes`` says them. ``order``: indexes into them. The MACs are those of the DUT's link, where the
        source sets none. ``reverse``: addresses and ports change sides.
    recorded(size): what evidence keeps of it; ``size``: of the frame that it shows, unless it has its own.
"""


# The script.


@lru_cache(maxsize=64)
def _steps(conversation: ConversationFrames) -> tuple[ScriptStep, ...]:
    if conversation.protocol == "tcp":
        return tuple(_tcp_steps(conversation))
    names = ("request", "response") if conversation.protocol == "udp" else ("echo", "reply")
    return (
        ScriptStep(names[0], False, (), conversation.request),
        ScriptStep(names[1], True, (0,), conversation.response),
    )


def _tcp_steps(conversation: ConversationFrames) -> Iterator[ScriptStep]:
    """Yield the frames of a connection. What ends it is one frame, so that its arrival is that of all before."""
    request, response = conversation.request, conversation.response
    opened = (1, 1)  # of client and server, the SYN
    yield ScriptStep("syn", False, (), 0, "S")
    yield ScriptStep("syn-ack", True, (0,), 0, "SA", 0, 1)
    yield ScriptStep("ack", False, (1,), 0, "A", *opened)
    last: tuple[int, ...] = (2,)
    if request:
        yield ScriptStep("request", False, (1,), request, "PA", *opened)
        sizes = [min(conversation.mss, response - at) for at in range(0, response, conversation.mss)]
        last = tuple(range(4, 4 + len(sizes)))
        for number, size in enumerate(sizes):
            name, kind = f"response-{number + 1}" if number else "response", "A" if number + 1 < len(sizes) else "PA"
            yield ScriptStep(name, True, (2, 3), size, kind, 1 + number * conversation.mss, 1 + request)
    client, server = 1 + request, 1 + response
    answered: tuple[int, ...] = () if conversation.hold_s else last if request else (1,)
    after = None if not conversation.hold_s else last[-1] if request else 1
    if conversation.close == "none":
        if request:
            yield ScriptStep("response-ack", False, last, 0, "A", client, server)
        return
    if conversation.close == "rst":
        yield ScriptStep("rst", False, answered, 0, "RA", client, server, after)
        return
    fin = last[-1] + 1
    yield ScriptStep("fin", False, answered, 0, "FA", client, server, after)
    yield ScriptStep("fin-ack", True, (fin,) if request else (2, fin), 0, "FA", server, client + 1)
    yield ScriptStep("last-ack", False, (fin + 1,), 0, "A", client + 1, server + 1)


# Its frames.


_Place = tuple[str, int, int]
"""A field's name, offset and size: an address, a port, or an echo's identifier."""


def _places(conversation: ConversationFrames) -> tuple[tuple[_Place, ...], tuple[_Place, ...]]:
    """Those of a frame's sender, and of whom it is sent to, in the same order."""
    size = 4 if conversation.ip_version == 4 else 16
    address, (*_, ip, l4) = conversation.l4_at - 2 * size, conversation.layers
    source, destination = (f"{ip}.src", address, size), (f"{ip}.dst", address + size, size)
    if conversation.protocol == "icmp":
        return (source,), (destination,)
    return (source, (f"{l4}.sport", conversation.l4_at, 2)), (destination, (f"{l4}.dport", conversation.l4_at + 2, 2))


@lru_cache(maxsize=512)
def _program(conversation: ConversationFrames, number: int, source_mac: str, destination_mac: str) -> FrameProgram:
    step = conversation.steps[number]
    fields = tuple(_fields(conversation, step))
    checksums = tuple(_checksums(conversation, fields))
    return FrameProgram(
        templates=(_template(conversation, step, source_mac, destination_mac),),
        signatures=(conversation.header_bytes,),
        fields=fields,
        checksums=checksums,
        combinations=math.lcm(*(field.every * field.count for field in fields)),
        compared_from=conversation.ip_at,
        changeable=tuple(_changeable(conversation, step, checksums[-1])),
    )


def number_bits(conversation: ConversationFrames) -> int:
    """Bits of a TCP sequence number that one connection uses; those above are its number."""
    return max(_LEAST_NUMBER_BITS, (max(conversation.request, conversation.response) + 3).bit_length())


def _template(conversation: ConversationFrames, step: ScriptStep, source_mac: str, destination_mac: str) -> bytes:
    """The frame of the first connection without FCS, with zeros for the signature."""
    ends = [ipaddress.ip_address(ip).packed for ip in (conversation.client_ip, conversation.server_ip)]
    addresses = b"".join(reversed(ends) if step.from_server else ends)
    l4 = _l4(conversation, step)
    at = conversation.l4_at + len(l4)
    l4 += bytes(offset % 256 for offset in range(at, conversation.frame_size(step) - FCS_BYTES))
    if conversation.ip_version == 4:
        number = {"tcp": 6, "udp": 17, "icmp": 1}[conversation.protocol]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(l4), 0, 0, 64, number, 0) + addresses
        ip = _with_checksum(ip, 10)
        pseudo = b"" if conversation.protocol == "icmp" else addresses + struct.pack("!HH", number, len(l4))
    else:
        number = {"tcp": 6, "udp": 17, "icmp": 58}[conversation.protocol]
        ip = struct.pack("!IHBB", 6 << 28, len(l4), number, 64) + addresses
        pseudo = addresses + struct.pack("!II", len(l4), number)
    tag = b"" if conversation.vlan is None else struct.pack("!HH", 0x8100, conversation.vlan)
    kind = struct.pack("!H", 0x0800 if conversation.ip_version == 4 else 0x86DD)
    macs = bytes.fromhex((destination_mac + source_mac).replace(":", ""))
    return macs + tag + kind + ip + _with_checksum(l4, _CHECKSUM_AT[conversation.protocol], pseudo)


def _l4(conversation: ConversationFrames, step: ScriptStep) -> bytes:
    """The L4 header with zeros for checksum and signature."""
    ports = [conversation.ports[0], conversation.to_port]
    if step.from_server:
        ports.reverse()
    signature = bytes(TEST_PAYLOAD_BYTES)
    if conversation.protocol == "tcp":
        flags = sum(_FLAGS[flag] for flag in step.kind)
        fixed = (step.sequence, step.acknowledged or 0, _TCP_BYTES << 10 | flags, _WINDOW, 0, 0)
        option = bytes((_SIGNATURE_OPTION, 2 + len(signature)))
        return struct.pack("!HHIIHHHH", *ports, *fixed) + option + signature
    if conversation.protocol == "udp":
        return struct.pack("!HHHH", *ports, _OTHER_BYTES + step.payload, 0) + signature
    request, reply = (8, 0) if conversation.ip_version == 4 else (128, 129)
    return struct.pack("!BBHHH", reply if step.from_server else request, 0, 0, conversation.ports[0], 1) + signature


def _with_checksum(header: bytes, offset: int, pseudo: bytes = b"") -> bytes:
    """The header with its internet checksum (RFC 1071), which is over a pseudo-header, too."""
    covered = pseudo + header + bytes(len(header) % 2)
    total = int.from_bytes(covered, "big") % 0xFFFF or 0xFFFF
    return header[:offset] + struct.pack("!H", 0xFFFF - total) + header[offset + 2 :]


def _fields(conversation: ConversationFrames, step: ScriptStep) -> Iterator[VaryingField]:
    """Yield addresses and ports, and TCP's numbers. An answer takes the former from the frame that it answers.

    Where they may be translated they are fields even of one value: a receiver judges a checksum by the fields that it
    lists.
    """
    source, destination = _places(conversation)
    client, server = (destination, source) if step.from_server else (source, destination)
    ports, signature = len(conversation.ports), conversation.header_bytes
    client_ip, server_ip = (int(ipaddress.ip_address(ip)) for ip in (conversation.client_ip, conversation.server_ip))
    values = [(client[0], server[0], client_ip, conversation.clients, ports), (server[0], client[0], server_ip, 1, 1)]
    if conversation.protocol == "icmp":
        identifier = (f"{conversation.layers[-1]}.id", conversation.l4_at + 4, 2)
        values.append((identifier, identifier, conversation.ports[0], ports, 1))
    else:
        values.append((client[1], server[1], conversation.ports[0], ports, 1))
        values.append((server[1], client[1], conversation.to_port, 1, 1))
    for (name, offset, size), (_, opposite, _), first, count, every in values:
        for low in range(0, size, 8):  # of an IPv6 address its upper half and its lower one
            bits, upper = 8 * min(8, size), size > 8 and not low
            number = VaryingField(
                name,
                offset + low,
                min(8, size),
                shift=0,
                bits=bits,
                first=first >> 64 if upper else first & ((1 << bits) - 1),
                step=1,
                count=1 if upper else count,
                every=1 if upper else every,
                arrived=opposite + low - signature if step.answers else None,
            )
            if step.answers or conversation.nat or number.count > 1:
                yield number
    if conversation.protocol == "tcp":
        bits = number_bits(conversation)
        yield VaryingField("TCP.seq", conversation.l4_at + 4, 4, 0, 32, step.sequence, 1 << bits, 1 << (32 - bits), 1)
        if step.acknowledged is not None:
            acknowledged = (0, 32, step.acknowledged, 1 << bits, 1 << (32 - bits), 1)
            yield VaryingField("TCP.ack", conversation.l4_at + 8, 4, *acknowledged)


def _checksums(conversation: ConversationFrames, fields: Sequence[VaryingField]) -> Iterator[Checksum]:
    """Yield IPv4's, and that of TCP, UDP or ICMP: only ICMP over IPv4 has none of the addresses in it."""
    protocol, ip, l4 = conversation.protocol, conversation.ip_at, conversation.l4_at
    addresses = tuple(number for number, field in enumerate(fields) if field.offset < l4)
    if conversation.ip_version == 4:
        yield Checksum("IP.chksum", "internet", ip + 10, ip, 0, addresses)
    without = addresses if protocol == "icmp" and conversation.ip_version == 4 else ()
    covered = tuple(number for number in range(len(fields)) if number not in without)
    offset, name = l4 + _CHECKSUM_AT[protocol], f"{conversation.layers[-1]}.chksum"
    yield Checksum(name, "internet", offset, l4, 0, covered, signature=True, never_zero=protocol == "udp")


def _changeable(conversation: ConversationFrames, step: ScriptStep, checksum: Checksum) -> Iterator[tuple[int, int]]:
    """Yield what routers change, and of frames to the server what a NAT does: to clients they come back as expected."""
    ip = conversation.ip_at
    yield from ((ip + 1, 1), (ip + 8, 1), (ip + 10, 2)) if conversation.ip_version == 4 else ((ip, 4), (ip + 7, 1))
    if conversation.nat is None or step.from_server:
        return
    source, destination = _places(conversation)
    if conversation.nat in {"source", "both"}:
        yield from ((offset, size) for _, offset, size in source)
        if conversation.protocol == "icmp":
            yield (conversation.l4_at + 4, 2)
    if conversation.nat in {"destination", "both"}:
        yield from ((offset, size) for _, offset, size in destination)
    yield (checksum.offset, 2)
