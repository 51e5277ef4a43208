"""Captures: read pcap and pcapng files, and find headers, payload and checksums in their frames.

Of the formats (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng) timestamps are not read. scapy reads such files, too,
but what it cannot read it leaves out without an error, and we would send another traffic than the user's (scapy 2.8.0,
RawPcapReader and RawPcapNgReader): a file that is cut inside a frame or a block ends there as a whole one does; a
second section of pcapng takes its link types from the first; an interface's FCS length (if_fcslen) is dropped, so
that frames keep 4 bytes too many; simple packets without a snaplen come out empty.

A frame is walked header by header (:func:`walk`), as far as switches and tunnels look. What follows is payload, which
the signature overwrites; checksums over it are made right again.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.frame_program import FCS_BYTES, TEST_PAYLOAD_BYTES

# Files.

MOST_FRAMES = 65_536
"""In one capture; an engine keeps a template for each."""
MOST_BYTES = 9216
"""Of a frame with FCS."""
MOST_CAPTURE_BYTES = 50_000_000
"""Of all frames together, without FCS: 65,536 of 762 bytes. Each trial hands them to the engine, which takes 3 s."""
_ETHERNET = 1
_LINKS = {
    0: "BSD loopback",
    9: "PPP",
    12: "raw IP",
    101: "raw IP",
    105: "IEEE 802.11",
    113: "Linux cooked, as tcpdump -i any writes",
    127: "IEEE 802.11 with radiotap",
    147: "private",
    228: "IPv4",
    229: "IPv6",
    276: "Linux cooked v2, as tcpdump -i any writes",
}
"""Link types of https://www.tcpdump.org/linktypes.html that people meet."""


class _FileFrame(NamedTuple):
    """``link``: its link type. ``length``: what it had on the wire, with or without FCS as ``data`` has it."""

    link: int
    data: bytes
    length: int


class _CaptureReader:
    """Reads exactly as many bytes as are asked for; ConfigError names the file where they end too early."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self.name, self.frames = file, name, 0

    def error(self, message: str) -> ConfigError:
        return ConfigError(message, file=self.name)

    def read(self, count: int, what: str, *, may_end: bool = False) -> bytes:
        """``may_end``: nothing at the end of the file."""
        data = self._file.read(count)
        if len(data) < count and (data or not may_end):
            raise self.truncated(what)
        return data

    def truncated(self, what: str) -> ConfigError:
        return self.error(
            f"is truncated: it ends inside {what}, after {how_many(self.frames, 'whole frame')}; copy it again, or "
            "repair it (pcapfix)"
        )


_PCAP_HEADS = {0xA1B2C3D4: 16, 0xA1B23C4D: 16, 0xA1B2CD34: 24}
"""Microseconds, nanoseconds, and Kuznetzov's form: bytes in front of the frame."""
_PCAP_MAGICS = {struct.pack(f"{order}I", magic): (order, head) for magic, head in _PCAP_HEADS.items() for order in "<>"}
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_PACKET_BLOCKS = {2: 20, 3: 4, 6: 20}
"""Obsolete, simple and enhanced: bytes in front of the frame."""
_FRAMELESS_BLOCKS = {4, 5, 9, 10, 0x80000001, 0x0A0D0D0A}
"""Names, statistics, journal entries, secrets, macOS's processes, and the head of a section, which hold no frames."""
_LONGEST_RECORD = 1 << 24


def _frames_of_pcap(reader: _CaptureReader, order: str, head_bytes: int) -> Iterator[_FileFrame]:
    header = reader.read(20, "its header")
    (network,) = struct.unpack_from(f"{order}I", header, 16)
    fcs = (network >> 28) * 2 if network & 0x04000000 else 0
    while head := reader.read(head_bytes, "the head of a frame", may_end=True):
        _, _, captured, length = struct.unpack_from(f"{order}IIII", head)
        yield _whole_frame(reader, network & 0xFFFF, reader.read(_sane(reader, captured), "a frame"), length, fcs)


def _whole_frame(reader: _CaptureReader, link: int, data: bytes, length: int, fcs: int) -> _FileFrame:
    reader.frames += 1
    return _FileFrame(link, data[: len(data) - fcs] if len(data) == length else data, length - fcs)


