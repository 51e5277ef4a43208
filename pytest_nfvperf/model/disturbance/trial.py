"""The result of a trial, what made it invalid, and what it shows of the DUT: ``judge`` says which windows count.

A trial is judged by its undisturbed windows if they are enough, else by those in which no CPU was taken away, else as a
whole. What it leaves is an interval of loss: what is certainly the DUT's, and what may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.windows import (
    SelectedWindows,
    Windows,
    WindowState,
    lost_by_window,
    reaching,
    select_windows,
)
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.trial import (
    ClassCounts,
    CountedFrames,
    DirectionCounts,
    MonitorCounts,
    NicCounts,
    RigHealth,
    TrialSpec,
    VnfCounts,
    least_offered_share,
)


class ReasonKind(StrEnum):
    """What was not as it should be, and so what the counts of a trial are still good for."""

    LOAD = "the generator offered less than its load, or later; each frame that was sent is counted"
    CPU = "a CPU was taken away or moved; the counts are right, and the loss may be the machine's"
    TESTBED = "the counts, or what was measured, cannot be trusted"


class Reason(StrEnum):
    """Why a trial says nothing about the DUT. These codes are stable; details are in ``InvalidReason``."""

    kind: ReasonKind
    lower_helps: bool  # the load itself is the cause; after a preemption, retrying at the same load may help, too

    def __new__(cls, code: str, kind: ReasonKind, lower_helps: bool = False) -> Reason:
        member = str.__new__(cls, code)
        member._value_, member.kind, member.lower_helps = code, kind, lower_helps
        return member

    SKIPPED_FRAMES = "skipped_frames", ReasonKind.LOAD
    FELL_BEHIND = "fell_behind", ReasonKind.LOAD, True
    LATE_POLL = "late_poll", ReasonKind.CPU
    BURST = "burst", ReasonKind.CPU  # of earlier evidence, as CORRUPT_FRAMES
    UNSENT = "unsent", ReasonKind.LOAD, True
    MORE_RECEIVED_THAN_SENT = "more_received_than_sent", ReasonKind.TESTBED
    FOREIGN_FRAMES = "foreign_frames", ReasonKind.TESTBED
    COUNTER_WENT_BACK = "counter_went_back", ReasonKind.TESTBED
    CORRUPT_FRAMES = "corrupt_frames", ReasonKind.TESTBED
    DUT_CPU_STOLEN = "dut_cpu_stolen", ReasonKind.CPU
    CPU_MOVED = "cpu_moved", ReasonKind.CPU
    GENERATOR_DIED = "generator_died", ReasonKind.TESTBED
    LINK_DOWN = "link_down", ReasonKind.TESTBED
    STRETCHED_TIME = "stretched_time", ReasonKind.TESTBED, True  # an engine that was stopped counted a part
    TESTER_DROPS = "tester_drops", ReasonKind.TESTBED, True  # the generator lost frames that had arrived
    IMPOSSIBLE_COUNTS = "impossible_counts", ReasonKind.TESTBED
    SUSPENDED = "suspended", ReasonKind.TESTBED


COUNTS_HOLD = frozenset(reason for reason in Reason if reason.kind is not ReasonKind.TESTBED)
OF_THE_LOAD = frozenset(reason for reason in Reason if reason.kind is ReasonKind.LOAD)
"""They invalidate no count of frames, such as those of a trial of so many frames, or of copies."""


OF_AN_EVENT = COUNTS_HOLD | {Reason.LINK_DOWN, Reason.COUNTER_WENT_BACK, Reason.FOREIGN_FRAMES}
"""An event causes them itself, or they leave a bound of the outage: they do not make its trial invalid. A bond whose
member went sends frames of its own, so that switches learn where its stations are now."""


@dataclass(frozen=True, slots=True)
class InvalidReason:
    code: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def counts_hold(self) -> bool:
        """True if only the load was wrong, or the machine disturbed: whoever judges neither can use the counts."""
        return self.code in COUNTS_HOLD


def load_too_high(invalid: Iterable[InvalidReason]) -> bool:
    return any(reason.code.lower_helps for reason in invalid)


class Inconclusive(StrEnum):
    """Why a valid trial is inconclusive: nobody can tell what the DUT loses at its load."""

    WHOSE_LOSS = "frames were lost, and too little of it was undisturbed to tell whose loss that was"
    GIVEN_UP = "it was given up for a loss that turned out not to be the DUT's, and is too short to confirm the load"
    SHORT_OF_LOAD = "the generator did not offer its load"


COUNTED = "frames"
"""Purpose of a trial of so many frames, whatever its load."""


class LossBound(StrEnum):
    """Why a loss is only the most that the DUT may have lost."""

    PARTLY_SEEN = "a part of the trial was disturbed, and may have lost more or less than the rest"
    WHOSE_LOSS = "too little of the trial was undisturbed to tell the DUT's loss from the machine's"
    OF_ALL_CLASSES = "frames were lost while the machine disturbed the trial, and windows do not tell classes apart"


@dataclass(frozen=True)  # without slots, because it caches its judgement
class TrialResult(CountedFrames):
    """What a trial did. Counts are of all directions, rates per direction.

    A Generator builds it; the trial runner may add reasons.

    Attributes:
        vnfs: counts of the VNFs that the generator itself runs.
        monitors: counts of its monitors, without those of 0.
        started_ns: when the first frame was due, CLOCK_MONOTONIC (clock_gettime(2)); None if unknown.
        given_up: ended early by the spec's ``give_up_loss``; ``intended`` counts the frames due until then.
        placement: how far apart the CPUs of generator and DUT were; None if unknown.
        windows: counts by short windows, if the spec requests them; None if the engine has none.
        classes: counts of each class of a mix, which add up to ``counts``.
        nics: what the NICs of the generator's ports lost; none for ports that have no counters of their own.
    """

    spec: TrialSpec
    counts: tuple[DirectionCounts, ...]
    health: RigHealth
    invalid: tuple[InvalidReason, ...] = ()
    vnfs: tuple[VnfCounts, ...] = ()
    monitors: tuple[MonitorCounts, ...] = ()
    started_ns: int | None = None
    given_up: bool = False
    placement: CpuDistance | None = None
    windows: Windows | None = None
    classes: tuple[ClassCounts, ...] = ()
    nics: tuple[NicCounts, ...] = ()

    def of_class(self, name: str) -> TrialResult:
        """The counts of one class, judged over the whole trial: windows do not tell classes apart.

        ConfigError if the engine does not count it.
        """
        counts = next((class_counts.counts for class_counts in self.classes if class_counts.name == name), None)
        if counts is None:
            raise ConfigError(
                f"the generator does not count class {name!r}: send it by itself, or use another generator"
            )
        return replace(self, counts=counts, windows=None)

    @property
    def due_s(self) -> float:
        """How long frames were due: the spec's duration, or less if it was given up."""
        if not self.given_up:
            return self.spec.duration_s
        return max(counts.intended for counts in self.counts) / self.spec.load_fps

    @property
    def valid(self) -> bool:
        return not self.invalid

    @property
    def loss_ratio(self) -> float | None:
        """Lost / offered; None if nothing was offered."""
        return self.lost / self.offered if self.offered else None

    @property
    def offered_share(self) -> float:
        """Share of the due frames that were offered over the trial, 0..1, in the direction and class with the smallest.

        A DUT has memory: in each pause of the generator buckets fill and queues drain. So windows between pauses do not
        show that it sustains their load.
        """
        return min([least_offered_share(self.counts), *(each.offered_share for each in self.classes)])

    @property
    def sustained_load(self) -> bool:
        """True if the generator sustained the load, so figures belong to it. Saturating trials need not."""
        return self.spec.saturating or self.offered_share >= 1 - POLICY.most_not_offered

    @cached_property
    def judgement(self) -> TrialJudgement:
        return judge(self)

    @property
    def offered_fps(self) -> float | None:
        return self._mean_rate("offered")

    @property
    def received_fps(self) -> float | None:
        return self._mean_rate("received")

    def _mean_rate(self, field: str) -> float | None:
        rates = [getattr(c, field) * 1e9 / c.elapsed_ns for c in self.counts if c.elapsed_ns > 0]
        return sum(rates) / len(rates) if rates else None

    @property
    def latency(self) -> Histogram | None:
        """Latency of all directions, from the scheduled send time."""
        return Histogram.merged(c.latency for c in self.counts if c.latency is not None)


