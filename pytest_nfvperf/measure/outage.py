"""Outages: an event while the generator sends, and how long it blocks each direction (RFC 6201)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import DurationS, Live, Sent, WholeLoad, check_live, check_load
from pytest_nfvperf.measure.events import Event, EventMaker, cause
from pytest_nfvperf.measure.load_series import with_trials
from pytest_nfvperf.measure.measurements import TrafficMeasurement
from pytest_nfvperf.measure.measurer import measured_labels
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.trials import Context, Trial, repeat_until_valid
from pytest_nfvperf.model.arguments import Allowed, checked, whole
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import InconclusiveError, TestbedError
from pytest_nfvperf.model.measure.bounds import completed, of_connections
from pytest_nfvperf.model.measure.outage import (
    GAP_S,
    OUTAGE_WINDOW_S,
    Outage,
    outage_figures,
    outage_of,
)
from pytest_nfvperf.model.measure.outcome import Outcome, Reading
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.traffic.histogram import IntervalCounts, TrialProgress
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import RunningTrial

LONGEST_S = 60.0
"""Of an event. On two cores OVS 3.1 took 25 s to replace 100,000 flows one by one."""

PATIENCE_S = 3.0
"""After the event has returned. If frames do not pass again by then, the outage did not end."""

_LOOK_S = 0.1
_SETTLED_LOOKS = 3
"""The rate is as before if so many looks in a row show all that was sent. OVS may still replace flows that it
remembered; a revalidator comes round twice a second."""

_AS_BEFORE = 0.99
_REPEATS = 4
"""Of a trial that says nothing at all. What the machine takes of a good one is a bound of its figures."""

_EVENT = Allowed(
    "a function that makes an event, such as events.restart; with arguments: partial(events.restart, flows='lost')",
    callable,
    lambda value: "give the function, without calling it" if isinstance(value, Event) else "",
)
Happening = Annotated[EventMaker, _EVENT]


class _Watch:
    """Reads a trial while an event happens, and ends it once the rate is as before, or patience is over."""

    def __init__(self, live: LiveTopology, patience_s: float) -> None:
        self._live = live
        self._patience_s = patience_s
        self._running: RunningTrial | None = None
        self.returned_ns = 0
        self.recovered = self.in_time = False
        self.reasons: list[str] = []

    def done(self, ok: bool) -> None:
        """The event has returned, or failed. The DUT may have other threads since."""
        running = self._running
        if running is not None and not ok:
            with suppress(TestbedError):  # the event's own error is told
                running.stop()
        elif running is not None:
            self.returned_ns = time.monotonic_ns()
            running.watch([one for source in self._live.runner.collectors for one in source.pollers()])

    def run(self, spec: TrialSpec) -> TrialResult:
        self._running = running = self._live.runner.generator.start_trial(spec, _LOOK_S)
        before: tuple[TrialProgress, ...] = ()
        settled = 0
        while (interval := running.next_interval()) is not None:
            settled = settled + 1 if before and _as_before(before, interval) else 0
            before = interval.directions
            if not self.returned_ns:
                settled = 0
            elif settled >= _SETTLED_LOOKS or time.monotonic_ns() - self.returned_ns > self._patience_s * 1e9:
                self.recovered = settled >= _SETTLED_LOOKS
                running.stop()
        result, self.in_time = running.result(), bool(self.returned_ns)
        self.reasons = [reason.detail for reason in result.invalid]
        due_s = max(count.intended for count in result.counts) / spec.load_fps
        return replace(result, spec=replace(result.spec, duration_s=min(spec.duration_s, due_s)))


def _as_before(before: tuple[TrialProgress, ...], now: IntervalCounts) -> bool:
    """Whether what was sent since the look before arrived, in each direction."""
    moves = [
        (late.sent - early.sent, late.received - early.received, late.refused - early.refused)
        for early, late in zip(before, now.directions, strict=True)
    ]
    return all(sent > 0 and received >= _AS_BEFORE * sent and not refused for sent, received, refused in moves)


def watch_event(
    live: LiveTopology, spec: TrialSpec, event: Event, patience_s: float, repeat_of: str | None = None
) -> tuple[Trial, Outage]:
    """Cause an event in a trial, which ends when frames pass as before, or ``patience_s`` after the event has returned.

    Raises what the event raises, after the trial has ended.
    """
    watch = _Watch(live, patience_s)
    run = partial(live.runner.run_once, spec, repeat_of=repeat_of, execute=watch.run)
    trial, began = cause(run, [event], watch.done)
    if event.name not in began:
        raise TestbedError(f"{trial.id} ended before the event {event.name!r} began")
    if not watch.in_time:
        raise InconclusiveError(
            f"the event {event.name!r} took longer than {LONGEST_S:g} s: let it do less ({trial.id})"
        )
    at_ns, dut = began[event.name], live.deployment.dut
    log = dut.log_since(at_ns) if dut is not None else ()
    found = outage_of(trial.result, trial.id, event.name, at_ns, watch.returned_ns, log, recovered=watch.recovered)
    return trial, replace(found, notes=tuple(watch.reasons))


@dataclass
class OutageTime(TrafficMeasurement):
    """Reads the outage that an event causes. ``load_fps``: frames/s per direction, which the DUT sustains."""

    traffic: AnyTraffic
    profile: Profile
    context: Context
    event: EventMaker
    load_fps: int
    patience_s: float = PATIENCE_S
    name = "outage"
    units = units_of("outage", "outage_frames", "recovery")

    @property
    def reading_s(self) -> float:
        return 3.0

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:  # noqa: ARG002 - it ends by itself
        outage = self.outage(live)
        figures = {each.metric: each for each in outage_figures([outage]) if not each.of_class}
        bounds = {
            metric: (Bound.AT_LEAST if each.high is None else Bound.AT_MOST, each.detail)
            for metric, each in figures.items()
            if each.why
        }
        return Reading({metric: figures[metric].value for metric in self.units}, outage.trial, bounds)

    def spec(self, live: LiveTopology) -> TrialSpec:
        return trial_spec(
            live,
            self.traffic,
            self.load_fps,
            LONGEST_S + self.patience_s,
            "outage",
            latency=False,
            residual_s=self.profile.search_residual_s,
            window_s=OUTAGE_WINDOW_S,
            gap_s=GAP_S,
        )

    def outage(self, live: LiveTopology) -> Outage:
        """Cause the event once, and record what it blocked.

        Raises:
            UnavailableError: this DUT cannot do it.
            InvalidTrialsError: the rig disturbed all trials so that they say nothing.
            TestbedError: the event failed, or the rig broke.
        """
        spec = self.spec(live)
        found: list[Outage] = []

        def measure(repeat_of: str | None) -> Trial:
            event, live.changed = self.event(live), True
            live.learn(self.traffic)
            trial, outage = watch_event(live, spec, event, self.patience_s, repeat_of)
            found.append(outage)
            if event.undo is not None and event.for_s is None:
                event.undo()
            return trial

        repeat_until_valid(measure, _REPEATS, self.context.time_limit)
        self.context.recorder.emit(found[-1])
        return found[-1]


@dataclass(frozen=True, slots=True)
class Outages:
    """The fixture ``outage``: what an event costs, repeated."""

    profile: Profile
    labels: Mapping[str, str]
    context: Context
    on_each_side: Callable[[LiveTopology, OutageTime], Outcome] | None = None
    simulated: bool = False

    @checked("outage")
    def __call__(
        self,
        live: Live,
        traffic: Sent,
        load_fps: WholeLoad,
        event: Happening,
        *,
        repeats: Annotated[int, whole(1, 1000)] | None = None,
        patience_s: DurationS = PATIENCE_S,
    ) -> Outcome:
        """Cause an event while frames flow; how long each direction was blocked, again and again.

        Args:
            live: the topology to measure on.
            traffic: what to send.
            load_fps: frames/s per direction: one that the DUT sustains easily.
            event: makes the event on this topology, such as ``events.restart``.
            repeats: of the event; None: the profile's ``comparison_repeats``.
            patience_s: if frames do not pass again so long after the event, the outage did not end.

        Raises:
            UnavailableError: this DUT cannot do it: the test is skipped.
            InvalidTrialsError: the rig disturbed all trials so that they say nothing.
        """
        traffic = self.context.replacement_for(traffic)
        check_live("outage", live, traffic)
        check_load("outage", traffic, load_fps, LONGEST_S)
        figure = OutageTime(traffic, self.profile, self.context, event, load_fps, patience_s)
        if self.on_each_side is not None:
            return self.on_each_side(live, figure)
        started = self.context.clock.monotonic()
        labels = {**self.labels, **measured_labels(live, traffic)}
        outages: list[Outage] = []
        times = repeats or self.profile.comparison_repeats
        for _ in range(times if self.simulated else 0):
            live.runner.run_once(replace(figure.spec(live), duration_s=figure.reading_s))
        while not self.simulated and len(outages) < times and (not outages or outages[-1].ended):
            outages.append(figure.outage(live))
        trials = tuple(each.trial for each in outages)
        outcome = Outcome(
            labels=tuple(sorted(labels.items())),
            algorithm=figure.name,
            mean_frame_size=traffic.mean_frame_size,
            directions=len(live.topology.directions),
            trials=trials,
            elapsed_s=self.context.clock.monotonic() - started,
            figures=tuple(outage_figures(outages)) if outages else (),
        )
        outcome = with_trials(outcome, traffic, [self.context.trials[each] for each in trials])
        outcome = completed(of_connections(outcome, traffic))
        self.context.recorder.emit(outcome)
        return outcome
