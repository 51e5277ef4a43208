"""One trial: counters before and after, the generator between them, and the record of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pytest_nfvperf.measure.clocks import SuspendWatch
from pytest_nfvperf.measure.cpu_placement import DeployedOn, NoRoundTrips, Placement, RunLocations
from pytest_nfvperf.measure.validity import (
    Patience,
    RepeatBudget,
    counter_deltas,
    generator_reasons,
    testbed_reasons,
    unreceived,
)
from pytest_nfvperf.measure.vnf_processes import counts_between
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.evidence.records import (
    KINDS,
    EncodeHistogram,
    ErrorData,
    RecordIds,
    RecordKind,
    make_record,
    trial_data,
)
from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot, Ledger
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile
from pytest_nfvperf.model.measure.outcome import Cost, Outcome
from pytest_nfvperf.model.measure.streams import StreamResult
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason, TrialResult, TrialSpec, VnfCounts
from pytest_nfvperf.ports.datapath import Collector, Freezing, KnowsPollers, Settling
from pytest_nfvperf.ports.evidence import Progress, Sink
from pytest_nfvperf.ports.generator import Generator, WatchesPollers
from pytest_nfvperf.ports.machine import Clock

# A killed process is gone from /proc thread by thread, and gives back its hugepages, before its status can be had.
_GRACE_S = 0.5
_STEP_S = 0.02

PAUSE_S = 1.3
"""Longer than the second in which periodic work of a kernel comes round."""

_NOT_WITHIN_S = 10.0
"""If a pause did not help, the disturbing thread does not move, and more pauses only take time."""

FurtherReasons = Callable[[TrialResult, Sequence[CounterDelta]], Sequence[InvalidReason]]
LedgerMaker = Callable[[TrialResult, Sequence[CounterSnapshot], Sequence[CounterSnapshot]], Ledger]


class Recorder:
    """Makes evidence records with readable ids of what happens in a run, and hands them to the sinks.

    Attributes:
        sinks: take every record in this order; the file comes first, so that what others show is on disk already.
        worker: "" or the xdist worker's name, which keeps ids of parallel workers apart.
        encode: makes the text of a trial's exact histograms.
        findings: of the running test; whoever starts a test clears it.
    """

    def __init__(
        self,
        run: str,
        sinks: Sequence[Sink],
        clock: Clock,
        worker: str = "",
        encode: EncodeHistogram | None = None,
    ) -> None:
        self.run = run
        self.encode = encode
        self.test = ""
        self.findings: list[Outcome | Verdict | ErrorData] = []
        self._sinks = tuple(sinks)
        self._clock = clock
        self._ids = RecordIds(worker)

    def next_id(self, kind: RecordKind) -> str:
        return self._ids.next(kind)

    def emit(self, payload: object, record_id: str | None = None) -> str:
        record = make_record(
            payload,
            id=record_id or self.next_id(KINDS[type(payload)]),
            run=self.run,
            test=self.test,
            time_ns=self._clock.time_ns(),
        )
        if isinstance(payload, (Outcome, Verdict, ErrorData)):
            self.findings.append(payload)
        for sink in self._sinks:
            sink.emit(record)
        return record.id

    def close(self) -> None:
        with ExitStack() as closing:
            for sink in reversed(self._sinks):
                closing.callback(sink.close)


def death_behind(error: TestbedError, check_alive: Callable[[], None], clock: Clock) -> TestbedError:
    """The death that ``check_alive`` finds within half a second; else the error itself.

    A process that died explains more than one that no longer answers.
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
    """Add logs to those that the error has already."""
    for name, text in logs.items():
        error.evidence.setdefault(name, text)


