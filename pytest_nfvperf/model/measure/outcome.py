"""Outcomes of measurements: goals, loads, bounds, losses, readings and comparisons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_nfvperf.model.display import format_ratio, format_value
from pytest_nfvperf.model.disturbance.windows import WindowRate
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.statistics import Bound, Relative, Samples, Slope, rule_of_three, two_bands

_QUEUE_COUNTER = re.compile(r"(?P<port>.+)\.rx_q(?P<queue>\d+)_packets")
"""DPDK's name of the frames that a receive queue took, behind the port's."""


def loss_bound_text(loss_ratio: float | None, offered: int | None) -> str:
    """What a loss ratio proves: ``0 lost of 40,000,000: loss ratio < 7.5e-08 at 95 %`` (measuring method, rule 5)."""
    if loss_ratio is None:
        return "loss unknown"
    if offered is None or offered < 1:
        return f"loss ratio {format_ratio(loss_ratio)}"
    if loss_ratio == 0:
        return f"0 lost of {offered:,}: loss ratio < {rule_of_three(offered):.2g} at 95 %"
    return f"{round(loss_ratio * offered):,} lost of {offered:,}"


# What a search ends with. Loads are frames/s per direction.


class SearchStatus(StrEnum):
    """How a search for one goal ended."""

    FOUND = "found"
    BELOW_MINIMUM = "below_minimum"
    AT_MAXIMUM = "at_maximum"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Goal:
    """What is searched for: the highest load whose loss ratio does not exceed ``loss_ratio``.

    Names of fields are MLRsearch's (RFC 9971); times in seconds. ``traffic_class``: the class of a mix
    whose loss decides; "": that of all.
    """

    name: str
    loss_ratio: float
    relative_width: float = 0.005
    exceed_ratio: float = 0.5
    initial_trial_s: float = 1.0
    final_trial_s: float = 1.0
    duration_sum_s: float = 21.0
    traffic_class: str = ""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The full-length trial at the search's load (How we measure, rule 6).

    Attributes:
        loss_ratio: of ``offered_frames`` in all directions: of the undisturbed windows, or of the whole trial.
        undisturbed_s: how long they were; None if the whole trial is judged.
        lost_disturbed: frames lost in the other windows.
    """

    trial_id: str
    load_fps: int
    duration_s: float
    loss_ratio: float | None
    passed: bool
    offered_frames: int | None = None
    undisturbed_s: float | None = None
    lost_disturbed: int = 0


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """The result of a search for one goal.

    Attributes:
        load_fps: the highest load that meets the goal; None unless FOUND or AT_MAXIMUM.
        upper_fps: the lowest known not to; None at the maximum. If ABORTED: known when the time was over, if any.
        confirmation: None if none was requested, or no trial was valid.
        detail: for a person: why aborted, what bounded it.
        repeated_fps: the report of each of several searches; None for one that found nothing.
    """

    goal: Goal
    status: SearchStatus
    load_fps: int | None = None
    upper_fps: int | None = None
    confirmation: Confirmation | None = None
    detail: str = ""
    repeated_fps: tuple[int | None, ...] = ()

    @property
    def reported_fps(self) -> int | None:
        """What tables and charts show: the load of a passed full-length trial; without one, the search's."""
        if self.confirmation is not None and self.confirmation.passed:
            return self.confirmation.load_fps
        return self.load_fps


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One point of a frame-loss curve (RFC 2544 section 26.3), or a trial at a given load.

    Attributes:
        loss_ratio: of the frames that were offered. It is that of the load in ``Outcome.offered_losses`` only.
        lost_frames, offered_frames: over all directions.
        offered_fps: per direction.
    """

    load_fps: int
    loss_ratio: float
    trial_id: str
    lost_frames: int = 0
    offered_frames: int = 0
    offered_fps: int = 0


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """Latency under one load; nanoseconds, from the scheduled send time (TRex: the actual one).

    ``at`` names the load: "50 % of pdr" or "4 Mpps". None without samples, or if the rig disturbed all trials.
    """

    at: str
    load_fps: int
    trial_id: str
    min_ns: int | None
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None
    samples: int


@dataclass(frozen=True, slots=True)
class BackToBack:
    """RFC 9004: longest burst at the maximum rate without loss, N repeats.

    Attributes:
        corrected_buffer_s: implied buffer time corrected by the measured throughput (section 5.4).
    """

    load_fps: int
    burst_frames: tuple[int, ...]
    mean_burst_frames: float
    corrected_buffer_s: float | None


@dataclass(frozen=True, slots=True)
class ObservedSessions:
    """Routing sessions that were watched during a measurement.

    Attributes:
        watched: which, for a person.
        flaps: in the trials that count.
        trials: ids of those.
        elsewhere: flaps under more load than the datapath sustained: data overflows a queue that loses theirs, too.
    """

    watched: str
    flaps: int
    trials: tuple[str, ...] = ()
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What the load cost, from counters around one trial (How we measure, rule 10); None without the counter.

    Attributes:
        pmd_cycles_per_packet: of a trial at saturation: in others a PMD counts waiting as work (rule 15).
        pmd_busy_ratio: busy cycles over all, of PMD threads.
        mpps_per_core: received over all directions, by CPU of the PMD threads.
        saturated_trial_id: the trial at saturation, if it is another one.
    """

    trial_id: str
    pmd_cycles_per_packet: float | None = None
    pmd_busy_ratio: float | None = None
    mpps_per_core: float | None = None
    dut_cpu_seconds: float | None = None
    generator_cpu_seconds: float | None = None
    test_process_cpu_seconds: float | None = None
    saturated_trial_id: str = ""


