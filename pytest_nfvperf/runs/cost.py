"""What a trial cost, from counters around it (How we measure, rule 10)."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_nfvperf.model.measure.outcome import Cost
from pytest_nfvperf.model.traffic.trial import TrialResult

_NS = 1e9


def trial_cost(result: TrialResult, changes: Mapping[str, int], pmd_cpus: int, own_cpu_s: float) -> Cost:
    """Cost of one trial. ``changes``: counter deltas by name; an absent counter gives an absent cost.

    ``pmd_cpus``: number of CPUs of poll-mode threads, 0 if unknown. ``own_cpu_s``: of the test process.
    """
    busy, idle = changes.get("pmd.cycles_busy"), changes.get("pmd.cycles_idle")
    packets = changes.get("pmd.packets_received")
    cycles = busy / packets if busy is not None and packets and result.spec.saturating else None
    received_fps = result.received_fps
    total_fps = received_fps * len(result.counts) if received_fps is not None else None
    return Cost(
        trial_id="",
        pmd_cycles_per_packet=cycles,
        pmd_busy_ratio=busy / (busy + idle) if busy is not None and idle is not None and busy + idle else None,
        mpps_per_core=total_fps / 1e6 / pmd_cpus if total_fps is not None and pmd_cpus else None,
        dut_cpu_seconds=_seconds(changes.get("vswitchd.cpu_ns")),
        generator_cpu_seconds=_seconds(changes.get("generator.cpu_ns")),
        test_process_cpu_seconds=own_cpu_s,
    )


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _NS
