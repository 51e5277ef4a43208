"""A simulated testbed in virtual time: what plans run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pytest_nfvperf.adapters.generators.fake import FakeGenerator, FakeStreams
from pytest_nfvperf.backends.base import Backend, Daemons, T
from pytest_nfvperf.backends.generator_side import check_of, lacks_roles
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.measure.streams import ConnectResult, ConnectSpec, RequestResult, RequestSpec, StreamSpec
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut, Testbed, describe_nodes, unknown_node
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.datapath import BuiltTopology, Datapath
from pytest_nfvperf.ports.generator import Captured, Ceilings, Generator, MakeConnects, SendRequests, StreamEnd

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


def _all_alike(count: int) -> Histogram:
    return Histogram(((ASSUMED_NS, count),), ASSUMED_NS, ASSUMED_NS)


@dataclass
class SimulatedTopology(BuiltTopology):
    """A topology that is not built. ``devices``: by port, for a generator that asks for them."""

    topology: Topology
    devices: Mapping[str, str] = field(default_factory=dict)

    def attachments(self) -> Mapping[str, str | None]:
        return {port.name: self.devices.get(port.name, "simulated") for port in self.topology.ports}

    def made_namespace(self, namespace: str) -> str:
        return f"simulated-{namespace}"

    def not_offloaded(self) -> str | None:
        return None

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:  # noqa: ARG002 - there is none
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


class SimulatedDatapath(Datapath):
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

    def check_alive(self) -> None: ...

    def close(self) -> None: ...


class SimulatedCeilings(Ceilings):
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


class SimulatedBackend(Backend, RigParts):
    """Makes a simulated rig of any testbed. ``make_generator``: another DUT than a steady one of ASSUMED_FPS."""

    clock: VirtualClock
    needs_root = False

    def __init__(self, testbed: Testbed, make_generator: Callable[[], FakeGenerator] | None = None) -> None:
        super().__init__(testbed)
        self.clock = VirtualClock()
        self.pmd_cpus = len(testbed.cpus.pmd)
        self._make = make_generator or partial(
            FakeGenerator,
            ASSUMED_FPS,
            noise=_NOISE,
            ceiling_fps=ASSUMED_CEILING_FPS * 1.01,
            buffer_frames=_BUFFER_FRAMES,
        )
        self._generators: list[FakeGenerator] = []
        self._streams: list[FakeStreams] = []
        self._requests: list[RequestSpec] = []
        self._connects: list[ConnectSpec] = []

    @property
    def specs(self) -> list[TrialSpec]:
        return [spec for generator in self._generators for spec in generator.specs]

    @property
    def end_specs(self) -> tuple[Sequence[EndSpec], ...]:
        """All runs of streams, of requests and of connects so far, each kind in its order."""
        streams = [spec for streams in self._streams for spec in streams.specs]
        return streams, self._requests, self._connects

    def lacks(self, dut: Dut) -> str | None:
        return unknown_node(self.testbed, dut)

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        # As the real testbed: what is skipped there is not part of a plan.
        return lacks_roles(self.testbed.generator.engine, self.testbed, topology, dut)

    def lacks_streams(self) -> str | None:
        return None

    def describe(self) -> list[str]:
        return ["simulated DUT and generator in virtual time: no packet is sent", *describe_nodes(self.testbed)]

    def parts(self) -> RigParts:
        self.ceilings = SimulatedCeilings(self.clock)
        return self

    @property
    def can_share(self) -> bool:
        return True

    def room(self) -> int:
        return _ROOM

    def daemons(self, of: Daemons[T]) -> T:
        return of.simulated()

    def line_rate_bps(self) -> float | None:
        return min((port.line_rate_bps for port in self.testbed.ports if port.line_rate_bps), default=None)

    def make_datapath(self, dut: Dut) -> Datapath:
        return SimulatedDatapath(self.clock, dut.kind or "dpdk")

    def make_generator(self) -> Generator:
        generator = self._make()
        generator.clock = self.clock
        generator.check = check_of(self.testbed.generator.engine)
        self._generators.append(generator)
        return generator

    def make_streams(self) -> FakeStreams:
        streams = FakeStreams(ASSUMED_BPS, clock=self.clock)
        self._streams.append(streams)
        return streams

    def make_requests(self) -> SendRequests:
        def send(spec: RequestSpec, *_: StreamEnd) -> RequestResult:
            self._requests.append(spec)
            self.clock.sleep(spec.duration_s)
            ns = round(spec.duration_s * 1e9)
            answered = spec.load_per_s * spec.duration_s if spec.load_per_s else round(ns / ASSUMED_NS)
            return RequestResult(spec, _all_alike(answered), 0, ns, _ENGINE)

        return send

    def make_connects(self) -> MakeConnects:
        def connect(spec: ConnectSpec, *_: StreamEnd) -> ConnectResult:
            self._connects.append(spec)
            took_ns = spec.connects * ASSUMED_NS
            self.clock.sleep(took_ns / 1e9)
            return ConnectResult(spec, _all_alike(spec.connects), ASSUMED_NS, 0, spec.connects, took_ns, _ENGINE)

        return connect
