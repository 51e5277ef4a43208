"""What a search ends with. Loads are frames/s per direction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.samples import Relative, Samples, Slope


class SearchStatus(StrEnum):
    """How a search for one goal ended."""

    FOUND = "found"
    BELOW_MINIMUM = "below_minimum"
    AT_MAXIMUM = "at_maximum"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Goal:
    """What is searched for: the highest load whose loss ratio does not exceed ``loss_ratio``.

    The names of the fields are MLRsearch's (draft-ietf-bmwg-mlrsearch); times in seconds.
    """

    name: str
    loss_ratio: float
    relative_width: float = 0.005
    exceed_ratio: float = 0.5
    initial_trial_s: float = 1.0
    final_trial_s: float = 1.0
    duration_sum_s: float = 21.0


NOT_CONFIRMED = "not confirmed"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The full-length trial at the found load (How we measure, rule 6).

    Attributes:
        loss_ratio: the DUT's own, of the undisturbed windows where losses are dated (docs/explanation/noise.md).
        offered_frames: those that it is the ratio of, over all directions; None where only load and duration are known.
        undisturbed_s: for how long the trial was undisturbed; None where losses are not dated, and all of it counts.
        lost_disturbed: frames lost in the rest of it.
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
        load_fps: relevant lower bound: highest load that meets the goal; None unless FOUND or AT_MAXIMUM.
        upper_fps: lowest load known not to meet it; None at the maximum.
        generator_limited: the load is within 5 % of the rig's own ceiling, so the DUT
            does *at least* this much.
        confirmation: None when none was asked for.
        detail: for a person: why aborted, what bounded it. Begins with NOT_CONFIRMED when a
            confirmation was asked for and could not be had.
        spoiled: which loads above the confirmed one the rig did not let confirm, so that the DUT may bear more.
        repeated_fps: what each of several searches reported, this one among them; None of one that found nothing. Empty
            where there was one search.
        repeated_ends: of each of these the lowest and the highest that it leaves possible; None for an open upper end.
            Empty where nobody kept them.
        refuted_fps: lowest load at which a valid confirmation trial lost too much; None where none did.
        slowed: why every load of this search may be too low, confirmed or refuted: the host kept CPUs apart, or shared
            their cores; "" where it did not.
    """

    goal: Goal
    status: SearchStatus
    load_fps: int | None = None
    upper_fps: int | None = None
    generator_limited: bool = False
    confirmation: Confirmation | None = None
    detail: str = ""
    spoiled: str = ""
    repeated_fps: tuple[int | None, ...] = ()
    repeated_ends: tuple[tuple[float, float | None], ...] = ()
    refuted_fps: int | None = None
    slowed: str = ""

    @property
    def reported_fps(self) -> int | None:
        """What tables and charts show: the load that a full-length trial bore; without one, the load found."""
        if self.confirmation is not None and self.confirmation.passed:
            return self.confirmation.load_fps
        return self.load_fps

    @property
    def unconfirmed(self) -> bool:
        """True when a confirmation was asked for and was not passed: the DUT does at most the load found."""
        if self.confirmation is None:
            return self.detail.startswith(NOT_CONFIRMED)
        return not self.confirmation.passed


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One point of a frame-loss curve (RFC 2544 section 26.3), or a trial at a given load.

    ``lost_frames`` and ``offered_frames`` are counted over all directions; None where not kept. ``at_most``: why some
    of the loss may be the machine's and not the DUT's; empty where it is the DUT's. ``by_rule``: what is the DUT's all
    the same, by the ledger: the loss ratio of what its flows, meters and policers dropped. ``offered_fps``: what the
    DUT was asked to take, frames/s per direction; None where not kept. ``short``: why that is so much less than the
    load that nothing here belongs to the load; empty where it is not.
    """

    load_fps: int
    loss_ratio: float
    trial_id: str
    lost_frames: int | None = None
    offered_frames: int | None = None
    at_most: str = ""
    by_rule: float = 0.0
    offered_fps: int | None = None
    short: str = ""


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """Latency under one load; nanoseconds, from the scheduled send time (TRex: the actual one).

    ``at`` names the load: "50 % of pdr" or "4 Mpps". None where there were no samples, or where the rig spoiled all
    trials at this load: ``spoiled`` then says how.
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
    spoiled: str = ""


