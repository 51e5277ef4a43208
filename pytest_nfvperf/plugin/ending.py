"""How a test ends: what pytest's reports of its phases come to, for the evidence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_nfvperf.model.errors import ConfigError, InconclusiveError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import Cause
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.runs.compare_sides import SideLostError
from pytest_nfvperf.session.comparing import SidesBrokenError
from pytest_nfvperf.session.sla_check import InconclusiveWarning, SlaFailure

LONGEST_TEXT = 20_000
WORD = "nfv_word"
"""Attribute of a report, which xdist carries along: the word for it in pytest's own lines."""

_GRAVITY = (
    Cause.USAGE,
    Cause.TESTBED,
    Cause.SETUP,
    Cause.SLA,
    Cause.ASSERTION,
    Cause.INCONCLUSIVE,
    Cause.XFAIL,
    Cause.SKIP,
    Cause.UNKNOWN,
)
_WORDS = {Cause.INCONCLUSIVE: "INCONCLUSIVE", Cause.TESTBED: "BROKEN", Cause.SETUP: "BROKEN", Cause.USAGE: "USAGE"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a test ended; as TestEndData, without the time."""

    status: str = "passed"
    cause: Cause = Cause.UNKNOWN
    reason: str = ""
    text: str = ""


def ending_of(report: pytest.TestReport, error: BaseException | None) -> Ending:
    """What one phase of a test comes to.

    Args:
        report: pytest's, with the message that is shown already in it.
        error: what was raised in it, if something was.
    """
    if report.skipped:
        return _skipped(report)
    if not report.failed:
        return Ending()
    cause = cause_of(error, report.when or "call")
    status = "error" if report.when != "call" or cause is Cause.TESTBED else "failed"
    return Ending(status, cause, _first_line(report, error), report.longreprtext[-LONGEST_TEXT:])


def _skipped(report: pytest.TestReport) -> Ending:
    """Skipped, or failed as expected; of a skip pytest keeps (file, line, "Skipped: reason")."""
    if hasattr(report, "wasxfail"):
        why = report.wasxfail.removeprefix("reason: ")
        return Ending("skipped", Cause.XFAIL, why or "expected to fail", report.longreprtext[-LONGEST_TEXT:])
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    return Ending("skipped", Cause.SKIP, text.removeprefix("Skipped: "))


def cause_of(error: BaseException | None, phase: str) -> Cause:
    """What an exception says about the test. The test's own is its failure; a fixture's is not."""
    match error:
        case SlaFailure():
            return Cause.INCONCLUSIVE if error.judgement is Judgement.INCONCLUSIVE else Cause.SLA
        case TestbedError() | SideLostError() | SidesBrokenError():
            return Cause.TESTBED
        case InconclusiveError() | InconclusiveWarning():  # the warning where warnings are errors
            return Cause.INCONCLUSIVE
        case ConfigError() | pytest.UsageError():
            return Cause.USAGE
    return Cause.ASSERTION if phase == "call" else Cause.SETUP


def _first_line(report: pytest.TestReport, error: BaseException | None) -> str:
    if error is None:  # a test that was expected to fail, and passed
        return str(report.longrepr).strip().splitlines()[0]
    told = str(error).strip().splitlines()
    ours = isinstance(error, (AssertionError, NfvperfError, pytest.UsageError, pytest.fail.Exception))
    name = type(error).__name__
    if not told:
        return name
    return told[0] if ours else f"{name}: {told[0]}"


def graver(one: Ending, other: Ending) -> Ending:
    """The ending that decides, of two phases; the earlier one where both weigh the same."""
    return min(one, other, key=lambda ending: _GRAVITY.index(ending.cause))


def mark(report: pytest.TestReport, ending: Ending) -> None:
    """Let pytest's own lines use our word for what is not a plain failure."""
    if report.failed and ending.cause in _WORDS:
        setattr(report, WORD, _WORDS[ending.cause])


def status_of(report: object) -> tuple[str, str, str] | None:
    """Category, letter and word for pytest's progress and short summary; None for pytest's own.

    The category stays pytest's: its counts and ``--lf`` go by it.
    """
    word = getattr(report, WORD, None)
    if not isinstance(word, str) or not isinstance(report, pytest.TestReport):
        return None
    return ("failed" if report.when == "call" else "error", word[0], word)
