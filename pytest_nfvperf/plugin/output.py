"""Everything that the plugin writes to pytest's terminal, from any process.

A report that cannot be written says nothing about the DUT. So each file, picture and line at the end of a run is an
isolated part; so is the output of other plugins. A part that fails is reported in one line, and changes no exit status.

A measuring test gets one line when it ends: its name, figures, result and time. The line replaces pytest's dot, also in
a file or a pipe. Workers of xdist attach their findings to their reports, so that the controller writes the lines.
"""

from __future__ import annotations

import ast
import os
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

import pytest
from _pytest._code.code import TerminalRepr

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import cut, did_you_mean, encodable, folded, format_elapsed, storable, visible
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.worker import SAY, channel_of

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.evidence.reader import RunEvidence
    from pytest_nfvperf.adapters.report.texts import Findings
    from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion
    from pytest_nfvperf.ports.machine import Sink

FINDINGS = "nfv_found"
"""Attribute of reports of measuring tests: the fields of ``Findings``, all text, which xdist can send."""
RESULT_LINES = "nfvperf-result-lines"
"""Name of the plugin ``ResultLines``."""
_SECONDS = "nfvperf/seconds"
"""In pytest's cache: how long each test took, the last time it ran."""
PARTS_KEY = pytest.StashKey["EndParts"]()
_HOOKS_OF_THE_END = ("pytest_sessionfinish", "pytest_terminal_summary", "pytest_unconfigure")
_LONGEST = 400
_WIDTH = 80
_FIXTURES = Path(__file__).parents[1] / "fixtures"


class Terminal:
    """The plugin "terminalreporter", pytest's or another one that lacks parts of it (pytest-tldr's has no ``isatty``).

    Control characters in texts, and characters that the encoding lacks, are escaped.
    """

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    @property
    def writer(self) -> Any:
        return getattr(self._reporter, "_tw", None)

    @property
    def file(self) -> TextIO:
        own = getattr(self.writer, "_file", None) or getattr(self._reporter, "file", None)
        return cast("TextIO", own or sys.stdout)

    @property
    def verbosity(self) -> int:
        return int(getattr(self._reporter, "verbosity", 0))

    @property
    def hasmarkup(self) -> bool:
        return bool(getattr(self._reporter, "hasmarkup", False))

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe."""
        isatty = getattr(self._reporter, "isatty", None)
        terminal = isatty() if callable(isatty) else False
        return getattr(self.writer, "fullwidth", _WIDTH) if terminal else None

    @property
    def column(self) -> int:
        return int(getattr(self.writer, "width_of_current_line", 0))

    def section(self, title: str, sep: str = "=") -> None:
        if hasattr(self._reporter, "section"):
            self._reporter.section(self._shown(title), sep=sep)
        else:
            self.write_line(f" {title} ".center(_WIDTH, sep))

    def write_line(self, text: str, **markup: bool) -> None:
        self.begin_line()
        for line in text.split("\n"):
            self.write(line, **markup)
            self.write("\n")

    def write(self, text: str, **markup: bool) -> None:
        if hasattr(self._reporter, "write"):
            self._reporter.write(self._shown(text), **markup)
        else:
            self.file.write(self._shown(text))

    def begin_line(self) -> None:
        """End pytest's line of dots if one is open. Under xdist no path precedes it."""
        if hasattr(self._reporter, "currentfspath"):  # others begin a line anyway
            self._reporter.ensure_newline()
        if self.column:
            self.write("\n")

    def flush(self) -> None:
        (self._reporter if hasattr(self._reporter, "flush") else self.file).flush()

    def outlive_output(self) -> None:
        """From now on a closed pipe or a full disk no longer ends the run by an error of pytest."""
        from pytest_nfvperf.adapters.process.outputs import SteadyOutput  # noqa: PLC0415 - only in runs that measure

        if self.file is getattr(self.writer, "_file", None) and not hasattr(self.file, "failed"):
            self.writer._file = SteadyOutput(self.file)

    def lost(self) -> str:
        """Why the output takes no more; "" while it does."""
        self.flush()
        failed = getattr(self.file, "failed", None)
        return "" if failed is None else str(getattr(failed, "strerror", None) or failed)

    def _shown(self, text: str) -> str:
        return encodable(visible(text, colors=self.hasmarkup), getattr(self.file, "encoding", None) or "utf-8")


