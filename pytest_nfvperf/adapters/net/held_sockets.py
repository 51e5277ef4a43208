"""Packet sockets of another process, held while it closes them, and closed together afterwards.

Whoever closes a packet socket (packet(7)) for good waits until no CPU can still be delivering to it, 10 to 20 ms
(synchronize_net in the kernel's packet_release). A process that closes a thousand, one after the other, takes 15 s. As
long as a duplicate is open elsewhere (pidfd_getfd(2)) its close costs nothing, and many threads that close the
duplicates all wait for the same moment: 40 took 0.6 s one after the other, 200 together 0.1 s.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.net.others_sockets import packet_sockets

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
