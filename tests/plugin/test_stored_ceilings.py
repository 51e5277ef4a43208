"""A rig's ceiling that was kept from a disturbed moment does not bound searches for good."""

from __future__ import annotations

import pytest

from tests.plugin.test_mistakes import project
from tests.plugin.test_repeat import SEARCH

KEPT_LOW = """
from pytest_nfvperf.backends import simulated

class KeptLow(simulated.SimulatedCeilings):
    kept = 3e6

    def cached(self, traffic, directions):
        return self.kept

    def measure(self, traffic, directions):
        print("measured anew")
        KeptLow.kept = {today}
        return KeptLow.kept

simulated.SimulatedCeilings = KeptLow
"""


@pytest.mark.parametrize(
    ("today", "result"),
    [("9e6", "*PDR 3.99 Mpps*"), ("3.1e6", "*PDR ≥ 3.00 Mpps*"), ("2e6", "*PDR ≥ 3.00 Mpps*")],
)
def test_a_search_that_ends_at_it_measures_it_anew(pytester: pytest.Pytester, today: str, result: str) -> None:
    project(pytester, SEARCH)
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + KEPT_LOW.format(today=today))
    done = pytester.runpytest_subprocess("--nfv-report", "none", "-s")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines([result])
    assert done.stdout.str().count("measured anew") == 1