@dataclass(frozen=True, slots=True)
class LossInterval:
    """At most so many frames ``lost`` ``of`` those offered, and at least this ratio; ``why``: the two differ."""

    lost: int
    of: int
    least: float
    why: LossBound | None

    @property
    def most(self) -> float:
        return self.lost / self.of if self.of else 1.0


@dataclass(frozen=True)
class TrialJudgement:
    """What a trial shows of the DUT. Made by ``judge``.

    Attributes:
        trial: what engine, counters and machine told of it.
        undisturbed: counts of the undisturbed windows; None without windows, or if the trial was shorter than one.
        running: counts of the windows in which no CPU was taken away, if the trial is judged by those; else None.
    """

    trial: TrialResult
    undisturbed: SelectedWindows | None
    running: SelectedWindows | None

    @property
    def windows(self) -> SelectedWindows | None:
        """Those that count. None: the whole trial does."""
        return self.undisturbed if self.undisturbed is not None and self.undisturbed.enough else self.running

    @property
    def counted(self) -> SelectedWindows | TrialResult:
        """What counts: its ``offered``, ``lost`` and ``loss_ratio`` are the DUT's own, by which a load is judged."""
        return self.windows or self.trial

    @property
    def assumed_loss_ratio(self) -> float:
        """For a search: a trial that offered nothing counts as all lost."""
        return 1.0 if self.counted.loss_ratio is None else self.counted.loss_ratio

    @property
    def offered_share(self) -> float:
        """Share of the due frames that were offered in what counts: what a search goes by until it confirms."""
        return self.trial.offered_share if self.windows is None else 1 - self.windows.skipped_ratio

    @cached_property
    def inconclusive(self) -> Inconclusive | None:
        """Why a valid trial does not show what the DUT loses at its load; None if it does.

        A saturating trial is about the rate. In a trial without windows all loss is the DUT's.
        """
        trial, judged, reason = self.trial, self.windows, None
        if trial.spec.saturating:
            return None
        if trial.windows is not None:
            if judged is None:
                reason = Inconclusive.WHOSE_LOSS if trial.lost > 0 else None
            elif (judged.loss_ratio or 0.0) > (trial.spec.give_up_loss or 0.0):
                reason = None if judged.refutes else Inconclusive.WHOSE_LOSS
            elif trial.given_up and trial.spec.give_up_loss is not None:
                reason = Inconclusive.GIVEN_UP
        if self.offered_share >= 1 - POLICY.most_not_offered:
            return reason
        # A trial that was short of its load still refutes it if the DUT lost more than the generator left out.
        due, offered = (trial.intended, trial.offered) if judged is None else (judged.due, judged.offered)
        return Inconclusive.SHORT_OF_LOAD if reason is not None or self.counted.lost <= due - offered else None

    @property
    def conclusive(self) -> bool:
        """True if it is valid, and shows what the DUT loses at its load."""
        return self.trial.valid and self.inconclusive is None

    def refutes(self, loss_ratio: float) -> bool:
        """True if it proves that the DUT loses more than this ratio at its load.

        Loss while others used the cores proves nothing, although it may be low enough for a more tolerant goal.
        """
        alone = self.undisturbed
        if not self.conclusive:
            return False
        if alone is None:
            return self.assumed_loss_ratio > loss_ratio
        return alone.enough and alone.refutes and (alone.loss_ratio or 0.0) > loss_ratio

    @property
    def far_reason(self) -> str:
        """Why its figures may be too low: the CPUs were far apart; else "". A trial in which they moved has none."""
        distance = self.trial.placement
        return "" if distance is None or distance.moved else distance.far_reason

    @property
    def counts_hold(self) -> bool:
        """True if the counts are right, although the trial may be invalid."""
        return all(reason.counts_hold for reason in self.trial.invalid)

    def certain_drops(self, by_flow: int, by_rule: int) -> int:
        """Frames that the DUT dropped by itself; not by meters if it paused: what waited overruns their buckets.

        ``by_flow``: those of flows and MTUs. ``by_rule``: with those of meters and policers.
        """
        windows = self.trial.windows
        paused = windows is not None and WindowState.PAUSED in windows.ends(self.trial.spec.duration_s)
        return (by_rule if self.trial.valid and not paused else by_flow) if self.counts_hold else 0

    def loss(self, by_rule: int = 0) -> LossInterval:
        """What the DUT lost; ``by_rule``: frames that its own rules dropped, whatever the machine did.

        A DUT may begin to lose in the middle of a trial, or cease to. So in the windows that the machine disturbed it
        may have lost nothing, or as large a share as in the worst quarter of the others; and what is missing from
        pauses of the generator alone.
        """
        if self.trial.spec.purpose == COUNTED:
            return self._loss_of_frames(by_rule)
        trial, judged, lost, offered = self.trial, self.windows, self.trial.lost, self.trial.offered
        partly = judged is not None and judged.offered < offered
        if judged is not None and partly:
            elsewhere = max(judged.doubtful, round(judged.worst * (offered - judged.offered)))
            lost, offered = (judged.lost + elsewhere, offered) if elsewhere else (judged.lost, judged.offered)
        own = 0.0
        if trial.valid and judged is not None and self.inconclusive is not Inconclusive.WHOSE_LOSS:
            own = judged.lost / (trial.intended if partly else max(judged.due, judged.offered))
        elif trial.valid and trial.windows is None:
            own = trial.loss_ratio or 0.0
        least = max(by_rule / trial.offered if trial.offered else 0.0, own)
        interval = LossInterval(lost, offered, least, None)
        if not self.conclusive:
            return replace(interval, why=LossBound.WHOSE_LOSS)
        return replace(interval, why=LossBound.PARTLY_SEEN) if least < interval.most else interval

    def _loss_of_frames(self, by_rule: int) -> LossInterval:
        """Of a trial of so many frames: all count, whatever the machine did; windows tell whose loss it was."""
        trial, alone = self.trial, self.undisturbed
        interval = LossInterval(trial.lost, trial.offered, trial.loss_ratio or 0.0, None)
        if trial.windows is None or trial.lost <= 0:
            return interval
        own = max(0, alone.lost) if alone is not None and alone.refutes else 0
        return replace(interval, least=max(by_rule, own) / trial.offered, why=LossBound.WHOSE_LOSS)

    def loss_of_class(
        self, name: str, by_rule: int, own: int | None = None, *, bounded: bool = False
    ) -> tuple[int, int, LossBound | None]:
        """Frames of one class of a mix that the DUT lost: at most, at least, and why those differ.

        Windows and intervals count all classes together. So as many of its lost frames may be the machine's as all lost
        in disturbed ones.

        ``by_rule``: as of ``loss``. ``own``: frames that are the DUT's by the intervals of a soak, ``bounded`` if those
        are only the most; None for other trials.
        """
        trial, certain = self.trial, own
        counts = next(class_counts for class_counts in trial.classes if class_counts.name == name)
        everything = sum(class_counts.lost for class_counts in trial.classes)
        unsure = not trial.valid or (self.inconclusive is not None and trial.windows is not None)
        others = [class_counts for class_counts in trial.classes if class_counts.name != name]
        others_came = bool(others) and all(2 * class_counts.received > class_counts.offered for class_counts in others)
        if by_rule >= everything or (others_came and not counts.received and counts.offered >= 100):
            return counts.lost, counts.lost, None  # no disturbance makes flows drop, nor takes all of one class only
        if certain is None:
            certain = by_rule if unsure else max(by_rule, self.counted.lost)
        doubtful = everything - certain if unsure or trial.windows is not None or own is not None else 0
        if doubtful <= 0 or not counts.lost:
            return counts.lost, counts.lost, None
        most = counts.lost if unsure or bounded else min(counts.lost, certain)
        return most, max(0, counts.lost - doubtful), LossBound.OF_ALL_CLASSES


