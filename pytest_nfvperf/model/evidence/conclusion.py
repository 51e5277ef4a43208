"""The result of each test and of the run, decided in one place; every report repeats it.

Exit statuses are pytest's if they mean the same; docs/reference/exit-status.md is made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Self

from pytest_nfvperf.model.display import cut, format_seconds, how_many
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.evidence.rig_condition import Grade
from pytest_nfvperf.model.sla.verdict import NOT_MEASURED, Judgement, Verdict, worst

LONGEST_REASON, _LONGEST_LAST = 300, 200  # the latter in the last line: what is above has all of it


class TestResult(StrEnum):
    """The result of a test. ``badge``: for tables. ``one``, ``several``: how a sentence names such tests."""

    __test__ = False  # pytest would collect it

    badge: str
    one: str
    several: str

    def __new__(cls, word: str, badge: str = "", one: str = "", several: str = "") -> Self:
        result = str.__new__(cls, word)
        result._value_ = word
        result.badge, result.one = badge or word, one or word
        result.several = several or result.one
        return result

    INTERNAL = "internal error", "INTERNAL", "internal error", "internal errors"
    USAGE = "usage", "USAGE", "usage error", "usage errors"
    BROKEN = "broken", "BROKEN", "testbed broken"
    FAILED = "failed", "FAIL"
    ERROR = "error", "ERROR", "error of the test", "errors of tests"
    INCONCLUSIVE = "inconclusive", "INCONCLUSIVE"
    UNFINISHED = "unfinished"
    NOT_RUN = "not run"
    XFAIL = "xfail", "xfail", "failed as expected"
    SKIPPED = "skipped"
    PASSED = "passed", "PASS"


NO_SLA = "no SLA"
WHEN_THE_RUN_ENDED = "it had begun when the run ended"
"""Why a test is unfinished if the run was not killed."""
GRAVITY = (
    TestResult.INTERNAL,
    TestResult.USAGE,
    TestResult.BROKEN,
    TestResult.FAILED,
    TestResult.ERROR,
    TestResult.INCONCLUSIVE,
)
"""What did not pass, the gravest first: our own faults, the user's and the testbed's come before any answer."""


@dataclass(frozen=True, slots=True)
class TestFacts:
    """What is known of a test.

    Attributes:
        began: False if it was selected and never run.
        status: pytest's word: passed, failed, error or skipped; None while it has not ended.
        cause, reason: of its end; the reason's first line counts.
        errors: messages of testbed errors.
        invalid: why its last trial was invalid; "" if it was valid, or there was none.
        measured: it has outcomes.
    """

    __test__ = False

    node_id: str
    began: bool = True
    status: str | None = None
    cause: Cause = Cause.UNKNOWN
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    errors: tuple[str, ...] = ()
    invalid: str = ""
    measured: bool = False


@dataclass(frozen=True, slots=True)
class TestConclusion:
    """What became of a test.

    Attributes:
        reason: one line; "" for a plain pass.
        judged, measured: it has verdicts, outcomes.
        tolerated: INCONCLUSIVE, and ``--nfv-inconclusive warn`` let it pass.
        full_reason: for a place of its own: metric, figure and limit of a FAIL; "" if the reason says as much.
    """

    __test__ = False

    node_id: str
    result: TestResult
    reason: str = ""
    judged: bool = False
    measured: bool = False
    tolerated: bool = False
    full_reason: str = ""

    @property
    def badge(self) -> str:
        """One word for tables: PASS, FAIL, INCONCLUSIVE, BROKEN, USAGE, INTERNAL, skipped, xfail, no SLA ..."""
        if self.result is TestResult.PASSED and self.measured and not self.judged:
            return NO_SLA
        return self.result.badge

    @property
    def unchecked(self) -> bool:
        """It passed, and measured what a rule is about, which it did not ask: the reason names the rule."""
        return self.badge == NO_SLA and bool(self.reason)

    @property
    def wrong(self) -> bool:
        return self.result in {*GRAVITY, TestResult.UNFINISHED, TestResult.NOT_RUN} and not self.tolerated


def conclude_test(facts: TestFacts) -> TestConclusion:
    """Decide the result of a test.

    A broken testbed comes first, because it says nothing about the DUT. A recorded FAIL counts, even if the test
    caught it.
    """
    result = _test_result(facts)
    return TestConclusion(
        facts.node_id,
        result,
        one_line(_reason(facts, result)),
        judged=bool(facts.verdicts),
        measured=facts.measured,
        tolerated=result is TestResult.INCONCLUSIVE and facts.status in {"passed", "skipped"},
        full_reason=one_line(_in_full(facts.verdicts)) if result is TestResult.FAILED else "",
    )


_OUTSIDE = TestConclusion("", TestResult.PASSED, measured=True)


def _test_result(facts: TestFacts) -> TestResult:
    if not facts.began or (facts.cause is Cause.NOT_RUN and not (facts.errors or facts.verdicts)):
        return TestResult.NOT_RUN
    if facts.cause in {Cause.USAGE, Cause.INTERNAL}:
        return TestResult.USAGE if facts.cause is Cause.USAGE else TestResult.INTERNAL
    if facts.errors or facts.cause in {Cause.TESTBED, Cause.SETUP} or facts.status == "error":
        return TestResult.BROKEN
    if facts.status is None:
        return TestResult.UNFINISHED
    if facts.cause is Cause.XFAIL:
        return TestResult.XFAIL
    return _judged(facts)


def _judged(facts: TestFacts) -> TestResult:
    """For a test that ended by itself on a working testbed."""
    judgements = {verdict.judgement for verdict in facts.verdicts}
    if Judgement.FAIL in judgements:
        return TestResult.FAILED
    if facts.cause is Cause.TEST:
        return TestResult.ERROR
    inconclusive = Judgement.INCONCLUSIVE in judgements or (
        facts.cause is Cause.INCONCLUSIVE and facts.status != "failed"
    )
    if facts.status == "failed":
        if facts.cause is Cause.UNKNOWN:
            return TestResult.INCONCLUSIVE if inconclusive or facts.invalid else TestResult.FAILED
        return TestResult.INCONCLUSIVE if facts.cause in {Cause.INCONCLUSIVE, Cause.SLA} else TestResult.FAILED
    if inconclusive:
        return TestResult.INCONCLUSIVE
    return TestResult.SKIPPED if facts.status == "skipped" else TestResult.PASSED


def _reason(facts: TestFacts, result: TestResult) -> str:
    match result:
        case TestResult.NOT_RUN:
            return facts.reason or "selected, and never begun"
        case TestResult.UNFINISHED:
            return facts.reason or "begun, and not ended"
        case TestResult.BROKEN:
            return next(iter(facts.errors), facts.reason)
        case TestResult.FAILED | TestResult.INCONCLUSIVE:
            judgement = Judgement.FAIL if result is TestResult.FAILED else Judgement.INCONCLUSIVE
            such = [verdict for verdict in facts.verdicts if verdict.judgement is judgement]
            if such:
                return f"{such[0].requirement}: {such[0].reason}{_and_more(such)}"
            return facts.reason or (facts.invalid if result is TestResult.INCONCLUSIVE else "")
    return facts.reason


def _and_more(verdicts: Sequence[Verdict]) -> str:
    return f" (and {len(verdicts) - 1} more)" if len(verdicts) > 1 else ""


def _in_full(verdicts: Sequence[Verdict]) -> str:
    """``ndr of bridges 9: observed 4.00 Mpps, limit >= 5 Mpps``: the first FAIL; "" without one."""
    failed = [verdict for verdict in verdicts if verdict.judgement is Judgement.FAIL]
    if not failed:
        return ""
    first = failed[0]
    differing = {label for label in first.subject if any(label not in verdict.subject for verdict in verdicts)}
    of = " of " + ", ".join(f"{name} {value}" for name, value in sorted(differing)) if differing else ""
    limit = first.requirement.partition(f"{first.metric} ")[2]
    return f"{first.metric}{of}: observed {first.reason}, limit {limit}{_and_more(failed)}"


def out_of_time(not_begun: int, limit_s: float) -> str:
    """Why a run ended before all of its tests had begun."""
    return (
        f"out of time: {how_many(not_begun, 'test')} had not begun after {format_seconds(limit_s)} (--nfv-time-limit)"
    )


def one_line(text: str) -> str:
    """The first line that is not blank, at most LONGEST_REASON characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= LONGEST_REASON else cut(line, LONGEST_REASON - 3).rstrip("… ") + " ..."


