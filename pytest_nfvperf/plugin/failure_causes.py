"""What failed a test: its cause, its status and its reason, out of what a phase raised.

Calls that check their arguments raise ``ArgumentError``. What Python itself refuses, a wrong name on one of our objects
or an argument that a call of ours does not have, is the same kind of mistake of the test's author, and says nothing
about the DUT. It becomes a usage error that says in which line of the test it is.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import pytest

import pytest_nfvperf
from pytest_nfvperf.measure.compare_sides import SideLostError
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, InconclusiveError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.session.comparing import SidesBrokenError
from pytest_nfvperf.session.sla_check import InconclusiveWarning, SlaFailure

LONGEST_TEXT = 20_000


WORD = "nfv_word"
"""Attribute of a report, which xdist carries along: the word for it in pytest's own lines."""


_GRAVITY = (
    Cause.INTERNAL,
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


_ON_TESTBED = tuple(f"pytest_nfvperf.{one}." for one in ("adapters", "backends", "features", "measure"))
"""Modules that change the testbed, or wait for it."""


_WORDS = {Cause.INCONCLUSIVE: "INCONCLUSIVE", Cause.TESTBED: "BROKEN", Cause.SETUP: "BROKEN", Cause.USAGE: "USAGE"}


_WORDS |= {Cause.INTERNAL: "INTERNAL"}


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
    if cause is Cause.ASSERTION and interrupted(error):
        cause = Cause.INCONCLUSIVE  # a time limit says nothing of the DUT
    status = "error" if report.when != "call" or cause in {Cause.TESTBED, Cause.INTERNAL} else "failed"
    reason = _first_line(report, error)
    if cause is Cause.INTERNAL and error is not None:
        reason = f"{reason} ({_own_place(error)})"
    return Ending(status, cause, reason, report.longreprtext[-LONGEST_TEXT:])


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
    if error is not None and _is_internal(error):
        return Cause.INTERNAL
    return Cause.ASSERTION if phase == "call" else Cause.SETUP


def _is_internal(error: BaseException) -> bool:
    """True for what our own code raised and did not mean to, or let through from a library.

    What counts is who called last: in a traceback of test, nfvperf and library it is nfvperf, and in one of nfvperf and
    a user's callback the user.
    """
    meant = isinstance(error, (NfvperfError, pytest.fail.Exception, pytest.skip.Exception, pytest.exit.Exception))
    if meant or not isinstance(error, Exception) or interrupted(error):
        return False
    callers = [_owner(frame.f_globals.get("__name__", ""), frame.f_code.co_filename) for frame in _frames(error)]
    last = next((caller for caller in reversed(callers) if caller != "library"), "user")
    return last == "nfvperf"


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _owner(module: str, file: str) -> str:
    """Whose code: "nfvperf", "library" (of Python, or installed), or "user" (tests, conftest; our suites, too)."""
    if module.startswith("pytest_nfvperf.suites."):
        return "user"
    if module.startswith("pytest_nfvperf."):
        return "nfvperf"
    return "library" if any(Path(file).is_relative_to(folder) for folder in _LIBRARIES) else "user"


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _own_place(error: BaseException) -> str:
    """``pytest_nfvperf.measure.rig, line 120``: the last of our own lines in the traceback."""
    own = [
        (frame.f_globals.get("__name__", ""), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _owner(frame.f_globals.get("__name__", ""), frame.f_code.co_filename) == "nfvperf"
    ]
    module, line = own[-1]
    return f"{module}, line {line}"


def left_in_the_middle(error: BaseException) -> bool:
    """True for what nobody expected of code that works on the testbed: how far that came is unknown.

    Such as the ``pytest.fail`` that pytest-timeout raises from a signal's handler, in the middle of a trial.
    """
    foreseen = (NfvperfError, SlaFailure, SideLostError, SidesBrokenError, InconclusiveWarning, pytest.UsageError)
    if isinstance(error, (*foreseen, pytest.skip.Exception)):
        return False
    return bool(_places_on_testbed(error))


def interrupted(error: BaseException | None) -> bool:
    """True for what a signal's handler raised while our code measured: the time limit of a plugin, for example."""
    places = _places_on_testbed(error) if error is not None else []
    at = places[0] if places else None
    while at is not None:
        if _is_handler(at.tb_frame):
            return True
        at = at.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """A signal's handler is the one function that is given the frame which it interrupts (signal.signal)."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return frame.f_back is not None and any(frame.f_locals.get(name) is frame.f_back for name in names)


def _places_on_testbed(error: BaseException) -> list[TracebackType]:
    """Where an exception passed through our code, the outermost first."""
    places: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        if str(at.tb_frame.f_globals.get("__name__", "")).startswith(_ON_TESTBED):
            places.append(at)
        at = at.tb_next
    return places


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
    if not isinstance(word, str) or not isinstance(report, pytest.TestReport) or not report.failed:
        return None  # not failed any more: another plugin repeats it, or made something else of it
    return ("failed" if report.when == "call" else "error", word[0], word)


_PACKAGE = Path(pytest_nfvperf.__file__).resolve().parent


_WRITTEN_BY_AUTHORS = (_PACKAGE / "suites", _PACKAGE / "fixtures")
"""Folders of the package whose code calls the public API as an author does."""


_MISFIT = re.compile(
    r"(?P<call>[\w.]+)\(\) (got an unexpected keyword|got multiple values|missing \d+ required|takes )"
)


def as_usage_error(error: BaseException | None) -> BaseException | None:
    """The error as the usage error that it is, where an author misused the public API; else the error itself."""
    if error is None:
        return None
    told = _wrong_name(error) if isinstance(error, AttributeError) else _wrong_call(error)
    if told is None or not _is_authors(_innermost(error.__traceback__)):
        return error
    return ArgumentError(told).with_traceback(error.__traceback__)


def place_in_test(error: BaseException, root: Path) -> str:
    """``tests/test_x.py:12``, the innermost line that an author wrote; "" where there is none."""
    for file, line in reversed(list(_lines_of(error.__traceback__))):
        if _is_authors(file) and _is_local(file, root):
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
    if match is None or match["call"].split(".")[0] not in _public_names():
        return None
    return str(error)


def _public_names() -> set[str]:
    nfv = pytest_nfvperf
    return {name for space in (nfv, nfv.parts, nfv.results, nfv.extend, nfv.testing) for name in dir(space)}


def _lines_of(traceback: TracebackType | None) -> Iterable[tuple[Path, int]]:
    while traceback is not None:
        yield Path(traceback.tb_frame.f_code.co_filename), traceback.tb_lineno
        traceback = traceback.tb_next


def _innermost(traceback: TracebackType | None) -> Path:
    return ([Path(), *(file for file, _ in _lines_of(traceback))])[-1]


def _is_authors(file: Path) -> bool:
    real = file.resolve()
    authors = any(real.is_relative_to(folder.resolve()) for folder in _WRITTEN_BY_AUTHORS)
    return authors or not real.is_relative_to(_PACKAGE)


def _is_local(file: Path, root: Path) -> bool:
    return file.is_relative_to(root) and "site-packages" not in file.parts
