"""How long a thread that never sleeps was not running, whoever kept it from it.

The kernel tells how long a runnable thread waited for its CPU (schedstat, run_delay), but not how long a hypervisor
kept the CPU itself. Both are missing from the time that the thread ran: on a guest the scheduler's clock stops
while the host has the CPU (CONFIG_PARAVIRT_TIME_ACCOUNTING; on a machine without host there is nothing to subtract).
That time is brought up to date at scheduler ticks only, up to 10 ms apart, so it is read when it changes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_DEADLINE_NS = 40_000_000
"""A few ticks of 4 or 10 ms; on a CPU without ticks (nohz_full) none is seen."""

_CLOSE_NS = 60_000
"""Two readings further apart were preempted in between: when the figure changed is not known."""


def off_cpu_ns(task: Path) -> int | None:
    """Time on the raw monotonic clock that the thread did not run, with an offset that stays the same, ns.

    Args:
        task: its folder under /proc.

    Returns:
        None where no tick was seen, or the kernel does not tell. Differences are good to some 50 us. What the thread
        slept counts, too.
    """
    try:
        schedstat = os.open(task / "schedstat", os.O_RDONLY)
    except OSError:
        return None
    try:
        return _at_a_tick(schedstat)
    except OSError:
        return None  # it ended
    finally:
        os.close(schedstat)


def _at_a_tick(schedstat: int) -> int | None:
    asked, ran = _now(), _ran_ns(schedstat)
    until = asked + _DEADLINE_NS
    while asked < until:
        before, last = asked, ran
        asked, ran = _now(), _ran_ns(schedstat)
        if ran != last and _now() - before < _CLOSE_NS:
            return asked - ran
    return None


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _ran_ns(schedstat: int) -> int:
    return int(os.pread(schedstat, 100, 0).split()[0])
