"""The CPU time of all threads of this machine, beside what the machine itself counted.

Threads: ``/proc/PID/task/TID/schedstat`` (ns that it ran, how often it was put on a CPU). The machine: ``/proc/stat``,
in steps of 10 ms. What of softirq and stolen time is in the threads' depends on how the kernel was built:
CONFIG_IRQ_TIME_ACCOUNTING takes interrupts out of them, CONFIG_PARAVIRT_TIME_ACCOUNTING what a hypervisor stole.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_nfvperf.adapters.host.kernel_config import kernel_option
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole, merged

_PF_KTHREAD = 0x00200000  # linux/sched.h
_PMD = re.compile(r"pmd-c\d+")
_NUMBER = re.compile(r"[/:]?\d.*$")
_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_BUSY = ("user", "nice", "system", "irq", "softirq")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread as it is now: its process, its name, how long it ran, how often it was put on a CPU."""

    pid: int
    comm: str
    kernel: bool
    ns: int
    switches: int


@dataclass(frozen=True, slots=True)
class _Look:
    at_ns: int
    machine: Mapping[str, int]
    threads: Mapping[int, _Thread]


def cpu_accountant(proc: Path = Path("/proc")) -> CpuAccountant | None:
    """One for this machine; None where the kernel does not count threads' CPU time (CONFIG_SCHED_INFO)."""
    return CpuAccountant(proc) if (proc / "self/schedstat").is_file() else None


class CpuAccountant:
    """Fulfils ports.cpu_accounting.CpuAccounting for this machine."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._known: Mapping[int, CpuRole] = {}
        self._before: _Look | None = None

    def begin(self, known: Mapping[int, CpuRole]) -> None:
        """Look at all threads now."""
        self._known = known
        self._before = self._look()

    def end(self, ended: Iterable[CpuPart]) -> CpuAccount:
        """Who used what since ``begin``; ValueError without one."""
        if self._before is None:
            raise ValueError("begin() comes before end()")
        before, after = self._before, self._look()
        self._before = None
        machine = {kind: (after.machine[kind] - before.machine[kind]) * _TICK_NS for kind in _KINDS}
        stolen_is_charged = self._steal_apart is False
        parts = list(self._ran(before, after))
        softirq_ns = machine["softirq"] + machine["irq"]
        if self._softirq_apart:
            parts.append(CpuPart(CpuRole.SOFTIRQ, "softirq and irq", softirq_ns))
        return CpuAccount(
            elapsed_ns=after.at_ns - before.at_ns,
            machine_ns=sum(machine[kind] for kind in _BUSY) + (machine["steal"] if stolen_is_charged else 0),
            softirq_ns=softirq_ns,
            steal_ns=machine["steal"],
            softirq_apart=bool(self._softirq_apart),
            parts=merged([*parts, *ended]),
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
        if not (self._proc / "2/comm").is_file() or (self._proc / "2/comm").read_text().strip() != "kthreadd":
            yield "kernel threads and other containers' processes cannot be seen from this PID namespace"

    def _ran(self, before: _Look, after: _Look) -> Iterator[CpuPart]:
        """What each thread that is there now ran in between; one that took another's number began at 0."""
        for tid, thread in after.threads.items():
            old = before.threads.get(tid)
            same = old is not None and old.ns <= thread.ns
            ns, switches = (old.ns, old.switches) if old is not None and same else (0, 0)
            role = self._role(thread)
            yield CpuPart(role, _name(role, thread.comm), thread.ns - ns, thread.switches - switches)

    def _role(self, thread: _Thread) -> CpuRole:
        known = self._known.get(thread.pid)
        if known is CpuRole.VSWITCHD and _PMD.match(thread.comm):
            return CpuRole.PMD
        if known is not None:
            return known
        if thread.kernel:
            return CpuRole.KERNEL
        return CpuRole.TEST if thread.pid == os.getpid() else CpuRole.OTHER

    def _look(self) -> _Look:
        first = (self._proc / "stat").read_text(encoding="ascii").splitlines()[0].split()
        machine = dict(zip(_KINDS, map(int, first[1:]), strict=False))
        threads = {tid: thread for pid in self._pids() for tid, thread in self._threads(pid)}
        if not threads:
            raise TestbedError("the kernel does not count threads' CPU time: it needs CONFIG_SCHED_INFO (schedstat)")
        return _Look(time.monotonic_ns(), machine, threads)

    def _pids(self) -> list[int]:
        return [int(path.name) for path in self._proc.iterdir() if path.name.isdigit()]

    def _threads(self, pid: int) -> Iterator[tuple[int, _Thread]]:
        """A process's threads; those that end meanwhile are left out."""
        folder = self._proc / str(pid)
        try:
            kernel = _is_kernel((folder / "stat").read_text(encoding="utf-8", errors="replace"))
            tasks = list((folder / "task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            return
        for task in tasks:
            thread = _thread(task, pid, kernel=kernel)
            if thread is not None:
                yield int(task.name), thread


def _thread(task: Path, pid: int, *, kernel: bool) -> _Thread | None:
    try:
        ran, _, switches = (task / "schedstat").read_text(encoding="ascii").split()
        comm = (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Thread(pid, comm, kernel, int(ran), int(switches))


def _is_kernel(stat: str) -> bool:
    """By the flags in proc_pid_stat(5), behind the name, which may hold anything."""
    return bool(int(stat.rpartition(")")[2].split()[6]) & _PF_KTHREAD)


def _name(role: CpuRole, comm: str) -> str:
    """A PMD keeps its CPU's number; other threads of OVS and the kernel are summed up by what they do."""
    pmd = _PMD.match(comm)
    if role is CpuRole.PMD and pmd is not None:
        return pmd[0]
    return _NUMBER.sub("", comm) if role in {CpuRole.VSWITCHD, CpuRole.KERNEL} else comm
