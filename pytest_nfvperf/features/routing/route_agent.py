"""The route agent: it follows a speaker's routes and writes them into OVS as flows."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import json
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.openflow import NextHop, change_route_flows
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import (
    NETNS_DIRECTORY,
    spawn,
    wait_until,
    wall_offset_ns,
    with_this_package,
)
from pytest_nfvperf.features.routing.daemons import NICE
from pytest_nfvperf.model.errors import TestbedError

SENT, RECEIVED, ROUTED, FLOW = "sent", "received", "routed", "flow"
"""UPDATE left the neighbour; it arrived at FRR; the agent read the route from the kernel; the bridge has the flow."""

# Packet sockets and BGP
_BGP = 179
_ETH_P_ALL, _ETH_P_IP = 0x0003, 0x0800  # linux/if_ether.h
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h
_TIMESPEC = struct.Struct("@qq")
_MARKER = b"\xff" * 16
_MESSAGE = struct.Struct("!16sHB")  # RFC 4271, 4.1: marker, length, type
_UPDATE = 2
_LONGEST_FRAME = 1 << 16
_UPDATES_RECEIVE_BUFFER = 4 << 20

# rtnetlink(7)
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
_MAX_CHANGES = 5000
"""Most changes that one read returns."""

_MODULE = "pytest_nfvperf.features.routing.route_agent"
_PIPE_BYTES = 1 << 20
"""Room for batches of thousands of routes: the agent must not wait for pytest, which has a lower priority."""
_REMEMBERED_BATCHES = 64
"""Number of last batches that ``batches`` returns."""


class UpdateWatch:
    """UPDATE messages that pass an interface, either way, from now until ``close``.

    Their times are the kernel's, of each packet (packet(7), socket(7)). A packet socket keeps the packets until they
    are read, so a late reader does not falsify the times.

    Args:
        namespace: its name under /run/netns.
        interface: its name in there; TestbedError if there is none.
    """

    def __init__(self, namespace: str, interface: str) -> None:
        self._interface = interface
        self._updates: list[tuple[int, list[str], list[str]]] = []
        self._offset_ns, self._read_ns = wall_offset_ns(), time.monotonic_ns()
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

    def times_ns(self, prefix: str, *, gone: bool) -> list[int]:
        """When messages passed that announced a prefix, or withdrew it."""
        stamped = list(self._stamped())
        offsets_ns = (wall_offset_ns(), self._offset_ns)  # read after the kernel stamped the last frame
        since_ns, now_ns = self._read_ns, time.monotonic_ns()
        self._offset_ns, self._read_ns = offsets_ns[0], now_ns
        for frame, wall_ns in stamped:
            at_ns = monotonic_of(wall_ns, offsets_ns, since_ns, now_ns)
            self._updates += [(at_ns, *prefixes) for prefixes in updates_in(frame)]
        return [at_ns for at_ns, withdrawn, announced in self._updates if prefix in (withdrawn if gone else announced)]

    def _stamped(self) -> Iterator[tuple[bytes, int]]:
        """New frames, each with the kernel's receive time by the wall clock."""
        while True:
            try:
                frame, about, _, _ = self._socket.recvmsg(_LONGEST_FRAME, socket.CMSG_SPACE(_TIMESPEC.size))
            except BlockingIOError:
                return
            for _, kind, data in about:
                if kind == _SO_TIMESTAMPNS:
                    seconds, nanoseconds = _TIMESPEC.unpack(data)
                    yield frame, seconds * 1_000_000_000 + nanoseconds

    def close(self) -> None:
        self._socket.close()


