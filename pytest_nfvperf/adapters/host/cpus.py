"""Which CPU belongs to whom, found from what this process may use (MODELS: DPDK's and OVS's guides)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, read_hugepages
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import CableSpec, CpuPlan, DutPort, GeneratorSpec, OvsSpec, Testbed

SYSFS_CPUS = Path("/sys/devices/system/cpu")
EMBEDDED_OTHER_CONFIG = (("per-port-memory", "true"),)
"""OVS's default is one pool of 262,144 buffers for all ports, halved until it fits: on a small machine it
takes all of DPDK's memory, and the next vhost-user port fails for a few bytes (seen: "failed to allocate
memory for dev->guest_pages"). A pool a port takes what its rings can hold (OVS: "DPDK Device Memory Models")."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One CPU of the machine. ``core`` is the first of its SMT siblings; ``node`` its NUMA node."""

    number: int
    core: int
    node: int


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format ("0-3,8") as numbers."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def read_cpus(allowed: Iterable[int] | None = None, sysfs: Path = SYSFS_CPUS) -> tuple[Cpu, ...]:
    """The CPUs that this process may run on, with their cores and nodes, by number."""
    numbers = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    return tuple(_read_cpu(number, sysfs) for number in numbers)


def _read_cpu(number: int, sysfs: Path) -> Cpu:
    directory = sysfs / f"cpu{number}"
    try:
        siblings = parse_cpu_list((directory / "topology" / "thread_siblings_list").read_text())
    except OSError:  # no topology in sysfs (some containers): every CPU is its own core
        siblings = (number,)
    nodes = [int(path.name.removeprefix("node")) for path in directory.glob("node[0-9]*")]
    return Cpu(number, min(siblings, default=number), nodes[0] if nodes else 0)


def isolated_cpus(sysfs: Path = SYSFS_CPUS) -> tuple[int, ...]:
    """CPUs that the kernel keeps other work off (isolcpus=)."""
    try:
        return parse_cpu_list((sysfs / "isolated").read_text())
    except OSError:
        return ()


def plan_cpus(cpus: tuple[Cpu, ...]) -> CpuPlan:
    """Give each CPU an owner; whole physical cores, SMT siblings of a polling core stay idle.

    Two cores: the PMD has one to itself, the generator shares the other with housekeeping.
    Three: housekeeping, generator and PMD have one each. Four or more: the rest is for VNFs.
    All polling cores are on the NUMA node that has most cores.

    Raises:
        TestbedError: a single core; polling needs one for the DUT and one for everything else.
    """
    node = _largest_node(cpus)
    cores = [core for core in _first_of_each_core(cpus) if core.node == node]
    numbers = [core.number for core in cores]
    if len(numbers) < 2:
        seen = ", ".join(str(cpu.number) for cpu in cpus) or "none"
        raise TestbedError(
            f"measuring needs 2 physical cores on one NUMA node (one polls for the DUT, one for the generator); "
            f"this process may use CPUs {seen}: give the machine or the container another core (see taskset(1))"
        )
    if len(numbers) == 2:
        return CpuPlan(housekeeping=(numbers[0],), pmd=(numbers[1],), generator=(numbers[0],))
    return CpuPlan(housekeeping=(numbers[0],), generator=(numbers[1],), pmd=(numbers[2],), vnf=tuple(numbers[3:]))


def planned(testbed: Testbed) -> Testbed:
    """The testbed with what its file leaves open: CPUs without an owner dealt out, all hugepages there are.

    The system's OVS has placed its PMDs itself: where the file names no CPUs for them, they stay.

    Raises:
        TestbedError: not enough CPUs.
    """
    own_pmds = testbed.ovs.instance != "system"
    return replace(
        testbed,
        cpus=_dealt_out(testbed.cpus, own_pmds=own_pmds),
        hugepages_mib=testbed.hugepages_mib or read_hugepages().total_mib,
    )


def _dealt_out(given: CpuPlan, *, own_pmds: bool) -> CpuPlan:
    """On a machine of two cores the generator shares one with housekeeping."""
    if own_pmds and given == CpuPlan((), (), ()):
        return plan_cpus(read_cpus())
    taken = {*given.housekeeping, *given.pmd, *given.generator, *given.vnf}
    free = [core.number for core in _first_of_each_core(read_cpus()) if core.number not in taken]
    housekeeping = given.housekeeping or tuple(free[:1]) or given.generator
    free = [cpu for cpu in free if cpu not in housekeeping]
    pmd = given.pmd or (tuple(free[:1]) if own_pmds else ())
    free = [cpu for cpu in free if cpu not in pmd]
    generator = given.generator or tuple(free[:1]) or housekeeping
    for owner, cpus in (("housekeeping", housekeeping), ("pmd", pmd or (0,)), ("generator", generator)):
        if not cpus or (owner == "pmd" and own_pmds and not pmd):
            raise TestbedError(
                f"no CPU is left for cpus.{owner}: {sorted(taken)} are taken; give it some, or others less"
            )
    return CpuPlan(housekeeping, pmd, generator, given.vnf)


def _first_of_each_core(cpus: tuple[Cpu, ...]) -> list[Cpu]:
    seen: dict[int, Cpu] = {}
    for cpu in cpus:
        seen.setdefault(cpu.core, cpu)
    return list(seen.values())


def _largest_node(cpus: tuple[Cpu, ...]) -> int:
    nodes = [core.node for core in _first_of_each_core(cpus)]
    return max(sorted(set(nodes)), key=nodes.count, default=0)


def discover_testbed() -> Testbed:
    """The embedded testbed of this machine: a private OVS and the embedded generator on two vhost-user ports.

    Without hugepages the datapath is "netdev": OVS's userspace datapath without DPDK.

    Raises:
        TestbedError: fewer than two cores.
    """
    hugepages = read_hugepages()
    dpdk = hugepages.idle().rooms(*LEAST_MIB) > 0
    return Testbed(
        name="embedded",
        ovs=OvsSpec(datapath="dpdk" if dpdk else "netdev", other_config=EMBEDDED_OTHER_CONFIG if dpdk else ()),
        cpus=plan_cpus(read_cpus()),
        ports=tuple(DutPort(name=name, kind="vhost-user") for name in ("p0", "p1")),
        generator=GeneratorSpec(),
        links=tuple(CableSpec(generator=f"{i}", dut=f"p{i}") for i in range(2)),
        hugepages_mib=hugepages.total_mib,
        discovered=True,
    )
