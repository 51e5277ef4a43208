"""``--nfv-resume RUN``: a killed or interrupted run goes on in its own directory.

Tests that ended there on a rig with the same fingerprint are adopted: pytest reports how they ended without running
them. All others run, and what they measure replaces what was left of them. With workers, each worker decides by its own
rig, for the tests that it gets.

If the SLA has changed, the figures of a test are judged again where they suffice. The test is measured again where they
do not: a verdict would be INCONCLUSIVE, or the test had stopped at a verdict that is different now, so that the rest of
it never ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, facts_by_test
from pytest_nfvperf.adapters.report.texts import Findings, figures_text
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.evidence.comparison import changed_facts, rig_facts
from pytest_nfvperf.model.evidence.conclusion import TestResult, conclude_test
from pytest_nfvperf.model.evidence.records import Cause, RunData, TestEndData
from pytest_nfvperf.model.sla.rules import rules_name
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, failure_table, headline_of
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.output import attach, say
from pytest_nfvperf.plugin.run_state import ADOPTED_KEY
from pytest_nfvperf.plugin.worker import ADOPTED, AdoptedTests, channel_of
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, shown_location, subject_text

EARLIER_KEY = pytest.StashKey["RunEvidence"]()
NAME_KEY = pytest.StashKey[str]()
"""Prefix of the evidence files of a resumed run's process and its workers: ``resumed-1``, and so on each time."""
RESUMES = "nfv_resumes"
"""In a worker's input: that prefix, and the evidence files to resume. New files of this run are in the same folder."""
_SETTLED = frozenset(
    {TestResult.PASSED, TestResult.FAILED, TestResult.INCONCLUSIVE, TestResult.SKIPPED, TestResult.XFAIL}
)
_NAME = "resumed"


def read_earlier(config: pytest.Config, given: Path, profile: str) -> None:
    """Read the run to resume, and keep it for ``adopt_tests``.

    Raises:
        pytest.UsageError: there is none, it had another profile, or it compares.
    """
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415

    workerinput = getattr(config, "workerinput", {})
    name, files = workerinput.get(RESUMES, ("", None))
    if not given.is_dir():
        raise pytest.UsageError(f"--nfv-resume: {given} is no directory of a run, such as reports/latest")
    try:
        run = read_run(given, files)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-resume: {error}") from error
    if run.run is None:
        raise pytest.UsageError(f"--nfv-resume: {given} has no run record: it measured nothing, so start a new one")
    if run.run.compare is not None:
        raise pytest.UsageError(f"--nfv-resume: {given} compares sides, which needs all in one run: start a new one")
    if run.run.profile != profile:
        raise pytest.UsageError(
            f"--nfv-resume: {given} has profile {run.run.profile}: give --nfv-profile {run.run.profile}"
        )
    earlier = [re.match(rf"evidence-{_NAME}-(\d+)", file) for file in _files(run)]
    number = 1 + max((int(match[1]) for match in earlier if match), default=0)
    config.stash[EARLIER_KEY], config.stash[NAME_KEY] = run, name or f"{_NAME}-{number}"


def resumed_name(config: pytest.Config) -> str:
    """Prefix of this process's evidence files; "" in a run that resumes nothing."""
    return config.stash.get(NAME_KEY, "")


def evidence_id(config: pytest.Config, run_dir: Path) -> str:
    """The run's id in each of its records. A resumed run keeps its own, whatever its directory is called by now."""
    return config.stash[EARLIER_KEY].run_id if EARLIER_KEY in config.stash else run_dir.name


def send_earlier_run(config: pytest.Config, workerinput: MutableMapping[str, Any]) -> None:
    """Tell a worker which evidence to resume. A worker that replaces another must not resume files of its own run."""
    if EARLIER_KEY in config.stash:  # else the controller is about to refuse
        workerinput[RESUMES] = (config.stash[NAME_KEY], list(_files(config.stash[EARLIER_KEY])))


def _files(run: RunEvidence) -> tuple[str, ...]:
    return tuple(sorted({*run.runs, *run.ends}))


