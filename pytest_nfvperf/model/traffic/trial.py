"""A trial: one constant load for one duration (RFC 2544 section 23).

Results are integer counts and measured times. Rates and ratios are computed from them and never stored. On rings with
back-pressure (vhost-user, memif)

    intended = sent + refused + skipped

*Refused* frames were due, but the ring was full because the DUT did not drain it in time: its loss. *Skipped* frames
were due while the generator was not running: the rig's failure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pytest_nfvperf.model.display import format_connections, format_fps
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.mix import AnyTraffic, ClassStream, class_streams, learning_streams

ComeBack = Literal["as sent", "swapped", "never"]
"""How a DUT returns frames: as a router may; with both ends' addresses and ports swapped; or not at all."""

SCHEDULED = "from the scheduled send time"
_LATENCY_ORIGINS = {"trex": "from the actual send time (TRex knows no other)"}


@dataclass(frozen=True, slots=True)
class Direction:
    """From one generator port to another, by the ports' names."""

    tx: str
    rx: str

    def __str__(self) -> str:
        return f"{self.tx}->{self.rx}"


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """Parameters of a trial.

    Attributes:
        traffic: the profile, or a mix of several.
        load_fps: frames/s **per direction**, a whole number; all classes of a mix together.
        duration_s: how long frames are due, in seconds.
        directions: who sends to whom; one entry, or two when bidirectional. Several of one sender: to a group address,
            and each receiver counts all frames.
        latency: record latency histograms.
        residual_s: how long to wait for residual frames after the last (RFC 2544 section 23: 2 s).
        purpose: why it is run: warm-up, search, confirmation, latency, ceiling, ...
        saturating: the load is meant to exceed what the DUT takes: the rate received counts, not the loss.
        give_up_loss: loss ratio of its goal. If a larger share of all frames is refused, the engine may end the trial
            early, after a second or more; None: it must not. Engines that do not count refusals run on.
        window_s: length of the windows that have counts of their own; None: no windows. Some engines have none.
        come_back: how the DUT returns the frames. If never, those that it counts are the ones received.
        gap_s: times without a frame of a direction that are longer are listed, and a switch that goes away meanwhile,
            and comes back, is let in again; None: neither. Some engines cannot.
        ends: a class of a mix that ends before the others, and after how many seconds; None: none does.
    """

    traffic: AnyTraffic
    load_fps: int
    duration_s: float
    directions: tuple[Direction, ...]
    latency: bool = True
    residual_s: float = 0.1
    purpose: str = "trial"
    saturating: bool = False
    give_up_loss: float | None = None
    window_s: float | None = None
    come_back: ComeBack = "as sent"
    gap_s: float | None = None
    ends: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        if self.load_fps < 1:
            raise ValueError(f"load must be at least 1 frame/s per direction, not {self.load_fps}")
        if not (math.isfinite(self.duration_s) and self.duration_s > 0):
            raise ValueError(f"duration must be above 0 s, not {self.duration_s}")
        if not self.directions:
            raise ValueError("a trial needs at least one direction")

    @property
    def load_text(self) -> str:
        """``4.00 Mpps``, of a conversation ``86.3 kconn/s``: per direction."""
        return (format_connections if self.traffic.is_conversation else format_fps)(self.load_fps)

    @property
    def lasts_s(self) -> float:
        """Until all was sent: held connections are closed after ``duration_s``."""
        return self.duration_s + self.traffic.hold_s

    def streams(self, frames: int) -> tuple[ClassStream, ...]:
        """What each class sends in each direction, of so many frames per direction."""
        made = streams_of(self.traffic, self.directions, self.load_fps, frames)
        if self.ends is None:
            return made
        name, seconds = self.ends
        return tuple(
            replace(each, frames=min(each.frames, max(1, int(each.fps * seconds)))) if each.sent.name == name else each
            for each in made
        )


def streams_of(
    traffic: AnyTraffic, directions: Sequence[Direction], load_fps: int, frames: int, *, learning: bool = False
) -> tuple[ClassStream, ...]:
    """The streams of these directions; ``learning``: of each class in all of them.

    Directions of one sender have the same frames, which all their receivers get: broadcast, multicast.
    """
    senders: dict[str, list[int]] = {}
    for index, direction in enumerate(directions):
        senders.setdefault(direction.tx, []).append(index)
    reverses = reversals(directions)
    of_classes = learning_streams if learning else class_streams
    groups = [tuple(indices) for indices in senders.values()]
    made = of_classes(traffic, [reverses[first] for first, *_ in groups], load_fps, frames)
    return tuple(
        replace(stream, direction=groups[stream.direction][0], receivers=groups[stream.direction]) for stream in made
    )


