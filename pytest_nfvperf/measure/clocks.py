"""Clocks: the machine's; one that only counts, for plans and tests; what time is spent on; how long a machine slept.

Durations are measured by the monotonic clock. The wall clock is for people only: NTP or a person may set it during a
run.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.evidence.records import Span
from pytest_nfvperf.ports.machine import Clock


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def suspended_ns() -> int:
    """How long the machine has been suspended since its boot, plus a constant in a time namespace.

    CLOCK_MONOTONIC stands still then (clock_gettime(2)).
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class TimeLimit:
    """Until when a run may measure, by its clock; without ``limit_s`` there is no end.

    Repeats and waits use only what is spare: ``reserved_s`` is what the tests need that have not begun, and
    ``measured_until_s``, by the clock, when what is being measured should have its figure. Who begins those sets them.
    """

    def __init__(self, limit_s: float | None = None, clock: Clock | None = None) -> None:
        self.limit_s = limit_s
        self.reserved_s = 0.0
        self.measured_until_s = math.inf
        self._clock = clock or SystemClock()
        self._end_s = math.inf if limit_s is None else self._clock.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._end_s - self._clock.monotonic())

    @property
    def spare_s(self) -> float:
        return max(0.0, min(self.left_s - self.reserved_s, self.measured_until_s - self._clock.monotonic()))

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    def check(self, needed_s: float = 0.0) -> None:
        """Raise OutOfTimeError if the run has ended, or ends before so many seconds have passed."""
        left_s = self.left_s
        if left_s > 0 and needed_s <= left_s:
            return
        limit, left = format_seconds(self.limit_s or 0.0), format_seconds(left_s)
        if left_s <= 0:
            raise OutOfTimeError(f"out of time: the run's limit of {limit} is used up (--nfv-time-limit)")
        needs = f"this takes {format_seconds(needed_s)}, and {left} of the run's {limit} are left"
        raise OutOfTimeError(f"out of time: {needs} (--nfv-time-limit)")


class VirtualClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._epoch_ns = time.time_ns()

    def monotonic(self) -> float:
        return self._now_s

    def time_ns(self) -> int:
        return self._epoch_ns + round(self._now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


class Stopwatch:
    """What a test spends its time on. A span leaves out inner ones; its ``kind`` may change until it ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.kind = clock, Span.OTHER
        self.restart()

    def restart(self) -> None:
        self._began_s, self._inner_s = self._clock.monotonic(), 0.0
        self._spent_s = defaultdict[Span, float](float)

    @contextmanager
    def of(self, kind: Span) -> Iterator[None]:
        began_s, outer, outer_inner_s = self._clock.monotonic(), self.kind, self._inner_s
        self.kind, self._inner_s = kind, 0.0
        try:
            yield
        finally:
            took_s = self._clock.monotonic() - began_s
            self._spent_s[self.kind] += took_s - self._inner_s
            self.kind, self._inner_s = outer, outer_inner_s + took_s

    def seconds(self) -> dict[str, float]:
        """Seconds since the restart by span; what was within none is ``other``, too."""
        outside_s = self._clock.monotonic() - self._began_s - self._inner_s
        spent = self._spent_s | {Span.OTHER: self._spent_s[Span.OTHER] + outside_s}
        return {str(kind): round(spent[kind], 6) for kind in Span if kind in spent}
