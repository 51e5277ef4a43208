"""Limits of the rig: the generator's ceiling, and the load that it sustains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.measure.confirmation import AT_CEILING
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.measure.outcome import PlateauPoint
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialResult
from pytest_nfvperf.ports.machine import Kept

HELD_AGAIN = 0.98
"""Share of what the generator offered when it was asked for more: it is to sustain that for a whole search."""

LOWER = 0.9
"""Share of a load that it did not sustain, if nobody knows what it offered undisturbed."""

UNBOUNDED_FPS = 200e6
"""Maximum load if neither a line rate nor a ceiling is known."""

HIGHER = 1.05
"""How far a new ceiling must exceed the known one before the search runs again."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured ceiling, frames/s per direction. ``lasting``: False if the host kept the CPUs apart meanwhile."""

    fps: float
    lasting: bool = True


Meter = Callable[[Traffic, int], Ceiling]


class NoCeilings:
    """For generators whose own limit cannot be measured: their ports are cabled to the DUT."""

    def cached(self, traffic: Traffic, directions: int) -> None: ...

    def measure(self, traffic: Traffic, directions: int) -> None: ...


class CachedCeilings:
    """The rig's own ceilings, measured once and kept (How we measure, rule 3).

    The cache is that of one fingerprint of machine and generator. It is keyed by the port kind, the shape of the frames
    and the number of directions: ``{"vhost-user 64 x2": frames_per_second}``. A ceiling does not depend on the flows.
    """

    def __init__(self, kept: Kept, port_kind: str, meter: Meter) -> None:
        self._kept = kept
        self._port_kind = port_kind
        self._meter = meter

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        return self._known().get(self._key(traffic, directions))

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Measure, and keep the highest lasting one: what a disturbed machine reaches today is no limit tomorrow."""
        ceiling, key = self._meter(traffic, directions), self._key(traffic, directions)
        if ceiling.lasting and ceiling.fps > self._known().get(key, 0.0):
            self._kept.write(self._known() | {key: ceiling.fps})
        return ceiling.fps

    def _key(self, traffic: Traffic, directions: int) -> str:
        return f"{self._port_kind} {traffic.shape_label} x{directions}"

    def _known(self) -> dict[str, float]:
        known = self._kept.read()
        return dict(known) if isinstance(known, dict) else {}


def sustainable_load(result: TrialResult) -> float:
    """The load that a generator can sustain, from a trial in which it fell behind; frames/s per direction.

    It is a little less than what the generator offered in undisturbed windows. What the machine took from it says
    nothing about the load: seen in ten warm-ups at 8.4 Mpps, the generator offered 7.45 to 7.66 Mpps in those windows,
    and 6.9 to 7.4 in all, and each search ended at what it had offered.
    """
    load, alone = result.spec.load_fps, result.undisturbed
    if alone is not None and alone.enough:
        return load * (1 - alone.skipped_ratio) * HELD_AGAIN
    # An overloaded tester may have offered far less than it was asked for: at that load it begins to be usable.
    return min(load * LOWER, result.offered_fps or load)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds any load for one traffic, frames/s per direction; None if unknown."""

    ceiling_fps: float | None
    line_rate_fps: float | None

    @property
    def maximum_fps(self) -> float:
        known = [limit for limit in (self.ceiling_fps, self.line_rate_fps) if limit is not None]
        return min(known, default=UNBOUNDED_FPS)


LimitsOf = Callable[[LiveTopology, Traffic], Limits]


def raised_by_plateau(limits: Limits, plateau: Sequence[PlateauPoint], trials: Sequence[Trial]) -> Limits | None:
    """Limits with a higher ceiling: what the generator offered in a plateau at the known one; None if that one stands.

    A ceiling is measured by looping frames, but DUTs can be faster: seen with 1518 bytes, OVS forwarded 3.15 Mpps
    where the ceiling was 2.42, and a search that ended there reported *at least*.
    """
    ceiling = limits.ceiling_fps
    read = [point for point in plateau if not point.at_least]
    if ceiling is None or not read or read[0].fps < AT_CEILING * ceiling:
        return None
    offered = next(sustainable_load(trial.result) for trial in trials if trial.id == read[0].trial_id)
    return replace(limits, ceiling_fps=offered) if offered >= HIGHER * ceiling else None
