"""How long forwarding takes to follow routing, measured by the frames themselves.

The generator sends at a constant rate while a route is withdrawn or a daemon dies. Each sequence number was due at a
known time. So the frames on both sides of the gap give the time of the change to within one interval of the rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_nfvperf.measure.call_arguments import DurationS, Live, Sent, WholeLoad, check_live
from pytest_nfvperf.measure.events import Event, cause
from pytest_nfvperf.measure.load_series import loss_of_trial, with_trials
from pytest_nfvperf.measure.measurer import measured_labels, window_s
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial, repeat_until_valid
from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.measure.bounds import completed, sampled, session_figure
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Bound, Samples
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import Arrivals, TrialSpec

RATE_FPS = 100_000
"""A frame each 10 us: a hundred times finer than convergence times are reported."""

_ANYWHERE_FPS = 500_000
"""A DUT sustains it wherever the host keeps its CPUs: a tenth of what it forwards while its CPUs are far apart."""

REPEATS = 4
"""Of invalid readings. While daemons take up 10,000 routes on the generator's CPU, two of five have too long a gap."""

_CAUSED_BY_EVENTS = frozenset({Reason.LINK_DOWN})
"""Reasons that make any other trial invalid, and that a reading causes on purpose: its event pulls the cable."""

_SHORT_GAP_NS = 20_000_000
"""On small machines busy routing daemons take the generator's CPU. If each absence is shorter than this, the figures
are exact to within it: frames that were not sent are not lost."""

_OVERLOAD_RATIO = 1.05
"""Above this ratio of offered to received load, an intended overload is one."""

_REPORTED_ABSENCE_RATIO = 0.1
"""Above this share of an outage, the generator's absence is reported as a part of it."""

_RESIDUAL_S = 0.2


@dataclass(frozen=True, slots=True)
class ConvergenceReading:
    """A trial and its events. ``began_ns``: when each action began, by the event's name; CLOCK_MONOTONIC."""

    trial: Trial
    began_ns: Mapping[str, int]

    def arrivals(self, tx: str) -> Arrivals | None:
        """Due times of the frames that this port sent and that arrived; KeyError for a port that sent nothing."""
        for counts in self.trial.result.counts:
            if counts.direction.tx == tx:
                return counts.arrivals
        raise KeyError(f"port {tx!r} sent nothing in {self.trial.id}")

    def stopped_after_s(self, event: str, tx: str) -> float | None:
        """Seconds from an event to the last frame before the longest gap; None without a gap."""
        seen = self.arrivals(tx)
        return self._since(event, seen.gap_after_ns if seen is not None else None)

    def resumed_after_s(self, event: str, tx: str) -> float | None:
        """Seconds from an event to the first frame after the longest gap; None without a gap."""
        seen = self.arrivals(tx)
        return self._since(event, seen.gap_before_ns if seen is not None else None)

    def outage_s(self, tx: str) -> float:
        seen = self.arrivals(tx)
        return seen.outage_ns / 1e9 if seen is not None else 0.0

    def _since(self, event: str, due_ns: int | None) -> float | None:
        started = self.trial.result.started_ns
        if due_ns is None or started is None or event not in self.began_ns:
            return None
        return (started + due_ns - self.began_ns[event]) / 1e9


