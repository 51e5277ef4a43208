"""What a routing daemon put into the kernel's table of its namespace, as it changes (rtnetlink(7)).

Only what this needs of a message is parsed: pyroute2 takes a tenth of a millisecond for each, and there are 100,000.
Of routes that go with their interface, when it is set down, the kernel says nothing: then its table is to be looked at.
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
_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, change: ifinfomsg
_NEW, _DELETED, _GET, _DONE, _NEW_LINK = 24, 25, 26, 3, 16
_IS_UP = 0x1  # IFF_UP
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_GROUPS = 0x1 | 0x40 | 0x400  # RTMGRP_LINK, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_MAIN_TABLE, _BY_KERNEL = 254, 2
_UNICAST, _BLACKHOLE = 1, 6
_DESTINATION, _GATEWAY = 1, 5
_FIB_RECEIVE_BUFFER = 64 << 20
_SO_RCVBUFFORCE = 33
_ASK_ALL = _HEADER.pack(_HEADER.size + _ROUTE.size, _GET, _DUMP, 1, 0) + _ROUTE.pack(*[0] * 9)
_ANSWER_WITHIN_S = 10.0
_AT_ONCE = 5000
"""Changes that are read together, if so many are there."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the main table that a daemon made. ``gateway``: None for one to nowhere (blackhole)."""

    prefix: str
    gateway: str | None


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A route that was made, or is gone."""

    route: Route
    gone: bool


class MissedChangesError(Exception):
    """The kernel had more to tell than there was room for: ask for all again."""


class Fib:
    """Routes of one namespace. A read gives what changed; the first ones give what is there."""

    def __init__(self, namespace: Path) -> None:
        """``namespace``: its file. OSError when it cannot be entered."""
        self._socket, self._asking = inside(namespace, lambda: (_open(_GROUPS), _open(0)))
        self.link_went = False

    def ask_all(self) -> None:
        """Have the kernel tell all routes, as if they were new."""
        self._socket.sendall(_ASK_ALL)

    def prefixes(self) -> set[str]:
        """Of all routes that are there now; OSError when the kernel does not answer."""
        self._asking.sendall(_ASK_ALL)
        self._asking.settimeout(_ANSWER_WITHIN_S)
        found: set[str] = set()
        while True:
            data = self._asking.recv(1 << 20)
            found.update(change.route.prefix for change in _changes(data))
            if any(kind == _DONE for kind, _ in _messages(data)):
                return found

    def read(self, deadline_s: float | None) -> list[RouteChange]:
        """What is there to read by now; empty when nothing came in time, which None makes as long as it takes.

        Raises:
            MissedChangesError: some was lost.

        ``link_went`` is True afterwards when an interface was set down meanwhile.
        """
        changes: list[RouteChange] = []
        self.link_went = False
        self._socket.settimeout(deadline_s)
        while len(changes) < _AT_ONCE:
            data = self._receive(socket.MSG_DONTWAIT if changes else 0)
            if data is None:
                break
            changes += _changes(data)
            self.link_went = self.link_went or _link_went(data)
            if self.link_went:
                break
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
        """Close the sockets."""
        self._socket.close()
        self._asking.close()


def _open(groups: int) -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _FIB_RECEIVE_BUFFER)
    opened.bind((0, groups))
    return opened


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _changes(data: bytes) -> Iterator[RouteChange]:
    for kind, payload in _messages(data):
        if kind in {_NEW, _DELETED}:
            route = _route(payload)
            if route is not None:
                yield RouteChange(route, kind == _DELETED)


def _link_went(data: bytes) -> bool:
    return any(kind == _NEW_LINK and not _LINK.unpack_from(payload)[3] & _IS_UP for kind, payload in _messages(data))


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
