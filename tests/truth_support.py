"""Combinations of what can become of tests, and what six places say of a run of them."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.cli.main import main

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""

REQUIRED = {
    "test_pass": "ndr: '>= 3 Mpps'",
    "test_fail": "ndr: '>= 5 Mpps'",
    "test_caught": "ndr: '>= 5 Mpps'",
    "test_bound": "cycles_per_packet: '<= 200 cycles'",
    "test_tolerated": "cycles_per_packet: '<= 200 cycles'",
}

HEAD = """
import os
import signal

import pytest

from pytest_nfvperf.model.errors import DutFailure, InconclusiveError, TestbedError
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.measure.trials import InvalidTrialsError


def ndr(search, live):
    return search.ndr_pdr(live, Traffic(frame_size=64))


class Spoiled:
    id = "trial-0001"
    invalid = (InvalidReason(Reason.FELL_BEHIND, "too late"),)
    result = property(lambda self: self)


@pytest.fixture
def falls_over():
    raise OSError("no such device")


@pytest.fixture
def cannot_measure():
    raise InconclusiveError("the rig bears 3.00 Mpps, which is too little")

"""

MEASURE = "def {name}(phy2phy, search, sla):\n    sla.check(ndr(search, phy2phy))\n"


@dataclass(frozen=True)
class Case:
    """A test, and what every place has to say of it. ``reason``: a part of why, in the list and on the page."""

    source: str
    word: str
    run: str
    status: int
    badge: str
    reason: str = ""
    junit: str = ""
    allure: str = "broken"
    options: tuple[str, ...] = ()


CASES = {
    "test_pass": Case(MEASURE.format(name="test_pass"), "passed", "Accepted", 0, "PASS", allure="passed"),
    "test_fail": Case(
        MEASURE.format(name="test_fail"),
        "failed",
        "Failed",
        1,
        "FAIL",
        "ndr >= 5 Mpps: 3.99 Mpps",
        "failure",
        "failed",
    ),
    "test_caught": Case(
        "def test_caught(phy2phy, search, sla):\n"
        "    with pytest.raises(AssertionError):\n        sla.check(ndr(search, phy2phy))\n",
        "failed",
        "Failed",
        1,
        "FAIL",
        "ndr >= 5 Mpps: 3.99 Mpps",
        "failure",
        "failed",
    ),
    "test_internal": Case(
        "def test_internal(phy2phy, search, sla):\n"
        "    with pytest.MonkeyPatch.context() as patch:\n"
        "        patch.setattr(search, '_limits_of', None)\n        ndr(search, phy2phy)\n",
        "internal error",
        "Internal error",
        3,
        "INTERNAL",
        "TypeError: 'NoneType' object is not callable (pytest_nfvperf.measure.search, line ",
        "error",
    ),
    "test_bound": Case(
        MEASURE.format(name="test_bound"),
        "inconclusive",
        "Inconclusive",
        10,
        "INCONCLUSIVE",
        "cycles_per_packet was not measured",
        "error",
    ),
    "test_tolerated": Case(
        MEASURE.format(name="test_tolerated"),
        "inconclusive",
        "0 of 1 selected test passed, 1 inconclusive",
        0,
        "INCONCLUSIVE",
        "cycles_per_packet was not measured",
        allure="passed",
        options=("--nfv-inconclusive", "warn", "-W", "default"),
    ),
    "test_let_pass": Case(
        "def test_let_pass(phy2phy):\n    raise InconclusiveError('the rig bears 3.00 Mpps, which is too little')\n",
        "inconclusive",
        "Nothing was judged, no SLA applied: 0 of 1 selected test passed, 1 inconclusive",
        0,
        "INCONCLUSIVE",
        "the rig bears 3.00 Mpps, which is too little",
        allure="passed",
        options=("--nfv-inconclusive", "warn", "-W", "default"),
    ),
    "test_let_skip": Case(
        "def test_let_skip(phy2phy, cannot_measure):\n    raise AssertionError('not reached')\n",
        "inconclusive",
        "Nothing was judged, no SLA applied: 0 of 1 selected test passed, 1 inconclusive",
        0,
        "INCONCLUSIVE",
        "the rig bears 3.00 Mpps, which is too little",
        "skipped",
        "skipped",
        options=("--nfv-inconclusive", "warn", "-W", "default"),
    ),
    "test_dut": Case(
        "def test_dut(phy2phy):\n    raise DutFailure('the session is down', evidence={'bgpd.log': 'hold timer'})\n",
        "failed",
        "Failed",
        1,
        "FAIL",
        "the session is down",
        "failure",
        "failed",
    ),
    "test_invalid": Case(
        "def test_invalid(phy2phy):\n    raise InvalidTrialsError([Spoiled()])\n",
        "inconclusive",
        "Inconclusive",
        10,
        "INCONCLUSIVE",
        "the only trial was invalid (fell_behind 1x)",
        "error",
    ),
    "test_assert": Case(
        "def test_assert(phy2phy):\n    assert 2 == 3, 'two is not three'\n",
        "failed",
        "Failed",
        1,
        "FAIL",
        "two is not three",
        "failure",
        "failed",
    ),
    "test_set_up": Case(
        "def test_set_up(phy2phy, falls_over):\n    pass\n",
        "broken",
        "Testbed broken",
        11,
        "BROKEN",
        "OSError: no such device",
        "error",
    ),
    "test_broken": Case(
        "def test_broken(phy2phy):\n    raise TestbedError('the switch is gone')\n",
        "broken",
        "Testbed broken",
        11,
        "BROKEN",
        "the switch is gone",
        "error",
    ),
    "test_usage": Case(
        "def test_usage(phy2phy):\n    raise pytest.UsageError('there is no such profile')\n",
        "usage",
        "Usage error",
        4,
        "USAGE",
        "there is no such profile",
        "error",
    ),
    "test_skip": Case(
        "def test_skip(phy2phy):\n    pytest.skip('no NIC here')\n",
        "skipped",
        "Nothing was measured",
        0,
        "skipped",
        "no NIC here",
        "skipped",
        "skipped",
    ),
    "test_xfail": Case(
        "@pytest.mark.xfail(reason='known')\ndef test_xfail(phy2phy):\n    assert 0\n",
        "xfail",
        "Nothing was judged, no SLA applied: 0 of 1 selected test passed, 1 failed as expected",
        0,
        "xfail",
        "known",
        "skipped",
        "skipped",
    ),
    "test_xpass": Case(
        "@pytest.mark.xfail(strict=True, reason='known')\ndef test_xpass(phy2phy):\n    pass\n",
        "failed",
        "Failed",
        1,
        "FAIL",
        "XPASS(strict)",
        "failure",
        "failed",
    ),
    "test_unjudged": Case(
        "def test_unjudged(phy2phy, search):\n    ndr(search, phy2phy)\n",
        "passed",
        "Nothing was judged, no SLA applied: 1 of 1 selected test passed",
        0,
        "no SLA",
        allure="passed",
    ),
}
IN_THE_TABLE_ALONE = {"passed", "skipped", "not run"}
ENDS = {
    "interrupted": "def test_end(phy2phy):\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n",
    "killed": "def test_end(phy2phy):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "killed once": "def test_end(phy2phy):\n"
    "    if not os.path.exists('died'):\n"
    "        open('died', 'w').close()\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n",
}

ENDS_LATE = """
import os, signal

