"""Wakeups that make the scheduler act: between two CPUs, or on one CPU that polling threads share.

``exchange_wakeups``: a host that shares its cores moves virtual CPUs. Two that worked on one L3 cache then work on two,
and each cache line takes five times as long between them. While both work, the host leaves them there for half a minute
or more. When one wakes the other, the host places the woken one again, and prefers the caches of its waker
(observations on one host: docs/explanation/noise.md).

``ShortTurns``: the kernel changes between threads that never sleep at its tick only: every 4 ms on Debian
(CONFIG_HZ=250), whatever its time slices are. Two of them that pass frames through a ring of 4096 fill it in half a
millisecond, drop for the rest of the turn, and empty it as fast in the next one: one ring a tick comes through, 1 Mpps,
whatever a frame costs. When another thread wakes on that CPU and sleeps again, the kernel chooses the next thread. So
a process with a real-time priority that does nothing else makes the turns as short as its sleep (seen: 6.0 Mpps without
an overlay, 3.9 with VXLAN, both within 2 %; without it 0.9 to 1.0 Mpps of both).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, read_schedstat, run, spawn, wait_until
from pytest_nfvperf.model.errors import TestbedError

TURN_S = 0.0003
"""A ring of 4096 frames lasts this long at 13 Mpps. Each change costs some 15 us, mostly what a virtual machine pays to
set a timer: 5 % of the CPU."""
EXCHANGE_S = 0.1
_START_DEADLINE_S = 60.0  # a start takes 50 ms; beside polling threads and others on the same CPU, many seconds
_SCRIPT = Path(__file__).with_name("wakeup_script.py")


class RaisedPriority:
    """The calling thread has the least real-time priority until ``end``; what it starts meanwhile has the usual one.

    For a thread that sleeps most of the time. A nice value would not do: it counts within a session only where sessions
    are scheduled as groups (sched(7)). Where the kernel grants no real-time priority, such as in a container without
    CAP_SYS_NICE, the thread keeps its own.
    """

    def __init__(self) -> None:
        self._set(os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_get_priority_min(os.SCHED_RR))

    def end(self) -> None:
        self._set(os.SCHED_OTHER, 0)

    def _set(self, policy: int, priority: int) -> None:
        with suppress(PermissionError):
            os.sched_setscheduler(0, policy, os.sched_param(priority))


class ShortTurns:
    """The processes that wake, one on each CPU that threads share.

    There are none where the kernel grants no real-time priority, such as in a container without CAP_SYS_NICE.
    ``name`` is that of the threads' process, for the logs.
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
    def active(self) -> bool:
        return bool(self._wakers)

    def pids(self) -> tuple[int, ...]:
        return tuple(waker.pid for waker in self._wakers.values())

    def run_ns(self) -> Mapping[int, int]:
        """How long each process has run so far, ns, by CPU: ready threads waited this long (schedstat, proc(5))."""
        found: dict[int, int] = {}
        for cpu, waker in self._wakers.items():
            try:
                found[cpu] = read_schedstat(Path(f"/proc/{waker.pid}")).ran_ns
            except OSError:
                continue  # a kernel without CONFIG_SCHED_INFO, or it has ended
        return found

    def check_alive(self) -> None:
        for waker in self._wakers.values():
            waker.check()

    def freeze(self) -> None:
        for waker in self._wakers.values():
            waker.freeze()

    def thaw(self) -> None:
        for waker in self._wakers.values():
            waker.thaw()

    def close(self) -> None:
        while self._wakers:
            self._wakers.popitem()[1].stop()

    def _start(self, journal: Journal, cpu: int, name: str) -> None:
        argv: list[str | os.PathLike[str]] = [sys.executable, "-I", "-S", _SCRIPT, f"{TURN_S}"]
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


def exchange_wakeups(one: int, other: int) -> int:
    """Have two processes, each on one of these CPUs, wake one another for ``EXCHANGE_S``; returns how often.

    TestbedError if this process may not use one of the CPUs (sched_setaffinity(2)).
    """
    return int(run([sys.executable, "-I", _SCRIPT, str(one), str(other), str(EXCHANGE_S)]))
