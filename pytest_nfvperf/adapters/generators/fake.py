"""A simulated generator and DUT, for packets and for streams. Tests of searches, runners, suites and reports use it.

Time is virtual: a trial of an hour returns at once. The DUT forwards up to ``capacity_fps`` per direction and drops the
rest, like a ring with a fast but finite server behind it. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pytest_nfvperf.adapters.generators.checks import AttachingGenerator, check_directions, check_spec
from pytest_nfvperf.adapters.generators.frames import frames_of, streams
from pytest_nfvperf.model.display import format_bps, format_fps
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.measure.ledger import spread
from pytest_nfvperf.model.measure.streams import (
    SideCpu,
    StreamCounts,
    StreamDirection,
    StreamDirectionCounts,
    StreamResult,
    StreamSpec,
)
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo
from pytest_nfvperf.model.traffic.conversation_frames import ScriptStep
from pytest_nfvperf.model.traffic.histogram import Histogram, IntervalCounts, IntervalLatency, TrialProgress
from pytest_nfvperf.model.traffic.mix import AnyTraffic, ClassStream, shares
from pytest_nfvperf.model.traffic.trial import (
    Direction,
    DirectionCounts,
    RigHealth,
    StepCounts,
    TrialSpec,
    counts_by_class,
)
from pytest_nfvperf.ports.generator import GeneratorPort, RunningTrial, StreamEnd, StreamEngine
from pytest_nfvperf.ports.machine import Clock

_QUEUE_FRAMES = 1024
"""Depth of the simulated DUT's queue: under overload every frame waits behind this many."""
_CORES_OF_ENDS = (1.0, 0.8)
"""CPUs that client and server of simulated streams use."""


class FakeTrial(RunningTrial):
    """Reports the whole result in equal parts."""

    most_skipped = 0.005

    def __init__(self, rig: FakeGenerator, spec: TrialSpec, interval_s: float) -> None:
        self._rig = rig
        self._spec = spec
        self._interval_s = interval_s
        self._whole = rig.simulated(spec)
        self._at_s = 0.0
        self._ended = False
        self._stopped = False

    def next_interval(self) -> IntervalCounts | None:
        if self._stopped and 0 < self._at_s < self._spec.duration_s:
            self._spec = replace(self._spec, duration_s=self._at_s)
            self._whole = self._rig.simulated(self._spec)
        left_s = self._spec.lasts_s - self._at_s
        if left_s <= 1e-9:
            self._ended = True
            return None
        step_s = min(self._interval_s, left_s)
        self._rig.wait(step_s)
        self._at_s += step_s
        so_far = partial(_progress, share=min(1.0, self._at_s / self._spec.duration_s))
        classes = {each.name: TrialProgress.summed([*map(so_far, each.counts)]) for each in self._whole.classes}
        return IntervalCounts(round(self._at_s * 1e9), tuple(map(so_far, self._whole.counts)), 0, 1_000, classes)

    def stop(self) -> None:
        self._stopped = True

    def result(self) -> TrialResult:
        if not self._ended:
            raise GeneratorError("the trial has not ended: read its intervals to the last")
        return self._whole


def _progress(counts: DirectionCounts, share: float) -> TrialProgress:
    histogram, latency = counts.latency, None
    if histogram is not None:
        p50, p90, p99, p999 = (histogram.percentile_ns(each) or 0 for each in (50, 90, 99, 99.9))
        latency = IntervalLatency(histogram.total, histogram.min_ns, p50, p90, p99, p999, histogram.max_ns)
    return TrialProgress(
        sent=round(counts.sent * share),
        refused=round(counts.refused * share),
        skipped=round(counts.skipped * share),
        received=round(counts.received * share),
        highest_seq=round(counts.sent * share),
        latency=latency,
    )


def _steps(steps: Sequence[ScriptStep], offered: int, sent: int, received: int) -> tuple[StepCounts, ...]:
    """Connections fail at the first answer, as of a DUT whose table is full."""
    if not steps:
        return ()
    opening = StepCounts(steps[0].name, False, offered, sent, offered - sent, sent, offered - sent)
    answer = StepCounts(steps[1].name, True, sent, sent, 0, received, sent - received)
    others = (StepCounts(step.name, step.from_server, received, received, 0, received, 0) for step in steps[2:])
    return (opening, answer, *others)


