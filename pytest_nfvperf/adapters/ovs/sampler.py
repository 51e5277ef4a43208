"""Samples of a running OVS during a soak: the PMD threads' cycles, and what the scheduler did to them."""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import off_cpu_ns, throttled_ns
from pytest_nfvperf.adapters.ovs.counters import DROP_PREFIXES, LOOKUP_ENDS, OvsCollector
from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.ports.datapath import Collector, SamplerReading

_PMD_COMM = re.compile(r"^pmd-c(\d+)")
_SWITCHES = {"nonvoluntary_ctxt_switches:": "involuntary_switches", "voluntary_ctxt_switches:": "voluntary_switches"}

_SAMPLED = (".rx_packets", ".tx_packets", ".rx_dropped", ".tx_dropped", ".openflow_packets")
_PMD_COUNTERS = frozenset({"packets_received", "recirculations", "cycles_busy", "cycles_idle", *LOOKUP_ENDS})
_RXQ_SHOW = "dpif-netdev/pmd-rxq-show"
_RXQ = re.compile(r"port:\s*(?P<port>\S+)\s+queue-id:\s*(?P<queue>\d+).*?pmd usage:\s*(?:(?P<usage>\d+)\s*%|NOT AVAIL)")


class PmdSchedCollector(Collector):
    """How the kernel, and the host below it, scheduled the PMD threads. Source "pmd-sched".

    ==================================  ==================================================================
    ``pmd-sched.kept_off_ns``           PMD threads were off their CPU, waiting for it or because of the host
    ``pmd-sched.run_delay_ns``          they were runnable and waited for a CPU: the kernel's part of that
    ``pmd-sched.beside_run_ns``         vswitchd's main thread ran, if it may run on a PMD's CPU; else absent
    ``pmd-sched.throttled_ns``          the CPU quota of a control group kept vswitchd off its CPUs
    ``pmd-sched.run_ns``                they ran
    ``pmd-sched.involuntary_switches``  they were preempted
    ``pmd-sched.voluntary_switches``    they slept
    ``pmd-sched.c01.<name>``            the same of one PMD
    ==================================  ==================================================================

    A snapshot watches each PMD for some milliseconds, until a tick of its CPU.
    """

    name = source = "pmd-sched"

    def __init__(self, vswitchd_pid: int) -> None:
        self._tasks = Path(f"/proc/{vswitchd_pid}/task")
        self._main = vswitchd_pid
        self._off_cpu: dict[Path, _OffCpuTime] = {}

    def snapshot(self) -> CounterSnapshot:
        """All counters now; none without PMD threads. TestbedError if vswitchd is gone."""
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
        try:
            shares_cpus = bool(os.sched_getaffinity(self._main) & cpus)
        except ProcessLookupError as error:
            raise TestbedError(f"ovs-vswitchd (pid {self._main}) is gone") from error
        if (throttled := throttled_ns(self._main)) is not None:
            counters["pmd-sched.throttled_ns"] = throttled
        main = _scheduling(self._tasks / str(self._main)) if shares_cpus else {}
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
        return tuple(Poller(cpu, self._main, int(task.name)) for cpu, task in self._pmd_tasks())

    def _pmd_tasks(self) -> list[tuple[int, Path]]:
        try:
            tasks = list(self._tasks.iterdir())
        except FileNotFoundError as error:
            raise TestbedError(f"ovs-vswitchd (pid {self._main}) is gone") from error
        pmds = []
        for task in tasks:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                if match := _PMD_COMM.match((task / "comm").read_text(encoding="ascii", errors="replace")):
                    pmds.append((int(match[1]), task))
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


class OvsSampler:
    """Samples OVS once a second while a trial runs. ``collector``: of the same OVS.

    A subset of the collector's counters, and

    =============================  ================================================================
    ``<bridge>.openflow_packets``  packets that the bridge's OpenFlow flows matched (OFPMP_AGGREGATE)
    ``<port>.q<n>.rxq_busy_5s``    share of its PMD's cycles that a receive queue took in the last 5 s (from OVS 3.1)
    ``<port>.q<n>.rxq_busy``       the same of an older OVS: its last minute's mean, rising from 0 for a new port
    ``vswitchd.rss``               resident memory of ovs-vswitchd, bytes
    ``drops``                      frames dropped by the datapath, for all reasons
    =============================  ================================================================
    """

    name = "ovs"

    def __init__(self, instance: RunningOvs, collector: OvsCollector) -> None:
        self._instance = instance
        self._collector = collector
        self._rxqs_of: tuple[str, tuple[str, ...]] | None = None
        self._has_rxqs = True

    @property
    def pid(self) -> int:
        return self._instance.pid

    def read(self) -> SamplerReading:
        counted = self._collector.sample()
        counters = {name: count for name, count in counted.items() if _is_sampled(name)}
        counters["drops"] = sum(count for name, count in counted.items() if name.startswith(DROP_PREFIXES))
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError as error:
            raise TestbedError(f"process {self.pid} is gone: its memory cannot be read") from error
        resident_bytes = int(pages) * os.sysconf("SC_PAGE_SIZE")
        return SamplerReading(counters, {"vswitchd.rss": resident_bytes, **self._rxqs()})

    def _rxqs(self) -> Mapping[str, float]:
        if not self._has_rxqs:
            return {}
        if self._rxqs_of is None:
            self._rxqs_of = rxq_question(self._instance.ctl.usage(_RXQ_SHOW))
        column, arguments = self._rxqs_of
        try:
            return dict(parse_rxqs(self._instance.ctl.call(_RXQ_SHOW, *arguments), column))
        except RefusedError:  # the kernel's datapath has no such queues
            self._has_rxqs = False
            return {}


def _is_sampled(name: str) -> bool:
    if name.startswith(("pmd.", "main.")):
        return name.rpartition(".")[2] in _PMD_COUNTERS
    return name == "vswitchd.cpu_ns" or name.endswith(_SAMPLED)


def rxq_question(usage: str | None) -> tuple[str, tuple[str, ...]]:
    """The counter's name and the arguments for the shortest period that this OVS knows: 5 s, or a minute."""
    return ("rxq_busy_5s", ("-secs", "5")) if usage is not None and "-secs" in usage else ("rxq_busy", ())


def parse_rxqs(text: str, column: str = "rxq_busy") -> Iterator[tuple[str, float]]:
    """``("p0.q0.rxq_busy", 0.44)`` of each line of ``pmd-rxq-show``; NaN for a usage that is not available yet."""
    for queue in filter(None, map(_RXQ.search, text.splitlines())):
        usage = math.nan if queue["usage"] is None else int(queue["usage"]) / 100
        yield f"{queue['port']}.q{queue['queue']}.{column}", usage
