"""Outages: how long an event blocked each direction, by both methods of RFC 6201, and what is certain of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.model.display import format_seconds, format_value, how_many
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import Windows, WindowState, lost_by_window, reaching
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.statistics import median_interval
from pytest_nfvperf.model.traffic.trial import ArrivalGap, Direction, DirectionCounts

GAP_S = 0.001
"""A shorter time without a frame is not listed."""

_STALL_NS = 3_000_000
"""If nothing was lost, a shorter time is no outage: frames came late, and a kernel keeps a thread so long."""

OUTAGE_WINDOW_S = 0.001
"""Of an outage's trial: so exactly is known when the machine disturbed it, or left frames out."""

CERTAIN_SHARE = 0.05
"""If less of an outage is uncertain, a reading of a comparison is exact: the rest is common to all subjects."""

_MOST_BINS = 400
"""Bars of the chart of an outage."""


@dataclass(frozen=True, slots=True)
class BlockedGap:
    """A time in which nothing of a direction arrived. Times in ns from the event, below 0 before it.

    Attributes:
        after_ns, before_ns: of the last frame before it and the first after it; ``before_ns``: the trial's end if none.
        least_ns: how long the DUT blocked at least: without the time in which the generator offered nothing at its
            ends, or did not read, or the machine kept the DUT's CPU.
        lost: frames that were offered in it and lost, as far as windows tell directions and classes apart.
        left_out: frames that were due in it and that the generator did not offer.
        ended: a frame arrived after it.
    """

    after_ns: int
    before_ns: int
    least_ns: int
    lost: int
    left_out: int = 0
    ended: bool = True

    @property
    def blocked_ns(self) -> int:
        return self.before_ns - self.after_ns


@dataclass(frozen=True, slots=True)
class BlockedDirection:
    """What an event blocked of one direction, or of a class in it.

    Attributes:
        of_class: "" for all traffic.
        gaps: from the event on.
        offered_fps: frames/s that were offered.
        lost: offered and not received, over the trial.
        duplicated, out_of_order: over the trial; None where nobody counts them.
    """

    direction: Direction
    of_class: str
    gaps: tuple[BlockedGap, ...]
    offered_fps: float
    lost: int
    duplicated: int | None = None
    out_of_order: int | None = None

    @property
    def blocked_ns(self) -> int:
        """RFC 6201 section 4, by time stamps: from the last frame before a gap to the first after it, over all gaps."""
        return sum(gap.blocked_ns for gap in self.gaps)

    @property
    def least_ns(self) -> int:
        return sum(gap.least_ns for gap in self.gaps)

    @property
    def by_loss_ns(self) -> int:
        """RFC 6201 section 4, by loss: lost frames over the offered load.

        While the generator was away in a gap it offered less, so what it left out there counts as lost.
        """
        frames = self.lost + sum(gap.left_out for gap in self.gaps)
        return round(frames / self.offered_fps * 1e9) if self.offered_fps else 0

    @property
    def ended(self) -> bool:
        return all(gap.ended for gap in self.gaps)

    def __str__(self) -> str:
        """``p0->p1 of class data: blocked 312 ms in 1 gap, 310 ms by 31,004 lost``."""
        of_class = f" of class {self.of_class}" if self.of_class else ""
        blocked, by_loss = (format_seconds(ns / 1e9) for ns in (self.blocked_ns, self.by_loss_ns))
        return (
            f"{self.direction}{of_class}: blocked {blocked} in {how_many(len(self.gaps), 'gap')}, "
            f"{by_loss} by {self.lost:,} lost"
        ) + (f" and {left_out:,} not offered meanwhile" if (left_out := sum(gap.left_out for gap in self.gaps)) else "")


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """What a DUT did, or was done to it; ``source`` says so. ``ns``: CLOCK_MONOTONIC, of an Outage from the event."""

    ns: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Outage:
    """One event, and what it blocked. Times in ns from when the event began.

    Attributes:
        trial: its id.
        event: its name.
        returned_ns: when the DUT had taken the event: what caused it returned.
        blocked: each direction, and each class of a mix in it.
        certain_lost, lost: frames of all directions that the DUT certainly lost from the event on, and at most.
        bin_ns, bins_from_ns, received, offered: frames of all directions by short times around the event.
        log: what generator and DUT did meanwhile.
        notes: for a person: what else is known.
    """

    trial: str
    event: str
    returned_ns: int
    blocked: tuple[BlockedDirection, ...]
    certain_lost: int
    lost: int
    bin_ns: int = 0
    bins_from_ns: int = 0
    received: tuple[int, ...] = ()
    offered: tuple[int, ...] = ()
    log: tuple[LogLine, ...] = ()
    notes: tuple[str, ...] = ()

    def worst(self, of_class: str = "") -> BlockedDirection | None:
        """The direction that was blocked longest, of a class or of all traffic."""
        own = [each for each in self.blocked if of_class in {"", each.of_class}]
        return max(own, key=lambda each: (not each.ended, each.blocked_ns), default=None)

    def span_s(self, of_class: str = "") -> tuple[float, float]:
        """For how long the direction that was blocked longest was, at least and at most."""
        own = [(each.least_ns / 1e9, each.blocked_ns / 1e9) for each in self.blocked if of_class in {"", each.of_class}]
        return max((least for least, _ in own), default=0.0), max((most for _, most in own), default=0.0)

    @property
    def recovered_ns(self) -> int:
        """From the event to the end of the last gap, 0 without one."""
        return max((gap.before_ns for each in self.blocked for gap in each.gaps), default=0)

    @property
    def ended(self) -> bool:
        return all(each.ended for each in self.blocked)


