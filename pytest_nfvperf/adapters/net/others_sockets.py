"""Packet sockets (packet(7)) of other processes, through duplicates of ours.

By pidfd_getfd(2), for those whom we may trace (ptrace(2), access mode).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
