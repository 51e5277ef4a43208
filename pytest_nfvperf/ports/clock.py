"""Time, so that tests can run hours in no time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and a way to wait."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def time_ns(self) -> int:
        """Wall clock, ns since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
