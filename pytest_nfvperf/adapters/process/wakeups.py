"""Has two CPUs wake one another for a while.

A host that shares its cores moves virtual CPUs: two that worked on one L3 cache work on two, and each cache line takes
five times as long between them. While both work the host leaves them there, for half a minute or more. When one wakes
the other, the host places that one anew, and prefers the caches of the one that woke it. What was seen on one
host: docs/noise.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_nfvperf.adapters.process import volleys
from pytest_nfvperf.adapters.process.process import run

VOLLEYS_S = 0.1


def exchange_volleys(one: int, other: int) -> int:
    """Two processes, each on one of these CPUs, wake one another for ``VOLLEYS_S``.

    Returns:
        How often each was woken.

    Raises:
        TestbedError: this process may not use one of the CPUs (sched_setaffinity(2)).
    """
    return int(run([sys.executable, "-I", Path(volleys.__file__), str(one), str(other), str(VOLLEYS_S)]))
