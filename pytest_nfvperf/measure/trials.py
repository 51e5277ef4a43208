"""Runs trials: reads counters before and after, lets the generator send, and records the result."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from pytest_nfvperf.measure.clocks import Stopwatch, TimeLimit, suspended_ns
from pytest_nfvperf.measure.cpu_placement import PlacementWatch, RetryBudget
from pytest_nfvperf.measure.vnf_processes import counts_between
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import OF_AN_EVENT, InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.disturbance.validity import (
    LINK_LOSSES,
    generator_reasons,
    moved_reasons,
    suspend_reasons,
    testbed_reasons,
    unreceived,
)
from pytest_nfvperf.model.errors import InconclusiveError, TestbedError
from pytest_nfvperf.model.evidence.records import (
    KINDS,
    EncodeHistogram,
    ErrorData,
    RecordIds,
    RecordKind,
    Span,
    make_record,
    trial_data,
)
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile
from pytest_nfvperf.model.measure.hw_offload import OffloadedFrames, offloaded_frames
from pytest_nfvperf.model.measure.ledger import (
    BY_FLOW,
    BY_RULE,
    CounterDelta,
    CounterSnapshot,
    Ledger,
    counter_deltas,
    with_classes,
)
from pytest_nfvperf.model.measure.outcome import Cost, Outcome, QueueFrames, frames_by_queue
from pytest_nfvperf.model.measure.streams import StreamResult
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import ComeBack, DirectionCounts, TrialSpec, VnfCounts
from pytest_nfvperf.ports.datapath import Collector, Datapath
from pytest_nfvperf.ports.generator import Generator
from pytest_nfvperf.ports.machine import Clock, Progress, Sink, StoredValue

# A killed process is gone from /proc thread by thread, and gives back its hugepages, before its status can be had.
_GRACE_S = 0.5
_STEP_S = 0.02

_WAITED = 0.25
"""Of the time that is spare, for one wait for near CPUs."""

PAUSE_S = 1.3
"""Longer than the second within which periodic work of a kernel repeats."""

_LEAST_BETWEEN_PAUSES_S = 10.0
"""If a pause did not help, the disturbing thread does not move, and more pauses only take time."""

FurtherReasons = Callable[[TrialResult, Sequence[CounterDelta]], Sequence[InvalidReason]]
LedgerMaker = Callable[[TrialResult, Sequence[CounterSnapshot], Sequence[CounterSnapshot]], Ledger | None]


@dataclass(eq=False)
class Recorder:
    """Makes evidence records with readable ids, and hands them to the sinks.

    Attributes:
        sinks: take every record in this order. The file comes first, so that a record is on disk before others show it.
        worker: "" or the xdist worker's name, which makes ids of parallel workers different.
        encode: makes the text of a trial's exact histograms.
        outcomes, verdicts, errors, stopwatch: of the running test; ``begin_test`` clears them.
    """

    run: str
    sinks: Sequence[Sink]
    clock: Clock
    worker: str = ""
    encode: EncodeHistogram | None = None
    test: str = field(default="", init=False)
    outcomes: list[Outcome] = field(default_factory=list, init=False)
    verdicts: list[Verdict] = field(default_factory=list, init=False)
    errors: list[ErrorData] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._ids = RecordIds(self.worker)
        self.stopwatch = Stopwatch(self.clock)

    def next_id(self, kind: RecordKind) -> str:
        return self._ids.next(kind)

    def emit(self, payload: object, record_id: str | None = None) -> str:
        record = make_record(
            payload,
            id=record_id or self.next_id(KINDS[type(payload)]),
            run=self.run,
            test=self.test,
            time_ns=self.clock.time_ns(),
        )
        match payload:
            case Outcome():
                self.outcomes.append(payload)
            case Verdict():
                self.verdicts.append(payload)
            case ErrorData():
                self.errors.append(payload)
        with self.stopwatch.of(Span.OTHER):
            for sink in self.sinks:
                sink.emit(record)
        return record.id

    def close(self) -> None:
        with ExitStack() as closing:
            for sink in reversed(self.sinks):
                closing.callback(sink.close)


def underlying_death(error: TestbedError, check_alive: Callable[[], None], clock: Clock) -> TestbedError:
    """The death of a process that ``check_alive`` finds within half a second; else the error itself.

    "It died" explains more than "it no longer answers".
    """
    end = clock.monotonic() + _GRACE_S
    while clock.monotonic() < end:
        try:
            check_alive()
        except TestbedError as death:
            if death.message in error.message:
                return error
            found = TestbedError(
                f"{death.message}; seen first as: {error.message}", evidence={**error.evidence, **death.evidence}
            )
            found.__cause__ = error
            return found
        clock.sleep(_STEP_S)
    return error


def add_evidence(error: TestbedError, logs: Mapping[str, str]) -> None:
    for name, text in logs.items():
        error.evidence.setdefault(name, text)


def trial_cost(result: TrialResult, changes: Mapping[str, int], pmd_cpus: int, own_cpu_s: float) -> Cost:
    """Cost of one trial, from counters around it (How we measure, rule 10).

    ``changes``: counter deltas by name; a cost without its counter is None. ``pmd_cpus``: number of CPUs of poll-mode
    threads, 0 if unknown. ``own_cpu_s``: CPU time of the test process.
    """
    busy, idle = changes.get("pmd.cycles_busy"), changes.get("pmd.cycles_idle")
    packets = changes.get("pmd.packets_received")
    dut_ns = next((changes[name] for name in ("vswitchd.cpu_ns", "testpmd.cpu_ns") if name in changes), None)
    generator_ns = changes.get("generator.cpu_ns")
    total_fps = result.received_fps * len(result.counts) if result.received_fps is not None else None
    return Cost(
        trial_id="",
        pmd_cycles_per_packet=busy / packets if busy is not None and packets and result.spec.saturating else None,
        pmd_busy_ratio=busy / (busy + idle) if busy is not None and idle is not None and busy + idle else None,
        mpps_per_core=total_fps / 1e6 / pmd_cpus if total_fps is not None and pmd_cpus else None,
        dut_cpu_seconds=None if dut_ns is None else dut_ns / 1e9,
        generator_cpu_seconds=None if generator_ns is None else generator_ns / 1e9,
        test_process_cpu_seconds=own_cpu_s,
    )


class QuietWait:
    """Pauses after trials in which a thread took the DUT's CPU, so that this thread wakes elsewhere.

    No other process is touched. Seen on two cores: a kernel thread that ran for 0.5 to 15 ms twice a second stayed on
    the PMD's CPU for minutes, and every trial at 4 Mpps lost frames: a thread that wakes while all CPUs poll stays
    where it last was. When it woke while the generator's CPU was idle it moved there, where it causes only skipped
    frames: 13 of 13 trials lost none.
    """

    def __init__(self, clock: Clock, stopwatch: Stopwatch) -> None:
        self._clock, self._stopwatch = clock, stopwatch
        self._last_s = -math.inf

    def after(self, result: TrialResult) -> None:
        stolen = any(reason.code is Reason.DUT_CPU_STOLEN for reason in result.invalid)
        if stolen and self._clock.monotonic() - self._last_s >= _LEAST_BETWEEN_PAUSES_S:
            self.pause()

    def pause(self) -> None:
        with self._stopwatch.of(Span.WAITING):
            self._clock.sleep(PAUSE_S)
        self._last_s = self._clock.monotonic()


DeployedOn = tuple[Topology, Dut]


@dataclass(slots=True)
class RunLocations:
    """What each run of a test was measured on, so that a failure shows the right topology.

    A comparison deploys many topologies, and the last one need not be the one that failed. ``last``: what was deployed,
    thawed or measured on last.
    """

    last: DeployedOn | None = None
    _of_run: dict[str, DeployedOn] = field(default_factory=dict)

    def ran(self, run: str, deployed_on: DeployedOn) -> None:
        self._of_run[run] = self.last = deployed_on

    def of(self, runs: Iterable[str]) -> tuple[DeployedOn, ...]:
        """What was deployed for these runs, each once, in the order of the runs; unknown runs are left out."""
        return tuple(dict.fromkeys(self._of_run[run] for run in runs if run in self._of_run))

    def clear(self) -> None:
        self.last = None
        self._of_run.clear()


class MeasuredRun(Protocol):
    """A trial, or a run of streams. ``id``: of its record. ``wall_s``: from call to counts, waits included."""

    @property
    def id(self) -> str: ...

    @property
    def result(self) -> TrialResult | StreamResult: ...

    @property
    def wall_s(self) -> float: ...


Measured = TypeVar("Measured", bound=MeasuredRun)


class InvalidTrialsError(InconclusiveError):
    """No valid trial within the budget: the rig was too disturbed to measure the DUT."""

    def __init__(self, trials: Sequence[MeasuredRun], *, out_of_time: bool = False) -> None:
        self.trials = tuple(trials)
        codes = Counter(str(reason.code) for trial in trials for reason in trial.result.invalid)
        self.codes = tuple(codes)
        self.counted = ", ".join(f"{code} {count}x" for code, count in codes.most_common())
        last = trials[-1]
        row = "the only trial was" if len(trials) == 1 else f"{len(trials)} trials in a row were"
        reasons = "; ".join(map(str, last.result.invalid))
        super().__init__(
            f"{row} invalid ({self.counted}); the last, {last.id}: {reasons}"
            + "; out of time for another" * out_of_time
        )


def repeat_until_valid(
    measure: Callable[[str | None], Measured],
    repeats: int,
    time_limit: TimeLimit,
    tolerated: Callable[[Measured], frozenset[Reason]] = lambda _: frozenset(),
) -> Measured:
    """Measure until nothing makes a measurement invalid; InvalidTrialsError if no repeat within the budget is valid.

    The budget is a number of disturbed trials, and a time for those during which only a CPU moved: the host then leaves
    CPUs for seconds or minutes, in which a trial is as good as any. None is repeated in time that other tests need.

    ``measure``: its argument is the id of the invalid trial that it repeats, None at first. ``tolerated``: reasons that
    do not make this one invalid.
    """
    disturbed: list[Measured] = []
    moved, moved_s = 0, 0.0
    while True:
        found = measure(disturbed[-1].id if disturbed else None)
        codes = {reason.code for reason in found.result.invalid} - tolerated(found)
        if not codes:
            return found
        disturbed.append(found)
        if codes == {Reason.CPU_MOVED} and moved_s < POLICY.moved_s:
            moved, moved_s = moved + 1, moved_s + found.wall_s
        if len(disturbed) - moved > repeats:
            raise InvalidTrialsError(disturbed)
        if not time_limit.spare_s:
            raise InvalidTrialsError(disturbed, out_of_time=True)


TrafficReplacement = Callable[[AnyTraffic], AnyTraffic]


def as_it_is(traffic: AnyTraffic) -> AnyTraffic:
    return traffic


class Profiling(Protocol):
    """Measures once more under a profiler, which counts for no figure (``--nfv-profile-cpu``)."""

    def __call__(self, name: str, what: str, work: Callable[[], object]) -> None:
        """``name``: the record of the run; ``what`` was measured, for a person; ``work``: does the same again."""
        ...

    def packets(self, live: Any, outcome: Outcome, subject: str = "") -> Outcome:
        """Profile the poll-mode threads under an outcome's traffic. Returns it, with a note if that is impossible.

        ``live``: a LiveTopology. ``subject``: which one of a study, for a person.
        """
        ...

    def compare(self, per: str, outcomes: Sequence[Outcome]) -> None:
        """Compare the profiles of subjects. ``per``: the label that they differ in."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What every run needs around it.

    Attributes:
        trials, streams: of the running test, by id.
        others: ids of its requests and restarts.
        profiles: by the id of the run that was repeated under a profiler.
        profiling: None unless it is requested.
        locations: the topology of each run.
        deployed_on: the topology that a runner of trials is for.
        configures: the running test's own functions, by the name of the topology after whose builds each is called.
        placement: None if the DUT's CPUs are not known.
        dut: is frozen while ``placement`` waits; None if it cannot be.
        time_limit: of the run.
        virtual: time is a count of instructions.
        replacement_for: what is sent instead of a test's own traffic (``--nfv-traffic``).
    """

    recorder: Recorder
    progress: Progress
    clock: Clock
    trials: dict[str, Trial] = field(default_factory=dict)
    streams: dict[str, StreamResult] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    profiles: dict[str, CpuProfile] = field(default_factory=dict)
    locations: RunLocations = field(default_factory=RunLocations)
    configures: dict[str, Callable[[Any], object] | None] = field(default_factory=dict)
    deployed_on: DeployedOn | None = None
    placement: PlacementWatch | None = None
    dut: Datapath | None = None
    time_limit: TimeLimit = field(default_factory=TimeLimit)
    virtual: bool = False
    retry_budget: RetryBudget = field(default_factory=RetryBudget)
    replacement_for: TrafficReplacement = as_it_is
    profiling: Profiling | None = None

    def begin_test(self) -> None:
        self.recorder.stopwatch.restart()
        for findings in (self.recorder.outcomes, self.recorder.verdicts, self.recorder.errors):
            findings.clear()
        self.time_limit.measured_until_s = math.inf
        for known in (self.trials, self.streams, self.others, self.profiles, self.locations, self.configures):
            known.clear()

    def finish_run(self, record: object, deployed_on: DeployedOn) -> str:
        """Record what is no trial and no stream, such as requests or a restart, and where it ran; the record's id."""
        run_id = self.recorder.emit(record)
        self.others.append(run_id)
        self.locations.ran(run_id, deployed_on)
        self.progress.trial_finished(None, True)
        return run_id


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial.

    Attributes:
        wall_s: seconds from call to counts.
        queue_frames: where drivers count them.
        offloaded: who handled its frames; None if nobody asked for hardware offload, or nobody can tell.
    """

    id: str
    result: TrialResult
    ledger: Ledger | None
    cost: Cost
    wall_s: float
    queue_frames: tuple[QueueFrames, ...] = ()
    offloaded: OffloadedFrames | None = None

    @property
    def certain_drops(self) -> int:
        """Frames that the DUT's own rules dropped, whatever the machine did."""
        if self.ledger is None:
            return 0
        return self.result.judgement.certain_drops(self.ledger.dropped(BY_FLOW), self.ledger.dropped(BY_RULE))

    def shows_a_fault(self) -> bool:
        """True if the DUT failed for certain, although the trial may be invalid: it dropped by rule, copied, ..."""
        wrong = (each.duplicated or each.misdirected or each.corrupted for each in self.result.counts)
        return self.result.judgement.counts_hold and (self.certain_drops > 0 or any(wrong))

    def lost_by_flows(self) -> bool:
        """True if the DUT's own flows dropped all that is missing: then it would be missing on a quiet machine, too."""
        return self.certain_drops > 0 and self.ledger is not None and self.ledger.dropped(BY_FLOW) >= self.result.lost


