"""Beside other people's plugins: exit status, summary, JUnit and evidence say what pytest says."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.model.evidence.conclusion import RunResult, TestResult
from tests.other_plugins import BothRuns, installed, trials_by_test
from tests.plugin.test_run_end import HEADER, ONE_TRIAL, STUBBORN, Start, start

__all__ = ["start"]  # a fixture

HEAD = """
import time

import pytest
from pytest_nfvperf import Traffic

FRAMES = Traffic(frame_size=64)

def loss(search, live, mpps):
    return search.loss_at(live, FRAMES, mpps * 1e6, 1.0)
"""

SUITE = (
    HEAD
    + '''
def test_met(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1))

@pytest.mark.parametrize("mpps", [8, 9])
def test_missed(phy2phy, search, sla, mpps):
    sla.check(loss(search, phy2phy, mpps))

def test_asserts(phy2phy, search):
    assert loss(search, phy2phy, 1).algorithm == "nothing like it"

def test_judged_before_it_asserts(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1))
    assert not "met, and yet it fails"

def test_skips(phy2phy):
    pytest.skip("not today")

@pytest.mark.xfail(reason="known")
def test_expected(phy2phy, search, sla):
    assert not "known"

def test_measures_nothing():
    """No fixture of ours."""
'''
)
SLA = """
schema: 1
rules:
  - require: {loss_ratio: {at: "1 Mpps", limit: "<= 0.1 %"}}
    where: {test: [test_met, test_judged_before_it_asserts]}
  - require: {loss_ratio: {at: "8 Mpps", limit: "<= 0.1 %"}}
    where: {mpps: 8}
  - require: {loss_ratio: {at: "9 Mpps", limit: "<= 0.1 %"}}
    where: {mpps: 9}