@dataclass
class FakeGenerator(AttachingGenerator):
    """A deterministic simulated rig.

    Attributes:
        capacity_fps: frames/s per direction that the simulated DUT forwards without loss.
        noise: relative standard deviation of the capacity from trial to trial (0.01 is 1 %).
        loss_ratio: share of offered frames lost at any load, 0..1.
        class_loss: further share of a class's frames lost at any load, by its name.
        served_first: classes that lose nothing as long as the capacity is enough for them alone.
        refuse: frames above the capacity are refused by the ring (vhost-user's back-pressure)
            and not sent; False loses them behind the ring, as a NIC does.
        ceiling_fps: what the rig itself can send; a higher load is invalid (fell_behind). None: no bound.
        invalid_every: every n-th trial is invalid (skipped_frames), counted from 1. None: none is.
        fail_at: the trial of this number, from 1, and all later ones raise GeneratorError.
        latency_ns: latency without a queue.
        table: connections that the simulated DUT keeps at once; further ones of a trial fail. None: no bound.
        buffer_frames: frames per direction that the simulated DUT holds beyond what it forwards, once a trial.
        clock: ``sleep`` is called with each trial's duration; None: nothing waits.
        seed: of the noise.
        check: raises an error for a trial that the engine in whose place this is could not send; None sends all.
    """

    capacity_fps: float
    noise: float = 0.0
    loss_ratio: float = 0.0
    class_loss: Mapping[str, float] = field(default_factory=dict)
    served_first: Collection[str] = ()
    refuse: bool = True
    ceiling_fps: float | None = None
    invalid_every: int | None = None
    fail_at: int | None = None
    latency_ns: int = 10_000
    table: int | None = None
    buffer_frames: int = 0
    clock: Clock | None = None
    seed: int = 0
    check: Callable[[TrialSpec, Mapping[str, GeneratorPort]], None] | None = None
    specs: list[TrialSpec] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        super().__init__()
        self._random = random.Random(self.seed)  # noqa: S311 - simulation, not cryptography

    def info(self) -> GeneratorInfo:
        return GeneratorInfo("fake", "1", f"simulated DUT of {format_fps(self.capacity_fps)}", ())

    def wait_links_up(self, deadline_s: float) -> None:
        self.check_open()
        if deadline_s <= 0:
            raise ConfigError(f"the deadline must be above 0 s, not {deadline_s}")

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:  # noqa: ARG002 - nothing to learn
        self.check_open()
        check_directions(self._ports, directions, to_many=True)

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        self._accept(spec)
        if self.fail_at is not None and len(self.specs) >= self.fail_at:
            raise GeneratorError("the simulated generator died", evidence={"generator log": "killed by fail_at"})
        self.wait(spec.lasts_s + spec.residual_s)
        return self.simulated(spec)

    def simulated(self, spec: TrialSpec) -> TrialResult:
        skipping = self.invalid_every is not None and len(self.specs) % self.invalid_every == 0
        streams = spec.streams(int(spec.load_fps * spec.duration_s))
        sent = sorted(
            (received for stream in streams for received in stream.by_receiver()), key=lambda stream: stream.direction
        )
        by_class = [
            count
            for number, direction in enumerate(spec.directions)
            for count in self._simulate_direction(
                spec, direction, [stream for stream in sent if stream.direction == number], skipping=skipping
            )
        ]
        counts, classes = counts_by_class(sent, by_class)
        health = RigHealth(
            longest_poll_gap_ns=1_000,
            longest_lateness_ns=1_000,
            largest_burst=1,
            preemptions=0,
            run_delay_ns=0,
            busy_ratio=0.5,
        )
        skipped, intended = sum(count.skipped for count in counts), sum(count.intended for count in counts)
        code = Reason.SKIPPED_FRAMES if self.ceiling_fps is None else Reason.FELL_BEHIND
        detail = f"{skipped} of {intended} frames were due while the generator was not running"
        invalid = (InvalidReason(code, detail),) if skipped else ()
        return TrialResult(spec=spec, counts=counts, health=health, invalid=invalid, classes=classes)

    def start_trial(self, spec: TrialSpec, interval_s: float) -> FakeTrial:
        self._accept(spec)
        return FakeTrial(self, spec, interval_s)

    def _accept(self, spec: TrialSpec) -> None:
        self.check_open()
        check_spec(self._ports, spec, to_many=True)
        if len({direction.tx for direction in spec.directions}) < len(spec.directions):
            streams(spec.streams(frames_of(spec)), spec.directions, self._ports)  # refuses one address
        if self.check is not None:
            self.check(spec, self._ports)
        self.specs.append(spec)

    def wait(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        if self.clock is not None:
            self.clock.sleep(seconds)

    def _simulate_direction(
        self, spec: TrialSpec, direction: Direction, streams: Sequence[ClassStream], *, skipping: bool
    ) -> list[DirectionCounts]:
        """Simulate one direction: what the generator skips, and what the DUT forwards of each class that is left.

        Classes that are ``served_first`` take the DUT's capacity; the others share what remains of it.
        """
        intended = int(spec.load_fps * spec.duration_s)
        sendable = intended if self.ceiling_fps is None else int(self.ceiling_fps * spec.duration_s)
        skipped = intended // 10 if skipping else max(0, intended - sendable)
        capacity = int(max(0.0, self.capacity_fps * (1 + self._random.gauss(0, self.noise))) * spec.duration_s)
        capacity += self.buffer_frames
        planned = [stream.frames for stream in streams]
        skipped_frames = shares(skipped, planned)
        offered = [frames - left_out for frames, left_out in zip(planned, skipped_frames, strict=True)]
        overloaded = sum(offered) > capacity
        priority = [
            frames if stream.sent.name in self.served_first else 0
            for stream, frames in zip(streams, offered, strict=True)
        ]
        served = spread(capacity, priority)
        waiting = [frames - done for frames, done in zip(offered, served, strict=True)]
        forwarded = map(sum, zip(served, spread(capacity - sum(served), waiting), strict=True))
        by_class = zip(streams, planned, skipped_frames, offered, forwarded, strict=True)
        return [self._counts(spec, direction, *of_class, overloaded=overloaded) for of_class in by_class]

    def _counts(
        self,
        spec: TrialSpec,
        direction: Direction,
        stream: ClassStream,
        intended: int,
        skipped: int,
        offered: int,
        forwarded: int,
        *,
        overloaded: bool,
    ) -> DirectionCounts:
        refused = offered - forwarded if self.refuse else 0
        lost_share = self.loss_ratio + self.class_loss.get(stream.sent.name, 0.0)
        received = forwarded - round(forwarded * lost_share)
        if stream.steps and self.table is not None and stream.sent.traffic.hold_s:
            received = min(received, self.table)
        latency = self._latency(spec, received, overloaded=overloaded)
        size = stream.sent.traffic.mean_frame_size
        return DirectionCounts(
            direction=direction,
            intended=intended,
            sent=offered - refused,
            refused=refused,
            skipped=skipped,
            received=received,
            duplicated=0,
            out_of_order=0,
            foreign=0,
            corrupted=0,
            sent_bytes=round((offered - refused) * size),
            received_bytes=round(received * size),
            elapsed_ns=round(spec.duration_s * 1e9),
            latency=latency,
            latency_raw=latency,
            elsewhere=(),
            steps=_steps(stream.steps, offered, offered - refused, received),
        )

    def _latency(self, spec: TrialSpec, received: int, *, overloaded: bool) -> Histogram | None:
        if not spec.latency:
            return None
        if received == 0:
            return Histogram(counts=(), min_ns=0, max_ns=0)
        queue_ns = round(_QUEUE_FRAMES / self.capacity_fps * 1e9) if overloaded else 0
        value = self.latency_ns + queue_ns
        return Histogram(counts=((value, received),), min_ns=value, max_ns=value)


@dataclass
class FakeStreams(StreamEngine):
    """A simulated StreamEngine.

    Attributes:
        capacity_bps: payload bits/s that the simulated DUT carries, shared by all streams and directions.
        clock: ``sleep`` is called with each run's time; None: nothing waits.
        invalid_every: every n-th run is invalid (stretched_time), counted from 1. None: none is.
    """

    capacity_bps: float
    invalid_every: int | None = None
    clock: Clock | None = None
    specs: list[StreamSpec] = field(default_factory=list, init=False)
    ends: list[tuple[StreamEnd, StreamEnd]] = field(default_factory=list, init=False)
    closed: bool = field(default=False, init=False)

    def info(self) -> GeneratorInfo:
        return GeneratorInfo("fake", "1", f"simulated DUT of {format_bps(self.capacity_bps)}", ())

    def run(self, spec: StreamSpec, client: StreamEnd, server: StreamEnd) -> StreamResult:
        if self.closed:
            raise GeneratorError("the stream engine is closed")
        self.specs.append(spec)
        self.ends.append((client, server))
        if self.clock is not None:
            self.clock.sleep(spec.run_s)
        invalid = self.invalid_every is not None and len(self.specs) % self.invalid_every == 0
        reason = InvalidReason(Reason.STRETCHED_TIME, "the simulated machine paused")
        run_ns = round(spec.run_s * 1e9)
        client_cpu, server_cpu = (
            SideCpu(0, round(cores * spec.run_s * 1e9), run_ns, cores * 100) for cores in _CORES_OF_ENDS
        )
        return StreamResult(
            spec=spec,
            directions=tuple(self._direction_counts(spec, direction) for direction in spec.directions),
            client_cpu=client_cpu,
            server_cpu=server_cpu,
            invalid=(reason,) if invalid else (),
        )

    def close(self) -> None:
        self.closed = True

    def _direction_counts(self, spec: StreamSpec, direction: StreamDirection) -> StreamDirectionCounts:
        share = self.capacity_bps / len(spec.directions) / spec.streams
        requested = share if spec.bitrate_bps is None else float(spec.bitrate_bps)
        sent_bps = requested if spec.protocol == "udp" else share
        received, sent = (int(rate * spec.duration_s / 8) for rate in (min(requested, share), sent_bps))
        if spec.protocol == "tcp":
            stream = StreamCounts(received, sent, retransmits=0)
        else:
            size = spec.buffer_bytes or 1448
            stream = StreamCounts(received, sent, datagrams=sent // size, lost_datagrams=(sent - received) // size)
        elapsed_ns = round(spec.duration_s * 1e9)
        return StreamDirectionCounts(direction, elapsed_ns, (stream,) * spec.streams, elapsed_ns)