_Measure = TypeVar("_Measure", bound=Callable[..., MeasuredRun])


def timed(measure: _Measure) -> _Measure:
    """Count the time of a method for what it measured. Its object has a context."""

    @wraps(measure)
    def counted(self: Any, *args: Any, **more: Any) -> MeasuredRun:
        stopwatch: Stopwatch = self.context.recorder.stopwatch
        with stopwatch.of(Span.TRIALS):
            found = measure(self, *args, **more)
            warm_up = isinstance(found, Trial) and found.result.spec.purpose == "warm-up"
            stopwatch.kind = Span.WARM_UP if warm_up else Span.INVALID if found.result.invalid else Span.TRIALS
            return found

    return cast("_Measure", counted)


def _reasons_of_dut(
    result: TrialResult, changes: Sequence[CounterDelta], collectors: Sequence[Collector], began_ns: int
) -> tuple[InvalidReason, ...]:
    """Reasons by the DUT's counters, and by its links, of which each outage is named once."""
    outages = [outage for collector in collectors for outage in collector.outages(began_ns)]
    known = {f"{outage.port}{LINK_LOSSES}" for outage in outages}
    unknown = [change for change in changes if change.name not in known]
    # In a trial of an event the DUT may have been started again.
    fell = {change.name: -change.delta for change in unknown if change.went_back and result.spec.gap_s is None}
    links = (outage.reason("the DUT's", began_ns) for outage in outages)
    return (*links, *testbed_reasons(result, {change.name: change.delta for change in unknown}, fell))