"""
FAILED = {"test_missed[8]", "test_missed[9]", "test_asserts", "test_judged_before_it_asserts"}


@pytest.fixture(scope="session")
def others() -> Path:
    """Where their plugins are."""
    return installed()


@pytest.fixture
def both(pytester: pytest.Pytester, others: Path, monkeypatch: pytest.MonkeyPatch) -> BothRuns:
    """Runs pytest with the plugins that a test names, and no others."""
    monkeypatch.setenv("PYTHONPATH", str(others))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COVERAGE_CORE", "ctrace")
    return BothRuns(pytester)


@dataclass(frozen=True)
class Case:
    """A plugin: how it is used, and what shows that it was at work."""

    plugins: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    shows: str = ""
    writes: str = ""
    ini: str = ""


CASES = {
    "tldr": Case(("tldr",)),
    "randomly": Case(("randomly",), shows="Using --randomly-seed=*"),
    "random-order": Case(("random_order",), ("--random-order",), shows="*random-order*"),
    "reverse": Case(("reverse",), ("--reverse",)),
    "cov": Case(("pytest_cov",), ("--cov=mine", "--cov-report=xml"), writes="coverage.xml"),
    "html": Case(("html", "metadata"), ("--html=report.html", "--self-contained-html"), writes="report.html"),
    "sugar": Case(("sugar",), ("--force-sugar",), shows="*mine/test_mine.py*"),
    "instafail": Case(("instafail",), ("--instafail",)),
    "progress": Case(("xdist", "progress"), ("--show-progress",)),
    "pretty": Case(("pretty",)),
    "rich": Case(("rich",), ("--rich",)),
    "json-report": Case(("pytest_jsonreport", "metadata"), ("--json-report",), writes=".report.json"),
    "reportlog": Case(("pytest_reportlog",), ("--report-log=log.jsonl",), writes="log.jsonl"),
    "metadata": Case(("metadata",), ("-v", "--metadata", "who", "me"), shows="metadata: *"),
    "tap": Case(("tap",), ("--tap-combined",), writes="testresults.tap"),
    "github-actions": Case(("pytest_github_actions_annotate_failures",)),
    "env": Case(("env",), ini="env =\n    WHO=me"),
    "dotenv": Case(("dotenv",), ("--envfile=mine/env",)),
    "bdd": Case(("pytest-bdd",), ("--cucumberjson=cucumber.json",), writes="cucumber.json"),
    "datadir": Case(("pytest-datadir",)),
    "ordering": Case(("pytest_ordering",)),
    "profiling": Case(("profiling",), ("--profile",), writes="prof/combined.prof"),
    "clarity": Case(("clarity",), ("-vv",)),
    "icdiff": Case(("icdiff",)),
    "picked": Case(("picked",)),
    "split": Case(("pytest-split",), ("--splits=1", "--group=1")),
    "testmon": Case(("pytest-testmon",), ("--testmon",), writes=".testmondata"),
    "socket": Case(("socket",), ("--allow-unix-socket",)),
    "subtests": Case(("subtests",)),
    "timeout": Case(("timeout",), ("--timeout=60",), shows="timeout: 60.0s"),
    "forked": Case(("pytest_forked",)),
    "parallel": Case(("parallel",)),
    "run-parallel": Case(("run-parallel",)),
    "freezegun": Case(("freezegun",)),
    "custom-exit-code": Case(("custom_exit_code",)),
    "xdist": Case(("xdist",), ("-n", "2")),
    "many at once": Case(
        (
            "asyncio",
            "html",
            "metadata",
            "pytest_cov",
            "pytest_jsonreport",
            "pytest_mock",
            "randomly",
            "rerunfailures",
            "sugar",
            "timeout",
        ),
        ("--cov=mine", "--html=report.html", "--json-report", "--timeout=60"),
        writes="report.html",
    ),
}


MOST_USED = ("cov", "html", "randomly", "timeout", "xdist", "many at once")
"""Of CASES, and below, those that are in the environments of most. The first of them installs all."""
THOROUGH = pytest.mark.thorough("installs other people's plugins, a network away")
DAILY = pytest.mark.daily("plugins that few have beside ours")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name, marks=THOROUGH if name in MOST_USED else DAILY) for name, case in CASES.items()],
)
def test_a_run_says_what_pytest_says(both: BothRuns, case: Case) -> None:
    both.write(SUITE, SLA)
    if case.ini:
        both.pytester.makeini(f"[pytest]\n{case.ini}\n")
    (both.pytester.path / "mine/env").write_text("WHO=me\n")
    compared = both.run(*case.arguments, plugins=case.plugins)
    print(compared.result.stderr.str())

    compared.agree()
    failed = {node.rpartition("::")[2] for node, outcome in compared.pytest["tests"].items() if outcome == "failed"}
    assert failed == FAILED
    assert compared.result.ret == 1
    if case.shows:
        compared.result.stdout.fnmatch_lines([case.shows])
    if case.writes:
        assert (both.pytester.path / case.writes).is_file()


OTHERWISE_THE_SECOND_TIME = (
    HEAD
    + """
TRIED = []

def again(what):
    TRIED.append(what)
    return TRIED.count(what) > 1

def test_met(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1))

def test_met_the_second_time(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1 if again("sla") else 8))

def test_asserts_the_first_time(phy2phy, search):
    outcome = loss(search, phy2phy, 1)
    assert again("assertion")

@pytest.fixture
def unsteady(phy2phy, search):
    loss(search, phy2phy, 1)
    if not again("fixture"):
        raise RuntimeError("not yet")
    return phy2phy

def test_fixture_the_second_time(unsteady, search):
    loss(search, unsteady, 1)

def test_never_met(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 8))

def test_never_passes(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1))
    assert not "met, and yet it fails"
"""
)

EITHER = """
schema: 1
rules:
  - require: {loss_ratio: "<= 0.1 %"}
    where: {test: [test_met_the_second_time, test_never_met, test_met, test_never_passes]}
