"""``--nfv-resume RUN``: a run that was killed or interrupted goes on in its own directory.

Tests that ended there on a rig of the same fingerprint are taken over: they are not measured again, and pytest reports
them without running them, as they ended. All others run, and what they measure replaces what was left of them. With
workers each decides by its own rig, for the tests that it gets.

Where the SLA is another now, a test is judged anew by its figures where they suffice. It is measured again where they
do not: where something would be INCONCLUSIVE, or where the test had stopped at a verdict that is another now, so that
the rest of it never ran.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, test_facts
from pytest_nfvperf.adapters.report.texts import Findings, figures_text
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.evidence.conclusion import Fate, conclude_test
from pytest_nfvperf.model.evidence.records import Cause, TestEndData
from pytest_nfvperf.model.measure.observe import observations
from pytest_nfvperf.model.sla.rules import rules_name
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, failure_table
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.output import attach, say
from pytest_nfvperf.plugin.worker_channel import AdoptedTests, channel_of
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.sla_check import Measured, SlaCheck, subject_text
from pytest_nfvperf.session.slas import shown_place

EARLIER_KEY = pytest.StashKey["RunEvidence"]()


NAME_KEY = pytest.StashKey[str]()
"""Begins the names of the files of the process that goes on, and of its workers: ``resumed-1``, and so on each time."""


TAKEN_KEY: pytest.StashKey[TestEvidence] = pytest.StashKey()
"""Of a test that is not measured again: what is left of it, as the SLA of now judges it."""


PACKED_KEY = pytest.StashKey[dict[str, bytes]]()
"""What every worker on another machine is given."""


EVIDENCE = "nfv_resumes_evidence"
"""In the input of a worker on another machine: those files, compressed, by name."""


RESUMES = "nfv_resumes"
"""In a worker's input: that name, and the files that the run goes on with. Those of the run itself are beside them."""


_SETTLED = frozenset({Fate.PASSED, Fate.FAILED, Fate.INCONCLUSIVE, Fate.SKIPPED, Fate.XFAIL})


_NAME = "resumed"


def read_earlier(config: pytest.Config, given: Path, profile: str) -> None:
    """Read the run to go on with, for those who take it over.

    Raises:
        pytest.UsageError: there is none, it had another profile, or it compares.
    """
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415

    workerinput = getattr(config, "workerinput", {})
    if EVIDENCE in workerinput:
        with TemporaryDirectory(prefix="nfvperf-resume-") as folder:
            _unpack(workerinput[EVIDENCE], Path(folder))
            config.stash[EARLIER_KEY] = read_run(Path(folder))
        config.stash[NAME_KEY] = workerinput[RESUMES][0]
        return
    name, files = workerinput.get(RESUMES, ("", None))
    if not given.is_dir():
        raise pytest.UsageError(f"--nfv-resume: {given} is no directory of a run, such as reports/latest")
    try:
        run = read_run(given, files)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-resume: {error}") from error
    if run.run is None:
        raise pytest.UsageError(f"--nfv-resume: {given} has no run record: it measured nothing, so start anew")
    if run.run.compare is not None:
        raise pytest.UsageError(f"--nfv-resume: {given} compares sides, which needs all in one run: start it anew")
    if run.run.profile != profile:
        raise pytest.UsageError(
            f"--nfv-resume: {given} has profile {run.run.profile}: give --nfv-profile {run.run.profile}"
        )
    config.stash[EARLIER_KEY], config.stash[NAME_KEY] = run, name or _next_name(run)


def _next_name(run: RunEvidence) -> str:
    found = [re.match(rf"evidence-{_NAME}-(\d+)", file) for file in {*run.runs, *run.ends}]
    return f"{_NAME}-{1 + max((int(one[1]) for one in found if one), default=0)}"


def resumed_name(config: pytest.Config) -> str:
    """What begins the names of this process's files; "" where it goes on with nothing."""
    return config.stash.get(NAME_KEY, "")


def tell_worker(config: pytest.Config, workerinput: MutableMapping[str, Any], *, far: bool) -> None:
    """One that replaces another finds files of its own run, too, and must not go on with those.

    ``far``: it is on another machine, which does not have the files: they go with it.
    """
    if EARLIER_KEY not in config.stash:  # the controller is about to refuse
        return
    run = config.stash[EARLIER_KEY]
    workerinput[RESUMES] = (config.stash[NAME_KEY], list(_files(run)))
    if far:
        workerinput[EVIDENCE] = _packed(config, run)


