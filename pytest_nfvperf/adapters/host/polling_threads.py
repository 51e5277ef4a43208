"""The DUT's polling threads: what the scheduler of the kernel, and of the host below it, did to them."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import off_cpu_ns, still_there, throttled_ns
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.ports.datapath import Collector, SamplerReading

_NAMES = re.compile(r"^(?:pmd-c(?P<cpu>\d+)|(?:lcore|rte|dpdk)-worker)")
"""vswitchd calls them "pmd-c01/id:9", other programs of DPDK "rte-worker-1" (22.11)."""
_SWITCHES = {"nonvoluntary_ctxt_switches:": "involuntary_switches", "voluntary_ctxt_switches:": "voluntary_switches"}


class PollingThreads(Collector):
    """How the kernel, and the host below it, scheduled the PMD threads. Source "pmd-sched".

    ==================================  ==================================================================
    ``pmd-sched.kept_off_ns``           PMD threads were off their CPU, waiting for it or because of the host
    ``pmd-sched.run_delay_ns``          they were runnable and waited for a CPU: the kernel's part of that
    ``pmd-sched.beside_run_ns``         the DUT's main thread ran, if it may run on a PMD's CPU; else absent
    ``pmd-sched.throttled_ns``          the CPU quota of a control group kept the DUT off its CPUs
    ``pmd-sched.run_ns``                they ran
    ``pmd-sched.involuntary_switches``  they were preempted
    ``pmd-sched.voluntary_switches``    they slept
    ``pmd-sched.c01.<name>``            the same of one PMD
    ==================================  ==================================================================

    A snapshot watches each PMD for some milliseconds, until a tick of its CPU.
    """

    name = source = "pmd-sched"

    def __init__(self, pid: Callable[[], int], program: str = "ovs-vswitchd") -> None:
        """``pid``: returns that of the DUT's process, which is ``program``; another one once it was restarted."""
        self._main, self._program = pid, program
        self._off_cpu: dict[Path, _OffCpuTime] = {}

    def snapshot(self) -> CounterSnapshot:
        """All counters now; none without PMD threads. TestbedError if the DUT is gone."""
        counters: Counter[str] = Counter()
        cpus = set()
        for cpu, task in self._pmd_tasks():
            with suppress(FileNotFoundError, ProcessLookupError):  # PMD threads come and go
                off_ns = off_cpu_ns(task)
                figures = _scheduling(task)
                if "run_delay_ns" in figures:
                    off_cpu = self._off_cpu.setdefault(task, _OffCpuTime(figures, figures["run_delay_ns"]))
                    figures["kept_off_ns"] = off_cpu.update(figures, off_ns)
                for name, value in figures.items():
                    counters[f"pmd-sched.c{cpu:02d}.{name}"] = value
                    counters[f"pmd-sched.{name}"] += value
                cpus.add(cpu)
        with still_there(self._main(), self._program):
            shares_cpus = bool(os.sched_getaffinity(self._main()) & cpus)
        if (throttled := throttled_ns(self._main())) is not None:
            counters["pmd-sched.throttled_ns"] = throttled
        main = _scheduling(Path(f"/proc/{self._main()}/task/{self._main()}")) if shares_cpus else {}
        if "run_ns" in main:
            counters["pmd-sched.beside_run_ns"] = main["run_ns"]
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(counters.items())))

    def read(self) -> SamplerReading:
        """Time that PMD threads were kept off their CPU, except by the DUT's own main thread.

        Empty without PMD threads, or on a kernel that does not count it.
        """
        counted = self.snapshot().as_dict()
        waited = counted.get("pmd-sched.kept_off_ns")
        if waited is None:
            return SamplerReading()
        return SamplerReading({"pmd-sched.stolen_ns": max(0, waited - counted.get("pmd-sched.beside_run_ns", 0))})

    def pollers(self) -> tuple[Poller, ...]:
        return tuple(Poller(cpu, self._main(), int(task.name)) for cpu, task in self._pmd_tasks())

    def _pmd_tasks(self) -> list[tuple[int, Path]]:
        with still_there(self._main(), self._program):
            tasks = list(Path(f"/proc/{self._main()}/task").iterdir())
        pmds = []
        for task in tasks:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                if match := _NAMES.match((task / "comm").read_text(encoding="ascii", errors="replace")):
                    cpu = match["cpu"] or min(os.sched_getaffinity(int(task.name)))  # a worker has one CPU
                    pmds.append((int(cpu), task))
        return pmds


@dataclass
class _OffCpuTime:
    """Total time that a thread was kept off its CPU. ``off_ns``: the last ``off_cpu_ns``; None if unknown."""

    last: Mapping[str, int]
    total_ns: int
    off_ns: int | None = None

    def update(self, figures: Mapping[str, int], off_ns: int | None) -> int:
        """The new total. If the thread slept in between, or no tick was seen, only its waiting counts."""
        off_cpu_ns = max(0, figures["run_delay_ns"] - self.last["run_delay_ns"])
        # Time off the CPU includes what the host took, and sleep: if the thread slept, it does not count.
        slept = figures.get("voluntary_switches") != self.last.get("voluntary_switches")
        if off_ns is not None and self.off_ns is not None and not slept:
            off_cpu_ns = max(off_cpu_ns, off_ns - self.off_ns)
        self.last, self.off_ns = figures, off_ns
        self.total_ns += off_cpu_ns
        return self.total_ns


def _scheduling(task: Path) -> dict[str, int]:
    figures: dict[str, int] = {}
    with suppress(OSError):  # a kernel without CONFIG_SCHED_INFO: the figures are absent
        counted = read_schedstat(task)
        figures |= {"run_ns": counted.ran_ns, "run_delay_ns": counted.waited_ns}
    for line in (task / "status").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("\t")
        if key in _SWITCHES:
            figures[_SWITCHES[key]] = int(value)
    return figures
