"""Bands of round trips between CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.disturbance.cpu_distance import (
    BAND_RATIO,
    FEWEST,
    Band,
    Bands,
    Distance,
    farthest,
    find_bands,
)

NEAR = [70, 100, 100, 110, 110, 109, 100, 139]
FAR = [240, 260, 330, 420, 440]


def test_two_clusters_are_two_bands() -> None:
    found = find_bands(NEAR + FAR)
    assert found == Bands(Band(70, 139), Band(240, 440))
    assert [found.is_far(trip) for trip in (70, 139, 180, 190, 240, 5000)] == [False, False, False, True, True, True]
    assert str(found.near) == "70 .. 139 ns"


@pytest.mark.parametrize("trips", [NEAR, FAR, [100], [100, 100]])
def test_one_cluster_is_no_band(trips: list[int]) -> None:
    found = find_bands(trips)
    assert found is not None
    assert found.far is None
    assert not found.is_far(10_000)


def test_nothing_seen_is_nothing_known() -> None:
    assert find_bands([]) is None


@pytest.mark.parametrize("outlier", [20, 5000])
def test_a_disturbed_reading_makes_no_band(outlier: int) -> None:
    found = find_bands([*NEAR * 4, outlier, outlier])
    assert found is not None
    assert found.far is None


def test_a_rare_far_band_among_many_readings_needs_its_share() -> None:
    many = NEAR * 50
    assert find_bands([*many, 400, 400, 400, 400]) == Bands(Band(70, 400))
    found = find_bands([*many, *[400] * 13])
    assert found is not None
    assert found.far == Band(400, 400)
    assert str(found.far) == "400 ns"


@given(
    near=st.lists(st.floats(50, 150), min_size=FEWEST, max_size=40),
    far=st.lists(st.floats(150 * BAND_RATIO * 1.01, 700), min_size=FEWEST, max_size=40),
)
def test_clusters_with_a_gap_between_them_are_told_apart(near: list[float], far: list[float]) -> None:
    found = find_bands(near + far)
    assert found is not None
    assert found.far is not None
    assert sum(found.is_far(trip) for trip in near + far) >= FEWEST
    assert not found.is_far(min(near))
    assert found.is_far(max(far))


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=60))
def test_bands_hold_all_that_was_seen(trips: list[float]) -> None:
    found = find_bands(trips)
    assert found is not None
    assert found.near.low_ns == min(trips)
    assert (found.far or found.near).high_ns == max(trips)
    if found.far is not None:
        assert found.far.low_ns >= BAND_RATIO * found.near.high_ns


def test_the_farthest_of_several_counts() -> None:
    assert farthest([Distance(0, 1, 100), Distance(0, 2, 420)]) == 420
    assert farthest([Distance(0, 1, 100), Distance(0, 2, None)]) is None
    assert farthest([]) is None
