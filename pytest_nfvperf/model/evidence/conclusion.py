"""What became of each test and of the run, decided in one place; every report repeats it.

The numbers of ``EXIT_STATUS`` are pytest's where they mean the same; docs/exit-status.md is made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_nfvperf.model.evidence.machine_did import Grade
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.fold import cut
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict

LONGEST_REASON = 300


class Fate(StrEnum):
    """What became of a test."""

    INTERNAL = "internal error"
    USAGE = "usage"
    BROKEN = "broken"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    UNFINISHED = "unfinished"
    NOT_RUN = "not run"
    XFAIL = "xfail"
    SKIPPED = "skipped"
    PASSED = "passed"


_BADGES = {
    Fate.PASSED: "PASS",
    Fate.FAILED: "FAIL",
    Fate.INCONCLUSIVE: "INCONCLUSIVE",
    Fate.BROKEN: "BROKEN",
    Fate.USAGE: "USAGE",
    Fate.INTERNAL: "INTERNAL",
}
NO_SLA = "no SLA"
WHEN_THE_RUN_ENDED = "it had begun when the run ended"
"""Why a test is unfinished in a run that was not killed."""
GRAVITY = (Fate.INTERNAL, Fate.USAGE, Fate.BROKEN, Fate.FAILED, Fate.INCONCLUSIVE)
"""What did not pass, the gravest first: a fault of our own, of the question or of the testbed is before any answer."""


@dataclass(frozen=True, slots=True)
class TestFacts:
    """What is known of a test.

    Attributes:
        node_id: pytest's.
        began: False for one that was selected and never run.
        status: pytest's word: passed, failed, error or skipped; None while it has not ended.
        cause, reason: of what ended it; the reason's first line counts.
        verdicts: on its SLA.
        errors: messages of testbed errors.
        spoiled: why its last trial was invalid; "" where that was valid, or there was none.
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
    spoiled: str = ""
    measured: bool = False


@dataclass(frozen=True, slots=True)
class TestConclusion:
    """What became of a test.

    Attributes:
        reason: one line; "" for a plain pass.
        told: the same in full, for where it stands alone: of a FAIL metric, figure and limit; "" for the reason.
        judged: it has verdicts. measured: it has outcomes.
        tolerated: INCONCLUSIVE, and ``--nfv-inconclusive warn`` let it pass.
    """

    __test__ = False

    node_id: str
    fate: Fate
    reason: str = ""
    judged: bool = False
    measured: bool = False
    tolerated: bool = False
    told: str = ""

    @property
    def badge(self) -> str:
        """One word for tables: PASS, FAIL, INCONCLUSIVE, BROKEN, USAGE, INTERNAL, skipped, xfail, no SLA ..."""
        if self.fate is Fate.PASSED and self.measured and not self.judged:
            return NO_SLA
        return _BADGES.get(self.fate, str(self.fate))

    @property
    def wrong(self) -> bool:
        """True for what keeps a run from passing."""
        return self.fate in {*GRAVITY, Fate.UNFINISHED, Fate.NOT_RUN} and not self.tolerated


def conclude_test(facts: TestFacts) -> TestConclusion:
    """What became of one test.

    A testbed that broke comes before all else, because it says nothing about the DUT; a recorded FAIL counts, even
    where the test caught it.
    """
    fate = _fate(facts)
    return TestConclusion(
        facts.node_id,
        fate,
        one_line(_reason(facts, fate)),
        judged=bool(facts.verdicts),
        measured=facts.measured,
        tolerated=fate is Fate.INCONCLUSIVE and facts.status in {"passed", "skipped"},
        told=one_line(_in_full(facts.verdicts)) if fate is Fate.FAILED else "",
    )


OUTSIDE = TestConclusion("", Fate.PASSED, measured=True)
"""For what was measured outside of any test."""


def _fate(facts: TestFacts) -> Fate:
    if not facts.began:
        return Fate.NOT_RUN
    if facts.cause in {Cause.USAGE, Cause.INTERNAL}:
        return Fate.USAGE if facts.cause is Cause.USAGE else Fate.INTERNAL
    if facts.errors or facts.cause in {Cause.TESTBED, Cause.SETUP} or facts.status == "error":
        return Fate.BROKEN
    if facts.status is None:
        return Fate.UNFINISHED
    if facts.cause is Cause.XFAIL:
        return Fate.XFAIL
    return _judged(facts)


