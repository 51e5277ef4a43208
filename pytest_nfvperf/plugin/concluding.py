"""What became of the run: its tests are listed at the start, and at the end its evidence decides.

Nothing here happens in a run that measures nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.comparison import COMPARISON_FILE, compared_run, write_comparison
from pytest_nfvperf.adapters.evidence.reader import CONTROLLER, REFUSED, STOPPED, RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, evidence_file
from pytest_nfvperf.adapters.report.junit import REASON, RESULT, tell_junit
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import (
    Fate,
    RunConclusion,
    RunFacts,
    RunFate,
    TestFacts,
    conclude_run,
    counted,
    one_line,
)
from pytest_nfvperf.model.evidence.machine_did import Grade
from pytest_nfvperf.model.evidence.records import Cause, RunEndData, TestData, TestEndData
from pytest_nfvperf.model.text import storable
from pytest_nfvperf.plugin.end_parts import parts_of
from pytest_nfvperf.plugin.other_results import other_results
from pytest_nfvperf.plugin.resuming import resumed_name
from pytest_nfvperf.plugin.rundir import NOT_LATEST, RUN_DIR_KEY, point_latest
from pytest_nfvperf.plugin.watch import Watch
from pytest_nfvperf.runs.clocks import SystemClock
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.session.run import NfvSession

CONCLUDED_KEY = pytest.StashKey[tuple[RunEvidence, RunConclusion]]()
EVIDENCE = "evidence.jsonl"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A disk that has no room for a link has none for evidence either, which is better said before anything is measured."""
GOOD = frozenset({RunFate.ACCEPTED, RunFate.PASSED})


def begin(session: pytest.Session, nfv: NfvSession, uncollected: Sequence[pytest.CollectReport]) -> None:
    """Write which tests are selected, before the first of them begins, and what could not be collected.

    Raises:
        pytest.UsageError: there is no place for the evidence.
    """
    nfv.selected = tuple(item.nodeid for item in session.items)
    try:
        _ = nfv.recorder
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    try:
        point_latest(nfv.run_dir)
    except OSError as error:
        if error.errno in _NO_ROOM:
            where = f"{error.filename} cannot point at this run: {error.strerror}"
            raise pytest.UsageError(f"{where}. Free space, or choose another place (--nfv-results)") from error
        parts_of(session.config).note(NOT_LATEST, error)
    except ConfigError as error:
        parts_of(session.config).note(NOT_LATEST, error)
    for report in uncollected:
        nfv.begin_test(report.nodeid, TestData(labels=(("suite", Path(report.nodeid).parent.name or "other"),)))
        reason = f"cannot be collected: {_last_line(report.longreprtext)}"
        nfv.end_test(TestEndData("error", 0.0, reason, Cause.USAGE, report.longreprtext))


def refuse(
    config: pytest.Config,
    run_dir: Path,
    nfv: NfvSession | None,
    items: Sequence[pytest.Item],
    watch: Watch,
    error: pytest.UsageError,
) -> None:
    """The run ends before its first test, by a mistake of the user's: that is what became of it, and is recorded.

    A run that it was to go on with keeps all that it has: how this ended is beside it, in a file of its own.

    Args:
        config: pytest's.
        run_dir: where results go.
        nfv: None where not even an option or the testbed file can be used: then there is no run record, and the
            evidence is how the run ended.
        items: the tests that were selected.
        watch: writes the last line, also where there is no place for evidence.
        error: what pytest tells the user.
    """
    status, reason = int(pytest.ExitCode.USAGE_ERROR), one_line(str(error))
    selected = tuple(item.nodeid for item in items)
    never = tuple(TestFacts(node_id, began=False) for node_id in selected)
    conclusion = conclude_run(RunFacts(never, status, reason))
    watch.last_line, watch.beside_error = conclusion.last_line, conclusion.without_reason
    try:
        if resumed_name(config):
            _write_end(_end_file(config, run_dir, REFUSED), status, reason)
        elif nfv is None:
            _write_end(run_dir / EVIDENCE, status, reason)
        else:
            nfv.selected = selected
            _ = nfv.recorder
    except (ConfigError, TestbedError):
        return  # there is no place for evidence either: the mistake is what the user has to read
    with parts_of(config).alone(NOT_LATEST):
        point_latest(run_dir)


def _last_line(text: str) -> str:
    """Of a traceback: the exception, which pytest marks by ``E``."""
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
    return one_line(lines[-1] if lines else text)


def conclude_session(session: pytest.Session, exitstatus: int, watch: Watch) -> None:
    """Read the evidence back, decide, and let exit status and JUnit file say it.

    Read back so that ``nfvperf show`` finds what this found, and so that with xdist the controller knows what its
    workers measured.
    """
    config, parts = session.config, parts_of(session.config)
    run_dir = config.stash.get(RUN_DIR_KEY, None)
    if run_dir is None or not any(run_dir.glob("evidence*.jsonl")):
        return
    reason = one_line(watch.reason(session))
    distributes = bool(config.getoption("numprocesses", None) or config.getoption("tx", None))
    file = _end_file(config, run_dir, CONTROLLER if distributes else "")
    if distributes:
        with parts.alone("the evidence cannot say how the run ended"):
            _write_end(file, exitstatus, reason)
    _decide(session, run_dir, watch, {file.name: RunEndData(exitstatus, 0.0, {}, reason)})
    if CONCLUDED_KEY in config.stash:
        for results in other_results(config):
            results.concluded(*config.stash[CONCLUDED_KEY])


