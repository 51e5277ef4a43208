"""The CPU time of all threads of this machine, beside what the machine itself counted.

Threads: ``/proc/PID/task/TID/schedstat`` (ns that it ran, how often it was put on a CPU). The machine: ``/proc/stat``,
in steps of 10 ms. Most kernels count busy time at ticks, and time idle time. So up to 5 % of what passed is in neither
count: ticks that a host took without telling, while the thread that was on that CPU has the time; and the way into idle
time and out of it, which no thread has. Nobody can tell the two apart, and half of it is taken for busy time: in 60
runs on a shared machine the parts were 3.7 % off at most, and 4.4 % and 4.7 % with none of it and with all.

What of softirq and stolen time is in the threads' depends on how the kernel was built: CONFIG_IRQ_TIME_ACCOUNTING takes
interrupts out of them, CONFIG_PARAVIRT_TIME_ACCOUNTING what a hypervisor said that it stole.

Processes that came and went in between are nobody's threads any more; whoever waited for them has their time
(cutime and cstime, proc_pid_stat(5)). Threads that ended are in the time of their process, if that is still there. On a
machine where somebody works, both were a third of a run's CPU time.

To look at all threads takes tens of milliseconds, in which the machine goes on: its own accounting is read before and
after, and the middle is taken.

How this kernel was built, where it tells.

How long a thread that never sleeps was not running, whoever kept it from it.

The kernel tells how long a runnable thread waited for its CPU (schedstat, run_delay), but not how long a hypervisor
kept the CPU itself. Both are missing from the time that the thread ran: on a guest the scheduler's clock stops
while the host has the CPU (CONFIG_PARAVIRT_TIME_ACCOUNTING; on a machine without host there is nothing to subtract).
That time is brought up to date at scheduler ticks only, up to 10 ms apart, so it is read when it changes.

How long processes that were ready to run waited for a CPU: who came late for that was not let try.

The kernel tells it of each thread (schedstat, run_delay). What a hypervisor kept of a CPU is not in there; /proc/stat
tells that of each CPU (steal), where the hypervisor says so.
"""

from __future__ import annotations

import gzip
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole, merged

_DEADLINE_NS = 40_000_000
"""A few ticks of 4 or 10 ms; on a CPU without ticks (nohz_full) none is seen."""
_CLOSE_NS = 60_000
"""Two readings further apart were preempted in between: when the figure changed is not known."""
_STEAL = 7
"""Field of a CPU's line in /proc/stat, after its name (proc_stat(5))."""
_PF_KTHREAD = 0x00200000  # linux/sched.h
# proc_pid_stat(5), counted from the state, which follows the name
_FLAGS, _UTIME, _STIME, _CUTIME, _CSTIME, _STARTED = 6, 11, 12, 13, 14, 19
_PMD = re.compile(r"pmd-c\d+")
_NUMBER = re.compile(r"[/:]?\d.*$")
_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_BUSY = ("user", "nice", "system", "irq", "softirq")
_ONE_CPU = re.compile(r"cpu\d")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ROUNDED_NS = 2 * _TICK_NS
"""User and system time, each cut to ticks before and after: so far a difference may be from what it is."""
_Process = tuple[int, str]
"""Its number, and when it started: numbers are given again."""


