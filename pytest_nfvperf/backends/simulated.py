"""A simulated testbed in virtual time: what plans run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_nfvperf.adapters.generators.fake import FakeGenerator, FakeStreams
from pytest_nfvperf.backends.base import Daemons, T
from pytest_nfvperf.backends.generator_side import check_of, lacks_roles
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.measure.streams import ConnectResult, ConnectSpec, RequestResult, RequestSpec, StreamSpec
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut, Testbed, describe_nodes, unknown_node
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.datapath import Attachment, Collector
from pytest_nfvperf.ports.generator import Captured
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.ports.streams import StreamEnd

EndSpec = StreamSpec | RequestSpec | ConnectSpec
"""A run between two namespaces."""
ASSUMED_NS = 100_000
"""From a request to its response, and from the call of connect() to its return: what kernels take on such paths."""
ASSUMED_BPS = 2e9
"""Payload bits/s that the simulated DUT forwards for streams."""
ASSUMED_FPS = 4e6
"""Frames/s per direction that it forwards."""
ASSUMED_CEILING_FPS = 9e6
_ENGINE = "simulated"
_START_S = 2.0
_BUILD_S = 0.5
_CEILING_S = 4.0
_NOISE = 0.003
_BUFFER_FRAMES = 1024
_ROOM = 1000


@dataclass
class SimulatedRequests:
    """Fulfils ports.streams.RequestEngine. ``specs``: those of all runs so far."""

    clock: Clock
    specs: list[RequestSpec] = field(default_factory=list)

    def run(self, spec: RequestSpec, client: StreamEnd, server: StreamEnd) -> RequestResult:  # noqa: ARG002 - a port
        self.specs.append(spec)
        self.clock.sleep(spec.duration_s)
        answered = spec.load_per_s * spec.duration_s if spec.load_per_s else round(spec.duration_s * 1e9 / ASSUMED_NS)
        return RequestResult(spec, _all_alike(answered), 0, round(spec.duration_s * 1e9), _ENGINE)


@dataclass
class SimulatedConnects:
    """Fulfils ports.streams.ConnectEngine. ``specs``: those of all runs so far."""

    clock: Clock
    specs: list[ConnectSpec] = field(default_factory=list)

    def run(self, spec: ConnectSpec, client: StreamEnd, server: StreamEnd) -> ConnectResult:  # noqa: ARG002 - a port
        self.specs.append(spec)
        took_ns = spec.connects * ASSUMED_NS
        self.clock.sleep(took_ns / 1e9)
        return ConnectResult(spec, _all_alike(spec.connects), ASSUMED_NS, 0, spec.connects, took_ns, _ENGINE)


def _all_alike(count: int) -> Histogram:
    return Histogram(((ASSUMED_NS, count),), ASSUMED_NS, ASSUMED_NS)


@dataclass
class SimulatedTopology:
    """A topology that is not built. ``devices``: by port, for a generator that asks for them."""

    topology: Topology
    devices: Mapping[str, str] = field(default_factory=dict)

    def attachments(self) -> tuple[Attachment, ...]:
        return tuple(Attachment(port.name, self.devices.get(port.name, "simulated")) for port in self.topology.ports)

    def netns(self, namespace: str) -> str:
        if namespace not in {spec.name for spec in self.topology.namespaces}:
            raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")
        return f"simulated-{namespace}"

    def firewall(self) -> dict[str, list[str]]:
        return {}

    def not_offloaded(self) -> str | None:
        return None

    def ovs(self, program: str, *arguments: str) -> str:  # noqa: ARG002 - there is none
        return ""

    def wait_ready(self, deadline_s: float) -> None: ...

    def configuration(self) -> str:
        return "simulated"

    def close(self) -> None: ...


class SimulatedCapture:
    """A receiver to which nothing comes. Fulfils ports.generator.Capture."""

    def start(self) -> None: ...

    def stop(self) -> Captured:
        return Captured(0, None, ())

    def close(self) -> None: ...


class SimulatedDatapath:
    """A DUT that takes the time of a real one to start and to build on."""

    def __init__(self, clock: VirtualClock, kind: str = "dpdk", devices: Mapping[str, str] | None = None) -> None:
        self._devices = devices or {}
        self._clock = clock
        self._kind = kind
        clock.sleep(_START_S)

    def info(self) -> DatapathInfo:
        return DatapathInfo(self._kind, "simulated", None, "simulated")

    def build(self, topology: Topology) -> SimulatedTopology:
        self._clock.sleep(_BUILD_S)
        return SimulatedTopology(topology, self._devices)

    def collectors(self) -> tuple[Collector, ...]:
        return ()

    def check_alive(self) -> None: ...

    def logs(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None: ...


class SimulatedCeilings:
    """Spends the time of a measurement once for each traffic."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._known: set[tuple[str, int]] = set()

    def cached(self, traffic: AnyTraffic, directions: int) -> float | None:
        return ASSUMED_CEILING_FPS if (traffic.shape_label, directions) in self._known else None

    def measure(self, traffic: AnyTraffic, directions: int) -> float | None:
        self._clock.sleep(_CEILING_S)
        self._known.add((traffic.shape_label, directions))
        return ASSUMED_CEILING_FPS


