"""Packet sockets (packet(7)) of a namespace, ours and others': captures, who holds them, what their rings dropped."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pytest_nfvperf.adapters.net.threads import checked, inside, libc
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.ports.generator import Captured

_PIDFD_GETFD = 438  # asm-generic/unistd.h; the same on every architecture
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_VERSION = 263, 6, 10  # linux/if_packet.h
_STATISTICS = struct.Struct("=II")  # struct tpacket_stats: packets, drops
_CLOSERS = 64
_ETH_P_ALL = 0x0003  # linux/if_ether.h
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
_BUFFER_BYTES = 32 << 20
_LONGEST_FRAME = 1 << 16
_CAPTURE_POLL_MS = 20
_DRAINED_MS = 50

_FILES_LEFT = 256
"""Open files reserved for the rest of this process; sockets beyond that are left to their owner."""


def packet_sockets(pid: int) -> Iterator[socket.socket]:
    """Duplicates of another process's packet sockets (packet(7)), which the caller closes; OSError if not allowed.

    By pidfd_getfd(2), for processes that we may trace (ptrace(2), access mode).
    """
    handle = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if not entry.readlink().name.startswith("socket:"):
                    continue
                found = _duplicate(handle, int(entry.name))
                if found is not None:
                    yield found
    finally:
        os.close(handle)


def _duplicate(handle: int, number: int) -> socket.socket | None:
    """A duplicate of a packet socket of a pidfd's process; None for another socket, or one closed meanwhile."""
    descriptor = libc().syscall(_PIDFD_GETFD, handle, number, 0)
    if descriptor < 0 and ctypes.get_errno() in {errno.EBADF, errno.ESRCH}:
        return None
    # Without a family Python would ask for the socket's name, which AF_XDP's have not.
    duplicate = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0, checked(descriptor, f"file {number}"))
    if duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_PACKET:
        return duplicate
    duplicate.close()
    return None


@contextmanager
def held_sockets(pid: int, interfaces: Collection[str]) -> Iterator[Sequence[socket.socket]]:
    """Hold duplicates of a process's packet sockets on these interfaces of its own namespace; close them together.

    The last close of a packet socket (packet(7)) waits until no CPU can still be delivering to it, 10 to 20 ms
    (synchronize_net in the kernel's packet_release). A process that closes a thousand, one after the other, takes 15 s.
    While a duplicate is open elsewhere, its close costs nothing, and many threads that close the duplicates all wait
    for the same moment: 40 took 0.6 s one after the other, 200 together 0.1 s.

    If the kernel does not allow it (ptrace(2), access mode) none is held, which only costs time.
    """
    held: list[socket.socket] = []
    try:
        if interfaces:
            with suppress(OSError):  # the process has ended, or we may not trace it
                soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                most = soft - _FILES_LEFT - len(list(Path("/proc/self/fd").iterdir()))
                for found in packet_sockets(pid):
                    if len(held) < most and found.getsockname()[0] in interfaces:
                        held.append(found)
                    else:
                        found.close()
        yield held
    finally:
        if held:
            with ThreadPoolExecutor(_CLOSERS, thread_name_prefix="close") as closers:
                list(closers.map(socket.socket.close, held))


class RingDrops:
    """Frames for which the receive ring of a packet socket had no room (packet(7), PACKET_STATISTICS).

    Of our child processes in our own network namespace: the generator. DPDK's af_packet driver receives by such a ring
    and does not report its drops. Nor does ``ss -0 -m`` (sk_drops), which counts only for sockets without a ring. The
    kernel restarts its count at each reading, so this class keeps the sums, and must be the only reader.
    """

    def __init__(self) -> None:
        self._sums: Counter[int] = Counter()

    def read(self) -> dict[str, int]:
        drops: Counter[str] = Counter()
        for pid in _children_here():
            with suppress(OSError):  # it has ended, or we may not trace it
                for one in packet_sockets(pid):
                    with closing(one):
                        self._add_drops(one, drops)
        return dict(drops)

    def _add_drops(self, one: socket.socket, drops: Counter[str]) -> None:
        if not one.getsockopt(_SOL_PACKET, _PACKET_VERSION):
            return  # version 0 is a socket without a ring, or one from before Linux 2.6.27
        _, dropped = _STATISTICS.unpack(one.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        inode = os.fstat(one.fileno()).st_ino
        self._sums[inode] += dropped
        drops[one.getsockname()[0]] += self._sums[inode]


def _children_here() -> Iterator[int]:
    """Children of all our threads; none on a kernel without CONFIG_PROC_CHILDREN."""
    here = Path("/proc/self/ns/net").readlink()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended, or there is no such file
            for pid in (thread / "children").read_text(encoding="ascii").split():
                with suppress(OSError):
                    if Path(f"/proc/{pid}/ns/net").readlink() == here:
                        yield int(pid)


class HostCapture:
    """Receives frames on an interface and counts them. ``keep``: how many to store whole."""

    def __init__(self, namespace: str, interface: str, *, keep: int = 100_000) -> None:
        self._namespace = Path("/run/netns") / namespace
        self._interface = interface
        self._keep = keep
        self._socket: socket.socket | None = None
        self._stopping = threading.Event()
        self._reader: threading.Thread | None = None
        self._frames = 0
        self._samples: list[bytes] = []
        self._failure: OSError | None = None

    def start(self) -> None:
        self.close()
        self._frames, self._samples, self._failure = 0, [], None
        self._stopping.clear()
        try:
            self._socket = inside(self._namespace, self._listen)
        except OSError as error:
            raise TestbedError(f"cannot receive on {self._interface} in {self._namespace}: {error}") from error
        self._reader = threading.Thread(target=self._read, args=(self._socket,), name="capture", daemon=True)
        self._reader.start()

    def stop(self) -> Captured:
        if self._socket is None:
            raise TestbedError(f"the capture on {self._interface} was not started")
        self._join()
        _, lost = _STATISTICS.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        self.close()
        if self._failure is not None:
            raise TestbedError(
                f"the capture on {self._interface} in {self._namespace} ended: {self._failure}"
            ) from self._failure
        return Captured(self._frames, lost, tuple(self._samples))

    def close(self) -> None:
        self._join()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _join(self) -> None:
        self._stopping.set()
        if self._reader is not None:
            self._reader.join()
            self._reader = None

    def _listen(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        try:
            opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            opened.bind((self._interface, _ETH_P_ALL))
            opened.setblocking(False)
        except OSError:
            opened.close()
            raise
        return opened

    def _read(self, opened: socket.socket) -> None:
        poller = select.poll()
        poller.register(opened, select.POLLIN)
        try:
            while True:
                stopping = self._stopping.is_set()
                if not poller.poll(_DRAINED_MS if stopping else _CAPTURE_POLL_MS):
                    if stopping:
                        return
                    continue
                frame, (_, _, kind, *_) = opened.recvfrom(_LONGEST_FRAME)
                if kind == socket.PACKET_OUTGOING:
                    continue  # sent by the host itself
                self._frames += 1
                if len(self._samples) < self._keep:
                    self._samples.append(frame)
        except OSError as error:
            self._failure = error
