"""Measures what a mirror costs, and whether it is complete. One reading of a topology is two trials.

The trial at maximum offered load gives the forwarding rate. The trial at a set load, at which nothing need be dropped,
compares the copies received with those expected: one each time that a frame crosses the mirrored bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pytest_nfvperf.measure import measurements
from pytest_nfvperf.measure.call_arguments import Live, LoadFps, OneTraffic, WholeLoad, check_live
from pytest_nfvperf.measure.limits import LimitsOf
from pytest_nfvperf.measure.measurements import ForwardingRate, TrafficMeasurement
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.trials import Trial, repeat_until_valid
from pytest_nfvperf.model.arguments import checked, number, word
from pytest_nfvperf.model.disturbance.trial import OF_THE_LOAD, InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.errors import ArgumentError, InconclusiveError
from pytest_nfvperf.model.measure.ledger import CounterDelta
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.profile import TRIAL_OVERHEAD_S, Profile
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.model.topology.frame_route import CopyCounts, copy_counts
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import RX_DESCRIPTORS

UNITS = {**measurements.UNITS, **units_of("mirror_*")}

_RESIDUAL_S = 0.1

FORWARDING_RATE, NDR = "forwarding rate", "ndr"

CALM_FPS = 50_000
"""Frames/s that any testbed mirrors without loss."""

_TOLERATED = OF_THE_LOAD | {Reason.DUT_CPU_STOLEN}
"""What a DUT lost while its CPU was away never crossed the mirrored bridge, and each frame that did must have been
copied. Not CPU_MOVED: a slower DUT forwards a load, and drops copies of it."""


@checked()
@dataclass(frozen=True, slots=True)
class MirrorLoad:
    """The load at which completeness is read: a share of what is forwarded without the mirror, or a rate.

    Attributes:
        share: of the rate that ``share_of`` names.
        fps: frames/s per direction. Give this or a share.
        share_of: "forwarding rate", at maximum offered load; or "ndr", for which one search is run.
    """

    share: Annotated[float, number(0, 1, above=True)] | None = None
    fps: LoadFps | None = None
    share_of: Annotated[str, word(FORWARDING_RATE, NDR)] = FORWARDING_RATE

    def __post_init__(self) -> None:
        if (self.share is None) == (self.fps is None):
            raise ArgumentError("a mirror's load is either a share of the forwarding rate or a rate in frames/s")

    def of(self, without_mirror: float) -> float:
        return self.fps if self.fps is not None else (self.share or 0.0) * without_mirror


@dataclass
class MirrorCost(TrafficMeasurement):
    """Reads forwarding and mirroring on any topology. The first topology must be the one without mirrors.

    Attributes:
        find_ndr: searches for the NDR of a topology, frames/s per direction.
        forwarded: rates without a mirror that the load can be a share of, frames/s per direction.
        counted: by name of the topology, the build of it whose copies were counted last.
    """

    traffic: Traffic
    profile: Profile
    limits_of: LimitsOf
    load: MirrorLoad
    find_ndr: Callable[[LiveTopology, AnyTraffic], float]
    forwarded: list[float] = field(default_factory=list)
    counted: dict[str, LiveTopology] = field(default_factory=dict)
    name = "mirror-cost"
    takes_turns: ClassVar[bool] = True
    units = UNITS

    def __post_init__(self) -> None:
        self._forwarding = ForwardingRate(self.traffic, self.profile, self.limits_of)

    @property
    def reading_s(self) -> float:
        return self._forwarding.reading_s + self.profile.comparison_trial_s + _RESIDUAL_S + TRIAL_OVERHEAD_S

    def begin(self, live: LiveTopology, remaining_s: float | None) -> None:
        """Begin with the baseline: the set load is a share of what it forwards."""
        self._search_if_needed(live)
        if live.topology.mirrors or self.forwarded:
            self._forwarding.begin(live, remaining_s)
        else:
            self._note_forwarded(*self._forwarding.measure(live, remaining_s))

    def turn(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """Count copies at the set load in a build's first turn only: unlike rates, they need no neighbour in time."""
        trial, reading = self._forwarding.turn_trial(live, remaining_s)
        if live.topology.mirrors and self.counted.get(live.name) is live:
            return replace(reading, values={**reading.values, **_overloaded_values(live, trial)})
        found = self._with_copies(live, (trial, reading), remaining_s)
        self.counted[live.name] = live
        return found

    def facts(self) -> dict[str, Any]:
        return self._forwarding.facts()

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """InconclusiveError or DutFailure if the load is a share of the NDR, and none was found."""
        self._search_if_needed(live)
        return self._with_copies(live, self._forwarding.measure(live, remaining_s), remaining_s)

    def _search_if_needed(self, live: LiveTopology) -> None:
        if self.load.share_of == NDR and not live.topology.mirrors and not self.forwarded:
            self.forwarded.append(self.find_ndr(live, self.traffic))

    def _note_forwarded(self, trial: Trial, reading: Reading) -> None:
        """Remember what the load is a share of: the trial's mean if none of its windows was undisturbed."""
        rate = reading.values.get("forwarding_rate", trial.result.received_fps)
        if self.load.share_of == FORWARDING_RATE and rate:
            self.forwarded.append(rate)

    def _with_copies(self, live: LiveTopology, read: tuple[Trial, Reading], remaining_s: float | None) -> Reading:
        trial, reading = read
        if not live.topology.mirrors:
            self._note_forwarded(trial, reading)
            return reading
        load_fps = self.load.of(min(self.forwarded, default=self._forwarding.load_fps))
        duration_s, purpose = self.profile.comparison_trial_s, "mirror completeness"
        spec = trial_spec(live, self.traffic, load_fps, duration_s, purpose, latency=False, residual_s=_RESIDUAL_S)
        values = {**reading.values, **_overloaded_values(live, trial)}
        at_load = counted_trial(live, spec, self.profile.invalid_trial_budget, remaining_s)
        copies = copies_of(live, at_load)
        if copies.expected and not copies.missing:
            values["mirror_completeness"] = copies.received / copies.expected
        return replace(reading, values=values, evidence=at_load.id)