def _packed(config: pytest.Config, run: RunEvidence) -> dict[str, bytes]:
    """The evidence by file, compressed to a tenth: 100,000 trials are 15 MB."""
    if PACKED_KEY not in config.stash:
        config.stash[PACKED_KEY] = {name: zlib.compress((run.path / name).read_bytes()) for name in _files(run)}
    return config.stash[PACKED_KEY]


def _unpack(packed: Mapping[str, bytes], folder: Path) -> None:
    for name, data in packed.items():
        (folder / Path(name).name).write_bytes(zlib.decompress(data))


def _files(run: RunEvidence) -> tuple[str, ...]:
    return tuple(sorted({*run.runs, *run.ends}))


def take_over(config: pytest.Config, items: list[pytest.Item], session: NfvSession) -> None:
    """Mark the tests that need not be measured again. Without workers they come first: no fixture is in use then."""
    from pytest_nfvperf.adapters.evidence.reader import conclude  # noqa: PLC0415 - only for who resumes

    run = config.stash[EARLIER_KEY]
    unlike = _unlike(run, session.backend.fingerprint())
    settled = {test.node_id for test in conclude(run).tests if test.fate in _SETTLED}
    ended = {
        item: test
        for item in items
        if item.nodeid in settled and (test := run.tests[item.nodeid]).end and test.file not in unlike
    }
    session.resumes = _files(run)
    anew = take(ended, session)
    config.pluginmanager.register(TakesOver(run, session), "nfvperf-takes-over")
    taken = [item for item in items if TAKEN_KEY in item.stash]
    if not hasattr(config, "workerinput"):
        items[:] = taken + [item for item in items if TAKEN_KEY not in item.stash]
    _tell(config, AdoptedTests(str(session.run_dir), _ids(taken), _ids(ended), _ids(anew), unlike), len(items))


def _ids(items: Iterable[pytest.Item]) -> tuple[str, ...]:
    return tuple(item.nodeid for item in items)


def _tell(config: pytest.Config, taken: AdoptedTests, selected: int) -> None:
    """The user; a worker its controller, which tells of all workers, and deals each test to one that takes it over."""
    channel = channel_of(config)
    if channel is not None:
        channel.report_adopted(taken)
        return
    for line in taken.lines(selected):
        say(config, line)


def _unlike(run: RunEvidence, now: Mapping[str, Any]) -> dict[str, str]:
    """In what the rig of each evidence file differs from this one, for those that do."""
    from pytest_nfvperf.session.run import CPU_BANDS  # noqa: PLC0415 - only for who resumes

    found = {}
    for file, data in run.runs.items():
        then = {name: value for name, value in data.fingerprint.items() if name != CPU_BANDS}
        names = sorted({*then, *now})
        differ = [name for name in names if _plain(then.get(name)) != _plain(now.get(name))]
        if differ:
            found[file] = ", ".join(f"{name} {then.get(name)} then, {now.get(name)} now" for name in differ)
    return found


def _plain(value: object) -> str:
    """As evidence has it: JSON knows no tuples, and only text for keys."""
    return json.dumps(value, sort_keys=True)


def sla_name(session: NfvSession, test_file: Path) -> str:
    """Name of the rules that are in force for the tests of this file."""
    return rules_name(session.rules_in_force(test_file), str(session.options.baseline or ""))


class JudgedAnew:
    """Judges tests of an earlier process.

    Args:
        session: of this process.
        tests: all that might be taken over: they are the other sides of relations.
    """

    def __init__(self, session: NfvSession, tests: Iterable[TestEvidence]) -> None:
        self._session = session
        self._measured = Measured()
        self._nowhere = Recorder("anew", [], session.backend.clock)
        for test in tests:
            for outcome in test.outcomes.values():
                self._measured.know(outcome.label, observations(outcome))

    def test(self, test: TestEvidence, test_file: Path) -> TestEvidence | None:
        """The test as the SLA of now judges it: the same object where that asks the same; None: measure it again."""
        name = sla_name(self._session, test_file)
        if test.data.sla == name:
            return test
        sla = SlaCheck(
            self._session.rules_in_force(test_file),
            self._measured,
            self._nowhere,
            lambda _: None,
            baseline=lambda: self._session.baseline,
        )
        verdicts = _verdicts(test, sla)
        root = self._session.options.root
        if verdicts is None or _asked(verdicts, root) == _asked(test.verdicts.values(), root):
            return None if verdicts is None else test
        end = _end(test, verdicts)
        if end is None:
            return None
        data = replace(test.data, sla=name, measured_in=test.file)
        return replace(test, data=data, verdicts={str(number): one for number, one in enumerate(verdicts)}, end=end)


