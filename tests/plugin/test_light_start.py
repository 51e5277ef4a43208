"""Every pytest run of an environment loads the plugin: one that measures nothing loads no more of it than hooks."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.own_interpreter

CONFTEST = """
import sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    print("\\nloaded:", *sorted(name for name in sys.modules if name.startswith("pytest_nfvperf")))
"""


def loaded(result: pytest.RunResult) -> set[str]:
    (line,) = (line for line in result.outlines if line.startswith("loaded: "))
    return set(line.split()[1:])


def test_a_run_that_measures_nothing_loads_hooks_only(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_nothing(): pass")

    result = pytester.runpytest_subprocess("-s")

    result.assert_outcomes(passed=1)
    names = loaded(result)
    assert "pytest_nfvperf.plugin.hooks" in names
    heavy = ("adapters", "backends", "config", "measure", "session.run", "model.measure.outcome", "model.traffic")
    assert not {name for name in names if name.startswith(tuple(f"pytest_nfvperf.{one}" for one in heavy))}


def test_one_that_measures_loads_what_it_needs(suite):
    suite.makeconftest(CONFTEST + 'pytest_plugins = ["pytest_nfvperf.fixtures.all"]\n')

    result = suite.runpytest_subprocess("-s", "--nfv-plan")

    assert {"pytest_nfvperf.session.run", "pytest_nfvperf.backends.simulated"} <= loaded(result)
