"""The phases and attempts of a test, and their records in the evidence.

Plugins that repeat a failed test (pytest-rerunfailures, flaky, pytest-retry) run set-up, call and teardown again, all
within one ``pytest_runtest_protocol``. They share no hook, but each begins with a set-up. The last attempt decides.

Plugins may also change a report after all ``pytest_runtest_makereport`` hooks (pytest-retry), or report a part of a
test by itself (subtests). So what pytest logs counts: ``pytest_runtest_logreport``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.junit import ATTEMPT, REASON, RESULT, result_properties
from pytest_nfvperf.adapters.report.texts import Findings, figures_text
from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.errors import ConfigError, DutFailure, InconclusiveError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, TestFacts, conclude_test, one_line
from pytest_nfvperf.model.evidence.records import AttachmentData, Cause, TestData, TestEndData
from pytest_nfvperf.plugin.failure_causes import (
    PASSED,
    as_usage_error,
    cause_of,
    ending_of,
    gravest,
    left_unfinished,
    location_in_test,
    mark,
)
from pytest_nfvperf.plugin.labels import is_measuring, item_labels
from pytest_nfvperf.plugin.output import attach, other_results, parts_of
from pytest_nfvperf.plugin.resume import sla_name
from pytest_nfvperf.session.comparison import SideLostError, SidesBrokenError
from pytest_nfvperf.session.run import NfvSession, sections
from pytest_nfvperf.session.slas import InconclusiveWarning, SlaFailure

ATTEMPT_KEY = pytest.StashKey["Attempt"]()
UNRECORDED_KEY = pytest.StashKey[TestbedError]()
DUT_FAILED, INCONCLUSIVE, USAGE = "FAIL", "INCONCLUSIVE", "usage error"
"""First words of the message of a test that has no figure for an SLA."""
NOT_RUN = "its body did not run: another plugin, or a hook pytest_runtest_protocol of a conftest.py, took it over"
_LOGGED = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
"""The outcome of pytest's report for each status of an ending."""


@dataclass(slots=True)
class Attempt:
    """One attempt at a test.

    Attributes:
        number: from 1 on.
        endings: by phase; includes reports that are no phase, such as those of subtests.
        raised: what each phase raised.
        reports: pytest's report of each phase.
        set_up: its set-up has begun. Another set-up begins the next attempt.
        ran_body: its call phase has begun.
        ended: its record, once it is written.
    """

    number: int = 1
    began: float = field(default_factory=time.monotonic)
    endings: dict[str, TestEndData] = field(default_factory=dict)
    raised: dict[str, BaseException] = field(default_factory=dict)
    reports: dict[str, pytest.TestReport] = field(default_factory=dict)
    set_up: bool = False
    ran_body: bool = False
    ended: TestEndData | None = None

    def end_data(self, session: NfvSession) -> TestEndData:
        """The record of the gravest ending of its phases. If all passed and its body never ran, it has no result."""
        known = self.ended or TestEndData("", time.monotonic() - self.began, times=session.recorder.stopwatch.seconds())
        end = gravest(self.endings.values())
        if end == PASSED and not self.ran_body:
            end = TestEndData("skipped", 0.0, NOT_RUN, Cause.NOT_RUN)
        return replace(end, seconds=known.seconds, times=known.times)

    def logged(self, report: pytest.TestReport) -> bool:
        """Use a report as pytest logs it; False if it says nothing new.

        Outcomes of other plugins ("rerun", "retried") announce another attempt and are ignored. A report that is not of
        a phase, such as that of a subtest, counts when it failed.
        """
        phase = report.when or "call"
        is_phase = self.reports.get(phase) is report
        if report.outcome not in _LOGGED or not (is_phase or report.failed):
            return False
        name = phase if is_phase else f"part of {phase}"
        if _LOGGED[self.endings.get(name, PASSED).status] == report.outcome:
            return False
        self.endings[name] = ending_of(report, self.raised.get(phase))
        return True


