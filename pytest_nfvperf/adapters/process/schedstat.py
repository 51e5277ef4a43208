"""What the kernel's scheduler counts of a thread: ``/proc/PID/task/TID/schedstat`` (proc(5))."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class SchedStat(NamedTuple):
    """Since the thread began.

    Attributes:
        ran_ns: how long it ran on a CPU, ns.
        waited_ns: how long it could have run and waited for its CPU, ns. What a hypervisor kept is not in it.
        turns: how often it was put on a CPU.
    """

    ran_ns: int
    waited_ns: int
    turns: int


def read_schedstat(task: Path) -> SchedStat:
    """What the scheduler counted of a thread.

    Args:
        task: its folder under /proc; a process's own folder is that of its main thread.

    Raises:
        OSError: the thread has ended, or the kernel does not tell (it has no CONFIG_SCHED_INFO).
    """
    ran_ns, waited_ns, turns = (task / "schedstat").read_text(encoding="ascii").split()
    return SchedStat(int(ran_ns), int(waited_ns), int(turns))
