"""What a generator's polling threads and its witnesses saw by short windows of a trial, such as 10 ms.

A trial's mean mixes what the DUT does with what the machine does to it. A host takes a CPU away for milliseconds, or
lets somebody else use the other hardware thread of its core, which then computes half as fast. Both are *dated* here:
each window knows whether the CPUs of generator and DUT were there, and at full speed. What is measured in the
undisturbed windows is the DUT's, and repeats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from statistics import median

from pytest_nfvperf.model.traffic.frame_cost import FAR_COST

FEWEST_WINDOWS = 2
"""Undisturbed ones that a rate can be read from."""

MOST_ABSENT = 0.05
"""Share of a window that the generator's thread may be away: what it does not offer the DUT cannot forward."""

FREAKS, FREAK_SHARE = 3, 0.005
"""Of the fewest cycles that a probe took, so many, or this share, do not count."""

LATEST_NS = 500_000
"""A witness that comes later than this was kept from its CPU: the DUT was, too. A timer tick takes 20-70 us."""

ASKED_LATEST_NS = 150_000
"""A witness that was asked to look, because frames piled up, and came later than this was kept from its CPU. A frame is
lost at the earliest 300 us after that question, if the DUT did not work at all meanwhile."""

LONGEST_WAIT_NS = 120_000
"""A thread of the DUT that waited longer for its CPU within a window, the witness's looks left out, was kept off it."""

FULL_SPEED = 1.06
"""Cycles that the probe takes over those on a core of its own: up to this it had its core for itself.

Seen on shared hosts: 1.00 .. 1.01 alone, 1.1 .. 1.9 beside a busy hardware thread, and nothing between; on another one,
whose clocks vary, 0.97 .. 1.05 and 1.09 .. 1.8, and little between."""


class State(StrEnum):
    """What the machine did in a window: the first that holds."""

    ABSENT = "generator absent"
    PAUSED = "DUT's CPU taken away"
    FAR = "CPUs far apart"
    CHANGED = "state changed"
    BOTH_SHARED = "both cores shared"
    GENERATOR_SHARED = "generator's core shared"
    DUT_SHARED = "DUT's core shared"
    ALONE = "undisturbed"


STEADY = (State.ALONE, State.GENERATOR_SHARED, State.DUT_SHARED, State.BOTH_SHARED)
"""States in which both CPUs were there, and each core had the same users at either end of the window."""

_NOT_THERE = (State.ABSENT, State.PAUSED, State.FAR)
"""What one of them leaves behind in rings, the next window brings, too."""


@dataclass(frozen=True, slots=True)
class Paced:
    """A value of a window, and how slow the cores were meanwhile.

    Attributes:
        value: such as the rate received, frames/s.
        generator_slowed, dut_slowed: cycles that the probe took over those on a core of its own, less 1: 0 for a core
            of its own. The mean of both ends of the window; of several threads the slowest.
        rig: which one measured, of those that a comparison has side by side; None where each start is another.
        unrefused: True where no frame found its ring full, so that the DUT may be able to do more.
    """

    value: float
    generator_slowed: float
    dut_slowed: float
    rig: int | None = None
    unrefused: bool = False


