"""A soak's losses by windows: what was lost while the machine disturbed an interval is not the DUT's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.report.figures import soak_facts
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance
from pytest_nfvperf.model.disturbance.trial import AttributedInterval, TrialResult, attributed_intervals
from pytest_nfvperf.model.measure.bounds import soak_figures
from pytest_nfvperf.model.measure.soak_series import TIME, SoakPlan, SoakTable, summarise
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from tests.unit.test_windows import ALONE, SHARED, windows

WINDOWS = 100
"""Of 10 ms: so many an interval of a second."""

SPEC = TrialSpec(Traffic(64), 100_000, 3.0, (Direction("p0", "p1"),), window_s=0.01)
PLAN = SoakPlan(load_fps=100_000, directions=1, duration_s=3.0, interval_s=1.0, most_skipped=0.04)


def soak(lost_at: dict[int, int], shared: range = range(0)) -> tuple[SoakTable, TrialResult]:
    """Three intervals; frames lost in these windows, a core shared at the ends of those."""
    count = 3 * WINDOWS
    refused = [lost_at.get(at, 0) for at in range(count)]
    speed = [SHARED if at in shared else ALONE for at in range(count)]
    made = windows([1000] * count, speed=speed, sent=[1000] * count, refused=refused)
    table = SoakTable(("p0->p1.sent", "p0->p1.refused", "p0->p1.skipped", "p0->p1.lost"))
    for row in range(3):
        lost = sum(refused[row * WINDOWS : (row + 1) * WINDOWS])
        values = {"p0->p1.sent": 100_000.0, "p0->p1.refused": lost, "p0->p1.skipped": 0.0, "p0->p1.lost": lost}
        table.add({TIME: row + 1.0, **values})
    return table, replace(TrialResult(SPEC, (), RigHealth()), windows=made)


def attributed(result: TrialResult, table: SoakTable) -> dict[int, AttributedInterval]:
    return attributed_intervals(result, map(table.times_s, range(len(table))))


def test_a_loss_in_undisturbed_windows_is_the_duts() -> None:
    table, result = soak({150: 7})
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert (found.lost, found.disturbed_lost, found.disturbed_count) == (7, 0, 0)
    assert [lossy.start_s for lossy in found.lossy] == [1.0]


def test_a_loss_while_a_core_was_shared_is_not() -> None:
    table, result = soak({150: 700, 152: 500, 250: 3}, shared=range(140, 170))
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert (found.lost, found.disturbed_lost, found.disturbed_count) == (3, 1200, 0)
    (ratio,) = (seen for seen in soak_figures(found) if seen.metric == "loss_ratio")
    assert "1,200 more lost while the machine disturbed others" in ratio.confidence
    facts = dict(soak_facts(found))
    assert facts["disturbed by the rig"] == "0 of 3 intervals; 1,200 lost in disturbed windows of others"


def test_an_interval_of_which_little_was_undisturbed_is_spoiled_where_frames_were_lost() -> None:
    table, result = soak({150: 700, 20: 5}, shared=range(105, 195))
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert (found.lost, found.disturbed_interval_lost) == (5, 700)
    (disturbed,) = found.disturbed
    assert disturbed.start_s == 1.0
    assert (
        disturbed.reason == "7% of it was undisturbed (generator's core shared), too little to tell whose loss it was"
    )


def test_without_loss_no_interval_is_spoiled() -> None:
    table, result = soak({}, shared=range(300))
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert (found.lost, found.disturbed_count) == (0, 0)


def test_rows_that_no_window_covers_are_judged_as_a_whole() -> None:
    table, result = soak({250: 9})
    assert result.windows is not None
    assert attributed(replace(result, windows=None), table) == {}
    table.add({TIME: 4.0, "p0->p1.sent": 1.0, "p0->p1.refused": 2.0, "p0->p1.skipped": 0.0, "p0->p1.lost": 2.0})
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert found.lost == 11


@pytest.mark.parametrize(("before_ns", "after_ns", "moved"), [(50, 410, True), (420, 90, True), (70, 130, False)])
def test_a_loss_while_the_host_moved_a_cpu_is_nobodys(before_ns: int, after_ns: int, moved: bool) -> None:
    table, result = soak({150: 7})
    result = replace(result, placement=CpuDistance(before_ns, after_ns, far=moved, near_ns=130 if moved else None))
    found = summarise(table, PLAN, attributed=attributed(result, table))
    assert (found.lost, found.disturbed_interval_lost, found.disturbed_count) == ((0, 7, 1) if moved else (7, 0, 0))
    if moved:
        assert f"round trip took {before_ns} ns before it and {after_ns} ns after" in found.disturbed[0].reason
