"""Clocks: the machine's, and one that only counts, for plans and tests."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def time_ns(self) -> int:
        """Wall clock, ns since the epoch."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class VirtualClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._epoch_ns = time.time_ns()

    def monotonic(self) -> float:
        """Seconds slept so far."""
        return self._now_s

    def time_ns(self) -> int:
        """Wall clock at the start, plus what was slept, ns."""
        return self._epoch_ns + round(self._now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self._now_s += seconds
