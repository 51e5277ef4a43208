"""Six places tell the same of a run: terminal, HTML page, ``nfvperf show``, JUnit, Allure and the exit status.

Each combination is a real pytest run on the simulated testbed. What is expected is written here by hand, and is not
taken from the function that decides.
"""

from __future__ import annotations

import signal
from html import unescape

import pytest
from truth_support import (
    CASES,
    ENDS,
    ENDS_LATE,
    ENDS_WITHIN,
    HEAD,
    SIMULATED,
    Reported,
    check_run,
    check_test,
    headline_of,
    read,
    run_cases,
)
from user_project import CONFTEST, make_project

ALL = (
    "Internal error: of 15 selected tests 1 internal error, 1 usage error, 2 testbed broken, 5 failed, 2 inconclusive, "
    "1 failed as expected, 1 skipped, 2 passed"
)

ONE = "schema: 1\nname: one\ndut: {ovs: {instance: private, datapath: netdev}}\ngenerator: {engine: embedded}\n"


MORE = pytest.mark.thorough("test_together has this case, or its exit status")
IN_THE_GATE = {"test_pass", "test_fail", "test_bound", "test_tolerated", "test_usage", "test_unjudged"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in IN_THE_GATE else MORE) for name in CASES])
def test_alone(pytester: pytest.Pytester, name: str) -> None:
    case = CASES[name]
    reported = run_cases(pytester, [name], *case.options)
    check_run(reported, case.run, case.status)
    check_test(reported, name, case)
    assert ("Accepted" in headline_of(reported.page)) == (name == "test_pass")
    if name == "test_fail":
        assert "mine/test_mine.py::test_fail: ndr: observed 3.99 Mpps, limit >= 5 Mpps." in reported.last_line


@pytest.mark.parametrize(
    ("names", "head", "status"),
    [
        (
            [name for name in CASES if not CASES[name].options],
            ALL,
            3,
        ),
        (["test_pass", "test_skip"], "1 of 2 selected tests passed, 1 was skipped", 0),
        (["test_fail", "test_bound"], "Failed: of 2 selected tests 1 failed, 1 inconclusive", 1),
        (["test_assert", "test_broken"], "Testbed broken: of 2 selected tests 1 testbed broken, 1 failed", 11),
        (["test_pass", "test_unjudged"], "Accepted: the one requirement met, all 2 selected tests passed", 0),
    ],
    ids=["all", "skipped", "failed", "broken", "accepted"],
)
def test_together(pytester: pytest.Pytester, names: list[str], head: str, status: int) -> None:
    reported = run_cases(pytester, names)
    check_run(reported, head, status)
    for name in names:
        check_test(reported, name, CASES[name])


