"""Requests and connects that a plan asks for: between simulated ends, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_nfvperf.model.measure.connect_rate import ConnectResult, ConnectSpec
from pytest_nfvperf.model.measure.request_response import RequestResult, RequestSpec
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.ports.streams import StreamEnd

ASSUMED_NS = 100_000
"""From a request to its response, and from the call of connect() to its return: what kernels take on such paths."""

_ENGINE = "simulated"


@dataclass
class SimulatedRequests:
    """Fulfils ports.streams.RequestEngine. ``specs``: what was asked for so far."""

    clock: Clock
    specs: list[RequestSpec] = field(default_factory=list)

    def run(self, spec: RequestSpec, client: StreamEnd, server: StreamEnd) -> RequestResult:  # noqa: ARG002 - a port
        """Every response comes after ASSUMED_NS."""
        self.specs.append(spec)
        self.clock.sleep(spec.duration_s)
        answered = spec.load_per_s * spec.duration_s if spec.load_per_s else round(spec.duration_s * 1e9 / ASSUMED_NS)
        return RequestResult(spec, _all_alike(answered), 0, round(spec.duration_s * 1e9), _ENGINE)


@dataclass
class SimulatedConnects:
    """Fulfils ports.streams.ConnectEngine. ``specs``: what was asked for so far."""

    clock: Clock
    specs: list[ConnectSpec] = field(default_factory=list)

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:  # noqa: ARG002 - a port
        """Every connect takes ASSUMED_NS."""
        self.specs.append(spec)
        took_ns = spec.connects * ASSUMED_NS
        self.clock.sleep(took_ns / 1e9)
        return ConnectResult(spec, _all_alike(spec.connects), ASSUMED_NS, 0, spec.connects, took_ns, _ENGINE)


def _all_alike(count: int) -> Histogram:
    return Histogram(((ASSUMED_NS, count),), ASSUMED_NS, ASSUMED_NS)