def terminal_of(config: pytest.Config) -> Terminal | None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return None if reporter is None else Terminal(reporter)


def say(config: pytest.Config, line: str) -> None:
    """Show the user a line during the run. A worker of pytest-xdist sends it to its controller."""
    channel = channel_of(config)
    if channel is not None:
        channel.send(SAY, line)
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


def parts_of(config: pytest.Config) -> EndParts:
    return config.stash.setdefault(PARTS_KEY, EndParts())


class EndParts:
    """Runs the parts of a run's end in isolation, and collects a line for each that failed."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._shown: set[str] = set()

    @contextmanager
    def isolated(self, what: str, then: str = "") -> Iterator[None]:
        """Run one part. ``what`` begins its line, such as "the report cannot be written"; ``then``: what to do."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # -W error is for tests: a warning here loses no report
                yield
        except pytest.exit.Exception:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing about the tests
            self.note(what, error, then)

    def note(self, what: str, error: Exception, then: str = "") -> None:
        """Store the line. Of several failures of one part the first counts."""
        line = cut(" ".join(visible(f"{what}: {_reason(error)}").split()), _LONGEST)
        self._lines.setdefault(what, f"{line}; {then}" if then else line)

    def show(self, terminal: Terminal | None = None) -> None:
        """Show the lines that were not shown yet, on standard error without a terminal."""
        for line in (line for what, line in self._lines.items() if what not in self._shown):
            if terminal is None:
                print(f"nfvperf: {line}", file=sys.stderr)
            else:
                terminal.write_line(f"nfvperf: {line}", yellow=True)
        self._shown.update(self._lines)


def _reason(error: Exception) -> str:
    """The system's text for a system error; type and location for an unexpected error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, (NfvperfError, pytest.UsageError)):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{location}"


def protect_end(config: pytest.Config) -> None:
    """Keep the terminal, and other plugins' output at the end, from ending this run. Call it once, before measuring.

    If a hook raises, pytest ends the run by a traceback and status 1, and calls no further hook. So system errors in
    hooks of installed plugins become a line: a full disk, a missing permission, a character that a file does not take.
    Other exceptions pass, and so does everything that a project's own conftest raises: it may be intended.
    """
    terminal = terminal_of(config)
    if terminal is not None and not hasattr(config, "workerinput"):
        terminal.outlive_output()
    parts = parts_of(config)
    for name in _HOOKS_OF_THE_END:
        for impl in getattr(config.hook, name).get_hookimpls():
            module = str(getattr(impl.function, "__module__", ""))
            if not (impl.wrapper or impl.hookwrapper or module.rpartition(".")[2] == "conftest"):
                what = f"{module.removeprefix('_pytest.')} failed at the end of the run"
                impl.function = failing_in_isolation(impl.function, parts, what, (OSError, UnicodeError))


def make_junit_writable(config: pytest.Config) -> None:
    """Escape attributes of the JUnit file: pytest writes a path as it is, even where XML allows none of it."""
    from _pytest.junitxml import xml_key  # noqa: PLC0415 - at the end of a run alone

    junit = config.stash.get(xml_key, None)
    for case in junit.node_reporters_ordered if junit is not None else ():
        if hasattr(case, "attrs"):
            case.attrs = {name: visible(value) for name, value in case.attrs.items()}
        else:  # it is an element already, and ``to_xml`` returns that
            for element in case.to_xml().iter():
                element.attrib.update({name: visible(value) for name, value in element.attrib.items()})


def failing_in_isolation(
    function: Callable[..., object], parts: EndParts, what: str, kinds: tuple[type[Exception], ...]
) -> Callable[..., object]:
    """Wrap a function: exceptions of these kinds become a line at the end of the run."""

    def called(*arguments: object) -> object:
        try:
            return function(*arguments)
        except pytest.exit.Exception:
            raise
        except kinds as error:
            parts.note(what, error)
            return None

    return called


class ResultExporter(Protocol):
    """Exports the results of tests to another tool. Its failures are reported at the end of the run."""

    def sink(self, run_dir: Path) -> Sink:
        """Takes the records of this process."""

    def interrupted(self, became: TestConclusion) -> None:
        """Export the running test as unfinished: the run ends first."""

    def concluded(self, run: RunEvidence, conclusion: RunConclusion) -> None:
        """Export tests that no process could export, because they never ended."""


OTHER_RESULTS = Point[Callable[[pytest.Config, str], ResultExporter]]("results")
"""By the option of pytest. Its value is the second argument."""


def other_results(config: pytest.Config) -> Iterator[ResultExporter]:
    """The exporters that the user chose by options; others are not imported."""
    for option in OTHER_RESULTS.names():
        if value := config.getoption(option, None):
            yield OTHER_RESULTS.part(option)(config, value)


def attach(report: pytest.TestReport, findings: Findings | None = None) -> None:
    """Mark the report of a measuring test. The last report of a test carries its findings."""
    setattr(report, FINDINGS, findings._asdict() if findings else {})


CONFTEST_LINE = 'pytest_plugins = ["pytest_nfvperf.fixtures.all"]'
"""What a project's top conftest.py needs, to have our fixtures."""


