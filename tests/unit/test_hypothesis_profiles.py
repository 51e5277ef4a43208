"""A tenth of the examples of hypothesis is tried in each run of the tests, and all of them once a day."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.examples import PROFILE, choose_profile, examples


@pytest.fixture
def profile_comes_back() -> Iterator[None]:
    before = settings.get_current_profile_name()
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("profile_comes_back")
@pytest.mark.parametrize(
    ("profile", "daily", "tried"),
    [("", 300, 30), ("gate", 20, 5), ("gate", 3, 3), ("daily", 300, 300), ("daily", 3, 3)],
)
def test_how_many_are_tried(monkeypatch: pytest.MonkeyPatch, profile: str, daily: int, tried: int) -> None:
    monkeypatch.setenv(PROFILE, profile)
    choose_profile()
    assert examples(daily) == tried
    assert settings().max_examples == (100 if profile == "daily" else 10)
    assert settings().deadline is None