def _judged(facts: TestFacts) -> Fate:
    """Of a test that ended by itself on a testbed that held."""
    judgements = {verdict.judgement for verdict in facts.verdicts}
    if Judgement.FAIL in judgements:
        return Fate.FAILED
    doubtful = Judgement.INCONCLUSIVE in judgements or (facts.cause is Cause.INCONCLUSIVE and facts.status != "failed")
    if facts.status == "failed":
        if facts.cause is Cause.UNKNOWN:
            return Fate.INCONCLUSIVE if doubtful or facts.spoiled else Fate.FAILED
        return Fate.INCONCLUSIVE if facts.cause in {Cause.INCONCLUSIVE, Cause.SLA} else Fate.FAILED
    if doubtful:
        return Fate.INCONCLUSIVE
    return Fate.SKIPPED if facts.status == "skipped" else Fate.PASSED


def _reason(facts: TestFacts, fate: Fate) -> str:
    told = facts.reason
    match fate:
        case Fate.NOT_RUN:
            return told or "selected, and never begun"
        case Fate.UNFINISHED:
            return told or "begun, and not ended"
        case Fate.BROKEN:
            return next(iter(facts.errors), told)
        case Fate.FAILED | Fate.INCONCLUSIVE:
            judgement = Judgement.FAIL if fate is Fate.FAILED else Judgement.INCONCLUSIVE
            such = [verdict for verdict in facts.verdicts if verdict.judgement is judgement]
            if such:
                return f"{such[0].requirement}: {such[0].reason}{_and_more(such)}"
            return told or (facts.spoiled if fate is Fate.INCONCLUSIVE else "")
    return told


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
    limit = first.requirement.removeprefix(f"{first.metric} ")
    return f"{first.metric}{of}: observed {first.reason}, limit {limit}{_and_more(failed)}"


def one_line(text: str) -> str:
    """The first line that says something, at most LONGEST_REASON characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= LONGEST_REASON else cut(line, LONGEST_REASON - 3).rstrip("… ") + " ..."


def subject_badge(test: TestConclusion, judgement: Judgement | None, subjects: int) -> str:
    """The word for one of a test's subjects: its own verdict where the test has several and nothing broke.

    Args:
        test: what became of the test.
        judgement: the worst verdict on this subject; None without any.
        subjects: how many the test has.
    """
    if subjects == 1 or test.fate in {Fate.INTERNAL, Fate.BROKEN, Fate.USAGE, Fate.UNFINISHED}:
        return test.badge
    if judgement is not None:
        return judgement.value
    return NO_SLA if test.fate is Fate.PASSED or test.judged else test.badge


class RunFate(StrEnum):
    """What became of a run. PASSED: nothing was wrong, yet it is no acceptance (skips, or nothing was judged)."""

    RUNNING = "running"
    KILLED = "killed"
    INTERNAL = "internal error"
    INTERRUPTED = "interrupted"
    USAGE = "usage"
    BROKEN = "broken"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    EMPTY = "empty"
    PASSED = "passed"
    ACCEPTED = "accepted"


EXIT_STATUS = {
    RunFate.ACCEPTED: 0,
    RunFate.PASSED: 0,
    RunFate.FAILED: 1,
    RunFate.INTERRUPTED: 2,
    RunFate.INTERNAL: 3,
    RunFate.KILLED: 3,
    RunFate.USAGE: 4,
    RunFate.EMPTY: 5,
    RunFate.INCONCLUSIVE: 10,
    RunFate.BROKEN: 11,
    RunFate.RUNNING: 12,
}

_WORDS = {Fate.BROKEN: "testbed broken", Fate.USAGE: "usage error", Fate.XFAIL: "failed as expected"}
_PLURALS = {Fate.USAGE: "usage errors", Fate.INTERNAL: "internal errors"}

_RUNS = {fate: RunFate(fate.value) for fate in GRAVITY}
"""What a test that did not pass makes of the run."""

_PYTESTS = {2: RunFate.INTERRUPTED, 3: RunFate.INTERNAL, 4: RunFate.USAGE, 11: RunFate.BROKEN}
"""What pytest's own status says of a run, whatever its tests say. 11 is ours: no worker was left to run the rest."""

_HEADS = {
    RunFate.RUNNING: "Running",
    RunFate.KILLED: "Killed: the run did not end by itself",
    RunFate.INTERNAL: "Internal error",
    RunFate.INTERRUPTED: "Interrupted",
    RunFate.USAGE: "Usage error",
    RunFate.BROKEN: "Testbed broken",
    RunFate.FAILED: "Failed",
    RunFate.INCONCLUSIVE: "Inconclusive",
    RunFate.EMPTY: "Nothing was selected",
}

_ADVICE = {
    RunFate.RUNNING: "Look again once it has ended",
    RunFate.KILLED: "The evidence has what had finished; `nfvperf clean` removes what the run left on the machine",
    RunFate.INTERNAL: "This is a fault of nfvperf or of a plugin and says nothing about the DUT: report it with the "
    "traceback, the run's evidence.jsonl and what `nfvperf doctor` prints",
    RunFate.INTERRUPTED: "The evidence has what had finished; run the rest again",
    RunFate.USAGE: "Correct what the message names and run it again",
    RunFate.BROKEN: "The run says nothing about the DUT: repair the testbed (see `nfvperf doctor`) and run it again",
    RunFate.FAILED: "The reasons are above and in the report: change the DUT, its configuration or the SLA",
    RunFate.INCONCLUSIVE: "Nothing failed, but this is no acceptance: the reasons say what could not be judged; "
    "measure again on a quieter machine or longer (--nfv-profile gate)",
    RunFate.EMPTY: "Look at the paths, -k and --nfv-profile",
}