def explain_missing_fixture(report: pytest.TestReport, config: pytest.Config) -> None:
    """Say what to write where pytest found no fixture of a name that is one of ours, or nearly one of those it has."""
    shown, name = report.longrepr, getattr(report.longrepr, "argname", None)
    lines = getattr(shown, "errorstring", "").split("\n")
    if not name or not lines[0].endswith(" not found"):
        return
    if name in _our_fixtures():
        file = config.rootpath / "conftest.py"
        what = f"add this line to {file}" if file.is_file() else f"write {file} with this line"
        lines.insert(1, f"'{name}' comes with pytest_nfvperf: {what}:\n{CONFTEST_LINE}")
    else:
        available = next((line.partition(": ")[2] for line in lines if "available fixtures: " in line), "")
        lines[0] += did_you_mean(name, available.split(", "))
    setattr(shown, "errorstring", "\n".join(lines))  # noqa: B010 - a class of pytest's own


def _our_fixtures() -> set[str]:
    """Names of all fixtures of the package, read without importing them: this project may need none of it."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in _FIXTURES.glob("*.py")]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {one.name for one in functions if any("fixture" in ast.unparse(mark) for mark in one.decorator_list)}


class FailureText(TerminalRepr):
    """The text of a failed test, folded on a terminal. It is no ``str``, which pytest's short summary would repeat."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def toterminal(self, tw: Any) -> None:
        """What is indented, as in tables, stays as it is."""
        width = tw.fullwidth if tw._file.isatty() else None
        for line in self._lines:
            for part in [line] if line.startswith(" ") else folded(line, width):
                tw.line(part)