def reversals(directions: Sequence[Direction]) -> list[bool]:
    """Whether each direction is the opposite of an earlier one."""
    pairs = [(direction.tx, direction.rx) for direction in directions]
    return [(rx, tx) in pairs[:at] for at, (tx, rx) in enumerate(pairs)]


@dataclass(frozen=True, slots=True)
class ArrivalGap:
    """A time in which no frame of a direction arrived, or none that was due in it: ns from the trial's start.

    Attributes:
        due_after_ns, due_before_ns: when the frames on its sides were due.
        read_after_ns, read_before_ns: when the generator read them.
        missing: frames sent between the two that had not come by then.
        absent_ns: how long the thread that reads was away meanwhile.
    """

    due_after_ns: int
    due_before_ns: int
    read_after_ns: int
    read_before_ns: int
    missing: int
    absent_ns: int


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the frames that arrived were due, by their sequence numbers and load: ns from the trial's start.

    Attributes:
        gap_frames: most frames missing between two that arrived.
        gap_after_ns, gap_before_ns: when those two were due; None if no frame is missing.
        gaps: all that are longer than the spec's ``gap_s``, in order.
    """

    first_ns: int
    last_ns: int
    gap_frames: int
    gap_after_ns: int | None = None
    gap_before_ns: int | None = None
    gaps: tuple[ArrivalGap, ...] = ()

    @property
    def outage_ns(self) -> int:
        if self.gap_after_ns is None or self.gap_before_ns is None:
            return 0
        return self.gap_before_ns - self.gap_after_ns


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Counts of one frame of a conversation, over all connections of a trial.

    Attributes:
        name: of the step.
        from_server: it goes against the direction.
        due: frames that what they answer made due; of the first, those offered.
        sent, refused, received: as of DirectionCounts.
        failed: connections that got so far, and no further. Those of all steps add up to the lost ones.
    """

    name: str
    from_server: bool
    due: int
    sent: int
    refused: int
    received: int
    failed: int


@dataclass(frozen=True, slots=True)
class DirectionCounts:
    """Integer counts of one direction over one trial, read after the traffic settled.

    Of a conversation they count connections: ``sent`` those that were opened, ``received`` those whose last frame
    arrived. Duplicated, corrupted and misdirected are frames of both directions.

    Attributes:
        intended: frames due by the load and the duration.
        sent: put on the port.
        refused: due, but the port's ring was full.
        skipped: due while the generator was not running.
        received: distinct frames of this trial and direction that arrived.
        duplicated: further copies of frames already received.
        out_of_order: received frames that came after a later one of their flow: of those with the same values in all
            fields that vary. TRex and iperf3 count by stream.
        foreign: frames on the receiving port that are not of this trial.
        corrupted: received frames whose content was not what was sent, and others that were changed beyond recognition.
        sent_bytes, received_bytes: with FCS.
        elapsed_ns: from the first to the last due time actually served, measured.
        latency: from the scheduled send time (no coordinated omission; TRex: the actual one), or None.
        latency_raw: from the actual send time, or None.
        arrivals: when the frames that arrived were due; None if nothing arrived or the engine does not report it.
        elsewhere: frames, copies included, that came to ports to which no direction of theirs leads, by that port.
            None, of this or another count: the engine cannot count it.
        steps: of a conversation, in their order; () of other frames, and of several classes together.
    """

    direction: Direction
    intended: int
    sent: int
    refused: int
    skipped: int
    received: int
    duplicated: int | None
    out_of_order: int | None
    foreign: int
    corrupted: int | None
    sent_bytes: int
    received_bytes: int
    elapsed_ns: int
    latency: Histogram | None = None
    latency_raw: Histogram | None = None
    arrivals: Arrivals | None = None
    elsewhere: tuple[tuple[str, int], ...] | None = None
    steps: tuple[StepCounts, ...] = ()

    @property
    def misdirected(self) -> int | None:
        return None if self.elsewhere is None else sum(frames for _, frames in self.elsewhere)

    @property
    def offered(self) -> int:
        """Frames that the DUT was asked to take: sent + refused."""
        return self.sent + self.refused

    @property
    def lost(self) -> int:
        """Offered but not received. Below 0 if the rig miscounted; validity reports that."""
        return self.offered - self.received


