"""The connect engine port: new TCP connections between two namespaces, one after the other."""

from __future__ import annotations

from typing import Protocol

from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.ports.stream_engine import StreamEnd


class ConnectEngine(Protocol):
    """Connects from one end to the other, and times each connect."""

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:
        """Connect and return the times. Blocks until all are done; leaves nothing behind.

        Raises GeneratorError with the engine's own words when no connection is to be had, or when the server's end
        and not the datapath was what limited them.
        """
        ...