def _sane(reader: _CaptureReader, length: int) -> int:
    if length > _LONGEST_RECORD:
        raise reader.error(f"is damaged: frame {reader.frames + 1} would have {length} bytes; record it again")
    return length


def _frames_of_pcapng(reader: _CaptureReader) -> Iterator[_FileFrame]:
    order, interfaces = "<", list[tuple[int, int, int]]()
    kind_bytes = _PCAPNG_MAGIC
    while kind_bytes:
        length_bytes = reader.read(4, "the head of a block")
        if kind_bytes == _PCAPNG_MAGIC:
            magic = reader.read(4, "the head of a section")
            order = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}.get(magic, "")
            if not order:
                raise reader.error("is damaged: a section has no byte order; record it again")
            interfaces.clear()
        kind, length = struct.unpack(f"{order}II", kind_bytes + length_bytes)
        done = 12 if kind_bytes == _PCAPNG_MAGIC else 8
        if length % 4 or length < done + 4:
            raise reader.error(f"is damaged: a block has a length of {length} bytes; record it again")
        body = reader.read(_sane(reader, length - done - 4), "a block")
        reader.read(4, "a block")
        if kind == 1:
            interfaces.append(_interface(reader, body, order))
        elif kind in _PACKET_BLOCKS:
            yield _packet(reader, kind, body, order, interfaces)
        elif kind not in _FRAMELESS_BLOCKS:
            raise reader.error(
                f"has a block of type {kind:#x}, which may hold frames that cannot be read: write the others alone, as "
                f"'editcap -F pcap {reader.name} frames.pcap' does"
            )
        kind_bytes = reader.read(4, "the head of a block", may_end=True)


def _interface(reader: _CaptureReader, body: bytes, order: str) -> tuple[int, int, int]:
    """Link type, snaplen (0: none), and bytes of FCS at the end of its frames (option if_fcslen)."""
    if len(body) < 8:
        raise reader.truncated("the description of an interface")
    link, _, snaplen = struct.unpack_from(f"{order}HHI", body)
    at, fcs = 8, 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        if code == 0:
            break
        if code == 13 and length == 1:
            fcs = body[at + 4] // 8
        at += 4 + (length + 3) // 4 * 4
    return link, snaplen, fcs


def _packet(
    reader: _CaptureReader, kind: int, body: bytes, order: str, interfaces: Sequence[tuple[int, int, int]]
) -> _FileFrame:
    """The frame of an enhanced packet block, an obsolete one, or a simple one, which is of the first interface."""
    head = _PACKET_BLOCKS[kind]
    if len(body) < head:
        raise reader.truncated("a frame")
    if kind != 3:
        number, captured, length = struct.unpack_from(f"{order}{'I8xII' if kind == 6 else 'H10xII'}", body)
    else:
        number, (length,) = 0, struct.unpack_from(f"{order}I", body)
        captured = min(length, (interfaces[0][1] if interfaces else 0) or length)
    if number >= len(interfaces):
        raise reader.error(f"is damaged: frame {reader.frames + 1} is of an interface that it does not describe")
    if captured > len(body) - head:
        raise reader.truncated("a frame")
    link, _, fcs = interfaces[number]
    return _whole_frame(reader, link, body[head : head + captured], length, fcs)