def subject_badge(test: TestConclusion, verdicts: Sequence[Verdict], subjects: int) -> str:
    """The word for one of a test's subjects: by its own verdicts if the test has several and nothing broke.

    ``subjects``: how many the test has.
    """
    broke = {TestResult.INTERNAL, TestResult.BROKEN, TestResult.USAGE, TestResult.UNFINISHED}
    if subjects == 1 or test.result in broke:
        return test.badge
    if verdicts:
        return worst(verdicts).value
    return NO_SLA if test.result is TestResult.PASSED or test.judged else test.badge


class RunResult(StrEnum):
    """The result of a run. PASSED: nothing was wrong, yet it is no acceptance (skips, or nothing was judged).

    Attributes:
        exit_status: of the command.
        head: begins the headline; PASSED and ACCEPTED have headlines made of the tests.
        advice: what to do next.
        advice_on_sides: the same for a run that compares, if it differs.
    """

    exit_status: int
    head: str
    advice: str
    advice_on_sides: str

    def __new__(
        cls, word: str, exit_status: int = 0, head: str = "", advice: str = "", advice_on_sides: str = ""
    ) -> Self:
        result = str.__new__(cls, word)
        result._value_ = word
        result.exit_status, result.head = exit_status, head
        result.advice, result.advice_on_sides = advice, advice_on_sides or advice
        return result

    RUNNING = "running", 12, "Running", "Look again once it has ended"
    KILLED = (
        "killed",
        3,
        "Killed: the run did not end by itself",
        "The evidence has what had finished; `nfvperf clean` removes what the run left on the machine",
    )
    INTERNAL = (
        "internal error",
        3,
        "Internal error",
        (
            "This is a fault of nfvperf or of a plugin and says nothing about the DUT: report it with the traceback, "
            "the run's evidence.jsonl and what `nfvperf doctor` prints"
        ),
    )
    INTERRUPTED = "interrupted", 2, "Interrupted", "The evidence has what had finished; run the rest again"
    USAGE = "usage", 4, "Usage error", "Correct what the message names and run it again"
    BROKEN = (
        "broken",
        11,
        "Testbed broken",
        "The run says nothing about the DUT: repair the testbed (see `nfvperf doctor`) and run it again",
        "A side does not run, or the testbed broke: the reasons are above",
    )
    FAILED = (
        "failed",
        1,
        "Failed",
        "The reasons are above and in the report: change the DUT, its configuration or the SLA",
        "The table says which side is slower, and by how much",
    )
    ERROR = "error", 1, "Error of a test", "It says nothing about the DUT: correct the test, and run it again"
    INCONCLUSIVE = (
        "inconclusive",
        10,
        "Inconclusive",
        (
            "Nothing failed, but this is no acceptance: the reasons say what could not be judged; measure again on a "
            "quieter machine or longer (--nfv-profile gate)"
        ),
        "The table says what could have been seen: measure longer (--nfv-profile gate), or on a quieter machine",
    )
    EMPTY = "empty", 5, "Nothing was selected", "Look at the paths, -k and --nfv-profile"
    PASSED = "passed"
    ACCEPTED = "accepted"


