"""How long processes that were ready to run waited for a CPU: who came late for that was not let try.

The kernel tells it of each thread (schedstat, run_delay). What a hypervisor kept of a CPU is not in there; /proc/stat
tells that of each CPU (steal), where the hypervisor says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_nfvperf.adapters.process.schedstat import read_schedstat

_STEAL = 7
"""Field of a CPU's line in /proc/stat, after its name (proc_stat(5))."""


class CpuWaits:
    """Watches from when it is made. ``pids``: of processes, by a name for messages."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._before = dict(_waits(pids))

    def longest(self, pids: Mapping[str, int]) -> tuple[str, float]:
        """Who waited longest since then, and for how many seconds; a process that was started since counts whole."""
        waited = {key: ns - self._before.get(key, 0) for key, ns in _waits(pids)}
        if not waited:
            return "nobody", 0.0
        (who, _), ns = max(waited.items(), key=lambda each: each[1])
        return who, ns / 1e9


def _waits(pids: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], int]]:
    """Of each thread, and of each CPU that the host took away: (name, number), ns."""
    for name, pid in pids.items():
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                delay_ns = read_schedstat(task).waited_ns
            except OSError:
                continue  # the thread ended, or this kernel does not tell
            yield (name, int(task.name)), delay_ns
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[0].startswith("cpu") and fields[0] != "cpu" and len(fields) > _STEAL + 1:
            yield (f"whoever ran on CPU {fields[0][3:]}", -1), int(fields[_STEAL + 1]) * tick_ns