def read_capture(path: Path) -> list[bytes]:
    """The frames of a pcap or pcapng file, without FCS.

    Raises:
        ConfigError: it cannot be read, is none, empty, truncated, not (only) of Ethernet, or has frames that are cut,
            too large or too many.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            return _checked_frames(_CaptureReader(file, name))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=name) from error


def _checked_frames(reader: _CaptureReader) -> list[bytes]:
    magic = reader.read(4, "its header", may_end=True)
    if not magic:
        raise reader.error("is empty, without even a header: record it again")
    if magic != _PCAPNG_MAGIC and magic not in _PCAP_MAGICS:
        raise reader.error(f"is no capture: it begins with {magic.hex(' ')}, and a pcap or pcapng file does not")
    pcapng = magic == _PCAPNG_MAGIC
    frames = list[bytes]()
    links, cut, total = Counter[int](), Counter[tuple[int, int]](), 0
    for frame in _frames_of_pcapng(reader) if pcapng else _frames_of_pcap(reader, *_PCAP_MAGICS[magic]):
        links[frame.link] += 1
        if len(frame.data) < frame.length:
            cut[len(frame.data), frame.length] += 1
        if (size := len(frame.data) + FCS_BYTES) > MOST_BYTES:
            raise reader.error(
                f"frame {reader.frames} has {size} bytes with FCS, and {MOST_BYTES} can be sent: "
                "record it where segmentation offload (TSO, GRO) is off"
            )
        total += len(frame.data)
        if reader.frames > MOST_FRAMES or total > MOST_CAPTURE_BYTES:
            most = f"{MOST_FRAMES:,} frames" if total <= MOST_CAPTURE_BYTES else f"{MOST_CAPTURE_BYTES // 10**6} MB"
            raise reader.error(
                f"has more than {most}, which is the most that can be sent: write a part of it, as "
                f"'editcap -r {reader.name} part.pcap 1-{reader.frames - 1}' does"
            )
        frames.append(frame.data)
    _refuse_unusable(reader, links, cut)
    return frames


def _refuse_unusable(reader: _CaptureReader, links: Counter[int], cut: Counter[tuple[int, int]]) -> None:
    if not links:
        raise reader.error("has no frames: record some")
    if len(links) > 1:
        parts = ", ".join(f"{how_many(count, 'frame')} of {_link_name(link)}" for link, count in links.most_common())
        raise reader.error(f"has mixed link types ({parts}): record one interface, an Ethernet one")
    if _ETHERNET not in links:
        (link,) = links
        raise reader.error(f"is of {_link_name(link)}, and only Ethernet can be sent: record an Ethernet interface")
    if cut:
        (captured, length), _ = cut.most_common(1)[0]
        raise reader.error(
            f"{cut.total()} of {how_many(links.total(), 'frame')} are cut, such as to {captured} of {length} bytes: "
            "record whole frames (tcpdump -s 0)"
        )


def _link_name(link: int) -> str:
    name = "Ethernet" if link == _ETHERNET else _LINKS.get(link, "")
    return f"{name} (link type {link})" if name else f"link type {link}"


# Walking headers: where payload begins, which checksums cover it, and which fields change sides on the way back.


class CoveredChecksum(NamedTuple):
    """An internet checksum: of the 2 bytes at ``offset``, over ``start`` to ``end``, and ``pseudo`` more."""

    offset: int
    start: int
    end: int
    pseudo: int = 0
    never_zero: bool = False


class AddressPair(NamedTuple):
    """Source and destination, by offset and length; ``kind``: mac, ip or port."""

    kind: str
    source: int
    destination: int
    size: int
    outermost: bool = False


@dataclass(slots=True)
class Walked:
    """What a frame is.

    Attributes:
        layers: the headers, as scapy names them.
        payload, end: where payload behind the innermost header begins and ends; Ethernet's padding is behind ``end``.
        checksums: that cover the payload, outer ones first.
        others: header checksums, which do not.
        pairs: addresses and ports.
        unsignable: why its payload must not be overwritten; "" where it may.
    """

    layers: list[str] = field(default_factory=list)
    payload: int = 0
    end: int = 0
    checksums: list[CoveredChecksum] = field(default_factory=list)
    others: list[CoveredChecksum] = field(default_factory=list)
    pairs: list[AddressPair] = field(default_factory=list)
    unsignable: str = ""


class _ShortHeaderError(Exception):
    """A header that the frame has no room for, or that contradicts itself."""


_TAGS = {0x8100: "Dot1Q", 0x88A8: "Dot1AD", 0x9100: "Dot1Q", 0x9200: "Dot1Q"}
_TUNNEL_PORTS = {4789: "VXLAN", 6081: "GENEVE", 2152: "GTP_U_Header"}
_EXTENSIONS = {0: "IPv6ExtHdrHopByHop", 43: "IPv6ExtHdrRouting", 60: "IPv6ExtHdrDestOpt"}


_TOO_LONG = "packet that is longer than its frame"


def walk(frame: bytes) -> Walked:
    """Find the headers of an Ethernet frame without FCS."""
    walked = Walked(end=len(frame))
    try:
        _walk_ethernet(frame, 0, walked)
    except (_ShortHeaderError, struct.error, IndexError) as error:
        why = _TOO_LONG if _TOO_LONG in error.args else "header that is incomplete"
        walked.unsignable = f"{walked.layers[-1] if walked.layers else 'Ethernet'} {why}"
    return walked


def _u16(frame: bytes, offset: int) -> int:
    value: int = struct.unpack_from(">H", frame, offset)[0]
    return value


def _inside(walked: Walked, offset: int) -> int:
    if offset > walked.end:
        raise _ShortHeaderError
    walked.payload = offset
    return offset


def _walk_ethernet(frame: bytes, offset: int, walked: Walked) -> None:
    walked.layers.append("Ether")
    walked.pairs.append(AddressPair("mac", offset + 6, offset, 6, outermost=offset == 0))
    kind, offset = _u16(frame, offset + 12), _inside(walked, offset + 14)
    while kind in _TAGS:
        walked.layers.append(_TAGS[kind])
        kind, offset = _u16(frame, offset + 2), _inside(walked, offset + 4)
    if kind == 0x8864:
        walked.layers += ["PPPoE", "PPP"]
        kind, offset = {0x21: 0x0800, 0x57: 0x86DD}.get(_u16(frame, offset + 6), 0), _inside(walked, offset + 8)
    if kind in {0x8847, 0x8848}:
        _walk_mpls(frame, offset, walked)
    elif kind == 0x0806:
        _walk_arp(frame, offset, walked)
    elif kind < 0x0600:
        walked.end = min(walked.end, offset + kind)
        walked.unsignable = "LLC (an IEEE 802.3 length in place of a type)"
    else:
        _walk_type(frame, kind, offset, walked, f"EtherType {kind:#06x}")


def _walk_type(frame: bytes, kind: int, offset: int, walked: Walked, otherwise: str) -> None:
    if kind == 0x0800:
        _walk_ipv4(frame, offset, walked)
    elif kind == 0x86DD:
        _walk_ipv6(frame, offset, walked)
    elif kind == 0x6558:
        _walk_ethernet(frame, offset, walked)
    else:
        walked.unsignable = otherwise


def _walk_mpls(frame: bytes, offset: int, walked: Walked) -> None:
    last = False
    while not last:
        walked.layers.append("MPLS")
        last, offset = bool(frame[offset + 2] & 1), _inside(walked, offset + 4)
    version = frame[offset] >> 4 if offset < walked.end else 0
    if version in {4, 6}:
        _walk_type(frame, {4: 0x0800, 6: 0x86DD}[version], offset, walked, "")
    elif version == 0 and offset + 18 <= walked.end:  # a control word (RFC 4448), then Ethernet
        _walk_ethernet(frame, _inside(walked, offset + 4), walked)
    else:
        walked.unsignable = "MPLS with an unknown payload"


def _walk_arp(frame: bytes, offset: int, walked: Walked) -> None:
    walked.layers.append("ARP")
    hardware, protocol = frame[offset + 4], frame[offset + 5]
    sender, target = offset + 8, offset + 8 + hardware + protocol
    walked.pairs += [
        AddressPair("mac", sender, target, hardware),
        AddressPair("ip", sender + hardware, target + hardware, protocol, outermost=True),
    ]
    walked.end = _inside(walked, target + hardware + protocol)
    walked.unsignable = "ARP"


def _walk_ipv4(frame: bytes, offset: int, walked: Walked) -> None:
    outermost = not {"IP", "IPv6"} & {*walked.layers}
    walked.layers.append("IP")
    header, total = (frame[offset] & 15) * 4, _u16(frame, offset + 2)
    if frame[offset] >> 4 != 4 or header < 20 or total < header or offset + total > walked.end:
        raise _ShortHeaderError(*[_TOO_LONG] * (offset + total > walked.end))
    walked.end = offset + total
    walked.pairs.append(AddressPair("ip", offset + 12, offset + 16, 4, outermost))
    walked.others.append(CoveredChecksum(offset + 10, offset, offset + header))
    flags = _u16(frame, offset + 6)
    if flags & 0x3FFF:  # more fragments, or not the first
        _inside(walked, offset + header)
        walked.unsignable = "IPv4 fragment"
        return
    pseudo = _sum(frame[offset + 12 : offset + 20]) + frame[offset + 9] + total - header
    _walk_protocol(frame, frame[offset + 9], _inside(walked, offset + header), walked, pseudo, 4)


def _walk_ipv6(frame: bytes, offset: int, walked: Walked) -> None:
    outermost = not {"IP", "IPv6"} & {*walked.layers}
    walked.layers.append("IPv6")
    length, following, start = _u16(frame, offset + 4), frame[offset + 6], offset + 40
    if frame[offset] >> 4 != 6 or start + length > walked.end:
        raise _ShortHeaderError(*[_TOO_LONG] * (start + length > walked.end))
    walked.end = start + length
    walked.pairs.append(AddressPair("ip", offset + 8, offset + 24, 16, outermost))
    following_at = _inside(walked, start)
    while following in _EXTENSIONS:
        walked.layers.append(_EXTENSIONS[following])
        following, following_at = frame[following_at], _inside(walked, following_at + (frame[following_at + 1] + 1) * 8)
    if following == 44:
        walked.unsignable = "IPv6 fragment"
        return
    pseudo = _sum(frame[offset + 8 : offset + 40]) + following + walked.end - following_at
    _walk_protocol(frame, following, following_at, walked, pseudo, 6)


def _walk_protocol(frame: bytes, protocol: int, offset: int, walked: Walked, pseudo: int, version: int) -> None:
    if protocol == 6:
        walked.layers.append("TCP")
        walked.pairs.append(AddressPair("port", offset, offset + 2, 2))
        walked.checksums.append(CoveredChecksum(offset + 16, offset, walked.end, pseudo))
        _inside(walked, offset + max(20, (frame[offset + 12] >> 4) * 4))
    elif protocol == 17:
        _walk_udp(frame, offset, walked, pseudo, version)
    elif protocol in {1, 58}:
        _walk_icmp(frame, offset, walked, pseudo, six=protocol == 58)
    elif protocol == 47:
        _walk_gre(frame, offset, walked)
    elif protocol in {4, 41}:
        _walk_type(frame, {4: 0x0800, 41: 0x86DD}[protocol], offset, walked, "")
    elif protocol == 50:
        walked.layers.append("ESP")
        _inside(walked, offset + 8)
    elif protocol == 132:
        walked.layers.append("SCTP")
        walked.unsignable = "SCTP (its CRC32c cannot be kept right)"
    else:
        walked.unsignable = f"IP protocol {protocol}"


def _walk_udp(frame: bytes, offset: int, walked: Walked, pseudo: int, version: int) -> None:
    walked.layers.append("UDP")
    tunnel = _TUNNEL_PORTS.get(_u16(frame, offset + 2), "")
    # The destination port says which tunnel it is: both stay as they are on the way back.
    if not tunnel:
        walked.pairs.append(AddressPair("port", offset, offset + 2, 2))
    if _u16(frame, offset + 6) or (version == 6 and not tunnel):  # RFC 768, RFC 6935: where it may be left out
        walked.checksums.append(CoveredChecksum(offset + 6, offset, walked.end, pseudo, never_zero=True))
    inside = _inside(walked, offset + 8)
    if tunnel:
        _walk_tunnel(frame, tunnel, inside, walked)


def _walk_tunnel(frame: bytes, tunnel: str, offset: int, walked: Walked) -> None:
    if offset + 8 > walked.end:
        return  # a datagram to that port which carries no tunnel, such as an empty one
    if tunnel == "VXLAN" and frame[offset] & 0x08:
        walked.layers.append(tunnel)
        _walk_ethernet(frame, _inside(walked, offset + 8), walked)
    elif tunnel == "GENEVE" and frame[offset] >> 6 == 0:
        walked.layers.append(tunnel)
        kind, inside = _u16(frame, offset + 2), _inside(walked, offset + 8 + (frame[offset] & 0x3F) * 4)
        _walk_type(frame, kind, inside, walked, f"GENEVE with EtherType {kind:#06x}")
    elif tunnel == "GTP_U_Header" and frame[offset] >> 5 == 1:
        walked.layers.append(tunnel)
        _walk_gtp_u(frame, offset, walked)


def _walk_gtp_u(frame: bytes, offset: int, walked: Walked) -> None:
    """3GPP TS 29.281 section 5."""
    has_options, following = frame[offset] & 7, 0
    inside = _inside(walked, offset + (12 if has_options else 8))
    if has_options & 4:
        following = frame[offset + 11]
    while following:
        length = frame[inside] * 4
        if not length:
            raise _ShortHeaderError
        inside = _inside(walked, inside + length)
        following = frame[inside - 1]
    if frame[offset + 1] != 255:
        walked.unsignable = "GTP-U signalling"
        return
    version = frame[inside] >> 4 if inside < walked.end else 0
    _walk_type(frame, {4: 0x0800, 6: 0x86DD}.get(version, 0), inside, walked, "GTP-U with an unknown payload")


def _walk_icmp(frame: bytes, offset: int, walked: Walked, pseudo: int, *, six: bool) -> None:
    name, echoes = ("ICMPv6", {128, 129}) if six else ("ICMP", {0, 8})
    walked.layers.append(name)
    walked.checksums.append(CoveredChecksum(offset + 2, offset, walked.end, pseudo if six else 0))
    kind = frame[offset]
    _inside(walked, offset + 8)
    if kind not in echoes:
        walked.unsignable = f"{name} type {kind}"


def _walk_gre(frame: bytes, offset: int, walked: Walked) -> None:
    """RFC 2784 and RFC 2890."""
    walked.layers.append("GRE")
    flags, kind = _u16(frame, offset), _u16(frame, offset + 2)
    if flags & 0x4007:
        walked.unsignable = "GRE with routing, or of another version"
        return
    length = 4 + 4 * sum(bool(flags & flag) for flag in (0x8000, 0x2000, 0x1000))
    if flags & 0x8000:
        walked.checksums.append(CoveredChecksum(offset + 4, offset, walked.end))
    _walk_type(frame, kind, _inside(walked, offset + length), walked, f"GRE with EtherType {kind:#06x}")


# Checksums and addresses of one frame.


def _sum(data: bytes) -> int:
    """The ones' complement sum of 16-bit words (RFC 1071), modulo 65535."""
    return int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF


