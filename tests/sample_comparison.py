"""A run that compares three sides over two tests, made of model objects, for report and evidence tests."""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.model.evidence.records import Cause, ErrorData, Record, TestData, TestEndData, TopologyData
from pytest_nfvperf.model.measure.compare import (
    ComparisonData,
    ComparisonSettings,
    MetricComparison,
    ReadingMethod,
    Side,
    SideFigures,
    SideState,
    compare_metric,
)
from pytest_nfvperf.model.statistics import Pairing, Relative, Samples
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.sample_run import SampleRun, run_data

SIDES = (
    Side("old", "debian:bookworm"),
    Side("new", "debian:trixie", (("smc-enable", "true"),)),
    Side("odd", "/opt/odd"),
)
DUTS = {
    "old": DatapathInfo("dpdk", "3.1.0", "22.11.7", "", "/a/ovs-vswitchd", "debian:bookworm"),
    "new": DatapathInfo("dpdk", "3.5.0", "24.11.2", "", "/b/ovs-vswitchd", "debian:trixie"),
}
BROKE = SideFigures("odd", SideState.BROKEN, "vswitchd ended with status 127")


def metric(ratio: float, reach: float = 0.012, name: str = "forwarding_rate") -> MetricComparison:
    """A ratio whose interval reaches so far to either side, over eight blocks."""
    spread = [1 + reach * (number - 3.5) / 4 for number in range(8)]
    blocks, noise = tuple(ratio * each for each in spread), tuple(spread)
    pairing = Pairing(8, 31, (("cpu_moved", 2),), 0.994, 1.007, blocks, noise)
    unit, value = ("pps", 6.6e6) if name == "forwarding_rate" else ("cycles", 230.0)
    ends = ratio * (1 - reach), ratio * (1 + reach)
    relative = Relative(name, (("side", "old"),), ratio, *ends, 0.983, reach, "", value, pairing=pairing)
    decides = name == "forwarding_rate"
    return compare_metric(Samples(name, unit, (value * ratio,) * 8), relative, (0.994, 1.007), 0.02, decides=decides)


def comparison(frame_size: str, new: tuple[MetricComparison, ...]) -> ComparisonData:
    """Of one frame size."""
    labels = {"suite": "throughput", "test": "test_ndr_pdr", "topology": "phy2phy", "frame_size": frame_size}
    sides = (SideFigures("new", metrics=new), BROKE)
    return ComparisonData(tuple(sorted(labels.items())), "frmol", ReadingMethod.ALTERNATING, "old", sides, 61.0)


def comparison_records() -> list[Record]:
    """The records of the run."""
    run = SampleRun()
    run.add(replace(run_data(), compare=ComparisonSettings(SIDES), selected=("t.py::a", "t.py::b", "t.py::soak")))
    cycles = metric(1.14, name="cycles_per_packet")
    for name, data in (("a", comparison("64", (metric(0.865), cycles))), ("b", comparison("1518", (metric(1.002),)))):
        run._test = f"t.py::{name}"
        run.add(TestData(data.labels))
        for side, info in DUTS.items():
            run.add(TopologyData(phy2phy(), "dpdk", Dut(version=side), {}, info))
        run.add(data)
        run.add(ErrorData("TestbedError", f"side 'odd' is broken: {BROKE.reason}"))
        run.add(TestEndData("error", 63.0, "side 'odd' is broken", Cause.TESTBED))
    run._test = "t.py::soak"
    run.add(TestData())
    run.add(TestEndData("skipped", 0.1, "not compared: a soak cannot alternate between sides", Cause.SKIP))
    run.end()
    return run.records