_COMPARED = {
    RunFate.FAILED: "The table says which side is slower, and by how much",
    RunFate.INCONCLUSIVE: "The table says what could have been seen: measure longer (--nfv-profile gate), or on a "
    "quieter machine",
    RunFate.BROKEN: "A side does not run, or the testbed broke: the reasons are above",
}
"""Advice of a run that compares, where it is another."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run.

    Attributes:
        tests: every selected test.
        exit_status: pytest's own; None for a run that has not ended, or did not end by itself.
        reason: what ended it before its time, "" for nothing.
        smoke: of profile smoke, which accepts nothing.
        compared: of a run that compares: how often each word was said of a side; None of one that does not.
        running: somebody still writes its evidence.
        rig: how quiet the rig was, as ``machine_did.Grade`` says it; "" where nobody looked.
    """

    tests: tuple[TestFacts, ...]
    exit_status: int | None
    reason: str = ""
    smoke: bool = False
    compared: Mapping[str, int] | None = None
    running: bool = False
    rig: str = ""


@dataclass(frozen=True, slots=True)
class RunConclusion:
    """What became of a run.

    Attributes:
        headline: the sentence at the top of a report: what it was, and the tests by what became of them.
        reason: why, in a line: what ended the run, or the gravest test's reason.
        advice: what to do next.
        tests: all selected, the gravest first.
        rig: as of ``RunFacts``: said beside the headline.
    """

    fate: RunFate
    exit_status: int
    headline: str
    reason: str
    advice: str
    tests: tuple[TestConclusion, ...] = ()
    rig: str = ""
    _by_id: dict[str, TestConclusion] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {test.node_id: test for test in self.tests})

    def test(self, node_id: str) -> TestConclusion:
        """What became of this test; KeyError for one that was not selected."""
        return self._by_id[node_id]

    @property
    def without_reason(self) -> str:
        """The last line where pytest itself writes the reason right below it."""
        return replace(self, reason="").last_line

    @property
    def last_line(self) -> str:
        """The last line of a run: which it was, and what to do."""
        rig = f" Rig: {self.rig}." if self.rig else ""
        why = f" {self.reason}." if self.reason else ""
        todo = f" {self.advice}." if self.advice else ""
        return f"{self.headline}.{rig}{why}{todo} (exit status {self.exit_status})"


def conclude_run(facts: RunFacts) -> RunConclusion:
    """What became of the run.

    A run that is not over has no other conclusion yet. In order of gravity: killed, internal error, interrupted, usage,
    testbed broken, failed, inconclusive. Accepted is only what passed in every selected test, and in which something
    was judged.
    """
    order = list(Fate)
    tests = tuple(sorted(map(conclude_test, facts.tests), key=lambda test: order.index(test.fate)))
    fate = _run_fate(facts, tests)
    if facts.compared is not None:
        return _comparison(facts, fate, tests)
    exit_status = EXIT_STATUS[fate]
    if fate is RunFate.FAILED and facts.exit_status is not None and facts.exit_status > 5:
        exit_status = facts.exit_status  # another plugin's own
    met = sum(verdict.judgement is Judgement.PASS for test in facts.tests for verdict in test.verdicts)
    return RunConclusion(
        fate,
        exit_status,
        _headline(fate, tests, met),
        _run_reason(facts, fate, tests),
        _advice(facts, fate, tests),
        tests,
        facts.rig,
    )


def _comparison(facts: RunFacts, fate: RunFate, tests: Sequence[TestConclusion]) -> RunConclusion:
    """What became of a run that compares: one that compared nothing says nothing of any side."""
    if fate in {RunFate.ACCEPTED, RunFate.PASSED}:
        fate = RunFate.PASSED if facts.compared else RunFate.INCONCLUSIVE
    said = ", ".join(f"{count} {word}" for word, count in (facts.compared or {}).items())
    headline = f"Compared: {said or 'nothing'}"
    if fate is not RunFate.PASSED:
        headline = f"{_HEADS[fate]}. {headline}"
    others = ", ".join(counted(test for test in tests if test.fate in {Fate.SKIPPED, Fate.NOT_RUN, Fate.UNFINISHED}))
    headline += f"; of {_tests(len(tests))} {others}" if others else ""
    advice = _COMPARED.get(fate, _ADVICE.get(fate, ""))
    why = _run_reason(facts, fate, [replace(test, told="") for test in tests])  # each verdict names its side
    return RunConclusion(fate, EXIT_STATUS[fate], headline, why, advice, tuple(tests), facts.rig)


