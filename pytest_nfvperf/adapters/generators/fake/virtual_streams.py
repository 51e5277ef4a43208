"""A stream engine and a DUT in one, simulated: for the tests of suites, runs and reports.

Time is virtual: a run returns at once. The same spec gives the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.measure.stream_measurement import (
    SideCpu,
    StreamCounts,
    StreamResult,
    StreamSpec,
    Way,
    WayCounts,
)
from pytest_nfvperf.model.testbed.equipment import GeneratorInfo
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.ports.streams import StreamEnd


@dataclass
class FakeStreams:
    """A simulated StreamEngine.

    Attributes:
        capacity_bps: payload bits/s that the simulated DUT carries, shared by all streams and directions.
        client_cores, server_cores: CPUs that each end uses.
        clock: ``sleep`` is called with each run's time; None: nothing waits.
        invalid_every: every n-th run is invalid (stretched_time), counted from 1. None: none is.
    """

    capacity_bps: float
    client_cores: float = 1.0
    server_cores: float = 0.8
    invalid_every: int | None = None
    clock: Clock | None = None
    specs: list[StreamSpec] = field(default_factory=list, init=False)
    ends: list[tuple[StreamEnd, StreamEnd]] = field(default_factory=list, init=False)
    closed: bool = field(default=False, init=False)

    def info(self) -> GeneratorInfo:
        """Always the same."""
        return GeneratorInfo(
            engine="fake", version="1", detail=f"simulated DUT of {self.capacity_bps:g} bit/s", cpus=()
        )

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        """Compute what the simulated DUT would do."""
        if self.closed:
            raise GeneratorError("the stream engine is closed")
        self.specs.append(spec)
        self.ends.append((client, server))
        if self.clock is not None:
            self.clock.sleep(spec.run_s)
        spoiled = self.invalid_every is not None and len(self.specs) % self.invalid_every == 0
        reason = InvalidReason(Reason.STRETCHED_TIME, "the simulated machine paused")
        return StreamResult(
            spec=spec,
            ways=tuple(self._way(spec, way) for way in spec.ways),
            client_cpu=_cpu(spec, self.client_cores),
            server_cpu=_cpu(spec, self.server_cores),
            invalid=(reason,) if spoiled else (),
        )

    def close(self) -> None:
        self.closed = True

    def _way(self, spec: StreamSpec, way: Way) -> WayCounts:
        share = self.capacity_bps / len(spec.ways) / spec.streams
        asked = share if spec.bitrate_bps is None else float(spec.bitrate_bps)
        stream = _stream(spec, min(asked, share), asked if spec.protocol == "udp" else share)
        elapsed_ns = round(spec.duration_s * 1e9)
        return WayCounts(way, elapsed_ns, (stream,) * spec.streams, elapsed_ns)


def _stream(spec: StreamSpec, received_bps: float, sent_bps: float) -> StreamCounts:
    received, sent = (int(rate * spec.duration_s / 8) for rate in (received_bps, sent_bps))
    if spec.protocol == "tcp":
        return StreamCounts(received, sent, retransmits=0)
    size = spec.buffer_bytes or 1448
    return StreamCounts(received, sent, datagrams=sent // size, lost_datagrams=(sent - received) // size)


def _cpu(spec: StreamSpec, cores: float) -> SideCpu:
    return SideCpu(0, round(cores * spec.run_s * 1e9), round(spec.run_s * 1e9), cores * 100)
