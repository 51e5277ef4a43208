"""The result of the run: the evidence lists its tests at the start, and decides at the end.

The header and the summary are printed here, too. A run that measures nothing does none of this.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.comparison import COMPARISON_FILE, compared_run, write_comparison
from pytest_nfvperf.adapters.evidence.reader import CONTROLLER, REFUSED, STOPPED, RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, evidence_file
from pytest_nfvperf.adapters.report.junit import REASON, RESULT, write_junit
from pytest_nfvperf.adapters.report.run_facts import describe_testbed, not_for_testbed_lines
from pytest_nfvperf.adapters.report.summary_table import run_table
from pytest_nfvperf.adapters.report.texts import lines_of_test, listed_in_summary, short_node_id, since_lines
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.display import cut, folded, how_many, storable
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import (
    RunConclusion,
    RunFacts,
    RunResult,
    TestFacts,
    TestResult,
    conclude_run,
    counted,
    one_line,
)
from pytest_nfvperf.model.evidence.records import Cause, RunEndData, TestData, TestEndData
from pytest_nfvperf.model.evidence.rig_condition import Grade
from pytest_nfvperf.model.measure.profile import SMOKE
from pytest_nfvperf.plugin.output import EndParts, Terminal, is_left_to_host, leave_to_host, other_results, parts_of
from pytest_nfvperf.plugin.resume import evidence_id, resumed_name
from pytest_nfvperf.plugin.run_state import (
    MISTAKE,
    NOT_LATEST,
    OPTIONS_KEY,
    RUN_DIR_KEY,
    SESSION_KEY,
    STATE_KEY,
    RunState,
    is_worker,
    point_latest,
    run_directory,
)
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.run import NfvSession

EVIDENCE = "evidence.jsonl"
_MOST_ROWS = 100
"""Of the table that ends a run; ``nfvperf show`` has all."""
BROKEN_STATUS, _BRIEF = RunResult.BROKEN.exit_status, 80
GOOD = frozenset({RunResult.ACCEPTED, RunResult.PASSED})
SMOKE_CARRIES = "a short look at one case of each suite: it shows that they work here, and accepts nothing"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A disk without room for a link has none for evidence. The user should know before anything is measured."""
_STATUSES = {
    TestResult.PASSED: ("passed", Cause.UNKNOWN),
    TestResult.SKIPPED: ("skipped", Cause.SKIP),
    TestResult.XFAIL: ("skipped", Cause.XFAIL),
    TestResult.FAILED: ("failed", Cause.ASSERTION),
    TestResult.ERROR: ("failed", Cause.TEST),
    TestResult.INCONCLUSIVE: ("failed", Cause.INCONCLUSIVE),
    TestResult.BROKEN: ("error", Cause.TESTBED),
    TestResult.USAGE: ("error", Cause.USAGE),
    TestResult.INTERNAL: ("error", Cause.INTERNAL),
}
"""Status and cause of a test whose result is known only from its report."""


def begin(session: pytest.Session, nfv: NfvSession, uncollected: Sequence[pytest.CollectReport]) -> None:
    """Write which tests are selected, before the first begins, and which files could not be collected.

    Raises:
        pytest.UsageError: there is no room for the evidence.
    """
    nfv.selected = tuple(item.nodeid for item in session.items)
    try:
        _ = nfv.recorder
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    try:
        point_latest(nfv.run_dir)
    except (OSError, ConfigError) as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            where = f"{error.filename} cannot point at this run: {error.strerror}"
            raise pytest.UsageError(f"{where}. Free space, or choose another place (--nfv-results)") from error
        parts_of(session.config).note(NOT_LATEST, error)
    for report in uncollected:
        nfv.begin_test(report.nodeid, TestData(labels=(("suite", Path(report.nodeid).parent.name or "other"),)))
        text = report.longreprtext
        # pytest marks the exception of a traceback by "E".
        exception = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
        reason = f"cannot be collected: {one_line(exception[-1] if exception else text)}"
        nfv.end_test(TestEndData("error", 0.0, reason, Cause.USAGE, text))


def refuse(config: pytest.Config, items: Sequence[pytest.Item], error: Exception) -> None:
    """Record that a user's mistake, or a broken testbed (TestbedError), ended the run before its first test.

    A worker of xdist cannot end the run, so it reports the mistake to its controller. A resumed run writes its end into
    a separate file, and does not touch the earlier evidence. Without usable options or a usable testbed file there is
    no session and no run record: then the evidence only says how the run ended.
    """
    state, options = config.stash[STATE_KEY], config.stash[OPTIONS_KEY]
    state.note(str(error))
    if is_worker(config):
        config.workeroutput[MISTAKE] = str(error)  # type: ignore[attr-defined]
        return
    if options.plan or options.setup_only or config.option.collectonly:
        return
    run_dir, nfv = run_directory(config, options), config.stash.get(SESSION_KEY, None)
    broken = isinstance(error, TestbedError)
    status, reason = BROKEN_STATUS if broken else int(pytest.ExitCode.USAGE_ERROR), one_line(str(error))
    selected = tuple(item.nodeid for item in items)
    never = tuple(TestFacts(node_id, began=False) for node_id in selected)
    state.conclusion, state.refused = conclude_run(RunFacts(never, status, reason)), not broken
    try:
        if resumed_name(config):
            _write_end(config, _end_file(config, run_dir, REFUSED), status, reason)
        elif nfv is None:
            _write_end(config, run_dir / EVIDENCE, status, reason)
        else:
            nfv.selected = selected
            _ = nfv.recorder
    except (ConfigError, TestbedError):
        return  # there is no room for evidence either: the user only needs to read the mistake
    with parts_of(config).isolated(NOT_LATEST):
        point_latest(run_dir)