def begin(item: pytest.Item, session: NfvSession, attempt: int = 1) -> None:
    """Write the beginning of a test into the evidence; ``finish`` writes its end."""
    callspec = getattr(item, "callspec", None)
    # A test may compare several values of one parameter, such as datapaths.
    parameters = {
        name: ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        for name, value in (callspec.params if callspec else {}).items()
    }
    labels = tuple(sorted(item_labels(item, session.profile.name).items()))
    doc = getattr(getattr(item, "function", None), "__doc__", None) or ""
    session.test_file = item.path
    item.stash[ATTEMPT_KEY] = Attempt(attempt)
    data = TestData(labels, parameters, doc.strip(), sla_name(session, item.path), attempt=attempt)
    try:
        session.begin_test(item.nodeid, data)
    except TestbedError as error:
        item.stash[UNRECORDED_KEY] = error


def begin_setup(item: pytest.Item, session: NfvSession) -> None:
    """Record that a set-up begins. The second and later ones begin another attempt, by another plugin."""
    if ATTEMPT_KEY not in item.stash:  # another plugin runs its phases without pytest_runtest_protocol
        begin(item, session)
    attempt = item.stash[ATTEMPT_KEY]
    if attempt.set_up:
        if attempt.ended is None:  # pytest-retry goes on without pytest's report of the teardown
            attempt.ended = attempt.end_data(session)
            session.end_test(attempt.ended)
        # Forget the JUnit properties of the attempt before.
        item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("nfvperf.")]
        begin(item, session, attempt.number + 1)
    item.stash[ATTEMPT_KEY].set_up = True
    session.recover_rig()


def refuse_unrecorded(item: pytest.Item) -> None:
    """Raise the TestbedError of a test whose beginning could not be recorded: it must not run."""
    if UNRECORDED_KEY in item.stash:
        raise item.stash[UNRECORDED_KEY]


def refuse_unrun(item: pytest.Item, session: NfvSession) -> None:
    """End a test of which another hook of ``pytest_runtest_protocol`` ran no phase: it has no result."""
    attempt = item.stash.get(ATTEMPT_KEY, None)
    if attempt is not None and not attempt.set_up and UNRECORDED_KEY not in item.stash:
        session.end_test(attempt.end_data(session))


def interrupted(config: pytest.Config, session: NfvSession) -> None:
    """Export the running test as unfinished: the run ends first."""
    for exporter in other_results(config):
        exporter.interrupted(session.conclude_interrupted())


@contextmanager
def tolerating(item: pytest.Item, phase: str, session: NfvSession) -> Iterator[None]:
    """Around a phase ("setup" or "call"): with ``--nfv-inconclusive warn`` turn an InconclusiveError into a warning.

    The test then passes, as with an INCONCLUSIVE verdict. If a fixture could not measure, the test cannot run without
    it, and is skipped.
    """
    attempt = item.stash[ATTEMPT_KEY] if ATTEMPT_KEY in item.stash else Attempt()  # a plan begins none
    attempt.ran_body = attempt.ran_body or phase == "call"
    try:
        with _judging_comparison(item, phase, session):
            yield
    except InconclusiveError as error:
        attempt.raised[phase] = error
        if session.options.inconclusive != "warn":
            raise
        text = str(error)
        warnings.warn(InconclusiveWarning(text), stacklevel=2)
        status = "skipped" if phase == "setup" else "passed"
        attempt.endings["tolerated"] = TestEndData(status, 0.0, one_line(text), Cause.INCONCLUSIVE, text)
        if phase == "setup":
            raise pytest.skip.Exception(f"INCONCLUSIVE: {text}") from error
    except BaseException as error:
        attempt.raised[phase] = error
        raise


@contextmanager
def _judging_comparison(item: pytest.Item, phase: str, session: NfvSession) -> Iterator[None]:
    """In a run that compares sides, the comparison decides the result of a test after its body.

    What the test itself checks afterwards is no part of the comparison: it needs figures that were not measured. Such a
    failure becomes a note, unless the test compared nothing.
    """
    comparison = session.comparison
    if comparison is None or phase != "call" or not is_measuring(item):
        yield
        return
    comparison.begin_test()
    try:
        yield
    except NfvperfError:
        raise
    except Exception as error:
        if not comparison.made:
            raise
        text = (
            f"the test ended by {type(error).__name__}: {error}; it checks figures that a comparison does not measure"
        )
        session.recorder.emit(AttachmentData("note on the comparison", text=text))
    comparison.judge()