def trial_cost(result: TrialResult, changes: Mapping[str, int], pmd_cpus: int, own_cpu_s: float) -> Cost:
    """Cost of one trial, from counters around it (How we measure, rule 10).

    ``changes``: counter deltas by name; an absent counter gives an absent cost. ``pmd_cpus``: number of CPUs of
    poll-mode threads, 0 if unknown. ``own_cpu_s``: of the test process.
    """
    busy, idle = changes.get("pmd.cycles_busy"), changes.get("pmd.cycles_idle")
    packets = changes.get("pmd.packets_received")
    dut_ns, generator_ns = changes.get("vswitchd.cpu_ns"), changes.get("generator.cpu_ns")
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
    """Pauses after trials in which the DUT was kept off its CPU, so that the thread that took it wakes elsewhere.

    Nobody else's process is touched. Seen on two cores: a kernel thread that ran for 0.5 to 15 ms twice a second stayed
    on the PMD's CPU for minutes, and every trial at 4 Mpps lost frames: a thread that wakes while all CPUs poll stays
    where it last was. When it woke while the generator's CPU was idle it moved there, where it costs skipped frames
    only: 13 of 13 trials lost none.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = -math.inf

    def after(self, result: TrialResult) -> None:
        kept_off = any(reason.code is Reason.DUT_CPU_STOLEN for reason in result.invalid)
        if kept_off and self._clock.monotonic() - self._last_s >= _NOT_WITHIN_S:
            self.pause()

    def pause(self) -> None:
        self._clock.sleep(PAUSE_S)
        self._last_s = self._clock.monotonic()


@dataclass(frozen=True, slots=True)
class Context:
    """What every run needs around it.

    Attributes:
        trials, streams: of the running test, by id.
        others: ids of its requests and restarts.
        profiles: by the id of the run that was repeated under a profiler.
        places: the topology of each run.
        place: the topology that a runner of trials is for.
        placement: None if the DUT's CPUs are not known.
        dut: rests while ``placement`` waits; None if it cannot.
        virtual: time is a count of instructions.
    """

    recorder: Recorder
    progress: Progress
    clock: Clock
    trials: dict[str, Trial] = field(default_factory=dict)
    streams: dict[str, StreamResult] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    profiles: dict[str, CpuProfile] = field(default_factory=dict)
    places: RunLocations = field(default_factory=RunLocations)
    place: DeployedOn | None = None
    placement: Placement | None = None
    dut: Freezing | None = None
    virtual: bool = False
    patience: Patience = field(default_factory=Patience)

    def begin_test(self) -> None:
        for known in (self.trials, self.streams, self.others, self.profiles, self.places):
            known.clear()


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial. ``wall_s``: seconds from call to counts."""

    id: str
    result: TrialResult
    ledger: Ledger | None
    cost: Cost
    wall_s: float