@dataclass(frozen=True, slots=True)
class BackToBack:
    """RFC 9004: longest burst at the maximum rate without loss, N repeats.

    ``corrected_buffer_s`` is section 6.4's: implied buffer time corrected by the
    measured throughput, in seconds; None without a throughput.
    ``unlimited``: even the longest burst lost nothing, so the frames are a lower bound.
    ``at_least``: why they are one all the same: the rig spoiled longer bursts; empty when it did not.
    """

    load_fps: int
    burst_frames: tuple[int, ...]
    mean_burst_frames: float
    corrected_buffer_s: float | None
    unlimited: bool = False
    at_least: str = ""


@dataclass(frozen=True, slots=True)
class SessionsSeen:
    """Routing sessions that were watched while something was measured.

    Attributes:
        watched: which, for a person.
        flaps: how often they went down in the trials that count.
        trials: ids of those trials.
        elsewhere: how often they went down in others: under more load than the datapath bore, where a queue that data
            overflows loses their frames, too.
    """

    watched: str
    flaps: int
    trials: tuple[str, ...] = ()
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What the load cost, from counters around one trial (How we measure, rule 10).

    None where the testbed does not offer the counter.

    Attributes:
        trial_id: of the trial.
        pmd_cycles_per_packet: of a trial at saturation; None of others, where a PMD counts waiting as work (rule 15).
        pmd_busy_ratio: busy cycles over all, of the PMD threads.
        mpps_per_core: frames received over all directions a CPU of the PMD threads, Mpps.
        dut_cpu_seconds, generator_cpu_seconds, test_process_cpu_seconds: CPU time.
        saturated_trial_id: of the trial that the cycles are of, where it is another one.
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
class PlateauPoint:
    """The rate that the DUT forwards at overload while the machine disturbs nothing.

    Attributes:
        trial_id: of the saturating trial.
        fps: median of its undisturbed windows, frames/s per direction.
        low_fps, high_fps: its 95 % interval.
        windows: how many were undisturbed.
        apart: why the DUT may forward more: the host kept the CPUs of generator and DUT apart; "" where it did not.
        generator_limited: the same, because the generator offered no more than it took; "" where it offered more.
    """

    trial_id: str
    fps: float
    low_fps: float
    high_fps: float
    windows: int
    apart: str = ""
    generator_limited: str = ""

    @property
    def at_least(self) -> str:
        """Why the DUT may forward more than this; "" where it does not."""
        return self.apart or self.generator_limited


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one test measured about one subject.

    Attributes:
        labels: what was measured: suite, topology, frame_size, flows, datapath, ... as strings.
        algorithm: "mlrsearch", "rfc2544", "tst009", "loss-curve", ...
        trials: evidence ids of all trials, in order.
        ceiling_fps: the rig's own ceiling per direction for this traffic; None if not measured.
        line_rate_fps: per direction; None on ports without a line rate (vhost-user).
        mean_frame_size: bytes with FCS; 0 for streams, whose segments have no one size.
        samples: repeated readings, where several subjects were compared in interleaved rounds.
        relatives: ratios of this subject's samples to those of the baseline.
        slopes: the cost of each further unit over the whole series; only on the last subject.
        notes: what the reader must know, such as two bands.
        soak: what a soak found.
        offload: how many flows were in hardware, on a testbed that asks for hardware offload.
        sessions: routing sessions that were watched during the measurement.
        missing: metrics that a test asked for and could not measure, each with the reason.
        cores: CPUs of the DUT's poll-mode threads, of each node; 0 where that is not known.
        plateaus: forwarding rates at overload beside a search, one a repeat; none where losses are not dated.
    """

    labels: tuple[tuple[str, str], ...]
    algorithm: str
    mean_frame_size: float
    directions: int
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
    sessions: SessionsSeen | None = None
    missing: tuple[tuple[str, str], ...] = ()
    plateaus: tuple[PlateauPoint, ...] = ()
    cores: int = 0

    @property
    def label(self) -> dict[str, str]:
        """The labels as a dict."""
        return dict(self.labels)

    def goal(self, name: str) -> GoalOutcome | None:
        """The outcome of one goal ("ndr", "pdr", "throughput"), or None."""
        return next((g for g in self.goals if g.goal.name == name), None)

    def sampled(self, metric: str) -> Samples | None:
        """The readings of one metric, or None."""
        return next((samples for samples in self.samples if samples.metric == metric), None)

    def relative(self, metric: str) -> Relative | None:
        """The ratio of one metric to the baseline, or None."""
        return next((found for found in self.relatives if found.metric == metric), None)
