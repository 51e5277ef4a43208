"""A pause in which what preempts a PMD moves to another CPU. Nobody else's process is touched.

Seen on two cores: a kernel thread that ran for 0.5 to 15 ms twice a second stayed on the PMD's CPU for minutes, and
every trial at 4 Mpps lost frames. When it woke while the generator's CPU was idle it moved there: 13 of 13 trials lost
none.
"""

from __future__ import annotations

import math

from pytest_nfvperf.model.traffic.trial import Reason, TrialResult
from pytest_nfvperf.ports.machine import Clock

PAUSE_S = 1.3
"""Longer than the second in which periodic work of a kernel comes round."""

_NOT_WITHIN_S = 10.0
"""Where a pause did not help, what disturbs does not move, and more pauses only take time."""


class Calm:
    """Pauses after trials in which the DUT was kept off its CPU, so that a woken thread leaves it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = -math.inf

    def after(self, result: TrialResult) -> None:
        kept_off = any(reason.code is Reason.DUT_CPU_STOLEN for reason in result.invalid)
        if kept_off and self._clock.monotonic() - self._last_s >= _NOT_WITHIN_S:
            self.pause()

    def pause(self) -> None:
        self._clock.sleep(PAUSE_S)
        self._last_s = self._clock.monotonic()
