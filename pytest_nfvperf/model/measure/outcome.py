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

    Names of fields are MLRsearch's (draft-ietf-bmwg-mlrsearch); times in seconds.
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
    """The full-length trial at the search's load (How we measure, rule 6).

    ``loss_ratio``: of the undisturbed windows where losses are dated and of ``offered_frames`` in all
    directions. ``undisturbed_s``: None where losses are not dated. ``lost_disturbed``: frames lost in the rest.
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

    ``load_fps``: the highest load that meets the goal; None unless FOUND or AT_MAXIMUM. ``upper_fps``: the lowest known
    not to; None at the maximum. ``generator_limited``: within 5 % of the rig's own ceiling, so a lower bound.
    ``confirmation``: None when none was asked for. ``detail``: for a person: why aborted, what bounded it. Begins with
    NOT_CONFIRMED when a confirmation was asked for and could not be had. ``spoiled``: loads above the confirmed one
    that the rig disturbed, so that the DUT may sustain more. ``repeated_fps``: the report of each of several searches,
    None of one that found nothing. ``repeated_ends``: the lowest and the highest load that each leaves possible; None
    for an open upper end. ``refuted_fps``: the lowest load at which a valid confirmation trial lost too much.
    ``slowed``: why all loads may be too low: the host kept CPUs apart, or shared their cores.
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
        """What tables and charts show: the load of a passed full-length trial; without one, the search's."""
        if self.confirmation is not None and self.confirmation.passed:
            return self.confirmation.load_fps
        return self.load_fps

    @property
    def unconfirmed(self) -> bool:
        """True when a confirmation was asked for and was not passed: the DUT does at most the search's load."""
        if self.confirmation is None:
            return self.detail.startswith(NOT_CONFIRMED)
        return not self.confirmation.passed


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One point of a frame-loss curve (RFC 2544 section 26.3), or a trial at a given load.

    ``lost_frames``, ``offered_frames``: over all directions; None where not kept. ``at_most``: why some of the loss may
    be the machine's. ``by_rule``: the loss ratio of what the DUT's flows, meters and policers dropped, by the ledger.
    ``offered_fps``: per direction; None where not kept. ``short``: why so little was offered that nothing here belongs
    to the load.
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

    ``at`` names the load: "50 % of pdr" or "4 Mpps". None without samples, or where the rig disturbed all trials:
    ``spoiled`` then says how.
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

    ``corrected_buffer_s``: implied buffer time corrected by the measured throughput (section 6.4), s. ``unlimited``:
    even the longest burst lost nothing, so the frames are a lower bound. ``at_least``: why they are one all the same:
    the rig disturbed longer bursts.
    """

    load_fps: int
    burst_frames: tuple[int, ...]
    mean_burst_frames: float
    corrected_buffer_s: float | None
    unlimited: bool = False
    at_least: str = ""


@dataclass(frozen=True, slots=True)
class SessionsSeen:
    """Routing sessions that were watched (``watched``, for a person) while something was measured.

    ``flaps``: in the trials that count, whose ids are ``trials``. ``elsewhere``: flaps under more load than the
    datapath sustained, where a queue that data overflows loses their frames, too.
    """

    watched: str
    flaps: int
    trials: tuple[str, ...] = ()
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What the load cost, from counters around one trial (How we measure, rule 10); None without the counter.

    ``pmd_cycles_per_packet``: of a trial at saturation: in others a PMD counts waiting as work (rule 15).
    ``saturated_trial_id``: that trial, where it is another one. ``pmd_busy_ratio``: busy cycles over all, of PMD
    threads. ``mpps_per_core``: received over all directions, by CPU of the PMD threads.
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

    ``fps``: median of the undisturbed windows, frames/s per direction. ``low_fps``, ``high_fps``: its 95 % interval.
    ``windows``: how many were undisturbed. ``apart``: why the DUT may forward more: the host kept the CPUs of generator
    and DUT apart. ``generator_limited``: the same, because the generator offered no more than it took.
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

    ``algorithm``: "mlrsearch", "rfc2544", "tst009", "loss-curve", ... ``trials``: evidence ids, in order.
    ``ceiling_fps``: the rig's own, per direction. ``line_rate_fps``: per direction; None on ports without (vhost-user).
    ``mean_frame_size``: bytes with FCS; 0 for streams, whose segments have no one size. ``samples``: repeated readings
    of compared subjects; ``relatives``: their ratios to the baseline's; ``slopes``: the cost of each further unit, on
    the last subject only. ``notes``: what the reader must know, such as two bands. ``offload``: flows in hardware.
    ``missing``: metrics that a test asked for and could not measure, each with the reason. ``cores``: CPUs of the DUT's
    poll-mode threads, of each node; 0 if unknown. ``plateaus``: forwarding rates at overload, one a repeat.
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
        return dict(self.labels)

    def goal(self, name: str) -> GoalOutcome | None:
        return next((g for g in self.goals if g.goal.name == name), None)

    def sampled(self, metric: str) -> Samples | None:
        return next((samples for samples in self.samples if samples.metric == metric), None)

    def relative(self, metric: str) -> Relative | None:
        return next((found for found in self.relatives if found.metric == metric), None)
