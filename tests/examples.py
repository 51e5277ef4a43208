"""How many examples hypothesis tries: all of them once a day, a tenth of them in every other run of the tests.

Each run tries other ones, so a tenth of them finds in ten changes what all find in a night.
"""

from __future__ import annotations

import os

from hypothesis import settings

PROFILE = "NFV_TESTS_PROFILE"
"""The environment variable that chooses: "gate", which is the default, or "daily"."""
_ALL = 100
_FEWEST = 5
"""Of a test: the first ones that hypothesis tries are its simplest."""


def choose_profile() -> None:
    """Load the profile of the environment; without deadlines: a shared machine says nothing about an example's time."""
    settings.register_profile("daily", deadline=None, max_examples=_ALL)
    settings.register_profile("gate", deadline=None, max_examples=_ALL // 10)
    settings.load_profile(os.environ.get(PROFILE) or "gate")


def examples(daily: int) -> int:
    """How many examples a test tries, of so many a day: ``@settings(max_examples=examples(300))``."""
    return min(daily, max(_FEWEST, daily * settings().max_examples // _ALL))
