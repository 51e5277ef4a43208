"""What became of a run, for the HTML page: its head, what did not pass, and every selected test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.pages import TestPage
from pytest_nfvperf.model.evidence.conclusion import Fate, RunConclusion, RunFate, TestConclusion
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict

_STYLES = {
    RunFate.ACCEPTED: "pass",
    RunFate.PASSED: "soft",
    RunFate.FAILED: "fail",
    RunFate.INCONCLUSIVE: "inconclusive",
    RunFate.EMPTY: "inconclusive",
}
_OUTSIDE_THE_SLA = frozenset({Cause.ASSERTION, Cause.SETUP, Cause.USAGE, Cause.INTERNAL})
_MOST_CLOSE = 8
_ALWAYS_COUNTED = ("PASS", "FAIL", "INCONCLUSIVE", "BROKEN")


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why a test did not pass: a testbed error, a requirement, or what it raised.

    ``what`` is the requirement, or the error's class; ``verdict`` has its figures, None where there are none.
    """

    page: TestPage
    badge: str
    what: str
    why: str
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class SelectedTest:
    """A line of the list of all tests. ``page`` is None for one that never began; ``why`` of a skip and the like."""

    became: TestConclusion
    page: TestPage | None
    why: str


def head_style(conclusion: RunConclusion) -> str:
    """The colour of the sentence at the top."""
    return _STYLES.get(conclusion.fate, "error")


def chips(run: RunEvidence, conclusion: RunConclusion) -> list[tuple[str, str, str]]:
    """(style, number, what) for the head: tests by what became of them, then requirements."""
    counts = Counter(test.badge for test in conclusion.tests)
    counts.update(dict.fromkeys(_ALWAYS_COUNTED, 0))
    order = [*_ALWAYS_COUNTED, *(badge for badge in dict.fromkeys(t.badge for t in conclusion.tests))]
    shown = [(style(badge), str(counts[badge]), _tests(badge, counts[badge])) for badge in dict.fromkeys(order)]
    met = sum(verdict.judgement is Judgement.PASS for verdict in run.verdicts.values())
    if run.verdicts:
        shown.append(("", f"{met} of {len(run.verdicts)}", "requirements met"))
    return shown


def style(badge: str) -> str:
    """The style sheet's class for a badge."""
    return badge.lower().replace(" ", "-")


def _tests(badge: str, count: int) -> str:
    return f"{'test' if count == 1 else 'tests'} {badge}"


def faults(conclusion: RunConclusion, pages: Sequence[TestPage]) -> list[Fault]:
    """Everything that did not pass, with each reason, the gravest first."""
    of_test = {page.evidence.node_id: page for page in pages}
    wrong = [test for test in conclusion.tests if test.wrong or test.tolerated]
    return [fault for test in wrong if test.node_id in of_test for fault in _faults_of(test, of_test[test.node_id])]


def _faults_of(test: TestConclusion, page: TestPage) -> list[Fault]:
    errors = [Fault(page, test.badge, error.error, error.message) for error in page.evidence.errors.values()]
    judged = [
        Fault(page, verdict.judgement.value, verdict.requirement, verdict.reason, verdict)
        for judgement in (Judgement.FAIL, Judgement.INCONCLUSIVE)
        for verdict in page.evidence.verdicts.values()
        if verdict.judgement is judgement
    ]
    end = page.evidence.end
    raised = end is not None and end.cause in _OUTSIDE_THE_SLA
    if raised or test.fate is Fate.UNFINISHED or not (errors or judged):
        return [Fault(page, test.badge, _raised(page), test.reason if not raised else _told(page)), *errors, *judged]
    return errors + judged


def _raised(page: TestPage) -> str:
    end = page.evidence.end
    names = {
        Cause.ASSERTION: "what the test checks",
        Cause.SETUP: "a fixture",
        Cause.USAGE: "usage",
        Cause.INTERNAL: "nfvperf",
    }
    return names.get(end.cause, "-") if end is not None else "-"


def _told(page: TestPage) -> str:
    return page.evidence.end.reason if page.evidence.end is not None else ""


def closest(pages: Sequence[TestPage]) -> list[tuple[TestPage, Verdict]]:
    """The requirements with the worst margins, met or not, worst first."""
    judged = [(page, verdict) for page in pages for verdict in page.evidence.verdicts.values()]
    known = [(page, verdict, verdict.margin) for page, verdict in judged if verdict.margin is not None]
    return [(page, verdict) for page, verdict, _ in sorted(known, key=lambda each: each[2])[:_MOST_CLOSE]]


def selected(conclusion: RunConclusion, pages: Sequence[TestPage]) -> list[SelectedTest]:
    """Every selected test; why only where ``faults`` does not say it."""
    of_test = {page.evidence.node_id: page for page in pages}
    told = {fault.page.evidence.node_id for fault in faults(conclusion, pages)}
    return [
        SelectedTest(test, of_test.get(test.node_id), "" if test.node_id in told else test.reason)
        for test in conclusion.tests
    ]
