"""The request engine port: one message there and back at a time between two namespaces."""

from __future__ import annotations

from typing import Protocol

from pytest_nfvperf.model.measure.request_response import RequestResult, RequestSpec
from pytest_nfvperf.ports.stream_engine import StreamEnd


class RequestEngine(Protocol):
    """Sends requests from one end to the other, and times the responses."""

    def run(self, spec: RequestSpec, client: StreamEnd, server: StreamEnd) -> RequestResult:
        """Send them and return the times. Blocks for ``spec.duration_s`` and a little; leaves nothing behind.

        Raises GeneratorError with the engine's own words when there are no responses to be had.
        """
        ...
