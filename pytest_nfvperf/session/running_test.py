"""What becomes of the test that runs, by what it found so far."""

from __future__ import annotations

from pytest_nfvperf.model.evidence.conclusion import (
    WHEN_THE_RUN_ENDED,
    TestConclusion,
    TestFacts,
    conclude_test,
)
from pytest_nfvperf.model.evidence.records import ErrorData, TestEndData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.runs.recorder import Recorder


def conclude_running(recorder: Recorder, end: TestEndData) -> TestConclusion:
    """Of a test that ends so."""
    return conclude_test(
        TestFacts(
            recorder.test,
            status=end.status,
            cause=end.cause,
            reason=end.reason,
            verdicts=tuple(finding for finding in recorder.findings if isinstance(finding, Verdict)),
            errors=_errors(recorder),
            measured=any(isinstance(finding, Outcome) for finding in recorder.findings),
        )
    )


def conclude_interrupted(recorder: Recorder) -> TestConclusion:
    """Of a test that does not end, because the run does."""
    return conclude_test(TestFacts(recorder.test, reason=WHEN_THE_RUN_ENDED, errors=_errors(recorder)))


def _errors(recorder: Recorder) -> tuple[str, ...]:
    return tuple(finding.message for finding in recorder.findings if isinstance(finding, ErrorData))
