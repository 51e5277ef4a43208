"""How long a thread was kept off its CPU: added up from what the kernel tells, and read from a real one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpu_account import off_cpu_ns
from pytest_nfvperf.adapters.host.polling_threads import PollingThreads, _OffCpuTime
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import TestbedError

MS = 1_000_000
BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\nwhile True: pass"
THREADS = """
import threading
while True:
    threads = [threading.Thread(target=int) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
needs_schedstat = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel has no /proc/PID/schedstat (CONFIG_SCHED_INFO)"
)


def figures(delay_ms: int, switches: int = 0) -> dict[str, int]:
    return {"run_delay_ns": delay_ms * MS, "voluntary_switches": switches}


def test_what_the_host_took_counts_beside_what_the_kernel_did() -> None:
    off_cpu = _OffCpuTime(figures(5), 5 * MS)
    assert off_cpu.update(figures(5), 100 * MS) == 5 * MS
    assert off_cpu.update(figures(6), 104 * MS) == 9 * MS, "1 ms of waiting is part of the 4 ms"
    assert off_cpu.update(figures(9), 105 * MS) == 12 * MS, (
        "a reading that is late by a little never takes away from it"
    )


def test_what_the_thread_slept_does_not_count() -> None:
    off_cpu = _OffCpuTime(figures(0), 0)
    off_cpu.update(figures(0), 100 * MS)
    assert off_cpu.update(figures(1, switches=1), 900 * MS) == 1 * MS
    assert off_cpu.update(figures(1, switches=1), 902 * MS) == 3 * MS


def test_where_no_tick_was_seen_the_waiting_counts() -> None:
    off_cpu = _OffCpuTime(figures(0), 0)
    off_cpu.update(figures(0), 100 * MS)
    assert off_cpu.update(figures(2), None) == 2 * MS
    assert off_cpu.update(figures(2), 500 * MS) == 2 * MS
    assert off_cpu.update(figures(2), 501 * MS) == 3 * MS


@contextmanager
def busy(cpu: int) -> Iterator[Path]:
    """A process that does not sleep; its folder under /proc."""
    with subprocess.Popen([sys.executable, "-c", BUSY, str(cpu)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield Path(f"/proc/{process.pid}")
        finally:
            process.kill()


@contextmanager
def looking_from_another_cpu(cpu: int) -> Iterator[None]:
    """Where there is one: who looks shall not take part."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, allowed - {cpu} or allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def await_reading(task: Path) -> int:
    """This process may be preempted in each look."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = off_cpu_ns(task)
        if found is not None:
            return found
    raise AssertionError("no tick seen in 20 s")


@needs_schedstat
def test_two_that_share_a_cpu_keep_each_other_off_it() -> None:
    cpu = max(os.sched_getaffinity(0))
    with ExitStack() as both, looking_from_another_cpu(cpu):
        one, other = (both.enter_context(busy(cpu)) for _ in range(2))
        before = [await_reading(task) for task in (one, other)]
        started = time.monotonic_ns()
        while time.monotonic_ns() - started < 400 * MS:
            pass
        off_cpu = sum(await_reading(task) - early for task, early in zip((one, other), before, strict=True))
        assert off_cpu > 0.8 * 400 * MS, "between them they were off it all the time, but for the looks' own"


@needs_schedstat
def test_a_thread_that_sleeps_has_no_ticks_and_one_that_is_gone_has_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        task = Path(f"/proc/{process.pid}")
        deadline = time.monotonic() + 10
        while off_cpu_ns(task) is not None:  # it is still starting
            assert time.monotonic() < deadline
        process.kill()
    assert off_cpu_ns(task) is None


def test_threads_that_end_while_they_are_looked_at_are_passed_over() -> None:
    """Revalidators and handlers come and go; vswitchd itself that is gone is an error."""
    process = subprocess.Popen([sys.executable, "-c", THREADS])
    collector = PollingThreads(lambda: process.pid)
    try:
        for _ in range(200):
            collector.snapshot()
    finally:
        process.kill()
        process.wait()
    with pytest.raises(TestbedError, match=rf"ovs-vswitchd \(pid {process.pid}\) is gone"):
        collector.snapshot()


NAMED = """
import threading, time
def named():
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("pmd-c03/id:8")
    print(threading.get_native_id(), flush=True)
    time.sleep(60)
threading.Thread(target=named, daemon=True).start()
time.sleep(60)
"""


def test_pollers_are_the_threads_that_are_named_so() -> None:
    with subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            thread = int(process.stdout.readline())
            assert PollingThreads(lambda: process.pid).pollers() == (Poller(3, process.pid, thread),)
        finally:
            process.kill()
