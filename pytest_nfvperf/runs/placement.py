"""Keeps the trials of a run to one band of CPU distance (model/traffic/cpu_placement.py).

Before and after every trial the round trip between the generator's CPUs and those of the DUT is measured, which
takes a millisecond in which nothing is sent. Where it was in one band before and in the other after, the host
moved a CPU in the middle, and the trial says nothing. Where it is far before a trial, and this machine is known to
have a near band, the near one is waited for, and the host is given a reason: while the DUT rests, its CPUs and the
generator's wake one another. A host leaves virtual CPUs that work where they are; one that wakes is placed anew, and
most often near the one that woke it. When that does not help in time, what follows is measured far, and its figures
say so. A second band is known from its first sight on: there the reading is repeated at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_nfvperf.model.traffic.cpu_placement import (
    Bands,
    BandsSeen,
    Distance,
    Placed,
    alike,
    bands_seen,
    farthest,
    fewest_of,
    find_bands,
)
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.datapath import Freezing
from pytest_nfvperf.ports.generator import DrawsNear, Generator, MeasuresDistance
from pytest_nfvperf.ports.machine import Clock, Kept
from pytest_nfvperf.runs.patience import Patience

LOOK_EVERY_S = 0.25
_WORK_S = 0.1
"""Between rests of the DUT, each of which is far below what BFD (RFC 5880) or a BGP session takes for an end."""

KEPT = 400
"""Round trips that are remembered: a thousand trials' worth of bands, and what a host did last year is forgotten."""

_SAVE_EVERY = 50


class RoundTrips(Protocol):
    """Round trips seen on this machine, the oldest first, ns."""

    def read(self) -> list[float]:
        """What was kept by earlier runs."""
        ...

    def write(self, trips: Sequence[float]) -> None:
        """Keep them for later ones."""
        ...


class ForgottenRoundTrips:
    """Keeps nothing: for testbeds whose CPUs nobody moves."""

    def read(self) -> list[float]:
        return []

    def write(self, trips: Sequence[float]) -> None:
        """Forgets them."""