class SimulatedBackend:
    """Makes a simulated rig of any testbed. ``make_generator``: another DUT than a steady one of ASSUMED_FPS."""

    def __init__(self, testbed: Testbed, make_generator: Callable[[], FakeGenerator] | None = None) -> None:
        self.testbed = testbed
        self.clock = VirtualClock()
        self._make = make_generator or partial(
            FakeGenerator,
            ASSUMED_FPS,
            noise=_NOISE,
            ceiling_fps=ASSUMED_CEILING_FPS * 1.01,
            buffer_frames=_BUFFER_FRAMES,
        )
        self._generators: list[FakeGenerator] = []
        self._streams: list[FakeStreams] = []
        self._requests = SimulatedRequests(self.clock)
        self._connects = SimulatedConnects(self.clock)

    @property
    def specs(self) -> list[TrialSpec]:
        return [spec for generator in self._generators for spec in generator.specs]

    @property
    def end_specs(self) -> tuple[Sequence[EndSpec], ...]:
        """All runs of streams, of requests and of connects so far, each kind in its order."""
        streams = [spec for streams in self._streams for spec in streams.specs]
        return streams, self._requests.specs, self._connects.specs

    def check(self) -> None: ...

    def lacks(self, dut: Dut) -> str | None:
        return unknown_node(self.testbed, dut)

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        # As the real testbed: what is skipped there is not part of a plan.
        return lacks_roles(self.testbed.generator.engine, self.testbed, topology, dut)

    def lacks_streams(self) -> str | None:
        return None

    def labels(self) -> dict[str, str]:
        return {"datapath": self.testbed.ovs.datapath, "engine": self.testbed.generator.engine}

    def describe(self) -> list[str]:
        return ["planned on a simulated DUT in virtual time", *describe_nodes(self.testbed)]

    def parts(self) -> RigParts:
        return RigParts(
            make_datapath=lambda dut: SimulatedDatapath(self.clock, dut.kind or "dpdk"),
            make_generator=self._make_generator,
            make_ledger=None,
            ceilings=SimulatedCeilings(self.clock),
            pmd_cpus=len(self.testbed.cpus.pmd),
            make_streams=self._make_streams,
            make_requests=lambda: self._requests,
            make_connects=lambda: self._connects,
        )

    @property
    def can_share(self) -> bool:
        return True

    def room(self) -> int:
        return _ROOM

    def shared_parts(self) -> RigParts:
        return self.parts()

    def daemons(self, of: Daemons[T]) -> T:
        return of.simulated()

    def fingerprint(self) -> Mapping[str, Any]:
        return {}

    def line_rate_bps(self) -> float | None:
        return min((port.line_rate_bps for port in self.testbed.ports if port.line_rate_bps), default=None)

    def estimate_search_s(self, profile: Profile) -> float:  # noqa: ARG002 - virtual time takes none
        return 0.0

    def leftovers(self) -> list[str]:
        return []

    def close(self) -> None: ...

    def _make_generator(self) -> FakeGenerator:
        generator = self._make()
        generator.clock = self.clock
        generator.check = check_of(self.testbed.generator.engine)
        self._generators.append(generator)
        return generator

    def _make_streams(self) -> FakeStreams:
        streams = FakeStreams(ASSUMED_BPS, clock=self.clock)
        self._streams.append(streams)
        return streams
