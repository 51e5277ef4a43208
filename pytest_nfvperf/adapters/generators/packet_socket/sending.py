"""Many frames by one system call (sendmmsg(2)), and alone on the CPU while they are sent."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_nfvperf.model.errors import GeneratorError

MOST_AT_ONCE = 1024
"""UIO_MAXIOV: what sendmmsg(2) takes in one call."""

_PRIORITY = 1


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vectors_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (("header", _Header), ("sent_bytes", ctypes.c_uint))


_LIBC = ctypes.CDLL(None, use_errno=True)


class PreparedFrames:
    """Frames in memory that sendmmsg(2) takes as they are.

    Args:
        frames: without FCS, at most MOST_AT_ONCE.

    Raises:
        ValueError: none, or too many.
    """

    def __init__(self, frames: Sequence[bytes]) -> None:
        if not 0 < len(frames) <= MOST_AT_ONCE:
            raise ValueError(f"1 to {MOST_AT_ONCE} frames are sent at once, not {len(frames)}")
        self._memory = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
        self._vectors = [_Vector(ctypes.addressof(each), len(each)) for each in self._memory]
        self._messages = (_Message * len(frames))()
        for message, vector in zip(self._messages, self._vectors, strict=True):
            message.header.vectors = ctypes.pointer(vector)
            message.header.vectors_length = 1

    def send(self, to: socket.socket) -> tuple[int, int]:
        """Send all that the socket takes; returns how many, and how long the call took, in ns.

        Raises:
            GeneratorError: the kernel took none.
        """
        with _alone():
            began = time.monotonic_ns()
            sent: int = _LIBC.sendmmsg(to.fileno(), self._messages, len(self._messages), 0)
            took = time.monotonic_ns() - began
        if sent < 0:
            raise GeneratorError(f"the kernel takes no frame: {os.strerror(ctypes.get_errno())}")
        return sent, took


@contextmanager
def _alone() -> Iterator[None]:
    """Nobody else runs until the frames are sent: whoever reads them finds them all, and always as many."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError as error:
        raise GeneratorError("cannot send without being interrupted (SCHED_FIFO): this needs root") from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
