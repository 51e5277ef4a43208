"""A soak made of model objects: for report and evidence tests."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_nfvperf.model.evidence.records import SoakData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.soak import Gap, Soak
from pytest_nfvperf.model.measure.soak_series import SoakPlan, SoakTable, series, summarise
from tests.outcomes import measured

LOAD = 1_000_000
DIRECTIONS = ("p0->p1", "p1->p0")
PLAN = SoakPlan(LOAD, directions=2, duration_s=60.0, interval_s=1.0, most_skipped=0.03)


def quiet_row(second: int) -> dict[str, float]:
    """A second in which nothing happened."""
    row: dict[str, float] = {"t": float(second + 1), "rig.absent_ns": 0, "pmd-sched.stolen_ns": 0}
    for direction in DIRECTIONS:
        row |= {
            f"{direction}.sent": LOAD,
            f"{direction}.refused": 0,
            f"{direction}.skipped": 0,
            f"{direction}.received": LOAD,
        }
        row |= {
            f"{direction}.lost": 0,
            f"{direction}.p50_ns": 8_000,
            f"{direction}.p99_ns": 20_000,
            f"{direction}.max_ns": 90_000,
        }
    row |= {"pmd.cycles_busy": 2e8, "pmd.packets_received": 2e6, "pmd.c01.cycles_busy": 2e8}
    row |= {"pmd.c01.simple_match_hits": 5e5, "pmd.c01.emc_hits": 1.5e6, "pmd.c01.cycles_idle": 3e8}
    row |= {"p0.rx_packets": 1e6, "p0.tx_packets": 1e6}
    row |= {"br0.openflow_packets": 2e6, "vswitchd.cpu_ns": 1.01e9, "vswitchd.rss": 60 << 20, "p0.q0.rxq_busy": 0.4}
    return row | {"bgp.12.12.12.2.up": 1, "bgp.12.12.12.2.flaps": 0, "collector.cpu_ns": 4e6}


def soak_table(seconds: int = 60, changes: Mapping[int, Mapping[str, float]] | None = None) -> SoakTable:
    """Quiet seconds, but for the changes, by second."""
    table = SoakTable([name for name in quiet_row(0) if name != "t"])
    for second in range(seconds):
        table.add({**quiet_row(second), **(changes or {}).get(second, {})})
    return table


TROUBLED = {
    10: {"p0->p1.lost": 7, "p0->p1.received": LOAD - 7},
    20: {"p1->p0.skipped": LOAD // 10, "rig.absent_ns": 1e8},
    30: {"bgp.12.12.12.2.up": 0, "bgp.12.12.12.2.flaps": 1},
}


def troubled() -> Soak:
    """One loss, one disturbed interval, one flap, one gap."""
    return summarise(soak_table(changes=TROUBLED), PLAN, [Gap("ovs", 40.0, 43.0, "it did not answer")])


def soak_record() -> SoakData:
    return SoakData("trial-0002", "samples-soak-0001.jsonl", 60, troubled(), series(soak_table(changes=TROUBLED)))


def soak_outcome(soak: Soak | None = None) -> Outcome:
    labels = {"suite": "endurance", "topology": "phy2phy", "test": "test_soak", "frame_size": "64"}
    outcome = Outcome(tuple(sorted(labels.items())), "soak", 64.0, 2, trials=("trial-0002",), soak=soak or troubled())
    return measured(outcome)
