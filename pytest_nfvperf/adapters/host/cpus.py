"""The CPUs of this machine (core, NUMA node, L3 cache), who owns them (as in DPDK's and OVS's guides), and checks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, Hugepages, read_hugepages
from pytest_nfvperf.adapters.net.threads import in_own_thread
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.cpu_neighbours import Cpu
from pytest_nfvperf.model.testbed.testbed import CableSpec, CpuPlan, DutPort, GeneratorSpec, OvsSpec, Testbed

SYSFS_CPUS = Path("/sys/devices/system/cpu")
EMBEDDED_OTHER_CONFIG = (("per-port-memory", "true"),)
"""OVS's default is one pool of 262,144 buffers for all ports, halved until it fits: on a small machine it
takes all of DPDK's memory, and the next vhost-user port fails for a few bytes (seen: "failed to allocate
memory for dev->guest_pages"). A pool for each port takes what its rings can hold (OVS: "DPDK Device Memory Models")."""
_PMD_KEY = "cpus.pmd (or dut.ovs.pmd_cpus)"
_NO_CPUS = CpuPlan((), (), ())
_PAGE_BYTES = 4096
_STATUS = Path("/proc/self/status")
_CAP_SYS_NICE = 23  # linux/capability.h
_ONLINE = Path("/sys/devices/system/cpu/online")


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format ("0-3,8") as numbers."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def read_cpus(allowed: Iterable[int] | None = None, sysfs: Path = SYSFS_CPUS) -> tuple[Cpu, ...]:
    """CPUs that this process may use, by number."""
    cpus = []
    for number in sorted(os.sched_getaffinity(0) if allowed is None else allowed):
        directory = sysfs / f"cpu{number}"
        # without topology in sysfs (some containers) every CPU is its own core
        siblings = _read_cpu_list(directory / "topology" / "thread_siblings_list")
        nodes = [int(path.name.removeprefix("node")) for path in directory.glob("node[0-9]*")]
        # a cache list is absent without such a cache, or when a host does not reveal it to its guest
        l3 = _read_cpu_list(directory / "cache" / "index3" / "shared_cpu_list")
        cpus.append(Cpu(number, min(siblings, default=number), nodes[0] if nodes else 0, l3))
    return tuple(cpus)


def isolated_cpus(sysfs: Path = SYSFS_CPUS) -> tuple[int, ...]:
    """CPUs that the kernel keeps other work off (isolcpus=)."""
    return _read_cpu_list(sysfs / "isolated")


def _read_cpu_list(path: Path) -> tuple[int, ...]:
    try:
        return parse_cpu_list(path.read_text(encoding="ascii"))
    except OSError:
        return ()


def plan_cpus(cpus: tuple[Cpu, ...]) -> CpuPlan:
    """Give each CPU an owner; whole physical cores, SMT siblings of a polling core stay idle.

    Two cores: the PMD has one to itself, the generator shares the other with housekeeping.
    Three: housekeeping, generator and PMD have one each. Four or more: the rest is for VNFs.
    All polling cores are on the NUMA node that has most cores.

    TestbedError for a single core: polling needs one for the DUT and one for everything else.
    """
    cores = _first_of_each_core(cpus)
    nodes = [core.node for core in cores]
    largest = max(sorted(set(nodes)), key=nodes.count, default=0)
    cores = [core for core in cores if core.node == largest]
    numbers = [core.number for core in cores]
    if len(numbers) < 2:
        usable = ", ".join(str(cpu.number) for cpu in cpus) or "none"
        raise TestbedError(
            f"measuring needs 2 physical cores on one NUMA node (one polls for the DUT, one for the generator); "
            f"this process may use CPUs {usable}: give the machine or the container another core (see taskset(1))"
        )
    if len(numbers) == 2:
        return CpuPlan(housekeeping=(numbers[0],), pmd=(numbers[1],), generator=(numbers[0],))
    return CpuPlan(housekeeping=(numbers[0],), generator=(numbers[1],), pmd=(numbers[2],), vnf=tuple(numbers[3:]))


def complete_testbed(testbed: Testbed) -> Testbed:
    """Complete what a testbed's file leaves open: each owner gets CPUs, and OVS all hugepages there are.

    The system's OVS has placed its PMDs itself: if the file names no CPUs for them, they stay. TestbedError if there
    are not enough CPUs.
    """
    own_pmds = testbed.ovs.instance != "system"
    cpus = (
        plan_cpus(read_cpus()) if own_pmds and testbed.cpus == _NO_CPUS else _complete(testbed.cpus, own_pmds=own_pmds)
    )
    return replace(testbed, cpus=cpus, hugepages_mib=testbed.hugepages_mib or read_hugepages().total_mib)


def _complete(given: CpuPlan, *, own_pmds: bool) -> CpuPlan:
    in_use = {*given.housekeeping, *given.pmd, *given.generator, *given.vnf}
    free = [core.number for core in _first_of_each_core(read_cpus()) if core.number not in in_use]
    housekeeping = given.housekeeping or tuple(free[:1]) or given.generator
    free = [cpu for cpu in free if cpu not in housekeeping]
    pmd = given.pmd or (tuple(free[:1]) if own_pmds else ())
    free = [cpu for cpu in free if cpu not in pmd]
    generator = given.generator or tuple(free[:1]) or housekeeping
    for owner, cpus in (("housekeeping", housekeeping), ("pmd", pmd or (0,)), ("generator", generator)):
        if not cpus or (owner == "pmd" and own_pmds and not pmd):
            raise TestbedError(
                f"no CPU is left for cpus.{owner}: {sorted(in_use)} are taken; give it some, or others less"
            )
    return CpuPlan(housekeeping, pmd, generator, given.vnf)