"""


@pytest.mark.parametrize(
    ("plugins", "arguments", "refixes"),
    [
        pytest.param(("rerunfailures",), ("--reruns=2",), True, marks=THOROUGH),
        pytest.param(  # xdist gives workers the path that its own interpreter began with
            ("xdist", "rerunfailures"), ("--reruns=2", "-n1"), True, marks=[THOROUGH, pytest.mark.own_interpreter]
        ),
        pytest.param(("pytest-retry",), ("--retries=2",), False, marks=DAILY),
        pytest.param(("flaky",), ("--force-flaky", "--max-runs=3"), True, marks=DAILY),
    ],
    ids=["rerunfailures", "rerunfailures-xdist", "retry", "flaky"],
)
def test_the_last_attempt_at_a_test_decides(
    both: BothRuns, plugins: tuple[str, ...], arguments: tuple[str, ...], refixes: bool
) -> None:
    """All trials belong to their test; JUnit has one testcase, of the last attempt."""
    both.write(OTHERWISE_THE_SECOND_TIME, EITHER)
    compared = both.run(*arguments, plugins=plugins)

    compared.agree()
    results = {test.node_id.rpartition("::")[2]: test.result for test in compared.conclusion.tests}
    assert results == {
        "test_met": TestResult.PASSED,
        "test_met_the_second_time": TestResult.PASSED,
        "test_asserts_the_first_time": TestResult.PASSED,
        "test_fixture_the_second_time": TestResult.PASSED if refixes else TestResult.BROKEN,
        "test_never_met": TestResult.FAILED,
        "test_never_passes": TestResult.FAILED,
    }
    tests = {test.node_id.rpartition("::")[2]: test for test in compared.evidence.tests.values() if test.node_id}
    assert {name: len(test.earlier) for name, test in tests.items()} == {
        "test_met": 0,
        "test_met_the_second_time": 1,
        "test_asserts_the_first_time": 1,
        "test_fixture_the_second_time": 1 if refixes else 0,
        "test_never_met": 2,
        "test_never_passes": 2,
    }
    counts = {name.rpartition("::")[2]: count for name, count in trials_by_test(compared).items()}
    one = counts["test_met"]
    assert counts == {
        "test_met": one,
        "test_met_the_second_time": 2 * one,
        "test_asserts_the_first_time": 2 * one,
        "test_fixture_the_second_time": 3 * one if refixes else one,
        "test_never_met": 3 * one,
        "test_never_passes": 3 * one,
    }


SLOW = """
import time
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.measure.clocks import VirtualClock

class Slow(VirtualClock):
    def sleep(self, seconds):
        if seconds >= 100:
            time.sleep(seconds)
        super().sleep(seconds)

class Backend(SimulatedBackend):
    def __init__(self, testbed):
        super().__init__(testbed, self.make)
        self.clock = Slow()

    def make(self):
        with open("made.txt", "a") as made:
            made.write("generator\\n")
        return FakeGenerator(4e6, clock=self.clock)

def pytest_nfvperf_make_backend(config, testbed):
    return Backend(testbed)
"""
NEXT = """
schema: 1
rules:
  - require: {loss_ratio: "<= 0.1 %"}
    where: {test: test_next}
"""
TOO_LONG = (
    HEAD
    + """
@pytest.mark.parametrize("number", range(3))
def test_too_long(phy2phy, search, number):
    search.loss_at(phy2phy, FRAMES, 1e6, 100.0)

def test_next(phy2phy, search, sla):
    sla.check(loss(search, phy2phy, 1))
