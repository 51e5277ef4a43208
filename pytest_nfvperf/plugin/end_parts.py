"""The end of a run, part by part: a part that fails is told in one line, and changes no exit status.

A report that cannot be written says nothing of what the tests found. So each file, each picture and each line at the
end of a run is a part of its own; the same holds for what other plugins write then.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.fold import cut
from pytest_nfvperf.model.text import visible
from pytest_nfvperf.plugin.telling import terminal_of

PARTS_KEY = pytest.StashKey["EndParts"]()
_LONGEST = 400
_HOOKS = ("pytest_sessionfinish", "pytest_terminal_summary", "pytest_unconfigure")


def parts_of(config: pytest.Config) -> EndParts:
    """The parts of this run's end, made when first asked for."""
    return config.stash.setdefault(PARTS_KEY, EndParts())


class EndParts:
    """Runs parts, and keeps a line for each that failed."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._told: set[str] = set()

    @contextmanager
    def alone(self, what: str, then: str = "") -> Iterator[None]:
        """Around one part.

        Args:
            what: the beginning of the line, such as "the report cannot be written".
            then: its end: what to do.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # -W error is for tests: a warning here loses no report
                yield
        except pytest.exit.Exception:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing about the tests
            self.note(what, error, then)

    def note(self, what: str, error: Exception, then: str = "") -> None:
        """Keep the line; of parts of the same name the first."""
        line = cut(" ".join(visible(f"{what}: {_reason(error)}").split()), _LONGEST)
        self._lines.setdefault(what, f"{line}; {then}" if then else line)

    def untold(self) -> list[str]:
        """Lines that nobody has shown yet; they are shown now."""
        fresh = [line for what, line in self._lines.items() if what not in self._told]
        self._told.update(self._lines)
        return fresh


def _reason(error: Exception) -> str:
    """Of what the world refused its own words; of a fault of ours where it is."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, (NfvperfError, pytest.UsageError)):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def protect_end(config: pytest.Config) -> None:
    """From now on neither the terminal nor what another plugin writes at the end can end this run.

    Called once, when the run is about to measure.
    """
    terminal = terminal_of(config)
    if terminal is not None and not hasattr(config, "workerinput"):
        terminal.outlive_output()
    _let_others_fail_alone(config)


def _let_others_fail_alone(config: pytest.Config) -> None:
    """Whatever another plugin cannot write fails alone.

    pytest ends a run by a traceback and status 1 where a hook raises, and calls no hook after it. Of installed plugins
    this holds for what the world refuses: a full disk, a missing permission, a character that a file does not take.
    Other exceptions stay, and so does all that a project's own conftest raises: it may mean it.
    """
    parts = parts_of(config)
    for name in _HOOKS:
        for impl in getattr(config.hook, name).get_hookimpls():
            module = str(getattr(impl.function, "__module__", ""))
            if not (impl.wrapper or impl.hookwrapper or module.rpartition(".")[2] == "conftest"):
                what = f"{module.removeprefix('_pytest.')} failed at the end of the run"
                impl.function = failing_alone(impl.function, parts, what, (OSError, UnicodeError))


def make_junit_writable(config: pytest.Config) -> None:
    """Escape what pytest does not: it writes a path into its JUnit file as it is, where none of it fits."""
    from _pytest.junitxml import xml_key  # noqa: PLC0415 - at the end of a run alone

    junit = config.stash.get(xml_key, None)
    for case in junit.node_reporters_ordered if junit is not None else ():
        if hasattr(case, "attrs"):
            case.attrs = {name: visible(value) for name, value in case.attrs.items()}
        else:  # it is an element already, and ``to_xml`` returns that
            for element in case.to_xml().iter():
                element.attrib.update({name: visible(value) for name, value in element.attrib.items()})


def failing_alone(
    function: Callable[..., object], parts: EndParts, what: str, kinds: tuple[type[Exception], ...]
) -> Callable[..., object]:
    """The same function, of which an exception of these kinds becomes a line at the end of the run."""

    def called(*arguments: object) -> object:
        try:
            return function(*arguments)
        except pytest.exit.Exception:
            raise
        except kinds as error:
            parts.note(what, error)
            return None

    return called


class ShownSink:
    """A sink that shows records and keeps none: where it fails, the test and its evidence go on.

    Args:
        sink: that one.
        parts: take the line.
        what: the beginning of the line.
    """

    def __init__(self, sink: Any, parts: EndParts, what: str) -> None:
        self._sink = sink
        self._parts = parts
        self._what = what

    def emit(self, record: Any) -> None:
        """Show it, if that works."""
        with self._parts.alone(self._what):
            self._sink.emit(record)

    def close(self) -> None:
        """End it, if that works."""
        with self._parts.alone(self._what):
            self._sink.close()