def outage_of(
    result: TrialResult,
    trial: str,
    event: str,
    began_ns: int,
    returned_ns: int,
    log: Sequence[LogLine] = (),
    *,
    recovered: bool = False,
) -> Outage:
    """What an event blocked, by its trial.

    ``began_ns``, ``returned_ns``: of the event, CLOCK_MONOTONIC, as ``TrialResult.started_ns``. ``recovered``: at its
    end all that was sent arrived.
    """
    at_ns = began_ns - (result.started_ns or began_ns)
    named = [(each.name, count) for each in result.classes for count in each.counts]
    named = named or [("", count) for count in result.counts]
    blocked = tuple(_blocked(result, of_class, count, at_ns, recovered=recovered) for of_class, count in named)
    lost = max(0, result.lost)
    lines = tuple(replace(line, ns=line.ns - began_ns) for line in log)
    ends = [gap.before_ns for each in blocked for gap in each.gaps]
    chart = _bins(result, at_ns, max([*ends, returned_ns - began_ns]))
    return Outage(
        trial,
        event,
        returned_ns - began_ns,
        blocked,
        min(lost, _certain_loss(result, blocked, at_ns)),
        lost,
        *chart,
        lines,
    )


def _blocked(
    result: TrialResult, of_class: str, count: DirectionCounts, at_ns: int, *, recovered: bool
) -> BlockedDirection:
    arrivals, sent_s = count.arrivals, result.due_s
    fps = count.intended / sent_s if sent_s else 0.0
    gaps = list(arrivals.gaps) if arrivals is not None else []
    interval_ns, end_ns = 1e9 / fps if fps else 0.0, round(sent_s * 1e9)
    last_ns = arrivals.last_ns if arrivals is not None else 0
    ended = recovered or end_ns - last_ns <= GAP_S * 1e9 + interval_ns
    if not ended:
        gaps.append(ArrivalGap(last_ns, end_ns, last_ns, end_ns, max(0, count.lost), 0))
    states = result.windows.ends(sent_s) if result.windows is not None else ()
    share = count.intended / max(1, sum(each.intended for each in result.counts))
    seen = [_gap(result.windows, states, gap, interval_ns, at_ns, share) for gap in gaps if gap.due_before_ns > at_ns]
    if seen and not ended:
        seen[-1] = replace(seen[-1], ended=False)
    own = _apart([gap for gap in seen if gap.lost or gap.least_ns >= _STALL_NS or not gap.ended])
    return BlockedDirection(
        count.direction, of_class, own, fps, max(0, count.lost), count.duplicated, count.out_of_order
    )


