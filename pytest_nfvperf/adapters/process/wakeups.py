"""Has two CPUs wake one another for a while.

A host that shares its cores moves virtual CPUs: two that worked on one L3 cache work on two, and each cache line takes
five times as long between them. While both work the host leaves them there, for half a minute or more. When one wakes
the other, the host places that one anew, and prefers the caches of the one that woke it. What was seen on one
host: docs/explanation/noise.md.

Makes polling threads that share a CPU take short turns there.

Threads that never sleep are changed by the kernel at its tick only: every 4 ms on Debian (CONFIG_HZ=250), whatever its
time slices are. Two of them that pass frames on through a ring of 4096 fill it in half a millisecond, drop for the rest
of the turn, and empty it as fast in the next one: one ring a tick comes through, 1 Mpps, whatever a frame costs. When
another thread wakes up on that CPU and sleeps again, the kernel chooses anew whose turn it is. So a process that does
nothing else, with a real-time priority, makes the turns as short as its sleep (seen: 6.0 Mpps without an overlay, 3.9
with VXLAN, both within 2 %; without it 0.9 to 1.0 Mpps of both).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process import volleys
from pytest_nfvperf.adapters.process.process import ManagedProcess, read_schedstat, run, spawn, wait_until
from pytest_nfvperf.model.errors import TestbedError

TURN_S = 0.0003
"""A ring of 4096 frames lasts so long at 13 Mpps. Each change costs some 15 us, mostly what a virtual machine pays to
set a timer: 5 % of the CPU."""

_START_DEADLINE_S = 10.0
VOLLEYS_S = 0.1


class ShortTurns:
    """The processes that wake up, one on each CPU. ``close()`` ends them.

    Where the kernel grants no real-time priority, such as in a container without CAP_SYS_NICE, there are none.

    Args:
        journal: they are noted there before they start.
        cpus: those that threads share.
        name: of whom, for the logs.
    """

    def __init__(self, journal: Journal, cpus: Sequence[int], name: str) -> None:
        self._wakers: dict[int, ManagedProcess] = {}
        try:
            for cpu in cpus:
                self._start(journal, cpu, name)
        except BaseException:
            self.close()
            raise

    @property
    def taken(self) -> bool:
        return bool(self._wakers)

    def pids(self) -> tuple[int, ...]:
        return tuple(waker.pid for waker in self._wakers.values())

    def run_ns(self) -> Mapping[int, int]:
        """How long each has run so far, ns, by CPU: a thread that could run waited for so long (schedstat, proc(5))."""
        found: dict[int, int] = {}
        for cpu, waker in self._wakers.items():
            try:
                found[cpu] = read_schedstat(Path(f"/proc/{waker.pid}")).ran_ns
            except OSError:
                continue  # a kernel without CONFIG_SCHED_INFO, or it has ended
        return found

    def check_alive(self) -> None:
        """TestbedError when one has ended."""
        for waker in self._wakers.values():
            waker.check()

    def freeze(self) -> None:
        """Leave the CPUs alone while others work there."""
        for waker in self._wakers.values():
            waker.freeze()

    def thaw(self) -> None:
        for waker in self._wakers.values():
            waker.thaw()

    def close(self) -> None:
        while self._wakers:
            self._wakers.popitem()[1].stop()

    def _start(self, journal: Journal, cpu: int, name: str) -> None:
        argv: list[str | os.PathLike[str]] = [
            sys.executable,
            "-I",
            "-S",
            Path(__file__).with_name("waker.py"),
            f"{TURN_S}",
        ]
        log = journal.directory / f"{name}-turns-{cpu}.log"
        waker = spawn(journal, f"short turns on CPU {cpu}", argv, log=log, cpus=[cpu])
        self._wakers[cpu] = waker
        wait_until(
            lambda: waker.popen.poll() is not None or _real_time(waker.pid),
            f"real-time priority of {waker.name} (pid {waker.pid})",
            _START_DEADLINE_S,
            last_seen=waker.state,
        )
        if waker.popen.poll() is None:
            return
        if "no real-time priority" not in waker.log_tail():
            waker.check()
        self._wakers.pop(cpu).stop()


def _real_time(pid: int) -> bool:
    try:
        return os.sched_getscheduler(pid) == os.SCHED_FIFO
    except ProcessLookupError as error:
        raise TestbedError(f"the process {pid} ended before it had a real-time priority") from error


def exchange_volleys(one: int, other: int) -> int:
    """Two processes, each on one of these CPUs, wake one another for ``VOLLEYS_S``.

    Returns:
        How often each was woken.

    Raises:
        TestbedError: this process may not use one of the CPUs (sched_setaffinity(2)).
    """
    return int(run([sys.executable, "-I", Path(volleys.__file__), str(one), str(other), str(VOLLEYS_S)]))
