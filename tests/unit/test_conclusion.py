"""What became of tests and runs: every combination of facts, and what must never be called accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.evidence.conclusion import (
    LONGEST_REASON,
    RunFacts,
    RunResult,
    TestFacts,
    TestResult,
    conclude_run,
    conclude_test,
    one_line,
    subject_badge,
)
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict


def verdict(judgement: Judgement) -> Verdict:
    """A verdict with a reason of its own."""
    return Verdict(
        judgement, "ndr >= 4 Mpps", "ndr", 4e6, "pps", 3e6, -0.25, f"it is {judgement}", "sla.yaml: rules[0]"
    )


PASS, FAIL, OPEN = (verdict(judgement) for judgement in Judgement)
GOOD = TestFacts("good", status="passed", verdicts=(PASS,), measured=True)

facts_of_tests = st.builds(
    TestFacts,
    st.uuids().map(str),
    began=st.booleans(),
    status=st.sampled_from([None, "passed", "failed", "error", "skipped"]),
    cause=st.sampled_from(Cause),
    reason=st.text(),
    verdicts=st.lists(st.sampled_from([PASS, FAIL, OPEN]), max_size=3).map(tuple),
    errors=st.lists(st.text(min_size=1), max_size=1).map(tuple),
    invalid=st.sampled_from(["", "skipped_frames: 5"]),
    measured=st.booleans(),
)
runs = st.builds(
    RunFacts, st.lists(facts_of_tests, max_size=5).map(tuple), st.sampled_from([None, *range(8)]), st.text()
)


@given(runs)
def test_accepted_is_only_what_passed_everywhere_and_was_judged(run: RunFacts) -> None:
    conclusion = conclude_run(run)
    every = all(facts.began and facts.status == "passed" and not facts.errors for facts in run.tests)
    judgements = {given.judgement for facts in run.tests for given in facts.verdicts}
    accepted = conclusion.result is RunResult.ACCEPTED
    assert not accepted or (every and judgements == {Judgement.PASS} and run.exit_status in {0, 5})
    assert conclusion.headline.startswith("Accepted") == accepted
    assert accepted <= (conclusion.exit_status == 0)


@given(runs)
def test_a_status_of_zero_means_that_nothing_went_wrong(run: RunFacts) -> None:
    conclusion = conclude_run(run)
    assert (conclusion.exit_status == 0) == (conclusion.result in {RunResult.ACCEPTED, RunResult.PASSED})
    if conclusion.exit_status == 0:
        assert run.exit_status in {0, 5}
        assert not any(test.wrong for test in conclusion.tests)


@given(runs)
def test_every_test_is_counted_once_and_the_gravest_comes_first(run: RunFacts) -> None:
    tests = conclude_run(run).tests
    assert sorted(test.node_id for test in tests) == sorted(facts.node_id for facts in run.tests)
    order = [list(TestResult).index(test.result) for test in tests]
    assert order == sorted(order)


@given(runs)
def test_the_last_line_is_one_line_with_the_status(run: RunFacts) -> None:
    conclusion = conclude_run(run)
    assert "\n" not in conclusion.last_line
    assert conclusion.last_line.endswith(f"(exit status {conclusion.exit_status})")


@given(facts_of_tests)
def test_a_reason_is_one_line_and_a_fail_or_an_error_never_passes(facts: TestFacts) -> None:
    conclusion = conclude_test(facts)
    assert len(conclusion.reason.splitlines()) <= 1
    assert len(conclusion.reason) <= LONGEST_REASON
    if facts.began and (facts.errors or FAIL in facts.verdicts):
        assert conclusion.result not in {TestResult.PASSED, TestResult.SKIPPED, TestResult.NOT_RUN}


@given(runs, facts_of_tests)
def test_one_more_test_never_turns_a_run_that_is_not_accepted_into_an_accepted_one(
    run: RunFacts, more: TestFacts
) -> None:
    before = conclude_run(run)
    if run.tests and before.result not in {RunResult.ACCEPTED, RunResult.PASSED}:
        after = conclude_run(replace(run, tests=(*run.tests, more)))
        assert after.result is not RunResult.ACCEPTED


@pytest.mark.parametrize(
    ("facts", "result", "badge", "reason"),
    [
        (GOOD, TestResult.PASSED, "PASS", ""),
        (replace(GOOD, verdicts=()), TestResult.PASSED, "no SLA", ""),
        (replace(GOOD, verdicts=(), measured=False), TestResult.PASSED, "PASS", ""),
        (
            replace(GOOD, status="failed", cause=Cause.SLA, verdicts=(OPEN, FAIL)),
            TestResult.FAILED,
            "FAIL",
            "ndr >= 4 Mpps: it is FAIL",
        ),
        (
            replace(GOOD, status="failed", cause=Cause.INCONCLUSIVE, verdicts=(PASS, OPEN)),
            TestResult.INCONCLUSIVE,
            "INCONCLUSIVE",
            "ndr >= 4 Mpps: it is INCONCLUSIVE",
        ),
        (replace(GOOD, verdicts=(FAIL,)), TestResult.FAILED, "FAIL", "ndr >= 4 Mpps: it is FAIL"),
        (
            TestFacts("t", status="failed", cause=Cause.INCONCLUSIVE, reason="5 trials were invalid"),
            TestResult.INCONCLUSIVE,
            "INCONCLUSIVE",
            "5 trials were invalid",
        ),
        (
            replace(GOOD, status="failed", cause=Cause.ASSERTION, reason="assert 1 == 2"),
            TestResult.FAILED,
            "FAIL",
            "assert 1 == 2",
        ),
        (
            TestFacts("t", status="error", cause=Cause.SETUP, reason="OSError: no"),
            TestResult.BROKEN,
            "BROKEN",
            "OSError: no",
        ),
        (
            TestFacts("t", status="error", cause=Cause.TESTBED, errors=("it died\nlog",)),
            TestResult.BROKEN,
            "BROKEN",
            "it died",
        ),
        (TestFacts("t", status="failed", cause=Cause.USAGE, reason="no such"), TestResult.USAGE, "USAGE", "no such"),
        (TestFacts("t", status="skipped", cause=Cause.SKIP, reason="no NIC"), TestResult.SKIPPED, "skipped", "no NIC"),
        (TestFacts("t", status="skipped", cause=Cause.XFAIL, reason="known"), TestResult.XFAIL, "xfail", "known"),
        (TestFacts("t", began=False), TestResult.NOT_RUN, "not run", "selected, and never begun"),
        (TestFacts("t"), TestResult.UNFINISHED, "unfinished", "begun, and not ended"),
        (
            TestFacts("t", status="failed", invalid="skipped_frames"),
            TestResult.INCONCLUSIVE,
            "INCONCLUSIVE",
            "skipped_frames",
        ),
        (TestFacts("t", status="failed", reason="assert 0"), TestResult.FAILED, "FAIL", "assert 0"),
    ],
)
def test_what_became_of_a_test(facts: TestFacts, result: TestResult, badge: str, reason: str) -> None:
    conclusion = conclude_test(facts)
    assert (conclusion.result, conclusion.badge, conclusion.reason) == (result, badge, reason)


SKIPPED = TestFacts("skip", status="skipped", cause=Cause.SKIP, reason="no NIC")
FAILED = TestFacts("fail", status="failed", cause=Cause.SLA, verdicts=(FAIL,), measured=True)
UNCLEAR = TestFacts("open", status="failed", cause=Cause.INCONCLUSIVE, verdicts=(OPEN,), measured=True)
BROKEN = TestFacts("broken", status="error", cause=Cause.TESTBED, errors=("it died",))
USAGE = TestFacts("usage", status="failed", cause=Cause.USAGE, reason="no such profile")
NEVER = TestFacts("never", began=False)


@pytest.mark.parametrize(
    ("tests", "pytests", "result", "headline"),
    [
        ((GOOD,), 0, RunResult.ACCEPTED, "Accepted: the one requirement met, the one selected test passed"),
        ((GOOD, SKIPPED), 0, RunResult.PASSED, "1 of 2 selected tests passed, 1 was skipped"),
        ((SKIPPED,), 0, RunResult.PASSED, "Nothing was measured: the one selected test was skipped"),
        (
            (replace(GOOD, verdicts=()),),
            0,
            RunResult.PASSED,
            "Nothing was judged, no SLA applied: 1 of 1 selected test passed",
        ),
        ((GOOD, replace(GOOD, verdicts=(OPEN,))), 0, RunResult.PASSED, "1 of 2 selected tests passed, 1 inconclusive"),
        ((GOOD, UNCLEAR), 1, RunResult.INCONCLUSIVE, "Inconclusive: of 2 selected tests 1 inconclusive, 1 passed"),
        ((UNCLEAR, FAILED), 1, RunResult.FAILED, "Failed: of 2 selected tests 1 failed, 1 inconclusive"),
        ((FAILED, BROKEN), 1, RunResult.BROKEN, "Testbed broken: of 2 selected tests 1 testbed broken, 1 failed"),
        ((BROKEN, USAGE), 1, RunResult.USAGE, "Usage error: of 2 selected tests 1 usage error, 1 testbed broken"),
        ((USAGE, NEVER), 2, RunResult.INTERRUPTED, "Interrupted: of 2 selected tests 1 usage error, 1 not run"),
        ((FAILED, NEVER), 1, RunResult.FAILED, "Failed: of 2 selected tests 1 failed, 1 not run"),
        ((GOOD, NEVER), 0, RunResult.INTERRUPTED, "Interrupted: of 2 selected tests 1 not run, 1 passed"),
        ((GOOD,), 3, RunResult.INTERNAL, "Internal error: of 1 selected test 1 passed"),
        (
            (GOOD, NEVER),
            None,
            RunResult.KILLED,
            "Killed: the run did not end by itself: of 2 selected tests 1 not run, 1 passed",
        ),
        ((GOOD,), 1, RunResult.FAILED, "Failed: of 1 selected test 1 passed"),
        ((), 5, RunResult.EMPTY, "Nothing was selected"),
    ],
)
def test_what_became_of_a_run(
    tests: tuple[TestFacts, ...], pytests: int | None, result: RunResult, headline: str
) -> None:
    conclusion = conclude_run(RunFacts(tests, pytests))
    assert (conclusion.result, conclusion.headline) == (result, headline)
    assert conclusion.exit_status == result.exit_status


def test_a_run_that_is_not_over_is_running() -> None:
    conclusion = conclude_run(RunFacts((GOOD, NEVER), None, running=True))
    assert (conclusion.result, conclusion.exit_status) == (RunResult.RUNNING, 12)
    assert conclusion.last_line == (
        "Running: of 2 selected tests 1 not run, 1 passed. Look again once it has ended. (exit status 12)"
    )


def test_another_plugins_status_is_kept() -> None:
    assert conclude_run(RunFacts((GOOD,), 7)).exit_status == 7


def test_a_subject_has_its_own_word_unless_the_whole_test_broke() -> None:
    failed = conclude_test(FAILED)
    assert subject_badge(failed, (PASS,), 2) == "PASS"
    assert subject_badge(failed, (PASS,), 1) == "FAIL"
    assert subject_badge(failed, (), 2) == "no SLA"
    assert subject_badge(conclude_test(BROKEN), (PASS,), 2) == "BROKEN"


def test_a_smoke_run_accepts_nothing_and_says_that_it_works_here() -> None:
    conclusion = conclude_run(RunFacts((GOOD,), 0, smoke=True))
    assert (conclusion.result, conclusion.exit_status) == (RunResult.PASSED, 0)
    assert "It works here, which is no acceptance" in conclusion.last_line
    assert conclude_run(RunFacts((FAILED,), 1, smoke=True)).result is RunResult.FAILED


def test_a_long_reason_ends_with_a_whole_word() -> None:
    """Seen: "give the generator CPUs o ....", at the top of a report."""
    reason = one_line("the generator was away for a while " * 20)
    assert len(reason) <= LONGEST_REASON
    assert reason.endswith((" the ...", " generator ...", " was ...", " away ...", " for ...", " a ...", " while ..."))
