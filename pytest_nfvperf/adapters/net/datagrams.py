"""Datagrams from one namespace to another at a steady pace, by two threads of this process.

They tell when two namespaces reach each other, to a millisecond or so; they are no load, and no figure of the datapath.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from pytest_nfvperf.adapters.net.threads import inside_named
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.measure.streams import Datagram
from pytest_nfvperf.ports.streams import StreamEnd

INTERVAL_NS = 1_000_000
_TIME = struct.Struct("=q")
_LOOK_S = 0.1


class Datagrams:
    """Fulfils ports.streams.Reachability."""

    @contextmanager
    def watch(self, client: StreamEnd, server: StreamEnd) -> Iterator[_Watch]:
        with _bound_socket(server) as there, _bound_socket(client) as here:
            there.settimeout(_LOOK_S)
            _at(here.connect, client, there.getsockname())
            watch = _Watch(here, there)
            watch.start()
            try:
                yield watch
            finally:
                watch.stop()


class _Watch:
    """The two threads, and what arrived."""

    interval_ns = INTERVAL_NS

    def __init__(self, here: socket.socket, there: socket.socket) -> None:
        self._here, self._there = here, there
        self._stop = threading.Event()
        self._arrived: list[Datagram] = []
        self.sent = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def arrived(self) -> Sequence[Datagram]:
        return tuple(self._arrived)

    def await_one(self, deadline_s: float) -> bool:
        now = time.monotonic_ns()
        try:
            wait_until(lambda: bool(self._arrived) and self._arrived[-1].sent_ns > now, "a datagram", deadline_s)
        except DeadlineError:
            return False
        return True

    def _send(self) -> None:
        while not self._stop.wait(INTERVAL_NS / 1e9):
            with suppress(OSError):  # no way there at the moment: that is what is to be seen
                self._here.send(_TIME.pack(time.monotonic_ns()))
            self.sent += 1

    def _receive(self) -> None:
        while not self._stop.is_set():
            with suppress(TimeoutError):
                text = self._there.recv(_TIME.size)
                (sent_ns,) = _TIME.unpack(text)
                self._arrived.append(Datagram(sent_ns, time.monotonic_ns()))


@contextmanager
def _bound_socket(end: StreamEnd) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in end.address else socket.AF_INET
    with inside_named(end.namespace, partial(socket.socket, family, socket.SOCK_DGRAM)) as made:
        _at(made.bind, end, (end.address, 0))
        yield made


def _at(act: object, end: StreamEnd, address: tuple[object, ...]) -> None:
    try:
        act(address)  # type: ignore[operator]
    except OSError as error:
        raise TestbedError(
            f"no datagrams to {address[0]}: {error.strerror}, seen from {end.address} in namespace {end.namespace}"
        ) from error
