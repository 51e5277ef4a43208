"""The plateau of a search, and where it begins: what the host does to either moves no figure of the DUT's."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.confirmation import mark_rig_limits
from pytest_nfvperf.measure.limits import Limits, LoadRange, median_reading, plateaus
from pytest_nfvperf.measure.measurer import WARM_UP, LoadMeasurer
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal
from pytest_nfvperf.model.measure.outcome import GoalOutcome, SearchStatus
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.unit.test_search_algorithms import PDR, measurer_on
from tests.unit.test_searches_by_windows import CAPACITY, OnASharedHost


@pytest.mark.parametrize("shared", [0.0, 0.4])
def test_the_plateau_is_the_rate_at_overload_whatever_the_host_does(shared: float) -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY, shared=shared))
    measurer.attempt(0.5, 8e6, WARM_UP)
    (point,) = plateaus(measurer, Limits(8e6, None))
    assert point.fps == pytest.approx(CAPACITY, rel=0.001)
    assert point.low_fps <= point.fps <= point.high_fps


def test_the_plateau_is_at_least_what_a_slower_generator_offers() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY))
    measurer.attempt(0.5, 4e6, WARM_UP)
    (point,) = plateaus(measurer, Limits(4e6, None))
    assert point.fps == pytest.approx(5.6e6, rel=0.001)
    assert point.at_least == "generator-limited: what it offered went into the DUT's rings in 100% of the windows"
    assert len(measurer.trials) == 1 + 3


def test_there_is_no_plateau_where_the_dut_was_never_undisturbed_or_the_line_is_the_limit() -> None:
    for generator, ceiling_fps, line_rate_fps in (
        (OnASharedHost(CAPACITY, shared=1.0), 8e6, None),
        (OnASharedHost(CAPACITY), 8e6, 14.88e6),
        (OnASharedHost(CAPACITY), None, None),
    ):
        measurer = measurer_on(generator)
        measurer.attempt(0.5, 8e6, WARM_UP)
        assert plateaus(measurer, Limits(ceiling_fps, line_rate_fps)) == ()


@pytest.mark.parametrize(
    ("fps", "far_reason", "limited", "told"),
    [
        ([7.2, 7.8, 7.1], [], [], 7.2),
        ([7.2, 5.7], [], [], 5.7),
        ([7.2, 4.4, 7.1], [4.4], [], 7.1),
        ([4.4], [4.4], [], 4.4),
        ([7.2, 7.4, 7.3], [], [7.3, 7.4], 7.2),
        ([4.4, 7.4, 7.3, 7.5], [4.4], [7.3, 7.4, 7.5], 7.4),
    ],
)
def test_the_plateau_that_is_told_is_the_reading_in_the_middle(
    fps: list[float], far_reason: list[float], limited: list[float], told: float
) -> None:
    readings = [
        PlateauPoint("t", each, each, each, 50, "far" if each in far_reason else "", "slow" if each in limited else "")
        for each in fps
    ]
    assert [point.fps for point in median_reading(readings)] == [told]
    assert median_reading([]) == ()


NEAR, MOVED = CpuDistance(70, 70, near_ns=100), CpuDistance(70, 390, far=True, near_ns=100)


@pytest.mark.parametrize(
    ("distances", "told", "far_reason"),
    [([NEAR], 1, ""), ([MOVED, NEAR], 2, ""), ([MOVED] * 3, 2, "the host keeps the CPUs * 390 ns apart *")],
)
def test_a_plateau_read_while_a_cpu_moved_is_read_again(
    distances: list[CpuDistance], told: int, far_reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: a plateau of 4.4 Mpps beside an NDR of 9.4."""
    measurer = measurer_on(OnASharedHost(CAPACITY))
    measurer.attempt(0.5, 8e6, WARM_UP)
    waiting, attempt = iter(distances), LoadMeasurer.attempt

    def saturated(
        self: LoadMeasurer, duration_s: float, load_fps: float, purpose: str, *, saturating: bool = False
    ) -> Trial:
        trial = attempt(self, duration_s, load_fps, purpose, saturating=saturating)
        return replace(trial, result=replace(trial.result, placement=next(waiting)))

    monkeypatch.setattr(LoadMeasurer, "attempt", saturated)
    (point,) = plateaus(measurer, Limits(8e6, None))
    assert point.trial_id == measurer.trials[told].id
    assert len(measurer.trials) == 1 + len(distances)
    assert fnmatchcase(point.far_reason, far_reason)


