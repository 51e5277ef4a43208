"""Connects: new TCP connections from one namespace to another, one after the other, and how long each took."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.traffic.histogram import Histogram

CONNECTS = (10, 25_000)
"""Enough for a percentile; fewer than a client's ports (28,232 by the kernel's default), so none is used twice."""


@dataclass(frozen=True, slots=True)
class ConnectSpec:
    """TCP connections that are opened and closed without data. Raises ValueError for those that cannot be measured.

    ``connects``: where the engine can count them; ``duration_s``: whole seconds, where it can only do that.
    ``client_cpus``, ``server_cpus``: CPUs that the two ends may run on; empty: any.
    """

    connects: int = 5000
    duration_s: int = 1
    client_cpus: tuple[int, ...] = ()
    server_cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        low, high = CONNECTS
        if not low <= self.connects <= high:
            raise ArgumentError(f"connects must be {low}..{high}, not {self.connects}")
        if self.duration_s < 1:
            raise ArgumentError(f"duration_s must be 1 s or more, not {self.duration_s}")


@dataclass(frozen=True, slots=True)
class ConnectResult:
    """What became of the connects.

    ``times``, ``mean_ns``: of those that succeeded, from the call of connect() to its return, by the client's clock.
    ``failed``: refused, or timed out. ``accepted``: by the server. ``elapsed_ns``: from its first to its last.
    """

    spec: ConnectSpec
    times: Histogram
    mean_ns: float
    failed: int
    accepted: int
    elapsed_ns: int
    engine: str

    @property
    def connects_per_s(self) -> float | None:
        """None when no time passed."""
        return (self.accepted - 1) * 1e9 / self.elapsed_ns if self.elapsed_ns > 0 else None