def monotonic_of(wall_ns: int, offsets_ns: Sequence[int], since_ns: int, now_ns: int) -> int:
    """Convert a time stamp of the wall clock to the monotonic clock.

    The kernel stamps packets by the wall clock only. If that clock was set since the last read, a stamp is from before
    or after the change: only one of the two candidates lies between the reads. A slewed clock moves too little to
    matter.

    Args:
        wall_ns: the stamp.
        offsets_ns: wall clock minus monotonic clock, now and at the last read.
        since_ns: when the last read was.
        now_ns: when this one is.
    """
    candidates = [wall_ns - offset_ns for offset_ns in offsets_ns]
    return min(candidates, key=lambda at_ns: max(since_ns - at_ns, at_ns - now_ns, 0))


def updates_in(frame: bytes) -> Iterator[tuple[list[str], list[str]]]:
    """Withdrawn and announced prefixes of each UPDATE message (RFC 4271, 4.3) that begins in an Ethernet frame.

    They are of IPv4, as ``198.18.0.0/15``. Ignores a message that is spread over several segments.
    """
    payload = _bgp_payload(frame)
    while len(payload) >= _MESSAGE.size:
        marker, length, kind = _MESSAGE.unpack_from(payload)
        if marker != _MARKER or not _MESSAGE.size <= length <= len(payload):
            return
        if kind == _UPDATE:
            body = payload[_MESSAGE.size : length]
            withdrawn_end = 2 + int.from_bytes(body[:2], "big")
            attributes_end = withdrawn_end + 2 + int.from_bytes(body[withdrawn_end : withdrawn_end + 2], "big")
            yield list(_prefixes(body[2:withdrawn_end])), list(_prefixes(body[attributes_end:]))
        payload = payload[length:]


def _bgp_payload(frame: bytes) -> bytes:
    """The TCP payload of a frame from or to a BGP port; empty for any other frame."""
    if len(frame) < 34 or int.from_bytes(frame[12:14], "big") != _ETH_P_IP or frame[23] != socket.IPPROTO_TCP:
        return b""
    packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]  # without the padding of a short frame
    segment = packet[(packet[0] & 0xF) * 4 :]
    if len(segment) < 20 or _BGP not in struct.unpack_from("!HH", segment):
        return b""
    return segment[(segment[12] >> 4) * 4 :]


def _prefixes(data: bytes) -> Iterator[str]:
    while data:  # a prefix is its length in bits, and as many bytes as that needs (RFC 4271, 4.3)
        length = data[0]
        size = (length + 7) // 8
        address = ipaddress.IPv4Address(data[1 : 1 + size].ljust(4, b"\0"))
        yield f"{address}/{length}"
        data = data[1 + size :]


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A route of the main table that a daemon made, changed or removed. ``gateway``: None for a blackhole route."""

    prefix: str
    gateway: str | None
    gone: bool = False


class MissedChangesError(Exception):
    """The kernel's buffer overflowed: request all routes again."""


class Fib:
    """The routes of one namespace. After ``ask_all`` the first reads return all routes; later ones the changes.

    This parses only the needed part of rtnetlink's messages: pyroute2 takes 0.1 ms for each of 100,000 of them. The
    kernel does not report routes that go away with their interface; read the table again when a link went down.

    Args:
        namespace: its file; OSError if it cannot be entered.

    Attributes:
        link_went_down: an interface was set down during the last ``read``.
    """

    def __init__(self, namespace: Path) -> None:
        self._socket, self._asking = inside(namespace, lambda: (_open(_GROUPS), _open(0)))
        self.link_went_down = False

    def ask_all(self) -> None:
        """Have the kernel report all routes, as if they were new."""
        self._socket.sendall(_ASK_ALL)

    def prefixes(self) -> set[str]:
        """Prefixes of all current routes; OSError if the kernel does not answer."""
        self._asking.sendall(_ASK_ALL)
        self._asking.settimeout(_ANSWER_WITHIN_S)
        found: set[str] = set()
        while True:
            data = self._asking.recv(1 << 20)
            found.update(change.prefix for change in _changes(data))
            if any(kind == _DONE for kind, _ in _parts(_HEADER, data)):
                return found

    def read(self, deadline_s: float | None) -> list[RouteChange]:
        """The pending changes; waits for the first one, without limit if ``deadline_s`` is None. Empty after that.

        Raises MissedChangesError if changes were lost.
        """
        changes: list[RouteChange] = []
        self.link_went_down = False
        self._socket.settimeout(deadline_s)
        while len(changes) < _MAX_CHANGES and not self.link_went_down:
            try:  # when many routes change at once, each call returns a single one
                data = self._socket.recv(1 << 20, socket.MSG_DONTWAIT if changes else 0)
            except (TimeoutError, BlockingIOError):
                break
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    raise MissedChangesError from error
                raise
            changes += _changes(data)
            self.link_went_down = any(
                kind == _NEW_LINK and not _LINK.unpack_from(payload)[3] & _IS_UP
                for kind, payload in _parts(_HEADER, data)
            )
        return changes

    def close(self) -> None:
        self._socket.close()
        self._asking.close()