def explain(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport, session: NfvSession) -> None:
    """Show a message instead of a traceback, and record a broken testbed and how the phase ended."""
    error = as_usage_error(None if call.excinfo is None else call.excinfo.value)
    if isinstance(error, TestbedError) and not report.passed:
        error = session.broken(error)
    elif error is not None and left_unfinished(error):
        session.rig_suspect = True  # the next test begins with a new rig
    if report.failed and error is not None:
        if session.deployed:
            report.sections.extend(sections(session.failed_on(error)))
        _show(report, error, item.config.rootpath)
    # A message may quote anything that a test has read, so escape pytest's text.
    for traceback, crash, _ in getattr(report.longrepr, "chain", ()):
        for entry in traceback.reprentries:
            entry.lines = [visible(line) for line in entry.lines]
        if crash is not None:
            crash.message = visible(crash.message)
    ending = ending_of(report, error)
    mark(report, ending)
    if ATTEMPT_KEY in item.stash:
        attempt, phase = item.stash[ATTEMPT_KEY], report.when or "call"
        attempt.endings[phase], attempt.reports[phase] = ending, report


def _show(report: pytest.TestReport, error: BaseException, root: Path) -> None:
    if isinstance(error, pytest.FixtureLookupError):
        return  # pytest shows it in its own way
    if isinstance(error, SlaFailure):
        text = str(error)
    elif isinstance(error, (TestbedError, SideLostError, SidesBrokenError)):
        text = f"testbed error: {error}"
    elif isinstance(error, DutFailure):
        text = f"{DUT_FAILED}: {error}"
    elif isinstance(error, InconclusiveError):
        text = f"{INCONCLUSIVE}: {error}"
    elif isinstance(error, (ConfigError, pytest.UsageError)):
        location = "" if getattr(error, "file", None) else location_in_test(error, root)
        report.longrepr = visible(f"{USAGE}: {error}") + (f"\n  in {location}" if location else "")
        return
    elif cause_of(error, report.when or "call") is Cause.INTERNAL:
        text = f"internal error of nfvperf, which says nothing about the DUT\n\n{report.longreprtext}"
    else:
        return
    report.longrepr = visible(text)


def finish(item: pytest.Item, report: pytest.TestReport, session: NfvSession) -> Findings | None:
    """Record how an attempt at a test ended, and add the result to its last pytest report.

    Returns what the terminal's line shows; None with ``--nfv-plan``, where nothing was attempted.
    """
    if ATTEMPT_KEY not in item.stash:
        return None
    attempt = item.stash[ATTEMPT_KEY]
    try:
        attempt.ended = attempt.end_data(session)
        conclusion = session.end_test(attempt.ended)
    except TestbedError as error:  # without evidence no result counts
        report.outcome = "failed"
        _show(report, error, item.config.rootpath)
        ending = ending_of(report, error)
        mark(report, ending)
        facts = TestFacts(item.nodeid, status=ending.status, cause=ending.cause, reason=ending.reason)
        conclusion = conclude_test(facts)
    return _publish(item, report, conclusion, session)


class LoggedReports:
    """Corrects the end of a test when another plugin changed a report after we had read it."""

    def __init__(self, session: NfvSession) -> None:
        self._session = session
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # This comes before JUnit writes the test, at its last report.
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
        attempt.ended = attempt.end_data(self._session)
        conclusion = self._session.correct_end(item.nodeid, attempt.ended)
        last = attempt.reports["teardown"]
        last.user_properties[:] = [pair for pair in last.user_properties if pair[0] not in {RESULT, REASON, ATTEMPT}]
        findings = _publish(item, last, conclusion, self._session)
        if is_measuring(item):
            attach(last, findings)


def _publish(item: pytest.Item, report: pytest.TestReport, conclusion: TestConclusion, session: NfvSession) -> Findings:
    """Add the result to the last report, for JUnit, and return it for the terminal's line."""
    attempt = item.stash[ATTEMPT_KEY]
    report.user_properties.extend(result_properties(conclusion))
    if attempt.number > 1:
        report.user_properties.append((ATTEMPT, str(attempt.number)))
    figures = ""
    with parts_of(item.config).isolated("figures of a test cannot be shown", "they are in the evidence"):
        figures = figures_text(session.outcomes, session.since_last)
    return Findings(figures, conclusion.badge, conclusion.reason)
