"""Netlink requests in batches, each with the kernel's own words when it is refused.

pyroute2 encodes the messages. They are sent from here, because its sockets enter another namespace by a
forked child and ask one request at a time: two hundred namespaces take seconds so.
A socket belongs to the namespace that its *thread* is in when it is opened (see ``threads``).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pytest_nfvperf.model.errors import TestbedError

NETLINK_ROUTE, NETLINK_GENERIC = 0, 16  # linux/netlink.h
REQUEST, ACK, EXCL, CREATE, DUMP = 0x1, 0x4, 0x200, 0x400, 0x300

_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
_ERROR_CODE = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR, _DONE = 2, 3
_ACK_ATTRIBUTES = 0x200  # NLM_F_ACK_TLVS
_MESSAGE_ATTRIBUTE = 1  # NLMSGERR_ATTR_MSG
_AT_ONCE = 64
"""Requests in one send: their answers together must fit into the socket's receive buffer (netlink(7))."""

_ANSWER_WITHIN_S = 30.0
_RECEIVE_BYTES = 1 << 16


class KernelRefusedError(TestbedError):
    """The kernel refused a request. ``code``: its errno. ``index``: which of the requests."""

    def __init__(self, message: str, code: int, index: int) -> None:
        super().__init__(message)
        self.code = code
        self.index = index


@dataclass(frozen=True, slots=True)
class Request:
    """A message: pyroute2's with type and flags set, or raw. ``what``, as a person says it: "make veth a - b"."""

    what: str
    message: Any


@dataclass(slots=True)
class RawMessage:
    """A message that pyroute2 has no class for: its type and what follows the header."""

    kind: int
    data: bytes


class Netlink:
    """A netlink socket of the namespace that the opening thread is in."""

    def __init__(self, family: int = NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.settimeout(_ANSWER_WITHIN_S)
        for option in (_CAP_ACK, _EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> None:
        """Send all and await each answer. A refused request does not stop the others; the first refusal is raised."""
        for start in range(0, len(requests), _AT_ONCE):
            self._send_some(requests[start : start + _AT_ONCE], start)

    def _send_some(self, requests: Sequence[Request], start: int) -> None:
        first = self._sequence + 1
        self._socket.send(b"".join(self._encoded(request.message, ACK) for request in requests))
        refused: KernelRefusedError | None = None
        answered = 0
        while answered < len(requests):
            for kind, flags, sequence, payload in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if kind != _ERROR or sequence < first:
                    continue
                answered += 1
                index = sequence - first
                problem = _refusal(requests[index].what, flags, payload, start + index)
                refused = refused or problem
        if refused is not None:
            raise refused

    def ask(self, request: Request, *, dump: bool = False) -> list[bytes]:
        """Send one request and return the payloads of its answers, without netlink headers."""
        self._socket.send(self._encoded(request.message, DUMP if dump else ACK))
        answers: list[bytes] = []
        while True:
            for kind, flags, sequence, payload in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                if kind == _DONE:
                    return answers
                if kind != _ERROR:
                    answers.append(payload)
                    continue
                refused = _refusal(request.what, flags, payload, 0)
                if refused is not None:
                    raise refused
                return answers

    def _encoded(self, message: Any, flags: int) -> bytes:
        self._sequence += 1
        if isinstance(message, RawMessage):
            length = _HEADER.size + len(message.data)
            return _HEADER.pack(length, message.kind, REQUEST | flags, self._sequence, 0) + message.data
        header = message["header"]
        header["flags"] = header.get("flags", 0) | REQUEST | flags
        header["sequence_number"] = self._sequence
        message.encode()
        data = bytes(message.data)
        return data + b"\0" * (-len(data) % 4)


def _messages(received: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags, sequence number and payload of each message."""
    while received:
        length, kind, flags, sequence, _ = _HEADER.unpack_from(received)
        yield kind, flags, sequence, received[_HEADER.size : length]
        received = received[(length + 3) & ~3 :]


def _refusal(what: str, flags: int, payload: bytes, index: int) -> KernelRefusedError | None:
    (code,) = _ERROR_CODE.unpack_from(payload)
    if code == 0:
        return None
    text = _kernel_text(flags, payload)
    said = f"{os.strerror(-code)}: {text}" if text else os.strerror(-code)
    return KernelRefusedError(f"the kernel refused to {what}: {said}", -code, index)


def _kernel_text(flags: int, payload: bytes) -> str:
    """What the kernel adds to an errno, if it does ("extended ack", netlink(7))."""
    if not flags & _ACK_ATTRIBUTES:
        return ""
    found = dict(attributes(payload[_ERROR_CODE.size + _HEADER.size :]))
    return found.get(_MESSAGE_ATTRIBUTE, b"").rstrip(b"\0").decode(errors="replace")


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Netlink attributes as (type, payload)."""
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