def pytest_terminal_summary():
    os.kill(os.getpid(), signal.SIGINT)
"""
ENDS_WITHIN = """
def pytest_runtest_logfinish():
    raise RuntimeError("a plugin's fault")
"""
"""For conftest files: a signal while the report is written, and a hook that fails after the first test."""


@dataclass
class Reported:
    """What the six places say. ``words``: of each test; ``badges``: the same as tables have it; ``reasons``: why."""

    status: int
    terminal: str
    page: str
    shown: str
    show_status: int
    badges: dict[str, dict[str, str]] = field(default_factory=dict)
    words: dict[str, dict[str, str]] = field(default_factory=dict)
    junit: dict[str, str] = field(default_factory=dict)
    allure: dict[str, str] = field(default_factory=dict)
    junit_run: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def last_line(self) -> str:
        """Of the terminal."""
        return self.terminal.strip().splitlines()[-1]


LISTED = (
    r"^(PASS|FAIL|INCONCLUSIVE|BROKEN|USAGE|INTERNAL|skipped|xfail|unfinished|not run|no SLA)"
    r" +mine/(?:test_mine.py::)?(\w+)(?:$|:)"
)


def run_cases(
    pytester: pytest.Pytester, names: Sequence[str], *options: str, more: str = "", conftest: str = ""
) -> Reported:
    """A run of these cases after ``more`` tests, with ``conftest`` added to its own; what each says of it."""
    sources = [more, *(CASES[name].source for name in names)]
    make_project(pytester, HEAD + "\n\n".join(sources), CONFTEST + SIMULATED + conftest)
    rules = [f"  - {{where: {{test: {name}}}, require: {{{REQUIRED[name]}}}}}\n" for name in names if name in REQUIRED]
    pytester.makefile(".yaml", sla="schema: 1\nrules:\n" + "".join(rules))
    sla = ("--nfv-sla", "sla.yaml") if rules else ()
    outputs = ("--junitxml", "junit.xml", "--alluredir", "allure")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *sla, *outputs, *options, "mine/test_mine.py")
    return read(pytester.path, int(result.ret), result.stdout.str())


def read(directory: Path, status: int, terminal: str) -> Reported:
    """What each place says of the newest run."""
    folder = (directory / "reports" / "latest").resolve()
    if not (folder / "report.html").exists():
        nfvperf("report", directory)
    shown, show_status = nfvperf("show", directory)
    reported = Reported(status, terminal, (folder / "report.html").read_text(), shown, show_status)
    reported.badges["terminal"] = {name: badge for badge, name in re.findall(LISTED, terminal, re.MULTILINE)}
    reported.badges["show"] = {name: badge for badge, name in re.findall(LISTED, shown, re.MULTILINE)}
    reported.badges["page"] = badges_of(reported.page)
    read_junit(reported, directory / "junit.xml")
    read_allure(reported, directory / "allure")
    return reported


def nfvperf(command: str, directory: Path) -> tuple[str, int]:
    """What the command prints where a user calls it in this folder, and its exit status."""
    with contextlib.chdir(directory), contextlib.redirect_stdout(io.StringIO()) as shown:
        status = main([command])
    return shown.getvalue(), status


def badges_of(page: str) -> dict[str, str]:
    """From the page's list of every selected test."""
    (section,) = re.findall(r'<section id="tests">(.*?)</section>', page, re.DOTALL)
    rows = re.findall(r'<span class="badge [^"]*">([^<]+)</span>.*?::(\w+)(?:</a>)?</td>', section, re.DOTALL)
    return {name: badge for badge, name in rows}


