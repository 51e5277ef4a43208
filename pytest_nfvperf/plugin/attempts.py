"""An attempt at a test, and how its phases ended by pytest's word.

Plugins that repeat a failed test (pytest-rerunfailures, flaky, pytest-retry) run set-up, call and teardown again, all
within one ``pytest_runtest_protocol``. They share no hook, but each begins with a set-up. The last attempt decides.

Plugins may also change a report after everybody's ``pytest_runtest_makereport`` (pytest-retry), or report a part of a
test by itself (subtests). What counts is therefore what pytest logs: ``pytest_runtest_logreport``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import reduce

import pytest

from pytest_nfvperf.model.evidence.records import TestEndData
from pytest_nfvperf.plugin.ending import Ending, ending_of, graver

ATTEMPT_KEY = pytest.StashKey["Attempt"]()

_LOGGED = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
"""The outcome of a report that each status of an ending goes with."""


@dataclass(slots=True)
class Attempt:
    """One attempt at a test.

    Attributes:
        number: from 1 on.
        endings: how it ended, by phase, and by what was reported beside a phase.
        raised: what the phases raised.
        reports: pytest's reports of the phases, as others were given them.
        set_up: its set-up has begun: another one begins the next attempt.
        ended: its record, once it is written.
    """

    number: int = 1
    began: float = field(default_factory=time.monotonic)
    endings: dict[str, Ending] = field(default_factory=dict)
    raised: dict[str, BaseException] = field(default_factory=dict)
    reports: dict[str, pytest.TestReport] = field(default_factory=dict)
    set_up: bool = False
    ended: TestEndData | None = None

    def end_data(self) -> TestEndData:
        """What its phases come to, the gravest of them."""
        ending = reduce(graver, self.endings.values(), Ending())
        seconds = time.monotonic() - self.began if self.ended is None else self.ended.seconds
        return TestEndData(ending.status, seconds, ending.reason, ending.cause, ending.text)

    def logged(self, report: pytest.TestReport) -> bool:
        """Take a report as pytest logs it; False if it says what is known already.

        Outcomes of other plugins ("rerun", "retried") announce another attempt. A report that is not of a phase, such
        as that of a subtest, counts when it failed.
        """
        phase = report.when or "call"
        is_phase = self.reports.get(phase) is report
        if report.outcome not in _LOGGED or not (is_phase or report.failed):
            return False
        name = phase if is_phase else f"beside {phase}"
        if _LOGGED[self.endings.get(name, Ending()).status] == report.outcome:
            return False
        self.endings[name] = ending_of(report, self.raised.get(phase))
        return True


def forget_properties(item: pytest.Item) -> None:
    """Forget what an earlier attempt told JUnit of its figures and verdicts."""
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("nfvperf.")]
