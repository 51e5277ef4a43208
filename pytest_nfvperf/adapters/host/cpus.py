"""The CPUs of this machine (core, NUMA node, L3 cache), their owners (models: DPDK's and OVS's guides), and checks."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, Hugepages, read_hugepages
from pytest_nfvperf.adapters.net.threads import in_own_thread
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.cpu_neighbours import CpuPlace
from pytest_nfvperf.model.testbed.testbed import CableSpec, CpuPlan, DutPort, GeneratorSpec, OvsSpec, Testbed

SYSFS_CPUS = Path("/sys/devices/system/cpu")
EMBEDDED_OTHER_CONFIG = (("per-port-memory", "true"),)
"""OVS's default is one pool of 262,144 buffers for all ports, halved until it fits: on a small machine it
takes all of DPDK's memory, and the next vhost-user port fails for a few bytes (seen: "failed to allocate
memory for dev->guest_pages"). A pool a port takes what its rings can hold (OVS: "DPDK Device Memory Models")."""
_PMD_KEY = "cpus.pmd (or dut.ovs.pmd_cpus)"
_PAGE_BYTES = 4096
_STATUS = Path("/proc/self/status")
_CAP_SYS_NICE = 23  # linux/capability.h
_ONLINE = Path("/sys/devices/system/cpu/online")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One CPU. ``core`` is the first of its SMT siblings; ``node`` its NUMA node."""

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
    """CPUs that this process may use, by number."""
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
    cores = _first_of_each_core(cpus)
    nodes = [core.node for core in cores]
    largest = max(sorted(set(nodes)), key=nodes.count, default=0)
    cores = [core for core in cores if core.node == largest]
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


def read_cpu_places(sysfs: Path = SYSFS_CPUS) -> dict[int, CpuPlace]:
    """CPUs that this process may use, and isolated ones, by number."""
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


def check_resources(testbed: Testbed, hugepages: Hugepages | None = None, online: Path = _ONLINE) -> None:
    """Raise ConfigError for a CPU that the machine has not, or that is not for us, or for more hugepages than reserved.

    Args:
        testbed: with its CPUs planned.
        hugepages: the machine's; read now if not given.
        online: where the kernel lists its CPUs. Isolated ones are among them, unlike in our own affinity.
    """
    _check_cpus(testbed, online)
    pages = hugepages or read_hugepages()
    wanted = testbed.hugepages_mib
    if wanted and wanted > pages.total_mib:
        raise ConfigError(
            f"{wanted} MiB are asked for, and this machine has reserved {pages.total_mib} MiB{pages.in_pages}: write "
            f"at most that, or reserve more: {pages.idle().advice(wanted)}",
            key="hugepages",
        )


def _check_cpus(testbed: Testbed, online: Path) -> None:
    try:
        listed = online.read_text(encoding="ascii").strip()
    except OSError:  # no topology in sysfs (some containers): nothing is known, and whoever pins a thread will say it
        return
    there = set(parse_cpu_list(listed))
    for key, cpus in _claims(testbed).items():
        missing = sorted(set(cpus) - there)
        if missing:
            raise ConfigError(f"this machine has no CPU {missing[0]}, only {listed}: write one of those", key=key)


def check_pages(page_bytes: int | None = None) -> None:
    """Raise ConfigError on a kernel whose pages are not of 4 KiB.

    Rings of packet sockets, DPDK's memory maps and the sizes of hugepages all go by it, and nobody has tried another.
    """
    page_bytes = page_bytes or os.sysconf("SC_PAGE_SIZE")
    if page_bytes != _PAGE_BYTES:
        raise ConfigError(
            f"this kernel's pages have {page_bytes // 1024} KiB, and nfvperf was made for pages of 4 KiB: boot a "
            "kernel with those (on arm64 Debian's linux-image-arm64, Ubuntu's linux-generic without -64k)"
        )


def check_cpu_rights(testbed: Testbed) -> None:
    """Raise ConfigError for a CPU that the machine has, and that this process cannot run on.

    Asked of the kernel for each CPU, since nothing else tells: OVS's PMD thread stays where it is, without a word, when
    the cpuset of its control group or container lacks its CPU, and everything measured would be of another one.
    """
    claims = _claims(testbed)
    if testbed.ovs.instance == "system":  # its PMDs are in whatever control group its service is
        del claims[_PMD_KEY]
    errors = in_own_thread(lambda: {cpu: _pinned_to(cpu) for cpu in sorted({*itertools.chain(*claims.values())})})
    for key, cpus in claims.items():
        for cpu in cpus:
            if errors[cpu] is not None:
                raise ConfigError(_not_allowed(cpu, errors[cpu]), key=key)


def lacks_priority(status: Path = _STATUS) -> str | None:
    """What is missing to run before other programs, as a line for the user; None where nothing is, or nobody can tell.

    Docker's default root has not the right: the run goes on, and the rest of the machine takes its CPUs more often.
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


def _pinned_to(cpu: int) -> OSError | None:
    """Move the calling thread to a CPU; returns the error if it cannot."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        return error
    return None


def _not_allowed(cpu: int, error: OSError | None) -> str:
    if error is not None and error.errno != errno.EINVAL:
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