def conclude_session(session: pytest.Session, exitstatus: int, state: RunState) -> None:
    """Conclude the run from its evidence, and set the exit status and the JUnit file accordingly.

    Reading the evidence back makes ``nfvperf show`` come to the same result, and gives xdist's controller the results
    of its workers.
    """
    config, parts = session.config, parts_of(session.config)
    run_dir = config.stash.get(RUN_DIR_KEY, None)
    if run_dir is None or not any(run_dir.glob("evidence*.jsonl")):
        return
    reason = one_line(state.reason(session))
    distributes = bool(config.getoption("numprocesses", None) or config.getoption("tx", None))
    file = _end_file(config, run_dir, CONTROLLER if distributes else "")
    if distributes:
        with parts.isolated("the evidence cannot say how the run ended"):
            _write_end(config, file, exitstatus, reason)
    _decide(session, run_dir, state, {file.name: RunEndData(exitstatus, 0.0, {}, reason)})
    if state.evidence is not None and state.conclusion is not None:
        for exporter in other_results(config):
            exporter.concluded(state.evidence, state.conclusion)


def conclude_stopped(session: pytest.Session, state: RunState, signal_name: str) -> bool:
    """Conclude again after a signal that came after the end of the evidence: the run still counts as interrupted.

    Returns True when the conclusion changed, so that an earlier report is out of date.
    """
    if state.evidence is None or state.conclusion is None or state.conclusion.result is RunResult.INTERRUPTED:
        return False
    run_dir = session.config.stash[RUN_DIR_KEY]
    reason = f"stopped by {signal_name} while the report was written: every test had ended"
    file, status = _end_file(session.config, run_dir, STOPPED), int(pytest.ExitCode.INTERRUPTED)
    with parts_of(session.config).isolated("the evidence cannot say how the run ended"):
        _write_end(session.config, file, status, reason)
    _decide(session, run_dir, state, {file.name: RunEndData(status, 0.0, {}, reason)})
    return True


def _end_file(config: pytest.Config, run_dir: Path, role: str) -> Path:
    # A resumed run may have such a file of an earlier process.
    return evidence_file(run_dir, "-".join(filter(None, (resumed_name(config), role))))


def _decide(session: pytest.Session, run_dir: Path, state: RunState, known_ends: Mapping[str, RunEndData]) -> None:
    """Conclude the run. ``known_ends``: how this process ended, in case a full disk refused that record."""
    config, parts = session.config, parts_of(session.config)
    with parts.isolated("the evidence cannot be read", "the status is by what the tests' own reports say"):
        # Only the report looks at every trial: without one, the end of a large run takes a third of the memory.
        steps = config.getoption("--nfv-report") == "html"
        _conclude_from(read_run(run_dir, steps=steps, known_ends=known_ends), state)
    if state.evidence is None or state.conclusion is None:
        state.conclusion = _without_evidence(session, state, known_ends)
    conclusion = state.conclusion
    session.exitstatus = conclusion.exit_status
    if state.evidence is not None:
        with parts.isolated(f"{COMPARISON_FILE} cannot be written"):
            compared = compared_run(state.evidence, conclusion)
            if compared is not None:
                write_comparison(compared, run_dir)
    if (junit := config.getoption("xmlpath", None)) is not None:
        with parts.isolated("the JUnit file does not say what became of each test"):
            write_junit(config.invocation_params.dir / Path(os.path.expandvars(junit)).expanduser(), conclusion)


def _conclude_from(run: RunEvidence, state: RunState) -> None:
    """Conclude from the evidence, and from results that it could not take because the disk was full."""
    for node_id in state.reported:
        facts = _reported_facts(node_id, state)
        if facts is not None and facts.cause is Cause.TESTBED and run.test(facts.node_id).end is None:
            run.test(facts.node_id).end = TestEndData("error", 0.0, facts.reason, facts.cause)
    state.conclusion = conclude(run)
    state.evidence = run


def last_line_markup(conclusion: RunConclusion) -> dict[str, bool]:
    good = conclusion.result in GOOD
    return {"yellow": True} if good and conclusion.rig == Grade.UNTRUSTED else {"green": good, "red": not good}


