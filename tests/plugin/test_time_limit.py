"""A run with a time limit, on a simulated DUT whose time passes as fast as its trials are sent."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""

SUITE = """
import pytest
from pytest_nfvperf import Traffic

@pytest.mark.parametrize("frame_size", [64, 128, 256, 512])
def test_rate(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
"""

SLA = "schema: 1\nrules:\n  - where: {frame_size: 256}\n    require: {ndr: '>= 1 Mpps'}\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    made = make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (made.path / "mine/sla.yaml").write_text(SLA)
    return made


def test_a_run_names_what_had_not_begun_at_its_limit_and_is_not_accepted(project: pytest.Pytester) -> None:
    """Each search takes some 12 s here. Verify: what the SLA judges came first, the report is whole, exit status 10."""
    result = project.runpytest_subprocess("--nfv-time-limit", "20 s", "--junitxml", "junit.xml")

    assert result.ret == 10
    began = [record["test"].partition("::")[2] for record in records(project.path, "test")]
    assert began[0] == "test_rate[256]"  # which the SLA judges
    (end,) = records(project.path, "run_end")
    assert end["data"]["time_limit_s"] == 20
    result.stdout.fnmatch_lines(["nfvperf: not begun, out of time: *rate?512?*"])
    result.stdout.re_match_lines([r"nfvperf: Inconclusive: of 4 selected tests .*not run.*--nfv-time-limit"])
    page = (project.path / "reports/latest/report.html").read_text()
    assert "the time limit of 20.0 s was used up" in page


def test_a_run_that_was_out_of_time_is_resumed_to_its_end(project: pytest.Pytester) -> None:
    assert project.runpytest_subprocess("--nfv-report", "none", "--nfv-time-limit", "20 s").ret == 10

    resumed = project.runpytest_subprocess("--nfv-report", "none", "--nfv-resume", "reports/latest")

    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines(["nfvperf: Accepted: the one requirement met, all 4 selected tests passed*"])


def test_a_plan_says_that_the_limit_is_too_short_for_it(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("--nfv-plan", "--nfv-time-limit", "20 s")

    result.stdout.fnmatch_lines(["the time limit of 20.0 s is less: the last tests will not begin"])


def test_the_ini_file_has_a_limit_which_the_command_line_replaces(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nnfv_time_limit = 20 s\n")

    assert project.runpytest_subprocess("--nfv-report", "none").ret == 10
    assert project.runpytest_subprocess("--nfv-report", "none", "--nfv-time-limit", "5 min").ret == 0


@pytest.mark.parametrize("limit", ["soon", "1 s", "10"])
def test_a_limit_that_is_none_is_refused_before_anything_is_measured(project: pytest.Pytester, limit: str) -> None:
    result = project.runpytest_subprocess("--nfv-time-limit", limit)

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--nfv-time-limit*"])
    assert not records(project.path, "trial")
