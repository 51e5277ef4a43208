"""How the kernel, and the host below it, scheduled the PMD threads: source "pmd-sched".

=============================  ==================================================================
``pmd-sched.kept_off_ns``      PMD threads were kept off their CPU, by waiting for it or by the host, summed
``pmd-sched.run_delay_ns``     they were runnable and waited for a CPU: the kernel's part of it
``pmd-sched.beside_run_ns``    vswitchd's main thread ran, where it may run on a PMD's CPU; else absent
``pmd-sched.run_ns``           they ran
``pmd-sched.involuntary_switches``  they were preempted
``pmd-sched.voluntary_switches``    they slept
``pmd-sched.c01.<name>``       the same of one PMD
=============================  ==================================================================
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import off_cpu_ns
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.traffic.cpu_placement import Poller

_PMD_COMM = re.compile(r"^pmd-c(\d+)")
_SWITCHES = {
    "nonvoluntary_ctxt_switches:": "involuntary_switches",
    "voluntary_ctxt_switches:": "voluntary_switches",
}


class PmdSchedCollector:
    """Was a PMD robbed of its CPU? Looks for some milliseconds at each, until a tick of its CPU."""

    def __init__(self, vswitchd_pid: int) -> None:
        self._tasks = Path(f"/proc/{vswitchd_pid}/task")
        self._main = vswitchd_pid
        self._kept_off: dict[Path, _KeptOff] = {}

    def snapshot(self) -> CounterSnapshot:
        """All counters now; none when there is no PMD thread. TestbedError when vswitchd is gone."""
        counters: dict[str, int] = {}
        tasks = self._pmd_tasks()
        for core, figures in tasks:
            for name, value in figures.items():
                counters[f"pmd-sched.c{core:02d}.{name}"] = value
                counters[f"pmd-sched.{name}"] = counters.get(f"pmd-sched.{name}", 0) + value
        beside = self._main_thread_beside({core for core, _ in tasks})
        if beside is not None:
            counters["pmd-sched.beside_run_ns"] = beside
        return CounterSnapshot("pmd-sched", time.monotonic_ns(), tuple(sorted(counters.items())))

    def pollers(self) -> tuple[Poller, ...]:
        found = ((_pmd_cpu(task), task) for task in self._all_tasks())
        return tuple(Poller(cpu, self._main, int(task.name)) for cpu, task in found if cpu is not None)

    def _main_thread_beside(self, pmd_cpus: Set[int]) -> int | None:
        """How long the main thread ran so far, ns; None where it has no business on a PMD's CPU."""
        try:
            if not os.sched_getaffinity(self._main) & pmd_cpus:
                return None
        except ProcessLookupError as error:
            raise TestbedError(f"ovs-vswitchd (pid {self._main}) is gone") from error
        return _scheduling(self._tasks / str(self._main)).get("run_ns")

    def _pmd_tasks(self) -> list[tuple[int, dict[str, int]]]:
        return [found for task in self._all_tasks() if (found := self._pmd(task)) is not None]

    def _all_tasks(self) -> list[Path]:
        try:
            return list(self._tasks.iterdir())
        except FileNotFoundError as error:
            raise TestbedError(f"ovs-vswitchd (pid {self._main}) is gone") from error

    def _pmd(self, task: Path) -> tuple[int, dict[str, int]] | None:
        """CPU and figures of a PMD thread; None of another one, or of one that ended meanwhile: they come and go."""
        cpu = _pmd_cpu(task)
        try:
            return (cpu, self._figures(task)) if cpu is not None else None
        except (FileNotFoundError, ProcessLookupError):
            return None

    def _figures(self, task: Path) -> dict[str, int]:
        off_ns = off_cpu_ns(task)
        figures = _scheduling(task)
        if "run_delay_ns" in figures:
            kept_off = self._kept_off.setdefault(task, _KeptOff(figures, figures["run_delay_ns"]))
            figures["kept_off_ns"] = kept_off.now(figures, off_ns)
        return figures


@dataclass
class _KeptOff:
    """How long one thread was kept off its CPU so far. ``off_ns``: the last ``off_cpu_ns``; None if unknown."""

    last: Mapping[str, int]
    total_ns: int
    off_ns: int | None = field(default=None)

    def now(self, figures: Mapping[str, int], off_ns: int | None) -> int:
        """The total now. Where the thread slept in between, or no tick was seen, its waiting alone counts."""
        kept_ns = max(0, figures["run_delay_ns"] - self.last["run_delay_ns"])
        slept = figures.get("voluntary_switches") != self.last.get("voluntary_switches")
        if off_ns is not None and self.off_ns is not None and not slept:
            kept_ns = max(kept_ns, off_ns - self.off_ns)
        self.last, self.off_ns = figures, off_ns
        self.total_ns += kept_ns
        return self.total_ns


def _pmd_cpu(task: Path) -> int | None:
    """The CPU in a PMD thread's name; None of another thread, or of one that ended meanwhile."""
    try:
        match = _PMD_COMM.match((task / "comm").read_text(encoding="ascii", errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(match[1]) if match is not None else None


def _scheduling(task: Path) -> dict[str, int]:
    figures: dict[str, int] = {}
    try:
        counted = read_schedstat(task)
        figures |= {"run_ns": counted.ran_ns, "run_delay_ns": counted.waited_ns}
    except OSError:
        pass  # a kernel without CONFIG_SCHED_INFO: the figures are absent
    for line in (task / "status").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("\t")
        if key in _SWITCHES:
            figures[_SWITCHES[key]] = int(value)
    return figures