def failures(counts: Iterable[DirectionCounts]) -> tuple[str, ...]:
    """``2 of 100,000 connections failed at syn-ack``, of each step at which some failed."""
    return tuple(
        f"{step.failed:,} of {count.offered:,} connections failed at {step.name}"
        for count in counts
        for step in count.steps
        if step.failed
    )


class CountedFrames:
    """Sums over ``counts``."""

    __slots__ = ()
    counts: tuple[DirectionCounts, ...]

    @property
    def intended(self) -> int:
        return sum(each.intended for each in self.counts)

    @property
    def offered(self) -> int:
        return sum(each.offered for each in self.counts)

    @property
    def sent(self) -> int:
        return sum(each.sent for each in self.counts)

    @property
    def received(self) -> int:
        return sum(each.received for each in self.counts)

    @property
    def lost(self) -> int:
        """Offered - received; may be below 0."""
        return self.offered - self.received


@dataclass(frozen=True, slots=True)
class ClassCounts(CountedFrames):
    """Counts of one class of a mix, of each direction in which it is sent.

    ``foreign`` is the receiving port's, so all classes have the same there.
    """

    name: str
    counts: tuple[DirectionCounts, ...]

    @property
    def offered_share(self) -> float:
        return least_offered_share(self.counts)


def least_offered_share(counts: Iterable[DirectionCounts]) -> float:
    """Share of the due frames that were offered, 0..1, in the direction with the smallest; 0 without a frame due.

    One frame may always be missing: of a class of few frames it would be a large share.
    """
    return min((min(1.0, (count.offered + 1) / count.intended) for count in counts if count.intended), default=0.0)


_Number = TypeVar("_Number", int, float)
_ADDED = ("intended", "sent", "refused", "skipped", "received", "sent_bytes", "received_bytes")