def _lost_by_rig(live: LiveTopology, result: TrialResult, changes: Sequence[CounterDelta]) -> list[InvalidReason]:
    """Reasons why missing copies are the rig's loss.

    Either a monitor's ring was full because the generator did not read it, or the generator sent frames late, all at
    once. Frames that waited because the DUT took none are no burst: they leave as the DUT takes them.
    """
    moved = {change.name: change.delta for change in changes}
    found = copy_counts(live.topology, result, moved)
    read = {port.name for port in live.topology.ports if port.role is PortRole.MONITOR and not port.unread}
    outputs = {mirror.output for mirror in live.topology.mirrors}
    if found.received >= found.expected or not read.issuperset(outputs):
        return []
    full = sum(moved.get(f"{port}.far.ring_drops", 0) for port in outputs)
    if full:
        ring = f"the ring by which the generator reads {', '.join(sorted(filter(None, outputs)))}"
        return [InvalidReason(Reason.LATE_POLL, f"{full} copies found full {ring}")]
    elapsed_ns = max((count.elapsed_ns for count in result.counts), default=0)
    sent = sum(count.sent for count in result.counts)
    gap_ns, burst = result.health.longest_poll_gap_ns or 0, result.health.largest_burst or 0
    unread = found.expected * gap_ns // elapsed_ns if elapsed_ns else 0
    at_once = found.expected * burst // sent if sent else 0
    causes = (
        (unread, f"the generator did not read for {gap_ns / 1e6:.1f} ms"),
        (at_once, f"the generator sent {burst} frames at once"),
    )
    return [
        InvalidReason(Reason.LATE_POLL, f"{what}, which have {copies} copies; a monitor's ring holds {RX_DESCRIPTORS}")
        for copies, what in causes
        if copies > RX_DESCRIPTORS
    ]


def counted_trial(
    live: LiveTopology, spec: TrialSpec, repeats: int, remaining_s: float | None = None, *, whole: bool = False
) -> Trial:
    """A trial whose counts are valid, even if it missed its load; InvalidTrialsError if no repeat gave one.

    ``whole``: a trial that missed its load must not have lost a frame, because each is expected at every crossing.
    """

    def measure(repeat_of: str | None) -> Trial:
        return live.runner.run_once(
            spec,
            remaining_s,
            repeat_of=repeat_of,
            also=lambda result, changes: _lost_by_rig(live, result, changes),
            anywhere=spec.load_fps <= CALM_FPS,
        )

    def tolerated(trial: Trial) -> frozenset[Reason]:
        return _TOLERATED if not whole or trial.result.lost == 0 else frozenset()

    return repeat_until_valid(measure, repeats, live.runner.context.time_limit, tolerated)


def copies_of(live: LiveTopology, trial: Trial) -> CopyCounts:
    changes = trial.ledger.deltas if trial.ledger is not None else ()
    return copy_counts(live.topology, trial.result, {change.name: change.delta for change in changes})


def _overloaded_values(live: LiveTopology, trial: Trial) -> dict[str, float]:
    overloaded = copies_of(live, trial)
    seconds = max(count.elapsed_ns for count in trial.result.counts) / 1e9
    values = {"mirror_rate": overloaded.received / seconds} if seconds > 0 else {}
    if overloaded.expected and not overloaded.missing:
        values["mirror_completeness_overloaded"] = overloaded.received / overloaded.expected
        values["mirror_dropped"] = sum(overloaded.dropped.values()) / overloaded.expected
        values["mirror_unexplained"] = abs(overloaded.unexplained) / overloaded.expected
    return values


@dataclass(frozen=True, slots=True)
class CopyTrials:
    """The fixture ``copies``: counts the copies of trials at a fixed load. ``profile``: gives durations."""

    profile: Profile

    @checked("copies")
    def __call__(self, live: Live, traffic: OneTraffic, *, load_fps: WholeLoad = CALM_FPS) -> CopyCounts:
        """Learn, send, count.

        InconclusiveError if no frame crossed a mirror, or nobody counts how many did: "0 of 0 copies" is no pass.
        """
        found = self.send(live, traffic, load_fps=load_fps)
        if found.missing:
            raise InconclusiveError(f"copies could not be counted: {found.missing}")
        return found

    @checked("copies.send")
    def send(self, live: Live, traffic: OneTraffic, *, load_fps: WholeLoad = CALM_FPS) -> CopyCounts:
        """As a call, but accept any counts: for callers that only need frames to have passed."""
        check_live("copies", live, traffic)
        live.learn(traffic)
        duration_s = self.profile.comparison_trial_s
        # Whole frames are compared by the samples of latency.
        spec = trial_spec(live, traffic, load_fps, duration_s, "copies", latency=True, residual_s=_RESIDUAL_S)
        return copies_of(live, counted_trial(live, spec, self.profile.invalid_trial_budget, whole=True))
