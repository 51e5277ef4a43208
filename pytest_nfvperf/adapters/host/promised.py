"""What a testbed file promises, against what the machine has: CPUs and hugepages."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import parse_cpu_list
from pytest_nfvperf.adapters.host.hugepages import Hugepages, read_hugepages
from pytest_nfvperf.adapters.net.threads import in_own_thread
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Testbed

_PMD_KEY = "cpus.pmd (or dut.ovs.pmd_cpus)"
_PAGE_BYTES = 4096
_STATUS = Path("/proc/self/status")
_CAP_SYS_NICE = 23  # linux/capability.h
_ONLINE = Path("/sys/devices/system/cpu/online")


def check_promised(testbed: Testbed, hugepages: Hugepages | None = None, online: Path = _ONLINE) -> None:
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


def check_allowed(testbed: Testbed) -> None:
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
    """Move the calling thread to a CPU; why it cannot be there."""
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
