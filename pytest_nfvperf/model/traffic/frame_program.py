"""What a generator is told to send: frames, fields that vary, checksums, and where the signature is.

A generator needs no knowledge of headers to send a frame program, and every engine sends the same bytes from it: the
embedded engine (native/template.h), TRex (a field engine's instructions), packet sockets (:func:`frame_at`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

Order = Literal["up", "random"]

FCS_BYTES = 4
TEST_PAYLOAD_BYTES = 14
"""What follows the headers of every frame, the signature: its stream, its number, when it was sent."""

MOST_FIELDS = 8
"""Fields that may vary in one program."""
MOST_CHECKSUMS = 8
MOST_CHANGEABLE = 32
"""Ranges of bytes that the way may change."""
MOST_RANDOM = 1 << 24
"""Values in random order, of all fields together: the engine has a table of them."""

_ROUNDS = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
"""Of the Feistel network: the first digits of pi, after the point."""


def permuted(index: int, count: int, seed: int) -> int:
    """The position of ``index`` in a fixed random order of ``0..count-1`` in which nothing repeats.

    A Feistel network over the next even number of bits, applied again while its result is not below ``count``. The
    engine has the same (native/template.c): both must give the same numbers.
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for key in _ROUNDS:
            mixed = (right + key + seed * 0x9E3779B1) & 0xFFFFFFFF
            mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
            mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
            left, right = right, left ^ (mixed ^ mixed >> 16) & mask
        index = left << half | right
        if index < count:
            return index


@dataclass(frozen=True, slots=True)
class VaryingField:
    """A field that differs from frame to frame.

    Frame n of a stream is combination ``f = n % program.combinations``; the field then has its value number
    ``i = f // every % count``, which is ``first + step * (permuted(i, count, seed) if order == "random" else i)``,
    modulo 2 to the number of bits.

    Attributes:
        name: as scapy names it, ``IP.dst``.
        offset, size: its window in the frame: the first byte, and 1, 2, 4 or 8 bytes, read as one big-endian number.
        shift, bits: where in the window it is: ``window >> shift & ((1 << bits) - 1)`` is its value.
        first, step, count: values, at least 1 of them.
        every: combinations after which it takes the next value.
        order, seed: of the values.
        arrived: of an answer, where the value is in the frame that it answers, from that one's signature on: it is
            taken from there. None: it is the value above, which a receiver expects in any case.
    """

    name: str
    offset: int
    size: int
    shift: int
    bits: int
    first: int
    step: int
    count: int
    every: int
    order: Order = "up"
    seed: int = 0
    arrived: int | None = None

    def value(self, combination: int) -> int:
        index = combination // self.every % self.count
        if self.order == "random":
            index = permuted(index, self.count, self.seed)
        return (self.first + self.step * index) & ((1 << self.bits) - 1)


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum that is kept right while fields vary.

    The template's is right for the template's bytes, the signature's 14 bytes as zeros. The others follow from what
    differs: the internet checksum (RFC 1071) from the sum of what it is over, CRC32c (RFC 9260 appendix A) from all
    bytes from ``start`` to ``end``.

    Attributes:
        name: as scapy names it, ``TCP.chksum``.
        kind: ``internet`` (2 bytes) or ``crc32c`` (4 bytes, as SCTP stores it).
        offset: of its first byte.
        start, end: bytes that it is over, without a pseudo-header; ``end`` counts back from the end of the frame.
        fields: indexes of the varying fields that change it, those of a pseudo-header among them.
        checksums: indexes of the checksums inside, which stand before it in the program and change it.
        signature: the signature changes it.
        never_zero: 0 is stored as 0xffff (UDP).
    """

    name: str
    kind: Literal["internet", "crc32c"]
    offset: int
    start: int
    end: int
    fields: tuple[int, ...] = ()
    checksums: tuple[int, ...] = ()
    signature: bool = False
    never_zero: bool = False


@dataclass(frozen=True, slots=True)
class FrameProgram:
    """One direction's frames.

    Attributes:
        templates: frames without FCS, with the first value of each field and zeros for the signature.
        signatures: by template, the offset of the signature.
        order: indexes of templates, in the order in which they are sent, over and over.
        fields: those that vary, the same in all templates.
        checksums: inner ones before those that they are in; the same in all templates.
        combinations: frames until the fields begin again.
        compared_from: first byte that a receiver compares: in front of it switches rewrite addresses, and tunnels
            and tags come and go.
        changeable: ``(offset, bytes)`` behind ``compared_from`` that the way may change: TTL, DSCP, addresses behind a
            NAT. A checksum that such a field changes is changeable, too, if it is listed here.
        balances: of captures, whose templates have nothing in common: by template, the offset of the one internet
            checksum that the signature changes (0: none), and whether it is never zero. Each template is compared from
            its signature on. ``fields`` and ``checksums`` are empty then.
    """

    templates: tuple[bytes, ...]
    signatures: tuple[int, ...]
    order: tuple[int, ...] = (0,)
    fields: tuple[VaryingField, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    combinations: int = 1
    compared_from: int = 14
    changeable: tuple[tuple[int, int], ...] = ()
    balances: tuple[tuple[int, bool], ...] = ()


def frame_at(program: FrameProgram, number: int, signature: bytes) -> bytes:
    """Frame ``number`` (from 0) of a stream, with this signature, byte for byte as each engine sends it."""
    return frame_of(program, program.order[number % len(program.order)], number % program.combinations, signature)


def frames_of_program(program: FrameProgram, signature: bytes = bytes(14)) -> Iterator[bytes]:
    """All of a program's frames until it repeats."""
    for number in range(math.lcm(len(program.order), program.combinations)):
        yield frame_at(program, number, signature)


