"""When a soak that is in trouble is given up for one at a lower load."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_nfvperf.measure import soak as soaker


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