def _apart(gaps: Sequence[BlockedGap]) -> tuple[BlockedGap, ...]:
    """The same without time that two of them share: one may be of frames that came late, and the next of lost ones."""
    found: list[BlockedGap] = []
    for gap in gaps:
        after_ns = max(gap.after_ns, found[-1].before_ns) if found else gap.after_ns
        if gap.before_ns > after_ns:
            found.append(replace(gap, after_ns=after_ns, least_ns=min(gap.least_ns, gap.before_ns - after_ns)))
    return tuple(found)


def _gap(
    windows: Windows | None,
    states: Sequence[WindowState],
    gap: ArrivalGap,
    interval_ns: float,
    at_ns: int,
    share: float,
) -> BlockedGap:
    """``share``: of all frames due, those of this direction and class.

    Frames that the DUT held up are late, not lost: so the longer of the two times counts.

    The DUT need not have blocked while nothing was offered at a gap's ends, nor while the machine kept its CPU.
    """
    read_ns, due_ns = gap.read_before_ns - gap.read_after_ns, gap.due_before_ns - gap.due_after_ns
    late_ns = max(0, read_ns - due_ns - gap.absent_ns)
    after, before = (
        (gap.read_after_ns, gap.read_before_ns) if late_ns >= _STALL_NS else (gap.due_after_ns, gap.due_before_ns)
    )
    lost, left_out, certain_ns, paused_ns = gap.missing, 0, float(due_ns), 0.0
    if windows is not None:
        inside = range(int(after // windows.length_ns), int(-(-before // windows.length_ns)))
        refused, skipped = (_frames(windows, name, inside) for name in ("refused", "skipped"))
        lost, left_out = gap.missing + round(sum(refused) * share), round(sum(skipped) * share)
        certain_ns = _offered_span_ns(windows, inside, after, before, interval_ns)
        paused = [at for at in inside if at < len(states) and states[at] is WindowState.PAUSED]
        paused_ns = float(len(paused) * windows.length_ns)
    least_ns = certain_ns - 2 * interval_ns if lost else late_ns
    return BlockedGap(after - at_ns, before - at_ns, max(0, round(least_ns - paused_ns)), lost, left_out)


def _frames(windows: Windows, name: str, inside: range) -> list[int]:
    """Frames of all threads in each of these windows."""
    columns = [getattr(thread, name) for thread in windows.threads]
    return [sum(column[at] for column in columns if at < len(column)) for at in inside]


def _offered_span_ns(windows: Windows, inside: range, after: float, before: float, interval_ns: float) -> float:
    """From the first frame that was certainly offered in a gap to the last: at its ends some may have been left out."""
    skipped, refused, sent = (_frames(windows, name, inside) for name in ("skipped", "refused", "sent"))
    offered = [early + late for early, late in zip(sent, refused, strict=True)]
    first, last, edge = after, before, len(inside) - 1
    for number, at in enumerate(inside):
        end_ns = (at + 1) * windows.length_ns
        if skipped[number]:
            first = float(end_ns)
        if (not skipped[number] and end_ns - after > interval_ns) or (number and offered[number]):
            break  # the offered frames of the first window may be older than the gap
    for number, at in reversed(list(enumerate(inside))):
        start_ns = at * windows.length_ns
        if skipped[number]:
            last = float(start_ns)
        if (not skipped[number] and before - start_ns > interval_ns) or (number < edge and offered[number]):
            break
    return max(0.0, last - first)


def _certain_loss(result: TrialResult, blocked: Sequence[BlockedDirection], at_ns: int) -> int:
    """Frames that the DUT lost for certain from the event on.

    Of a gap's those of the time that is certain; of others those of windows in which, and before which, nobody kept the
    DUT from its CPU: a lost frame is missed when the next one arrives.
    """
    gaps = [gap for each in blocked for gap in each.gaps]
    certain = sum(gap.lost * gap.least_ns / gap.blocked_ns for gap in gaps if gap.blocked_ns)
    others = max(0, result.lost - sum(gap.lost for gap in gaps))
    if (windows := result.windows) is not None:
        losses, states = lost_by_window(windows, result.due_s, result.lost), reaching(windows.ends(result.due_s))
        first = int(at_ns // windows.length_ns)
        own = [lost for at, lost in enumerate(losses) if at >= first and states[at] is not WindowState.PAUSED]
        others = min(others, max(0, sum(own)))
    return round(certain) + others


def _bins(result: TrialResult, at_ns: int, until_ns: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Frames received and offered by short times, from a little before the event to a little after the last gap."""
    windows = result.windows
    if windows is None:
        return 0, 0, (), ()
    margin = max(20, int(until_ns / 10 / windows.length_ns))
    first = max(0, int(at_ns // windows.length_ns) - margin)
    last = min(windows.within(result.due_s), int((at_ns + until_ns) // windows.length_ns) + margin)
    step = max(1, -(-(last - first) // _MOST_BINS))
    received, offered = [], []
    for start in range(first, last, step):
        part = slice(start, min(start + step, last))
        received.append(sum(sum(thread.received[part]) for thread in windows.threads))
        offered.append(sum(sum(thread.sent[part]) + sum(thread.refused[part]) for thread in windows.threads))
    return windows.length_ns * step, first * windows.length_ns - at_ns, tuple(received), tuple(offered)


def outage_figures(outages: Sequence[Outage]) -> Iterator[Figure]:
    """Yield the figures of repeats of one event: medians and the longest, of all traffic and of each class."""
    evidence, times = tuple(each.trial for each in outages), how_many(len(outages), "repeat")
    more: dict[str, Any] = {"evidence": evidence, "repeats": len(outages)}
    ended = all(outage.ended for outage in outages)
    for of_class in dict.fromkeys(["", *(each.of_class for outage in outages for each in outage.blocked)]):
        spans = [outage.span_s(of_class) for outage in outages]
        longest = max(outages, key=lambda each: (not each.ended, each.span_s(of_class)[1]))
        own = {"of_class": of_class, **more}
        yield _figure("outage", "s", spans, ended, f"median of {times}; {_range(spans)}", own)
        worst = f"longest of {times}: {longest.worst(of_class)}"
        yield _figure("outage_longest", "s", [longest.span_s(of_class)], longest.ended, worst, own)
    lost = [(float(outage.certain_lost), float(outage.lost)) for outage in outages]
    yield _figure("outage_frames", "frames", lost, ended, f"median of {times}", more)
    ends = [outage.recovered_ns / 1e9 for outage in outages]
    unsure = [most - least for least, most in (outage.span_s() for outage in outages)]
    recovered = [(max(0.0, end - uncertain), end) for end, uncertain in zip(ends, unsure, strict=True)]
    yield _figure("recovery", "s", recovered, ended, f"median of {times}; {_range(recovered)}", more)


def _range(spans: Sequence[tuple[float, float]]) -> str:
    values = [most for _, most in spans]
    return f"{format_seconds(min(values))} .. {format_seconds(max(values))}"


def _figure(
    metric: str, unit: str, spans: Sequence[tuple[float, float]], ended: bool, confidence: str, more: dict[str, Any]
) -> Figure:
    """The median, from the least of the lower ends to the most of the upper ones that its interval allows."""
    least, most = (median_interval([span[end] for span in spans]) for end in (0, 1))
    low, uncertain = min(least.low, most.value), most.value - least.value
    figure = Figure(metric, most.value, unit, low, most.high, confidence=confidence, **more)
    if not ended:
        return figure.bounded(Why.ENDED_EARLY, high=True, detail="nothing arrived again until the trial ended")
    if uncertain <= CERTAIN_SHARE * most.value:
        return figure
    return replace(figure, why=(Why.SLOWED,), detail=f"{format_value(uncertain, unit)} of it may be the machine's")