class ResultLines:
    """Writes a line for each measuring test. Silent with ``-q`` and without pytest's terminal reporter."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._fields: dict[str, dict[str, Any]] = {}
        self._seconds = defaultdict[str, float](float)
        self._ended = set[str]()
        self._repeated = set[str]()
        self._session: pytest.Session | None = None
        self._widest = 0
        self._measuring: list[str] = []
        self._took: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._begun = 0.0

    @property
    def _terminal(self) -> Terminal | None:
        terminal = terminal_of(self._config)
        return None if terminal is None or terminal.verbosity < 0 else terminal

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        measuring = [item for item in session.items if is_measuring(item)]
        if measuring:
            from pytest_nfvperf.adapters.report.texts import short_node_id  # noqa: PLC0415 - only for tests that measure

            self._widest = max(len(short_node_id(item.nodeid)) for item in measuring)
            self._measuring = [item.nodeid for item in measuring]
            self._expected = self.earlier()

    def earlier(self) -> dict[str, float]:
        """Seconds of each test, the last time it ran here."""
        cached = self._cache.get(_SECONDS, {}) if self._cache is not None else {}
        pairs = cached.items() if isinstance(cached, dict) else ()
        return {node: seconds for node, seconds in pairs if isinstance(seconds, (int, float))}

    @property
    def _cache(self) -> pytest.Cache | None:
        """None with ``-p no:cacheprovider``."""
        return getattr(self._config, "cache", None)

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        if self._took and self._cache is not None:
            with parts_of(self._config).isolated("the times of tests cannot be kept for the next run"):
                took = {storable(node): seconds for node, seconds in self._took.items()}
                self._cache.set(_SECONDS, {**self.earlier(), **took})

    @pytest.hookimpl
    def pytest_runtest_logstart(self) -> None:
        self._begun = time.monotonic()

    def time_left(self) -> str:
        """``3/7, 2.5 min left of 4.0 min``: where the run is, and what it takes by the run before.

        A test that was not in it is expected to take the mean of those that ended; before the first has, nobody knows.
        """
        count = self._session.testscollected if self._session is not None else len(self._measuring)
        where = f"{len(self._ended) + 1}/{count}"
        mean = sum(self._took.values()) / len(self._took) if self._took else None
        waiting = [self._expected.get(node, mean) for node in self._measuring if node not in self._took]
        known = [seconds for seconds in waiting if seconds is not None]
        if not known or len(known) < len(waiting):
            return where
        left_s = sum(known) - min(known[0], time.monotonic() - self._begun)
        whole_s = sum(known) + sum(self._took.values())
        return f"{where}, {format_elapsed(left_s)} left of {format_elapsed(whole_s)}"

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session  # counts the tests, also in the controller of xdist, which collects none

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Suppress the path that pytest writes before dots: measuring tests have no dots."""
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
        """Suppress the dot. The count, and the word for ``-v``, stay pytest's."""
        category, letter, word = yield
        return (category, "" if hasattr(report, FINDINGS) and self._terminal is not None else letter, word)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        fields = getattr(report, FINDINGS, None)
        if fields is not None:
            self._fields[report.nodeid] = fields
            self._seconds[report.nodeid] += report.duration
            if isinstance(report.longrepr, str):
                report.longrepr = FailureText(report.longrepr)
            if report.outcome not in {"passed", "failed", "skipped"}:  # "rerun": another plugin tries it again
                self._repeated.add(report.nodeid)

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._ended.add(nodeid)  # once, however often another plugin repeats it
        fields, seconds = self._fields.pop(nodeid, None), self._seconds.pop(nodeid, 0.0)
        repeated = nodeid in self._repeated
        self._repeated.discard(nodeid)
        if fields is not None:
            self._took[nodeid] = seconds
        terminal = self._terminal
        if not fields or terminal is None:
            return
        from pytest_nfvperf.adapters.report.texts import Findings, result_lines  # noqa: PLC0415 - as above

        count = self._session.testscollected if self._session is not None else 0
        findings = Findings(**fields)
        if repeated:
            findings = findings._replace(reason=f"{findings.reason}; the test is repeated".removeprefix("; "))
        ended = len(self._ended), count
        terminal.begin_line()
        with parts_of(self._config).isolated("the line of a test cannot be shown"):
            for pieces in result_lines(nodeid, findings, seconds, ended, terminal.width, self._widest):
                for piece, markup in pieces:
                    terminal.write(piece, **markup)
                terminal.write("\n")
        terminal.flush()


# The report of a run in virtual time: the host writes it after the guest, where all takes much longer, has ended. So
# the run there only says where its report will be, and leaves a note in the shared folder.

NOTE = "NFVPERF_REPORT_NOTE"
"""Environment variable of the run in the guest: the file in which it notes its directory."""
PAGE = "report.html"


def is_left_to_host() -> bool:
    return NOTE in os.environ


def leave_to_host(run_dir: Path) -> Path:
    """Leave a note for the host; returns the path of the future report."""
    Path(os.environ[NOTE]).write_text(str(run_dir), encoding="utf-8")
    return run_dir / PAGE


def write_noted(note: Path, rootpath: Path) -> None:
    """Write the report that a run in a guest left to its host. ``note``: the file that ``NOTE`` named there."""
    if not note.exists():
        return
    # Every pytest run imports this module, and these take a second.
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415

    run_dir, parts = Path(note.read_text(encoding="utf-8")), EndParts()
    with parts.isolated("the report cannot be written", f"then: nfvperf report {run_dir}"):
        write_report(read_run(run_dir), run_dir, rootpath)
    parts.show()
