"""What bounds the load of a search: the rig's own ceiling, and the line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.measure.outcome import PlateauPoint
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.found_goals import NEAR_CEILING
from pytest_nfvperf.runs.held_load import load_to_hold
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.trials import Trial

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