def judge(trial: TrialResult) -> TrialJudgement:
    """Whether it is valid, which windows count, whose loss it is, and what interval of loss they leave."""
    undisturbed = _selected(trial, slowed=False)
    if undisturbed is not None and undisturbed.enough:
        return TrialJudgement(trial, undisturbed, None)
    running = _selected(trial, slowed=True)
    # A load that the DUT sustains on shared cores it sustains on cores of its own, too. Windows on shared cores never
    # refute a load: they say nothing if they lost more than the goal allows.
    allowed = trial.spec.give_up_loss or 0.0
    usable = running is not None and running.enough and (running.loss_ratio or 0.0) <= allowed
    return TrialJudgement(trial, undisturbed, running if usable else None)


def _selected(trial: TrialResult, *, slowed: bool) -> SelectedWindows | None:
    if trial.windows is None or not trial.windows.within(trial.due_s):
        return None
    return select_windows(trial.windows, trial.due_s, trial.lost, slowed=slowed)


@dataclass(frozen=True, slots=True)
class AttributedInterval:
    """Whose loss an interval of a soak had, by the windows in it.

    Attributes:
        lost: frames lost in undisturbed windows: the DUT's own.
        disturbed_lost: frames lost in the others.
        disturbed: why nobody can tell whose loss it was; "" if nothing was lost, or enough of it was undisturbed.
    """

    lost: int
    disturbed_lost: int
    disturbed: str = ""

    @property
    def all_lost(self) -> int:
        return self.lost + self.disturbed_lost