_RUNS = {result: RunResult(result.value) for result in GRAVITY}
"""The result of the run if this is the gravest of its tests."""

_PYTESTS = {2: RunResult.INTERRUPTED, 3: RunResult.INTERNAL, 4: RunResult.USAGE, 11: RunResult.BROKEN}
"""The result of the run by pytest's own status, whatever its tests say. 11 is ours: all workers were lost."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run.

    Attributes:
        tests: every selected test.
        exit_status: pytest's own; None if the run has not ended, or was killed.
        reason: what ended it early, else "".
        smoke: of profile smoke, which accepts nothing.
        compared: how often each word was said of a side; None if the run does not compare.
        running: somebody still writes its evidence.
        rig: how quiet the rig was, a word of ``Grade``; "" if nobody looked.
        out_of_time: its time limit was used up before every test had begun.
        unjudged: rules that selected tests must be judged by, and that judged nothing: where each is, what it selects.
    """

    tests: tuple[TestFacts, ...]
    exit_status: int | None
    reason: str = ""
    smoke: bool = False
    compared: Mapping[str, int] | None = None
    running: bool = False
    rig: str = ""
    out_of_time: bool = False
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True)  # without slots, because it caches tests by their ids
class RunConclusion:
    """What became of a run.

    Attributes:
        headline: the sentence at the top of a report: the result, and the tests by their results.
        reason: one line: what ended the run, or the gravest test's reason.
        advice: what to do next.
        tests: all selected ones, the gravest first.
        rig: as in ``RunFacts``.
    """

    result: RunResult
    exit_status: int
    headline: str
    reason: str
    advice: str
    tests: tuple[TestConclusion, ...] = ()
    rig: str = ""

    @cached_property
    def _by_id(self) -> dict[str, TestConclusion]:
        return {"": _OUTSIDE} | {test.node_id: test for test in self.tests}

    def test(self, node_id: str) -> TestConclusion:
        """KeyError if it was not selected. ``""``: for what was measured outside of any test."""
        return self._by_id[node_id]

    @property
    def is_untrusted(self) -> bool:
        """Whether it succeeded on a rig that was too disturbed to trust."""
        return self.rig == Grade.UNTRUSTED and self.exit_status == 0

    @property
    def without_reason(self) -> str:
        """The last line if pytest itself writes the reason right below it."""
        return replace(self, reason="").last_line

    @property
    def last_line(self) -> str:
        rig = f"Rig: {self.rig}" if self.rig else ""
        has_wrong_test = self.result is not RunResult.USAGE and any(test.wrong for test in self.tests)
        parts = (self.headline, rig, cut(self.reason, _LONGEST_LAST) if has_wrong_test else self.reason, self.advice)
        sentences = " ".join(text if text.endswith(("?", "…")) else f"{text}." for text in parts if text)
        return f"{sentences} (exit status {self.exit_status})"


