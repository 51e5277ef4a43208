"""The phases of a test and its attempts: each begins, ends, and is put into the evidence.

Plugins that repeat a failed test (pytest-rerunfailures, flaky, pytest-retry) run set-up, call and teardown again, all
within one ``pytest_runtest_protocol``. They share no hook, but each begins with a set-up. The last attempt decides.

Plugins may also change a report after everybody's ``pytest_runtest_makereport`` (pytest-retry), or report a part of a
test by itself (subtests). What counts is therefore what pytest logs: ``pytest_runtest_logreport``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.junit import ATTEMPT, REASON, RESULT, fate_properties
from pytest_nfvperf.adapters.report.texts import Findings, figures_text
from pytest_nfvperf.measure.compare_sides import SideLostError
from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.errors import ConfigError, DutFailure, InconclusiveError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, TestFacts, conclude_test, one_line
from pytest_nfvperf.model.evidence.records import Cause, TestData, TestEndData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.plugin.failure_causes import (
    Ending,
    as_usage_error,
    cause_of,
    ending_of,
    graver,
    left_in_the_middle,
    mark,
    place_in_test,
)
from pytest_nfvperf.plugin.labels import is_measuring, item_labels
from pytest_nfvperf.plugin.other_results import other_results
from pytest_nfvperf.plugin.output import attach, parts_of
from pytest_nfvperf.plugin.resuming import sla_name
from pytest_nfvperf.session.comparing import SidesBrokenError
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.running_test import conclude_interrupted, sections
from pytest_nfvperf.session.sla_check import InconclusiveWarning, SlaFailure

ATTEMPT_KEY = pytest.StashKey["Attempt"]()


_LOGGED = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
"""The outcome of a report that each status of an ending goes with."""


@dataclass(slots=True)
class Attempt:
    """One attempt at a test.

    Attributes:
        number: from 1 on.
        endings: how it ended, by phase, and by what was reported beside a phase.
        raised: what the phases raised.
        reports: pytest's reports of the phases, as others were given them.
        set_up: its set-up has begun: another one begins the next attempt.
        ended: its record, once it is written.
    """

    number: int = 1
    began: float = field(default_factory=time.monotonic)
    endings: dict[str, Ending] = field(default_factory=dict)
    raised: dict[str, BaseException] = field(default_factory=dict)
    reports: dict[str, pytest.TestReport] = field(default_factory=dict)
    set_up: bool = False
    ended: TestEndData | None = None

    def end_data(self) -> TestEndData:
        """What its phases come to, the gravest of them."""
        ending = reduce(graver, self.endings.values(), Ending())
        seconds = time.monotonic() - self.began if self.ended is None else self.ended.seconds
        return TestEndData(ending.status, seconds, ending.reason, ending.cause, ending.text)

    def logged(self, report: pytest.TestReport) -> bool:
        """Take a report as pytest logs it; False if it says what is known already.

        Outcomes of other plugins ("rerun", "retried") announce another attempt. A report that is not of a phase, such
        as that of a subtest, counts when it failed.
        """
        phase = report.when or "call"
        is_phase = self.reports.get(phase) is report
        if report.outcome not in _LOGGED or not (is_phase or report.failed):
            return False
        name = phase if is_phase else f"beside {phase}"
        if _LOGGED[self.endings.get(name, Ending()).status] == report.outcome:
            return False
        self.endings[name] = ending_of(report, self.raised.get(phase))
        return True


def forget_properties(item: pytest.Item) -> None:
    """Forget what an earlier attempt told JUnit of its figures and verdicts."""
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("nfvperf.")]


UNRECORDED_KEY = pytest.StashKey[TestbedError]()


DUT_FAILED, INCONCLUSIVE, USAGE = "FAIL", "INCONCLUSIVE", "usage error"
"""What the message begins with of a test that has no figure for an SLA."""


def begin(item: pytest.Item, session: NfvSession) -> None:
    """Write the beginning of a test into the evidence; ``finish`` writes its end."""
    _begin_attempt(item, session, 1)


def _begin_attempt(item: pytest.Item, session: NfvSession, number: int) -> None:
    callspec = getattr(item, "callspec", None)
    parameters = {name: _text(value) for name, value in (callspec.params if callspec else {}).items()}
    labels = tuple(sorted(item_labels(item, session.profile.name).items()))
    doc = getattr(getattr(item, "function", None), "__doc__", None) or ""
    session.test_file = item.path
    item.stash[ATTEMPT_KEY] = Attempt(number)
    data = TestData(labels, parameters, doc.strip(), sla_name(session, item.path), attempt=number)
    try:
        session.begin_test(item.nodeid, data)
    except TestbedError as error:
        item.stash[UNRECORDED_KEY] = error


def set_up(item: pytest.Item, session: NfvSession) -> None:
    """The set-up of a test begins: the second and each later one is of another attempt, which another plugin makes."""
    if ATTEMPT_KEY not in item.stash:  # another plugin runs its phases without pytest_runtest_protocol
        _begin_attempt(item, session, 1)
    attempt = item.stash[ATTEMPT_KEY]
    if attempt.set_up:
        if attempt.ended is None:  # pytest-retry goes on without pytest's report of the teardown
            attempt.ended = attempt.end_data()
            session.end_test(attempt.ended)
        forget_properties(item)
        _begin_attempt(item, session, attempt.number + 1)
    item.stash[ATTEMPT_KEY].set_up = True
    session.start_anew()


def refuse_unrecorded(item: pytest.Item) -> None:
    """Raise the TestbedError of a test that the evidence cannot take, such as on a full disk: it must not run."""
    if UNRECORDED_KEY in item.stash:
        raise item.stash[UNRECORDED_KEY]


def _text(value: object) -> str:
    """Of a parameter that is several values, such as the datapaths that a test compares, each."""
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def interrupted(config: pytest.Config, session: NfvSession) -> None:
    """The running test does not end, because the run does."""
    for results in other_results(config):
        results.interrupted(conclude_interrupted(session.recorder))


@contextmanager
def tolerating(item: pytest.Item, phase: str, session: NfvSession) -> Iterator[None]:
    """Around a phase of a test: with ``--nfv-inconclusive warn`` what could not be measured is a warning.

    The test passes then, as it does where a verdict is INCONCLUSIVE. One whose fixtures could not measure is skipped,
    because it cannot run without them.

    Args:
        item: the test.
        phase: "setup" or "call".
        session: has the option.
    """
    attempt = item.stash[ATTEMPT_KEY] if ATTEMPT_KEY in item.stash else Attempt()  # a plan begins none
    try:
        yield
    except InconclusiveError as error:
        attempt.raised[phase] = error
        if session.options.inconclusive != "warn":
            raise
        text, skipped = str(error), phase == "setup"
        warnings.warn(InconclusiveWarning(text), stacklevel=2)
        status = "skipped" if skipped else "passed"
        attempt.endings["tolerated"] = Ending(status, Cause.INCONCLUSIVE, one_line(text), text)
        if skipped:
            raise pytest.skip.Exception(f"INCONCLUSIVE: {text}") from error
    except BaseException as error:
        attempt.raised[phase] = error
        raise


def explain(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport, session: NfvSession) -> None:
    """Show the message instead of a traceback, and remember a broken testbed and how the phase ended."""
    error = as_usage_error(None if call.excinfo is None else call.excinfo.value)
    if isinstance(error, TestbedError) and not report.passed:
        error = session.broken(error)
    elif error is not None and left_in_the_middle(error):
        session.broken_off = True
    if report.failed and error is not None:
        if session.deployed:
            report.sections.extend(sections(session.failed_on(error)))
        _show(report, error, item.config.rootpath)
    _show_all_characters(report.longrepr)
    ending = ending_of(report, error)
    mark(report, ending)
    if ATTEMPT_KEY in item.stash:
        attempt, phase = item.stash[ATTEMPT_KEY], report.when or "call"
        attempt.endings[phase], attempt.reports[phase] = ending, report


def _show(report: pytest.TestReport, error: BaseException, root: Path) -> None:
    if isinstance(error, SlaFailure):
        report.longrepr = visible(str(error))
    elif isinstance(error, (TestbedError, SideLostError, SidesBrokenError)):
        report.longrepr = visible(f"testbed error: {error}")
    elif isinstance(error, DutFailure):
        report.longrepr = visible(f"{DUT_FAILED}: {error}")
    elif isinstance(error, InconclusiveError):
        report.longrepr = visible(f"{INCONCLUSIVE}: {error}")
    elif isinstance(error, (ConfigError, pytest.UsageError)):
        place = "" if getattr(error, "file", None) else place_in_test(error, root)
        report.longrepr = visible(f"{USAGE}: {error}") + (f"\n  in {place}" if place else "")
    elif cause_of(error, report.when or "call") is Cause.INTERNAL:
        report.longrepr = visible(
            f"internal error of nfvperf, which says nothing about the DUT\n\n{report.longreprtext}"
        )


def _show_all_characters(shown: object) -> None:
    """Pytest's text of a failure as the terminal takes it: a message may quote whatever a test has read."""
    for traceback, crash, _ in getattr(shown, "chain", ()):
        for entry in traceback.reprentries:
            entry.lines = [visible(line) for line in entry.lines]
        if crash is not None:
            crash.message = visible(crash.message)


