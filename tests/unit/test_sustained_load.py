"""The load to try after one that the generator did not hold: what the machine took from it does not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.limits import HELD_AGAIN, LOWER, sustainable_load
from pytest_nfvperf.measure.measurer import WARM_UP
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import Windows
from tests.unit.test_search_algorithms import measurer_on
from tests.unit.test_windows import ALONE, SHARED, windows

LOAD, OFFERED = 8e6, 7e6
"""What it was asked for, and what it offered over the whole trial, frames/s."""


def held(offered_fps: float, windows: Windows | None) -> TrialResult:
    measurer = measurer_on(FakeGenerator(20e6, ceiling_fps=offered_fps))
    return replace(measurer.attempt(1.0, LOAD, WARM_UP).result, windows=windows)


def offering(alone: int, shared: int, every: int) -> Windows:
    """Windows of 10 ms of which every so many are shared; so much is offered in each of the 100 that are due."""
    in_turn = [at % every == 0 for at in range(100)]
    offered = [shared if each else alone for each in in_turn]
    skipped = [100 - each for each in offered]
    return windows(offered, sent=offered, skipped=skipped, speed=[SHARED if each else ALONE for each in in_turn])


@pytest.mark.parametrize("shared", [100, 80, 10])
def test_what_is_offered_undisturbed_is_held(shared: int) -> None:
    """Seen: 7.6 of 8.4 Mpps in undisturbed windows, 6.9 over all, and the search ended there."""
    assert sustainable_load(held(OFFERED, offering(95, shared, every=10))) == pytest.approx(0.95 * HELD_AGAIN * LOAD)


def test_a_load_held_undisturbed_is_lowered_a_little() -> None:
    assert sustainable_load(held(OFFERED, offering(100, 10, every=10))) == pytest.approx(HELD_AGAIN * LOAD)


@pytest.mark.parametrize("seen", [None, offering(95, 50, every=2)], ids=["no windows", "hardly any undisturbed"])
def test_without_undisturbed_windows_the_whole_trial_tells(seen: Windows | None) -> None:
    assert sustainable_load(held(OFFERED, seen)) == pytest.approx(OFFERED, rel=1e-3)
    assert sustainable_load(held(0.95 * LOAD, seen)) == pytest.approx(LOWER * LOAD)