def adopt_tests(config: pytest.Config, items: list[pytest.Item], session: NfvSession) -> None:
    """Mark tests that need not be measured again. Without workers they run first, while no fixture is in use."""
    from pytest_nfvperf.adapters.evidence.reader import conclude  # noqa: PLC0415 - only for who resumes

    run = config.stash[EARLIER_KEY]
    other_rigs = _other_rigs(run, session.fingerprint())
    out_of_time = any(end.time_limit_s is not None for end in run.ends.values())  # then measure again what was cut off
    again = {TestResult.INCONCLUSIVE} if out_of_time else set()
    settled = {test.node_id for test in conclude(run).tests if test.result in _SETTLED - again}
    ended = {
        item: test
        for item in items
        if item.nodeid in settled and (test := run.tests[item.nodeid]).end and test.file not in other_rigs
    }
    session.resumes = _files(run)
    session.selected = tuple(item.nodeid for item in items)  # what of earlier runs is read to judge them again
    rejudged = _mark_adopted(ended, run.runs, session)
    config.pluginmanager.register(AdoptedReports(run, session), "nfvperf-adopted-reports")
    adopted = [item for item in items if ADOPTED_KEY in item.stash]
    if not hasattr(config, "workerinput"):
        items[:] = adopted + [item for item in items if ADOPTED_KEY not in item.stash]

    def ids(tests: Iterable[pytest.Item]) -> tuple[str, ...]:
        return tuple(item.nodeid for item in tests)

    report = AdoptedTests(str(session.run_dir), ids(adopted), ids(ended), ids(rejudged), other_rigs)
    channel = channel_of(config)
    if channel is not None:  # the controller gives each test to a worker that adopts it, and reports all
        channel.send(ADOPTED, asdict(report))
        return
    for line in report.lines(len(items)):
        say(config, line)


def _other_rigs(run: RunEvidence, now: Mapping[str, Any]) -> dict[str, str]:
    """How the rig of each evidence file differs from this one; only files with a difference."""
    changed = {file: changed_facts(data.fingerprint, now) for file, data in run.runs.items()}
    texts = {file: [f"{name} {was} then, {is_now} now" for name, was, is_now in of] for file, of in changed.items()}
    return {file: ", ".join(of) for file, of in texts.items() if of}


def sla_name(session: NfvSession, test_file: Path) -> str:
    """Name of the rules in force for the tests of this file."""
    options = session.options
    gate = "" if options.fail_below is None else str(options.fail_below)
    return rules_name(session.rules_in_force(test_file), str(options.baseline or "") + gate)


def _mark_adopted(
    ended: Mapping[pytest.Item, TestEvidence], runs: Mapping[str, RunData], session: NfvSession
) -> list[pytest.Item]:
    """Mark those tests that need not be measured again; their figures are the other side of relations.

    ``ended``: tests that an earlier process ended on this rig; ``runs``: its records. Returns those judged again.
    """
    measured, unrecorded = MeasuredSubjects(), Recorder("rejudged", [], session.backend.clock)
    for test in ended.values():  # each might be adopted, and then is the other side of relations
        _store(test, measured)
    rejudged: list[pytest.Item] = []
    for item, earlier in ended.items():
        rules = session.rules_in_force(item.path)
        facts = rig_facts(runs[earlier.file], earlier.topologies.values())
        gate = partial(session.last_run.gate, on=(earlier.node_id, facts))
        sla = SlaCheck(rules, measured, unrecorded, lambda _: None, _baseline=lambda: session.baseline, _gate=gate)
        judged = _judged(earlier, sla, sla_name(session, item.path), session.options.root)
        if judged is None:
            continue
        if judged is not earlier:
            rejudged.append(item)
        item.stash[ADOPTED_KEY] = judged
        _store(judged, session.measured)
    return rejudged


def _store(test: TestEvidence, measured: MeasuredSubjects) -> None:
    for outcome in test.outcomes.values():
        measured.store(outcome.label, outcome.figures)


def _judged(test: TestEvidence, sla: SlaCheck, name: str, root: Path) -> TestEvidence | None:
    """A test of an earlier process as the current SLA judges it, whose rules have this name.

    Returns:
        The same object if the SLA asks the same of it; None if it must be measured again.
    """
    if test.data.sla == name:
        return test
    verdicts = _verdicts(test, sla)
    if verdicts is None:
        return None
    if _requirements(verdicts, root) == _requirements(test.verdicts.values(), root):
        return test
    end = _end(test, verdicts)
    if end is None:
        return None
    data = replace(test.data, sla=name, measured_in=test.file)
    return replace(test, data=data, verdicts={str(number): one for number, one in enumerate(verdicts)}, end=end)


