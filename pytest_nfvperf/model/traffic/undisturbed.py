"""What a trial offered and lost while the machine disturbed nothing: the loss that is the DUT's own.

Every lost frame is dated. The generator knows in which window a ring refused it. A frame that the DUT took and dropped
is missed when the next one of its stream arrives, at most a latency later. So what was lost while the host had
taken a CPU away, or let somebody else use the other hardware thread of a core, is told from the rest (docs/noise.md).

A disturbance reaches into the windows beside those in which it was seen: it begins before anybody sees it, and what
waited in rings meanwhile comes after it. So a window counts as undisturbed when those on either side are, too. Of
180 windows at loads that the DUT bears two lost frames without this, and none with it.

On a host that shares its cores all the time hardly a window is undisturbed. Two things still hold there:

- A DUT that bears a load on slower cores bears it on its own ones, too. So a load holds also where all windows in
  which no CPU was taken away lost no more than allowed, however slow the CPUs were meanwhile.
- A neighbour that comes and goes within milliseconds hides between two looks. So a few lossy windows among few
  undisturbed ones tell nothing. Loss in many of them, or in a trial that was mostly undisturbed, is the DUT's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pytest_nfvperf.model.traffic.windows import State, Windows

LEAST_SHARE = 0.1
"""Share of a trial that must be undisturbed for it to speak for the DUT."""

MOSTLY = 0.5
"""Share of a trial from which on hardly a disturbance hides: any loss in undisturbed windows is the DUT's."""

WIDESPREAD = 0.25
"""Share of the undisturbed windows. Loss in so many of them is the DUT's, however few they are."""

FEWEST = 8
"""Windows that must be undisturbed, however short the trial is."""

MOST_LISTED, LISTED_OF_STEPS = 40, 4
"""Disturbances of one trial that the evidence lists, the longest; and of a step of a search, which are many."""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """Windows of a trial, picked by what the machine did in them: the undisturbed ones, if nothing else is said.

    Attributes:
        windows: how many there were.
        of: windows of the whole trial.
        due: frames that were due in them, all directions.
        offered: of those, the ones that the DUT was asked to take.
        lost: of those offered, or by a latency before.
        lossy: windows among them that lost any.
    """

    windows: int
    of: int
    due: int
    offered: int
    lost: int
    lossy: int = 0

    @property
    def enough(self) -> bool:
        """True when they are enough to speak for the DUT."""
        return self.offered > 0 and self.windows >= max(FEWEST, LEAST_SHARE * self.of)

    @property
    def refutes(self) -> bool:
        """True when what they lost is the DUT's: no disturbance that nobody saw can have caused it."""
        return self.windows >= MOSTLY * self.of or self.lossy >= WIDESPREAD * self.windows

    @property
    def loss_ratio(self) -> float | None:
        """Lost / offered; None when nothing was offered."""
        return self.lost / self.offered if self.offered else None

    @property
    def skipped_ratio(self) -> float:
        """Share of the frames due that the generator did not offer."""
        return (self.due - self.offered) / self.due if self.due else 0.0


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Windows in a row in which the machine did the same to a trial.

    Attributes:
        state: what it did, in words.
        start_s: since the first frame was due.
        length_s: for how long.
        lost: frames lost meanwhile, all directions.
        received_fps: rate received meanwhile, frames/s over all directions.
    """

    state: State
    start_s: float
    length_s: float
    lost: int
    received_fps: float


TAKEN_AWAY = frozenset({State.ABSENT, State.PAUSED})
"""States in which a CPU of generator or DUT did not run. In the others it ran, if slower."""


def undisturbed(windows: Windows, duration_s: float, lost: int) -> Undisturbed:
    """What was offered and lost in the undisturbed windows.

    Args:
        windows: of the trial.
        duration_s: for how long frames were due.
        lost: frames lost over the whole trial, all directions.
    """
    states = reaching(windows.states(duration_s))
    return _picked(windows, duration_s, lost, [at for at, state in enumerate(states) if state is State.ALONE])


def running(windows: Windows, duration_s: float, lost: int) -> Undisturbed:
    """The same of all windows in which no CPU was taken away, nor beside them."""
    taken = [State.ABSENT if state in TAKEN_AWAY else State.ALONE for state in windows.states(duration_s)]
    ran = [at for at, state in enumerate(reaching(taken)) if state is State.ALONE]
    return _picked(windows, duration_s, lost, ran)


def _picked(windows: Windows, duration_s: float, lost: int, picked: Sequence[int]) -> Undisturbed:
    losses = lost_by_window(windows, duration_s, lost)
    offered = sum(thread.sent[at] + thread.refused[at] for thread in windows.threads for at in picked)
    skipped = sum(thread.skipped[at] for thread in windows.threads for at in picked)
    own = [losses[at] for at in picked]
    lossy = sum(each > 0 for each in own)
    return Undisturbed(len(own), len(losses), offered + skipped, offered, sum(own), lossy)


def disturbances(windows: Windows, duration_s: float, lost: int, most: int = MOST_LISTED) -> tuple[Disturbance, ...]:
    """What the machine did and when, in order; the ``most`` longest of them. Other arguments as above."""
    states, rates = reaching(windows.states(duration_s)), windows.received_fps(duration_s)
    losses, length_s = lost_by_window(windows, duration_s, lost), windows.length_ns / 1e9
    found = []
    for state, group in groupby(range(len(states)), key=lambda at: states[at]):
        at = list(group)
        if state is not State.ALONE:
            rate = sum(rates[each] for each in at) / len(at)
            found.append(Disturbance(state, at[0] * length_s, len(at) * length_s, sum(losses[i] for i in at), rate))
    longest = sorted(found, key=lambda each: each.length_s, reverse=True)[:most]
    return tuple(sorted(longest, key=lambda each: each.start_s))


def reaching(states: Sequence[State]) -> tuple[State, ...]:
    """States of windows in a row, each disturbance with the window before it and the one after it."""
    sides = zip([State.ALONE, *states[:-1]], states, [*states[1:], State.ALONE], strict=True) if states else ()
    return tuple(
        next((each for each in (own, before, after) if each is not State.ALONE), own) for before, own, after in sides
    )


def lost_by_window(windows: Windows, duration_s: float, lost: int) -> Sequence[int]:
    """Frames lost in each window: refused there, or missed there. May be below 0 where reordered frames came after all.

    What came after the last window, while residual frames were waited for, counts to it. Frames that no later one
    followed are those sent last.
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
