"""Where the CPUs of this machine are: core, NUMA node, L3 cache."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import SYSFS_CPUS, isolated_cpus, parse_cpu_list, read_cpus
from pytest_nfvperf.model.testbed.cpu_neighbours import CpuPlace


def read_places(sysfs: Path = SYSFS_CPUS) -> dict[int, CpuPlace]:
    """Of the CPUs that this process may run on and of the isolated ones, by number."""
    usable = {*os.sched_getaffinity(0), *isolated_cpus(sysfs)}
    return {
        cpu.number: CpuPlace(cpu.number, cpu.core, cpu.node, _l3(cpu.number, sysfs)) for cpu in read_cpus(usable, sysfs)
    }


def _l3(number: int, sysfs: Path) -> tuple[int, ...]:
    try:
        return parse_cpu_list(
            (sysfs / f"cpu{number}" / "cache" / "index3" / "shared_cpu_list").read_text(encoding="utf-8")
        )
    except OSError:  # no such cache, or a host that does not tell its guest
        return ()