"""
)


@THOROUGH
@pytest.mark.parametrize("arguments", [(), ("-o", "timeout_func_only=true")], ids=["whole test", "its function"])
def test_a_time_limit_in_the_middle_of_a_trial_spoils_no_other_test(both: BothRuns, arguments: tuple[str, ...]) -> None:
    """What was broken off is started anew, more often than a testbed that breaks; a limit says nothing of the DUT."""
    both.write(TOO_LONG, NEXT, backend=SLOW)
    compared = both.run("--timeout=1.5", *arguments, plugins=("timeout",))

    compared.agree()
    results = {test.node_id.rpartition("::")[2]: test.result for test in compared.conclusion.tests}
    assert results == {"test_next": TestResult.PASSED} | {
        f"test_too_long[{number}]": TestResult.INCONCLUSIVE for number in range(3)
    }
    assert compared.result.ret == 10
    compared.result.stdout.fnmatch_lines(["*Timeout (>1.5s) from pytest-timeout*"])
    assert (both.pytester.path / "made.txt").read_text().count("generator") == 4


@THOROUGH
def test_a_time_limit_by_a_thread_ends_the_run_which_its_evidence_says(both: BothRuns) -> None:
    both.write(TOO_LONG, NEXT, backend=SLOW)
    result = both.pytester.runpytest_subprocess(
        "-p", "nfvperf", "-p", "timeout", "--timeout=1.5", "--timeout-method=thread"
    )

    assert result.ret == 1  # pytest-timeout's own os._exit
    conclusion = conclude(read_run(both.pytester.path / "reports/latest"))
    assert conclusion.result is RunResult.KILLED
    assert {test.result for test in conclusion.tests} == {TestResult.UNFINISHED, TestResult.NOT_RUN}


@THOROUGH
def test_ctrl_c_ends_a_run_in_order_whatever_took_its_alarm_before(
    pytester: pytest.Pytester, others: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest-timeout has SIGALRM during each test that has a limit, and leaves it deadly for what comes after it."""
    monkeypatch.syspath_prepend(str(others))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    without_limit = STUBBORN.replace("MANY", "3").replace("def test", "@pytest.mark.timeout(0)\ndef test")
    suite = f"{HEADER}def test_first(phy2phy, search):\n    {ONE_TRIAL}\n{without_limit}"
    process = start(suite, "-p", "nfvperf", "-p", "timeout", "--timeout=60")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "\nstopping: Ctrl-C" in output
    assert (pytester.path / "reports" / "latest" / "report.html").exists()


@DAILY
def test_the_status_is_ours_also_where_a_plugin_would_have_failures_succeed(both: BothRuns) -> None:
    both.write(SUITE, SLA)
    compared = both.run("--suppress-tests-failed-exit-code", plugins=("custom_exit_code",))

    assert compared.result.ret == compared.conclusion.exit_status == 1


RELATED = (
    HEAD
    + """
@pytest.mark.parametrize("mpps", [1, 2, 3])
def test_related(phy2phy, search, sla, mpps):
    sla.check(search.ndr_pdr(phy2phy, FRAMES))
"""
)
RELATION = """
schema: 1
rules:
  - require: {pdr: ">= 90 % of {mpps: 2}"}
    where: {mpps: [1, 3]}
"""


@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        pytest.param("reverse", ("--reverse",), marks=DAILY),
        pytest.param("randomly", ("-p", "randomly", "--randomly-seed=7"), marks=THOROUGH),
        pytest.param("random_order", ("--random-order",), marks=DAILY),
    ],
)
def test_the_other_side_of_a_relation_is_measured_first_in_any_order(
    both: BothRuns, plugin: str, arguments: tuple[str, ...]
) -> None:
    both.write(RELATED, RELATION)
    compared = both.run(*arguments, plugins=(plugin,))

    compared.agree()
    assert [test.result for test in compared.conclusion.tests] == [TestResult.PASSED] * 3
    first = next(node_id for node_id in compared.pytest["tests"])
    assert first.endswith("test_related[2]")


