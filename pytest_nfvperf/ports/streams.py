"""What runs between two namespaces: TCP and UDP streams, requests, connects, and datagrams that show reachability."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.model.measure.streams import (
    ConnectResult,
    ConnectSpec,
    RequestResult,
    RequestSpec,
    StreamResult,
    StreamSpec,
)
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """One end of the streams.

    Attributes:
        namespace: name of the network namespace (ip-netns(8)).
        address: IP address on the interface, that the engine binds to.
        interface: its name in the namespace; the engine reads its counters and notices if it goes away.
    """

    namespace: str
    address: str
    interface: str


class StreamEngine(ABC):
    """Runs streams from one end to the other; knows nothing of topologies or SLAs."""

    @abstractmethod
    def info(self) -> GeneratorInfo:
        """Engine, version, threading."""

    @abstractmethod
    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        """Run the streams and return what was counted. Blocks for ``spec.run_s`` and a little.

        The result is invalid, with reasons, when an end's process died, an interface went away or the time
        was not kept. Raises GeneratorError (a TestbedError) with the engine's own words when the streams cannot
        run at all: the engine is not installed, a namespace or an address does not exist, the other end
        cannot be reached, no port is free; and TestbedError when a namespace was deleted meanwhile.
        """

    def close(self) -> None:
        """End what still runs. Can be called twice."""


SendRequests = Callable[[RequestSpec, StreamEnd, StreamEnd], RequestResult]
"""Sends requests from a client's end to a server's, and times the responses. Blocks for ``spec.duration_s`` and a
little; leaves nothing behind. Raises GeneratorError with the engine's own words if no responses arrive."""

MakeConnects = Callable[[ConnectSpec, StreamEnd, StreamEnd], ConnectResult]
"""Connects from a client's end to a server's, and times each connect. Blocks until all are done; leaves nothing behind.
Raises GeneratorError with the engine's own words if no connection can be made, or if the server's end limited them and
not the datapath."""


class Watch(Protocol):
    """Datagrams on their way, from the context's begin to its end.

    Attributes:
        interval_ns: between the datagrams that are sent.
        sent: datagrams so far, also those that the kernel refused to send.
    """

    interval_ns: int
    sent: int

    def arrived(self) -> Sequence[int]:
        """When each that arrived so far did, in ns of the machine's monotonic clock."""

    def await_one(self, deadline_s: float) -> bool:
        """Wait for one that is sent from now on; False when none arrives in time."""


WatchPath = Callable[[StreamEnd, StreamEnd], AbstractContextManager[Watch]]
"""Sends datagrams from one end to the other at a steady pace while the context lasts. TestbedError where a namespace or
an address is not there."""
