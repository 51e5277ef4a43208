"""Mistakes of the author of a test: usage errors that say in which line of the test they are.

Calls that check their arguments raise ``ArgumentError``. What Python itself refuses, a wrong name on one of our objects
or an argument that a call of ours does not have, is the same kind of mistake: it says nothing about the DUT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pytest

import pytest_nfvperf
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.plugin.labels import TOPOLOGY_FIXTURES

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
    for file, line in reversed(list(_frames(error.__traceback__))):
        if _is_authors(file) and _is_local(file, root):
            return f"{file.relative_to(root)}:{line}"
    return ""


def refuse_two_topologies(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for a test that takes two fixtures which both deploy a topology.

    The second would replace the first before the test begins.
    """
    for item in items:
        arguments = getattr(getattr(item, "_fixtureinfo", None), "argnames", ())
        taken = [name for name in arguments if name in TOPOLOGY_FIXTURES]
        if len(taken) > 1:
            raise pytest.UsageError(
                f"{item.nodeid} takes the fixtures {listed(taken)}, which deploy a topology each, and a testbed has "
                "one at a time: take one of them; or take `deploy`, and deploy the second after you measured on the "
                "first; or compare both by study.forwarding_rate(...)"
            )


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


def _frames(traceback: TracebackType | None) -> Iterable[tuple[Path, int]]:
    while traceback is not None:
        yield Path(traceback.tb_frame.f_code.co_filename), traceback.tb_lineno
        traceback = traceback.tb_next


def _innermost(traceback: TracebackType | None) -> Path:
    return ([Path(), *(file for file, _ in _frames(traceback))])[-1]


def _is_authors(file: Path) -> bool:
    real = file.resolve()
    authors = any(real.is_relative_to(folder.resolve()) for folder in _WRITTEN_BY_AUTHORS)
    return authors or not real.is_relative_to(_PACKAGE)


def _is_local(file: Path, root: Path) -> bool:
    return file.is_relative_to(root) and "site-packages" not in file.parts
