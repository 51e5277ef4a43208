"""Short windows of a trial, such as 10 ms: what the generator's polling threads and its witnesses saw in each.

A trial's mean mixes the DUT's work with the machine's disturbances. A host takes a CPU away for milliseconds, or lets
others use the second hardware thread of its core, which then computes half as fast. Each window knows whether the CPUs
of generator and DUT were running at full speed. Figures of the undisturbed windows are the DUT's, and repeatable.

Losses are assigned to windows, too. The generator knows in which one a ring refused a frame. A frame that the DUT took
and dropped is missed when the next one of its stream arrives, at most a latency later. Which windows count, and what
their loss proves: docs/explanation/noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby, pairwise
from statistics import median

from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.statistics import CONFIDENCE, SampleEstimate

MOST_LISTED, LISTED_OF_STEPS = 40, 4
"""How many of a trial's longest disturbances the evidence lists; and of a step of a search, because steps are many."""

MOST_ABSENT = 0.05
"""Share of a window in which the generator's thread may be absent."""

FREAKS, FREAK_SHARE = 3, 0.005
"""This number, or share, of the fastest probes do not count."""

LATEST_NS = 500_000
"""A witness that comes later than this waited for its CPU, and so did the DUT. A timer tick takes 20-70 us."""

ASKED_LATEST_NS = 150_000
"""The generator requests a look from a witness when frames pile up. A witness that comes later than this waited for its
CPU. A frame is lost at the earliest 300 us after that request, if the DUT did not work at all meanwhile."""

LONGEST_WAIT_NS = 120_000
"""Most time that the DUT's thread may wait for its CPU in a window, not counting the witness's own looks."""

FULL_SPEED = 1.06
"""Up to this many times the cycles of a core of its own, the probe had its core for itself.

Seen on shared hosts: 1.00 .. 1.01 alone, 1.1 .. 1.9 beside a busy hardware thread, and nothing between; on another one,
whose clocks vary, 0.97 .. 1.05 and 1.09 .. 1.8, and little between."""


class WindowState(StrEnum):
    """What the machine did in a window; the first state that applies."""

    PAUSED = "DUT's CPU taken away"
    ABSENT = "generator absent"
    CHANGED = "state changed"
    BOTH_SHARED = "both cores shared"
    GENERATOR_SHARED = "generator's core shared"
    DUT_SHARED = "DUT's core shared"
    UNDISTURBED = "undisturbed"


STEADY = (WindowState.UNDISTURBED, WindowState.GENERATOR_SHARED, WindowState.DUT_SHARED, WindowState.BOTH_SHARED)
"""States in which both CPUs ran, and each core had the same users at either end of the window."""

NOT_RUNNING = frozenset({WindowState.ABSENT, WindowState.PAUSED})
"""States in which a CPU of generator or DUT did not run. Frames stay in rings meanwhile, and arrive in the next window.
In all other states both ran, perhaps slower."""


@dataclass(frozen=True, slots=True)
class WindowRate:
    """A value of a window, and how slow the cores were meanwhile.

    Attributes:
        value: such as the rate received, frames/s.
        generator_slowed, dut_slowed: the probe's cycles divided by those on a core of its own, less 1. The mean of both
            ends of the window; of several threads the slowest.
        rig: which one measured, if a comparison has several side by side; None if each start makes another.
        unrefused: no frame found its ring full, so the DUT may be able to do more.
    """

    value: float
    generator_slowed: float
    dut_slowed: float
    rig: int | None = None
    unrefused: bool = False


