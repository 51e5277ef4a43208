"""Packet sockets of a namespace, ours and others': who holds them, and what their rings dropped."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

# Packet sockets (packet(7)) of other processes, through duplicates of ours.
#
# By pidfd_getfd(2), for those whom we may trace (ptrace(2), access mode).

_PIDFD_GETFD = 438  # asm-generic/unistd.h; the same on every architecture


def packet_sockets(pid: int) -> Iterator[socket.socket]:
    """The packet sockets of a process, each as a duplicate that the caller closes; OSError if we may not look."""
    handle = os.pidfd_open(pid)
    try:
        for number in _numbers(pid):
            found = _duplicate(handle, number)
            if found is not None:
                yield found
    finally:
        os.close(handle)


def _numbers(pid: int) -> Iterator[int]:
    """Of the files of a process that are sockets."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if entry.readlink().name.startswith("socket:"):
                yield int(entry.name)


def _duplicate(handle: int, number: int) -> socket.socket | None:
    """A socket of the process behind a pidfd, for ourselves; None when it is another sort, or was closed meanwhile."""
    ours = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, handle, number, 0)
    if ours >= 0:
        # Python would ask a socket for its name to know its family, which AF_XDP's do not tell.
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0, ours)
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_PACKET:
            return found
        found.close()
        return None
    code = ctypes.get_errno()
    if code in {errno.EBADF, errno.ESRCH}:
        return None
    raise OSError(code, os.strerror(code))


# Packet sockets of another process, held while it closes them, and closed together afterwards.
#
# Whoever closes a packet socket (packet(7)) for good waits until no CPU can still be delivering to it, 10 to 20
# ms (synchronize_net in the kernel's packet_release). A process that closes a thousand, one after the other,
# takes 15 s. As long as a duplicate is open elsewhere (pidfd_getfd(2)) its close costs nothing, and many
# threads that close the duplicates all wait for the same moment: 40 took 0.6 s one after the other, 200
# together 0.1 s.

_CLOSERS = 64
_FILES_LEFT = 256
"""Open files that this process keeps for whatever else it does; sockets beyond that are left to their owner."""


class HeldSockets:
    """Duplicates of the packet sockets that a process has on some interfaces. ``close()`` closes them."""

    def __init__(self, pid: int, interfaces: Collection[str]) -> None:
        """Duplicate the process's packet sockets on these interfaces, named as in its own namespace.

        Where the kernel does not let us (ptrace(2), access mode) none is held, which only costs time.
        """
        self._held: list[socket.socket] = []
        if interfaces:
            with suppress(OSError):  # gone, or not ours to look into
                self._take(pid, interfaces)

    def __len__(self) -> int:
        return len(self._held)

    def _take(self, pid: int, interfaces: Collection[str]) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = soft - _FILES_LEFT - len(list(Path("/proc/self/fd").iterdir()))
        for found in packet_sockets(pid):
            if len(self._held) < most and found.getsockname()[0] in interfaces:
                self._held.append(found)
            else:
                found.close()

    def close(self) -> None:
        """Close all at once."""
        if not self._held:
            return
        with ThreadPoolExecutor(_CLOSERS, thread_name_prefix="close") as closers:
            list(closers.map(socket.socket.close, self._held))
        self._held.clear()


# Frames that the receive ring of a packet socket had no room for (packet(7), PACKET_STATISTICS).
#
# DPDK's af_packet driver receives by such a ring and does not tell its drops, nor does ``ss -0 -m`` (sk_drops),
# which counts for sockets without a ring only. The kernel counts from zero after each look, so the sums are
# kept here: nobody else may look.

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