def conclude_stopped(session: pytest.Session, watch: Watch, asked: str) -> bool:
    """A signal came after the evidence had ended: the run was interrupted all the same, and every place says so.

    Args:
        session: pytest's.
        watch: of this process.
        asked: name of the signal.

    Returns:
        True when the conclusion changed: a report that was written before says what is not so any more.
    """
    concluded = session.config.stash.get(CONCLUDED_KEY, None)
    if concluded is None or concluded[1].fate is RunFate.INTERRUPTED:
        return False
    run_dir = session.config.stash[RUN_DIR_KEY]
    reason = f"stopped by {asked} while the report was written: every test had ended"
    file, status = _end_file(session.config, run_dir, STOPPED), int(pytest.ExitCode.INTERRUPTED)
    with parts_of(session.config).alone("the evidence cannot say how the run ended"):
        _write_end(file, status, reason)
    _decide(session, run_dir, watch, {file.name: RunEndData(status, 0.0, {}, reason)})
    return True


def _end_file(config: pytest.Config, run_dir: Path, who: str) -> Path:
    """Of this process, which may go on with a run that has such a file already."""
    return evidence_file(run_dir, "-".join(filter(None, (resumed_name(config), who))))


def _decide(session: pytest.Session, run_dir: Path, watch: Watch, known_ends: Mapping[str, RunEndData]) -> None:
    """``known_ends``: how this process ended, which its file lacks where the disk refused it."""
    config, parts = session.config, parts_of(session.config)
    with parts.alone("the evidence cannot be read", "the status is by what the tests' own reports say"):
        # Only the report looks at every trial: without one, the end of a large run takes a third of the memory.
        run = read_run(run_dir, steps=config.getoption("--nfv-report") == "html", known_ends=known_ends)
        _add_results(run, watch)
        config.stash[CONCLUDED_KEY] = run, conclude(run)
    concluded = config.stash.get(CONCLUDED_KEY, None)
    conclusion = _without_evidence(session, watch, known_ends) if concluded is None else concluded[1]
    session.exitstatus = conclusion.exit_status
    watch.last_line, watch.good = conclusion.last_line, conclusion.fate in GOOD
    if watch.beside_error:
        watch.beside_error = conclusion.without_reason
    watch.doubtful = conclusion.rig == Grade.UNTRUSTED
    if concluded is not None:
        with parts.alone(f"{COMPARISON_FILE} cannot be written"):
            compared = compared_run(*concluded)
            if compared is not None:
                write_comparison(compared, run_dir)
    if (junit := config.getoption("xmlpath", None)) is not None:
        with parts.alone("the JUnit file does not say what became of each test"):
            tell_junit(config.invocation_params.dir / Path(os.path.expandvars(junit)).expanduser(), conclusion)


def _add_results(run: RunEvidence, watch: Watch) -> None:
    """Put in results that the evidence could not take. The disk was full: without evidence no result counts."""
    for node_id in watch.told:
        facts = _told_facts(node_id, watch)
        if facts is not None and facts.cause is Cause.TESTBED and run.test(facts.node_id).end is None:
            run.test(facts.node_id).end = TestEndData("error", 0.0, facts.reason, facts.cause)


def _without_evidence(session: pytest.Session, watch: Watch, known_ends: Mapping[str, RunEndData]) -> RunConclusion:
    """What the reports of tests say, where nothing else can be read."""
    told = [facts for node_id in watch.told if (facts := _told_facts(node_id, watch)) is not None]
    known = {facts.node_id for facts in told}
    never = [TestFacts(item.nodeid, began=False) for item in session.items if storable(item.nodeid) not in known]
    end = next(iter(known_ends.values()))
    conclusion = conclude_run(RunFacts((*told, *never), end.exit_status, end.reason))
    if conclusion.fate not in GOOD:
        return conclusion
    headline = f"Passed, by what its reports say: {', '.join(counted(conclusion.tests))}"
    return replace(conclusion, headline=headline, advice="This is no acceptance as long as the evidence cannot be read")


_STATUSES = {
    Fate.PASSED: ("passed", Cause.UNKNOWN),
    Fate.SKIPPED: ("skipped", Cause.SKIP),
    Fate.XFAIL: ("skipped", Cause.XFAIL),
    Fate.FAILED: ("failed", Cause.ASSERTION),
    Fate.INCONCLUSIVE: ("failed", Cause.INCONCLUSIVE),
    Fate.BROKEN: ("error", Cause.TESTBED),
    Fate.USAGE: ("error", Cause.USAGE),
    Fate.INTERNAL: ("error", Cause.INTERNAL),
}


def _told_facts(node_id: str, watch: Watch) -> TestFacts | None:
    """What a test's last report carries of its result; None of a test that has none."""
    found = watch.told[node_id].get(RESULT, "")
    if found not in _STATUSES:
        return None
    status, cause = _STATUSES[Fate(found)]
    if cause is Cause.INCONCLUSIVE and node_id not in watch.failed:
        status = "passed"  # tolerated
    return TestFacts(storable(node_id), status=status, cause=cause, reason=watch.told[node_id].get(REASON, ""))


def _write_end(file: Path, exitstatus: int, reason: str) -> None:
    """How the run ended, in a file of its own: for who knows more than those who measured."""
    who = file.stem.removeprefix("evidence").removeprefix("-")
    recorder = Recorder(file.parent.name, [EvidenceWriter(file)], SystemClock(), who)
    recorder.emit(RunEndData(exitstatus, 0.0, {}, reason))
    recorder.close()