def _without_evidence(session: pytest.Session, state: RunState, known_ends: Mapping[str, RunEndData]) -> RunConclusion:
    """Conclude from the tests' reports, where the evidence cannot be read."""
    ended = [facts for node_id in state.reported if (facts := _reported_facts(node_id, state)) is not None]
    known = {facts.node_id for facts in ended}
    never = [TestFacts(item.nodeid, began=False) for item in session.items if storable(item.nodeid) not in known]
    end = next(iter(known_ends.values()))
    conclusion = conclude_run(RunFacts((*ended, *never), end.exit_status, end.reason))
    if conclusion.result not in GOOD:
        return conclusion
    headline = f"Passed, by what its reports say: {', '.join(counted(conclusion.tests))}"
    return replace(conclusion, headline=headline, advice="This is no acceptance as long as the evidence cannot be read")


def _reported_facts(node_id: str, state: RunState) -> TestFacts | None:
    """The result in a test's last report; None if it has none."""
    result = state.reported[node_id].get(RESULT, "")
    if result not in _STATUSES:
        return None
    status, cause = _STATUSES[TestResult(result)]
    if cause is Cause.INCONCLUSIVE and node_id not in state.failed:
        status = "passed"  # tolerated
    return TestFacts(storable(node_id), status=status, cause=cause, reason=state.reported[node_id].get(REASON, ""))


def _write_end(config: pytest.Config, file: Path, exitstatus: int, reason: str) -> None:
    process = file.stem.removeprefix("evidence").removeprefix("-")
    recorder = Recorder(evidence_id(config, file.parent), [EvidenceWriter(file)], SystemClock(), process)
    recorder.emit(RunEndData(exitstatus, 0.0, {}, reason))
    recorder.close()


def header(session: NfvSession, *, measures: bool, width: int | None) -> list[str]:
    """Testbed, DUT, generator and profile, one line each; in a run that measures also the results directory.

    Then what is not selected because the testbed lacks what it needs.
    """
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
        *(part for line in not_for_testbed_lines(session.not_for_testbed) for part in folded(line, width)),
    ]


def skipped_lines(run: RunEvidence) -> list[str]:
    ends = [test.end for test in run.tests.values() if test.end is not None]
    reasons = Counter(
        f"{TestResult.NOT_RUN if end.cause is Cause.NOT_RUN else TestResult.SKIPPED}: {end.reason or 'no reason given'}"
        for end in ends
        if end.status == "skipped" and end.cause is not Cause.XFAIL
    )
    return [f"{how_many(count, 'test')} {reason}" for reason, count in reasons.items()]


def not_begun_lines(run: RunEvidence, conclusion: RunConclusion) -> list[str]:
    """The tests that a time limit kept from being begun, in one line."""
    names = [short_node_id(test.node_id) for test in conclusion.tests if test.result is TestResult.NOT_RUN]
    limited = any(end.time_limit_s is not None for end in run.ends.values())
    return [f"not begun, out of time: {', '.join(names)}"] if limited and names else []


def summary(
    terminal: Terminal,
    run_dir: Path,
    options: Options,
    leftovers: Sequence[str],
    concluded: tuple[RunEvidence, RunConclusion],
    parts: EndParts,
) -> None:
    """Show the table of outcomes, what did not pass, the leftovers, and the path of the report.

    ``leftovers``: what the testbed left on the machine on purpose.
    """
    run, conclusion = concluded
    terminal.section("datapath acceptance", sep="=")
    with parts.isolated("the table cannot be shown", f"then: nfvperf show {run_dir}"):
        if table := run_table(run, conclusion, width=terminal.width, color=terminal.hasmarkup, most=_MOST_ROWS):
            terminal.write_line(table)
    listed = listed_in_summary(conclusion.tests)  # what is above has ids and reasons in full
    brief = [replace(test, node_id=short_node_id(test.node_id), reason=cut(test.reason, _BRIEF)) for test in listed]
    _write(terminal, lines_of_test(brief))
    # The user must see what was not measured.
    left = not_for_testbed_lines(run.not_for_testbed)
    skipped = (*left, *skipped_lines(run), *not_begun_lines(run, conclusion))
    notes = (*describe_testbed(run), *skipped, *run.problems, *leftovers)
    _write(terminal, [f"nfvperf: {line}" for line in notes], yellow=True)
    with parts.isolated("what the machine did cannot be shown"):
        did = run.machine.did
        if did is not None:
            _write(terminal, [f"rig:      {did.grade}: {did.details}"], yellow=not did.quiet)
    with parts.isolated("what changed since the last run cannot be shown"):
        _write(terminal, since_lines(run))
    terminal.write_line(f"evidence: {run_dir}")
    with parts.isolated(NOT_LATEST):
        point_latest(run_dir)
    if options.report:
        with parts.isolated("the report cannot be written", f"then: nfvperf report {run_dir}"):
            if is_left_to_host():
                page = leave_to_host(run_dir)
            else:
                from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415 - it takes half a second

                page = write_report(run, run_dir, options.root)
            terminal.write_line(f"report:   {page}")


def _write(terminal: Terminal, lines: Iterable[str], *, yellow: bool = False) -> None:
    for part in (part for line in lines for part in folded(line, terminal.width)):
        terminal.write_line(part, yellow=yellow)