class TrialRunner:
    """Runs trials on one live topology: counters around each, validity first, evidence of all.

    ``collectors`` are read before and after each trial, never during it. ``make_ledger``: None if the datapath has no
    counters. ``check_alive``: raises TestbedError if the DUT died. ``repeats``: of an invalid trial. ``pmd_cpus``: of
    poll-mode threads, for Mpps per core; 0 if unknown. ``vnf_counts``: of VNFs that are processes.
    """

    def __init__(
        self,
        generator: Generator,
        collectors: Sequence[Collector],
        *,
        make_ledger: LedgerMaker | None,
        check_alive: Callable[[], None],
        context: Context,
        repeats: int = 4,
        pmd_cpus: int = 0,
        vnf_counts: Callable[[], tuple[VnfCounts, ...]] = tuple,
    ) -> None:
        self.recorder = context.recorder
        self.progress = context.progress
        self.clock = context.clock
        self.patience = context.patience
        self.quiet_wait = QuietWait(context.clock)
        self._trials = context.trials
        self._places = context.places
        self._place = context.place
        self._generator = generator
        self._collectors = tuple(collectors)
        self._make_ledger = make_ledger
        self._check_alive = check_alive
        self._repeats = repeats
        self._pmd_cpus = pmd_cpus
        self._vnf_counts = vnf_counts
        self._dut = context.dut
        self._placement = context.placement or Placement((), NoRoundTrips(), context.clock)

    def run(
        self,
        spec: TrialSpec,
        remaining_s: float | None = None,
        repeats: int | None = None,
        before: Callable[[], None] | None = None,
    ) -> Trial:
        """Run until one trial is valid, with at most ``repeats`` repeats, or the runner's own number if fewer.

        Trials that were invalid only because the host moved a CPU have a budget of their own (``RepeatBudget``).
        ``before`` is called before each trial, the repeats too. InvalidTrialsError for none within the budget;
        TestbedError if the generator or the DUT broke.
        """
        budget = RepeatBudget(self._repeats if repeats is None else min(repeats, self._repeats))
        while True:
            if before is not None:
                before()
            trial = self.run_once(spec, remaining_s, repeat_of=budget.last)
            if trial.result.valid:
                return trial
            budget.spend(trial)

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
        against the trial. ``begins``: called when the generator is about to send: a trial may first wait for the host,
        for seconds. ``anywhere``: the load is sustained wherever the CPUs are: nothing waits for the near band, and a
        move does not matter.
        """
        self.progress.trial_started(spec.purpose, spec.load_fps, spec.duration_s, remaining_s)
        started, suspends = self.clock.monotonic(), SuspendWatch()
        own_cpu = time.process_time()
        distance_ns = None if anywhere else self._placement.settle(self._generator, self._dut)
        self._watch_pollers(spec)
        before, vnfs_before = [collector.snapshot() for collector in self._collectors], self._vnf_counts()
        if begins is not None:
            begins()
        result = (execute or self._generator.run_trial)(spec)
        if execute is None:
            result = replace(result, invalid=(*result.invalid, *generator_reasons(result)))
        self._check_alive()
        after, vnfs = (
            [collector.snapshot() for collector in self._collectors],
            counts_between(vnfs_before, self._vnf_counts()),
        )
        changes = counter_deltas(before, after)
        result = self._placed(replace(result, vnfs=(*result.vnfs, *vnfs)), distance_ns, by_interval=execute is not None)
        ledger = self._ledger(result, before, after)
        against = (*testbed_reasons(result, changes), *unreceived(ledger), *suspends.reasons())
        against = (*against, *(also(result, changes) if also else ()))
        result = replace(result, invalid=(*result.invalid, *against))
        trial_id = self.recorder.next_id(RecordKind.TRIAL)
        moves = {change.name: change.delta for change in changes}
        cost = trial_cost(result, moves, self._pmd_cpus, time.process_time() - own_cpu)
        wall_s = self.clock.monotonic() - started
        trial = Trial(trial_id, result, ledger, replace(cost, trial_id=trial_id), wall_s)
        self._trials[trial.id] = trial
        if self._place is not None:
            self._places.ran(trial.id, self._place)
        encode = self.recorder.encode
        record = trial_data(result, wall_s=wall_s, encode=encode, ledger=ledger, cost=trial.cost, repeat_of=repeat_of)
        self.recorder.emit(record, trial.id)
        self.progress.trial_finished(result.own_loss_ratio, result.valid)
        self.quiet_wait.after(result)
        return trial

    def _watch_pollers(self, spec: TrialSpec) -> None:
        """Tell the generator's witnesses the DUT's polling threads, which come and go."""
        if spec.window_s is not None and isinstance(self._generator, WatchesPollers):
            known = (collector for collector in self._collectors if isinstance(collector, KnowsPollers))
            self._generator.watch([poller for collector in known for poller in collector.pollers()])

    def _placed(self, result: TrialResult, before_ns: int | None, *, by_interval: bool) -> TrialResult:
        """Add how far apart the CPUs were. ``by_interval``: its caller judges single intervals."""
        if before_ns is None:
            return result
        placed, moved = self._placement.judge(self._generator, before_ns)
        # Windows in which the CPUs were far apart are not judged, so a move does not matter to those that are.
        reasons = (moved,) if moved and not by_interval and result.judged_windows is None else ()
        return replace(result, placement=placed, invalid=(*result.invalid, *reasons))

    def _ledger(
        self, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
    ) -> Ledger | None:
        """Where frames went. Drop counters that settle late are waited for only if frames are missing there."""
        if self._make_ledger is None:
            return None
        first = self._make_ledger(result, before, after)
        missing = first.unnamed_in_datapath
        if not missing:
            return first
        late = [
            collector.settled(early, missing) if isinstance(collector, Settling) else snapshot
            for collector, early, snapshot in zip(self._collectors, before, after, strict=True)
        ]
        return self._make_ledger(result, before, late)
