"""The generator's own limits."""

from __future__ import annotations

from typing import Protocol

from pytest_nfvperf.model.traffic.traffic import Traffic


class Ceilings(Protocol):
    """The generator's own limits, frames/s per direction, without the DUT."""

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """The kept ceiling; None when it is not known yet."""
        ...

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Measure and keep it; None where it cannot be measured. Needs the PMD's CPU."""
        ...
