"""Counters of kernel interfaces, and how often a link was lost."""

from __future__ import annotations

import errno
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyroute2.netlink.rtnl.tcmsg import tcmsg

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink, Request, attributes
from pytest_nfvperf.adapters.net.threads import enter
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.ports.datapath import Collector, LinkOutage

SOURCE = "links"
LOSSES = "link_losses"
"""``<port>.link_losses``: how often the port lost its link since it was made (IFLA_CARRIER_DOWN_COUNT)."""

_LOOK_DEADLINE_S = 1.0
_NETLINK_SOCK_DIAG = 4
_RTM_GETQDISC = 38
_STATISTICS = 23  # IFLA_STATS64
_NAMES = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
)  # fmt: skip
_COUNTERS = struct.Struct(f"={len(_NAMES)}Q")  # the first of struct rtnl_link_stats64
_QDISC = struct.Struct("=B3xiIII")  # struct tcmsg: family, interface, handle, parent, info
_TC_H_ROOT = 0xFFFFFFFF
_QDISC_STATS2, _STATS_QUEUE = 7, 3  # TCA_STATS2, TCA_STATS_QUEUE
_QUEUE = struct.Struct("=5I")  # struct gnet_stats_queue: length, backlog, drops, requeues, overlimits
_SOCK_DIAG_BY_FAMILY = 20
_PACKET_REQUEST = struct.Struct("=BBHIIII")  # struct packet_diag_req: family, protocol, pad, inode, show, cookie
_SHOW_INFO, _SHOW_MEMORY = 0x1, 0x10  # PACKET_SHOW_INFO, PACKET_SHOW_MEMINFO
_PACKET_ANSWER_BYTES = 16  # struct packet_diag_msg
_PACKET_INFO, _PACKET_MEMORY = 0, 6  # PACKET_DIAG_INFO, PACKET_DIAG_MEMINFO
_PACKET_INDEX = struct.Struct("=I")
_MEMORY = struct.Struct("=9I")  # SK_MEMINFO_*, the last being the drops

Counters = dict[str, dict[str, int]]


def read_interfaces() -> Counters:
    """Counters of all interfaces of the calling thread's namespace, by name and counter; takes about a millisecond.

    Frames, drops of queues (``qdisc_drops``, tc -s qdisc) and of packet sockets (``socket_drops``, ss -0 -m). These two
    exist only for an interface with such a queue or socket, and are 32 bits wide.
    """
    with Netlink() as netlink:
        names, counters = link_counters(netlink)
        drops = [(index, "qdisc_drops", dropped) for index, dropped in _qdiscs(netlink)]
    drops += [(index, "socket_drops", dropped) for index, dropped in _packet_sockets()]
    for index, counter, dropped in drops:
        own = counters.get(names.get(index, ""))
        if own is not None:
            own[counter] = own.get(counter, 0) + dropped
    return counters


def read_softnet(path: Path = Path("/proc/net/softnet_stat")) -> dict[str, int]:
    """Sums of all CPUs: ``dropped`` (backlog full, net.core.netdev_max_backlog), ``time_squeeze`` (budget used up)."""
    try:
        lines = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return {}
    return {name: sum(int(line[at], 16) for line in lines) for at, name in ((1, "dropped"), (2, "time_squeeze"))}


def link_counters(netlink: Netlink) -> tuple[dict[int, str], Counters]:
    """Names of all interfaces of the socket's namespace by index, and their rtnl_link_stats64 by name and counter."""
    names: dict[int, str] = {}
    counters: Counters = {}
    for index, name, _, fields in rtnetlink.list_links(netlink, statistics=True):
        names[index] = name
        if _STATISTICS in fields:
            counters[name] = dict(zip(_NAMES, _COUNTERS.unpack_from(fields[_STATISTICS]), strict=True))
    return names, counters


def _qdiscs(netlink: Netlink) -> Iterator[tuple[int, int]]:
    """Drops of each interface's root queue, which includes those of the queues below it."""
    message: Any = tcmsg()
    message["header"]["type"] = _RTM_GETQDISC
    for answer in netlink.ask(Request("list queueing disciplines", message), dump=True):
        _, index, _, parent, _ = _QDISC.unpack_from(answer)
        statistics = dict(attributes(answer[_QDISC.size :])).get(_QDISC_STATS2)
        queue = dict(attributes(statistics)).get(_STATS_QUEUE) if statistics is not None else None
        if parent == _TC_H_ROOT and queue is not None:
            yield index, _QUEUE.unpack_from(queue)[2]


