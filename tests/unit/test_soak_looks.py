"""When a soak that is in trouble is given up, and what follows it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.measure import soak as soaker
from pytest_nfvperf.model.measure.soak import Soak
from tests.sample_soak import soak_outcome


@pytest.mark.parametrize(
    ("intervals", "disturbed", "lossy", "ends"),
    [
        (14, 14, 0, False),
        (15, 7, 0, False),
        (15, 4, 4, True),
        (17, 8, 0, False),
        (17, 9, 0, True),  # the host moved a CPU after 8 s
        (29, 15, 0, True),
        (30, 30, 0, False),  # by then it is nearly over, or long
    ],
)
def test_from_15_intervals_on_most_in_trouble_end_it(
    intervals: int, disturbed: int, lossy: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    so_far = SimpleNamespace(disturbed_count=disturbed, lossy_count=lossy, intervals=intervals)
    monkeypatch.setattr(soaker._RunningSoak, "summary", lambda _: so_far)

    def watched(look_at: int | None) -> soaker._RunningSoak:
        return soaker._RunningSoak(None, range(intervals), None, None, look_at=look_at)  # type: ignore[arg-type]

    assert watched(15).gives_up() == ends
    assert not watched(None).gives_up()


QUIET = soak_outcome().soak
LOADS = [4e6, 2e6]


def disturbed(**more: Any) -> Soak:
    """A whole soak of 15 s, all of it disturbed by the rig."""
    assert QUIET is not None
    facts = {
        "planned_s": 15.0,
        "elapsed_s": 15.0,
        "intervals": 15,
        "disturbed_count": 15,
        "lossy_count": 0,
        "flap_count": 0,
        "gap_count": 0,
    }
    return replace(QUIET, **{**facts, "sampling_cores": 0.01, "interrupted": "", **more})


@pytest.mark.parametrize(
    ("soak", "given_up", "follows"),
    [
        ({"disturbed_count": 0}, False, None),
        ({}, False, ([2e6], 1.0)),
        ({}, True, ([2e6], 1.0)),
        ({"lossy_count": 1}, False, None),
        ({"lossy_count": 9}, True, ([4e6], 1.0)),  # the DUT's own losses: the same load, to its end
        ({"flap_count": 1}, False, None),  # its sessions: not at a lower load either
        ({"sampling_cores": 0.1, "gap_count": 1}, False, ([2e6], 1.0)),
        ({"planned_s": 900.0}, False, None),
        ({"interrupted": "ended after 4 s of 15 s by Ctrl-C"}, False, None),
        ({"sampling_cores": 0.011}, False, (LOADS, 1.25)),
        ({"sampling_cores": 0.5}, False, (LOADS, 1.25)),  # twelve intervals at least, for trends
        ({"sampling_cores": 0.021, "planned_s": 900.0}, True, (LOADS, 5.0)),
        ({"sampling_cores": 0.07, "lossy_count": 9}, True, ([4e6], 1.0)),
    ],
)
def test_what_follows_a_disturbed_soak(soak: dict[str, Any], given_up: bool, follows: object) -> None:
    assert soaker._next_try(LOADS, 1.0, disturbed(**soak), given_up=given_up) == follows


def test_the_last_load_ends_it_and_samples_get_rarer_once_only() -> None:
    assert soaker._next_try(LOADS[1:], 1.0, disturbed(), given_up=False) is None
    assert soaker._next_try(LOADS[1:], 1.0, disturbed(sampling_cores=0.1), given_up=False) == ([2e6], 1.25)
    assert soaker._next_try(LOADS[1:], 1.25, disturbed(sampling_cores=0.1), given_up=False) is None
    assert soaker._next_try(LOADS, 1.25, disturbed(sampling_cores=0.1), given_up=False) == ([2e6], 1.25)
