"""How long the rig itself takes."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.topology.compose import phy2phy, pvp
from pytest_nfvperf.model.traffic.traffic import Traffic

_REPEATS = 5


def ovs_ready(made: Bench) -> list[Figure]:
    """Start of a private OVS until it takes configuration."""
    made.rig.close()
    started = time.monotonic()
    made.rig.datapath()
    took = time.monotonic() - started
    return [Figure("private OVS ready", format_seconds(took), "< 3 s", took < 3)]


def topology_change(made: Bench) -> list[Figure]:
    """From one deployed topology to another, which is set-up and teardown of a test."""
    made.rig.live(pvp(), 5)
    times = []
    for _ in range(_REPEATS):
        for topology in (phy2phy(), pvp()):
            started = time.monotonic()
            made.rig.live(topology, 5)
            times.append(time.monotonic() - started)
    worst = max(times)
    detail = f"median {format_seconds(median(times))} of {len(times)} changes"
    return [Figure("setup + teardown of a test, worst", format_seconds(worst), "< 0.5 s", worst < 0.5, detail)]


def cpu_of_pytest(made: Bench) -> list[Figure]:
    """CPU of the measuring process while a trial runs."""
    live = made.rig.live(phy2phy(), 5)
    trial = made.trial(live, Traffic(frame_size=64), 1e6, 10.0)
    used = trial.cost.test_process_cpu_seconds or 0.0
    share = used / trial.wall_s
    return [Figure("CPU of the test process during a trial", f"{share:.2%} of a core", "< 2 %", share < 0.02)]
