"""Reads pcap and pcapng files: the frames of Ethernet captures, and a sentence for each file that cannot be used.

The formats are those of draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Timestamps are not read.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ConfigError

MOST_FRAMES = 65_536
"""In one capture; an engine keeps a template for each."""
MOST_BYTES = 9216
"""Of a frame with FCS."""
MOST_CAPTURE_BYTES = 50_000_000
"""Of all frames together, without FCS: 65,536 of 762 bytes. Each trial hands them to the engine, which takes 3 s."""
_FCS = 4
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


class CapturedFrame(NamedTuple):
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

    def read(self, count: int, what: str) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise self.truncated(what)
        return data

    def read_or_end(self, count: int, what: str) -> bytes:
        """As ``read``, but "" at the end of the file."""
        data = self._file.read(count)
        if data and len(data) < count:
            raise self.truncated(what)
        return data

    def truncated(self, what: str) -> ConfigError:
        return self.error(
            f"is truncated: it ends inside {what}, after {how_many(self.frames, 'whole frame')}; copy it again, or "
            "repair it (pcapfix)"
        )


_PCAP_MAGICS = {b"\xa1\xb2\xc3\xd4": ">", b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\x3c\x4d": ">", b"\x4d\x3c\xb2\xa1": "<"}
"""Microseconds, then nanoseconds; the byte order of what follows."""
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_LONGEST_RECORD = 1 << 24


def _frames_of_pcap(reader: _CaptureReader, order: str) -> Iterator[CapturedFrame]:
    header = reader.read(20, "its header")
    (network,) = struct.unpack_from(f"{order}I", header, 16)
    fcs = (network >> 28) * 2 if network & 0x04000000 else 0
    while head := reader.read_or_end(16, "the head of a frame"):
        _, _, captured, length = struct.unpack(f"{order}IIII", head)
        yield _whole_frame(reader, network & 0xFFFF, reader.read(_sane(reader, captured), "a frame"), length, fcs)


def _whole_frame(reader: _CaptureReader, link: int, data: bytes, length: int, fcs: int) -> CapturedFrame:
    reader.frames += 1
    return CapturedFrame(link, data[: len(data) - fcs] if len(data) == length else data, length - fcs)


def _sane(reader: _CaptureReader, length: int) -> int:
    if length > _LONGEST_RECORD:
        raise reader.error(f"is damaged: frame {reader.frames + 1} would have {length} bytes; record it again")
    return length


def _frames_of_pcapng(reader: _CaptureReader) -> Iterator[CapturedFrame]:
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
            yield _PACKET_BLOCKS[kind](reader, body, order, interfaces)
        kind_bytes = reader.read_or_end(4, "the head of a block")


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


def _enhanced_packet(
    reader: _CaptureReader, body: bytes, order: str, interfaces: Sequence[tuple[int, int, int]]
) -> CapturedFrame:
    if len(body) < 20:
        raise reader.truncated("a frame")
    number, _, _, captured, length = struct.unpack_from(f"{order}IIIII", body)
    return _block_frame(reader, interfaces, number, body[20:], captured, length)


def _simple_packet(
    reader: _CaptureReader, body: bytes, order: str, interfaces: Sequence[tuple[int, int, int]]
) -> CapturedFrame:
    if len(body) < 4:
        raise reader.truncated("a frame")
    (length,) = struct.unpack_from(f"{order}I", body)
    snaplen = interfaces[0][1] if interfaces else 0
    return _block_frame(reader, interfaces, 0, body[4:], min(length, snaplen or length), length)


_PACKET_BLOCKS = {3: _simple_packet, 6: _enhanced_packet}


def _block_frame(
    reader: _CaptureReader,
    interfaces: Sequence[tuple[int, int, int]],
    number: int,
    data: bytes,
    captured: int,
    length: int,
) -> CapturedFrame:
    if number >= len(interfaces):
        raise reader.error(f"is damaged: frame {reader.frames + 1} is of an interface that it does not describe")
    if captured > len(data):
        raise reader.truncated("a frame")
    link, _, fcs = interfaces[number]
    return _whole_frame(reader, link, data[:captured], length, fcs)


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
    magic = reader.read_or_end(4, "its header")
    if not magic:
        raise reader.error("is empty: it has not even a header")
    if magic != _PCAPNG_MAGIC and magic not in _PCAP_MAGICS:
        raise reader.error(f"is no capture: it begins with {magic.hex(' ')}, and a pcap or pcapng file does not")
    pcapng = magic == _PCAPNG_MAGIC
    frames = list[bytes]()
    links, cut, size = Counter[int](), Counter[tuple[int, int]](), 0
    for frame in _frames_of_pcapng(reader) if pcapng else _frames_of_pcap(reader, _PCAP_MAGICS[magic]):
        links[frame.link] += 1
        if len(frame.data) < frame.length:
            cut[len(frame.data), frame.length] += 1
        if len(frame.data) + _FCS > MOST_BYTES:
            raise reader.error(
                f"frame {reader.frames} has {len(frame.data) + _FCS} bytes with FCS, and {MOST_BYTES} can be sent: "
                "record it where segmentation offload (TSO, GRO) is off"
            )
        size += len(frame.data)
        if reader.frames > MOST_FRAMES or size > MOST_CAPTURE_BYTES:
            most = f"{MOST_FRAMES:,} frames" if size <= MOST_CAPTURE_BYTES else f"{MOST_CAPTURE_BYTES // 10**6} MB"
            raise reader.error(
                f"has more than {most}, which is the most that can be sent: write a part of it, as "
                f"'editcap -r {reader.name} part.pcap 1-{reader.frames - 1}' does"
            )
        frames.append(frame.data)
    _refuse_unusable(reader, links, cut)
    return frames


def _refuse_unusable(reader: _CaptureReader, links: Counter[int], cut: Counter[tuple[int, int]]) -> None:
    if not links:
        raise reader.error("has no frames")
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
