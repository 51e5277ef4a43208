"""Watches whether the host placed the measured CPUs near one another, and waits for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.disturbance.cpu_distance import (
    Bands,
    CpuDistance,
    Distance,
    ObservedBands,
    alike,
    around,
    farthest,
    fewest_of,
    find_bands,
    observed_bands,
)
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import Generator
from pytest_nfvperf.ports.machine import Clock, StoredValue

LOOK_EVERY_S = 0.25
_WORK_S = 0.1
"""Between freezes of the DUT. BFD (RFC 5880) and BGP sessions survive much longer freezes."""

_REMEMBERED = 400
"""Round trips that are remembered: the bands of a thousand trials. What a host did last year is forgotten."""

_SAVE_EVERY = 50


@dataclass(slots=True)
class RetryBudget:
    """Time that a wait for a quiet machine may take.

    ``allowed_s`` halves after each wait that spent all of it, down to a minimum: a host that shares its cores continues
    to do so. A wait that ended earlier restores it.
    """

    allowed_s: float = POLICY.retry_budget_s

    def learn(self, left_s: float) -> None:
        self.allowed_s = POLICY.retry_budget_s if left_s > 0 else max(POLICY.least_retry_budget_s, self.allowed_s / 2)


def read_round_trips(store: StoredValue) -> list[float]:
    """Round trips that earlier runs measured, the oldest first, ns."""
    found = store.read()
    return [float(trip) for trip in found[-_REMEMBERED:]] if isinstance(found, list) else []


class PlacementWatch:
    """Keeps the trials of a run to one band of CPU distance (model/disturbance/cpu_distance.py).

    It measures the round trip between the CPUs of generator and DUT before and after every trial, in a millisecond
    without frames. If the CPUs are far apart before a trial, and this machine is known to have a near band, the run
    waits for it. If the wait fails, trials are measured in the far band, and their figures say so.

    ``cpus``: of polling threads. ``store``: remembers round trips for one fingerprint of machine and CPUs.
    ``report_wait``: reports a wait for the near band. ``slow``: at the last look both CPUs were slower than on cores of
    their own.
    """

    def __init__(
        self, cpus: Sequence[int], store: StoredValue, clock: Clock, report_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        self._cpus = tuple(cpus)
        self._store = store
        self._clock = clock
        self._report_wait = report_wait
        self._trips = read_round_trips(store)
        self._distances: list[CpuDistance] = []
        self._unsaved = 0
        self._longest: Distance | None = None
        self.slow = False
        self._gave_up = False
        self._budget = RetryBudget()

    @property
    def bands(self) -> Bands | None:
        return find_bands(self._trips)

    @property
    def observed_bands(self) -> ObservedBands | None:
        return observed_bands(self._distances)

    def settle(self, generator: Generator, dut: Datapath | None = None, most_s: float = math.inf) -> int | None:
        """Wait for the near band if there is one, and return the round trip, ns; None if it cannot be measured.

        Meanwhile ``dut`` is frozen, and its CPUs and the generator's wake one another: a host leaves a busy virtual CPU
        where it is, but places a woken one again, most often near its waker. Hosts leave CPUs apart for seconds, or for
        many minutes. So wait once per far period: after a failed wait, not again until the near band has returned, and
        then for half as long (``RetryBudget``). ``most_s``: wait no longer.
        """
        trip = self._round_trip(generator)
        if trip is None or not self.is_far(trip):
            self._gave_up = False
            return trip
        if self._gave_up:
            return trip
        until = self._clock.monotonic() + min(most_s, self._budget.allowed_s)
        while trip is not None and self.is_far(trip) and (left := until - self._clock.monotonic()) > 0:
            near = f" (near: {bands.near})" if (bands := self.bands) is not None else ""
            distance = f"it keeps generator and DUT {trip} ns apart{near}"
            self._report_wait(f"waiting for the host: {distance}; at most {left:.0f} s more")
            self._move_closer(generator, dut)
            trip = self._round_trip(generator)
        self._gave_up = trip is not None and self.is_far(trip)
        self._budget.learn(0.0 if self._gave_up else until - self._clock.monotonic())
        return trip

    def _move_closer(self, generator: Generator, dut: Datapath | None) -> None:
        longest = self._longest
        if dut is None or longest is None:
            self._clock.sleep(LOOK_EVERY_S)
            return
        self._clock.sleep(_WORK_S)
        dut.freeze()
        try:
            generator.move_cpus_closer(longest.cpu, longest.other)
        finally:
            dut.thaw()

    def look_again(self, generator: Generator, before: int) -> tuple[CpuDistance, bool]:
        """As ``around``, after a trial; ``before``: the round trip right before it, ns."""
        after = self._round_trip(generator)
        found = around(self.bands, before, after)
        self._distances.append(found[0])
        return found

    def close(self) -> None:
        if self._unsaved:
            self._store.write(self._trips)
        self._unsaved = 0

    def _round_trip(self, generator: Generator) -> int | None:
        """The round trip now, ns; None if it cannot be measured.

        A reading outside the known bands is disturbed, or the first of another band. So repeat it at once until the
        readings make a new band, or one differs: the host leaves its CPUs in a band for longer than that takes. A
        reading of slow CPUs, which may be one core's, is no sign of a band, and is not remembered.
        """
        trip = self._read(generator)
        if trip is None or self.slow:
            return trip
        if sum(alike(trip, earlier) for earlier in self._trips) >= fewest_of(len(self._trips) + 1):
            return self._remember(trip)
        fresh = [trip]
        while len(fresh) < fewest_of(len(self._trips) + len(fresh)):
            again = self._read(generator)
            if again is None or self.slow:
                return again
            if not alike(again, trip):
                return self._remember(again)
            fresh.append(again)
        return [self._remember(reading) for reading in fresh][-1]

    def _read(self, generator: Generator) -> int | None:
        if not self._cpus:
            return None
        distances = generator.distances(self._cpus)
        self.slow = any(distance.slow for distance in distances)
        self._longest = max(distances, key=lambda distance: distance.round_trip_ns or 0, default=None)
        return farthest(distances)

    def _remember(self, trip: int) -> int:
        self._trips = [*self._trips[-_REMEMBERED + 1 :], float(trip)]
        self._unsaved += 1
        if self._unsaved >= _SAVE_EVERY:
            self.close()
        return trip

    def is_far(self, trip: float) -> bool:
        bands = self.bands
        return bands is not None and bands.is_far(trip)
