"""What the plugin writes to pytest's terminal, from whichever process it comes and whoever shows it.

A report that cannot be written says nothing of what the tests found. So each file, each picture and each line at the
end of a run is a part of its own, and so is what other plugins write then. A part that fails is told in one line, and
changes no exit status.

A measuring test has one line as it ends: what it was, what it found, what became of it and how long it took. The line
replaces the dot that pytest writes, in a file and a pipe as on a terminal. Workers of xdist attach what they found to
their reports, so that the controller writes the lines.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import pytest

from pytest_nfvperf.model.display import cut, encodable, visible
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.worker_channel import channel_of

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.report.texts import Findings

_WIDTH = 80


class Terminal:
    """pytest's terminal reporter, or what another plugin has put in its place, which may lack parts of it.

    Texts are shown as they are: control characters and what the encoding lacks are escaped.

    Args:
        reporter: the plugin "terminalreporter" (pytest-tldr's has no ``isatty``).
    """

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    @property
    def writer(self) -> Any:
        """The terminal writer of pytest; None where the reporter has none."""
        return getattr(self._reporter, "_tw", None)

    @property
    def file(self) -> TextIO:
        """Where it writes to."""
        own = getattr(self.writer, "_file", None) or getattr(self._reporter, "file", None)
        return cast("TextIO", own or sys.stdout)

    @property
    def verbosity(self) -> int:
        """As ``-v`` and ``-q`` count."""
        return int(getattr(self._reporter, "verbosity", 0))

    @property
    def hasmarkup(self) -> bool:
        """True where colours are shown."""
        return bool(getattr(self._reporter, "hasmarkup", False))

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe."""
        isatty = getattr(self._reporter, "isatty", None)
        terminal = isatty() if callable(isatty) else False
        return getattr(self.writer, "fullwidth", _WIDTH) if terminal else None

    @property
    def column(self) -> int:
        """Where the cursor is."""
        return int(getattr(self.writer, "width_of_current_line", 0))

    def section(self, title: str, sep: str = "=") -> None:
        """A line across, with a title."""
        if hasattr(self._reporter, "section"):
            self._reporter.section(self._shown(title), sep=sep)
        else:
            self.write_line(f" {title} ".center(_WIDTH, sep))

    def write_line(self, text: str, **markup: bool) -> None:
        """Whole lines; the text may have colours of our own in it."""
        self.begin_line()
        for line in text.split("\n"):
            self.write(line, **markup)
            self.write("\n")

    def write(self, text: str, **markup: bool) -> None:
        """A piece of a line."""
        if hasattr(self._reporter, "write"):
            self._reporter.write(self._shown(text), **markup)
        else:
            self.file.write(self._shown(text))

    def begin_line(self) -> None:
        """End pytest's line of dots if one is open; under xdist it has no path before it."""
        if hasattr(self._reporter, "currentfspath"):  # others begin a line anyway
            self._reporter.ensure_newline()
        if self.column:
            self.write("\n")

    def flush(self) -> None:
        """Hand over what was written."""
        (self._reporter if hasattr(self._reporter, "flush") else self.file).flush()

    def outlive_output(self) -> None:
        """From now on no line of pytest ends the run, should nobody read it any more or its disk be full."""
        from pytest_nfvperf.adapters.process.outputs import SteadyOutput  # noqa: PLC0415 - only in runs that measure

        if self.file is getattr(self.writer, "_file", None) and not hasattr(self.file, "failed"):
            self.writer._file = SteadyOutput(self.file)

    def lost(self) -> str:
        """Why the output takes no more; "" as long as it does."""
        self.flush()
        failed = getattr(self.file, "failed", None)
        return "" if failed is None else str(getattr(failed, "strerror", None) or failed)

    def _shown(self, text: str) -> str:
        return encodable(visible(text, colors=self.hasmarkup), getattr(self.file, "encoding", None) or "utf-8")


def terminal_of(config: pytest.Config) -> Terminal | None:
    """The terminal of this process; None in one that has none."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return None if reporter is None else Terminal(reporter)


def say(config: pytest.Config, line: str) -> None:
    """Write a line for the user while a run goes on; a worker of pytest-xdist has its controller write it."""
    channel = channel_of(config)
    if channel is not None:
        channel.say(line)
        return
    terminal = terminal_of(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None:
        return
    # The controller of workers captures nothing: it runs no test.
    controls = config.pluginmanager.hasplugin("dsession")
    with nullcontext() if controls or capture is None else capture.global_and_fixture_disabled():
        terminal.begin_line()
        terminal.write_line(f"nfvperf: {line}", yellow=True)
        terminal.flush()


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


FOUND = "nfv_found"
"""Attribute of reports of measuring tests: the fields of ``Findings``, all text, which xdist can send."""


def attach(report: pytest.TestReport, found: Findings | None = None) -> None:
    """Mark a report as one of a measuring test; the last one of a test carries what it found."""
    setattr(report, FOUND, found._asdict() if found else {})


class ResultLines:
    """Hooks of the process that writes to the terminal. Silent with ``-q`` and without pytest's terminal reporter."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: dict[str, dict[str, Any]] = {}
        self._seconds = defaultdict[str, float](float)
        self._ended = set[str]()
        self._repeated = set[str]()
        self._session: pytest.Session | None = None
        self._widest = 0

    @property
    def _terminal(self) -> Terminal | None:
        terminal = terminal_of(self._config)
        return None if terminal is None or terminal.verbosity < 0 else terminal

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how wide names are. The controller of xdist has no tests, but a session."""
        measuring = [item for item in session.items if is_measuring(item)]
        if not measuring:
            return
        from pytest_nfvperf.adapters.report.texts import test_name  # noqa: PLC0415 - only for tests that measure

        self._widest = max(len(test_name(item.nodeid)) for item in measuring)

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """It knows how many tests there are."""
        self._session = session

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Write no path: measuring tests have no dots that it would stand before. Then restore pytest's setting."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not hasattr(reporter, "showfspath") or self._terminal is None or not is_measuring(item):
            return (yield)
        before, reporter.showfspath = reporter.showfspath, False
        try:
            return (yield)
        finally:
            reporter.showfspath = before

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> Generator[None, tuple[str, str, Any], tuple[str, str, Any]]:
        """No dot; what is counted, and the word that ``-v`` shows, stay pytest's."""
        category, letter, word = yield
        return (category, "" if hasattr(report, FOUND) and self._terminal is not None else letter, word)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the phases of a test told."""
        found = getattr(report, FOUND, None)
        if found is not None:
            self._found[report.nodeid] = found
            self._seconds[report.nodeid] += report.duration
            if report.outcome not in {"passed", "failed", "skipped"}:  # "rerun": another plugin tries it again
                self._repeated.add(report.nodeid)

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """The line."""
        self._ended.add(nodeid)  # once, however often another plugin repeats it
        told, seconds = self._found.pop(nodeid, None), self._seconds.pop(nodeid, 0.0)
        repeated = nodeid in self._repeated
        self._repeated.discard(nodeid)
        terminal = self._terminal
        if not told or terminal is None:
            return
        from pytest_nfvperf.adapters.report.texts import Findings, ResultText  # noqa: PLC0415 - as above

        of = self._session.testscollected if self._session is not None else 0
        found = Findings(**told)
        if repeated:
            found = found._replace(reason=f"{found.reason}; the test is repeated".removeprefix("; "))
        text = ResultText(nodeid, found, seconds, (len(self._ended), of))
        terminal.begin_line()
        with parts_of(self._config).alone("the line of a test cannot be shown"):
            for pieces in text.lines(terminal.width, self._widest):
                for piece, markup in pieces:
                    terminal.write(piece, **markup)
                terminal.write("\n")
        terminal.flush()