def make_right(frame: bytearray, checksum: CoveredChecksum) -> None:
    at, _, end, pseudo, never_zero = checksum
    frame[at : at + 2] = b"\0\0"
    total = (_sum(bytes(frame[checksum.start : end])) + pseudo) % 0xFFFF
    # A sum of bytes that are not all zero is never 0, but 65535, which is the same modulo 65535.
    value = 0xFFFF - (total or 0xFFFF)
    frame[at : at + 2] = (value or (0xFFFF if never_zero else 0)).to_bytes(2, "big")


class SignatureLayout(NamedTuple):
    """Where a frame has its signature; ``checksum``: the one that the signature changes, or None."""

    signature: int
    checksum: CoveredChecksum | None


def signature_layout(walked: Walked, size: int) -> SignatureLayout | str:
    """Where a frame of ``size`` bytes can be signed; else the class of frames that it belongs to, for a person."""
    innermost = walked.layers[-1] if walked.layers else "Ethernet"
    starts = [] if walked.unsignable else [(walked.payload, walked.end)]
    for start, end in [*starts, (walked.end, size)]:  # payload, else what is behind it: Ethernet's padding
        signature = start + start % 2
        covering = [checksum for checksum in walked.checksums if checksum.end > signature]
        # Padding of an inner frame is inside the outer one, whose end it must not cross.
        if signature + TEST_PAYLOAD_BYTES <= min([end, *(checksum.end for checksum in covering)]):
            return SignatureLayout(signature, covering[-1] if covering else None)
    return walked.unsignable or f"{innermost} with less than {TEST_PAYLOAD_BYTES} bytes of payload"