def finish(item: pytest.Item, report: pytest.TestReport, session: NfvSession) -> Findings | None:
    """Write the end of an attempt, and what became of it, while its reports are still open; a plan began none.

    Returns:
        What is to be told of it in a line; None in a plan.
    """
    if ATTEMPT_KEY not in item.stash:
        return None
    attempt = item.stash[ATTEMPT_KEY]
    attempt.ended = attempt.end_data()
    try:
        became = session.end_test(attempt.ended)
    except TestbedError as error:  # without evidence no result counts
        report.outcome = "failed"
        _show(report, error, item.config.rootpath)
        ending = ending_of(report, error)
        mark(report, ending)
        became = conclude_test(TestFacts(item.nodeid, status=ending.status, cause=ending.cause, reason=ending.reason))
    return _publish(item, report, became, session)


class LoggedReports:
    """Takes over what pytest logs of a test, where another plugin made something else of it since we read it."""

    def __init__(self, session: NfvSession) -> None:
        self._session = session
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Know whose reports they are."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Before JUnit, which writes a test when its last report comes."""
        item = self._item
        if item is None or report.nodeid != item.nodeid or ATTEMPT_KEY not in item.stash:
            return
        attempt = item.stash[ATTEMPT_KEY]
        if not attempt.logged(report):
            return
        raised = attempt.raised.get(report.when or "call")
        if report.failed and raised is not None:
            _show(report, raised, item.config.rootpath)
            mark(report, ending_of(report, raised))
        if attempt.ended is None:
            return
        attempt.ended = attempt.end_data()
        became = self._session.correct_end(item.nodeid, attempt.ended)
        last = attempt.reports["teardown"]
        last.user_properties[:] = [pair for pair in last.user_properties if pair[0] not in {RESULT, REASON, ATTEMPT}]
        found = _publish(item, last, became, self._session)
        if is_measuring(item):
            attach(last, found)


def _publish(item: pytest.Item, report: pytest.TestReport, became: TestConclusion, session: NfvSession) -> Findings:
    """Tell JUnit, by the last report of the test, and the terminal's line."""
    attempt = item.stash[ATTEMPT_KEY]
    report.user_properties.extend(fate_properties(became))
    if attempt.number > 1:
        report.user_properties.append((ATTEMPT, str(attempt.number)))
    outcomes = [finding for finding in session.recorder.findings if isinstance(finding, Outcome)]
    figures = ""
    with parts_of(item.config).alone("figures of a test cannot be shown", "they are in the evidence"):
        figures = figures_text(outcomes)
    return Findings(figures, became.badge, became.reason)
