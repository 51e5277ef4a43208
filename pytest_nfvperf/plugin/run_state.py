"""The state of a pytest process: options, run directory and reports. Every run imports this, so it is light."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.session.options import Options

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
    from pytest_nfvperf.model.evidence.conclusion import RunConclusion
    from pytest_nfvperf.session.run import NfvSession

SESSION_KEY: pytest.StashKey[NfvSession] = pytest.StashKey()
ADOPTED_KEY: pytest.StashKey[TestEvidence] = pytest.StashKey()
"""In a resumed run: the earlier evidence of a test that is not measured again, as the current SLA judges it."""
OPTIONS_KEY = pytest.StashKey[Options]()
STATE_KEY = pytest.StashKey["RunState"]()
RUN_DIR_KEY = pytest.StashKey[Path]()
LACKING_KEY = pytest.StashKey[str]()
"""Of a test that stays selected although the testbed lacks what it needs: the reason."""
RUN_DIR, REMOTE_WORKER = "nfv_run_dir", "nfv_remote_worker"
"""In a worker's input: where this run's results go, and whether the worker has a directory of its own."""
MISTAKE = "nfv_mistake"
"""In a worker's output: the user's mistake that ends the run. Without it xdist would report an internal error."""
SLA_NAMES = frozenset({"sla.yaml", "sla.yml", "slas.yaml", "slas.yml"})
LATEST = "latest"
NOT_LATEST = "the link to the latest run was not renewed"
_WITHOUT_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Errors of a file system that has no symbolic links (symlink(2)): vfat and exfat, some network shares."""


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class RunState:
    """What a process observed of its run.

    Attributes:
        mistake: one in the options. It ends the run later than pytest_configure, which can leave no evidence.
        measures: tests that measure were selected.
        recorded: the run has evidence, which lists every test, including those that measure nothing.
        uncollected: reports of files that could not be collected.
        partly: folders of which a file could not be collected, or is skipped as a whole.
        sla_files: what is called ``sla.yaml``, or nearly so, in the folders that were collected.
        misused: what such files wrote that our calls refuse, each with its location.
        evidence: the run's own, once it was read back; None also where it cannot be read.
        conclusion: the result of the run, printed after everything else; None for nothing.
        refused: a user's mistake ended the run before its first test, and pytest itself prints it.
        summarized: the summary has been shown.
        reported: user properties of each test's last report, by node id.
        failed: node ids of tests that pytest reports as failed.
    """

    def __init__(self) -> None:
        self.mistake: pytest.UsageError | None = None
        self.measures = self.recorded = self.refused = self.summarized = False
        self.uncollected: list[pytest.CollectReport] = []
        self.misused: list[str] = []
        self.partly: set[Path] = set()
        self.sla_files: list[Path] = []
        self.evidence: RunEvidence | None = None
        self.conclusion: RunConclusion | None = None
        self.reported: dict[str, dict[str, str]] = {}
        self.failed: set[str] = set()
        self._reason = ""

    def note(self, reason: str) -> None:
        """Remember why the run ends, where pytest calls no hook for it."""
        self._reason = reason

    def reason(self, session: pytest.Session) -> str:
        """What ended the run early; "" for nothing."""
        return self._reason or str(session.shouldfail or session.shouldstop or "")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Show a call of ours that a module misuses as one message at the user's line, without our frames."""
        report = yield
        raised = getattr(getattr(report, "call", None), "excinfo", None)
        if raised is not None:
            from pytest_nfvperf.plugin.failure_causes import usage_text  # noqa: PLC0415 - only after an error

            if text := usage_text(raised.value, collector.config.rootpath):
                report.longrepr = f"usage error: {text}"
                self.misused.append(text)
        return report

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected.append(report)
        if not report.passed:
            self.partly.add(Path(report.nodeid).parent)

    @pytest.hookimpl
    def pytest_collect_file(self, file_path: Path) -> None:
        if file_path.name.lower() in SLA_NAMES:
            self.sla_files.append(file_path)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.user_properties:
            self.reported[report.nodeid] = {name: str(value) for name, value in report.user_properties}

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._reason = self._reason or str(excinfo.value) or "by Ctrl-C"

    @pytest.hookimpl
    def pytest_internalerror(self, excrepr: object) -> None:
        lines = str(excrepr).strip().splitlines()
        self._reason = lines[-1].removeprefix("E").strip() if lines else ""


def run_directory(config: pytest.Config, options: Options) -> Path:
    """This run's directory. It is created only when something is written to it."""
    if RUN_DIR_KEY in config.stash:
        return config.stash[RUN_DIR_KEY]
    workerinput = getattr(config, "workerinput", {})
    if RUN_DIR in workerinput:
        run_dir = Path(workerinput[RUN_DIR])
    elif options.resume:
        run_dir = options.resume
    else:
        # The name may exist: time and pid repeat after the clock was set back, and in containers.
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
        candidates = (options.results / (f"{name}-{number}" if number else name) for number in count())
        run_dir = next(path for path in candidates if not os.path.lexists(path))
    config.stash[RUN_DIR_KEY] = run_dir
    return run_dir


def point_latest(run_dir: Path) -> None:
    """Point the link ``latest`` at the run directory, atomically.

    Raises:
        ConfigError: something else has this name. It is not ours, and stays.
        OSError: the disk has no room, or the file system no links.
    """
    link = run_dir.parent / LATEST
    fresh = run_dir.parent / f".{LATEST}-{os.getpid()}"
    if link.exists() and not link.is_symlink():
        what = "a directory" if link.is_dir() else "a file"
        raise ConfigError(
            f"{link} is {what}, and no link of ours, so it stays as it is. Rename it; this run is {run_dir.name}"
        )
    try:
        try:
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(run_dir.name)
            fresh.replace(link)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror
        if error.errno in _WITHOUT_LINKS and not os.path.lexists(link):
            why = f"the file system has no symbolic links ({why}); name the run itself: {run_dir}"
        raise OSError(error.errno, why, str(link)) from error