def _run_fate(facts: RunFacts, tests: Sequence[TestConclusion]) -> RunFate:
    if facts.running:
        return RunFate.RUNNING
    ended_by = RunFate.KILLED if facts.exit_status is None else _PYTESTS.get(facts.exit_status)
    if ended_by is not None:
        return ended_by
    wrong = {test.fate for test in tests if test.wrong}
    if wrong:
        return next((_RUNS[fate] for fate in GRAVITY if fate in wrong), RunFate.INTERRUPTED)
    if facts.exit_status not in {0, 5}:
        return RunFate.FAILED
    if not tests:
        return RunFate.EMPTY
    accepted = all(test.fate is Fate.PASSED for test in tests) and any(test.judged for test in tests)
    return RunFate.ACCEPTED if accepted and not facts.smoke else RunFate.PASSED


def _headline(fate: RunFate, tests: Sequence[TestConclusion], met: int) -> str:
    if fate is RunFate.ACCEPTED:
        return f"Accepted: {_all(met, 'requirement')} met, {_all(len(tests), 'selected test')} passed"
    if fate is not RunFate.PASSED:
        return f"{_HEADS[fate]}: of {_tests(len(tests))} {', '.join(counted(tests))}" if tests else _HEADS[fate]
    passed = sum(test.fate is Fate.PASSED for test in tests)
    others = [test for test in tests if test.fate is not Fate.PASSED]
    if all(test.fate is Fate.SKIPPED for test in tests):
        were = "was" if len(tests) == 1 else "were"
        return f"Nothing was measured: {_all(len(tests), 'selected test')} {were} skipped"
    text = f"{passed} of {_tests(len(tests))} passed"
    skipped = sum(test.fate is Fate.SKIPPED for test in others)
    rest = [f"{skipped} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    rest += counted(test for test in others if test.fate is not Fate.SKIPPED)
    text = ", ".join([text, *rest])
    return text if any(test.judged for test in tests) else f"Nothing was judged, no SLA applied: {text}"


def _tests(count: int) -> str:
    return f"{count} selected test{'' if count == 1 else 's'}"


def _all(count: int, what: str) -> str:
    return f"the one {what}" if count == 1 else f"all {count} {what}s"


def counted(tests: Iterable[TestConclusion]) -> list[str]:
    """``["1 failed", "2 inconclusive", "9 passed"]``: the gravest first."""
    counts = Counter(test.fate for test in tests)
    words = {fate: _WORDS.get(fate, str(fate)) for fate in Fate}
    words |= {fate: plural for fate, plural in _PLURALS.items() if counts[fate] > 1}
    return [f"{counts[fate]} {words[fate]}" for fate in Fate if counts[fate]]


def _run_reason(facts: RunFacts, fate: RunFate, tests: Sequence[TestConclusion]) -> str:
    """What ended the run; else the first test of those that decided it."""
    own = one_line(facts.reason)
    if own and fate is _PYTESTS.get(facts.exit_status or 0):
        return _without_stop(own)
    decided = next((test for test in tests if _RUNS.get(test.fate) is fate and test.wrong), None)
    if decided is not None:
        return _without_stop(f"{decided.node_id}: {decided.told or decided.reason}")
    if fate is RunFate.FAILED:
        return f"pytest ended with status {facts.exit_status}, and no test says why: see above"
    return _without_stop(own)


def _without_stop(text: str) -> str:
    """The sentence goes on, or its end was cut off and says so."""
    return text if text.endswith("...") else text.rstrip(".")


def _advice(facts: RunFacts, fate: RunFate, tests: Sequence[TestConclusion]) -> str:
    if fate is RunFate.ACCEPTED and facts.rig == Grade.UNTRUSTED:
        return "Measure again on a quieter machine before you rely on it (docs/noise.md)"
    if fate is not RunFate.PASSED:
        return _ADVICE.get(fate, "")
    no_acceptance = "This is no acceptance"
    reservations = (  # the first that holds
        (
            any(test.tolerated for test in tests),
            f"{no_acceptance}: --nfv-inconclusive warn accepted what could not be judged",
        ),
        (
            any(test.fate is Fate.SKIPPED for test in tests),
            f"{no_acceptance} of all: the reasons of the skips say what is missing",
        ),
        (facts.smoke, "It works here, which is no acceptance: for that, measure longer (--nfv-profile gate)"),
        (
            not any(test.judged for test in tests),
            f"{no_acceptance}: give requirements in an sla.yaml beside the suite or by --nfv-sla FILE",
        ),
    )
    return next(
        (text for holds, text in reservations if holds), f"{no_acceptance}: what failed as expected still needs a fix"
    )
