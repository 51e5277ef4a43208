"""The run's time limit: no test begins after it, and repeats take nothing that the tests to come need.

Such a run measures first what an SLA judges: if the time is not enough, figures that nobody judges are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_nfvperf.model.measure.profile import Profile, plan_search_s
from pytest_nfvperf.plugin.labels import is_measuring, subject_labels
from pytest_nfvperf.session.run import NfvSession

NOT_BEGUN_KEY = pytest.StashKey[bool]()
_FUNCTIONAL_S, _AROUND_SOAK_S = 2.0, 15.0
_OF_BUDGET = 1 / 3
"""A comparison that is clear at once takes this part of its budget."""


def expected_s(item: pytest.Item, profile: Profile) -> float:
    """Seconds that a test takes on a quiet machine, by the fixtures that it measures with."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return (
        ("search" in fixtures) * plan_search_s(profile, latency=True)
        + ("study" in fixtures) * profile.comparison_budget_s * _OF_BUDGET
        + ("soak" in fixtures) * (profile.soak_s + _AROUND_SOAK_S)
    ) or _FUNCTIONAL_S


def put_judged_first(items: list[pytest.Item], session: NfvSession) -> None:
    """Measure figures that no requirement judges after all others; tests that measure none keep their place."""
    own = session.backend.labels()

    def is_unjudged(item: pytest.Item) -> bool:
        figures = {"search", "study", "soak"} & set(getattr(item, "fixturenames", ()))
        if not (is_measuring(item) and figures):
            return False
        rules = [rule.without_class() for rule in session.rules_in_force(item.path)]
        subjects = [own | labels for labels in subject_labels(item, session.profile.name)]
        return not any(rule.matches(labels) for rule in rules for labels in subjects)

    items.sort(key=is_unjudged)


class LimitedRun:
    """Passes tests over once the time limit is used up; a plugin of pytest.

    ``earlier_s``: what tests took when they last ran here, by node id.
    """

    def __init__(self, session: NfvSession, items: Sequence[pytest.Item], earlier_s: Mapping[str, float]) -> None:
        self._session = session
        self._needed_s = {
            item.nodeid: earlier_s.get(item.nodeid, expected_s(item, session.profile))
            for item in items
            if is_measuring(item)
        }

    def begins(self, item: pytest.Item) -> bool:
        """Whether there is time to begin this test; reserves the time of those after it."""
        limit = self._session.time_limit
        self._needed_s.pop(item.nodeid, None)
        limit.reserved_s = sum(self._needed_s.values())
        if over := limit.is_over:
            item.stash[NOT_BEGUN_KEY] = True
            self._session.not_begun += 1
        return not over

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return item.stash.get(NOT_BEGUN_KEY, None)