def _without_own(result: TrialResult) -> TrialResult:
    """The same without reasons that the trial's own event caused."""
    if result.spec.gap_s is None:
        return result
    return replace(result, invalid=tuple(one for one in result.invalid if one.code not in OF_AN_EVENT))


def _received_by_dut(result: TrialResult, changes: Sequence[CounterDelta]) -> TrialResult:
    """Where the DUT keeps frames, count as received what its ports did; no latency, nor anything else of frames."""
    if result.spec.come_back != "never":
        return result
    moves = {change.name: change.delta for change in changes}

    def counted(of: DirectionCounts) -> DirectionCounts:
        if (received := moves.get(f"{of.direction.tx}.rx_packets")) is None:
            raise TestbedError(f"the DUT keeps frames, and does not count those that port {of.direction.tx!r} received")
        received = min(received, of.sent)
        received_bytes = of.sent_bytes * received // of.sent if of.sent else 0
        known = replace(of, received=received, received_bytes=received_bytes, latency=None, latency_raw=None)
        return replace(known, duplicated=None, out_of_order=None, corrupted=None, arrivals=None, elsewhere=None)

    windows = result.windows and replace(
        result.windows,
        threads=tuple(
            replace(thread, received=thread.sent, missing=(0,) * len(thread.missing))
            for thread in result.windows.threads
        ),
    )
    return replace(result, counts=tuple(map(counted, result.counts)), windows=windows, classes=())


