"""What failed a test: its cause, its status and its reason, taken from what a phase raised.

Calls that check their arguments raise ``ArgumentError``. Python itself refuses a wrong name on one of our objects, or
an argument that a call of ours does not have. Both are mistakes of the test's author and say nothing about the DUT, so
they become usage errors that name the line of the test.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from types import FrameType

import pytest

import pytest_nfvperf
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, InconclusiveError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.records import Cause, TestEndData
from pytest_nfvperf.model.sla.verdict import Judgement, headline_of
from pytest_nfvperf.session.comparison import SideLostError, SidesBrokenError
from pytest_nfvperf.session.slas import InconclusiveWarning, SlaFailure

LONGEST_TEXT = 20_000
PASSED = TestEndData("passed", 0.0)
WORD = "nfv_word"
"""Attribute of a report, which xdist carries along: the word for it in pytest's own lines."""
_WORDS = {
    Cause.TEST: "ERROR",
    Cause.INCONCLUSIVE: "INCONCLUSIVE",
    Cause.TESTBED: "BROKEN",
    Cause.SETUP: "BROKEN",
    Cause.USAGE: "USAGE",
    Cause.INTERNAL: "INTERNAL",
}
_GRAVITY = (
    Cause.INTERNAL,
    Cause.USAGE,
    Cause.TESTBED,
    Cause.SETUP,
    Cause.SLA,
    Cause.ASSERTION,
    Cause.TEST,
    Cause.INCONCLUSIVE,
    Cause.XFAIL,
    Cause.SKIP,
    Cause.NOT_RUN,
    Cause.UNKNOWN,
)
_ON_TESTBED = tuple(f"pytest_nfvperf.{one}." for one in ("adapters", "backends", "features", "measure"))
"""Modules that change the testbed, or wait for it."""
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = Path(pytest_nfvperf.__file__).resolve().parent
_WRITTEN_BY_AUTHORS = (_PACKAGE / "suites", _PACKAGE / "fixtures")
"""Folders of the package whose code calls the public API as an author does."""
_MISFIT = re.compile(
    r"(?P<call>[\w.]+)\(\) (got an unexpected keyword|got multiple values|missing \d+ required|takes )"
)


def ending_of(report: pytest.TestReport, error: BaseException | None) -> TestEndData:
    """How one phase of a test ended, without its time. The report has the message that is shown already."""
    text = report.longreprtext[-LONGEST_TEXT:]
    if report.skipped and hasattr(report, "wasxfail"):
        why = report.wasxfail.removeprefix("reason: ")
        return TestEndData("skipped", 0.0, why or "expected to fail", Cause.XFAIL, text)
    if report.skipped:  # pytest keeps (file, line, "Skipped: reason")
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        return TestEndData("skipped", 0.0, reason.removeprefix("Skipped: "), Cause.SKIP)
    if not report.failed:
        return PASSED
    cause = cause_of(error, report.when or "call")
    if cause in {Cause.ASSERTION, Cause.TEST} and interrupted(error):
        cause = Cause.INCONCLUSIVE  # a time limit says nothing about the DUT
    status = "error" if report.when != "call" or cause in {Cause.TESTBED, Cause.INTERNAL} else "failed"
    reason = _first_line(report, error)
    if cause is Cause.INTERNAL and error is not None:
        ours = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _owner(frame) == "nfvperf"]
        reason = f"{reason} ({ours[-1][0].f_globals.get('__name__', '')}, line {ours[-1][1]})"
    return TestEndData(status, 0.0, reason, cause, text)


def cause_of(error: BaseException | None, phase: str) -> Cause:
    """Classify an exception. In the test's own body an assertion is a failure, and anything else the test's error."""
    match error:
        case SlaFailure():
            return Cause.INCONCLUSIVE if error.judgement is Judgement.INCONCLUSIVE else Cause.SLA
        case TestbedError() | SideLostError() | SidesBrokenError():
            return Cause.TESTBED
        case InconclusiveError() | InconclusiveWarning():  # the warning where warnings are errors
            return Cause.INCONCLUSIVE
        case ConfigError() | pytest.UsageError() | pytest.FixtureLookupError():
            return Cause.USAGE
    if error is not None and _is_internal(error):
        return Cause.INTERNAL
    in_body = Cause.ASSERTION if error is None or _is_check(error) else Cause.TEST
    return in_body if phase == "call" else Cause.SETUP


