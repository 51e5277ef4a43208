"""A figure beside that of the last run: the word, the noise of a rig, which runs are looked at, what a gate asks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.model.evidence.comparison import rig_changes, rig_facts
from pytest_nfvperf.model.evidence.records import RunData, TopologyData
from pytest_nfvperf.model.figure import Figure, exact
from pytest_nfvperf.model.measure.compare import LEAST_RATIOS, MOST_RATIOS, compare_figures
from pytest_nfvperf.model.testbed.testbed import CpuPlan, DatapathInfo, TestbedFacts
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.session.last_run import MOST_AGE, gate_rule, newest_first
from tests.sample_run import write_sample

THEN = exact("pdr", 4e6, "pps")


def word(now: Figure, then: Figure = THEN, earlier: tuple[float, ...] = ()) -> str:
    found = compare_figures(now, then, earlier)
    assert found is not None
    return str(found.word)


@pytest.mark.parametrize(
    ("fps", "expected"), [(4e6, "same"), (3.7e6, "same"), (4.3e6, "same"), (3.6e6, "slower"), (4.5e6, "faster")]
)
def test_what_two_runs_may_differ_by_anyway_is_the_same(fps: float, expected: str) -> None:
    assert word(exact("pdr", fps, "pps")) == expected


def test_a_bound_is_never_called_worse_or_the_same() -> None:
    at_least = exact("pdr", 3e6, "pps").bounded(high=True)
    assert word(at_least) == word(THEN, at_least) == word(at_least, at_least) == "cannot tell"
    assert word(replace(at_least, value=5e6, low=5e6)) == "faster", "it is at least that much better"


def test_an_interval_that_holds_the_noise_is_no_change() -> None:
    wide = Figure("pdr", 3.5e6, "pps", 3.2e6, 4.1e6)
    assert word(wide) == "cannot tell"


def test_a_rigs_own_noise_is_known_from_its_runs() -> None:
    less = exact("pdr", 3.8e6, "pps")
    steps = (1.004, 0.997, 1.002, 0.9, 1.003, 0.996)
    assert word(less, earlier=steps[:-1]) == "same", f"of fewer than {LEAST_RATIOS} steps nobody knows"
    assert word(less, earlier=steps) == "slower", "one step may be a change: the largest does not count"
    assert word(less, earlier=(1.04, 0.97, 1.02, 0.96, 1.03, 0.98)) == "same"
    p99 = exact("latency_p99", 1e4, "ns", "50 % of pdr")
    assert word(replace(p99, value=1.3e4, low=1.3e4, high=1.3e4), p99) == "cannot tell", (
        "nobody knows a latency's noise"
    )
    assert word(replace(p99, value=1.3e4, low=1.3e4, high=1.3e4), p99, steps) == "slower"


def test_steps_are_kept_and_those_of_bounds_are_not() -> None:
    found = compare_figures(THEN, THEN, (1.5,) * MOST_RATIOS)
    assert found is not None
    assert found.noise_ratios == (*(1.5,) * (MOST_RATIOS - 1), 1.0)
    bound = compare_figures(THEN.bounded(high=True), THEN, (1.5,))
    assert bound is not None
    assert bound.noise_ratios == (1.5,)


@pytest.mark.parametrize("metric", ["rate_change", "corrupted_ratio", "a_suites_own"])
def test_a_metric_whose_ratio_says_nothing_is_not_compared(metric: str) -> None:
    assert compare_figures(exact(metric, 1.0, "ratio"), exact(metric, 2.0, "ratio")) is None
    assert compare_figures(exact("pdr", 0.0, "pps"), THEN) is None


def rig(version: str = "3.1.0", settings: str = "a: 1\n", **facts: str) -> dict[str, Any]:
    data = RunData(
        "1",
        "3.11",
        (),
        "quick",
        TestbedFacts("lab", CpuPlan((0,), (1,), (0,))),
        settings,
        fingerprint={"kernel": "6.1", **facts},
    )
    return rig_facts(data, [TopologyData(phy2phy(), "dpdk", info=DatapathInfo("dpdk", version, None, ""))])


def test_why_two_runs_of_a_test_are_not_compared() -> None:
    assert not rig_changes(rig(), rig())
    assert not rig_changes(rig(), rig(cpu_bands="near")), "where the host put the CPUs is a run's condition"
    assert rig_changes(rig(), rig(kernel="6.18")) == "rig differs: kernel 6.1 -> 6.18"
    assert rig_changes(rig(), rig(version="3.5.0")) == "DUT differs: version 3.1.0 -> 3.5.0"
    assert rig_changes(rig(ovs="3.1.0"), rig(ovs="3.5.0")) == "DUT differs: ovs 3.1.0 -> 3.5.0"
    assert rig_changes(rig(), rig(settings="a: 1\nb: 2\n")) == "rig differs: settings of the testbed"
    many = rig_changes(rig(), rig(cpu_model="x" * 80, memory_mib="1", smt="on"))
    assert many.endswith(", 1 more")
    assert len(many) < 200


def test_the_newest_runs_are_looked_at_first_and_old_ones_not_at_all(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    named = {days: f"{now - timedelta(days=days):%Y%m%d-%H%M%S}-7" for days in (0, 1, 2, MOST_AGE.days + 1, -1)}
    for name in [*named.values(), "renamed"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "evidence.jsonl").touch()
    (tmp_path / "latest").symlink_to(named[0])
    found = [path.name for path in newest_first(tmp_path / named[0])]
    assert found == ["renamed", named[1], named[2]]


def test_results_are_read_without_trials_and_other_tests(tmp_path: Path) -> None:
    whole = read_run(write_sample(tmp_path))
    first, second, *_ = [node_id for node_id in whole.tests if node_id]
    read = read_run(whole.path, results_of={first})
    assert read.tests[first].outcomes == whole.tests[first].outcomes
    assert read.tests[first].verdicts == whole.tests[first].verdicts
    assert (read.trials, second in read.tests, read.run) == ({}, False, whole.run)


def test_a_gate_asks_of_times_the_mirrored_share_and_nothing_of_costs() -> None:
    figures = [
        THEN,
        exact("pdr", 2e9, "bps"),
        exact("load_latency_p99", 1e4, "ns"),
        exact("cycles_per_packet", 250, "cycles"),
        exact("latency_p99", 1e4, "ns", "50 % of pdr"),
    ]
    rule = gate_rule(0.8, "last", figures)
    assert rule is not None
    assert {metric: limit.text for metric, limit in rule.require} == {
        "pdr": ">= 80 % of last",
        "load_latency_p99": "<= 125 % of last",
    }
    assert gate_rule(0.8, "last", figures[3:]) is None