@dataclass(frozen=True, slots=True)
class ThreadWindows:
    """Counts of one polling thread, a value a window, from the trial's start.

    Attributes:
        late_ns: from the window's end to when the thread read its counts.
        sent, refused, skipped: frames, as in DirectionCounts, of the streams that it sends.
        received: distinct frames of the streams that end at its ports.
        missing: frames that had not arrived when a later one of their stream did; below 0 if more came after all.
        absent_ns: time in which the thread did not poll.
        speed: cycles that a fixed piece of arithmetic took on its CPU at the window's end.
    """

    late_ns: tuple[int, ...]
    sent: tuple[int, ...]
    refused: tuple[int, ...]
    skipped: tuple[int, ...]
    received: tuple[int, ...]
    missing: tuple[int, ...]
    absent_ns: tuple[int, ...]
    speed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WitnessWindows:
    """What a witness saw of one CPU of the DUT at the end of each window.

    Attributes:
        late_ns: how late it got the CPU.
        speed: as ThreadWindows'.
        waited_ns: how long the DUT's thread had waited for the CPU in the window, not counting the CPU time of the
            witness; 0 if the kernel does not report it.
        took_ns: CPU time of the witness itself, over the trial.
        stopped: 1 if a signal or a debugger kept the DUT's thread stopped at the window's end (SIGSTOP), else 0.
        asked_late_ns: the generator requests a look when frames pile up before a full ring: the longest time from such
            a request to the look; 0 if there was none.
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
    """The windows of a trial. Without slots, because it caches states.

    Attributes:
        length_ns: of a window.
        threads: of each polling thread of the generator.
        witnesses: of each CPU of the DUT that was watched.
        full_speed: cycles that the probe takes on a core of its own, by what this generator has seen so far.
    """

    length_ns: int
    threads: tuple[ThreadWindows, ...]
    witnesses: tuple[WitnessWindows, ...] = ()
    full_speed: int = 0

    def within(self, duration_s: float) -> int:
        """How many windows lie completely within this time of sending, and were seen by all."""
        return min(self._count, math.floor(duration_s * 1e9 / self.length_ns))

    def received_fps(self, duration_s: float) -> tuple[float, ...]:
        return self.rates([thread.received for thread in self.threads], duration_s)

    def rates(self, frames: Sequence[Sequence[int]], duration_s: float) -> tuple[float, ...]:
        """Frames/s in each window over all threads; ``frames``: of each thread."""
        # Each thread looks a little late, so its windows have lengths of their own.
        spans_ns = [
            [self.length_ns + later - earlier for earlier, later in pairwise((0, *thread.late_ns))]
            for thread in self.threads
        ]
        return tuple(
            sum(counted[at] * 1e9 / span[at] for counted, span in zip(frames, spans_ns, strict=True) if span[at] > 0)
            for at in range(self.within(duration_s))
        )

    def states(self, duration_s: float) -> tuple[WindowState, ...]:
        """What the machine did in each window.

        Speed is probed between windows, so a window is steady if it has the same state at either end. The first is not,
        because only its end is known. Nor is one after an absence: frames that waited in rings arrive in it.
        """
        found = self._at_ends[: self.within(duration_s)]
        before = (WindowState.CHANGED, *found)[: len(found)]
        return tuple(
            late if late in NOT_RUNNING or early is late else WindowState.CHANGED
            for early, late in zip(before, found, strict=True)
        )

    def undisturbed_fps(self, duration_s: float) -> tuple[float, ...]:
        seen = zip(self.received_fps(duration_s), self.states(duration_s), strict=True)
        return tuple(rate for rate, state in seen if state is WindowState.UNDISTURBED)

    def window_rates(self, duration_s: float) -> tuple[WindowRate, ...]:
        """Rates received in windows at both ends of which both CPUs ran, frames/s over all threads.

        Without the first window, because only its end is known.
        """
        rates, ends = self.received_fps(duration_s), self._at_ends
        generator = self._slowed([thread.speed for thread in self.threads])
        dut = self._slowed([witness.speed for witness in self.witnesses])
        return tuple(
            WindowRate(
                rates[at],
                (generator[at - 1] + generator[at]) / 2,
                (dut[at - 1] + dut[at]) / 2,
                unrefused=self._unrefused(at),
            )
            for at in range(1, len(rates))
            if NOT_RUNNING.isdisjoint(ends[at - 1 : at + 1])
        )

    def _slowed(self, speeds: Sequence[Sequence[int]]) -> list[float]:
        """Slowdown of the slowest at the end of each window; 0 if nobody looked, or the full speed is unknown."""
        slowest = [max((speed[at] for speed in speeds), default=0) for at in range(self._count)]
        return [max(0.0, cycles / self.full_speed - 1) if self.full_speed else 0.0 for cycles in slowest]

    def ends(self, duration_s: float) -> tuple[WindowState, ...]:
        """What was seen at the end of each window."""
        return self._at_ends[: self.within(duration_s)]

    def slowdown(self, duration_s: float) -> float | None:
        """How many times slower the DUT was than undisturbed: its CPU was taken away, or a core was shared.

        None if nobody looked at the DUT's CPU, or it never ran. The generator's absence is not counted.
        """
        states = self._at_ends[: self.within(duration_s)]
        ran = [index for index, state in enumerate(states) if state is not WindowState.PAUSED]
        if not ran or not self.witnesses or not self.full_speed:
            return None
        slowed = self._slowed([source.speed for source in self.threads] + [source.speed for source in self.witnesses])
        return sum(1 + slowed[index] for index in ran) / len(ran) * len(states) / len(ran)

    def unrefused_share(self, duration_s: float) -> float:
        """Share of the steady windows in which no frame found its ring full; 1 without windows.

        If the machine shared its cores all the time, no window was steady: then it is the share of all windows.
        """
        states = self.states(duration_s)
        looked_at = [at for at, state in enumerate(states) if state in STEADY] or range(len(states))
        return sum(map(self._unrefused, looked_at)) / len(looked_at) if looked_at else 1.0

    def _unrefused(self, at: int) -> bool:
        return not any(thread.refused[at] for thread in self.threads)

    @property
    def _count(self) -> int:
        seen = [len(thread.late_ns) for thread in self.threads] + [len(witness.late_ns) for witness in self.witnesses]
        return min(seen, default=0)

    @cached_property
    def _at_ends(self) -> tuple[WindowState, ...]:
        # Cached: each figure of a trial needs it, and a soak has thousands of windows.
        return tuple(self._state_at_end(at) for at in range(self._count))

    def _state_at_end(self, at: int) -> WindowState:
        if any(_waited(witness, at) for witness in self.witnesses):
            return WindowState.PAUSED
        if any(thread.absent_ns[at] > MOST_ABSENT * self.length_ns for thread in self.threads):
            return WindowState.ABSENT
        slow = FULL_SPEED * self.full_speed if self.full_speed else math.inf
        generator = any(thread.speed[at] > slow for thread in self.threads)
        # A witness looks at the window's end, and within the window on request.
        looks = [speed for witness in self.witnesses for speed in (witness.speed, witness.asked_speed) if speed]
        dut = any(speed[at] > slow for speed in looks)
        if generator:
            return WindowState.BOTH_SHARED if dut else WindowState.GENERATOR_SHARED
        return WindowState.DUT_SHARED if dut else WindowState.UNDISTURBED


def _waited(witness: WitnessWindows, at: int) -> bool:
    """True if the host, another thread on the CPU, or a signal kept the DUT's thread from its work."""
    delays = (
        (witness.late_ns, LATEST_NS),
        (witness.stopped, 0),
        (witness.asked_late_ns, ASKED_LATEST_NS),
        (witness.waited_ns, LONGEST_WAIT_NS),
    )
    return any(measured[at] > most for measured, most in delays if measured)