def _verdicts(test: TestEvidence, sla: SlaCheck) -> tuple[Verdict, ...] | None:
    """On all that was judged; None where nothing was, and nobody knows whether the test asks for a judgement."""
    outcomes = list(test.outcomes.values())
    if not test.verdicts:
        return None if any(sla.verdicts_on([outcome]) for outcome in outcomes) else ()
    subjects = {verdict.subject: verdict for verdict in test.verdicts.values()}
    judged = [[one for one in outcomes if verdict.is_about(one.labels)] for verdict in subjects.values()]
    return tuple(verdict for together in judged for verdict in sla.verdicts_on(together))


def _asked(verdicts: Iterable[Verdict], root: Path) -> set[tuple[object, ...]]:
    """What each asks of whom. Evidence of earlier versions names a rule's file by its whole path."""
    return {
        (verdict.requirement, verdict.limit, shown_place(verdict.rule, root), *verdict.subject) for verdict in verdicts
    }


def _end(test: TestEvidence, verdicts: Sequence[Verdict]) -> TestEndData | None:
    """How the test ends by these; None where its figures do not suffice."""
    end, judgements = test.end, {verdict.judgement for verdict in verdicts}
    if end is None or Judgement.INCONCLUSIVE in judgements:
        return None
    if Judgement.FAIL in judgements and (end.status == "passed" or end.cause is Cause.SLA):
        text = _table(verdicts)
        return TestEndData("failed", end.seconds, text.splitlines()[0], Cause.SLA, text)
    return TestEndData("passed", end.seconds) if end.status == "passed" else None


def _table(verdicts: Sequence[Verdict]) -> str:
    subjects = dict.fromkeys(verdict.subject for verdict in verdicts if verdict.judgement is not Judgement.PASS)
    return "\n\n".join(
        failure_table([one for one in verdicts if one.subject == subject], subject=subject_text(dict(subject)))
        for subject in subjects
    )


def take(ended: Mapping[pytest.Item, TestEvidence], session: NfvSession) -> list[pytest.Item]:
    """Mark those that need not be measured again; their figures are the other side of relations.

    Args:
        ended: what an earlier process left of tests that it ended on this rig.
        session: of this process.

    Returns:
        Those of them that are judged anew.
    """
    judged = JudgedAnew(session, ended.values())
    anew: list[pytest.Item] = []
    for item, test in ended.items():
        found = judged.test(test, item.path)
        if found is None:
            continue
        if found is not test:
            anew.append(item)
        item.stash[TAKEN_KEY] = found
        for outcome in found.outcomes.values():
            session.measured.know(outcome.label, observations(outcome))
    return anew


class TakesOver:
    """Reports tests that were taken over as they ended, or as they were judged anew, which it records.

    Args:
        run: the earlier one.
        session: of this process.
    """

    def __init__(self, run: RunEvidence, session: NfvSession) -> None:
        self._run, self._session = run, session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """In place of running it. Fixtures of the test before that the next one does not use end here."""
        if TAKEN_KEY not in item.stash:
            return None
        test = item.stash[TAKEN_KEY]
        if test is not self._run.tests[item.nodeid]:
            self._record(test)
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        torn = pytest.CallInfo.from_call(partial(item.session._setupstate.teardown_exact, nextitem), when="teardown")
        for report in self._reports(item, test):
            broken = report.when == "teardown" and torn.excinfo is not None
            shown = pytest.TestReport.from_item_and_call(item, torn) if broken else report
            hook.pytest_runtest_logreport(report=shown)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _record(self, test: TestEvidence) -> None:
        if test.end is None:
            return
        self._session.begin_test(test.node_id, test.data)
        for verdict in test.verdicts.values():
            self._session.recorder.emit(verdict)
        self._session.end_test(test.end)

    def _reports(self, item: pytest.Item, test: TestEvidence) -> Iterator[pytest.TestReport]:
        """Of its three phases, the last with the line that the terminal shows."""
        became = conclude_test(test_facts(test, self._run))
        found = Findings(figures_text(list(test.outcomes.values())), became.badge, became.reason or "taken over")
        for when in ("setup", "call", "teardown"):
            report = _report(item, test, when)
            if is_measuring(item):
                attach(report, found if when == "teardown" else None)
            yield report


def _report(item: pytest.Item, test: TestEvidence, when: Any) -> pytest.TestReport:
    end = test.end
    status = end.status if end is not None and when == "call" else "passed"
    text: Any = None
    outcome: Any = {"error": "failed"}.get(status, status)
    if end is not None and outcome == "failed":
        text = end.text or end.reason
    elif end is not None and outcome == "skipped":
        text = (str(item.path), 0, f"Skipped: {end.reason}")
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, text, when)
