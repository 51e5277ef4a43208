"""When BGP UPDATE messages passed an interface: by the kernel's own time of each packet (packet(7), socket(7)).

A packet socket keeps what passed until it is read, so nobody has to run meanwhile and nothing is late.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import TestbedError

_BGP = 179
_ETH_P_ALL, _ETH_P_IP = 0x0003, 0x0800  # linux/if_ether.h
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h
_TIMESPEC = struct.Struct("@qq")
_MARKER = b"\xff" * 16
_MESSAGE = struct.Struct("!16sHB")  # RFC 4271, 4.1: marker, length, type
_UPDATE = 2
_LONGEST_FRAME = 1 << 16
_UPDATES_RECEIVE_BUFFER = 4 << 20


@dataclass(frozen=True, slots=True)
class Update:
    """An UPDATE message (RFC 4271, 4.3). ``at_ns``: CLOCK_MONOTONIC. Prefixes of IPv4, as ``198.18.0.0/15``."""

    at_ns: int
    withdrawn: tuple[str, ...]
    announced: tuple[str, ...]


class UpdateWatch:
    """UPDATE messages that pass an interface, either way, from now until ``close``.

    Args:
        namespace: its name under /run/netns.
        interface: its name in there.

    Raises:
        TestbedError: there is no such interface.
    """

    def __init__(self, namespace: str, interface: str) -> None:
        self._interface = interface
        self._offset_ns, self._read_ns = _wall_offset_ns(), time.monotonic_ns()
        try:
            self._socket = inside(NETNS_DIRECTORY / namespace, self._open)
        except OSError as error:
            raise TestbedError(f"cannot watch {interface} in namespace {namespace}: {error.strerror}") from error

    def _open(self) -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UPDATES_RECEIVE_BUFFER)
            made.bind((self._interface, _ETH_P_ALL))
            made.setblocking(False)
        except OSError:
            made.close()
            raise
        return made

    def read(self) -> list[Update]:
        """What passed since the last call."""
        stamped = self._stamped()
        offsets_ns = (_wall_offset_ns(), self._offset_ns)  # looked at once the last frame has its stamp
        since_ns, now_ns = self._read_ns, time.monotonic_ns()
        self._offset_ns, self._read_ns = offsets_ns[0], now_ns
        return [
            update
            for frame, wall_ns in stamped
            for update in updates_in(frame, monotonic_of(wall_ns, offsets_ns, since_ns, now_ns))
        ]

    def _stamped(self) -> list[tuple[bytes, int]]:
        """Frames, each with the wall clock's time at which the kernel saw it."""
        found: list[tuple[bytes, int]] = []
        while True:
            try:
                frame, about, _, _ = self._socket.recvmsg(_LONGEST_FRAME, socket.CMSG_SPACE(_TIMESPEC.size))
            except BlockingIOError:
                return found
            for _, kind, data in about:
                if kind == _SO_TIMESTAMPNS:
                    seconds, nanoseconds = _TIMESPEC.unpack(data)
                    found.append((frame, seconds * 1_000_000_000 + nanoseconds))

    def close(self) -> None:
        """Watch no longer."""
        self._socket.close()


def _wall_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def monotonic_of(wall_ns: int, offsets_ns: Sequence[int], since_ns: int, now_ns: int) -> int:
    """When a stamp of the wall clock was made, by the monotonic clock.

    The kernel stamps packets by the wall clock only. Where that was set since the last look, a stamp is of before or
    of after: only one of the two lies between the looks. A clock that is merely slewed moves by less than it matters.

    Args:
        wall_ns: the stamp.
        offsets_ns: what the wall clock was ahead by, now and at the last look.
        since_ns: when the last look was.
        now_ns: when this one is.
    """
    candidates = [wall_ns - offset_ns for offset_ns in offsets_ns]
    return min(candidates, key=lambda at_ns: max(since_ns - at_ns, at_ns - now_ns, 0))


def updates_in(frame: bytes, at_ns: int) -> Iterator[Update]:
    """UPDATE messages that begin in an Ethernet frame; one that is spread over several segments is passed over."""
    payload = _bgp_payload(frame)
    while len(payload) >= _MESSAGE.size:
        marker, length, kind = _MESSAGE.unpack_from(payload)
        if marker != _MARKER or not _MESSAGE.size <= length <= len(payload):
            return
        if kind == _UPDATE:
            yield _update(payload[_MESSAGE.size : length], at_ns)
        payload = payload[length:]


def _bgp_payload(frame: bytes) -> bytes:
    """What TCP carries in a frame from or to a BGP port; empty for any other."""
    if len(frame) < 34 or int.from_bytes(frame[12:14], "big") != _ETH_P_IP or frame[23] != socket.IPPROTO_TCP:
        return b""
    packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]  # without the padding of a short frame
    segment = packet[(packet[0] & 0xF) * 4 :]
    if len(segment) < 20 or _BGP not in struct.unpack_from("!HH", segment):
        return b""
    return segment[(segment[12] >> 4) * 4 :]


def _update(body: bytes, at_ns: int) -> Update:
    withdrawn_end = 2 + int.from_bytes(body[:2], "big")
    attributes_end = withdrawn_end + 2 + int.from_bytes(body[withdrawn_end : withdrawn_end + 2], "big")
    return Update(at_ns, tuple(_prefixes(body[2:withdrawn_end])), tuple(_prefixes(body[attributes_end:])))


def _prefixes(data: bytes) -> Iterator[str]:
    """Length in bits, and as many bytes as that takes, again and again."""
    while data:
        length = data[0]
        size = (length + 7) // 8
        address = ipaddress.IPv4Address(data[1 : 1 + size].ljust(4, b"\0"))
        yield f"{address}/{length}"
        data = data[1 + size :]
