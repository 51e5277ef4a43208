"""How far apart the CPUs of generator and DUT are: the round trip of a cache line, and the bands it falls into.

On shared rings (vhost-user, memif) every frame is cache lines that one core writes and another reads. Two cores that
share an L3 cache take some 100 ns for that, two that do not 250 to 450 ns, and the forwarding rate differs by half. A
host that moves virtual CPUs between L3 domains makes one machine show two rates. So a figure stands for one *band* of
round trips. Bands are found in what was measured, never assumed: two clusters, or one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

APART = 1.6
"""Two bands differ by at least this factor, between the slowest of the near and the fastest of the far one."""

FEWEST = 3
"""A band has at least so many round trips; fewer are a disturbed reading."""

SMALLEST_SHARE = 0.03
"""A band has at least this share of all round trips."""


@dataclass(frozen=True, slots=True)
class Poller:
    """A polling thread of the DUT: the CPU that it keeps to, and the ids of its process and itself."""

    cpu: int
    process: int
    thread: int


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a CPU of the DUT is from one of the generator.

    Attributes:
        cpu: of the generator's polling thread.
        other: of the DUT's thread.
        round_trip_ns: median time for a cache line to go there and back; None if the other CPU could not be used.
        preempted: whoever ran on the other CPU had to give way: we had the right to a real-time priority.
    """

    cpu: int
    other: int
    round_trip_ns: int | None
    preempted: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """How far apart the CPUs of generator and DUT were around a trial.

    Attributes:
        before_ns, after_ns: round trip right before and after it; None if it could not be measured.
        far: in the far one of two bands, before or after.
        near_ns: slowest round trip of the near band; None if this machine has shown one band only.
    """

    before_ns: int | None
    after_ns: int | None
    far: bool = False
    near_ns: int | None = None

    @property
    def trips_ns(self) -> tuple[int, ...]:
        return tuple(trip for trip in (self.before_ns, self.after_ns) if trip is not None)

    @property
    def moved(self) -> bool:
        """In the near band on one side of the trial, in the far one on the other."""
        return self.far and self.near_ns is not None and min(self.trips_ns) <= self.near_ns

    @property
    def apart(self) -> str:
        """Why a figure may be too low, for a person: the CPUs were far apart; else ""."""
        if not self.far:
            return ""
        return (
            f"the host keeps the CPUs of generator and DUT {max(self.trips_ns)} ns apart (round trip of a cache line; "
            f"near is up to {self.near_ns} ns)"
        )


@dataclass(frozen=True, slots=True)
class Band:
    """A cluster of round trips, from the fastest to the slowest, ns."""

    low_ns: float
    high_ns: float

    def __str__(self) -> str:
        if round(self.low_ns) == round(self.high_ns):
            return f"{self.low_ns:.0f} ns"
        return f"{self.low_ns:.0f} .. {self.high_ns:.0f} ns"


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands that a machine has shown; ``near`` alone if all its round trips are alike."""

    near: Band
    far: Band | None = None

    def is_far(self, round_trip_ns: float) -> bool:
        """True beyond the border between two bands, the middle of their logarithms."""
        return self.far is not None and round_trip_ns > math.sqrt(self.near.high_ns * self.far.low_ns)


@dataclass(frozen=True, slots=True)
class ObservedBands:
    """In which bands the trials of a run were. Those during which the host moved a CPU are in neither.

    Attributes:
        near_trials, far_trials, moved_trials: how many.
        near_ns, far_ns: median of the round trips around them; None if there was none.
    """

    near_trials: int
    far_trials: int
    moved_trials: int
    near_ns: float | None
    far_ns: float | None

    @property
    def trials(self) -> int:
        """All whose CPU distance was measured."""
        return self.near_trials + self.far_trials + self.moved_trials


def observed_bands(placed: Iterable[Placed]) -> ObservedBands | None:
    """The bands of a run's trials; None if no distance was measured. On a machine of one band all trials are near."""
    known = [one for one in placed if one.trips_ns]
    if not known:
        return None
    near, far = ([one for one in known if one.far is wanted and not one.moved] for wanted in (False, True))
    near_trips, far_trips = ([trip for one in band for trip in one.trips_ns] for band in (near, far))
    return ObservedBands(
        near_trials=len(near),
        far_trials=len(far),
        moved_trials=len(known) - len(near) - len(far),
        near_ns=median(near_trips) if near_trips else None,
        far_ns=median(far_trips) if far_trips else None,
    )


def find_bands(round_trips_ns: Sequence[float]) -> Bands | None:
    """Two bands if the round trips fall into two clusters, else one; None without any.

    The split is where the factor between neighbours is largest, among places that leave enough on either side.
    """
    if not round_trips_ns:
        return None
    ordered = sorted(round_trips_ns)
    fewest = fewest_of(len(ordered))
    splits = range(fewest, len(ordered) - fewest + 1)
    best = max(splits, key=lambda at: ordered[at] / ordered[at - 1], default=None)
    if best is None or ordered[best] < APART * ordered[best - 1]:
        return Bands(Band(ordered[0], ordered[-1]))
    return Bands(Band(ordered[0], ordered[best - 1]), Band(ordered[best], ordered[-1]))


def fewest_of(number: int) -> int:
    """How many of ``number`` round trips make a band."""
    return max(FEWEST, math.ceil(SMALLEST_SHARE * number))


def alike(trip_ns: float, other_ns: float) -> bool:
    """True if two round trips can be of one band."""
    return max(trip_ns, other_ns) < APART * min(trip_ns, other_ns)


def farthest(distances: Sequence[Distance]) -> int | None:
    """The longest round trip, ns: it limits a path through all of them. None if one is missing."""
    known = [distance.round_trip_ns for distance in distances if distance.round_trip_ns is not None]
    return max(known) if known and len(known) == len(distances) else None
