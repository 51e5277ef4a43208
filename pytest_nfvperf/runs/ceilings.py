"""The rig's own ceiling, measured once and kept (How we measure, rule 3).

The cache is keyed by a fingerprint of machine and generator, the port kind, the frame size, the headers and the number
of directions. A ceiling does not depend on the flows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.machine import Kept


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