@dataclass(frozen=True, slots=True)
class ThreadWindows:
    """Counts of one polling thread: a value a window in each, the first window from the trial's start.

    Attributes:
        late_ns: from the window's end to when the thread looked: its counts are up to then.
        sent, refused, skipped: frames, as in DirectionCounts, of the streams that it sends.
        received: distinct frames of the streams that end at its ports.
        missing: frames that had not come to them when a later one of their stream came; below 0 when more came after
            all.
        absent_ns: in which the thread did not poll.
        rx_ns, rx_frames: time in receive bursts that brought frames, and those frames; the generator's own cost.
        tx_ns, tx_frames: the same of transmit bursts.
        speed: cycles that a fixed piece of arithmetic took on its CPU at the window's end.
    """

    late_ns: tuple[int, ...]
    sent: tuple[int, ...]
    refused: tuple[int, ...]
    skipped: tuple[int, ...]
    received: tuple[int, ...]
    missing: tuple[int, ...]
    absent_ns: tuple[int, ...]
    rx_ns: tuple[int, ...]
    rx_frames: tuple[int, ...]
    tx_ns: tuple[int, ...]
    tx_frames: tuple[int, ...]
    speed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WitnessWindows:
    """What a witness saw of one CPU of the DUT at the end of each window.

    Attributes:
        cpu: which.
        late_ns: how late it got the CPU.
        speed: as ThreadWindows'.
        waited_ns: how long the DUT's thread had waited for the CPU in the window, without the CPU time of the witness
            itself; 0 where the kernel does not tell.
        took_ns: CPU time that the witness took itself, over the trial.
        stopped: 1 where a signal or a debugger kept the DUT's thread stopped at the window's end (SIGSTOP), else 0.
        asked_late_ns: within the window the generator asks for a look when frames pile up before a full ring; the
            longest from such a question to the look, 0 where none was asked.
        asked_speed: the most cycles of those looks, as speed.
    """

    cpu: int
    late_ns: tuple[int, ...]
    speed: tuple[int, ...]
    waited_ns: tuple[int, ...] = ()
    took_ns: int = 0
    stopped: tuple[int, ...] = ()
    asked_late_ns: tuple[int, ...] = ()
    asked_speed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Windows:
    """The windows of a trial. Without slots: it keeps what it has found out of itself.

    Attributes:
        length_ns: of a window.
        threads: of each polling thread of the generator.
        witnesses: of each CPU of the DUT that was watched.
        full_speed: cycles that the probe takes on a core of its own, by all that this generator has seen so far.
        near_cost_ns: time that a transmit burst takes a frame while the DUT's CPU is near (NearCosts); 0 where that is
            not known.
    """

    length_ns: int
    threads: tuple[ThreadWindows, ...]
    witnesses: tuple[WitnessWindows, ...] = ()
    full_speed: int = 0
    near_cost_ns: float = 0.0

    def within(self, duration_s: float) -> int:
        """How many windows lie whole within so many seconds of sending, and were seen by all."""
        return min(self._seen, math.floor(duration_s * 1e9 / self.length_ns))

    def received_fps(self, duration_s: float) -> tuple[float, ...]:
        """Rate received in each window, frames/s over all threads."""
        return self._rates([thread.received for thread in self.threads], duration_s)

    def offered_fps(self, duration_s: float) -> tuple[float, ...]:
        """Rate offered in each window, frames/s over all threads: sent, or refused by a full ring."""
        offered = [
            [sent + refused for sent, refused in zip(thread.sent, thread.refused, strict=True)]
            for thread in self.threads
        ]
        return self._rates(offered, duration_s)

    def states(self, duration_s: float) -> tuple[State, ...]:
        """What the machine did in each window.

        Speed is looked at between windows, so a window is steady that has the same state at either end. The first, of
        which only the end is known, is not; nor is one after an absence, which brings what waited in rings meanwhile.
        """
        found = self._at_ends[: self.within(duration_s)]
        before = (State.CHANGED, *found)[: len(found)]
        return tuple(_between(early, late) for early, late in zip(before, found, strict=True))

    def alone(self, duration_s: float) -> tuple[float, ...]:
        """Rates received in the undisturbed windows, frames/s over all threads."""
        seen = zip(self.received_fps(duration_s), self.states(duration_s), strict=True)
        return tuple(rate for rate, state in seen if state is State.ALONE)

    def paced(self, duration_s: float) -> tuple[Paced, ...]:
        """Rates received in the windows at both ends of which both CPUs were there and near, frames/s over all threads.

        Without the first window, of which only the end is known.
        """
        rates, ends = self.received_fps(duration_s), self._at_ends
        generator = self._slowed([thread.speed for thread in self.threads])
        dut = self._slowed([witness.speed for witness in self.witnesses])
        return tuple(
            Paced(
                rates[at],
                (generator[at - 1] + generator[at]) / 2,
                (dut[at - 1] + dut[at]) / 2,
                unrefused=self._unrefused(at),
            )
            for at in range(1, len(rates))
            if ends[at - 1] not in _NOT_THERE and ends[at] not in _NOT_THERE
        )

    def _slowed(self, speeds: Sequence[Sequence[int]]) -> list[float]:
        """At the end of each window, of the slowest; 0 where nobody looked, or the full speed is not known."""
        slowest = [max((speed[at] for speed in speeds), default=0) for at in range(self._seen)]
        return [max(0.0, cycles / self.full_speed - 1) if self.full_speed else 0.0 for cycles in slowest]

    def unrefused_share(self, duration_s: float) -> float:
        """Share of the steady windows in which no frame found its ring full.

        Of all windows where none was steady: the machine shared its cores all the time, and the ring was full or not. 1
        where there are none.
        """
        states = self.states(duration_s)
        looked_at = [at for at, state in enumerate(states) if state in STEADY] or range(len(states))
        return sum(map(self._unrefused, looked_at)) / len(looked_at) if looked_at else 1.0

    def _unrefused(self, at: int) -> bool:
        return not any(thread.refused[at] for thread in self.threads)

    def _rates(self, frames: Sequence[Sequence[int]], duration_s: float) -> tuple[float, ...]:
        """Of the frames that each thread counted in its windows, frames/s over all threads."""
        lengths = [self._lengths(thread) for thread in self.threads]
        return tuple(
            sum(_rate(counted[at], own[at]) for counted, own in zip(frames, lengths, strict=True))
            for at in range(self.within(duration_s))
        )

    @property
    def _seen(self) -> int:
        seen = [len(thread.late_ns) for thread in self.threads] + [len(witness.late_ns) for witness in self.witnesses]
        return min(seen, default=0)

    @cached_property
    def _at_ends(self) -> tuple[State, ...]:
        """Each figure of a trial asks for it, and a soak has thousands of windows: it is found out once."""
        return tuple(self._state_at_end(at) for at in range(self._seen))

    def _lengths(self, thread: ThreadWindows) -> list[int]:
        """Of each window as that thread saw it, ns."""
        return [self.length_ns + later - earlier for earlier, later in pairwise((0, *thread.late_ns))]

    def _state_at_end(self, at: int) -> State:
        if any(thread.absent_ns[at] > MOST_ABSENT * self.length_ns for thread in self.threads):
            return State.ABSENT
        if any(_kept_from_work(witness, at) for witness in self.witnesses):
            return State.PAUSED
        generator = any(self._shared(thread.speed[at]) for thread in self.threads)
        dut = any(self._shared(speed) for witness in self.witnesses for speed in _speeds(witness, at))
        if generator:
            return State.BOTH_SHARED if dut else State.GENERATOR_SHARED
        if dut:
            return State.DUT_SHARED
        return State.FAR if self.near_cost_ns and self.cost_ns(at) > FAR_COST * self.near_cost_ns else State.ALONE

    def costs(self, duration_s: float) -> tuple[float, ...]:
        """What a frame cost in the windows in which both cores were at full speed: see ``cost_ns``."""
        states = replace(self, near_cost_ns=0.0).states(duration_s)
        found = (self.cost_ns(at) for at, state in enumerate(states) if state is State.ALONE)
        return tuple(cost for cost in found if cost > 0)

    def cost_ns(self, at: int) -> float:
        """Time that transmit bursts took a frame in a window, ns; 0 where none was sent."""
        frames = sum(thread.tx_frames[at] for thread in self.threads)
        return sum(thread.tx_ns[at] for thread in self.threads) / frames if frames else 0.0

    def _shared(self, speed: int) -> bool:
        return self.full_speed > 0 and speed > FULL_SPEED * self.full_speed