@pytest.mark.parametrize(
    ("distance", "usable", "limited"),
    [(NEAR, 5e6, "the generator held no higher load when the search began"), (MOVED, 8e6, "")],
)
def test_a_generator_that_was_far_away_lowers_no_maximum(
    distance: CpuDistance, usable: float, limited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: a CPU moved in the warm-up, and the search ended at the 4.24 Mpps that the generator held meanwhile."""
    measurer = measurer_on(FakeGenerator(20e6, ceiling_fps=5.1e6))
    attempt, first = LoadMeasurer.attempt, iter([distance])

    def attempted(self: LoadMeasurer, duration_s: float, load_fps: float, purpose: str) -> Trial:
        trial = attempt(self, duration_s, load_fps, purpose)
        found = next(first, None)
        if found is None:  # the second one holds any load
            return replace(trial, result=replace(trial.result, invalid=()))
        offered = replace(trial.result.counts[0], refused=0, sent=2_500_000, intended=4_000_000, skipped=1_500_000)
        counts = (offered,) * len(trial.result.counts)
        return replace(trial, result=replace(trial.result, counts=counts, placement=found))

    monkeypatch.setattr(LoadMeasurer, "attempt", attempted)
    limits = Limits(8e6, None)
    loads = LoadRange(None, Traffic(), measurer, limits, lambda *_: limits, QUICK.warmup_s)  # type: ignore[arg-type]
    assert loads.warm_up() == pytest.approx(usable, rel=0.01)
    at_maximum = SearchedGoal(PDR, SearchStatus.AT_MAXIMUM, load_fps=round(usable), detail="met at the maximum load")
    marked = mark_rig_limits(at_maximum, None, [], limits.maximum_fps)
    assert (marked.limit, limited in marked.detail) == (limited, True)


@pytest.mark.parametrize(
    ("far_reason", "limited", "highest"),
    [("", "", 6e6), ("far", "", 12e6), ("", "generator-limited", 12e6)],
    ids=["exact", "apart", "the generator was the limit"],
)
def test_a_search_goes_no_higher_than_what_overloads_the_dut_by_half(
    far_reason: str, limited: str, highest: float
) -> None:
    """The ceiling is what the generator can do: on a shared CPU it does not sustain three times the plateau."""
    limits = Limits(12e6, None)
    loads = LoadRange(
        None, Traffic(), measurer_on(FakeGenerator(20e6)), limits, lambda *_: limits, QUICK.warmup_s, 12e6
    )  # type: ignore[arg-type]
    loads.readings = [PlateauPoint("trial-0002", 4e6, 3.9e6, 4.1e6, 20, far_reason, limited)]
    assert loads.searched.maximum_fps == highest
    assert not loads.raised_above_plateau([GoalOutcome(PDR, SearchStatus.FOUND, load_fps=3_900_000)])
    assert loads.searched.maximum_fps == highest


def test_a_dut_that_forwards_less_when_overloaded_is_searched_to_the_generators_limit() -> None:
    limits = Limits(12e6, None)
    loads = LoadRange(
        None, Traffic(), measurer_on(FakeGenerator(20e6)), limits, lambda *_: limits, QUICK.warmup_s, 12e6
    )  # type: ignore[arg-type]
    loads.readings = [PlateauPoint("trial-0002", 4e6, 3.9e6, 4.1e6, 20, "", "")]
    at_maximum = GoalOutcome(PDR, SearchStatus.AT_MAXIMUM, load_fps=6_000_000)
    assert loads.raised_above_plateau([at_maximum])
    assert loads.searched.maximum_fps == 12e6
    assert not loads.raised_above_plateau([at_maximum])
    assert loads.searched.maximum_fps == 12e6
