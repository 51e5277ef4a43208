"""A third party's project that uses the public API alone: its suite, its fixtures, its backend."""

from __future__ import annotations

from user_project import make_project

CONFTEST = """
import pytest
import pytest_nfvperf as nfv
from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]


def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(capacity_fps=4e6))


@pytest.fixture
def smart_nic(nfv_session):
    raise nfv.UnavailableError("no smart NIC in this testbed: name one in the testbed file")
"""

SUITE = """
import pytest_nfvperf as nfv
from pytest_nfvperf.parts import endpoint, patch, path

EDGE = nfv.compose("edge", endpoint("p0", "a"), patch("a", "b"), endpoint("p1", "b"), path("p0", "p1"))


@nfv.sweep("frame_size", [64, 128, 256])
def test_all_values(frame_size, deploy, search):
    outcome = search.loss_at(deploy(EDGE), nfv.Traffic(frame_size=frame_size), 1e6, 1.0)
    assert isinstance(outcome, nfv.results.Outcome)


@nfv.chosen("frame_size, flows", [(64, 1), (64, 100)])
def test_all_cases(frame_size, flows, phy2phy):
    assert isinstance(phy2phy, nfv.LiveTopology)


@nfv.compares("frame_size", [64, 128, 256])
def test_all_compared(frame_size, profile):
    assert list(frame_size) == [64, 128, 256]


def test_nic(smart_nic):
    raise AssertionError("its fixture is not available")


def test_inside(nfv_session):
    raise nfv.UnavailableError("no such port")
"""


def test_a_third_partys_suite_runs_by_public_names_alone(pytester):
    make_project(pytester, SUITE, CONFTEST)

    result = pytester.runpytest_subprocess("-rs")

    result.assert_outcomes(passed=6, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*SKIPPED*no smart NIC in this testbed: name one in the testbed file*",
            "*SKIPPED*no such port*",
        ]
    )
