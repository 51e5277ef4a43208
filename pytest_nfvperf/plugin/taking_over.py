"""Tests of an earlier process that a run takes over: pytest reports them without running them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, test_facts
from pytest_nfvperf.adapters.report.texts import TestFindings, figures_text
from pytest_nfvperf.model.evidence.conclusion import conclude_test
from pytest_nfvperf.model.measure.observe import observations
from pytest_nfvperf.plugin.judged_anew import JudgedAnew
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.result_lines import attach
from pytest_nfvperf.plugin.resuming import TAKEN_KEY
from pytest_nfvperf.session.run import NfvSession


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
        found = TestFindings(figures_text(list(test.outcomes.values())), became.badge, became.reason or "taken over")
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