@dataclass(frozen=True, slots=True)
class QueueFrames:
    """How a NIC spread a trial's frames over the receive queues of a port. ``frames``: of each queue, from number 0."""

    port: str
    frames: tuple[int, ...]

    @property
    def imbalance(self) -> float | None:
        """Frames of the busiest queue over the mean of all queues: 1 where all have the same; None without a frame."""
        total = sum(self.frames)
        return max(self.frames) * len(self.frames) / total if total else None

    def __str__(self) -> str:
        """``p0: 512, 488``."""
        return f"{self.port}: {', '.join(f'{count:,}' for count in self.frames)}"


def frames_by_queue(changes: Mapping[str, int]) -> tuple[QueueFrames, ...]:
    """The receive queues of each port, from how much its counters rose over a trial: ``p0.rx_q1_packets``.

    A port is absent if its driver does not count frames by queue, or if a queue's counter is missing.
    """
    found: dict[str, dict[int, int]] = {}
    for name, count in changes.items():
        if match := _QUEUE_COUNTER.fullmatch(name):
            found.setdefault(match["port"], {})[int(match["queue"])] = count
    return tuple(
        QueueFrames(port, tuple(queues[number] for number in range(len(queues))))
        for port, queues in found.items()
        if set(queues) == set(range(len(queues)))
    )


@dataclass(frozen=True, slots=True)
class ClassLoss:
    """What a trial lost of one class of a mix.

    Attributes:
        at: the trial's load, as the SLA names it: "100 % of ndr", or "4000000 pps" of all classes together.
        load_fps: of this class, per direction.
        offered_frames, lost_frames: over its directions; some may be the machine's loss, as the figure says.
        outage_s: when the frames of its longest run of missing ones were due, from the trial's start; empty for none.
    """

    at: str
    load_fps: int
    trial_id: str
    offered_frames: int
    lost_frames: int
    outage_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassOutcome:
    """What was measured of one class of a mix.

    Attributes:
        share: of the load that is left by fixed ones. ``fixed_fps``: frames/s per direction, if it is fixed.
        sends: both, forward or reverse.
        traffic: its frames, for a person: ``128 vxlan``.
        mean_frame_size: bytes with FCS.
        latency: at the loads of the outcome's own points.
        samples: of a study: its part of each reading.
        is_conversation: its loads and counts are those of connections.
    """

    name: str
    share: float
    fixed_fps: int | None
    sends: str
    traffic: str
    mean_frame_size: float
    losses: tuple[ClassLoss, ...] = ()
    latency: tuple[LatencyPoint, ...] = ()
    samples: tuple[Samples, ...] = ()
    is_conversation: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one test measured about one subject.

    Attributes:
        algorithm: "mlrsearch", "rfc2544", "tst009", "loss-curve", ...
        figures: what was measured. The fields from ``goals`` on are what it was made of, for charts and pages.
        missing: metrics that were asked for and have no figure, each with the reason.
        mean_frame_size: bytes with FCS; 0 for streams, whose segments have no one size.
        trials: evidence ids, in order.
        ceiling_fps: the rig's own, per direction.
        line_rate_fps: per direction; None on ports without one (vhost-user).
        samples: repeated readings of compared subjects.
        relatives: their ratios to the baseline's.
        slopes: the cost of each further unit, on the last subject only.
        notes: what the reader must know, such as two bands.
        offload: flows in hardware.
        cores: CPUs of the DUT's poll-mode threads, of each node; 0 if unknown.
        classes: of a mix, each with its own figures; all others are those of the whole.
        queue_frames: of a trial at a fixed load, for each port whose driver counts frames by queue.
        dut_counted: errors that the DUT counted in them beside drops on the path, such as a full connection table.
    """

    labels: tuple[tuple[str, str], ...]
    algorithm: str
    mean_frame_size: float
    directions: int
    figures: tuple[Figure, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    goals: tuple[GoalOutcome, ...] = ()
    loss_curve: tuple[LossPoint, ...] = ()
    latency: tuple[LatencyPoint, ...] = ()
    back_to_back: BackToBack | None = None
    cost: Cost | None = None
    trials: tuple[str, ...] = ()
    ceiling_fps: float | None = None
    line_rate_fps: float | None = None
    elapsed_s: float = 0.0
    samples: tuple[Samples, ...] = ()
    relatives: tuple[Relative, ...] = ()
    slopes: tuple[Slope, ...] = ()
    notes: tuple[str, ...] = ()
    soak: Soak | None = None
    offload: OffloadShare | None = None
    sessions: ObservedSessions | None = None
    cores: int = 0
    classes: tuple[ClassOutcome, ...] = ()
    queue_frames: tuple[QueueFrames, ...] = ()
    dut_counted: tuple[str, ...] = ()

    def class_load_fps(self, of: ClassOutcome, load_fps: float) -> float:
        """A class's part of a load of all, frames/s per direction."""
        if of.fixed_fps is not None:
            return of.fixed_fps
        fixed = sum(each.fixed_fps or 0 for each in self.classes if each.sends in {"both", of.sends})
        return max(0.0, load_fps - fixed) * of.share

    def bits_per_second(self, load_fps: float) -> float:
        """Layer-2 bit rate with FCS of a load, bit/s per direction; the mean of the directions of a mix."""
        if not self.classes:
            return load_fps * self.mean_frame_size * 8
        directions = 2 if any(each.sends != "forward" for each in self.classes) else 1
        bits = (
            self.class_load_fps(each, load_fps) * each.mean_frame_size * 8 * (2 if each.sends == "both" else 1)
            for each in self.classes
        )
        return sum(bits) / directions

    @property
    def label(self) -> dict[str, str]:
        return dict(self.labels)

    def figure(self, metric: str, unit: str = "", at: str = "", of_class: str = "") -> Figure | None:
        """The first figure of this metric, in this unit, at this load ("": any); ``of_class``: as a Figure's."""
        figures = (figure for figure in self.figures if (figure.metric, figure.of_class) == (metric, of_class))
        return next((figure for figure in figures if unit in {"", figure.unit} and at in {"", figure.at}), None)

    @property
    def offered_losses(self) -> tuple[LossPoint, ...]:
        """Points of the loss curve at loads that the generator offered."""
        offered = {each.at for each in self.figures if each.metric == "loss_ratio" and Why.SHORT not in each.why}
        return tuple(point for point in self.loss_curve if load_in_fps(point.load_fps) in offered)

    def goal(self, name: str) -> GoalOutcome | None:
        return next((g for g in self.goals if g.goal.name == name), None)

    def sampled(self, metric: str) -> Samples | None:
        return next((samples for samples in self.samples if samples.metric == metric), None)

    def relative(self, metric: str) -> Relative | None:
        return next((found for found in self.relatives if found.metric == metric), None)