def _open(groups: int) -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _FIB_RECEIVE_BUFFER)
    opened.bind((0, groups))
    return opened


def _parts(head: struct.Struct, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each message, or of each attribute. The heads of both begin with length and type."""
    at = 0
    while at + head.size <= len(data):
        length, kind, *_ = head.unpack_from(data, at)
        if length < head.size:
            return
        yield kind, data[at + head.size : at + length]
        at += (length + 3) & ~3


def _changes(data: bytes) -> Iterator[RouteChange]:
    for message, payload in _parts(_HEADER, data):
        if message not in {_NEW, _DELETED}:
            continue
        family, length, _, _, table, protocol, _, kind, _ = _ROUTE.unpack_from(payload)
        if table != _MAIN_TABLE or protocol == _BY_KERNEL or kind not in {_UNICAST, _BLACKHOLE}:
            continue
        if family not in {socket.AF_INET, socket.AF_INET6}:
            continue
        attributes = dict(_parts(_ATTRIBUTE, payload[_ROUTE.size :]))
        # The default route has no destination.
        destination = attributes.get(_DESTINATION, bytes(4 if family == socket.AF_INET else 16))
        gateway = attributes.get(_GATEWAY)
        yield RouteChange(
            f"{socket.inet_ntop(family, destination)}/{length}",
            socket.inet_ntop(family, gateway) if gateway is not None and kind == _UNICAST else None,
            gone=message == _DELETED,
        )


# The agent's process: it turns changes of the kernel's table into flows of the bridge.
#
# It needs its own process with the daemons' priority: as a thread of pytest it waited 80 ms for each turn on the
# CPU that it shares with the generator. ``RouteAgent`` starts it as::
#
#     python -m pytest_nfvperf.features.routing.route_agent NAMESPACE SOCKET HOPS
#
# It prints one line for each batch of changes, after the bridge has the flows::
#
#     {"reset": false, "routes": {"198.18.0.0/15": "12.12.12.2"}, "gone": [], "added": ["198.18.0.0/15"], "removed": [],
#      "read_ns": 1, "done_ns": 2}


@dataclass(frozen=True, slots=True)
class KnownHops:
    """Where the agent may send frames.

    Attributes:
        gateways: hops by the next hop's address.
        networks: hops by the network that announced addresses are in.
    """

    gateways: Mapping[str, NextHop]
    networks: Mapping[str, NextHop]

    def hop_of(self, route: RouteChange) -> NextHop | None:
        """Where a route's frames go; None for a route that leads to no known hop."""
        if route.gateway is not None:
            return self.gateways.get(route.gateway)
        wanted = ipaddress.ip_network(route.prefix)
        for network, hop in self.networks.items():
            known = ipaddress.ip_network(network)
            if wanted.version == known.version and wanted.subnet_of(known):  # type: ignore[arg-type] # same version
                return hop
        return None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> KnownHops:
        fields: dict[str, dict[str, dict[str, Any]]] = json.loads(line)
        return cls(**{key: {name: NextHop(**hop) for name, hop in hops.items()} for key, hops in fields.items()})


@dataclass(frozen=True, slots=True)
class RouteBatch:
    """A batch of changes of the table that the bridge now has.

    Attributes:
        reset: changes were missed; earlier batches are void, and all routes follow again.
        routes: new or changed routes, with their gateways.
        gone: prefixes of removed routes.
        added, removed: prefixes whose flows were made, and removed.
        read_ns: when the changes were read from the kernel; CLOCK_MONOTONIC.
        done_ns: when the bridge had the flows; likewise.
    """

    reset: bool = False
    routes: Mapping[str, str | None] = field(default_factory=dict)
    gone: Sequence[str] = ()
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    read_ns: int = 0
    done_ns: int = 0


def follow(
    fib: Fib, change_flows: Callable[[Iterable[tuple[str, NextHop]], Iterable[str]], None], hops: KnownHops
) -> Iterator[RouteBatch]:
    """Keep the flows of a bridge equal to the routes of a table, for ever. Yields batches; the first have all routes.

    Args:
        fib: the table.
        change_flows: adds flows, each to a prefix's next hop, and removes those of other prefixes.
        hops: where frames may go.

    Raises TestbedError if the bridge refuses a flow, or does not answer.
    """
    known, installed = set[str](), set[str]()
    fib.ask_all()
    while True:
        try:
            changes = fib.read(None)
        except MissedChangesError:
            change_flows((), installed)
            known, installed = set(), set()
            yield RouteBatch(reset=True)
            fib.ask_all()
            continue
        if fib.link_went_down:  # the kernel does not report routes that are gone with their interface
            there = fib.prefixes()
            changes += [RouteChange(prefix, None, gone=True) for prefix in known if prefix not in there]
        read_ns = time.monotonic_ns()
        last = {change.prefix: change for change in changes}  # only the last change of each prefix counts
        routes = {prefix: change.gateway for prefix, change in last.items() if not change.gone}
        added = {prefix: hop for prefix in routes if (hop := hops.hop_of(last[prefix])) is not None}
        removed = [prefix for prefix in last if prefix not in added and prefix in installed]
        if added or removed:
            change_flows(added.items(), removed)
        known.difference_update(last)
        known.update(routes)
        installed.difference_update(removed)
        installed.update(added)
        gone = [prefix for prefix in last if prefix not in routes]
        yield RouteBatch(False, routes, gone, list(added), removed, read_ns, time.monotonic_ns())


def main(namespace: str, management_socket: str, hops: str) -> None:
    change_flows = partial(change_route_flows, Path(management_socket))
    for batch in follow(Fib(Path(namespace)), change_flows, KnownHops.from_json(hops)):
        print(json.dumps(asdict(batch)), flush=True)


class StepWatch:
    """Fulfils ports.Steps: the time of each step from the UPDATE message to the flow in the bridge.

    ``sender``, ``receiver``: watch the neighbour's interface, and FRR's. ``batches``: returns the agent's last batches.
    """

    def __init__(self, sender: UpdateWatch, receiver: UpdateWatch, batches: Callable[[], Sequence[RouteBatch]]) -> None:
        self._sender, self._receiver, self._batches = sender, receiver, batches

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        changes = [batch for batch in self._batches() if prefix in (batch.removed if gone else batch.added)]
        times_ns = {
            SENT: self._sender.times_ns(prefix, gone=gone),
            RECEIVED: self._receiver.times_ns(prefix, gone=gone),
            ROUTED: [batch.read_ns for batch in changes],
            FLOW: [batch.done_ns for batch in changes],
        }
        later_ns = {step: [at_ns for at_ns in times if at_ns >= began_ns] for step, times in times_ns.items()}
        return {step: (min(times) - began_ns) / 1e9 for step, times in later_ns.items() if times}

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._sender.close)
            stack.callback(self._receiver.close)


