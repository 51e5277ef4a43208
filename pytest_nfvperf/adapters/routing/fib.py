"""What a routing daemon put into the kernel's table of its namespace, as it changes (rtnetlink(7)).

Only what this needs of a message is parsed: pyroute2 takes a tenth of a millisecond for each, and there are 100,000.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.net.threads import inside

_HEADER = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=8BI")  # family, prefix lengths, tos, table, protocol, scope, type, flags: rtmsg
_ATTRIBUTE = struct.Struct("=HH")
_NEW, _DELETED, _GET, _DONE = 24, 25, 26, 3
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_GROUPS = 0x40 | 0x400  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_MAIN_TABLE, _BY_KERNEL = 254, 2
_UNICAST, _BLACKHOLE = 1, 6
_DESTINATION, _GATEWAY = 1, 5
_RECEIVE_BUFFER = 64 << 20
_SO_RCVBUFFORCE = 33
_AT_ONCE = 5000
"""Changes that are read together, if so many are there."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the main table that a daemon made. ``gateway``: None for one to nowhere (blackhole)."""

    prefix: str
    gateway: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """A route that was made, or is gone."""

    route: Route
    gone: bool


class MissedChangesError(Exception):
    """The kernel had more to tell than there was room for: ask for all again."""


class Fib:
    """Routes of one namespace. A read gives what changed; the first ones give what is there."""

    def __init__(self, namespace: Path) -> None:
        """``namespace``: its file. OSError when it cannot be entered."""
        self._socket = inside(namespace, _open)

    def ask_all(self) -> None:
        """Have the kernel tell all routes, as if they were new."""
        self._socket.sendall(_HEADER.pack(_HEADER.size + _ROUTE.size, _GET, _DUMP, 1, 0) + _ROUTE.pack(*[0] * 9))

    def read(self, deadline_s: float | None) -> list[Change]:
        """What is there to read by now; empty when nothing came in time, which None makes as long as it takes.

        Raises:
            MissedChangesError: some was lost.
        """
        changes: list[Change] = []
        self._socket.settimeout(deadline_s)
        while len(changes) < _AT_ONCE:
            data = self._receive(socket.MSG_DONTWAIT if changes else 0)
            if data is None:
                break
            changes += _changes(data)
        return changes

    def _receive(self, flags: int) -> bytes | None:
        """What one system call gives, which is a single route where many change; None when there is nothing."""
        try:
            return self._socket.recv(1 << 20, flags)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise MissedChangesError from error
            raise

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _open() -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    opened.bind((0, _GROUPS))
    return opened


def _changes(data: bytes) -> Iterator[Change]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind in {_NEW, _DELETED}:
            route = _route(data[at + _HEADER.size : at + length])
            if route is not None:
                yield Change(route, kind == _DELETED)
        at += (length + 3) & ~3


def _route(message: bytes) -> Route | None:
    family, length, _, _, table, protocol, _, kind, _ = _ROUTE.unpack_from(message)
    if table != _MAIN_TABLE or protocol == _BY_KERNEL or kind not in {_UNICAST, _BLACKHOLE}:
        return None
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    attributes = dict(_attributes(message[_ROUTE.size :]))
    destination = attributes.get(_DESTINATION, bytes(4 if family == socket.AF_INET else 16))
    gateway = attributes.get(_GATEWAY)
    return Route(
        f"{socket.inet_ntop(family, destination)}/{length}",
        socket.inet_ntop(family, gateway) if gateway is not None and kind == _UNICAST else None,
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
