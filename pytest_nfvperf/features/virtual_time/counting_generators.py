"""Generators for runs that count instructions: over packet sockets, or over the DUT's rings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.generators.checks import check_spec
from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions, start_generator
from pytest_nfvperf.adapters.generators.frames import intended_frames
from pytest_nfvperf.adapters.generators.packet_socket import (
    ENGINE,
    PacketSocketGenerator,
    check_countable,
    frames_until_repeat,
)
from pytest_nfvperf.adapters.machine.fingerprint import instruction_ns
from pytest_nfvperf.backends.generator_side import GeneratorSide, ReservedMachine
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import CpuPlan, GeneratorInfo, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.model.traffic.mix import AnyTraffic, ClassStream, classes_of
from pytest_nfvperf.model.traffic.trial import (
    Direction,
    DirectionCounts,
    RigHealth,
    TrialSpec,
    counts_by_class,
    sum_of_classes,
)
from pytest_nfvperf.ports.generator import Burst, Generator, GeneratorPort

BURST_FRAMES = 32
"""What a PMD reads at once (NETDEV_MAX_BURST)."""
_AT_ONCE_FPS = 100_000_000
_TRIES = 5
_LEARN_S, _LEARN_RESIDUAL_S = 2.0, 0.05
_RINGS_MIB = 128
_RING_DEVICE = "net_virtio_user,"
VIRTUAL_TESTBED = Testbed(
    name="virtual-time",
    ovs=OvsSpec(datapath="netdev"),
    cpus=CpuPlan(housekeeping=(0,), pmd=(0,), generator=(0,)),
    ports=(),
    generator=GeneratorSpec(engine=ENGINE),
    links=(),
)
"""The testbed of a run in virtual time: by default a private OVS's userspace datapath without DPDK. Nothing polls, so
all threads may share the one CPU of virtual time."""


class CountedBursts:
    """Puts frames into the DUT's rings burst by burst, and counts the instructions that each burst costs.

    All frames of a burst are due at once, so they are in the ring before a thread of the DUT looks: in every run a PMD
    reads each burst as one batch (NETDEV_MAX_BURST). Pauses of the generator do not matter, because only the
    instructions of the DUT's threads count.

    ``instruction_ns``: virtual time of one instruction, in ns. ``generator``: of ports that are rings; sends and
    receives; closed with this.
    """

    def __init__(self, instruction_ns: int, generator: Generator) -> None:
        self.instruction_ns = instruction_ns
        self._generator = generator
        self.attach = generator.attach
        self.detach = generator.detach
        self.wait_links_up = generator.wait_links_up
        self.close = generator.close

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        """Send bursts in each direction until all arrive, or for two seconds: a DUT may drop them on purpose."""
        for traffic_class in classes_of(traffic):
            spec = TrialSpec(
                replace(traffic_class.traffic, flows=1),
                BURST_FRAMES,
                1.0,
                tuple(directions),
                latency=False,
                residual_s=_LEARN_RESIDUAL_S,
                purpose="learn",
            )
            until = time.monotonic() + _LEARN_S
            self.run_trial(spec)  # until all have sent once, frames are flooded
            while (
                any(count.received < count.sent for count in self.run_trial(spec).counts) and time.monotonic() < until
            ):
                pass

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        return self.run_counted(spec, lambda: 0)[0]

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        """Send the frames of all directions and classes burst by burst, and count the cost of each.

        Raises:
            ConfigError: more flows than a burst may have frames; or no thread of the DUT forwards, so nothing can be
                counted.
        """
        if forwarding_ns is None:
            raise ConfigError("frames over rings cost the DUT's threads something, and this DUT has none that forwards")
        check_countable(spec.traffic)
        if len({direction.tx for direction in spec.directions}) < len(spec.directions):
            raise ConfigError("in virtual time frames are sent to one receiver: give each direction a port of its own")
        different = [frames_until_repeat(traffic_class.traffic) for traffic_class in classes_of(spec.traffic)]
        at_once = max(BURST_FRAMES, spec.traffic.combinations, *different)
        frames = intended_frames(spec.load_fps, spec.duration_s)
        if frames < 1:
            raise ConfigError(f"{spec.load_fps} frames/s for {spec.duration_s} s makes no frame")
        bursts: list[Burst] = []
        sent = spec.streams(frames)
        results: list[list[TrialResult]] = [[] for _ in sent]
        for done in range(0, frames, at_once):
            for stream, stream_results in zip(sent, results, strict=True):
                if done < stream.frames:
                    burst, parts = self._burst(spec, stream, min(at_once, stream.frames - done), forwarding_ns)
                    bursts.append(burst)
                    stream_results.extend(parts)
        by_class = [
            _summed(spec.directions[stream.direction], stream_results, stream.frames)
            for stream, stream_results in zip(sent, results, strict=True)
        ]
        counts, classes = counts_by_class(sent, by_class)
        # When frames were sent invalidates nothing in virtual time, which has no rates.
        all_results = (result for stream_results in results for result in stream_results)
        invalid = tuple(reason for result in all_results for reason in result.invalid if not reason.counts_hold)
        return TrialResult(spec, counts, RigHealth(), invalid, classes=classes), tuple(bursts)

    def _burst(
        self, spec: TrialSpec, stream: ClassStream, frames: int, forwarding_ns: Callable[[], int]
    ) -> tuple[Burst, list[TrialResult]]:
        """Send one burst and count it; then send, uncounted, the part that the ring did not take at once.

        DPDK's vhost library reads and writes a packed ring by four descriptors at once, from a multiple of four on
        (PACKED_BATCH_SIZE). After 19 frames each further burst would begin in the middle of four, and cost the DUT 3 to
        7 % more.
        """
        results: list[TrialResult] = []

        def send(count: int) -> int:
            duration_s = count / _AT_ONCE_FPS
            own = replace(
                spec,
                traffic=stream.sent.traffic,
                load_fps=_AT_ONCE_FPS,
                duration_s=duration_s,
                directions=(spec.directions[stream.direction],),
                latency=False,
            )
            results.append(self._generator.run_trial(own))
            return results[-1].counts[0].sent

        before = forwarding_ns()
        sent = at_once = send(frames)
        burst = Burst(at_once, forwarding_ns() - before)
        for _ in range(_TRIES):
            if sent == frames:
                break
            sent += send(frames - sent)
        return burst, results


def _summed(direction: Direction, results: Sequence[TrialResult], intended: int) -> DirectionCounts:
    """The counts of all bursts of a direction. Frames that were sent late are not skipped."""
    bursts = [result.counts[0] for result in results]
    total = replace(sum_of_classes(bursts), direction=direction, intended=intended)
    sums = {name: sum(getattr(each, name) for each in bursts) for name in ("foreign", "elapsed_ns")}
    return replace(total, skipped=intended - total.offered, **sums)


class CountingGenerator(Generator):
    """Sends through packet sockets or, if the ports are rings, through the embedded generator.

    Kernel interfaces (the veth pairs of the kernel datapath, and of OVS without DPDK) get packet sockets; the
    vhost-user ports of OVS with DPDK are rings, whose generator ``start_rings`` starts when the first one is attached.
    """

    def __init__(self, sockets: PacketSocketGenerator, start_rings: Callable[[], CountedBursts]) -> None:
        self._sockets = sockets
        self._start_rings = start_rings
        self._rings: CountedBursts | None = None
        self._active: PacketSocketGenerator | CountedBursts = sockets
        self.instruction_ns = sockets.instruction_ns

    def info(self) -> GeneratorInfo:
        return self._sockets.info()

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        """Attach the ports of a topology, all or none. ConfigError if some are rings and some kernel interfaces."""
        rings = [port.name for port in ports if port.device.startswith(_RING_DEVICE)]
        others = [port.name for port in ports if port.name not in rings]
        if rings and others:
            raise ConfigError(
                f"{', '.join(rings)} are rings of DPDK and {', '.join(others)} are not: in virtual time the "
                "generator's ports are of one kind"
            )
        if rings:
            self._rings = self._rings or self._start_rings()
        self._active = self._rings if rings and self._rings is not None else self._sockets
        self._active.attach(ports)

    def detach(self, names: Sequence[str]) -> None:
        self._active.detach(names)

    def wait_links_up(self, deadline_s: float) -> None:
        self._active.wait_links_up(deadline_s)

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        self._active.learn(traffic, directions)

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        return self._active.run_trial(spec)

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        return self._active.run_counted(spec, forwarding_ns)

    def close(self) -> None:
        self._sockets.close()
        if self._rings is not None:
            self._rings.close()


class PacketSocketSide(GeneratorSide):
    """Packet sockets: one CPU, no rates, and readings do not alternate, because nothing disturbs them.

    ``an_instruction_ns``: virtual time of one instruction, in ns; raises ConfigError if time is not virtual.
    """

    def __init__(self, testbed: Testbed, an_instruction_ns: Callable[[], int] = instruction_ns) -> None:
        super().__init__(testbed)
        self._instruction_ns = an_instruction_ns

    def check(self) -> None:
        self._instruction_ns()

    def describe(self) -> str:
        return f"packet sockets, in virtual time: {self._instruction_ns()} ns an instruction"

    def make(self, machine: ReservedMachine, beside: str = "") -> Generator:
        """Starts nothing yet: each trial opens its sockets, and the first ring starts the program."""
        return CountingGenerator(
            PacketSocketGenerator(self._instruction_ns()), lambda: self._start_rings(machine, beside)
        )

    def _start_rings(self, machine: ReservedMachine, beside: str) -> CountedBursts:
        program, cpus = build.find(portable=True), VIRTUAL_TESTBED.cpus
        generator = start_generator(machine.journal, program, f"gen{beside}", cpus, _RINGS_MIB, EngineOptions(nice=0))
        return CountedBursts(self._instruction_ns(), generator)

    @staticmethod
    def check_trial(spec: TrialSpec, ports: Mapping[str, GeneratorPort]) -> None:
        check_spec(ports, spec)
        check_countable(spec.traffic)
