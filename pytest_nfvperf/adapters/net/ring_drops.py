"""Frames that the receive ring of a packet socket had no room for (packet(7), PACKET_STATISTICS).

DPDK's af_packet driver receives by such a ring and does not tell its drops, nor does ``ss -0 -m`` (sk_drops), which
counts for sockets without a ring only. The kernel counts from zero after each look, so the sums are kept here: nobody
else may look.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from pytest_nfvperf.adapters.net.others_sockets import packet_sockets

_SOL_PACKET, _PACKET_STATISTICS, _PACKET_VERSION = 263, 6, 10  # linux/if_packet.h
_STATISTICS = struct.Struct("=II")  # struct tpacket_stats: packets, drops


class RingDrops:
    """Of the processes that this one started and that are in its own network namespace: the generator."""

    def __init__(self) -> None:
        self._sums: Counter[int] = Counter()

    def read(self) -> dict[str, int]:
        """Frames dropped since the sockets were made, by the interface that they are bound to."""
        found: dict[str, int] = {}
        for pid in _children_here():
            with suppress(OSError):  # it ended, or is not ours to look into
                for one in packet_sockets(pid):
                    with closing(one):
                        self._look(one, found)
        return found

    def _look(self, one: socket.socket, found: dict[str, int]) -> None:
        if not one.getsockopt(_SOL_PACKET, _PACKET_VERSION):
            return  # version 0 is a socket without a ring, or one of before Linux 2.6.27
        _, dropped = _STATISTICS.unpack(one.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        inode = os.fstat(one.fileno()).st_ino
        self._sums[inode] += dropped
        interface = one.getsockname()[0]
        found[interface] = found.get(interface, 0) + self._sums[inode]


def _children_here() -> Iterator[int]:
    """Children of all threads of ours; none on a kernel without CONFIG_PROC_CHILDREN."""
    here = Path("/proc/self/ns/net").readlink()
    for thread in Path("/proc/self/task").iterdir():
        for pid in _children_of(thread):
            with suppress(OSError):
                if Path(f"/proc/{pid}/ns/net").readlink() == here:
                    yield pid


def _children_of(thread: Path) -> list[int]:
    try:
        return [int(pid) for pid in (thread / "children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):  # the thread ended since it was listed, or no such file here
        return []
