"""Each test's record says what the test spent its time on; ``nfvperf show --times`` and the report show it."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, records

from pytest_nfvperf.cli.main import main

HURRIED = """
import time
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Hurried:
    "Real time, in which everybody sleeps a hundredth of what was asked for."
    monotonic, time_ns = staticmethod(time.monotonic), staticmethod(time.time_ns)

    def sleep(self, seconds):
        time.sleep(seconds / 100)

class Backend(SimulatedBackend):
    def __init__(self, testbed, make_generator):
        super().__init__(testbed, make_generator)
        self.clock = Hurried()

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed, lambda: FakeGenerator(4e6))
"""


def test_the_spans_of_a_test_are_its_seconds(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    suite.makeconftest(CONFTEST + HURRIED)

    suite.runpytest("--nfv-report", "html").assert_outcomes(passed=1, deselected=1)

    (end,) = records(suite.path, "test_end")
    times = end["data"]["times"]
    assert set(times) == {"trials", "warm_up", "ceiling", "building", "waiting", "other"}
    assert sum(times.values()) == pytest.approx(end["data"]["seconds"], abs=0.5)
    trials = [each["data"] for each in records(suite.path, "trial")]
    assert not any(each["result"]["invalid"] for each in trials)
    by_trials = sum(each["wall_s"] for each in trials)
    assert times["trials"] + times["warm_up"] + times["waiting"] == pytest.approx(by_trials, rel=0.25)
    # At least what the simulated testbed takes: 2 s to start, 0.5 s to build; 4 s for a ceiling, 0.5 s to rebuild.
    assert times["building"] >= 0.025
    assert times["ceiling"] >= 0.045
    assert main(["show", "--times", str(suite.path / "reports/latest")]) == 0
    shown = capsys.readouterr().out
    assert "mine/ndr_pdr[64]" in shown
    assert f"{sum(times.values()):.1f}" in shown.splitlines()[-1]
    page = (suite.path / "reports/latest/report.html").read_text()
    assert "Where the time went" in page