def total_known(counts: Iterable[_Number | None]) -> _Number | None:
    """The sum; None without any count, or if one of them is unknown."""
    given = list(counts)
    known = [count for count in given if count is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(given) else None


def sum_of_classes(counts: Sequence[DirectionCounts]) -> DirectionCounts:
    """A direction's counts, from those of its classes; ``arrivals`` are those of the class with the longest outage."""
    if len(counts) == 1:
        return counts[0]
    arrivals = [count.arrivals for count in counts if count.arrivals is not None]
    worst = max(arrivals, key=lambda count: count.outage_ns, default=None)
    elsewhere = sum((Counter(dict(count.elsewhere or ())) for count in counts), Counter[str]())
    return replace(
        counts[0],
        **{name: sum(getattr(count, name) for count in counts) for name in _ADDED},
        duplicated=total_known([count.duplicated for count in counts]),
        out_of_order=total_known([count.out_of_order for count in counts]),
        corrupted=total_known([count.corrupted for count in counts]),
        elsewhere=None if any(count.elsewhere is None for count in counts) else tuple(sorted(elsewhere.items())),
        elapsed_ns=max(count.elapsed_ns for count in counts),
        steps=(),
        latency=Histogram.merged(count.latency for count in counts if count.latency is not None),
        latency_raw=Histogram.merged(count.latency_raw for count in counts if count.latency_raw is not None),
        arrivals=worst
        and replace(
            worst,
            first_ns=min(count.first_ns for count in arrivals),
            last_ns=max(count.last_ns for count in arrivals),
        ),
    )


def frames_by_direction(counts: Iterable[DirectionCounts]) -> tuple[DirectionCounts, ...]:
    """The same in frames, as ports count them: a conversation's are of both directions. ``counts``: of each class."""
    frames: dict[Direction, list[DirectionCounts]] = {}
    for count in counts:
        if not count.steps:
            frames.setdefault(count.direction, []).append(count)
            continue
        back = Direction(count.direction.rx, count.direction.tx)
        for direction, from_server in ((count.direction, False), (back, True)):
            own = [step for step in count.steps if step.from_server is from_server]
            sums = {name: sum(getattr(step, name) for step in own) for name in ("sent", "refused", "received")}
            due = sum(step.due for step in own)
            made = replace(count, direction=direction, intended=due, skipped=0, **sums, steps=())
            if from_server:  # these were counted forward
                made = replace(made, duplicated=0, elsewhere=())
            frames.setdefault(direction, []).append(made)
    return tuple(map(sum_of_classes, frames.values()))


def counts_by_class(
    streams: Sequence[ClassStream], counts: Sequence[DirectionCounts]
) -> tuple[tuple[DirectionCounts, ...], tuple[ClassCounts, ...]]:
    """Counts of each direction, and of each class of a mix, from those of each stream."""
    pairs = list(zip(streams, counts, strict=True))
    directions = tuple(
        sum_of_classes([count for stream, count in pairs if stream.direction == at])
        for at in dict.fromkeys(stream.direction for stream in streams)
    )
    names = dict.fromkeys(stream.sent.name for stream in streams if stream.sent.name)
    return directions, tuple(
        ClassCounts(name, tuple(count for stream, count in pairs if stream.sent.name == name)) for name in names
    )


@dataclass(frozen=True, slots=True)
class RigHealth:
    """What the generator reports of itself over the trial; None for unknown figures.

    Attributes:
        longest_poll_gap_ns: longest time in which no receive ring was polled.
        longest_lateness_ns: largest (actual - scheduled) send time.
        largest_burst: most frames handed to a port at once after a late poll.
        preemptions: involuntary context switches of the polling threads.
        run_delay_ns: time the polling threads waited for a CPU.
        busy_ratio: share of the time spent on frames, 0..1; the rest was idle polling.
    """

    longest_poll_gap_ns: int | None = None
    longest_lateness_ns: int | None = None
    largest_burst: int | None = None
    preemptions: int | None = None
    run_delay_ns: int | None = None
    busy_ratio: float | None = None

    @property
    def longest_gap_ns(self) -> int | None:
        """Longest time in which nothing was polled, or nothing sent that was due; None if neither is known."""
        return max((ns for ns in (self.longest_poll_gap_ns, self.longest_lateness_ns) if ns is not None), default=None)


@dataclass(frozen=True, slots=True)
class NicCounts:
    """What the NIC of a generator's port lost in a trial, by its own counters. None for one that it does not have.

    Attributes:
        port: of the topology.
        rx_missed: frames that arrived when no descriptor was free.
        rx_errors: frames that arrived and could not be received.
        tx_errors: frames that it took and did not send.
        rx_nombuf: times that its driver found no free buffer. These are no frames: a frame is lost later, if at all.
    """

    port: str
    rx_missed: int | None = None
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_nombuf: int | None = None

    @property
    def counted(self) -> dict[str, int]:
        """The counters that it has, by name."""
        counters = {name: getattr(self, name) for name in ("rx_missed", "rx_errors", "tx_errors", "rx_nombuf")}
        return {name: count for name, count in counters.items() if count is not None}

    @property
    def lost_on_receive(self) -> int:
        """Frames that arrived and were not received, as far as it counts them."""
        return (self.rx_missed or 0) + (self.rx_errors or 0)


@dataclass(frozen=True, slots=True)
class VnfCounts:
    """Counts of a VNF, of the frames that came in by one of its ports.

    Attributes:
        port: of the topology, by which they came in.
        peer: by which they leave.
        received: frames taken from the port.
        sent: put on the peer.
        ring_full: not sent, because the peer's ring was full: the DUT did not drain it.
        dropped: not sent, because the VNF is meant to drop them.
    """

    port: str
    peer: str
    received: int
    sent: int
    ring_full: int
    dropped: int


@dataclass(frozen=True, slots=True)
class MonitorCounts:
    """What a monitor received of a direction's frames to one destination address.

    A frame may be copied at several crossings of a bridge. If VNFs change its destination in between, each copy counts
    as a separate frame. Otherwise all copies but the first are ``duplicated``.

    Attributes:
        port: the monitor's.
        direction: whose frames.
        address: their destination MAC; "" for all that the monitor does not count by address.
        received: distinct frames.
        duplicated: further copies of them.
        out_of_order: of the distinct ones.
        truncated: copies without their end, as a mirror's snaplen leaves them.
        corrupted: other copies that differ from what was sent.
        received_bytes: with FCS.
    """

    port: str
    direction: Direction
    address: str
    received: int
    duplicated: int
    out_of_order: int
    truncated: int
    corrupted: int
    received_bytes: int

    @property
    def copies(self) -> int:
        return self.received + self.duplicated


def latency_origin(engines: Iterable[str | None]) -> str:
    """The send time from which these engines count latency. None: an engine of unknown name."""
    origins = [_LATENCY_ORIGINS.get(engine or "", SCHEDULED) for engine in engines]
    return "; ".join(dict.fromkeys(origins)) or SCHEDULED
