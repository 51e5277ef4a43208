"""What the plugin prints: the header, and the summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.report.conclusion_lines import test_lines, worth_telling
from pytest_nfvperf.adapters.report.run_table import run_table
from pytest_nfvperf.adapters.report.testbeds import testbed_lines
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import Cause
from pytest_nfvperf.model.evidence.run_conclusion import RunConclusion
from pytest_nfvperf.model.measure.profile import SMOKE
from pytest_nfvperf.plugin.report_later import is_left_to_host, leave_to_host
from pytest_nfvperf.plugin.rundir import point_latest
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.run import NfvSession

SMOKE_CARRIES = "a short look at one case of each suite: it shows that they work here, and accepts nothing"


def header(session: NfvSession, *, measures: bool) -> list[str]:
    """Testbed, DUT, generator and profile, one line each; where results go, of a run that measures."""
    try:
        lines = session.backend.describe()
    except (ConfigError, TestbedError) as error:  # only --collect-only comes here with something missing
        lines = [f"cannot run: {error}"]
    compare = session.options.compare
    if compare is not None:
        names = ", ".join(side.name for side in compare.sides[1:])
        lines.append(f"compares:  {names} with {compare.baseline.name}; the SLAs of tests are not judged")
    carries = f" ({SMOKE_CARRIES})" if session.profile is SMOKE else ""
    return [
        f"nfvperf: profile {session.profile.name}{carries}, testbed {session.backend.testbed.name}",
        *(f"  {line}" for line in lines),
        *([f"  results:   {session.run_dir}"] if measures else []),
    ]


def skipped_lines(run: RunEvidence) -> list[str]:
    """Why tests were skipped, a line for each reason: the user must see what was not measured."""
    ends = [test.end for test in run.tests.values() if test.end is not None]
    reasons = Counter(
        end.reason or "no reason given" for end in ends if end.status == "skipped" and end.cause is not Cause.XFAIL
    )
    return [f"{count} test{'s' if count > 1 else ''} skipped: {reason}" for reason, count in reasons.items()]


def summary(
    reporter: pytest.TerminalReporter,
    run_dir: Path,
    options: Options,
    leftovers: Sequence[str],
    concluded: tuple[RunEvidence, RunConclusion] | None,
    time_for_charts: Callable[[], bool] = lambda: True,
) -> None:
    """The table of all outcomes, what did not pass, what was left behind on purpose, and where the report is.

    Args:
        reporter: pytest's.
        run_dir: where the evidence is.
        options: what the user asked for.
        leftovers: what the testbed left behind on purpose.
        concluded: the evidence, read back, and what became of the run; None where it cannot be read.
        time_for_charts: False once the report has to do without more of them.
    """
    if concluded is None:
        _say_why_unread(reporter, run_dir)
        return
    run, conclusion = concluded
    reporter.section("datapath acceptance", sep="=")
    width = reporter._tw.fullwidth if reporter.isatty() else None
    if table := run_table(run, conclusion, width=width, color=reporter.hasmarkup):
        reporter.write_line(table)
    for line in test_lines(worth_telling(conclusion.tests)):
        reporter.write_line(line)
    for line in (*testbed_lines(run), *skipped_lines(run), *run.problems, *leftovers):
        reporter.write_line(f"nfvperf: {line}", yellow=True)
    reporter.write_line(f"evidence: {run_dir}")
    try:
        point_latest(run_dir)  # where there can be none, the start of the run said so
        if options.report:
            reporter.write_line(f"report:   {_rendered(reporter, run, run_dir, time_for_charts)}")
    except (ConfigError, OSError) as error:
        reporter.write_line(f"nfvperf: the report cannot be written: {error}; then: nfvperf report {run_dir}", red=True)


def _rendered(
    reporter: pytest.TerminalReporter, run: RunEvidence, run_dir: Path, time_for_charts: Callable[[], bool]
) -> Path:
    if is_left_to_host():
        return leave_to_host(run_dir)
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415 - matplotlib takes a second

    return write_report(run, run_dir, reporter.config.rootpath, time_for_charts=time_for_charts)


def _say_why_unread(reporter: pytest.TerminalReporter, run_dir: Path) -> None:
    try:
        read_run(run_dir)
    except ConfigError as error:
        reporter.write_line(f"nfvperf: the evidence cannot be read: {error}", red=True)
