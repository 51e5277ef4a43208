"""The port that finds out where CPU cycles go while something runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytest_nfvperf.model.measure.cpu_profile import CpuProfile


class CpuProfiler(Protocol):
    """Samples call stacks on the testbed's CPUs. It slows what runs there: nothing is measured meanwhile."""

    def record(self, work: Callable[[], object]) -> CpuProfile:
        """Sample while ``work`` goes on.

        Raises UnavailableError, with the reason, where profiling is not possible or not permitted, and whatever
        ``work`` raises.
        """
        ...