class RouteAgent:
    """Follows the table of FRR's namespace, by a process of its own; stands in for ovn-bgp-agent.

    A route with a gateway becomes a flow to the gateway's port. A blackhole route, by which FRR announces an address
    of the DUT, becomes a flow to the port of that address's network. It begins with all existing routes.

    Args:
        namespace: the file of FRR's.
        bridge: its name, for messages.
        management_socket: of the bridge.
        hops: where frames may go.
    """

    def __init__(
        self, journal: Journal, namespace: Path, bridge: str, management_socket: Path, hops: KnownHops
    ) -> None:
        self._bridge = bridge
        # The thread changes each of these by single operations, which are atomic in CPython.
        self._routes: dict[str, str | None] = {}  # gateways by prefix; None for blackhole routes
        self._installed: set[str] = set()
        self._batches: deque[RouteBatch] = deque(maxlen=_REMEMBERED_BATCHES)
        self._process = spawn(
            journal,
            "route agent",
            [sys.executable, "-m", _MODULE, namespace, management_socket, hops.to_json()],
            log=journal.directory / "route-agent.log",
            env=with_this_package(),
            pipes=True,
            nice=NICE,
        )
        stdout = self._process.popen.stdout
        if stdout is None:
            raise AssertionError("spawned with pipes")
        fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._thread = threading.Thread(target=self._listen, name="route-agent", daemon=True)
        self._thread.start()

    def batches(self) -> tuple[RouteBatch, ...]:
        return tuple(self._batches)

    def check(self) -> None:
        try:
            self._process.check()
        except TestbedError as error:
            said = self._process.log_tail(1) or error.message
            raise TestbedError(
                f"the route agent of bridge {self._bridge} ended: {said}", evidence=error.evidence
            ) from error

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        what = "to be gone" if gone else "to be there"
        self._await(
            lambda: (prefix in self._installed) is not gone,
            f"the flow for {prefix} on {self._bridge} {what}",
            deadline_s,
            lambda: self._describe(prefix),
        )

    def await_count(self, count: int, deadline_s: float) -> None:
        self._await(
            lambda: len(self._installed) == count,
            f"flows for {count} prefixes on {self._bridge}",
            deadline_s,
            lambda: f"{len(self._installed)} flows, {len(self._routes)} routes in FRR's table",
        )

    def _await(self, is_met: Callable[[], bool], awaited: str, deadline_s: float, last_seen: Callable[[], str]) -> None:
        def look() -> bool:
            self.check()
            return is_met()

        wait_until(look, awaited, deadline_s, last_seen=last_seen)

    def _describe(self, prefix: str) -> str:
        """Route and flow of a prefix, for a message."""
        if prefix not in self._routes:
            others = ", ".join(sorted(self._routes)[:5]) or "none"
            return f"no such route in the kernel's table of FRR's namespace; there are {len(self._routes)}: {others}"
        if prefix in self._installed:
            return "the route, and its flow"
        gateway = self._routes[prefix]
        where = f"by {gateway}" if gateway is not None else "to nowhere, in no network of ours"
        return f"the route {where}, which leads to no port of {self._bridge}"

    def _listen(self) -> None:
        for line in self._process.popen.stdout or ():
            batch = RouteBatch(**json.loads(line))
            if batch.reset:
                self._routes, self._installed = {}, set()
            self._routes.update(batch.routes)
            for prefix in batch.gone:
                self._routes.pop(prefix, None)
            self._installed.update(batch.added)
            self._installed.difference_update(batch.removed)
            self._batches.append(batch)

    def close(self) -> None:
        """End it; the flows stay until the bridge goes. Can be called twice."""
        self._process.popen.terminate()
        self._thread.join()  # before its pipe is closed
        self._process.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, TestbedError) as error:
        sys.exit(str(error))
