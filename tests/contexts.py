"""Which test each line of the package runs for: ``benchmarks/mutations.py`` and ``make coverage`` measure it.

Coverage starts in every Python of this environment whose environment has ``COVERAGE_PROCESS_START``: in workers, and in
whatever a test starts. ``VARIABLE`` tells them which test it is. What a fixture of a module or of the session does is
for all tests of the file, whose name is the context then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

VARIABLE = "NFV_TESTS_CONTEXT"
OUTCOMES = "NFV_TESTS_OUTCOMES"
"""The environment variable with the file that gets each test's seconds and whether it passed."""


def without_context(environment: Mapping[str, str]) -> dict[str, str]:
    """For a process that works for many tests, and calls ``switch_context`` for each."""
    return {name: value for name, value in environment.items() if name != VARIABLE}


def switch_context(name: str) -> None:
    """What coverage counts from now on in this process is for this test; nothing where coverage does not run."""
    if "COVERAGE_PROCESS_START" in os.environ:
        import coverage

        if running := coverage.Coverage.current():
            running.switch_context(name)


class Contexts:
    """Tells coverage, and what tests start, which test runs."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with _context(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        with _context(os.environ.get(VARIABLE, "").partition("::")[0]):
            return (yield)


class Outcomes:
    """Adds to a file how long each test took, and whether it passed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ended: dict[str, tuple[float, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds, passed = self._ended.get(report.nodeid, (0.0, True))
        self._ended[report.nodeid] = (seconds + report.duration, passed and report.outcome != "failed")

    def pytest_sessionfinish(self) -> None:
        before = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._file.write_text(json.dumps(before | self._ended))


def register_plugins(config: pytest.Config) -> None:
    """What the environment asks for; nothing in a run that a test started."""
    if os.environ.get(VARIABLE):
        return
    if "COVERAGE_PROCESS_START" in os.environ:
        config.pluginmanager.register(Contexts(), "nfv-contexts")
    if (file := os.environ.pop(OUTCOMES, "")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(file)), "nfv-outcomes")


@contextmanager
def _context(name: str) -> Iterator[None]:
    before = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = name
    switch_context(name)
    try:
        yield
    finally:
        os.environ[VARIABLE] = before
        switch_context(before)
