"""The simulated side of a DUT, in virtual time: plans and replayed recordings have no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.adapters.generators.fake.virtual_streams import FakeStreams
from pytest_nfvperf.backends.simulated_times import SimulatedConnects, SimulatedRequests
from pytest_nfvperf.model.measure.connect_rate import ConnectSpec
from pytest_nfvperf.model.measure.request_response import RequestSpec
from pytest_nfvperf.model.measure.stream_measurement import StreamSpec
from pytest_nfvperf.model.testbed.equipment import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Attachment, Collector
from pytest_nfvperf.ports.generator import Captured
from pytest_nfvperf.runs.clocks import VirtualClock

EndSpec = StreamSpec | RequestSpec | ConnectSpec
"""What runs between two namespaces."""

ASSUMED_BPS = 2e9
"""Payload bits/s that it carries for streams."""

_BUILD_S = 0.5
_START_S = 2.0


@dataclass
class SimulatedTopology:
    """A topology that is built nowhere. ``devices``: by port, where a generator wants to know them."""

    topology: Topology
    devices: Mapping[str, str] = field(default_factory=dict)

    def attachments(self) -> tuple[Attachment, ...]:
        """Every port, with no device behind it."""
        return tuple(Attachment(port.name, self.devices.get(port.name, "simulated")) for port in self.topology.ports)

    def netns(self, namespace: str) -> str:
        """A name that nothing has."""
        if namespace not in {spec.name for spec in self.topology.namespaces}:
            raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")
        return f"simulated-{namespace}"

    def firewall(self) -> dict[str, list[str]]:
        """Nothing filters."""
        return {}

    def not_offloaded(self) -> str | None:
        """Hardware can be simulated, too."""
        return None

    def wait_ready(self, deadline_s: float) -> None:
        """It is."""

    def configuration(self) -> str:
        """None worth keeping."""
        return "simulated"

    def close(self) -> None:
        """Nothing to remove."""


class SimulatedCapture:
    """A receiver to which nothing comes. Fulfils ports.generator.Capture."""

    def start(self) -> None:
        """Nothing to listen on."""

    def stop(self) -> Captured:
        """Nothing came."""
        return Captured(0, None, ())

    def close(self) -> None:
        """Nothing to close."""


class SimulatedDatapath:
    """A DUT that takes the time of a real one to start and to build on."""

    def __init__(self, clock: VirtualClock, kind: str = "dpdk", devices: Mapping[str, str] | None = None) -> None:
        self._devices = devices or {}
        self._clock = clock
        self._kind = kind
        clock.sleep(_START_S)

    def info(self) -> DatapathInfo:
        """Says that it is simulated."""
        return DatapathInfo(self._kind, "simulated", None, "simulated")

    def build(self, topology: Topology) -> SimulatedTopology:
        """Takes as long as a real one."""
        self._clock.sleep(_BUILD_S)
        return SimulatedTopology(topology, self._devices)

    def collectors(self) -> tuple[Collector, ...]:
        """None."""
        return ()

    def check_alive(self) -> None:
        """Always alive."""

    def logs(self) -> Mapping[str, str]:
        """None."""
        return {}

    def close(self) -> None:
        """Nothing to stop."""


class SimulatedDut:
    """Datapath and streams in one virtual time.

    Attributes:
        requests: an engine for requests through it. ``connects``: one for TCP connects.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._streams: list[FakeStreams] = []
        self.requests = SimulatedRequests(clock)
        self.connects = SimulatedConnects(clock)

    @property
    def end_specs(self) -> tuple[Sequence[EndSpec], ...]:
        """Every run of streams, of requests and of connects that was asked for so far: each sort in its order."""
        streams = [spec for streams in self._streams for spec in streams.specs]
        return streams, self.requests.specs, self.connects.specs

    def datapath(self, kind: str, devices: Mapping[str, str] | None = None) -> SimulatedDatapath:
        """Start it. ``devices``: by port, where a generator wants to know them."""
        return SimulatedDatapath(self._clock, kind, devices)

    def streams(self) -> FakeStreams:
        """An engine for TCP and UDP streams through it."""
        streams = FakeStreams(ASSUMED_BPS, clock=self._clock)
        self._streams.append(streams)
        return streams