def plateau(windows: Windows, duration_s: float) -> tuple[SampleEstimate, int] | None:
    """The rate of undisturbed windows (state ALONE) of a saturating trial, frames/s over all threads, and their number.

    It is their median, with its interval by order statistics. ``duration_s``: how long the trial sent; later windows
    have residual frames. None if too few windows were undisturbed.
    """
    rates = sorted(windows.undisturbed_fps(duration_s))
    count = len(rates)
    if count < POLICY.windows_for_a_rate:
        return None
    reach = 0.98 * math.sqrt(count)  # by the normal approximation of the binomial (Conover 1999, 3.2)
    low, high = max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach) - 1)
    return SampleEstimate(median(rates), rates[low], rates[high], CONFIDENCE), count


def full_speed(seen: Mapping[int, int]) -> int:
    """Cycles that the probe takes on a core of its own, from how often each number was seen; 0 if nothing was.

    It is the median of the fastest looks, those within FULL_SPEED of the fewest cycles. On some hosts they are within
    1 %, on others the clock of a core varies by 3 to 4 %. One look in a thousand falls into a moment in which the clock
    was faster than usual, so a few at the low end do not count.
    """
    fewest = _after(max(FREAKS, FREAK_SHARE * sum(seen.values())), seen)
    fastest = {cycles: times for cycles, times in seen.items() if fewest <= cycles <= FULL_SPEED * fewest}
    return _after((sum(fastest.values()) - 1) / 2, fastest)


