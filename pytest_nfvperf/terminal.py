"""What the plugin prints: the header, and the summary at the end."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.report.table import summary_rows, summary_text
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.published import published_for
from pytest_nfvperf.rundir import point_latest
from pytest_nfvperf.session import NfvSession


def header(session: NfvSession) -> list[str]:
    """Testbed, DUT, generator and profile, one line each."""
    return [
        f"nfvperf: profile {session.profile.name}, testbed {session.wiring.testbed.name}",
        *(f"  {line}" for line in session.wiring.describe()),
    ]


def summary(reporter: pytest.TerminalReporter, session: NfvSession) -> None:
    """The table of all outcomes, what was left behind on purpose, and where the report is."""
    if session.worker or not session.run_dir.is_dir():
        return
    try:
        run = read_run(session.run_dir)
    except ConfigError as error:
        reporter.write_line(f"nfvperf: the evidence cannot be read: {error}", red=True)
        return
    point_latest(session.run_dir)
    rows = summary_rows(run)
    if rows:
        reporter.section("datapath acceptance", sep="=")
        width = reporter._tw.fullwidth  # noqa: SLF001 - the public attribute of the writer, not of the reporter
        reporter.write_line(summary_text(rows, width=width, color=reporter.hasmarkup))
    _point_at_results(reporter, session, run)


def _point_at_results(reporter: pytest.TerminalReporter, session: NfvSession, run: RunEvidence) -> None:
    for problem in run.problems:
        reporter.write_line(f"nfvperf: {problem}", yellow=True)
    for line in session.wiring.leftovers():
        reporter.write_line(f"nfvperf: {line}", yellow=True)
    if not run.outcomes:
        return
    from pytest_nfvperf.adapters.report.html import render_report  # noqa: PLC0415 - matplotlib takes a second

    page = render_report(run, session.run_dir, published=published_for(run, reporter.config.rootpath))
    reporter.write_line(f"evidence: {session.run_dir}")
    reporter.write_line(f"report:   {page}")