def unique_notes(outcomes: Sequence[Outcome], per: str) -> list[tuple[str, str]]:
    """Each note of several outcomes once, with its subjects, "" for all. ``per``: the label that they differ in."""
    about: dict[str, list[str]] = {}
    for outcome in outcomes:
        for note in dict.fromkeys(outcome.notes):
            about.setdefault(note, []).append(outcome.label[per])
    return [(note, "" if len(values) == len(outcomes) else ", ".join(values)) for note, values in about.items()]


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of one subject of a comparison; each field is by metric, values in its base unit.

    Attributes:
        evidence: id of the trial.
        bounds: how the value relates to what the DUT does, and why, where it is only a bound.
        window_rates: values by window, each with how slow the cores were: subjects are compared at the same speed.
        whole: the value over the whole trial, disturbed or not, for comparisons without windows.
        missing: why the reading lacks a metric.
        slowdown: how many times slower the DUT was over the whole trial than undisturbed, by what was seen of its CPUs
            and the generator's; None if nothing was seen.
    """

    values: Mapping[str, float]
    evidence: str
    bounds: Mapping[str, tuple[Bound, str]] = field(default_factory=dict)
    window_rates: Mapping[str, Sequence[WindowRate]] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    slowdown: float | None = None

    def on_rig(self, rig: int | None) -> Reading:
        """The same, with the rig that measured them in its windows."""
        window_rates = {
            metric: tuple(replace(each, rig=rig) for each in windows) for metric, windows in self.window_rates.items()
        }
        return replace(self, window_rates=window_rates)

    def of_whole_trial(self, metrics: Sequence[str]) -> Reading:
        """The same, with the values of these metrics over the whole trial, if it has them."""
        whole = {metric: self.whole[metric] for metric in metrics if metric in self.whole}
        missing = {metric: reason for metric, reason in self.missing.items() if metric not in whole}
        return replace(self, values={**self.values, **whole}, missing=missing)

    def over_all(self, metric: str) -> float | None:
        """The value over the whole trial if it has one, else the value; None without either."""
        return self.whole.get(metric, self.values.get(metric))


def bands_note(samples: Samples) -> str:
    """A note if the samples fall into two bands (How we measure, rule 11); else ""."""
    found = two_bands(samples.values)
    if found is None:
        return ""
    low, high = (
        f"{len(band)} of {format_value(band[0], samples.unit)} .. {format_value(band[-1], samples.unit)}"
        for band in found
    )
    return f"{samples.metric} falls into two bands: {low} and {high}"
