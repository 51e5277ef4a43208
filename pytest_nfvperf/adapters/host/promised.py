"""What a testbed file promises, against what the machine has: CPUs and hugepages."""

from __future__ import annotations

from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import parse_cpu_list
from pytest_nfvperf.adapters.host.hugepages import Hugepages, read_hugepages
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Testbed

_ONLINE = Path("/sys/devices/system/cpu/online")


def check_promised(testbed: Testbed, hugepages: Hugepages | None = None, online: Path = _ONLINE) -> None:
    """Raise ConfigError for a CPU that the machine has not, or for more hugepages than are reserved.

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
    there, plan = set(parse_cpu_list(listed)), testbed.cpus
    claims = {f"nodes.{node.name}.cpus": node.cpus for node in testbed.nodes if node.host is None} | {
        "cpus.housekeeping": plan.housekeeping,
        "cpus.pmd (or dut.ovs.pmd_cpus)": plan.pmd,
        "cpus.generator (or generator.cpus)": plan.generator,
        "cpus.vnf": plan.vnf,
        "streams.client_cpus": testbed.streams.client_cpus,
        "streams.server_cpus": testbed.streams.server_cpus,
    }
    for key, cpus in claims.items():
        missing = sorted(set(cpus) - there)
        if missing:
            raise ConfigError(f"this machine has no CPU {missing[0]}, only {listed}: write one of those", key=key)