def _first_of_each_core(cpus: tuple[Cpu, ...]) -> list[Cpu]:
    first: dict[int, Cpu] = {}
    for cpu in cpus:
        first.setdefault(cpu.core, cpu)
    return list(first.values())


def discover_testbed() -> Testbed:
    """The embedded testbed of this machine: a private OVS and the embedded generator on two vhost-user ports.

    Without hugepages the datapath is "netdev": OVS's userspace datapath without DPDK. TestbedError for a single core.
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


def read_cpu_topology(sysfs: Path = SYSFS_CPUS) -> dict[int, Cpu]:
    """CPUs that this process may use, and isolated ones, by number."""
    return {cpu.number: cpu for cpu in read_cpus({*os.sched_getaffinity(0), *isolated_cpus(sysfs)}, sysfs)}


def check_resources(testbed: Testbed, hugepages: Hugepages | None = None, online: Path = _ONLINE) -> None:
    """Raise ConfigError for a CPU that this machine does not have, or for more hugepages than it has reserved.

    ``online``: where the kernel lists its CPUs. Isolated ones are among them, unlike in our own affinity.
    """
    listed = online.read_text(encoding="ascii").strip() if online.is_file() else ""
    for key, cpus in _claims(testbed).items():
        missing = sorted(set(cpus) - set(parse_cpu_list(listed)))
        # Without topology in sysfs (some containers) nothing is known; whoever pins a thread will report it.
        if listed and missing:
            raise ConfigError(f"this machine has no CPU {missing[0]}, only {listed}: write one of those", key=key)
    pages = hugepages or read_hugepages()
    wanted = testbed.hugepages_mib
    if wanted and wanted > pages.total_mib:
        raise ConfigError(
            f"{wanted} MiB are asked for, and this machine has reserved {pages.total_mib} MiB{pages.in_pages}: write "
            f"at most that, or reserve more: {pages.idle().advice(wanted)}",
            key="hugepages",
        )


def check_pages(page_bytes: int | None = None) -> None:
    """Raise ConfigError on a kernel whose pages are not of 4 KiB.

    Rings of packet sockets, DPDK's memory maps and the sizes of hugepages depend on it, and nobody has tried another.
    """
    page_bytes = page_bytes or os.sysconf("SC_PAGE_SIZE")
    if page_bytes != _PAGE_BYTES:
        raise ConfigError(
            f"this kernel's pages have {page_bytes // 1024} KiB, and nfvperf was made for pages of 4 KiB: boot a "
            "kernel with those (on arm64 Debian's linux-image-arm64, Ubuntu's linux-generic without -64k)"
        )


def check_cpu_rights(testbed: Testbed) -> None:
    """Raise ConfigError for a CPU that the machine has, and that this process cannot run on.

    Only an attempt shows it: OVS's PMD thread silently stays where it is if the cpuset of its control group or
    container lacks its CPU, and everything measured would be of another one.
    """
    claims = _claims(testbed)
    if testbed.ovs.instance == "system":  # its PMDs are in whatever control group its service is
        del claims[_PMD_KEY]

    def refuse() -> None:
        for key, cpu in [(key, cpu) for key, cpus in claims.items() for cpu in cpus]:
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError as error:
                raise ConfigError(_not_allowed(cpu, error), key=key) from error

    in_own_thread(refuse)


def lacks_priority(status: Path = _STATUS) -> str | None:
    """A line for the user if this process cannot run before other programs; None if it can, or that is unknown.

    Docker's default root lacks the right: the run goes on, and the rest of the machine takes its CPUs more often.
    """
    try:
        lines = status.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    rights = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), None)
    if rights is None or rights >> _CAP_SYS_NICE & 1:
        return None
    return (
        "DUT and generator cannot run before other programs: this process lacks the right CAP_SYS_NICE, so more trials "
        "are disturbed (docker run --cap-add SYS_NICE)"
    )


def _claims(testbed: Testbed) -> dict[str, tuple[int, ...]]:
    """CPUs of this machine by the key that names them."""
    plan = testbed.cpus
    return {f"nodes.{node.name}.cpus": tuple(node.cpus) for node in testbed.nodes if node.host is None} | {
        "cpus.housekeeping": plan.housekeeping,
        _PMD_KEY: plan.pmd,
        "cpus.generator (or generator.cpus)": plan.generator,
        "cpus.vnf": plan.vnf,
        "streams.client_cpus": testbed.streams.client_cpus,
        "streams.server_cpus": testbed.streams.server_cpus,
    }


def _not_allowed(cpu: int, error: OSError) -> str:
    if error.errno != errno.EINVAL:
        return (
            f"this process may not choose its CPUs (sched_setaffinity: {error.strerror}), and measuring needs that: "
            "give it the right (CAP_SYS_NICE), or a seccomp profile that allows the call"
        )
    here = Path("/proc/self/cpuset")
    group = here.read_text(encoding="utf-8", errors="replace").strip() if here.exists() else "unknown"
    return (
        f"this process may not run on CPU {cpu}: the cpuset of its control group ({group}) or container does not have "
        "it; give it that CPU (docker run --cpuset-cpus, systemd's AllowedCPUs=), or write one that it has"
    )