def _packet_sockets() -> Iterator[tuple[int, int]]:
    """Drops of each packet socket that is bound to an interface; none on a kernel without CONFIG_PACKET_DIAG."""
    body = _PACKET_REQUEST.pack(17, 0, 0, 0, _SHOW_INFO | _SHOW_MEMORY, 0xFFFFFFFF, 0xFFFFFFFF)  # AF_PACKET
    request = Request("list packet sockets", (_SOCK_DIAG_BY_FAMILY, body))
    try:
        with Netlink(_NETLINK_SOCK_DIAG) as netlink:
            answers = netlink.ask(request, dump=True)
    except (KernelRefusedError, OSError) as error:
        if getattr(error, "errno", getattr(error, "code", 0)) in {errno.ENOENT, -errno.ENOENT, errno.EPROTONOSUPPORT}:
            return
        raise
    for answer in answers:
        fields = dict(attributes(answer[_PACKET_ANSWER_BYTES:]))
        if _PACKET_INFO in fields and _PACKET_MEMORY in fields:
            index = _PACKET_INDEX.unpack_from(fields[_PACKET_INFO])[0]
            yield index, _MEMORY.unpack_from(fields[_PACKET_MEMORY])[8]


@dataclass(frozen=True, slots=True)
class LinkReading:
    """A link now. ``losses``: how often it was lost, where the kernel counts that; None where nobody does."""

    up: bool
    losses: int | None = None


LinkName = tuple[str, str]
"""A port of the topology, and what it is on: a bond has several."""


class LinkWatch:
    """Watches the links of a lab's ports in a thread, from ``start`` to ``close``.

    Who looks at a link before and after a trial only does not see one that came back meanwhile. A shorter loss than
    the interval is seen where the kernel counts it.
    """

    INTERVAL_S = 0.2
    THREAD_NAME = "link-watch"

    def __init__(self, read: Callable[[], Mapping[LinkName, LinkReading]], namespace: Path | None = None) -> None:
        """``read`` returns the links now. It is called in a thread inside ``namespace``; None: where we are."""
        self._read = read
        self._namespace = namespace
        self._outages: list[LinkOutage] = []
        self._last: dict[LinkName, LinkReading] = {}
        self._last_ns = 0
        self._asked, self._answered, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name=self.THREAD_NAME, daemon=True)

    def start(self) -> None:
        """Begin, with links that are up. Can be called twice."""
        if self._thread.ident is None:
            self._thread.start()

    def outages(self) -> list[LinkOutage]:
        """All since the start, after one more look. A look that fails is another's to report: OVS has died."""
        if self._thread.is_alive():
            self._answered.clear()
            self._asked.set()
            self._answered.wait(_LOOK_DEADLINE_S)
        return list(self._outages)

    def close(self) -> None:
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        with suppress(OSError, TestbedError):
            if self._namespace is not None:
                enter(self._namespace)
            while not self._stop.is_set():
                self._asked.clear()
                with suppress(TestbedError):  # OVS is frozen, or has died
                    self._look()
                self._answered.set()
                self._asked.wait(self.INTERVAL_S)
        self._answered.set()

    def _look(self) -> None:
        readings, now_ns = self._read(), time.monotonic_ns()
        for name, reading in readings.items():
            last = self._last.get(name)
            if last is None:
                continue
            if last.up and not reading.up:
                self._outages.append(LinkOutage(*name, now_ns))
            elif reading.up and not last.up:
                self._outages = [self._ended(outage, name, now_ns) for outage in self._outages]
            elif reading.up and (reading.losses or 0) > (last.losses or 0):
                self._outages.append(LinkOutage(*name, self._last_ns, now_ns))
        self._last, self._last_ns = dict(readings), now_ns

    @staticmethod
    def _ended(outage: LinkOutage, name: LinkName, now_ns: int) -> LinkOutage:
        ends = (outage.port, outage.device) == name and outage.restored_ns is None
        return replace(outage, restored_ns=now_ns) if ends else outage


class LinkCollector(Collector):
    """Losses of link of every veth port, and of a lab's: a lost link makes a trial invalid. Source "links"."""

    source = SOURCE

    def __init__(
        self, losses: Callable[[], Sequence[Mapping[str, int]]], watches: Callable[[], Sequence[LinkWatch]] = tuple
    ) -> None:
        """``losses``: returns those of each deployed topology, by port. ``watches``: of a lab's ports."""
        self._losses = losses
        self._watches = watches

    def snapshot(self) -> CounterSnapshot:
        losses = Counter[str]()
        for counted in self._losses():
            losses.update(counted)
        losses.update(outage.port for outage in self._all_outages())
        counters = {f"{port}.{LOSSES}": count for port, count in losses.items()}
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(counters.items())))

    def outages(self, since_ns: int) -> tuple[LinkOutage, ...]:
        return tuple(each for each in self._all_outages() if each.restored_ns is None or each.restored_ns >= since_ns)

    def _all_outages(self) -> list[LinkOutage]:
        return [outage for watch in self._watches() for outage in watch.outages()]