class KeptRoundTrips:
    """Round trips that later runs know of. ``kept``: where, for one fingerprint of machine and CPUs."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def read(self) -> list[float]:
        """The latest."""
        found = self._kept.read()
        return [float(trip) for trip in found[-KEPT:]] if isinstance(found, list) else []

    def write(self, trips: Sequence[float]) -> None:
        """In place of what was kept."""
        self._kept.write(list(trips[-KEPT:]))


class Placement:
    """The witness of one run.

    Args:
        cpus: of the DUT's polling threads.
        kept: what earlier runs saw.
        clock: the time.
        waiting: told, in words, that the near band is waited for.
    """

    def __init__(
        self, cpus: Sequence[int], kept: RoundTrips, clock: Clock, waiting: Callable[[str], None] = lambda _: None
    ) -> None:
        self._cpus = tuple(cpus)
        self._kept = kept
        self._clock = clock
        self._waiting = waiting
        self._seen = kept.read()
        self._placed: list[Placed] = []
        self._unsaved = 0
        self._apart: Distance | None = None
        self._gave_up = False
        self._patience = Patience()

    @property
    def bands(self) -> Bands | None:
        """What is known of this machine so far; None before the first look."""
        return find_bands(self._seen)

    @property
    def bands_seen(self) -> BandsSeen | None:
        """In which bands this run's trials were so far; None before the first."""
        return bands_seen(self._placed)

    def settle(self, generator: Generator, dut: Freezing | None = None) -> int | None:
        """Wait for the near band where there is one, and return the round trip, ns; None where nobody can tell.

        ``dut``: rests meanwhile; None where it cannot.

        Hosts leave CPUs apart for seconds, or for many minutes. So it is waited for once an absence: after a wait in
        vain nothing waits until the near band has been seen again, and then for half as long (``Patience``).
        """
        trip = self._look(generator)
        if trip is None or not self.is_far(trip):
            self._gave_up = False
            return trip
        return trip if self._gave_up else self._wait(generator, dut, trip)

    def _wait(self, generator: Generator, dut: Freezing | None, trip: int) -> int | None:
        until = self._clock.monotonic() + self._patience.allowed_s
        last: int | None = trip
        while last is not None and self.is_far(last) and self._clock.monotonic() < until:
            self._waiting(self._waiting_words(last, until))
            self._draw_near(generator, dut)
            last = self._look(generator)
        self._gave_up = last is not None and self.is_far(last)
        self._patience.learn(0.0 if self._gave_up else until - self._clock.monotonic())
        return last

    def _draw_near(self, generator: Generator, dut: Freezing | None) -> None:
        apart = self._apart
        if dut is None or apart is None or not isinstance(generator, DrawsNear):
            self._clock.sleep(LOOK_EVERY_S)
            return
        self._clock.sleep(_WORK_S)
        dut.freeze()
        try:
            generator.draw_near(apart.cpu, apart.other)
        finally:
            dut.thaw()

    def judge(self, generator: Generator, before: int | None) -> tuple[Placed, InvalidReason | None]:
        """Where the CPUs were around a trial, and the reason against it when they moved meanwhile."""
        after = self._look(generator)
        far = [trip is not None and self.is_far(trip) for trip in (before, after)]
        bands = self.bands
        near = bands.near if bands is not None and bands.far is not None else None
        placed = Placed(before, after, far=any(far), near_ns=round(near.high_ns) if near is not None else None)
        self._placed.append(placed)
        if before is None or after is None or far[0] == far[1]:
            return placed, None
        detail = (
            f"the host moved a CPU during the trial: a cache line's round trip between generator and DUT took "
            f"{before} ns before it and {after} ns after"
        )
        return placed, InvalidReason(Reason.CPU_MOVED, detail)

    def close(self) -> None:
        """Keep what was seen."""
        if self._unsaved:
            self._kept.write(self._seen)
            self._unsaved = 0

    def _look(self, generator: Generator) -> int | None:
        """The round trip now, ns; None where nobody can tell.

        One that is in no band that this machine has shown is a disturbed reading, or the first sight of another
        band. The host leaves its CPUs in a band for longer than a few readings take: so they are repeated until
        they are a band of their own, or until one differs.
        """
        trip = self._read(generator)
        if trip is None:
            return None
        if not self._is_new(trip):
            return self._remember(trip)
        fresh = [trip]
        while len(fresh) < fewest_of(len(self._seen) + len(fresh)):
            again = self._read(generator)
            if again is None:
                return None
            if not alike(again, trip):
                return self._remember(again)
            fresh.append(again)
        for one in fresh:
            self._remember(one)
        return fresh[-1]

    def _read(self, generator: Generator) -> int | None:
        if not self._cpus or not isinstance(generator, MeasuresDistance):
            return None
        distances = generator.distances(self._cpus)
        self._apart = max(distances, key=lambda distance: distance.round_trip_ns or 0, default=None)
        return farthest(distances)

    def _is_new(self, trip: float) -> bool:
        """True where too few were seen that are as near or as far as this one to call them a band."""
        return sum(alike(trip, seen) for seen in self._seen) < fewest_of(len(self._seen) + 1)

    def _remember(self, trip: int) -> int:
        self._seen = [*self._seen[-KEPT + 1 :], float(trip)]
        self._unsaved += 1
        if self._unsaved >= _SAVE_EVERY:
            self.close()
        return trip

    def is_far(self, trip: float) -> bool:
        """True for a round trip in the far one of two bands."""
        bands = self.bands
        return bands is not None and bands.is_far(trip)

    def _waiting_words(self, trip: int, until: float) -> str:
        bands = self.bands
        near = f" (near: {bands.near})" if bands is not None else ""
        left = until - self._clock.monotonic()
        return f"waiting for the host: it keeps generator and DUT {trip} ns apart{near}; at most {left:.0f} s more"
