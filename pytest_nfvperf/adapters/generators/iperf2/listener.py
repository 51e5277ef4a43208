"""A listening TCP socket in a namespace, and a thread of this process that takes its connections over and drops them.

iperf's own server makes a thread for each connection: beyond some thousand a second its queue overflows, SYNs are
dropped, and connects wait a second for the next one. The kernel answers a SYN as long as the queue has room, so what
is timed here is the datapath and two kernels.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pytest_nfvperf.adapters.net.inside import inside_named
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.ports.streams import StreamEnd

_BACKLOG = 4096
"""What the kernel allows by default (net.core.somaxconn)."""
_LOOK_S = 0.1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s (socket(7)). A client that closes first would keep its port for a minute (TIME_WAIT)."""


class Listener:
    """Counts connections. ``first_ns``, ``last_ns``: when it took the first and the last over; None before."""

    def __init__(self, listening: socket.socket, cpus: tuple[int, ...]) -> None:
        self._socket = listening
        self._cpus = cpus
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.port: int = listening.getsockname()[1]
        self.accepted = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    @property
    def elapsed_ns(self) -> int:
        """From the first connection to the last; 0 without any."""
        return 0 if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def start(self) -> None:
        """From now on it takes connections over."""
        self._thread.start()

    def stop(self) -> None:
        """What nobody took over is reset."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        if self._cpus:
            os.sched_setaffinity(0, self._cpus)  # of this thread alone
        held: socket.socket | None = None
        while not self._stop.is_set():
            with suppress(TimeoutError):
                connection, _ = self._socket.accept()
                self.last_ns = time.monotonic_ns()
                self.first_ns = self.first_ns or self.last_ns
                self.accepted += 1
                # Only now: once the next one is there, the client is done with this one, and a reset is no failure.
                if held is not None:
                    held.close()
                held = connection
        if held is not None:
            held.close()


@contextmanager
def listening(end: StreamEnd, cpus: tuple[int, ...] = ()) -> Iterator[Listener]:
    """Listen at an end, on a port that the kernel picks; on these CPUs, or any.

    Raises:
        GeneratorError: the end's namespace has no such address.
    """
    with inside_named(end.namespace, partial(_listening_socket, end)) as made:
        listener = Listener(made, cpus)
        listener.start()
        try:
            yield listener
        finally:
            listener.stop()


def _listening_socket(end: StreamEnd) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in end.address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind((end.address, 0))
    except OSError as error:
        made.close()
        why = f"{error.strerror}, seen from namespace {end.namespace}"
        raise GeneratorError(f"cannot listen at {end.address}: {why}") from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)  # connections inherit it
    made.listen(_BACKLOG)
    made.settimeout(_LOOK_S)
    return made
