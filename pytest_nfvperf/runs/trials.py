"""Runs trials: counters around each, validity first, repeats of invalid ones, evidence of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pytest_nfvperf.model.evidence.records import RecordKind, trial_data
from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot, Ledger
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile
from pytest_nfvperf.model.measure.outcome import Cost
from pytest_nfvperf.model.measure.stream_measurement import StreamResult
from pytest_nfvperf.model.traffic.trial import InvalidReason, TrialResult, TrialSpec, VnfCounts
from pytest_nfvperf.ports.datapath import Collector, Freezing, KnowsPollers, Settling
from pytest_nfvperf.ports.evidence import Progress
from pytest_nfvperf.ports.generator import Generator, WatchesPollers
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.runs.calm import Calm
from pytest_nfvperf.runs.clocks import SuspendWatch
from pytest_nfvperf.runs.cost import trial_cost
from pytest_nfvperf.runs.invalid_trials import RepeatBudget
from pytest_nfvperf.runs.patience import Patience
from pytest_nfvperf.runs.placement import ForgottenRoundTrips, Placement
from pytest_nfvperf.runs.places import DeployedOn, Places
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.runs.trial_validity import counter_deltas, generator_reasons, testbed_reasons, unreceived
from pytest_nfvperf.runs.vnf_processes import moved


@dataclass(frozen=True, slots=True)
class Context:
    """What every run needs around it.

    ``trials``, ``streams``: the running test's, by id; ``others``: ids of its requests and restarts. ``profiles``: by
    the id of the run that was done once more under a profiler. ``places``: the topology of each run. ``place``: of the
    topology that a runner of trials is for. ``placement``: None where the DUT's CPUs are not known. ``dut``: rests
    while ``placement`` waits; None where it cannot. ``virtual``: time is a count of instructions.
    """

    recorder: Recorder
    progress: Progress
    clock: Clock
    trials: dict[str, Trial] = field(default_factory=dict)
    streams: dict[str, StreamResult] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    profiles: dict[str, CpuProfile] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    place: DeployedOn | None = None
    placement: Placement | None = None
    dut: Freezing | None = None
    virtual: bool = False
    patience: Patience = field(default_factory=Patience)

    def begin_test(self) -> None:
        for known in (self.trials, self.streams, self.others, self.profiles, self.places):
            known.clear()


FurtherReasons = Callable[[TrialResult, Sequence[CounterDelta]], Sequence[InvalidReason]]
LedgerMaker = Callable[[TrialResult, Sequence[CounterSnapshot], Sequence[CounterSnapshot]], Ledger]


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial with what surrounded it. ``wall_s``: seconds from call to counts."""

    id: str
    result: TrialResult
    ledger: Ledger | None
    cost: Cost
    wall_s: float


class TrialRunner:
    """Runs trials on one live topology.

    ``collectors`` are read before and after each trial, never during it. ``make_ledger``: None when the datapath has no
    counters. ``check_alive``: raises TestbedError when the DUT died. ``repeats``: of an invalid trial. ``pmd_cpus``: of
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
        self.calm = Calm(context.clock)
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
        self._placement = context.placement or Placement((), ForgottenRoundTrips(), context.clock)

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
        TestbedError where the generator or the DUT broke.
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

        ``execute``: another way than ``run_trial``. ``also``: further reasons against the trial. ``begins``: called
        when the generator is about to send: a trial may first wait for the host, for seconds. ``anywhere``: the load is
        sustained wherever the CPUs are: nothing waits for the near band, and a move does not matter.
        """
        self.progress.trial_started(spec.purpose, spec.load_fps, spec.duration_s, remaining_s)
        started, suspends = self.clock.monotonic(), SuspendWatch()
        own_cpu = time.process_time()
        apart = None if anywhere else self._placement.settle(self._generator, self._dut)
        self._watch(spec)
        before, vnfs_before = [collector.snapshot() for collector in self._collectors], self._vnf_counts()
        if begins is not None:
            begins()
        result = (execute or self._generator.run_trial)(spec)
        if execute is None:  # who watches a long trial by intervals judges those
            result = replace(result, invalid=(*result.invalid, *generator_reasons(result)))
        self._check_alive()
        after, vnfs = [collector.snapshot() for collector in self._collectors], moved(vnfs_before, self._vnf_counts())
        changes = counter_deltas(before, after)
        result = self._placed(replace(result, vnfs=(*result.vnfs, *vnfs)), apart, watched=execute is not None)
        ledger = self._ledger(result, before, after)
        told = (*testbed_reasons(result, changes), *unreceived(ledger), *suspends.reasons())
        told = (*told, *(also(result, changes) if also else ()))
        result = replace(result, invalid=(*result.invalid, *told))
        trial_id = self.recorder.next_id(RecordKind.TRIAL)
        moves = {change.name: change.delta for change in changes}
        trial = Trial(
            id=trial_id,
            result=result,
            ledger=ledger,
            cost=replace(trial_cost(result, moves, self._pmd_cpus, time.process_time() - own_cpu), trial_id=trial_id),
            wall_s=self.clock.monotonic() - started,
        )
        self._trials[trial.id] = trial
        if self._place is not None:
            self._places.ran(trial.id, self._place)
        self._record(trial, repeat_of)
        self.progress.trial_finished(result.own_loss_ratio, result.valid)
        self.calm.after(result)
        return trial

    def _watch(self, spec: TrialSpec) -> None:
        """Give a generator that dates disturbances the DUT's polling threads: they come and go."""
        if spec.window_s is None or not isinstance(self._generator, WatchesPollers):
            return
        known = (collector for collector in self._collectors if isinstance(collector, KnowsPollers))
        self._generator.watch([poller for collector in known for poller in collector.pollers()])

    def _placed(self, result: TrialResult, before_ns: int | None, *, watched: bool) -> TrialResult:
        """With where the CPUs were. Who watches a long trial by intervals judges those: one move does not spoil all."""
        if before_ns is None:
            return result
        placed, moved = self._placement.judge(self._generator, before_ns)
        # What was sent while the CPUs were far apart is no part of what is judged where enough is dated.
        reasons = (moved,) if moved and not watched and result.dated is None else ()
        return replace(result, placement=placed, invalid=(*result.invalid, *reasons))

    def _ledger(
        self, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
    ) -> Ledger | None:
        """Where frames went; drop counters that settle late are waited for only when frames are missing there."""
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

    def _record(self, trial: Trial, repeat_of: str | None) -> None:
        data = trial_data(
            trial.result,
            wall_s=trial.wall_s,
            encode=self.recorder.encode,
            ledger=trial.ledger,
            cost=trial.cost,
            repeat_of=repeat_of,
        )
        self.recorder.emit(data, trial.id)
