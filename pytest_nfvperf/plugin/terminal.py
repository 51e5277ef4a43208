"""What the plugin prints: the header, and the summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.run_facts import testbed_lines
from pytest_nfvperf.adapters.report.summary_table import run_table
from pytest_nfvperf.adapters.report.texts import test_lines, worth_telling
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.fold import folded
from pytest_nfvperf.model.measure.profile import SMOKE
from pytest_nfvperf.plugin.end_parts import EndParts
from pytest_nfvperf.plugin.report_later import is_left_to_host, leave_to_host
from pytest_nfvperf.plugin.rundir import NOT_LATEST, point_latest
from pytest_nfvperf.plugin.telling import Terminal
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
    terminal: Terminal,
    run_dir: Path,
    options: Options,
    leftovers: Sequence[str],
    concluded: tuple[RunEvidence, RunConclusion],
    parts: EndParts,
    time_for_charts: Callable[[], bool] = lambda: True,
) -> None:
    """The table of all outcomes, what did not pass, what was left behind on purpose, and where the report is.

    Args:
        terminal: where it goes.
        run_dir: where the evidence is.
        options: what the user asked for.
        leftovers: what the testbed left behind on purpose.
        concluded: the evidence, read back, and what became of the run.
        parts: of the run's end: what fails here is noted there.
        time_for_charts: False once the report has to do without more of them.
    """
    run, conclusion = concluded
    terminal.section("datapath acceptance", sep="=")
    with parts.alone("the table cannot be shown", f"then: nfvperf show {run_dir}"):
        if table := run_table(run, conclusion, width=terminal.width, color=terminal.hasmarkup):
            terminal.write_line(table)
    _write(terminal, test_lines(worth_telling(conclusion.tests)))
    told = (*testbed_lines(run), *skipped_lines(run), *run.problems, *leftovers)
    _write(terminal, [f"nfvperf: {line}" for line in told], yellow=True)
    with parts.alone("what the machine did cannot be shown"):
        did = run.machine.did
        if did is not None:
            _write(terminal, [f"rig:      {did.grade}: {did.details}"], yellow=not did.quiet)
    terminal.write_line(f"evidence: {run_dir}")
    with parts.alone(NOT_LATEST):
        point_latest(run_dir)
    if options.report:
        with parts.alone("the report cannot be written", f"then: nfvperf report {run_dir}"):
            terminal.write_line(f"report:   {_rendered(options, run, run_dir, parts, time_for_charts)}")


def _write(terminal: Terminal, lines: Iterable[str], *, yellow: bool = False) -> None:
    """Lines, each folded between words where the terminal is narrower."""
    for part in (part for line in lines for part in folded(line, terminal.width)):
        terminal.write_line(part, yellow=yellow)


def _rendered(
    options: Options, run: RunEvidence, run_dir: Path, parts: EndParts, time_for_charts: Callable[[], bool]
) -> Path:
    if is_left_to_host():
        return leave_to_host(run_dir)
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415 - matplotlib takes a second

    return write_report(run, run_dir, options.root, time_for_charts=time_for_charts, note=parts.note)