def _kept_from_work(witness: WitnessWindows, at: int) -> bool:
    """The DUT's thread was, by the host, by another thread on its CPU, or by a signal; not by what it does itself."""
    if witness.late_ns[at] > LATEST_NS or (witness.stopped and witness.stopped[at]):
        return True
    if witness.asked_late_ns and witness.asked_late_ns[at] > ASKED_LATEST_NS:
        return True
    return bool(witness.waited_ns) and witness.waited_ns[at] > LONGEST_WAIT_NS


def _speeds(witness: WitnessWindows, at: int) -> tuple[int, ...]:
    """At the window's end, and at the looks within it that were asked for."""
    return (witness.speed[at], witness.asked_speed[at]) if witness.asked_speed else (witness.speed[at],)


def _between(early: State, late: State) -> State:
    """Of a window, from what was seen at its ends."""
    if late in _NOT_THERE:
        return late
    return late if early is late else State.CHANGED


def _rate(frames: int, length_ns: int) -> float:
    return frames * 1e9 / length_ns if length_ns > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Plateau:
    """The rate of a trial's undisturbed windows, those in state ALONE, frames/s over all threads.

    Attributes:
        fps: their median.
        low_fps, high_fps: its 95 % interval, by order statistics.
        worst_fps: of the slowest of all windows, disturbed ones too.
        windows: how many were undisturbed.
        others: states of the others, each with how many.
    """

    fps: float
    low_fps: float
    high_fps: float
    worst_fps: float
    windows: int
    others: tuple[tuple[State, int], ...]


def plateau(windows: Windows, duration_s: float) -> Plateau | None:
    """The plateau of a saturating trial; None where fewer than FEWEST_WINDOWS windows were undisturbed.

    Args:
        windows: of the trial.
        duration_s: for how long it sent; later windows are of residual frames.
    """
    alone = sorted(windows.alone(duration_s))
    if len(alone) < FEWEST_WINDOWS:
        return None
    states = windows.states(duration_s)
    low, high = _median_ranks(len(alone))
    others = tuple((state, states.count(state)) for state in State if state in states and state is not State.ALONE)
    worst = min(windows.received_fps(duration_s))
    return Plateau(median(alone), alone[low], alone[high], worst, len(alone), others)


def _median_ranks(count: int) -> tuple[int, int]:
    """Ranks around the median by the normal approximation of the binomial (Conover 1999, 3.2)."""
    reach = 0.98 * math.sqrt(count)
    return max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach) - 1)


def full_speed(seen: Mapping[int, int]) -> int:
    """Cycles that the probe takes on a core of its own, from how often each number was seen; 0 where nothing was.

    It is the middle of the fastest looks: of those within FULL_SPEED of the fewest. On some hosts they are within 1 %,
    on others a core of its own is now 3 % faster and now 4 % slower, as its clock is. Of a thousand looks one falls
    into a moment in which the clock ran faster than usual, so a few at the low end do not count.
    """
    fewest = _after(max(FREAKS, FREAK_SHARE * sum(seen.values())), seen)
    fastest = {cycles: times for cycles, times in seen.items() if fewest <= cycles <= FULL_SPEED * fewest}
    return _after((sum(fastest.values()) - 1) / 2, fastest)


def _after(left: float, seen: Mapping[int, int]) -> int:
    """What the first look took that comes after so many faster ones; the slowest where there are no more."""
    for cycles in sorted(seen):
        left -= seen[cycles]
        if left < 0:
            return cycles
    return max(seen, default=0)
