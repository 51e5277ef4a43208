"""What the SLA of now says of tests that an earlier process measured, for runs that go on.

A test is judged anew by its figures where they suffice, and measured again where they do not: where something would be
INCONCLUSIVE, or where the test had stopped at a verdict that is another now, so that the rest of it never ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import TestEvidence
from pytest_nfvperf.model.evidence.records import Cause, TestEndData
from pytest_nfvperf.model.measure.observe import observations
from pytest_nfvperf.model.sla.rules import rules_name
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, failure_table
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.sla_check import Measured, SlaCheck, subject_text
from pytest_nfvperf.session.slas import shown_place


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