def read_junit(reported: Reported, path: Path) -> None:
    """Kind and word of each test, and the run's properties."""
    reported.words["junit"], reported.reasons["junit"] = {}, {}
    if not path.exists():
        return
    (suite,) = ET.parse(path).iter("testsuite")
    reported.junit_run = {each.get("name", ""): each.get("value", "") for each in suite.findall("properties/property")}
    counts = dict.fromkeys(("failure", "error", "skipped"), 0)
    for case in suite.iter("testcase"):
        kinds = [child.tag for child in case if child.tag in counts]
        counts |= {kind: counts[kind] + 1 for kind in kinds}
        name = str(case.get("name"))
        reported.junit[name] = ",".join(kinds)
        for kind, property_name in (("words", "nfvperf.result"), ("reasons", "nfvperf.reason")):
            found = [each.get("value", "") for each in case.iter("property") if each.get("name") == property_name]
            getattr(reported, kind)["junit"][name] = ",".join(found)
    assert [suite.get(name) for name in ("failures", "errors", "skipped")] == [str(count) for count in counts.values()]


def read_allure(reported: Reported, folder: Path) -> None:
    """Status, label and message of each test."""
    results = [json.loads(path.read_text()) for path in folder.glob("*-result.json")]
    reported.allure = {result["name"]: result["status"] for result in results}
    reported.reasons["allure"] = {
        result["name"]: result.get("statusDetails", {}).get("message", "") for result in results
    }
    assert len(reported.allure) == len(results), "a test has two results for Allure"
    reported.words["allure"] = {
        result["name"]: ",".join(label["value"] for label in result["labels"] if label["name"] == "nfvperf.result")
        for result in results
    }


def headline_of(page: str) -> str:
    """The sentence at the top."""
    return unescape(re.findall(r'<p class="verdict-line [a-z]+">([^<]+)</p>', page)[0])


def check_run(reported: Reported, starts: str, status: int) -> None:
    """All six say the same of the run."""
    headline = headline_of(reported.page)
    assert headline.startswith(starts)
    assert reported.status == reported.show_status == status
    assert reported.last_line.startswith(f"nfvperf: {headline}.")
    assert reported.last_line.endswith(f"(exit status {status})")
    assert reported.shown.strip().splitlines()[-1] == reported.last_line.removeprefix("nfvperf: ")
    assert reported.junit_run["nfvperf.headline"] == headline
    assert reported.junit_run["nfvperf.exit_status"] == str(status)


def check_test(reported: Reported, name: str, case: Case) -> None:
    """All six say the same of one test."""
    assert reported.badges["show"][name] == reported.badges["page"][name] == case.badge
    assert reported.badges["terminal"].get(name) == (None if case.word in IN_THE_TABLE_ALONE else case.badge)
    assert reported.words["junit"][name] == reported.words["allure"][name] == case.word
    assert reported.junit[name] == case.junit
    assert reported.allure[name] == case.allure
    for text in (reported.terminal, reported.shown):
        assert case.reason in text
    for part in case.reason.split(": "):  # the page has requirement and figure in two columns
        assert part in unescape(reported.page)
    if "search" in case.source and case.badge != "INTERNAL":  # which ended before it measured
        row = rf"^ *{name.removeprefix('test_')} .* {case.badge}$"
        assert re.search(row, reported.terminal, re.MULTILINE)
        assert re.search(row, reported.shown, re.MULTILINE)
