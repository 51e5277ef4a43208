"""Whose fault an error is, and what is no result: a test's own code, a conftest's hook, a body that nobody ran."""

from __future__ import annotations

import pytest
from user_project import CONFTEST

from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.features.bisect.command import Judged, _judged
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult, TestResult

SIMULATED = """
from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(3.8e6))
"""
HEAD = "import pytest\nfrom pytest_nfvperf import Traffic, compose, sweep\n"
MEASURES = HEAD + "def test_a(phy2phy, search, sla):\n    sla.check(search.ndr_pdr(phy2phy, Traffic()))\n"
SLA = "schema: 1\nrules:\n  - require: {ndr: '>= 4 Mpps'}\n"
TAKES_OVER = """
from _pytest.runner import call_and_report

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for phase in {phases}:
        call_and_report(item, phase, log=True, **({{"nextitem": nextitem}} if phase == "teardown" else {{}}))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""


def write(pytester: pytest.Pytester, suite: str = MEASURES, conftest: str = "", sla: str = SLA) -> None:
    pytester.makeconftest(CONFTEST + SIMULATED + conftest)
    folder = pytester.mkdir("mine")
    (folder / "test_mine.py").write_text(suite)
    (folder / "sla.yaml").write_text(sla)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--nfv-report", "none", *(arguments or ("mine",)))


def concluded(pytester: pytest.Pytester) -> RunConclusion:
    return conclude(read_run(pytester.path / "reports/latest"))


@pytest.mark.parametrize(
    "option", ["--setup-plan", "--setup-only", "--collect-only", "--fixtures", "--fixtures-per-test"]
)
def test_a_run_that_runs_no_test_leaves_no_results_to_resume(pytester, option):
    write(pytester)

    assert run(pytester, "mine", option).ret == 0
    assert not (pytester.path / "reports").exists()


@pytest.mark.parametrize("phases", [[], ["setup", "teardown"]], ids=["no phase", "no body"])
def test_a_test_whose_body_a_hook_left_out_has_no_result(pytester, phases):
    write(pytester, conftest=TAKES_OVER.format(phases=phases))

    result = run(pytester)

    conclusion = concluded(pytester)
    assert (result.ret, conclusion.result) == (RunResult.INTERRUPTED.exit_status, RunResult.INTERRUPTED)
    assert [test.result for test in conclusion.tests] == [TestResult.NOT_RUN]
    result.stdout.fnmatch_lines(["nfvperf: 1 test not run: its body did not run: *pytest_runtest_protocol*"])
    pytester.makeconftest(CONFTEST + SIMULATED)
    resumed = run(pytester, "mine", "--nfv-resume", "reports/latest")
    assert resumed.ret == RunResult.FAILED.exit_status  # measured, and judged


ERRORS = {
    "key": "def test_a(phy2phy, search, sla):\n    {}['x']\n",
    "after the measurement": (
        "def test_a(phy2phy, search, sla):\n    search.ndr_pdr(phy2phy, Traffic())\n    nosuch\n"
    ),
    "type": "def test_a(nfv_session):\n    len(3)\n",
}


@pytest.mark.parametrize("suite", ERRORS.values(), ids=ERRORS)
def test_what_is_no_assertion_is_an_error_of_the_test_and_no_verdict_on_the_dut(pytester, suite):
    write(pytester, HEAD + suite)

    result = run(pytester)

    conclusion = concluded(pytester)
    assert (result.ret, conclusion.result) == (1, RunResult.ERROR)
    assert [test.badge for test in conclusion.tests] == ["ERROR"]
    assert "change the DUT" not in conclusion.last_line
    assert _judged(conclusion)[0] is Judged.CANNOT_TELL


@pytest.mark.parametrize(
    "check", ["assert 1 == 2", "pytest.fail('no')", "raise ExceptionGroup('both', [AssertionError(1), KeyError(2)])"]
)
def test_a_check_of_the_test_fails_it(pytester, check):
    write(pytester, HEAD + f"def test_a(nfv_session):\n    {check}\n")

    assert run(pytester).ret == 1
    assert concluded(pytester).result is RunResult.FAILED


def test_a_missed_sla_counts_although_the_test_then_goes_wrong(pytester):
    caught = (
        "    try:\n        sla.check(search.ndr_pdr(phy2phy, Traffic()))\n    except AssertionError:\n        {}[1]\n"
    )
    write(pytester, HEAD + "def test_a(phy2phy, search, sla):\n" + caught)

    run(pytester)

    assert concluded(pytester).result is RunResult.FAILED


def test_a_misspelt_fixture_is_a_usage_error_with_the_nearest(pytester):
    write(pytester, MEASURES.replace("def test_a(phy2phy", "def test_a(phy2phi"))

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stdout.fnmatch_lines(["E       fixture 'phy2phi' not found, did you mean 'phy2phy'?", "USAGE *phy2phi*"])
    result.stdout.no_fnmatch_line("*fault of nfvperf*")


MODULES = {
    "compose": ("X = compose(7)\n", "*(mine/test_mine.py:3)*"),
    "argument": ("X = Traffic(frame_sise=64)\n", "*did you mean 'frame_size'?*(mine/test_mine.py:3)*"),
    "values": ("@sweep('frame_size', '64')\n", "*(mine/test_mine.py:3)*"),
}


@pytest.mark.parametrize(("line", "shown"), MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
def test_a_module_that_misuses_a_call_is_a_usage_error_at_its_line(pytester, line, shown, others):
    write(pytester, MEASURES.replace("def test_a", f"{line}def test_a"))
    if others:
        (pytester.path / "mine/test_other.py").write_text(MEASURES)

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stdout.fnmatch_lines([f"usage error: {shown}", f"nfvperf: Usage error*{shown}(exit status 4)"])
    result.stdout.no_fnmatch_line("*/model/*.py:*")


def test_an_import_that_is_not_there_stays_pytests_own_error(pytester):
    write(pytester, "import nosuchmodule\n" + MEASURES)

    result = run(pytester)

    assert result.ret == 2
    result.stdout.fnmatch_lines(["E   ModuleNotFoundError: No module named 'nosuchmodule'"])


def test_a_hook_of_the_conftest_that_raises_is_a_usage_error_at_its_line(pytester):
    hook = "\ndef pytest_nfvperf_make_backend(config, testbed):\n    return nosuch\n"
    write(pytester, conftest=hook)

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stderr.fnmatch_lines(["ERROR: conftest.py:*: NameError: name 'nosuch' is not defined"])


@pytest.mark.parametrize("load", ["1e12", "float('inf')", "10**12"])
@pytest.mark.parametrize(
    "call", ["search.loss_at(phy2phy, Traffic(), {}, 1.0)", "soak.run(phy2phy, Traffic(), load_fps={})"]
)
def test_a_load_that_no_port_sends_is_a_usage_error(pytester, call, load):
    write(pytester, HEAD + f"def test_a(phy2phy, search, soak):\n    {call.format(load)}\n")

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stdout.fnmatch_lines(["usage error: *load_fps is *"])


def test_a_refused_run_counts_the_tests_that_are_still_selected(pytester):
    needs = "@pytest.mark.nfv_needs('nosuch')\n@pytest.mark.parametrize('n', [1, 2, 3])\n"
    write(pytester, MEASURES.replace("def test_a(", f"{needs}def test_a(n, "))

    result = run(pytester, "mine", "-k", "a and 1")

    assert result.ret == RunResult.USAGE.exit_status
    result.stdout.fnmatch_lines(["nfvperf: Usage error: of 1 selected test 1 not run.*"])
