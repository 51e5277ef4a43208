"""The reachability port: whether datagrams get from one namespace to another, and when they do not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pytest_nfvperf.model.measure.reconnection import Datagram
from pytest_nfvperf.ports.stream_engine import StreamEnd


class Watch(Protocol):
    """Datagrams on their way, from the context's begin to its end."""

    @property
    def interval_ns(self) -> int:
        """Between the datagrams that are sent."""
        ...

    @property
    def sent(self) -> int:
        """Datagrams so far, also those that the kernel refused to send."""
        ...

    def arrived(self) -> Sequence[Datagram]:
        """Those that arrived so far."""
        ...

    def await_one(self, deadline_s: float) -> bool:
        """Wait for one that is sent from now on; False when none arrives in time."""
        ...


class Reachability(Protocol):
    """Sends datagrams from one end to the other, at a steady pace."""

    def watch(self, client: StreamEnd, server: StreamEnd) -> AbstractContextManager[Watch]:
        """Send while the context lasts. TestbedError where a namespace or an address is not there."""
        ...
