"""Datagrams from one namespace to another at a steady pace, by two threads of this process.

They show when two namespaces reach each other, to about a millisecond. They are no load and measure no figure.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.measure.streams import Datagram
from pytest_nfvperf.ports.streams import StreamEnd

INTERVAL_NS = 1_000_000
_TIME = struct.Struct("=q")
_POLL_S = 0.1


@contextmanager
def watch_datagrams(client: StreamEnd, server: StreamEnd) -> Iterator[_Watch]:
    """A ports.streams.WatchPath."""
    with _bound_socket(server) as receiver, _bound_socket(client) as sender:
        receiver.settimeout(_POLL_S)
        with _explained(client, address := receiver.getsockname()):
            sender.connect(address)
        watch = _Watch(sender, receiver)
        threads = [threading.Thread(target=work, daemon=True) for work in (watch.send, watch.receive)]
        for thread in threads:
            thread.start()
        try:
            yield watch
        finally:
            watch.stop.set()
            for thread in threads:
                thread.join()


class _Watch:
    """The work of the two threads, and the datagrams that arrived."""

    interval_ns = INTERVAL_NS

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender, self._receiver = sender, receiver
        self.stop = threading.Event()
        self._arrived: list[Datagram] = []
        self.sent = 0

    def arrived(self) -> Sequence[Datagram]:
        return tuple(self._arrived)

    def await_one(self, deadline_s: float) -> bool:
        now = time.monotonic_ns()
        try:
            wait_until(lambda: bool(self._arrived) and self._arrived[-1].sent_ns > now, "a datagram", deadline_s)
        except DeadlineError:
            return False
        return True

    def send(self) -> None:
        while not self.stop.wait(INTERVAL_NS / 1e9):
            with suppress(OSError):  # the other namespace is unreachable now, which this watch shows
                self._sender.send(_TIME.pack(time.monotonic_ns()))
            self.sent += 1

    def receive(self) -> None:
        while not self.stop.is_set():
            with suppress(TimeoutError):
                (sent_ns,) = _TIME.unpack(self._receiver.recv(_TIME.size))
                self._arrived.append(Datagram(sent_ns, time.monotonic_ns()))


@contextmanager
def _bound_socket(end: StreamEnd) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in end.address else socket.AF_INET
    with inside_netns(end.namespace, partial(socket.socket, family, socket.SOCK_DGRAM)) as bound:
        with _explained(end, address := (end.address, 0)):
            bound.bind(address)
        yield bound


@contextmanager
def _explained(end: StreamEnd, address: tuple[object, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TestbedError(
            f"no datagrams to {address[0]}: {error.strerror}, seen from {end.address} in namespace {end.namespace}"
        ) from error
