"""From evidence to what became of a run: the facts that ``model.evidence.conclusion`` decides by."""

from __future__ import annotations

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, worker_of
from pytest_nfvperf.model.evidence.comparison_document import counted
from pytest_nfvperf.model.evidence.conclusion import WHEN_THE_RUN_ENDED, Cause, TestFacts
from pytest_nfvperf.model.evidence.records import RunEndData, TestEndData
from pytest_nfvperf.model.evidence.run_conclusion import RunConclusion, RunFacts, conclude_run
from pytest_nfvperf.model.measure.profile import SMOKE

CONTROLLER = "controller"
"""Ends the name of what the process writes that only distributes tests to xdist's workers: how the run ended."""

STOPPED = "stopped"
"""Of what a process writes that was stopped after its evidence had ended, while it wrote the report."""

REFUSED = "refused"
"""Of what a process writes that was to go on with a run, and ended by a mistake of the user's before its first test."""


def conclude(run: RunEvidence) -> RunConclusion:
    """What became of a run that was read."""
    return conclude_run(run_facts(run))


def run_facts(run: RunEvidence) -> RunFacts:
    """Of all selected tests, those that never began included; evidence of before these were listed has none of them."""
    ended = _ended(run)
    tests = [test_facts(test, run) for test in run.tests.values() if test.node_id]
    selected = {node_id: None for data in run.runs.values() for node_id in data.selected or ()}
    running = ended is None and bool(run.being_written)
    why = "its turn has not come yet" if running else ""
    never = [TestFacts(node_id, began=False, reason=why) for node_id in selected if node_id not in run.tests]
    did = run.machine.did
    return RunFacts(
        (*tests, *never),
        None if ended is None else ended.exit_status,
        ended.reason if ended else "",
        smoke=run.run is not None and run.run.profile == SMOKE.name,
        running=running,
        compared=counted(run.comparisons.values()) if run.run is not None and run.run.compare is not None else None,
        rig="" if did is None else str(did.grade),
    )


def _ended(run: RunEvidence) -> RunEndData | None:
    """How it ended; None when it was killed. A worker that was killed did not kill the run, its controller knows.

    How a process ended counts no more once a later one has gone on with the run.
    """
    ends = {file: end for file, end in run.ends.items() if file not in run.resumed}
    for who in (STOPPED, REFUSED, CONTROLLER):
        for file, end in ends.items():
            if _is_of(file, who):
                return end
    if not ends or set(run.runs) - set(ends) - run.resumed:
        return None
    return max(ends.values(), key=lambda end: end.exit_status)


def test_facts(test: TestEvidence, run: RunEvidence) -> TestFacts:
    """What the evidence holds of one test."""
    end = test.end
    if end is None and _lost_a_worker(run):
        who = "the workers that ran it" if test.lost_in else "the worker that ran it"
        end = TestEndData("error", 0.0, f"{who} died", Cause.TESTBED)
    return TestFacts(
        test.node_id,
        status=None if end is None else end.status,
        cause=Cause.UNKNOWN if end is None else end.cause,
        reason=_why_unfinished(run) if end is None else end.reason,
        verdicts=tuple(test.verdicts.values()),
        errors=tuple(error.message for error in test.errors.values()),
        spoiled=_spoiled(test),
        measured=bool(test.outcomes),
    )


test_facts.__test__ = False  # type: ignore[attr-defined]


def _lost_a_worker(run: RunEvidence) -> bool:
    """One of xdist's workers was killed or crashed, which its controller outlived."""
    ends = [file for file in run.ends if file not in run.resumed]
    if any(_is_of(file, REFUSED) for file in ends):
        return False  # it began no test
    return any(_is_of(file, CONTROLLER) for file in ends) and bool(set(run.runs) - set(run.ends) - run.resumed)


def _is_of(file: str, who: str) -> bool:
    """``evidence-controller.jsonl``; of a run that went on ``evidence-resumed-1-controller.jsonl``."""
    return worker_of(file).rpartition("-")[2] == who


def _spoiled(test: TestEvidence) -> str:
    """Why its last trial, or its last run of streams, was invalid."""
    trials = [trial.result.invalid for trial in test.trials.values()][-1:]
    streams = [stream.result.invalid for stream in test.streams.values()][-1:]
    return next((str(reasons[0]) for reasons in (*trials, *streams) if reasons), "")


def _why_unfinished(run: RunEvidence) -> str:
    if _ended(run) is not None:
        return WHEN_THE_RUN_ENDED
    return "it is running" if run.being_written else "it had begun when the run was killed"