def _is_check(error: BaseException) -> bool:
    """True for what a test raises when it finds something wrong; a ``KeyError`` is a fault of the test itself."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_check, error.exceptions))
    return isinstance(error, (AssertionError, NfvperfError, pytest.fail.Exception))


def _is_internal(error: BaseException) -> bool:
    """True for what our own code raised without meaning to, or let through from a library.

    The last caller counts. In a traceback of test, nfvperf and library it is nfvperf; in one of nfvperf and a user's
    callback it is the user.
    """
    meant = isinstance(error, (NfvperfError, pytest.fail.Exception, pytest.skip.Exception, pytest.exit.Exception))
    if meant or not isinstance(error, Exception) or interrupted(error):
        return False
    callers = [_owner(frame) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((caller for caller in reversed(callers) if caller != "library"), "user") == "nfvperf"


def _owner(frame: FrameType) -> str:
    """Whose code: "nfvperf", "library" (Python's, or installed), or "user" (tests, conftest, our suites)."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("pytest_nfvperf."):
        return "user" if module.startswith("pytest_nfvperf.suites.") else "nfvperf"
    return "library" if any(Path(frame.f_code.co_filename).is_relative_to(folder) for folder in _LIBRARIES) else "user"


def left_unfinished(error: BaseException) -> bool:
    """True for an unexpected error from code that works on the testbed: how far that code came is unknown.

    An example is the ``pytest.fail`` that pytest-timeout raises from a signal handler, in the middle of a trial.
    """
    expected = (NfvperfError, SlaFailure, SideLostError, SidesBrokenError, InconclusiveWarning, pytest.UsageError)
    return not isinstance(error, (*expected, pytest.skip.Exception)) and bool(_frames_from_testbed_on(error))


def interrupted(error: BaseException | None) -> bool:
    """Whether a signal handler raised it while our code measured, such as the time limit of a plugin."""
    for frame in _frames_from_testbed_on(error) if error is not None else ():
        # A signal handler is the one function that receives the frame which it interrupted (signal.signal).
        arguments = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        if frame.f_back is not None and any(frame.f_locals.get(name) is frame.f_back for name in arguments):
            return True
    return False


def _frames_from_testbed_on(error: BaseException) -> list[FrameType]:
    """The frames that an exception passed through, from the outermost one of our code that works on the testbed."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return list(dropwhile(lambda frame: not str(frame.f_globals.get("__name__", "")).startswith(_ON_TESTBED), frames))


def _first_line(report: pytest.TestReport, error: BaseException | None) -> str:
    if isinstance(error, pytest.FixtureLookupError):
        return str(getattr(report.longrepr, "errorstring", error)).split("\n", 1)[0]
    if error is None:  # a test that was expected to fail, and passed
        return str(report.longrepr).strip().splitlines()[0]
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    if not lines:
        return name
    first = headline_of(str(error)) if isinstance(error, (SlaFailure, InconclusiveWarning)) else lines[0]
    ours = isinstance(error, (AssertionError, NfvperfError, pytest.UsageError, pytest.fail.Exception))
    return first if ours else f"{name}: {first}"


def gravest(endings: Iterable[TestEndData]) -> TestEndData:
    """The ending that decides, of the phases of a test: the gravest one, or the first of several alike."""
    return min((PASSED, *endings), key=lambda ending: _GRAVITY.index(ending.cause))


def mark(report: pytest.TestReport, ending: TestEndData) -> None:
    """Set our word for pytest's own lines, unless it is a plain failure."""
    if report.failed and ending.cause in _WORDS:
        setattr(report, WORD, _WORDS[ending.cause])


def status_of(report: object) -> tuple[str, str, str] | None:
    """Category, letter and word for pytest's progress and short summary; None for pytest's own.

    The category stays pytest's: its counts and ``--lf`` go by it.
    """
    word = getattr(report, WORD, None)
    if not isinstance(word, str) or not isinstance(report, pytest.TestReport) or not report.failed:
        return None  # no longer failed: another plugin repeats it, or changed the report
    return ("failed" if report.when == "call" else "error", word[0], word)


def as_usage_error(error: BaseException | None) -> BaseException | None:
    """The error as a usage error where an author misused the public API; else the error itself."""
    if error is None:
        return None
    message = _wrong_name(error) if isinstance(error, AttributeError) else _wrong_call(error)
    files = [Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if message is None or not _is_authors(files[-1] if files else Path()):
        return error
    return ArgumentError(message).with_traceback(error.__traceback__)


def usage_text(error: BaseException, root: Path) -> str:
    """``path p0 - p1: ... (mine/test_mine.py:3)`` for a misuse of the public API; "" for another error."""
    found = as_usage_error(error)
    location = location_in_test(found, root) if isinstance(found, (ConfigError, pytest.UsageError)) else ""
    return f"{found} ({location})" if location else ""


def location_in_test(error: BaseException, root: Path) -> str:
    """``tests/test_x.py:12``, the innermost line that an author wrote; "" without one."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = Path(frame.f_code.co_filename)
        if _is_authors(file) and file.is_relative_to(root) and "site-packages" not in file.parts:
            return f"{file.relative_to(root)}:{line}"
    return ""


def _wrong_name(error: AttributeError) -> str | None:
    owner = type(error.obj)
    if not error.name or owner.__module__.partition(".")[0] != _PACKAGE.name:
        return None
    known = [name for name in dir(error.obj) if not name.startswith("_")]
    hint = did_you_mean(error.name, known)
    return f"{owner.__name__} has no {error.name!r}{hint or '.'} It has {listed(known)}"


def _wrong_call(error: BaseException) -> str | None:
    match = _MISFIT.match(str(error)) if isinstance(error, TypeError) else None
    if match is None:
        return None
    nfv = pytest_nfvperf
    public = {name for space in (nfv, nfv.parts, nfv.results, nfv.extend, nfv.testing) for name in dir(space)}
    return str(error) if match["call"].split(".")[0] in public else None


def _is_authors(file: Path) -> bool:
    real = file.resolve()
    authors = any(real.is_relative_to(folder.resolve()) for folder in _WRITTEN_BY_AUTHORS)
    return authors or not real.is_relative_to(_PACKAGE)
