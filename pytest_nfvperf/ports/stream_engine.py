"""The stream engine port: TCP and UDP between two namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.model.measure.stream_measurement import StreamResult, StreamSpec
from pytest_nfvperf.model.testbed.equipment import GeneratorInfo


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


class StreamEngine(Protocol):
    """Runs streams from one end to the other; knows nothing of topologies or SLAs."""

    def info(self) -> GeneratorInfo:
        """Engine, version, threading."""
        ...

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        """Run the streams and return what was counted. Blocks for ``spec.run_s`` and a little.

        The result is invalid, with reasons, when an end's process died, an interface went away or the time
        was not kept. Raises GeneratorError (a TestbedError) with the engine's own words when the streams cannot
        be had at all: the engine is not installed, a namespace or an address does not exist, the other end
        cannot be reached, no port is free; and TestbedError when a namespace was deleted meanwhile.
        """
        ...

    def close(self) -> None:
        """End what still runs. Can be called twice."""
        ...
