"""What became of the run: its tests are listed at the start, and at the end its evidence decides.

Nothing here happens in a run that measures nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.comparison_file import compared_run, write_comparison
from pytest_nfvperf.adapters.evidence.conclusions import CONTROLLER, REFUSED, STOPPED, conclude
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, evidence_file
from pytest_nfvperf.adapters.report.junit_kinds import tell_junit
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import Cause, TestFacts, one_line
from pytest_nfvperf.model.evidence.records import RunEndData, TestData, TestEndData
from pytest_nfvperf.model.evidence.run_conclusion import RunConclusion, RunFacts, RunFate, conclude_run
from pytest_nfvperf.plugin.resuming import resumed_name
from pytest_nfvperf.plugin.rundir import RUN_DIR_KEY, point_latest
from pytest_nfvperf.plugin.telling import say
from pytest_nfvperf.plugin.watch import Watch
from pytest_nfvperf.runs.clocks import SystemClock
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.session.run import NfvSession

CONCLUDED_KEY = pytest.StashKey[tuple[RunEvidence, RunConclusion]]()
EVIDENCE = "evidence.jsonl"
GOOD = frozenset({RunFate.ACCEPTED, RunFate.PASSED})


def begin(session: pytest.Session, nfv: NfvSession, uncollected: Sequence[pytest.CollectReport]) -> None:
    """Write which tests are selected, before the first of them begins, and what could not be collected.

    Raises:
        pytest.UsageError: there is no place for the evidence.
    """
    nfv.selected = tuple(item.nodeid for item in session.items)
    try:
        _ = nfv.recorder
        lacking = point_latest(nfv.run_dir)
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    if lacking:
        say(session.config, lacking)
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
    watch.last_line = conclude_run(RunFacts(never, status, reason)).last_line
    with suppress(ConfigError, TestbedError):  # there is no place for evidence either
        if resumed_name(config):
            _write_end(_end_file(config, run_dir, REFUSED), status, reason)
        elif nfv is None:
            _write_end(run_dir / EVIDENCE, status, reason)
        else:
            nfv.selected = selected
            _ = nfv.recorder
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
    config = session.config
    run_dir = config.stash.get(RUN_DIR_KEY, None)
    if run_dir is None or not any(run_dir.glob("evidence*.jsonl")):
        return
    if config.getoption("numprocesses", None) or config.getoption("tx", None):
        _write_end(_end_file(config, run_dir, CONTROLLER), exitstatus, one_line(watch.reason(session)))
    _decide(session, run_dir, watch)
    _tell_allure(config)


def _tell_allure(config: pytest.Config) -> None:
    """Write results of tests that no process could write one for; allure-pytest is loaded only for its users."""
    allure_dir, concluded = config.getoption("--alluredir", None), config.stash.get(CONCLUDED_KEY, None)
    if allure_dir and concluded is not None:
        from pytest_nfvperf.adapters.report.allure_results import write_missing_results  # noqa: PLC0415 - as it says

        write_missing_results(Path(allure_dir), *concluded)


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
    _write_end(_end_file(session.config, run_dir, STOPPED), int(pytest.ExitCode.INTERRUPTED), reason)
    _decide(session, run_dir, watch)
    return True


def _end_file(config: pytest.Config, run_dir: Path, who: str) -> Path:
    """Of this process, which may go on with a run that has such a file already."""
    return evidence_file(run_dir, "-".join(filter(None, (resumed_name(config), who))))


def _decide(session: pytest.Session, run_dir: Path, watch: Watch) -> None:
    config = session.config
    try:
        # Only the report looks at every trial: without one, the end of a large run takes a third of the memory.
        run = read_run(run_dir, steps=config.getoption("--nfv-report") == "html")
    except ConfigError:
        return  # the summary says it
    conclusion = conclude(run)
    config.stash[CONCLUDED_KEY] = run, conclusion
    session.exitstatus = conclusion.exit_status
    _write_comparison(run, conclusion, run_dir)
    watch.last_line, watch.good = conclusion.last_line, conclusion.fate in GOOD
    if (junit := config.getoption("xmlpath", None)) is not None:
        tell_junit(Path(os.path.expandvars(junit)).expanduser(), conclusion)


def _write_comparison(run: RunEvidence, conclusion: RunConclusion, run_dir: Path) -> None:
    """Of a run that compares, what it found as one document; a disk that is full has been told of by then."""
    compared = compared_run(run, conclusion)
    if compared is not None:
        with suppress(OSError):
            write_comparison(compared, run_dir)


def _write_end(file: Path, exitstatus: int, reason: str) -> None:
    """How the run ended, in a file of its own: for who knows more than those who measured."""
    who = file.stem.removeprefix("evidence").removeprefix("-")
    recorder = Recorder(file.parent.name, [EvidenceWriter(file)], SystemClock(), who)
    recorder.emit(RunEndData(exitstatus, 0.0, {}, reason))
    recorder.close()