def conclude_run(facts: RunFacts) -> RunConclusion:
    """Decide the result of the run.

    In order of gravity: running, killed, internal error, interrupted, usage, testbed broken, failed, error of a test,
    inconclusive. A run is accepted only if every selected test passed and something was judged.
    """
    order = list(TestResult)
    tests = tuple(sorted(map(conclude_test, facts.tests), key=lambda test: order.index(test.result)))
    result = _run_result(facts, tests)
    if facts.compared is not None:
        return _comparison(facts, result, tests)
    exit_status = result.exit_status
    if result.exit_status == 1 and facts.exit_status is not None and facts.exit_status > 5:
        exit_status = facts.exit_status  # another plugin's
    met = sum(verdict.judgement is Judgement.PASS for test in facts.tests for verdict in test.verdicts)
    headline, reason = _headline(result, tests, met), _run_reason(facts, result, tests)
    return RunConclusion(result, exit_status, headline, reason, _advice(facts, result, tests), tests, facts.rig)


def _comparison(facts: RunFacts, result: RunResult, tests: Sequence[TestConclusion]) -> RunConclusion:
    """For a run that compares. If it compared nothing, it says nothing about any side."""
    if result in {RunResult.ACCEPTED, RunResult.PASSED}:
        result = RunResult.PASSED if facts.compared else RunResult.INCONCLUSIVE
    counts = ", ".join(f"{count} {word}" for word, count in (facts.compared or {}).items())
    headline = f"Compared: {counts or 'nothing'}"
    if result is not RunResult.PASSED:
        headline = f"{result.head}. {headline}"
    without_result = {TestResult.SKIPPED, TestResult.NOT_RUN, TestResult.UNFINISHED}
    others = ", ".join(counted(test for test in tests if test.result in without_result))
    headline += f"; of {how_many(len(tests), 'selected test')} {others}" if others else ""
    why = _run_reason(facts, result, [replace(test, full_reason="") for test in tests])  # each verdict names its side
    return RunConclusion(result, result.exit_status, headline, why, result.advice_on_sides, tuple(tests), facts.rig)


def _run_result(facts: RunFacts, tests: Sequence[TestConclusion]) -> RunResult:
    if facts.running:
        return RunResult.RUNNING
    ended_by = RunResult.KILLED if facts.exit_status is None else _PYTESTS.get(facts.exit_status)
    if ended_by is not None:
        return ended_by
    wrong = {test.result for test in tests if test.wrong}
    if wrong:
        early = RunResult.INCONCLUSIVE if facts.out_of_time else RunResult.INTERRUPTED
        return next((_RUNS[result] for result in GRAVITY if result in wrong), early)
    if facts.exit_status not in {0, 5}:
        return RunResult.FAILED
    if not tests:
        return RunResult.EMPTY
    passed, unchecked = all(test.result is TestResult.PASSED for test in tests), any(test.unchecked for test in tests)
    accepted = passed and not unchecked and not facts.smoke and any(test.judged for test in tests)
    unjudged = facts.unjudged and (passed or unchecked)
    return RunResult.INCONCLUSIVE if unjudged else RunResult.ACCEPTED if accepted else RunResult.PASSED


