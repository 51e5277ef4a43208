"""A soak: hours at one load, sampled in windows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pytest_nfvperf.measure.call_arguments import DurationS, Live, LoadFps, Sent, check_live, check_load
from pytest_nfvperf.measure.load_series import share_after, with_trials
from pytest_nfvperf.measure.measurer import WINDOW_S, measured_labels, window_s
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import format_fps, format_seconds
from pytest_nfvperf.model.disturbance.trial import AttributedInterval, TrialResult, attributed_intervals, load_too_high
from pytest_nfvperf.model.errors import DutFailure, InconclusiveError, TestbedError
from pytest_nfvperf.model.evidence.records import RecordKind, SoakData
from pytest_nfvperf.model.measure.bounds import completed, of_connections, soak_figures, soak_missing, with_offload
from pytest_nfvperf.model.measure.outcome import Outcome, SearchStatus
from pytest_nfvperf.model.measure.profile import S1_SOAK_FPS, Profile
from pytest_nfvperf.model.measure.soak import MOST_DISTURBED, Gap, Soak, SoakLoad
from pytest_nfvperf.model.measure.soak_series import (
    SESSION_UP,
    TIME,
    SoakPlan,
    SoakTable,
    fitting_interval_s,
    series,
    summarise,
)
from pytest_nfvperf.model.traffic.histogram import IntervalCounts, TrialProgress
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.datapath import Sampler, SamplerReading
from pytest_nfvperf.ports.generator import RunningTrial
from pytest_nfvperf.ports.machine import OpenSamples, SamplesSink, Signals, TakeSignals

_COUNTED = ("sent", "refused", "skipped", "received", "lost", "duplicated", "out_of_order", "corrupted")
_LATENCIES = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
_RIG = ("rig.absent_ns", "rig.longest_poll_gap_ns")
OWN_CPU = "collector.cpu_ns"
"""Column: CPU time of this process within the interval: the cost of sampling."""

MOST_SOAK_WINDOWS = 90_000
"""Windows by which losses are attributed. In soaks of up to 15 minutes they have 10 ms, in longer ones more."""

_PLANNED_STEPS = 60

_LOOK_AT, _MOST_TROUBLED, _WORTH_LOOKING = 15, 0.5, 2
"""From the first number of intervals up to twice as many, a soak is given up if more than this share lost frames or
were disturbed, and a lower load is left to start again with. Only soaks of twice the first number are given up."""

_SHORT_S = 60.0
"""A soak of up to this many seconds that the rig disturbed is repeated: see ``_next_try``."""

_MOST_SAMPLING, _FEWEST_INTERVALS = 0.01, 12
"""If sampling took a larger share of a CPU in a soak that the rig disturbed, the next one samples less often, but for
so many intervals at least, as trends need. A sample takes 20 ms, and as much of OVS's main thread; 100 ms on a host
that takes away memory that was not used for a second. On two cores the generator skips all frames that are due then,
and what the host takes comes on top of it."""

_GIVEN_UP = "too many intervals lost frames, or were disturbed, to go on with; another begins"

_LATE_SHARE = 0.5
"""If an interval ended longer ago than this share of its length, samplers are not read for it."""


@dataclass(slots=True)
class _Source:
    """A sampler and its last reading; ``silent_since``: since when it has given none, and why."""

    sampler: Sampler
    last: SamplerReading
    silent_since: tuple[float, str] | None = None


class _Rows:
    """Makes one row of samples an interval: the counts of the generator, and the readings of each sampler.

    A sampler that fails is read again for the next row; the time between is one of ``gaps``.
    """

    def __init__(self, directions: Sequence[Direction], samplers: Sequence[Sampler]) -> None:
        """Take the first reading of all samplers; TestbedError if one does not answer."""
        self.gaps: list[Gap] = []
        self._directions = directions
        self._sources = [_Source(sampler, sampler.read()) for sampler in samplers]
        self._before = tuple(TrialProgress() for _ in directions)
        self._absent_ns = 0
        sampled = [name for source in self._sources for name in (*source.last.counters, *source.last.gauges)]
        own = [f"{direction}.{name}" for direction in directions for name in (*_COUNTED, *_LATENCIES)]
        self.columns = tuple(dict.fromkeys([*own, *_RIG, *sampled, OWN_CPU]))
        self._own_cpu_ns = time.process_time_ns()

    def row(self, interval: IntervalCounts, late: str = "") -> dict[str, float]:
        """The row of an interval; ``late``: why its end is too long ago to read samplers for it."""
        at_s = interval.at_ns / 1e9
        row: dict[str, float] = {TIME: at_s, **self._generator_counts(interval)}
        for source in self._sources:
            row |= self._read(source, at_s, late)
        now = time.process_time_ns()
        row[OWN_CPU], self._own_cpu_ns = float(now - self._own_cpu_ns), now
        return row

    def end(self, at_s: float) -> None:
        for source in self._sources:
            self._close_gap(source, at_s)

    def _generator_counts(self, interval: IntervalCounts) -> dict[str, float]:
        row: dict[str, float] = {}
        for direction, now, before in zip(self._directions, interval.directions, self._before, strict=True):
            row |= {f"{direction}.{name}": getattr(now, name) - getattr(before, name) for name in _COUNTED}
            if now.latency is not None and now.latency.samples:
                row |= {f"{direction}.{name}": getattr(now.latency, name) for name in _LATENCIES}
        row["rig.absent_ns"] = interval.absent_ns - self._absent_ns
        row["rig.longest_poll_gap_ns"] = interval.longest_poll_gap_ns
        self._before, self._absent_ns = interval.directions, interval.absent_ns
        return row

    def _read(self, source: _Source, at_s: float, late: str) -> Mapping[str, float]:
        try:
            reading = None if late else source.sampler.read()
        except TestbedError as error:
            reading, late = None, error.message
        if reading is None:
            source.silent_since = source.silent_since or (at_s, late)
            return {}
        self._close_gap(source, at_s)
        risen = {name: now - source.last.counters.get(name, 0) for name, now in reading.counters.items()}
        # If a counter fell, its source was restarted, and nobody knows how much it counted until then.
        known = {name: float(rise) for name, rise in risen.items() if rise >= 0 and name in source.last.counters}
        source.last = reading
        return {**known, **reading.gauges}

    def _close_gap(self, source: _Source, at_s: float) -> None:
        if source.silent_since is not None:
            since, why = source.silent_since
            self.gaps.append(Gap(source.sampler.name, since, at_s, why))
            source.silent_since = None


@dataclass(slots=True)
class _RunningSoak:
    """What a running soak has collected.

    Attributes:
        interrupted: why it ended early.
        lost: frames until row ``counted_rows``, in disturbed intervals too.
        look_at: from how many intervals on it gives up if too many are in trouble; None: never.
    """

    plan: SoakPlan
    table: SoakTable
    rows: _Rows
    file: SamplesSink
    interrupted: str = ""
    faults: list[str] = field(default_factory=list)
    counted_rows: int = 0
    lost: float = 0.0
    attributed: Mapping[int, AttributedInterval] = field(default_factory=dict)
    look_at: int | None = None
    given_up: bool = False

    def gives_up(self) -> bool:
        """True if most intervals lost frames or are disturbed. Only the end of the trial shows whose loss it was."""
        if self.look_at is None or not self.look_at <= len(self.table) < 2 * self.look_at:
            return False
        so_far = self.summary()
        self.given_up = so_far.disturbed_count + so_far.lossy_count > _MOST_TROUBLED * so_far.intervals
        return self.given_up

    def elapsed_s(self) -> float:
        return self.table.column(TIME)[-1] if len(self.table) else 0.0

    def ended(self) -> str:
        return f"ended after {format_seconds(self.elapsed_s())} of {format_seconds(self.plan.duration_s)}"

    def progress_line(self) -> str:
        """``34.0 s of 60.0 s · 4.00 Mpps · 0 lost · sessions 2 of 2 up``."""
        table, last = self.table, len(self.table) - 1
        self.lost += table.total(".lost", range(self.counted_rows, len(table)))
        self.counted_rows = len(table)
        rate = table.total(".received", [last]) / table.span_s(last) / self.plan.directions
        parts = [
            f"{format_seconds(self.elapsed_s())} of {format_seconds(self.plan.duration_s)}",
            f"{format_fps(rate)} per direction",
            f"{round(self.lost):,} lost",
        ]
        sessions = table.matching(SESSION_UP)
        if sessions:
            up = sum(table.column(name)[last] == 1 for name in sessions)
            parts.append(f"{up} of {len(sessions)} sessions up")
        return " · ".join(parts)

    def summary(self) -> Soak:
        gaps, elapsed_s = [*self.rows.gaps], self.elapsed_s()
        if self.file.failed is not None:
            why, rows = self.file.failed
            gaps.append(Gap("samples file", 0.0, elapsed_s, f"{rows} rows are not on disk: {why}"))
        return summarise(
            self.table,
            self.plan,
            gaps,
            self.interrupted,
            self.faults,
            sampling_cores=self.table.total(OWN_CPU) / 1e9 / elapsed_s if elapsed_s else None,
            attributed=self.attributed,
        )


@dataclass(slots=True, eq=False)
class Soaker:
    """The fixture ``soak``: soaks of one test.

    Attributes:
        open_samples: None for a plan: nothing is written, and the time passes in few steps.
        take_signals: takes the process's signals while a soak runs.
        interrupted: called when a signal ended a soak.
        loads: frames/s per direction for the requested load or None, and lower ones to use if the rig disturbs a soak.
    """

    profile: Profile
    labels: Mapping[str, str]
    context: Context
    open_samples: OpenSamples | None
    take_signals: TakeSignals
    interrupted: Callable[[str], None]
    loads: Callable[[LiveTopology, AnyTraffic, float | None], Sequence[float]]

    @checked("soak.run")
    def run(
        self,
        live: Live,
        traffic: Sent,
        load_fps: LoadFps | None = None,
        duration_s: DurationS | None = None,
        also: Sequence[Sampler] = (),
    ) -> Outcome:
        """Run a soak and summarise it. It is in the evidence, however it ends.

        Args:
            live: the topology to measure on.
            traffic: what to send.
            load_fps: frames/s per direction; None: the user's, or S1's: see ``find_loads``.
            duration_s: the profile's ``soak_s`` if not given.
            also: further samplers, such as those of routing sessions.

        Raises:
            ConfigError: the generator cannot report intervals, or the load is no number of frames.
            InconclusiveError: the rig does not sustain this load, or no load could be found.
            DutFailure: the load is a share of the NDR, and the DUT has none.
            TestbedError: generator or DUT broke; the evidence has the samples until then.
        """
        traffic = self.context.replacement_for(traffic)
        check_live("soak.run", live, traffic)
        loads = self.loads(live, traffic, load_fps)
        started, length_s = self.context.clock.monotonic(), duration_s or self.profile.soak_s
        residual_s, window_s = self.profile.rfc2544_residual_s, max(WINDOW_S, length_s / MOST_SOAK_WINDOWS)
        sample_s = self.profile.soak_sample_s
        while True:
            spec = trial_spec(live, traffic, loads[0], length_s, "soak", residual_s=residual_s, window_s=window_s)
            watched, trial_id = self._soak_at(live, spec, also, sample_s, may_give_up=len(loads) > 1)
            soak = watched.summary()
            following = _next_try(loads, sample_s, soak, given_up=watched.given_up)
            if following is None or length_s > self.context.time_limit.spare_s:
                break
            loads, sample_s = following
        outcome = Outcome(
            labels=tuple(sorted({**self.labels, **measured_labels(live, traffic)}.items())),
            algorithm="soak",
            mean_frame_size=traffic.mean_frame_size,
            directions=len(spec.directions),
            trials=(trial_id,),
            elapsed_s=self.context.clock.monotonic() - started,
            soak=soak,
            figures=tuple(soak_figures(soak, (trial_id,))),
            missing=soak_missing(soak),
        )
        outcome = with_offload(outcome, share_after(live, self.labels))
        outcome = completed(of_connections(with_trials(outcome, traffic, [self.context.trials[trial_id]]), traffic))
        self.context.recorder.emit(outcome)
        return outcome

    def _soak_at(
        self, live: LiveTopology, spec: TrialSpec, also: Sequence[Sampler], sample_s: float, *, may_give_up: bool
    ) -> tuple[_RunningSoak, str]:
        live.learn(spec.traffic)
        live.runner.run_once(
            replace(spec, duration_s=min(self.profile.warmup_s, spec.duration_s), purpose="warm-up"), spec.duration_s
        )
        live.runner.quiet_wait.pause()  # a thread that is on the PMD's CPU now would be there until the end
        name = f"samples-{self.context.recorder.next_id(RecordKind.SOAK)}.jsonl"
        rows = _Rows(spec.directions, (*live.deployment.samplers, *also))
        interval_s = fitting_interval_s(spec.duration_s, sample_s, len(rows.columns))
        file = SamplesSink()
        if self.open_samples is None:
            interval_s = max(interval_s, spec.duration_s / _PLANNED_STEPS)
        else:
            about = {"labels": self.labels, "load_fps": spec.load_fps, "interval_s": interval_s}
            file = self.open_samples(name, rows.columns, math.ceil(spec.duration_s / interval_s) + 2, about)
        plan = SoakPlan(spec.load_fps, len(spec.directions), spec.duration_s, interval_s, most_skipped=0.0)
        watched = _RunningSoak(plan, SoakTable(rows.columns), rows, file)
        if may_give_up and spec.duration_s / interval_s >= _WORTH_LOOKING * _LOOK_AT:
            watched.look_at = _LOOK_AT
        try:
            return watched, self._soak(live, spec, watched)
        finally:
            file.close()

    def _soak(self, live: LiveTopology, spec: TrialSpec, watched: _RunningSoak) -> str:
        """Run the trial and return its id. The samples are in ``watched`` and on record, however it ends."""
        with self.take_signals() as signals:
            try:
                trial = live.runner.run_once(
                    spec, spec.duration_s, execute=lambda spec: self._watch(live, spec, watched, signals)
                )
            except TestbedError as error:
                watched.interrupted = watched.interrupted or f"{watched.ended()}: {error.message}"
                self._record("", watched)
                raise
        watched.attributed = attributed_intervals(trial.result, map(watched.table.times_s, range(len(watched.table))))
        watched.faults += [str(reason) for reason in trial.result.invalid if not reason.counts_hold]
        self._record(trial.id, watched)
        if signals.asked:
            watched.given_up = False  # no soak at a lower load follows
            self.interrupted(signals.asked)
        return trial.id

    def _watch(self, live: LiveTopology, spec: TrialSpec, watched: _RunningSoak, signals: Signals) -> TrialResult:
        running = live.runner.generator.start_trial(spec, watched.plan.interval_s)

        def stop_quietly() -> None:
            with suppress(TestbedError):  # the next interval reports what is broken
                running.stop()

        signals.stop = stop_quietly  # at once, rather than at the end of the interval
        watched.plan = replace(watched.plan, most_skipped=running.most_skipped)
        try:
            self._take_rows(live, running, watched, signals)
        except BaseException:
            running.abandon()
            raise
        result = running.result()
        # Each interval is judged by its own skipped frames and windows.
        return replace(result, invalid=tuple(one for one in result.invalid if not one.counts_hold))

    def _take_rows(self, live: LiveTopology, running: RunningTrial, watched: _RunningSoak, signals: Signals) -> None:
        earliest_s = math.inf  # the least time from the end of an interval to this look at it
        while (interval := running.next_interval()) is not None:
            delay_s = self.context.clock.monotonic() - interval.at_ns / 1e9
            earliest_s = min(earliest_s, delay_s)
            lag_s = delay_s - earliest_s
            late = f"the collector was {lag_s:.1f} s late" if lag_s > _LATE_SHARE * watched.plan.interval_s else ""
            row = watched.rows.row(interval, late)
            if not len(watched.table) or row[TIME] > watched.table.column(TIME)[-1]:
                watched.table.add(row)
                watched.file.add(row)
            live.deployment.check_alive()
            self.context.progress.soaking(watched.progress_line())
            if signals.asked and not watched.interrupted:
                watched.interrupted = f"{watched.ended()} by {signals.asked}"
                running.stop()
            elif not watched.interrupted and watched.gives_up():
                watched.interrupted = f"{watched.ended()}: {_GIVEN_UP}"
                running.stop()
        watched.rows.end(watched.elapsed_s())

    def _record(self, trial_id: str, watched: _RunningSoak) -> None:
        name, written = watched.file.name, watched.file.written
        self.context.recorder.emit(SoakData(trial_id, name, written, watched.summary(), series(watched.table)))


def _next_try(
    loads: Sequence[float], sample_s: float, soak: Soak, *, given_up: bool
) -> tuple[Sequence[float], float] | None:
    """Loads and time between samples of the soak that follows; None if this one was the last.

    ``given_up``: it ended early because of its troubles. One that ended by a signal, or with the testbed, is the last.
    """
    disturbed = _disturbed_by_rig(soak)
    if not given_up and (not disturbed or soak.interrupted or soak.planned_s > _SHORT_S):
        return None
    share = soak.sampling_cores or 0.0
    if disturbed and share > _MOST_SAMPLING and not soak.gap_count:  # a DUT that hung may have made the gap
        longest_s = soak.planned_s / _FEWEST_INTERVALS
        rarer_s = min(sample_s * math.ceil(share / (_MOST_SAMPLING / 2)), longest_s)
        if rarer_s > sample_s:
            return loads, rarer_s
    if disturbed and len(loads) > 1:
        return loads[1:], sample_s
    return (loads[:1], sample_s) if given_up else None


def _disturbed_by_rig(soak: Soak) -> bool:
    """Whether another soak may judge better: none may hide that the DUT itself lost frames, or a session."""
    return soak.disturbed_ratio > MOST_DISTURBED and not (soak.lossy_count or soak.flap_count)


# The load of a soak: the requested one, the part of S1's that this machine sustains, or a share of the NDR.

_LOADS = (S1_SOAK_FPS, S1_SOAK_FPS / 2, S1_SOAK_FPS / 4)
"""A soak takes the first of these that the machine sustains, starting with the profile's. A soak is about time: at a
load that a shared machine sustains only now and then, most of it would be inconclusive."""

_TRY_S = 1.0
_TRIES, _WITHOUT_LOSS = 4, 3
_SHARE = 0.8
"""Of the NDR, if all of these loads are too high."""


def find_loads(load: SoakLoad, live: LiveTopology, traffic: AnyTraffic, search: Search) -> tuple[float, ...]:
    """The load, and lower ones to use in turn if the rig disturbs a soak at it; frames/s per direction.

    A requested load is never replaced. InconclusiveError if the load is above what the rig itself sustains, or no NDR
    could be found; DutFailure if the DUT has no NDR.
    """
    if load.fps is not None:
        check_load("soak.run", traffic, load.fps, _TRY_S)
        _refuse_beyond_rig(load.fps, live, traffic, search)
        return (load.fps,)
    if load.ndr_share is None:
        loads = tuple(fps for fps in _LOADS if fps <= search.profile.soak_fps)
        for number, fps in enumerate(loads):
            tried = _tried_at(fps, live, traffic, search)
            if _sustained(tried):
                return loads[number:]
        # A machine that others use may lose frames, too: a soak at a low load may still be conclusive.
        if tried and not any(
            result.judgement.inconclusive is None and result.judgement.counted.lost > 0 for result in tried
        ):
            return _LOADS[-1:]
    ndr = ndr_to_share(live, traffic, search, "give a load, --nfv-soak-load '1 Mpps'")
    return (min(ndr * _SHARE, _LOADS[-1]) if load.ndr_share is None else ndr * load.ndr_share,)


def ndr_to_share(live: LiveTopology, traffic: AnyTraffic, search: Search, instead: str) -> float:
    """The NDR that a load is a share of, frames/s per direction; ``instead``: advice if there is none.

    InconclusiveError if the rig let none be found; DutFailure if the DUT loses frames even at the lowest load.
    """
    outcome = search.ndr_pdr(live, traffic)
    goal = outcome.goal("ndr")
    ndr = goal.reported_fps if goal is not None else None
    if ndr is not None:
        return ndr
    ceiling = f", the rig's own ceiling is {format_fps(outcome.ceiling_fps)}" if outcome.ceiling_fps else ""
    tried = f"{len(outcome.trials)} trials{ceiling}"
    if goal is not None and goal.status is SearchStatus.BELOW_MINIMUM:
        raise DutFailure(f"the load is a share of the NDR, and the DUT has none: {goal.detail} ({tried})")
    why = goal.detail if goal is not None and goal.detail else "the search ended without one"
    raise InconclusiveError(
        f"the load is a share of the NDR, and no NDR could be found ({tried}): {why}. Try again on a quieter "
        f"machine, or {instead}"
    )


def _refuse_beyond_rig(load_fps: float, live: LiveTopology, traffic: AnyTraffic, search: Search) -> None:
    """Refuse a load above the rig's ceiling: there the rig loses frames itself, and its loss looks like the DUT's.

    A cached ceiling may be another day's. So measure it again if it is below the load, or if the generator falls behind
    although it is not.
    """
    ceiling = search.ceiling_fps(live, traffic)
    if ceiling is None:
        return
    if load_fps <= ceiling:
        # The generator falls behind at this load only if it says so in every trial.
        trials = _short_trials(load_fps, live, traffic)
        if not all(load_too_high(result.invalid) for result in trials):
            return
    today = search.ceiling_fps(live, traffic, remeasured=True)
    if today is None or load_fps <= today:
        return
    raise InconclusiveError(
        f"the load of {format_fps(load_fps)} per direction is above what the rig itself sustains today, "
        f"{format_fps(today)}: what is lost at it may be the rig's loss. Soak at less (--nfv-soak-load "
        f"'{format_fps(today * _SHARE)}'), or give the generator a CPU of its own"
    )


def _tried_at(load_fps: float, live: LiveTopology, traffic: AnyTraffic, search: Search) -> list[TrialResult]:
    """Run a few short trials until the load is known to be too high; none above the rig's ceiling."""
    ceiling = search.ceiling_fps(live, traffic)
    tried: list[TrialResult] = []
    if ceiling is not None and load_fps > ceiling:
        return tried
    for result in _short_trials(load_fps, live, traffic):
        tried.append(result)
        if len(tried) == _TRIES or not _sustained(tried):
            break
    return tried


def _sustained(tried: Sequence[TrialResult]) -> bool:
    """True if most of the trials lost nothing: a single stall of the host is no reason for a lower load."""
    lossy = sum(result.lost > 0 or load_too_high(result.invalid) for result in tried)
    return bool(tried) and lossy <= _TRIES - _WITHOUT_LOSS


def _short_trials(load_fps: float, live: LiveTopology, traffic: AnyTraffic) -> Iterator[TrialResult]:
    live.learn(traffic)
    spec = trial_spec(live, traffic, load_fps, _TRY_S, "load for the soak", window_s=window_s(_TRY_S))
    live.runner.run_once(spec)  # after idling, caches are cold
    for _ in range(_TRIES):
        yield live.runner.run_once(spec).result
