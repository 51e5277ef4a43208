"""How far apart the CPUs of generator and DUT are: the round trip of a cache line, and the bands it falls into.

On shared rings (vhost-user, memif) one core writes the cache lines of a frame and another reads them. Two cores that
share an L3 cache take some 100 ns for that, others 250 to 450 ns, and the forwarding rate differs by half. If a host
moves virtual CPUs between L3 domains, one machine shows two rates. So a figure stands for one *band* of round trips.
Bands are clusters of measured round trips, one or two; they are never assumed. Two hardware threads of one core take 40
to 70 ns, and both compute at half of their speed. That is no band to wait for: round trips of CPUs that are that slow
do not count (seen: of 161 trials at 44 ns none had an undisturbed window, and 198 at 100 to 180 ns had 1,057).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

BAND_RATIO = 1.6
"""Least factor between the slowest round trip of the near band and the fastest of the far one."""

FEWEST = 3
"""Least number of round trips in a band; fewer are a disturbed reading."""

SMALLEST_SHARE = 0.03
"""Least share of all round trips in a band."""


@dataclass(frozen=True, slots=True)
class Poller:
    """A polling thread of the DUT: its CPU, the id of its process, and its own id."""

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
        preempted: we had the right to a real-time priority, and preempted what ran on the other CPU.
        slow: both CPUs computed slower than on cores of their own: they may be the two hardware threads of one.
    """

    cpu: int
    other: int
    round_trip_ns: int | None
    preempted: bool = True
    slow: bool = False


@dataclass(frozen=True, slots=True)
class CpuDistance:
    """How far apart the CPUs of generator and DUT were around a trial.

    Attributes:
        before_ns, after_ns: round trip right before and after it; None if it could not be measured.
        far: in the far band, before or after.
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
        """True if one was in the near band, and the other in the far one."""
        return self.far and self.near_ns is not None and min(self.trips_ns) <= self.near_ns

    @property
    def far_reason(self) -> str:
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
    """The bands that a machine has shown; ``near`` alone if all of its round trips are alike."""

    near: Band
    far: Band | None = None

    def is_far(self, round_trip_ns: float) -> bool:
        """True beyond the border between two bands, the middle of their logarithms."""
        return self.far is not None and round_trip_ns > math.sqrt(self.near.high_ns * self.far.low_ns)


@dataclass(frozen=True, slots=True)
class ObservedBands:
    """How many trials of a run were in which band.

    Attributes:
        moved_trials: those during which the host moved a CPU; they are in neither band.
        near_ns, far_ns: median of the round trips around trials; None if there was none.
    """

    near_trials: int
    far_trials: int
    moved_trials: int
    near_ns: float | None
    far_ns: float | None

    @property
    def trials(self) -> int:
        return self.near_trials + self.far_trials + self.moved_trials


def observed_bands(distances: Iterable[CpuDistance]) -> ObservedBands | None:
    """The bands of a run's trials; None if no distance was measured. On a machine of one band all trials are near."""
    measured = [distance for distance in distances if distance.trips_ns]
    if not measured:
        return None
    near, far = (
        [distance for distance in measured if distance.far is wanted and not distance.moved] for wanted in (False, True)
    )
    near_trips, far_trips = ([trip for distance in band for trip in distance.trips_ns] for band in (near, far))
    return ObservedBands(
        near_trials=len(near),
        far_trials=len(far),
        moved_trials=len(measured) - len(near) - len(far),
        near_ns=median(near_trips) if near_trips else None,
        far_ns=median(far_trips) if far_trips else None,
    )


def around(bands: Bands | None, before_ns: int | None, after_ns: int | None) -> tuple[CpuDistance, bool]:
    """How far apart the CPUs were around a trial, and whether the host moved one from band to band meanwhile."""
    far = [trip is not None and bands is not None and bands.is_far(trip) for trip in (before_ns, after_ns)]
    near = bands.near if bands is not None and bands.far is not None else None
    near_ns = round(near.high_ns) if near is not None else None
    moved = before_ns is not None and after_ns is not None and far[0] != far[1]
    return CpuDistance(before_ns, after_ns, any(far), near_ns), moved


def find_bands(round_trips_ns: Sequence[float]) -> Bands | None:
    """Two bands if the round trips have two clusters, else one; None without any round trip.

    Split where the factor between neighbours is largest, and both sides have enough round trips.
    """
    if not round_trips_ns:
        return None
    ordered = sorted(round_trips_ns)
    fewest = fewest_of(len(ordered))
    splits = range(fewest, len(ordered) - fewest + 1)
    best = max(splits, key=lambda at: ordered[at] / ordered[at - 1], default=None)
    if best is None or ordered[best] < BAND_RATIO * ordered[best - 1]:
        return Bands(Band(ordered[0], ordered[-1]))
    return Bands(Band(ordered[0], ordered[best - 1]), Band(ordered[best], ordered[-1]))


def fewest_of(number: int) -> int:
    return max(FEWEST, math.ceil(SMALLEST_SHARE * number))


def alike(trip_ns: float, other_ns: float) -> bool:
    return max(trip_ns, other_ns) < BAND_RATIO * min(trip_ns, other_ns)


def farthest(distances: Sequence[Distance]) -> int | None:
    """The longest round trip, ns: it limits a path through all CPUs. None if one is missing."""
    known = [distance.round_trip_ns for distance in distances if distance.round_trip_ns is not None]
    return max(known) if known and len(known) == len(distances) else None