def _headline(result: RunResult, tests: Sequence[TestConclusion], met: int) -> str:
    if result is RunResult.ACCEPTED:
        return f"Accepted: {_all(met, 'requirement')} met, {_all(len(tests), 'selected test')} passed"
    if result is not RunResult.PASSED:
        of_tests = f": of {how_many(len(tests), 'selected test')} {', '.join(counted(tests))}"
        return result.head + (of_tests if tests else "")
    passed = sum(test.result is TestResult.PASSED for test in tests)
    others = [test for test in tests if test.result is not TestResult.PASSED]
    if all(test.result is TestResult.SKIPPED for test in tests):
        were = "was" if len(tests) == 1 else "were"
        return f"Nothing was measured: {_all(len(tests), 'selected test')} {were} skipped"
    text = f"{passed} of {how_many(len(tests), 'selected test')} passed"
    skipped = sum(test.result is TestResult.SKIPPED for test in others)
    rest = [f"{skipped} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    rest += counted(test for test in others if test.result is not TestResult.SKIPPED)
    text = ", ".join([text, *rest])
    return text if any(test.judged for test in tests) else f"Nothing was judged, no SLA applied: {text}"


def _all(count: int, what: str) -> str:
    return f"the one {what}" if count == 1 else f"all {count} {what}s"


def counted(tests: Iterable[TestConclusion]) -> list[str]:
    """``["1 failed", "2 inconclusive", "9 passed"]``, the gravest first."""
    counts = Counter(test.result for test in tests)
    return [
        f"{counts[result]} {result.one if counts[result] == 1 else result.several}"
        for result in TestResult
        if counts[result]
    ]


def _run_reason(facts: RunFacts, result: RunResult, tests: Sequence[TestConclusion]) -> str:
    """What ended the run; else the first of the tests that decided it."""
    own = one_line(facts.reason)
    if own and result is _PYTESTS.get(facts.exit_status or 0):
        return _without_stop(own)
    decided = next((test for test in tests if _RUNS.get(test.result) is result and test.wrong), None)
    if decided is not None:
        return _without_stop(f"{decided.node_id}: {decided.full_reason or decided.reason}")
    if result is RunResult.INCONCLUSIVE and facts.unjudged:
        unchecked = (f"{test.node_id}: {test.reason}" for test in tests if test.unchecked)
        return next(unchecked, f"{facts.unjudged[0]} judged nothing: no test measured what it selects")
    if result is RunResult.FAILED:
        return f"pytest ended with status {facts.exit_status}, and no test says why: see above"
    return _without_stop(own)


def _without_stop(text: str) -> str:
    """The sentence goes on. A text that was cut off keeps its "..."."""
    return text if text.endswith("...") else text.rstrip(".")


def _advice(facts: RunFacts, result: RunResult, tests: Sequence[TestConclusion]) -> str:
    if result is not RunResult.PASSED:
        again = "Measure again on a quieter machine before you rely on it (docs/explanation/noise.md)"
        more = "Nothing failed, but this is no acceptance: give the run more time (--nfv-time-limit), or fewer tests"
        first = next((test.reason for test in tests if test.wrong), NOT_MEASURED)
        vain = "Nothing failed, but this is no acceptance: the reasons say what to correct in the test or the SLA"
        special = {
            RunResult.ACCEPTED: again if facts.rig == Grade.UNTRUSTED else "",
            RunResult.INCONCLUSIVE: more * facts.out_of_time or vain * (NOT_MEASURED in first),
        }
        return special.get(result) or result.advice
    if any(test.tolerated for test in tests):
        return "This is no acceptance: --nfv-inconclusive warn accepted what could not be judged"
    if any(test.result is TestResult.SKIPPED for test in tests):
        return "This is no acceptance of all: the reasons of the skips say what is missing"
    if facts.smoke:
        return "It works here, which is no acceptance: for that, measure longer (--nfv-profile gate)"
    if any(test.unchecked for test in tests) or not any(test.judged for test in tests):
        given = "give requirements for these tests in an sla.yaml beside the suite or by --nfv-sla FILE"
        asked = "a test measured what a rule is about, and asked for no verdict" * any(test.unchecked for test in tests)
        return f"This is no acceptance: {asked or given}"
    return "This is no acceptance: what failed as expected still needs a fix"
