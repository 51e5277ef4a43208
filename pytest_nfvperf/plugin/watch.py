"""Watches how a run ends: hooks that need to remember something, in every run, so light to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator

import pytest

from pytest_nfvperf.model.fold import folded
from pytest_nfvperf.plugin.end_parts import EndParts, parts_of
from pytest_nfvperf.plugin.telling import terminal_of


class Watch:
    """What a process saw of its run.

    Attributes:
        uncollected: reports of what could not be collected.
        last_line: what to print after all others; None for nothing.
        beside_error: the same without the reason, where pytest writes that by itself; "" where it does not.
        good: it is good news.
        doubtful: the rig was too disturbed to trust it.
        summarized: the summary has been shown.
        told: what reports of tests carry of their results, by node id; ``failed``: tests that pytest calls failed.
    """

    def __init__(self) -> None:
        self.uncollected: list[pytest.CollectReport] = []
        self.last_line: str | None = None
        self.beside_error = ""
        self.good = self.doubtful = False
        self.told: dict[str, dict[str, str]] = {}
        self.failed: set[str] = set()
        self._reason = ""
        self.summarized = False

    def note(self, reason: str) -> None:
        """Remember what ends the run, where pytest calls no hook for it."""
        self._reason = reason

    def reason(self, session: pytest.Session) -> str:
        """What ended the run before its time; "" for nothing."""
        return self._reason or str(session.shouldfail or session.shouldstop or "")

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember what could not be collected: it is part of what became of the run."""
        if report.failed:
            self.uncollected.append(report)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what became of a test, for where the evidence cannot be read back."""
        if report.failed:
            self.failed.add(report.nodeid)
        if report.user_properties:
            self.told[report.nodeid] = {name: str(value) for name, value in report.user_properties}

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember what interrupted the run: a person, a signal, or pytest itself."""
        self._reason = str(excinfo.value) or "by Ctrl-C"

    @pytest.hookimpl
    def pytest_internalerror(self, excrepr: object) -> None:
        """Remember the exception's line."""
        lines = str(excrepr).strip().splitlines()
        self._reason = lines[-1].removeprefix("E").strip() if lines else ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """After all others: the last line."""
        result = yield
        parts = parts_of(session.config)
        with parts.alone("the end of the run cannot be shown"):
            self._stopped_late(session)
            self._tell_end(session.config, parts)
        return result

    def _tell_end(self, config: pytest.Config, parts: EndParts) -> None:
        terminal = terminal_of(config)
        if self.last_line is None or terminal is None or terminal.verbosity < -1:
            for line in parts.untold():
                print(f"nfvperf: {line}", file=sys.stderr)
            return
        if not self.summarized:
            from pytest_nfvperf.plugin.hooks import show_summary  # noqa: PLC0415 - the plugin imports this module

            show_summary(config)
        for line in parts.untold():
            terminal.write_line(f"nfvperf: {line}", yellow=True)
        said = self.beside_error if self.beside_error and _one_stream() else self.last_line
        markup = {"yellow": True} if self.good and self.doubtful else {"green": self.good, "red": not self.good}
        for line in folded(f"nfvperf: {said}", terminal.width):
            terminal.write_line(line, bold=True, **markup)
        if lost := terminal.lost():
            print(f"nfvperf: standard output takes no more: {lost}. {self.last_line}", file=sys.stderr)

    def _stopped_late(self, session: pytest.Session) -> None:
        """A signal that came while the report was written: the report is written again, and says so."""
        from pytest_nfvperf.plugin import stopping  # noqa: PLC0415 - the plugin imports this module

        ending = stopping.ending(session.config)
        if not ending.asked or self.last_line is None:
            return
        from pytest_nfvperf.plugin.concluding import conclude_stopped  # noqa: PLC0415 - only who measured has it

        if conclude_stopped(session, self, ending.asked):
            self.summarized = False


def _one_stream() -> bool:
    """True where what pytest writes to stderr comes out beside our last line, as on a terminal: once is enough."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)