def _verdicts(test: TestEvidence, sla: SlaCheck) -> tuple[Verdict, ...] | None:
    """Verdicts on every judged subject. None: nothing was judged, and the test might ask for a judgement now."""
    outcomes = list(test.outcomes.values())
    if not test.verdicts:
        return None if any(sla.verdicts_on([outcome]) for outcome in outcomes) else ()
    subjects = {verdict.subject: verdict for verdict in test.verdicts.values()}
    judged = [[one for one in outcomes if verdict.is_about(one.labels)] for verdict in subjects.values()]
    return tuple(verdict for of_subject in judged for verdict in sla.verdicts_on(of_subject))


def _requirements(verdicts: Iterable[Verdict], root: Path) -> set[tuple[object, ...]]:
    """Each requirement with its subject. Evidence of earlier versions names a rule's file by its whole path."""
    return {
        (verdict.requirement, verdict.limit, shown_location(verdict.rule, root), *verdict.subject)
        for verdict in verdicts
    }


def _end(test: TestEvidence, verdicts: Sequence[Verdict]) -> TestEndData | None:
    """How the test ends by these verdicts; None where its figures do not suffice."""
    end, judgements = test.end, {verdict.judgement for verdict in verdicts}
    if end is None or Judgement.INCONCLUSIVE in judgements:
        return None
    if Judgement.FAIL in judgements and (end.status == "passed" or end.cause is Cause.SLA):
        subjects = dict.fromkeys(verdict.subject for verdict in verdicts if verdict.judgement is not Judgement.PASS)
        text = "\n\n".join(
            failure_table([one for one in verdicts if one.subject == subject], subject=subject_text(dict(subject)))
            for subject in subjects
        )
        return replace(end, status="failed", reason=headline_of(text), cause=Cause.SLA, text=text)
    return TestEndData("passed", end.seconds, times=end.times) if end.status == "passed" else None


class AdoptedReports:
    """Reports the adopted tests of an earlier run as they ended. Records those that were judged again."""

    def __init__(self, run: RunEvidence, session: NfvSession) -> None:
        self._run, self._session = run, session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report the test instead of running it. End fixtures that the next test does not use."""
        if ADOPTED_KEY not in item.stash:
            return None
        test = item.stash[ADOPTED_KEY]
        if test is not self._run.tests[item.nodeid] and test.end is not None:
            self._session.begin_test(test.node_id, test.data)
            for verdict in test.verdicts.values():
                self._session.recorder.emit(verdict)
            self._session.end_test(test.end)
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        teardown = partial(item.session._setupstate.teardown_exact, nextitem)
        torn_down = pytest.CallInfo.from_call(teardown, when="teardown")
        for report in self._reports(item, test):
            broken = report.when == "teardown" and torn_down.excinfo is not None
            shown = pytest.TestReport.from_item_and_call(item, torn_down) if broken else report
            hook.pytest_runtest_logreport(report=shown)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Item, test: TestEvidence) -> Iterator[pytest.TestReport]:
        """Reports of the three phases. The last carries the line for the terminal."""
        conclusion = conclude_test(facts_by_test(test, self._run))
        reason = conclusion.reason or "taken over"
        figures = figures_text(list(test.outcomes.values()), test.comparisons.values())
        findings = Findings(figures, conclusion.badge, reason)
        for when in ("setup", "call", "teardown"):
            report = _report(item, test.end, when)
            if is_measuring(item):
                attach(report, findings if when == "teardown" else None)
            yield report


def _report(item: pytest.Item, end: TestEndData | None, when: Any) -> pytest.TestReport:
    status = end.status if end is not None and when == "call" else "passed"
    outcome: Any = "failed" if status == "error" else status
    text: Any = None
    if end is not None and outcome == "failed":
        text = end.text or end.reason
    elif end is not None and outcome == "skipped":
        text = (str(item.path), 0, f"Skipped: {end.reason}")
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, text, when)
