"""What streams cost: the CPU time of the machine by whom it served, and figures made of it."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole
from pytest_nfvperf.model.measure.stream_measurement import SideCpu, StreamResult

_IN_KERNEL = frozenset({"system", "linux-bridge"})
"""Datapaths that forward frames in softirq."""


def sides(result: StreamResult) -> tuple[SideCpu | None, SideCpu | None]:
    """CPU of the sender and of the receiver; where both ends do both, of the client and of the server."""
    client, server = result.client_cpu, result.server_cpu
    return (server, client) if result.spec.direction == "reverse" else (client, server)


def ended_parts(result: StreamResult) -> list[CpuPart]:
    """The streams' ends, whose processes are gone when somebody looks at the machine again."""
    both = zip((CpuRole.SENDER, CpuRole.RECEIVER), sides(result), strict=True)
    return [CpuPart(role, str(role), side.user_ns + side.system_ns) for role, side in both if side is not None]


def pmd_busy(changes: Mapping[str, int]) -> float | None:
    """Share of the PMD threads' cycles that were spent on packets; None where OVS does not tell."""
    busy, idle = changes.get("pmd.cycles_busy"), changes.get("pmd.cycles_idle")
    return busy / (busy + idle) if busy is not None and idle is not None and busy + idle > 0 else None


def flowed_ns(result: StreamResult, wall_s: float) -> float:
    """For how long streams flowed, warm-up included; as the ends' own cores are counted."""
    return result.client_cpu.elapsed_ns if result.client_cpu is not None else wall_s * 1e9


def datapath_cores(
    cpu: CpuAccount | None, vswitchd_ns: int | None, datapath: str, result: StreamResult, wall_s: float
) -> float | None:
    """CPUs that the datapath used; None where nobody counted.

    ``vswitchd_ns``: CPU time of the DUT's process, used where nobody accounts. ``wall_s``: from call to counts, s.
    """
    flowed = flowed_ns(result, wall_s)
    if flowed <= 0:
        return None
    if cpu is not None:
        return cpu.datapath_cores(flowed, in_kernel=datapath in _IN_KERNEL)
    return None if vswitchd_ns is None else vswitchd_ns / flowed


def cost_values(cpu: CpuAccount | None, result: StreamResult, wall_s: float) -> dict[str, float | None]:
    """``cpu_per_gigabit`` (CPU seconds), ``softirq_cores`` and ``context_switches`` a second; empty without account."""
    flowed = flowed_ns(result, wall_s)
    if cpu is None or flowed <= 0:
        return {}
    goodput = result.goodput_bps
    switches = cpu.switches
    return {
        "cpu_per_gigabit": cpu.cost_cores(flowed) * 1e9 / goodput if goodput else None,
        "softirq_cores": cpu.softirq_ns / flowed,
        "context_switches": None if switches is None else switches / (cpu.elapsed_ns / 1e9),
    }
