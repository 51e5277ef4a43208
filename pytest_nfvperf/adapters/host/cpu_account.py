"""The CPU time of this machine's threads, compared to what the machine itself counted; and how long threads waited.

Threads: ``/proc/PID/task/TID/schedstat`` (ns that it ran, how often it was put on a CPU). The machine: ``/proc/stat``,
in steps of 10 ms. Most kernels count busy time at ticks, and time idle time. So up to 5 % of what passed is in neither
count: ticks that a host took without reporting, while the thread that was on that CPU has the time; and the way into
idle time and out of it, which no thread has. The two cannot be told apart, and half of it is taken for busy time: in 60
runs on a shared machine the parts were 3.7 % off at most, and 4.4 % and 4.7 % with none of it and with all.

How much softirq and stolen time threads are charged depends on how the kernel was built: CONFIG_IRQ_TIME_ACCOUNTING
takes interrupts out of it, CONFIG_PARAVIRT_TIME_ACCOUNTING what a hypervisor reported as stolen.

Processes that came and went in between have no threads any more; the process that waited for them has their time
(cutime and cstime, proc_pid_stat(5)). Threads that ended are in the time of their process, if that still runs. On a
machine that is in use, both were a third of a run's CPU time.

To look at all threads takes tens of milliseconds, in which the machine goes on: its own accounting is read before and
after, and the middle is taken.

Waits: the kernel reports how long a runnable thread waited for its CPU (schedstat, run_delay), but not how long a
hypervisor kept the CPU itself; /proc/stat reports that of each CPU (steal), where the hypervisor does.
"""

from __future__ import annotations

import gzip
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pytest_nfvperf.adapters.process.journal import read_stat
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole, merged
from pytest_nfvperf.ports.machine import CpuAccounting

_DEADLINE_NS = 40_000_000
"""A few ticks of 4 or 10 ms; on a CPU without ticks (nohz_full) none is seen."""
_CLOSE_NS = 60_000
"""If two readings are further apart, the reader was preempted in between: it is unknown when the figure changed."""
_STEAL = 7
"""Field of a CPU's line in /proc/stat, after its name (proc_stat(5))."""
_PF_KTHREAD = 0x00200000  # linux/sched.h
# proc_pid_stat(5), counted from the state, which follows the name
_FLAGS, _UTIME, _STIME, _CUTIME, _CSTIME, _STARTED = 6, 11, 12, 13, 14, 19
_PMD = re.compile(r"pmd-c\d+")
_NUMBER = re.compile(r"[/:]?\d.*$")
CPU_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Of time in /proc/stat, in ticks since boot (proc_stat(5))."""
_BUSY = ("user", "nice", "system", "irq", "softirq")
_ONE_CPU = re.compile(r"cpu\d")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ROUNDED_NS = 2 * _TICK_NS
"""User and system time are each cut to ticks, before and after: a difference may be wrong by this much."""
_Process = tuple[int, str]
"""A process's id, and when it started: ids are used again."""


