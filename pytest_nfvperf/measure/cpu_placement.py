"""Where the host placed the measured CPUs, near or far from one another; and on which topology runs were measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pytest_nfvperf.measure.validity import Patience
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.cpu_placement import (
    Bands,
    Distance,
    ObservedBands,
    Placed,
    alike,
    farthest,
    fewest_of,
    find_bands,
    observed_bands,
)
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason
from pytest_nfvperf.ports.datapath import Freezing
from pytest_nfvperf.ports.generator import ColocatesCpus, Generator, MeasuresDistance
from pytest_nfvperf.ports.machine import Clock, Kept

LOOK_EVERY_S = 0.25
_WORK_S = 0.1
"""Between rests of the DUT. BFD (RFC 5880) and BGP sessions survive rests far longer than one."""

KEPT = 400
"""Round trips that are remembered: the bands of a thousand trials. What a host did last year is forgotten."""

_SAVE_EVERY = 50

DeployedOn = tuple[Topology, Dut]
"""What a rig carries."""


@dataclass(slots=True)
class RunLocations:
    """What each run of a test was measured on, so that a failure shows the right topology.

    A comparison deploys many topologies: the last one deployed need not be the one that failed. ``last``: what was
    deployed, woken or measured on last.
    """

    last: DeployedOn | None = None
    _of_run: dict[str, DeployedOn] = field(default_factory=dict)

    def ran(self, run: str, place: DeployedOn) -> None:
        self._of_run[run] = self.last = place

    def of(self, runs: Iterable[str]) -> tuple[DeployedOn, ...]:
        """The places of runs, each once, in the order of the runs; unknown runs are left out."""
        return tuple(dict.fromkeys(self._of_run[run] for run in runs if run in self._of_run))

    def clear(self) -> None:
        self.last = None
        self._of_run.clear()


class RoundTrips(Protocol):
    """Round trips measured on this machine, the oldest first, ns."""

    def read(self) -> list[float]: ...

    def write(self, trips: Sequence[float]) -> None: ...


class NoRoundTrips:
    """Keeps nothing: for testbeds whose CPUs nobody moves."""

    def read(self) -> list[float]:
        return []

    def write(self, trips: Sequence[float]) -> None: ...


class CachedRoundTrips:
    """Keeps them for later runs. ``kept``: where, for one fingerprint of machine and CPUs."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def read(self) -> list[float]:
        found = self._kept.read()
        return [float(trip) for trip in found[-KEPT:]] if isinstance(found, list) else []

    def write(self, trips: Sequence[float]) -> None:
        self._kept.write(list(trips[-KEPT:]))


class Placement:
    """Keeps the trials of a run to one band of CPU distance (model/traffic/cpu_placement.py).

    It measures the round trip between the CPUs of generator and DUT before and after every trial, in a millisecond
    without frames. If the band changed, the host moved a CPU, and the trial is invalid. If the CPUs are far apart
    before a trial, and this machine is known to have a near band, the run waits for it. If that does not help in time,
    what follows is measured far, and its figures say so.

    ``cpus``: of polling threads. ``waiting``: reports a wait for the near band.
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
        """The bands that this machine has shown; None before the first look."""
        return find_bands(self._seen)

    @property
    def observed_bands(self) -> ObservedBands | None:
        """In which bands this run's trials were so far; None before the first."""
        return observed_bands(self._placed)

    def settle(self, generator: Generator, dut: Freezing | None = None) -> int | None:
        """Wait for the near band if there is one, and return the round trip, ns; None if it cannot be measured.

        ``dut`` rests meanwhile, and its CPUs and the generator's wake one another: a host leaves a busy virtual CPU
        where it is, but places a woken one again, most often near its waker. Hosts leave CPUs apart for seconds, or for
        many minutes. So wait once per far period: after a failed wait, not again until the near band has returned, and
        then for half as long (``Patience``).
        """
        trip = self._look(generator)
        if trip is None or not self.is_far(trip):
            self._gave_up = False
            return trip
        if self._gave_up:
            return trip
        until = self._clock.monotonic() + self._patience.allowed_s
        while trip is not None and self.is_far(trip) and (left := until - self._clock.monotonic()) > 0:
            near = f" (near: {bands.near})" if (bands := self.bands) is not None else ""
            apart = f"it keeps generator and DUT {trip} ns apart{near}"
            self._waiting(f"waiting for the host: {apart}; at most {left:.0f} s more")
            self._draw_near(generator, dut)
            trip = self._look(generator)
        self._gave_up = trip is not None and self.is_far(trip)
        self._patience.learn(0.0 if self._gave_up else until - self._clock.monotonic())
        return trip

    def _draw_near(self, generator: Generator, dut: Freezing | None) -> None:
        apart = self._apart
        if dut is None or apart is None or not isinstance(generator, ColocatesCpus):
            self._clock.sleep(LOOK_EVERY_S)
            return
        self._clock.sleep(_WORK_S)
        dut.freeze()
        try:
            generator.move_cpus_closer(apart.cpu, apart.other)
        finally:
            dut.thaw()

    def judge(self, generator: Generator, before: int | None) -> tuple[Placed, InvalidReason | None]:
        """Where the CPUs were around a trial, and the reason against it if they moved meanwhile."""
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
        if self._unsaved:
            self._kept.write(self._seen)
            self._unsaved = 0

    def _look(self, generator: Generator) -> int | None:
        """The round trip now, ns; None if it cannot be measured.

        One outside the known bands is a disturbed reading, or the first of another band. So it is repeated at once
        until the readings are a band of their own, or one differs: the host leaves its CPUs in a band for longer than
        that takes.
        """
        trip = self._read(generator)
        if trip is None:
            return None
        if sum(alike(trip, seen) for seen in self._seen) >= fewest_of(len(self._seen) + 1):
            return self._remember(trip)
        fresh = [trip]
        while len(fresh) < fewest_of(len(self._seen) + len(fresh)):
            again = self._read(generator)
            if again is None:
                return None
            if not alike(again, trip):
                return self._remember(again)
            fresh.append(again)
        return [self._remember(one) for one in fresh][-1]

    def _read(self, generator: Generator) -> int | None:
        if not self._cpus or not isinstance(generator, MeasuresDistance):
            return None
        distances = generator.distances(self._cpus)
        self._apart = max(distances, key=lambda distance: distance.round_trip_ns or 0, default=None)
        return farthest(distances)

    def _remember(self, trip: int) -> int:
        self._seen = [*self._seen[-KEPT + 1 :], float(trip)]
        self._unsaved += 1
        if self._unsaved >= _SAVE_EVERY:
            self.close()
        return trip

    def is_far(self, trip: float) -> bool:
        bands = self.bands
        return bands is not None and bands.is_far(trip)
