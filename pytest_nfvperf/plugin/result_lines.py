"""One line a measuring test as it ends: what it was, what it found, what became of it and how long it took.

It replaces the dot that pytest writes, in a file and a pipe as on a terminal. Workers of xdist attach what they found
to their reports, so that the controller writes the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.plugin.labels import is_measuring

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.report.result_text import Found

FOUND = "nfv_found"
"""Attribute of reports of measuring tests: the fields of ``Found``, all text, which xdist can send."""


def attach(report: pytest.TestReport, found: Found | None = None) -> None:
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
    def _reporter(self) -> pytest.TerminalReporter | None:
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return None if reporter is None or reporter.verbosity < 0 else reporter

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how wide names are. The controller of xdist has no tests, but a session."""
        measuring = [item for item in session.items if is_measuring(item)]
        if not measuring:
            return
        from pytest_nfvperf.adapters.report.result_text import test_name  # noqa: PLC0415 - only for tests that measure

        self._widest = max(len(test_name(item.nodeid)) for item in measuring)

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """It knows how many tests there are."""
        self._session = session

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Write no path: measuring tests have no dots that it would stand before. Then restore pytest's setting."""
        reporter = self._reporter
        if reporter is None or not is_measuring(item):
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
        return (category, "" if hasattr(report, FOUND) and self._reporter is not None else letter, word)

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
        reporter = self._reporter
        if not told or reporter is None:
            return
        from pytest_nfvperf.adapters.report.result_text import Found, ResultText  # noqa: PLC0415 - as above

        of = self._session.testscollected if self._session is not None else 0
        width = reporter._tw.fullwidth if reporter.isatty() else None
        found = Found(**told)
        if repeated:
            found = found._replace(reason=f"{found.reason}; the test is repeated".removeprefix("; "))
        text = ResultText(nodeid, found, seconds, (len(self._ended), of))
        _begin_line(reporter)
        for pieces in text.lines(width, self._widest):
            for piece, markup in pieces:
                reporter.write(piece, **markup)
            reporter.line("")
        reporter.flush()


def _begin_line(reporter: pytest.TerminalReporter) -> None:
    """End pytest's line of dots if one is open; under xdist it has no path before it."""
    reporter.ensure_newline()
    if reporter._tw.width_of_current_line:
        reporter.line("")