def kernel_option(name: str, proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> bool | None:
    """Whether the kernel was built with an option such as "IRQ_TIME_ACCOUNTING"; None if it does not say."""
    compressed, plain = proc / "config.gz", boot / f"config-{os.uname().release}"
    try:
        raw = gzip.decompress(compressed.read_bytes()) if compressed.is_file() else plain.read_bytes()
    except OSError:
        return None
    return f"\nCONFIG_{name}=".encode() in raw


@contextmanager
def still_there(pid: int, program: str) -> Iterator[None]:
    """Around a look at what the kernel says of a process: TestbedError where it has ended."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError) as error:
        raise TestbedError(f"{program} (pid {pid}) is gone") from error


def process_cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, in steps of a clock tick. OSError if it is gone."""
    fields = read_stat(Path(f"/proc/{pid}"))
    return (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK_NS


def off_cpu_ns(task: Path) -> int | None:
    """Time on the raw monotonic clock that a thread did not run, with an offset that stays the same, ns.

    None if no tick was seen, or the kernel does not count. Differences are good to some 50 us.

    For a thread that never sleeps: it was kept from its CPU that long, whoever did it. On a guest the scheduler's clock
    stops while the host has the CPU (CONFIG_PARAVIRT_TIME_ACCOUNTING), so this includes what the host took.

    ``task``: its folder under /proc.
    """
    try:
        schedstat = os.open(task / "schedstat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The kernel updates the figure at scheduler ticks only, up to 10 ms apart: wait for one, and read right then.
        read_at, ran = _now(), _ran_ns(schedstat)
        until = read_at + _DEADLINE_NS
        while read_at < until:
            before, last = read_at, ran
            read_at, ran = _now(), _ran_ns(schedstat)
            if ran != last and _now() - before < _CLOSE_NS:
                return read_at - ran
    except OSError:
        pass  # it ended
    finally:
        os.close(schedstat)
    return None


def quota_groups(pid: int | str = "self", root: Path = Path("/")) -> tuple[Path, ...]:
    """The control groups that may limit a process's CPU time, the innermost first (cgroups(7)).

    Empty if the process has ended, or the kernel has no such groups.
    """
    try:
        lines = (root / f"proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 1 is mounted by its controllers, of which one alone is a link; version 2 has no controllers here.
        mount = root / "sys/fs/cgroup" / (controllers or ".")
        inner = mount / path.strip("/")
        found += [group for group in (inner, *inner.parents) if group.is_relative_to(mount)]
    return tuple(group for group in found if (group / "cpu.stat").is_file())


def throttled_ns(pid: int, root: Path = Path("/")) -> int | None:
    """How long the kernel kept a process off its CPUs because a quota was used up, ns over all CPUs.

    None if no group of it counts that. "throttled_time" of version 1 is in ns, "throttled_usec" of version 2 in us.
    """
    units, found = {"throttled_time": 1, "throttled_usec": 1000}, []
    for group in quota_groups(pid, root):
        with suppress(OSError):  # it was removed
            rows = map(str.split, (group / "cpu.stat").read_text(encoding="ascii").splitlines())
            found += [int(row[1]) * units[row[0]] for row in rows if len(row) == 2 and row[0] in units]
    return sum(found) if found else None


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the control groups of this process let it use; None without a limit."""
    found = []
    for group in quota_groups(root=root):
        try:
            if (group / "cpu.max").exists():
                quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
            else:
                quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            continue  # a root group has no limit
        if quota != "max" and int(quota) > 0:
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _ran_ns(schedstat: int) -> int:
    return int(os.pread(schedstat, 100, 0).split()[0])


Waits = dict[tuple[str, int], int]
"""Wait time in ns of each thread, and of each CPU that the host took away, by (name, number)."""


def longest_wait(before: Waits, now: Waits) -> tuple[str, float]:
    """The thread that waited longest in between, and its wait in seconds. A thread that is new counts as a whole."""
    waited = {key: ns - before.get(key, 0) for key, ns in now.items()}
    if not waited:
        return "nobody", 0.0
    (who, _), ns = max(waited.items(), key=lambda wait: wait[1])
    return who, ns / 1e9


def cpu_waits(pids: Mapping[str, int]) -> Waits:
    """How long processes that were ready to run have waited for a CPU so far. ``pids``: by a name for messages."""
    waits: Waits = {}
    for name, pid in pids.items():
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):  # the thread ended, or this kernel does not count waits
                waits[name, int(task.name)] = read_schedstat(task).waited_ns
    for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[0].startswith("cpu") and fields[0] != "cpu" and len(fields) > _STEAL + 1:
            waits[f"whoever ran on CPU {fields[0][3:]}", -1] = int(fields[_STEAL + 1]) * _TICK_NS
    return waits


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread at one moment. ``ns``: how long it ran; ``switches``: how often it was put on a CPU."""

    pid: int
    comm: str
    kernel: bool
    ns: int
    switches: int


class _Times(NamedTuple):
    """CPU time of a process so far, ns, in steps of 10 ms: its threads', ended or not; its awaited children's."""

    own_ns: int = 0
    waited_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Look:
    """The machine at one moment.

    Attributes:
        at_ns: the middle of the look.
        machine_ns: what the machine had counted then, by kind.
        cpus: how many there are.
        threads: by their ids.
        processes: with their CPU time.
    """

    at_ns: int
    machine_ns: Mapping[str, int]
    cpus: int
    threads: Mapping[int, _Thread]
    processes: Mapping[_Process, _Times]


def cpu_accountant(proc: Path = Path("/proc")) -> CpuAccountant | None:
    """None where the kernel does not count threads' CPU time (CONFIG_SCHED_INFO)."""
    return CpuAccountant(proc) if (proc / "self/schedstat").is_file() else None


class CpuAccountant(CpuAccounting):
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
        machine = {kind: after.machine_ns[kind] - before.machine_ns[kind] for kind in CPU_KINDS}
        elapsed_ns = after.at_ns - before.at_ns
        stolen_is_charged = kernel_option("PARAVIRT_TIME_ACCOUNTING", self._proc) is False
        busy_ns = sum(machine[kind] for kind in _BUSY) + (machine["steal"] if stolen_is_charged else 0)
        uncounted_ns = max(0, elapsed_ns * after.cpus - sum(machine.values()))
        parts, streams = list(self._ran(before, after)), list(ended)
        softirq_ns = machine["softirq"] + machine["irq"]
        if self._softirq_separate:
            parts.append(CpuPart(CpuRole.SOFTIRQ, "softirq and irq", softirq_ns))
        return CpuAccount(
            elapsed_ns=elapsed_ns,
            machine_ns=busy_ns + uncounted_ns // 2,
            softirq_ns=softirq_ns,
            steal_ns=machine["steal"],
            softirq_apart=bool(self._softirq_separate),
            parts=merged([*parts, *streams, *self._ended(before, after, streams)]),
            blind=tuple(self._blind()),
        )

    @cached_property
    def _softirq_separate(self) -> bool | None:
        return kernel_option("IRQ_TIME_ACCOUNTING", self._proc)

    def _blind(self) -> Iterator[str]:
        if self._softirq_separate is None:
            yield "this kernel does not tell (/proc/config.gz) whether it charges softirq time to threads"
        second = self._proc / "2/comm"  # process 2 of a whole machine is the kernel's
        if not second.is_file() or second.read_text(encoding="utf-8").strip() != "kthreadd":
            yield "kernel threads and other containers' processes cannot be seen from this PID namespace"

    def _ran(self, before: _Look, after: _Look) -> Iterator[CpuPart]:
        for tid, thread in after.threads.items():
            old = _same_thread(before, tid, thread)
            role, name = self._role_of(thread.pid), thread.comm
            pmd = _PMD.match(name) if role is CpuRole.VSWITCHD else None
            if thread.kernel and role is CpuRole.OTHER:
                role = CpuRole.KERNEL
            # PMDs keep their CPU's number; other threads of OVS and the kernel are summed by what they do.
            if pmd is not None:
                role, name = CpuRole.PMD, pmd[0]
            elif role in {CpuRole.VSWITCHD, CpuRole.KERNEL}:
                name = _NUMBER.sub("", name)
            ran_ns, switches = (old.ns, old.switches) if old is not None else (0, 0)
            yield CpuPart(role, name, thread.ns - ran_ns, thread.switches - switches)

    def _ended(self, before: _Look, after: _Look, streams: Sequence[CpuPart]) -> Iterator[CpuPart]:
        live: dict[int, int] = defaultdict(int)
        for tid, thread in after.threads.items():
            old = _same_thread(before, tid, thread)
            live[thread.pid] += thread.ns - (old.ns if old is not None else 0)
        for process, times in after.processes.items():
            # A process's time less that of its live threads is that of its ended ones.
            ns = times.own_ns - before.processes.get(process, _Times()).own_ns - live[process[0]]
            if ns > _ROUNDED_NS:
                yield CpuPart(self._role_of(process[0]), "threads that ended", ns)
        ns = _ended_processes_ns(before, after, sum(part.ns for part in streams))
        yield CpuPart(CpuRole.OTHER, "processes that ended", ns)

    def _role_of(self, pid: int) -> CpuRole:
        return self._known.get(pid, CpuRole.TEST if pid == os.getpid() else CpuRole.OTHER)

    def _look(self) -> _Look:
        first_ns, first = self._machine()
        threads: dict[int, _Thread] = {}
        processes: dict[_Process, _Times] = {}
        for pid in [int(path.name) for path in self._proc.iterdir() if path.name.isdigit()]:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                stat = read_stat(self._proc / str(pid))
                threads.update(self._threads(pid, kernel=bool(int(stat[_FLAGS]) & _PF_KTHREAD)))
                own, waited = (int(stat[a]) + int(stat[b]) for a, b in ((_UTIME, _STIME), (_CUTIME, _CSTIME)))
                processes[pid, stat[_STARTED]] = _Times(own * _TICK_NS, waited * _TICK_NS)
        if not threads:
            raise TestbedError("the kernel does not count threads' CPU time: it needs CONFIG_SCHED_INFO (schedstat)")
        last_ns, last = self._machine()
        # What the machine counted while somebody looked: half of it was before the look, half after.
        machine = {
            kind: (int(ticks) * _TICK_NS + int(later) * _TICK_NS) // 2
            for kind, ticks, later in zip(CPU_KINDS, first[0].split()[1:], last[0].split()[1:], strict=False)
        }
        cpus = sum(_ONE_CPU.match(row) is not None for row in last)
        return _Look((first_ns + last_ns) // 2, machine, cpus, threads, processes)

    def _machine(self) -> tuple[int, list[str]]:
        """The time, and the rows of /proc/stat, of which the first sums up all CPUs (proc_stat(5))."""
        return self._now_ns(), (self._proc / "stat").read_text(encoding="ascii").splitlines()

    def _threads(self, pid: int, *, kernel: bool) -> Iterator[tuple[int, _Thread]]:
        try:
            tasks = list((self._proc / str(pid) / "task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            return
        for task in tasks:
            with suppress(FileNotFoundError, ProcessLookupError):
                counted = read_schedstat(task)
                comm = (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
                yield int(task.name), _Thread(pid, comm, kernel, counted.ran_ns, counted.turns)


def _ended_processes_ns(before: _Look, after: _Look, streams_ns: int) -> int:
    """CPU time, between two looks, of processes that ended and whose parent waited for them and still runs.

    The parent gets all of a process's time, and that of its awaited children. What they had run before the first look
    is subtracted. ``streams_ns``: of the streams' ends, which we waited for, and whose own accounts are more exact.
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


def _same_thread(before: _Look, tid: int, now: _Thread) -> _Thread | None:
    """The thread at the earlier look; None for a new one, also if it has an old one's number."""
    old = before.threads.get(tid)
    return old if old is not None and old.ns <= now.ns else None