def kernel_option(name: str, proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> bool | None:
    """Whether the kernel was built with an option such as "IRQ_TIME_ACCOUNTING"; None if it does not say."""
    text = _config(proc / "config.gz", boot / f"config-{os.uname().release}")
    return None if text is None else f"\nCONFIG_{name}=" in text


def _config(compressed: Path, plain: Path) -> str | None:
    try:
        if compressed.is_file():
            return gzip.decompress(compressed.read_bytes()).decode(errors="replace")
        return plain.read_text(encoding="utf-8", errors="replace") if plain.is_file() else None
    except OSError:
        return None


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


class CpuWaits:
    """Measures from its creation on. ``pids``: of processes, by a name for messages."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._before = dict(_waits(pids))

    def longest(self, pids: Mapping[str, int]) -> tuple[str, float]:
        """Who waited longest since then, in seconds. A process that started since counts whole."""
        waited = {key: ns - self._before.get(key, 0) for key, ns in _waits(pids)}
        if not waited:
            return "nobody", 0.0
        (who, _), ns = max(waited.items(), key=lambda each: each[1])
        return who, ns / 1e9


def _waits(pids: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], int]]:
    """Wait time in ns of each thread, and of each CPU that the host took away, by (name, number)."""
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


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread at one moment. ``ns``: how long it ran; ``switches``: how often it was put on a CPU."""

    pid: int
    comm: str
    kernel: bool
    ns: int
    switches: int


@dataclass(frozen=True, slots=True)
class _Times:
    """CPU time of a process so far, ns, in steps of 10 ms: its threads', ended or not; its awaited children's."""

    own_ns: int = 0
    waited_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the machine has counted so far, by kind, and how many CPUs it has."""

    at_ns: int
    by_kind_ns: Mapping[str, int]
    cpus: int


@dataclass(frozen=True, slots=True)
class _Look:
    """The machine at one moment. ``at_ns``, ``machine_ns`` by kind: in the middle of the look; ``cpus``: how many."""

    at_ns: int
    machine_ns: Mapping[str, int]
    cpus: int
    threads: Mapping[int, _Thread]
    processes: Mapping[_Process, _Times]


def cpu_accountant(proc: Path = Path("/proc")) -> CpuAccountant | None:
    """None where the kernel does not count threads' CPU time (CONFIG_SCHED_INFO)."""
    return CpuAccountant(proc) if (proc / "self/schedstat").is_file() else None


class CpuAccountant:
    """Fulfils ports.machine.CpuAccounting."""

    def __init__(self, proc: Path = Path("/proc"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc = proc
        self._now_ns = now_ns
        self._known: Mapping[int, CpuRole] = {}
        self._before: _Look | None = None

    def begin(self, known: Mapping[int, CpuRole]) -> None:
        self._known = known
        self._before = self._look()

    def end(self, ended: Iterable[CpuPart]) -> CpuAccount:
        if self._before is None:
            raise ValueError("begin() comes before end()")
        before, after = self._before, self._look()
        self._before = None
        machine = {kind: after.machine_ns[kind] - before.machine_ns[kind] for kind in _KINDS}
        elapsed_ns = after.at_ns - before.at_ns
        stolen_is_charged = self._steal_apart is False
        busy_ns = sum(machine[kind] for kind in _BUSY) + (machine["steal"] if stolen_is_charged else 0)
        uncounted_ns = max(0, elapsed_ns * after.cpus - sum(machine.values()))
        parts, streams = list(self._ran(before, after)), list(ended)
        softirq_ns = machine["softirq"] + machine["irq"]
        if self._softirq_apart:
            parts.append(CpuPart(CpuRole.SOFTIRQ, "softirq and irq", softirq_ns))
        return CpuAccount(
            elapsed_ns=elapsed_ns,
            machine_ns=busy_ns + uncounted_ns // 2,
            softirq_ns=softirq_ns,
            steal_ns=machine["steal"],
            softirq_apart=bool(self._softirq_apart),
            parts=merged([*parts, *streams, *self._ended(before, after, streams)]),
            blind=tuple(self._blind()),
        )

    @cached_property
    def _softirq_apart(self) -> bool | None:
        return kernel_option("IRQ_TIME_ACCOUNTING", self._proc)

    @cached_property
    def _steal_apart(self) -> bool | None:
        return kernel_option("PARAVIRT_TIME_ACCOUNTING", self._proc)

    def _blind(self) -> Iterator[str]:
        if self._softirq_apart is None:
            yield "this kernel does not tell (/proc/config.gz) whether it charges softirq time to threads"
        if (
            not (self._proc / "2/comm").is_file()
            or (self._proc / "2/comm").read_text(encoding="utf-8").strip() != "kthreadd"
        ):
            yield "kernel threads and other containers' processes cannot be seen from this PID namespace"

    def _ran(self, before: _Look, after: _Look) -> Iterator[CpuPart]:
        for tid, thread in after.threads.items():
            old = before.threads.get(tid)
            began, switches = _began_at(old, thread), old.switches if old is not None and old.ns <= thread.ns else 0
            role = self._role(thread)
            yield CpuPart(role, _name(role, thread.comm), thread.ns - began, thread.switches - switches)

    def _ended(self, before: _Look, after: _Look, streams: Sequence[CpuPart]) -> Iterator[CpuPart]:
        for pid, ns in _ended_threads(before, after):
            yield CpuPart(self._role_of(pid), "threads that ended", ns)
        ns = _ended_processes_ns(before, after, sum(part.ns for part in streams))
        yield CpuPart(CpuRole.OTHER, "processes that ended", ns)

    def _role(self, thread: _Thread) -> CpuRole:
        role = self._role_of(thread.pid)
        if role is CpuRole.VSWITCHD and _PMD.match(thread.comm):
            return CpuRole.PMD
        return CpuRole.KERNEL if thread.kernel and role is CpuRole.OTHER else role

    def _role_of(self, pid: int) -> CpuRole:
        return self._known.get(pid, CpuRole.TEST if pid == os.getpid() else CpuRole.OTHER)

    def _look(self) -> _Look:
        first = self._machine()
        threads: dict[int, _Thread] = {}
        processes: dict[_Process, _Times] = {}
        for pid in [int(path.name) for path in self._proc.iterdir() if path.name.isdigit()]:
            stat = self._stat(pid)
            if stat is not None:
                threads.update(self._threads(pid, kernel=bool(int(stat[_FLAGS]) & _PF_KTHREAD)))
                processes[pid, stat[_STARTED]] = _times(stat)
        if not threads:
            raise TestbedError("the kernel does not count threads' CPU time: it needs CONFIG_SCHED_INFO (schedstat)")
        last = self._machine()
        machine = {kind: (ns + last.by_kind_ns[kind]) // 2 for kind, ns in first.by_kind_ns.items()}
        return _Look((first.at_ns + last.at_ns) // 2, machine, last.cpus, threads, processes)

    def _machine(self) -> _Machine:
        at_ns = self._now_ns()
        rows = (self._proc / "stat").read_text(encoding="ascii").splitlines()
        ticks = rows[0].split()[1:]
        counted = {kind: int(number) * _TICK_NS for kind, number in zip(_KINDS, ticks, strict=False)}
        return _Machine(at_ns, counted, sum(_ONE_CPU.match(row) is not None for row in rows))

    def _stat(self, pid: int) -> list[str] | None:
        """The fields behind the name, which may hold any character; None if the process ended meanwhile."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return text.rpartition(")")[2].split()

    def _threads(self, pid: int, *, kernel: bool) -> Iterator[tuple[int, _Thread]]:
        """A process's threads, without those that end meanwhile."""
        try:
            tasks = list((self._proc / str(pid) / "task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            return
        for task in tasks:
            thread = _thread(task, pid, kernel=kernel)
            if thread is not None:
                yield int(task.name), thread


def _thread(task: Path, pid: int, *, kernel: bool) -> _Thread | None:
    try:
        counted = read_schedstat(task)
        comm = (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Thread(pid, comm, kernel, counted.ran_ns, counted.turns)


def _times(stat: list[str]) -> _Times:
    own, waited = (int(stat[user]) + int(stat[system]) for user, system in ((_UTIME, _STIME), (_CUTIME, _CSTIME)))
    return _Times(own * _TICK_NS, waited * _TICK_NS)


def _ended_threads(before: _Look, after: _Look) -> Iterator[tuple[int, int]]:
    """Processes that still run, and the CPU time of their ended threads: theirs less that of live threads."""
    there: dict[int, int] = defaultdict(int)
    for tid, thread in after.threads.items():
        there[thread.pid] += thread.ns - _began_at(before.threads.get(tid), thread)
    for process, times in after.processes.items():
        ns = times.own_ns - before.processes.get(process, _Times()).own_ns - there[process[0]]
        if ns > _ROUNDED_NS:
            yield process[0], ns


def _ended_processes_ns(before: _Look, after: _Look, streams_ns: int) -> int:
    """CPU time in between of processes that ended and were waited for by somebody who is still there.

    What a process had run before is not of this time, nor what it had waited for itself: who waits for it gets both.
    ``streams_ns``: of the streams' ends, which we waited for, and whose own accounts are more exact.
    """
    waited_ns = 0
    for process, times in after.processes.items():
        more = times.waited_ns - before.processes.get(process, _Times()).waited_ns
        if process[0] == os.getpid():
            more -= streams_ns
            more = more if more > _ROUNDED_NS else 0
        waited_ns += more
    gone = before.processes.keys() - after.processes.keys()
    return max(0, waited_ns - sum(before.processes[one].own_ns + before.processes[one].waited_ns for one in gone))


def _began_at(old: _Thread | None, now: _Thread) -> int:
    """What a thread had run before; 0 for a new thread with an old number."""
    return old.ns if old is not None and old.ns <= now.ns else 0


def _name(role: CpuRole, comm: str) -> str:
    """PMDs keep their CPU's number; other threads of OVS and the kernel are summed by what they do."""
    pmd = _PMD.match(comm)
    if role is CpuRole.PMD and pmd is not None:
        return pmd[0]
    return _NUMBER.sub("", comm) if role in {CpuRole.VSWITCHD, CpuRole.KERNEL} else comm
