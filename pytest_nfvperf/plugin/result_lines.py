"""One line a measuring test as it ends: what it was, what it found, what became of it and how long it took.

It replaces the dot that pytest writes, in a file and a pipe as on a terminal. Workers of xdist attach what they found
to their reports, so that the controller writes the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.plugin.end_parts import parts_of
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.telling import Terminal, terminal_of

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.report.texts import TestFindings

FOUND = "nfv_found"
"""Attribute of reports of measuring tests: the fields of ``TestFindings``, all text, which xdist can send."""


def attach(report: pytest.TestReport, found: TestFindings | None = None) -> None:
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
        from pytest_nfvperf.adapters.report.texts import ResultText, TestFindings  # noqa: PLC0415 - as above

        of = self._session.testscollected if self._session is not None else 0
        found = TestFindings(**told)
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