class Convergence:
    """Readings of one test. ``simulated``: for a plan: no event happens, and readings have no arrivals."""

    def __init__(self, labels: Mapping[str, str], *, simulated: bool = False) -> None:
        self._labels = dict(labels)
        self._simulated = simulated

    @checked("convergence.read")
    def read(
        self,
        live: Live,
        traffic: Sent,
        events: Sequence[Event],
        duration_s: DurationS,
        fps: WholeLoad = RATE_FPS,
        *,
        saturating: bool = False,
        ready: Callable[[], object] | None = None,
    ) -> ConvergenceReading:
        """Send at a constant rate, and cause events during the trial.

        A reading that the rig disturbed is repeated. A reading without events records when each loss occurred.

        Args:
            live: the topology to measure on.
            traffic: what to send.
            events: in the order of their times.
            duration_s: of the trial.
            fps: frames/s per direction.
            saturating: the load is meant to exceed what the DUT forwards.
            ready: called before a reading is repeated; waits until the same events can happen again.

        Raises:
            InvalidTrialsError: the rig disturbed every reading.
            TestbedError: an event's action failed, or the rig broke.
        """
        check_live("convergence.read", live, traffic)
        spec = TrialSpec(
            traffic,
            fps,
            duration_s,
            live.topology.directions,
            latency=False,
            residual_s=_RESIDUAL_S,
            purpose="event",
            saturating=saturating,
            window_s=None if events or saturating else window_s(duration_s),
        )
        if self._simulated:
            return ConvergenceReading(live.runner.run_once(spec), {})
        readings: list[ConvergenceReading] = []

        def measure(repeat_of: str | None) -> Trial:
            if readings and ready is not None:
                ready()
            anywhere = spec.load_fps <= _ANYWHERE_FPS
            run = partial(live.runner.run_once, spec, repeat_of=repeat_of, anywhere=anywhere)
            readings.append(ConvergenceReading(*cause(run, events)))
            return readings[-1].trial

        repeat_until_valid(
            measure, REPEATS, live.runner.context.time_limit, lambda trial: _tolerated_reasons(trial.result)
        )
        return readings[-1]

    def outcome(
        self,
        live: LiveTopology,
        traffic: AnyTraffic,
        readings: Sequence[ConvergenceReading],
        seconds: Mapping[str, Sequence[float]],
        *,
        at_least: Mapping[str, str] | None = None,
        loss_of: Sequence[ConvergenceReading] = (),
        **fields: Any,
    ) -> Outcome:
        """Make an outcome of measured times, and write it to the evidence.

        Args:
            live: where they were measured.
            traffic: what was sent.
            readings: all readings of the outcome.
            seconds: times by metric.
            at_least: by metric: why its times are only lower bounds.
            loss_of: readings whose loss is the outcome's loss curve.
            fields: further fields of the outcome.
        """
        trials = tuple(reading.trial.id for reading in readings)
        losses = [loss_of_trial(reading.trial) for reading in loss_of]
        outcome = Outcome(
            labels=tuple(sorted({**self._labels, **measured_labels(live, traffic)}.items())),
            algorithm="convergence",
            mean_frame_size=traffic.mean_frame_size,
            directions=len(live.topology.directions),
            trials=trials,
            samples=tuple(
                _times(metric, values, trials, (at_least or {}).get(metric, ""), readings)
                for metric, values in seconds.items()
                if values
            ),
            loss_curve=tuple(loss.point for loss in losses),
            **fields,
        )
        lost = [figure for loss in losses for figure in loss.figures()]
        lost += [session_figure(outcome.sessions)] if outcome.sessions is not None else []
        missing = {metric: why for loss in losses for metric, why in loss.missing().items()}
        outcome = sampled(replace(outcome, figures=(*outcome.figures, *lost), missing=outcome.missing | missing))
        outcome = completed(with_trials(outcome, traffic, [reading.trial for reading in (*readings, *loss_of)]))
        live.runner.recorder.emit(outcome)
        return outcome


def _tolerated_reasons(result: TrialResult) -> frozenset[Reason]:
    """Invalidity reasons that do not change the figures of a reading."""
    gap = result.health.longest_gap_ns
    tolerated = _CAUSED_BY_EVENTS if gap is None or gap > _SHORT_GAP_NS else _CAUSED_BY_EVENTS | {Reason.SKIPPED_FRAMES}
    # A generator that fell behind still offered clearly more than the DUT forwards.
    if result.spec.saturating and (result.offered_fps or 0.0) > _OVERLOAD_RATIO * (result.received_fps or 0.0):
        tolerated |= {Reason.FELL_BEHIND}
    return tolerated


def _times(
    metric: str, values: Sequence[float], trials: tuple[str, ...], longer: str, readings: Sequence[ConvergenceReading]
) -> Samples:
    """Samples of a time; ``longer``: why it may have been longer."""
    shorter = _generator_absence(metric, values, readings)
    bound = Bound.of(low=bool(shorter), high=bool(longer))
    return Samples(metric, "s", tuple(values), trials, bound, longer or shorter)


def _generator_absence(metric: str, values: Sequence[float], readings: Sequence[ConvergenceReading]) -> str:
    """Why an outage is only an upper bound: nothing was sent while the generator was absent."""
    gaps = [gap for reading in readings if (gap := reading.trial.result.health.longest_gap_ns) is not None]
    absent_s = max(gaps, default=0) / 1e9
    if metric != "outage_time" or absent_s < _REPORTED_ABSENCE_RATIO * max(values):
        return ""
    return f"the generator was absent for up to {format_seconds(absent_s)} meanwhile"