def attributed_intervals(trial: TrialResult, times_s: Iterable[tuple[float, float]]) -> dict[int, AttributedInterval]:
    """Whose loss each interval had, by its number; ``times_s``: when each began and ended."""
    windows, distance = trial.windows, trial.placement
    if windows is None:
        return {}
    moved = (
        f"the host moved a CPU during the soak (a cache line's round trip took {distance.before_ns} ns before it "
        f"and {distance.after_ns} ns after), so nobody can tell whose loss it was"
        if distance is not None and distance.moved
        else ""
    )
    states, losses = reaching(windows.states(trial.due_s)), lost_by_window(windows, trial.due_s, trial.lost)
    length_s, attributed = windows.length_ns / 1e9, {}
    for number, (began_s, ended_s) in enumerate(times_s):
        # The last interval ends a little later than the last window, which has what is lost after it.
        first, last = round(began_s / length_s), min(round(ended_s / length_s), len(states))
        if first < last:
            interval = _attributed(states[first:last], losses[first:last])
            if moved and interval.lost:  # the CPUs may have been far apart by then
                interval = AttributedInterval(0, interval.all_lost, moved)
            attributed[number] = interval
    return attributed


def _attributed(states: Sequence[WindowState], losses: Sequence[int]) -> AttributedInterval:
    alone = [state is WindowState.UNDISTURBED for state in states]
    own = sum(lost for lost, undisturbed in zip(losses, alone, strict=True) if undisturbed)
    elsewhere = sum(losses) - own
    if not sum(losses) or sum(alone) >= POLICY.undisturbed_to_judge * len(states):
        return AttributedInterval(own, elsewhere)
    (usual, _), *_ = Counter(state for state in states if state is not WindowState.UNDISTURBED).most_common(1)
    share = sum(alone) / len(states)
    why = f"{share:.0%} of it was undisturbed ({usual}), too little to tell whose loss it was"
    return AttributedInterval(own, elsewhere, why)