def test_left_out_after_a_failure(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_assert", "test_pass"], "-x")
    check_run(reported, "Failed: of 2 selected tests 1 failed, 1 not run", 1)
    assert reported.badges["show"]["test_pass"] == reported.badges["page"]["test_pass"] == "not run"
    assert (reported.junit["test_pass"], reported.words["junit"]["test_pass"]) == ("skipped", "not run")
    check_unended(reported, {"test_pass": "skipped"})


def check_unended(reported: Reported, allure: dict[str, str]) -> None:
    """JUnit and Allure say the same of tests that did not end: ``allure`` has the status of each."""
    for name, status in allure.items():
        assert reported.allure[name] == status
        assert reported.words["allure"][name] == reported.words["junit"][name]
        assert reported.reasons["allure"][name] == reported.reasons["junit"][name] != ""


def test_interrupted(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass"], more=ENDS["interrupted"])
    check_run(reported, "Interrupted: of 2 selected tests 1 unfinished, 1 not run", 2)
    for said in (reported.badges["show"], reported.badges["page"], reported.words["junit"], reported.words["allure"]):
        assert said == {"test_end": "unfinished", "test_pass": "not run"}
    check_unended(reported, {"test_end": "broken", "test_pass": "skipped"})
    assert reported.reasons["allure"]["test_end"] == "it had begun when the run ended"


def test_stopped_while_the_report_is_written(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass", "test_assert"], "--maxfail", "9", conftest=ENDS_LATE)
    check_run(reported, "Interrupted: of 2 selected tests 1 failed, 1 passed", 2)
    assert "stopped by SIGINT while the report was written: every test had ended" in reported.last_line
    for name in ("test_pass", "test_assert"):
        check_test(reported, name, CASES[name])


def test_killed(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass"], more=ENDS["killed"])
    assert reported.status == -signal.SIGKILL
    assert reported.show_status == 3
    assert (
        headline_of(reported.page)
        == "Killed: the run did not end by itself: of 2 selected tests 1 unfinished, 1 not run"
    )
    assert reported.badges["show"] == reported.badges["page"] == {"test_end": "unfinished", "test_pass": "not run"}
    assert "`nfvperf clean` removes what the run left" in reported.shown
    assert not reported.junit
    assert not reported.allure


def test_an_ordinary_test_beside_them_counts(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass"], more="def test_plain():\n    assert [1] == [2]\n")
    check_run(reported, "Failed: of 2 selected tests 1 failed, 1 passed", 1)
    assert reported.badges["show"]["test_plain"] == reported.badges["page"]["test_plain"] == "FAIL"


def test_ordinary_tests_alone_are_pytests_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain():\n    assert [1] == [2]\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--junitxml", "junit.xml")
    assert result.ret == 1
    assert "nfvperf:" not in result.stdout.str()
    assert "nfvperf" not in (pytester.path / "junit.xml").read_text()
    assert not (pytester.path / "reports").exists()


def test_what_cannot_be_collected_is_told(pytester: pytest.Pytester) -> None:
    make_project(pytester, HEAD + CASES["test_pass"].source, CONFTEST + SIMULATED)
    (pytester.path / "mine" / "test_typo.py").write_text("import no_such_module\n")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--junitxml", "junit.xml", "--alluredir", "allure", "mine"
    )
    reported = read(pytester.path, int(result.ret), result.stdout.str())
    check_run(reported, "Interrupted: of 2 selected tests 1 usage error, 1 not run", 2)
    assert "1 error during collection" in reported.last_line
    assert "cannot be collected: ModuleNotFoundError: No module named 'no_such_module'" in reported.shown
    assert reported.allure == {"mine/test_typo.py": "broken", "test_pass": "skipped"}
    assert reported.words["allure"] == {"mine/test_typo.py": "usage", "test_pass": "not run"}
    assert "No module named 'no_such_module'" in reported.reasons["allure"]["mine/test_typo.py"]


def test_a_rule_that_judges_nothing_ends_the_run_before_it_begins(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", other="schema: 1\nrules: [{where: {test: test_nobody}, require: {ndr: '>= 1 Mpps'}}]\n")
    reported = run_cases(pytester, ["test_pass", "test_assert"], "--nfv-sla", "other.yaml")
    check_run(reported, "Usage error: of 2 selected tests 2 not run", 4)
    assert "no test matches {test: test_nobody}, so this rule judges nothing" in reported.last_line
    not_run = dict.fromkeys(("test_pass", "test_assert"), "not run")
    assert (
        reported.badges["show"]
        == reported.badges["page"]
        == reported.words["junit"]
        == reported.words["allure"]
        == not_run
    )
    assert set(reported.junit.values()) == {"skipped"}


def test_a_testbed_file_that_cannot_be_used(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_assert"], "--nfv-testbed", "nowhere.yaml")
    check_run(reported, "Usage error", 4)
    assert "nowhere.yaml" in reported.last_line


BAD_OPTIONS = [
    ("--nfv-profile", "gates", "invalid choice: 'gates', did you mean 'gate'? (choose from smoke, quick, gate, "),
    ("--nfv-report", "pdf", "invalid choice: 'pdf' (choose from html, none)"),
    ("--nfv-inconclusive", "pass", "invalid choice: 'pass' (choose from fail, warn)"),
    ("--nfv-soak-duration", "long", "'long'"),
    ("--nfv-soak-duration", "1 ms", "'1 ms' is too short: write at least '1 s'"),
    ("--nfv-soak-load", "0 Mpps", "'0 Mpps' is no load"),
]
ONE_OF_THEM = pytest.mark.thorough("one of them is in make test, and what each says in the unit tests of options")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [BAD_OPTIONS[0], *(pytest.param(*words, marks=ONE_OF_THEM) for words in BAD_OPTIONS[1:])],
)
def test_an_option_that_cannot_be_used(pytester: pytest.Pytester, option: str, value: str, message: str) -> None:
    reported = run_cases(pytester, ["test_assert"], option, value)
    check_run(reported, "Usage error", 4)
    assert f"{option}: {message}" in reported.last_line
    assert message in unescape(reported.page)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(("--nfv-profile", "thorough"), "--nfv-profile: invalid choice: 'thorough'", marks=ONE_OF_THEM),
        pytest.param(("--nfv-testbed", "nowhere.yaml"), "nowhere.yaml", marks=ONE_OF_THEM),
        (
            ("--nfv-testbed", "a=one.yaml", "--nfv-testbed", "b=one.yaml"),
            ": 2 workers were started; give each label a worker of its own",  # of a or b: who comes first has the CPUs
        ),
    ],
)
def test_with_workers_a_usage_error_ends_the_run_the_same(
    pytester: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    pytester.makefile(".yaml", one=ONE)
    reported = run_cases(pytester, ["test_assert"], *options, "-n", "2")
    check_run(reported, "Usage error", 4)
    assert message in reported.last_line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nfv-profile", "thorough"), "Usage error. --nfv-profile: invalid choice: 'thorough'"),
        ((), "Usage error: of 1 selected test 1 not run. evidence"),
    ],
)
def test_without_a_place_for_evidence_the_last_line_is_there(
    pytester: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    make_project(pytester, HEAD + CASES["test_assert"].source, CONFTEST + SIMULATED)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-results", "/proc/nowhere", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.outlines[-1].startswith(f"nfvperf: {message}")
    assert result.outlines[-1].endswith("(exit status 4)")


@pytest.mark.parametrize("options", [("--nfv-testbed", "nowhere.yaml"), ("--nfv-profile", "thorough")])
def test_a_usage_error_of_a_plan_leaves_nothing(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    make_project(pytester, HEAD + CASES["test_assert"].source, CONFTEST + SIMULATED)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-plan", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (pytester.path / "reports").exists()


def test_an_internal_error(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass", "test_assert"], conftest=ENDS_WITHIN)
    check_run(reported, "Internal error: of 2 selected tests 1 not run, 1 passed", 3)
    assert "RuntimeError: a plugin's fault" in reported.last_line
    assert reported.badges["show"] == reported.badges["page"] == {"test_pass": "PASS", "test_assert": "not run"}


def test_a_worker_that_dies(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass"], "-n", "1", "--max-worker-restart", "0", more=ENDS["killed"])
    check_run(reported, "Testbed broken: of 2 selected tests 1 testbed broken, 1 not run", 11)
    assert "test_end: the worker that ran it died" in reported.last_line
    for said in (reported.badges["show"], reported.badges["page"]):
        assert said == {"test_end": "BROKEN", "test_pass": "not run"}
    assert reported.junit["test_end"] == "error"
    check_unended(reported, {"test_end": "broken", "test_pass": "skipped"})
    assert reported.words["allure"] == {"test_end": "broken", "test_pass": "not run"}
    assert reported.reasons["allure"]["test_end"] == "the worker that ran it died"


def test_a_worker_that_dies_and_whose_test_is_repeated(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass"], "-n", "1", more=ENDS["killed once"])
    check_run(reported, "Accepted: the one requirement met, all 2 selected tests passed", 0)
    assert reported.badges["show"] == reported.badges["page"] == {"test_end": "PASS", "test_pass": "PASS"}
    assert reported.words["junit"] == reported.words["allure"] == {"test_end": "passed", "test_pass": "passed"}
    assert reported.junit == {"test_end": "", "test_pass": ""}
    for said in (reported.terminal, reported.shown, reported.page):
        assert "worker gw0 died while it ran mine/test_mine.py::test_end, which gw1 repeated" in said


def test_with_workers_the_controller_tells_the_same(pytester: pytest.Pytester) -> None:
    reported = run_cases(pytester, ["test_pass", "test_bound", "test_skip"], "-n", "2")
    check_run(reported, "Inconclusive: of 3 selected tests 1 inconclusive, 1 skipped, 1 passed", 10)
    assert reported.badges["show"] == reported.badges["page"]
    assert reported.badges["page"] == {"test_pass": "PASS", "test_bound": "INCONCLUSIVE", "test_skip": "skipped"}