def frame_of(program: FrameProgram, template: int, combination: int, signature: bytes) -> bytes:
    """The frame of one template and one combination of the fields' values, without FCS."""
    begin = program.templates[template]
    frame = bytearray(begin)
    for field in program.fields:
        mask = ((1 << field.bits) - 1) << field.shift
        window = int.from_bytes(frame[field.offset : field.offset + field.size], "big")
        window = window & ~mask | field.value(combination) << field.shift
        frame[field.offset : field.offset + field.size] = window.to_bytes(field.size, "big")
    at = program.signatures[template]
    frame[at : at + len(signature)] = signature
    for checksum in program.checksums:
        if checksum.kind == "crc32c":
            _store_crc32c(frame, checksum)
        else:
            _update_internet(frame, begin, checksum, program, at, len(signature))
    if program.balances and (where := program.balances[template])[0]:
        _balance(frame, *where, signature)
    return bytes(frame)


def _balance(frame: bytearray, offset: int, never_zero: bool, signature: bytes) -> None:
    """RFC 1624, of a signature at an even offset in place of zeros."""
    total = 0xFFFF - int.from_bytes(frame[offset : offset + 2], "big") + int.from_bytes(signature, "big")
    stored = 0xFFFF - (total % 0xFFFF or 0xFFFF)
    frame[offset : offset + 2] = (stored or (0xFFFF if never_zero else 0)).to_bytes(2, "big")


def _update_internet(
    frame: bytearray, begin: bytes, checksum: Checksum, program: FrameProgram, signature: int, signature_bytes: int
) -> None:
    """RFC 1624: the new checksum from the old one and from what differs. Zero and 0xffff are one number in its sum."""
    changed = {offset for index in checksum.fields for offset in _bytes_of(program.fields[index])}
    for index in checksum.checksums:
        inner = program.checksums[index]
        changed.update(range(inner.offset, inner.offset + (4 if inner.kind == "crc32c" else 2)))
    if checksum.signature:
        changed.update(range(signature, signature + signature_bytes))
    total = 0xFFFF - int.from_bytes(begin[checksum.offset : checksum.offset + 2], "big")
    for offset in changed:
        total += (frame[offset] - begin[offset]) << (0 if (offset - checksum.start) % 2 else 8)
    stored = 0xFFFF - (total % 0xFFFF or 0xFFFF)
    if stored == 0 and checksum.never_zero:
        stored = 0xFFFF
    frame[checksum.offset : checksum.offset + 2] = stored.to_bytes(2, "big")


def _bytes_of(field: VaryingField) -> range:
    """Offsets of the bytes that have bits of the field; the others of its window can be of another one."""
    end = field.offset + field.size
    return range(end - (field.shift + field.bits + 7) // 8, end - field.shift // 8)


def _store_crc32c(frame: bytearray, checksum: Checksum) -> None:
    """CRC32c (RFC 9260 appendix A) over the bytes with zeros in its place; stored with its lowest byte first."""
    frame[checksum.offset : checksum.offset + 4] = bytes(4)
    register = 0xFFFFFFFF
    table = _crc32c_table()
    for byte in frame[checksum.start : len(frame) - checksum.end]:
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    frame[checksum.offset : checksum.offset + 4] = (register ^ 0xFFFFFFFF).to_bytes(4, "little")


@cache
def _crc32c_table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        return value

    return tuple(map(entry, range(256)))