REFUSED = {
    "forked": Case(("pytest_forked",), ("--forked",), shows="*--forked of pytest-forked runs it in a child of pytest*"),
    "forked mark": Case(("pytest_forked",), shows="*its mark forked of pytest-forked runs it in a child of pytest*"),
    "parallel": Case(("parallel",), ("--tests-per-worker=2",), shows="*--tests-per-worker of pytest-parallel runs*"),
    "run-parallel": Case(("run-parallel",), ("--parallel-threads=2",), shows="*--parallel-threads of pytest-run-par*"),
    "iterations": Case(
        ("run-parallel",), ("--iterations=2",), shows="*--iterations of pytest-run-parallel runs it in*"
    ),
    "socket": Case(("socket",), ("--disable-socket",), shows="*--disable-socket by pytest-socket.*enable_socket*"),
    "hosts": Case(("socket",), ("--allow-hosts=127.0.0.1",), shows="*pytest-socket allows it some hosts alone*"),
    "freezegun": Case(("freezegun",), shows="*its clock is frozen (mark freeze_time, fixture freezer)*"),
}
MARKED = {"forked mark": "forked", "freezegun": "freeze_time('2026-01-01')"}


# pytest-parallel needs the package py; an interpreter that has imported pytest has pytest's own stand-in for it.
OWN = {"parallel": (pytest.mark.own_interpreter,)}


@DAILY
@pytest.mark.parametrize("name", [pytest.param(name, marks=OWN.get(name, ())) for name in REFUSED])
def test_where_nothing_can_be_measured_the_run_is_refused_before_it(both: BothRuns, name: str) -> None:
    case = REFUSED[name]
    mark = f"@pytest.mark.{MARKED[name]}\n" if name in MARKED else ""
    both.write(f"{HEAD}\n{mark}def test_met(phy2phy, search):\n    loss(search, phy2phy, 1)\n")
    compared = both.run(*case.arguments, plugins=case.plugins)

    assert compared.result.ret == pytest.ExitCode.USAGE_ERROR
    compared.result.stderr.fnmatch_lines(
        [
            "*mine/test_mine.py::test_met cannot be measured: *",
        ],
        consecutive=False,
    )
    compared.result.stderr.fnmatch_lines([case.shows])
    assert not trials_by_test(compared)
    assert {test.result for test in compared.conclusion.tests} == {TestResult.NOT_RUN}


REPEATED = (
    HEAD
    + """
def test_met(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, FRAMES))
"""
)


@DAILY
@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [("repeat", ("--count=2",)), ("flakefinder", ("--flake-finder", "--flake-runs=2"))],
)
def test_each_repeat_of_a_test_is_judged_by_the_baseline_of_that_test(
    both: BothRuns, plugin: str, arguments: tuple[str, ...]
) -> None:
    """Which repeat it was is another plugin's own parameter, and no label; a run of repeats is a baseline, too."""
    both.write(REPEATED, 'schema: 1\nrules:\n  - require: {pdr: ">= 97 % of baseline"}\n')
    first = both.run("--nfv-results=once", plugins=())
    assert first.result.ret == 10
    against_one = both.run("--nfv-baseline=once/latest", *arguments, plugins=(plugin,))
    against_one.agree()
    assert [test.result for test in against_one.conclusion.tests] == [TestResult.PASSED] * 2
    against_two = both.run("--nfv-baseline=reports/latest", *arguments, plugins=(plugin,))
    against_two.agree()
    assert against_two.result.ret == 0
    for test in against_two.evidence.tests.values():
        assert not [name for name, _ in test.data.labels if name.startswith("_")]