@dataclass(eq=False)
class TrialRunner:
    """Runs trials on one live topology: counters around each, validity first, evidence of all.

    Attributes:
        collectors: are read before and after each trial, never during it.
        make_ledger: its ledger is None if the datapath has no counters.
        check_alive: raises TestbedError if the DUT died.
        repeats: of an invalid trial.
        pmd_cpus: number of CPUs of poll-mode threads, for Mpps per core; 0 if unknown.
        vnf_counts: of VNFs that are processes.
        alone: only the generator sends frames into the datapath: there are no VNFs.
        come_back: how the DUT returns frames.
        flush: removes what the DUT remembers of connections, before each trial.
    """

    generator: Generator
    collectors: Sequence[Collector]
    _: KW_ONLY
    make_ledger: LedgerMaker = lambda *_: None
    check_alive: Callable[[], None]
    context: Context
    repeats: int = 4
    pmd_cpus: int = 0
    vnf_counts: Callable[[], tuple[VnfCounts, ...]] = tuple
    alone: bool = False
    come_back: ComeBack = "as sent"
    flush: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.recorder = self.context.recorder
        self.progress = self.context.progress
        self.clock = self.context.clock
        self.retry_budget = self.context.retry_budget
        self.quiet_wait = QuietWait(self.clock, self.recorder.stopwatch)
        self._offloaded: list[OffloadedFrames] = []
        self._placement = self.context.placement or PlacementWatch((), StoredValue(), self.clock)

    def run(
        self,
        spec: TrialSpec,
        remaining_s: float | None = None,
        repeats: int | None = None,
        before: Callable[[], None] | None = None,
    ) -> Trial:
        """Run until one trial is valid, with at most ``repeats`` repeats, or the runner's own number if fewer.

        Trials that were invalid only because the host moved a CPU have a separate budget (``repeat_until_valid``).
        ``before`` is called before each trial, repeats included. InvalidTrialsError if none within the budget is valid;
        TestbedError if the generator or the DUT broke.
        """

        def measure(repeat_of: str | None) -> Trial:
            if before is not None:
                before()
            return self.run_once(spec, remaining_s, repeat_of=repeat_of)

        most = self.repeats if repeats is None else min(repeats, self.repeats)
        return repeat_until_valid(measure, most, self.context.time_limit)

    @timed
    def run_once(
        self,
        spec: TrialSpec,
        remaining_s: float | None = None,
        *,
        repeat_of: str | None = None,
        execute: Callable[[TrialSpec], TrialResult] | None = None,
        also: FurtherReasons | None = None,
        begins: Callable[[], None] | None = None,
        anywhere: bool = False,
    ) -> Trial:
        """Run one trial and record it, valid or not.

        ``execute``: runs it instead of ``run_trial``, and judges a long trial by intervals. ``also``: further reasons
        against the trial. ``begins``: called when the generator is about to send, which may be seconds later, after a
        wait for the host. ``anywhere``: the load is sustained wherever the CPUs are, so do not wait for the near band,
        and ignore moves. OutOfTimeError if the run ends before the trial would.
        """
        spec = replace(spec, come_back=self.come_back)
        self.context.time_limit.check(spec.lasts_s)
        self.progress.trial_started(spec.purpose, spec.load_text, spec.lasts_s, remaining_s)
        started, asleep_ns = self.clock.monotonic(), suspended_ns()
        own_cpu = time.process_time()
        distance_ns = self._settled(anywhere=anywhere)
        if spec.window_s is not None:
            # The DUT's polling threads come and go, so the generator's witnesses need them before each trial.
            self.generator.watch([poller for collector in self.collectors for poller in collector.pollers()])
        before, vnfs_before = [collector.snapshot() for collector in self.collectors], self.vnf_counts()
        if begins is not None:
            begins()
        began_ns = time.monotonic_ns()
        result = (execute or self.generator.run_trial)(spec)
        if execute is None:
            result = replace(result, invalid=(*result.invalid, *generator_reasons(result)))
        self.check_alive()
        after = [collector.snapshot() for collector in self.collectors]
        changes, vnfs = counter_deltas(before, after), counts_between(vnfs_before, self.vnf_counts())
        result = _received_by_dut(replace(result, vnfs=(*result.vnfs, *vnfs)), changes)
        result = self._with_distance(result, distance_ns, by_interval=execute is not None)
        ledger = self._ledger(result, before, after)
        against = _reasons_of_dut(result, changes, self.collectors, began_ns)
        against += (*unreceived(ledger.ends if ledger else ()), *suspend_reasons(suspended_ns() - asleep_ns))
        against += tuple(also(result, changes)) if also else ()
        result = _without_own(replace(result, invalid=(*result.invalid, *against)))
        trial_id = self.recorder.next_id(RecordKind.TRIAL)
        moves = {change.name: change.delta for change in changes}
        cost = trial_cost(result, moves, self.pmd_cpus, time.process_time() - own_cpu)
        wall_s = self.clock.monotonic() - started
        offloaded = offloaded_frames(trial_id, result.sent, result.received, moves, alone=self.alone)
        queues = frames_by_queue(moves)
        trial = Trial(trial_id, result, ledger, replace(cost, trial_id=trial_id), wall_s, queues, offloaded)
        self._keep(trial)
        if self.context.deployed_on is not None:
            self.context.locations.ran(trial.id, self.context.deployed_on)
        encode = self.recorder.encode
        record = trial_data(result, wall_s=wall_s, encode=encode, ledger=ledger, cost=trial.cost, repeat_of=repeat_of)
        self.recorder.emit(record, trial.id)
        self.progress.trial_finished(result.judgement.counted.loss_ratio, result.valid)
        self.quiet_wait.after(result)
        return trial

    def _settled(self, *, anywhere: bool) -> int | None:
        """Flush, and wait for near CPUs if the run can spare it; the round trip between generator and DUT, ns."""
        self.flush()
        if anywhere:
            return None
        with self.recorder.stopwatch.of(Span.WAITING):
            most_s = self.context.time_limit.spare_s * _WAITED
            return self._placement.settle(self.generator, self.context.dut, most_s)

    def _keep(self, trial: Trial) -> None:
        self.context.trials[trial.id] = trial
        if trial.offloaded is not None and trial.result.valid and trial.result.spec.purpose != "warm-up":
            self._offloaded.append(trial.offloaded)

    def take_offloaded(self) -> list[OffloadedFrames]:
        """Who handled the frames of the valid trials since the last call, warm-ups left out."""
        handled, self._offloaded = self._offloaded, []
        return handled

    def _with_distance(self, result: TrialResult, before_ns: int | None, *, by_interval: bool) -> TrialResult:
        """Add how far apart the CPUs were. ``by_interval``: the caller judges single intervals."""
        if before_ns is None:
            return result
        distance, moved = self._placement.look_again(self.generator, before_ns)
        result = replace(result, placement=distance)
        reasons = moved_reasons(result) if moved and not by_interval else ()
        return replace(result, invalid=(*result.invalid, *reasons))

    def _ledger(
        self, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
    ) -> Ledger | None:
        """Where frames went. Wait for drop counters that settle late only if frames are missing there."""
        if result.spec.gap_s is not None and any(change.went_back for change in counter_deltas(before, after)):
            return None  # the DUT was started again, and counts from 0
        ledger = self.make_ledger(result, before, after)
        missing = 0 if ledger is None else ledger.unnamed_in_datapath
        if missing:
            late = [
                collector.settled(early, snapshot, missing)
                for collector, early, snapshot in zip(self.collectors, before, after, strict=True)
            ]
            ledger = self.make_ledger(result, before, late)
        return None if ledger is None else with_classes(ledger, result)
