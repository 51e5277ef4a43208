"""Limits of the rig: the generator's ceiling, and the load that it sustains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.measure.confirmation import NEAR_CEILING
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.measure.outcome import PlateauPoint
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialResult
from pytest_nfvperf.ports.machine import Kept

# The rig's own ceiling, measured once and kept (How we measure, rule 3).
#
# The cache is keyed by a fingerprint of machine and generator, the port kind, the frame size, the headers and
# the number of directions. A ceiling does not depend on the flows.


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured ceiling, frames/s per direction. ``lasting``: not where the host kept the CPUs apart meanwhile."""

    fps: float
    lasting: bool = True


Meter = Callable[[Traffic, int], Ceiling]


class NoCeilings:
    """Where the generator's own limit cannot be measured: its ports are cabled to the DUT."""

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """Unknown."""

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Not possible."""


class CachedCeilings:
    """Ceilings that are kept for one machine and generator: ``{"vhost-user 64 x2": frames_per_second}``."""

    def __init__(self, kept: Kept, port_kind: str, meter: Meter) -> None:
        self._kept = kept
        self._port_kind = port_kind
        self._meter = meter

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        return self._known().get(self._key(traffic, directions))

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Measure, and keep the highest that lasted: what a disturbed machine reaches today is no limit tomorrow."""
        ceiling, key = self._meter(traffic, directions), self._key(traffic, directions)
        if ceiling.lasting and ceiling.fps > self._known().get(key, 0.0):
            self._kept.write(self._known() | {key: ceiling.fps})
        return ceiling.fps

    def _key(self, traffic: Traffic, directions: int) -> str:
        return f"{self._port_kind} {traffic.shape_label} x{directions}"

    def _known(self) -> dict[str, float]:
        known = self._kept.read()
        return dict(known) if isinstance(known, dict) else {}


# The load that a generator holds, from a trial in which it fell behind. Pure.

HELD_AGAIN = 0.98
"""Of what it offered when it was asked for more: it is to hold that for a whole search."""

LOWER = 0.9
"""Of a load that it did not hold, where nobody knows what it offered undisturbed."""


def load_to_hold(result: TrialResult) -> float:
    """The next load to try, frames/s per direction.

    It is near what the generator offered in undisturbed windows. What the machine took from it says nothing of the
    load: seen in ten warm-ups at 8.4 Mpps, the generator offered 7.45 to 7.66 Mpps in those windows, and 6.9 to 7.4
    over all, and each search ended at what it had offered.
    """
    load, alone = result.spec.load_fps, result.undisturbed
    if alone is not None and alone.enough:
        return load * (1 - alone.skipped_ratio) * HELD_AGAIN
    # An overloaded tester may have offered far less than it was asked for: there it begins to be usable.
    return min(load * LOWER, result.offered_fps or load)


# What bounds the load of a search: the rig's own ceiling, and the line. Pure.

UNBOUNDED_FPS = 200e6
"""Maximum load where neither a line rate nor a ceiling is known."""

HIGHER = 1.05
"""A ceiling that is so much above the one that is known: the machine, or what measured that one, was slower."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds any load for one traffic, frames/s per direction; None where unknown."""

    ceiling_fps: float | None
    line_rate_fps: float | None

    @property
    def maximum_fps(self) -> float:
        known = [limit for limit in (self.ceiling_fps, self.line_rate_fps) if limit is not None]
        return min(known, default=UNBOUNDED_FPS)


LimitsOf = Callable[[LiveTopology, Traffic], Limits]


def above_the_ceiling(limits: Limits, plateau: Sequence[PlateauPoint], trials: Sequence[Trial]) -> Limits | None:
    """Limits with what the generator offered in a plateau near the known ceiling, or above it; None where that stands.

    What measures a ceiling only loops frames, but DUTs can be faster: seen with 1518 bytes, OVS forwarded 3.15 Mpps
    where the ceiling was 2.42, and a search that ended there reported *at least*.
    """
    ceiling = limits.ceiling_fps
    read = [point for point in plateau if not point.at_least]
    if ceiling is None or not read or read[0].fps < NEAR_CEILING * ceiling:
        return None
    offered = next(load_to_hold(trial.result) for trial in trials if trial.id == read[0].trial_id)
    return replace(limits, ceiling_fps=offered) if offered >= HIGHER * ceiling else None