FEATURE = """
Feature: loss
  Scenario Outline: no loss
    Given a load of <mpps> Mpps
    Then nothing is lost
    Examples:
      | mpps |
      | 1    |
      | 8    |
"""
USES = {
    "bdd": (
        Case(("pytest-bdd",)),
        """
from pytest_bdd import given, parsers, scenario, then

@scenario("loss.feature", "no loss")
def test_no_loss(phy2phy):
    pass

@given(parsers.parse("a load of {mpps:d} Mpps"), target_fixture="outcome")
def _(search, phy2phy, mpps):
    return loss(search, phy2phy, mpps)

@then("nothing is lost")
def _(outcome):
    assert all(point.loss_ratio == 0 for point in outcome.loss_curve)
""",
        {"test_no_loss[1]": "passed", "test_no_loss[8]": "failed"},
    ),
    "check": (
        Case(("check",)),
        """
def test_soft(phy2phy, search, check):
    loss(search, phy2phy, 1)
    check.equal(1, 2)
    check.equal(2, 3)
""",
        {"test_soft": "failed"},
    ),
    "subtests": (
        Case(()),
        """
def test_sub(phy2phy, search, subtests):
    for mpps in (1, 2):
        with subtests.test(mpps=mpps):
            loss(search, phy2phy, mpps)
            assert mpps == 1

def test_all_pass(phy2phy, search, subtests):
    with subtests.test(mpps=1):
        loss(search, phy2phy, 1)
""",
        {"test_sub": "failed", "test_all_pass": "passed"},
    ),
    "asyncio": (
        Case(("asyncio",), ("--asyncio-mode=auto",)),
        """
async def test_async(phy2phy, search):
    loss(search, phy2phy, 1)

async def test_async_fails(phy2phy, search):
    assert loss(search, phy2phy, 1) is None
""",
        {"test_async": "passed", "test_async_fails": "failed"},
    ),
    "anyio": (
        Case(("anyio",)),
        """
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_async(phy2phy, search):
    loss(search, phy2phy, 1)
""",
        {"test_async": "passed"},
    ),
    "dependency": (
        Case(("dependency",)),
        """
@pytest.mark.dependency
def test_first(phy2phy, search):
    assert loss(search, phy2phy, 1) is None

@pytest.mark.dependency(depends=["test_first"])
def test_second(phy2phy, search):
    loss(search, phy2phy, 1)
""",
        {"test_first": "failed", "test_second": "skipped"},
    ),
    "order": (
        Case(("pytest_order",)),
        """
@pytest.mark.order(2)
def test_second(phy2phy, search):
    loss(search, phy2phy, 1)

@pytest.mark.order(1)
def test_first(phy2phy, search):
    loss(search, phy2phy, 1)
""",
        {"test_first": "passed", "test_second": "passed"},
    ),
    "mock": (
        Case(("pytest_mock",)),
        """
def test_mocked(phy2phy, search, mocker):
    mocker.patch("os.getcwd", return_value="/")
    loss(search, phy2phy, 1)
""",
        {"test_mocked": "passed"},
    ),
    "benchmark": (
        Case(("benchmark",), ("--benchmark-disable-gc",)),
        """
def test_timed(phy2phy, search, benchmark):
    benchmark.pedantic(loss, args=(search, phy2phy, 1), rounds=2)
""",
        {"test_timed": "passed"},
    ),
    "lazy-fixtures": (
        Case(("pytest_lazyfixture",)),
        """
from pytest_lazy_fixtures import lf

@pytest.mark.parametrize("live", [lf("phy2phy")])
def test_lazy(live, search):
    loss(search, live, 1)
""",
        {"test_lazy[phy2phy]": "passed"},
    ),
    "harvest": (
        Case(("xdist", "harvest")),
        """
def test_bag(phy2phy, search, results_bag):
    results_bag.outcome = loss(search, phy2phy, 1)

def test_read(module_results_dct):
    assert module_results_dct["test_bag"]["status"] == "passed"
""",
        {"test_bag": "passed", "test_read": "passed"},
    ),
    "retry delays": (
        Case(("rerunfailures",), ("--reruns=1", "--only-rerun=TestbedError")),
        """
def test_not_rerun(phy2phy, search):
    assert loss(search, phy2phy, 1) is None
""",
        {"test_not_rerun": "failed"},
    ),
}


@DAILY
@pytest.mark.parametrize("name", USES)
def test_what_a_plugin_gives_a_test_is_told_as_pytest_tells_it(both: BothRuns, name: str) -> None:
    case, suite, expected = USES[name]
    both.write(HEAD + suite)
    (both.pytester.path / "mine/loss.feature").write_text(FEATURE)
    compared = both.run(*case.arguments, plugins=case.plugins)

    compared.agree()
    assert {node.rpartition("::")[2]: told for node, told in compared.pytest["tests"].items()} == expected