def _after(left: float, seen: Mapping[int, int]) -> int:
    """Cycles of the first look after ``left`` faster ones; of the slowest if there are no more."""
    for cycles in sorted(seen):
        left -= seen[cycles]
        if left < 0:
            return cycles
    return max(seen, default=0)


@dataclass(frozen=True, slots=True)
class SelectedWindows:
    """Windows of a trial, selected by what the machine did in them.

    Attributes:
        windows: how many were selected.
        of: windows of the whole trial.
        due: frames that were due in the selected ones, all directions.
        offered: due frames that the DUT was asked to take.
        lost: offered frames that were lost, in these windows or at most a latency before.
        lossy: how many of the selected windows lost frames.
        doubtful: frames lost in others that may be the DUT's loss: only the generator's absence disturbed the window or
            its neighbours; or it is in a stretch of the trial, longer than an eighth, without a selected one.
        worst: the loss ratio of the quarter of the selected windows, in a row, that lost most.
    """

    windows: int
    of: int
    due: int
    offered: int
    lost: int
    lossy: int = 0
    doubtful: int = 0
    worst: float = 0.0

    @property
    def enough(self) -> bool:
        least = max(POLICY.windows_for_a_loss, POLICY.undisturbed_to_judge * self.of)
        return self.offered > 0 and self.windows >= least

    @property
    def refutes(self) -> bool:
        """True if their loss is the DUT's: no unseen disturbance can have caused it."""
        mostly_undisturbed = self.windows >= POLICY.undisturbed_to_refute * self.of
        return mostly_undisturbed or self.lossy >= POLICY.lossy_to_refute * self.windows

    @property
    def loss_ratio(self) -> float | None:
        return self.lost / self.offered if self.offered else None

    @property
    def skipped_ratio(self) -> float:
        return (self.due - self.offered) / self.due if self.due else 0.0


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Windows in a row in which the machine did the same.

    Attributes:
        state: what it did.
        start_s: since the first frame was due.
        length_s: for how long.
        lost: frames lost meanwhile, all directions.
        received_fps: rate meanwhile, over all directions.
    """

    state: WindowState
    start_s: float
    length_s: float
    lost: int
    received_fps: float


def select_windows(windows: Windows, duration_s: float, lost: int, *, slowed: bool = False) -> SelectedWindows:
    """What was offered and lost in the undisturbed windows.

    Args:
        windows: of the trial.
        duration_s: for how long frames were due.
        lost: frames lost over the whole trial, all directions.
        slowed: select by CPUs alone: no CPU was taken away in the window, nor in those before and after it.
    """
    states: Sequence[WindowState] = _from_the_start(windows, duration_s)
    if slowed:
        states = [WindowState.ABSENT if state in NOT_RUNNING else WindowState.UNDISTURBED for state in states]
    selected = [index for index, state in enumerate(reaching(states)) if state is WindowState.UNDISTURBED]
    losses = lost_by_window(windows, duration_s, lost)
    offered = sum(thread.sent[index] + thread.refused[index] for thread in windows.threads for index in selected)
    skipped = sum(thread.skipped[index] for thread in windows.threads for index in selected)
    own = [losses[index] for index in selected]
    lossy = sum(loss > 0 for loss in own)
    # In these windows, or next to them, the machine did more than to take the generator's CPU away.
    harmless, ends = {WindowState.UNDISTURBED, WindowState.ABSENT}, windows.ends(duration_s)
    at_the_dut = {index for index in range(len(ends)) if not harmless.issuperset(ends[max(0, index - 2) : index + 2])}
    explained = at_the_dut - _unseen(selected, len(losses))
    doubtful = sum(losses) - sum(own) - sum(losses[index] for index in explained.difference(selected))
    worst = max((_loss_ratio(windows, losses, part) for part in _quarters(selected)), default=0.0)
    return SelectedWindows(len(own), len(losses), offered + skipped, offered, sum(own), lossy, doubtful, worst)


def _unseen(selected: Sequence[int], of: int) -> set[int]:
    """Windows in long stretches without a selected one, in which a DUT may begin to lose, or cease to."""
    gaps = pairwise([-1, *selected, of])
    return {at for before, after in gaps if after - before - 1 > of / 8 for at in range(before + 1, after)}


def _quarters(selected: Sequence[int]) -> list[Sequence[int]]:
    length = math.ceil(len(selected) / 4)
    return [selected[start : start + length] for start in range(0, len(selected), length or 1)]


def _loss_ratio(windows: Windows, losses: Sequence[int], chosen: Sequence[int]) -> float:
    offered = sum(thread.sent[at] + thread.refused[at] for thread in windows.threads for at in chosen)
    return sum(losses[at] for at in chosen) / offered if offered else 0.0


def disturbances(windows: Windows, duration_s: float, lost: int, most: int = MOST_LISTED) -> tuple[Disturbance, ...]:
    """The ``most`` longest disturbances, in order of time. Other arguments as for ``select_windows``."""
    states, rates = reaching(_from_the_start(windows, duration_s)), windows.received_fps(duration_s)
    losses, length_s = lost_by_window(windows, duration_s, lost), windows.length_ns / 1e9
    listed = []
    for state, group in groupby(range(len(states)), key=states.__getitem__):
        indexes = list(group)
        if state is not WindowState.UNDISTURBED:
            rate = sum(rates[index] for index in indexes) / len(indexes)
            lost_then = sum(losses[index] for index in indexes)
            listed.append(Disturbance(state, indexes[0] * length_s, len(indexes) * length_s, lost_then, rate))
    longest = sorted(listed, key=lambda disturbance: disturbance.length_s, reverse=True)[:most]
    return tuple(sorted(longest, key=lambda disturbance: disturbance.start_s))


def _from_the_start(windows: Windows, duration_s: float) -> tuple[WindowState, ...]:
    """The states, that of the first window by its end alone: a DUT that is cold loses there."""
    return (*windows.ends(duration_s)[:1], *windows.states(duration_s)[1:])


def reaching(states: Sequence[WindowState]) -> tuple[WindowState, ...]:
    """Extend each disturbance to the window before it and the one after it."""
    sides = (
        zip([WindowState.UNDISTURBED, *states[:-1]], states, [*states[1:], WindowState.UNDISTURBED], strict=True)
        if states
        else ()
    )
    return tuple(
        next((each for each in (own, before, after) if each is not WindowState.UNDISTURBED), own)
        for before, own, after in sides
    )


def lost_by_window(windows: Windows, duration_s: float, lost: int) -> Sequence[int]:
    """Frames refused or missed in each window. May be below 0 if reordered frames came after all.

    Losses after the last window, during the wait for residual frames, count as its own. Lost frames that were not
    followed by another are those sent last.
    """
    count = windows.within(duration_s)
    if not count:
        return ()
    losses = [sum(thread.refused[at] + thread.missing[at] for thread in windows.threads) for at in range(count)]
    losses[-1] += sum(sum(thread.refused[count:]) + sum(thread.missing[count:]) for thread in windows.threads)
    unfollowed = lost - sum(losses)
    for at in reversed(range(count)):
        if unfollowed <= 0:
            break
        last_sent = min(unfollowed, sum(thread.sent[at] for thread in windows.threads))
        losses[at] += last_sent
        unfollowed -= last_sent
    return losses
