"""What became of each test, decided in one place; run_conclusion.py says the same of the run. Reports repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.model.fold import cut
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict

LONGEST_REASON = 300


class Cause(StrEnum):
    """What ended a test, as far as it was no pass. UNKNOWN: evidence that is older than this word."""

    UNKNOWN = ""
    SLA = "sla"
    ASSERTION = "assertion"  # or whatever else the test itself raised
    INCONCLUSIVE = "inconclusive"
    TESTBED = "testbed"
    SETUP = "setup"  # a fixture raised what is no testbed error
    USAGE = "usage"
    INTERNAL = "internal"  # our own code raised what it did not mean to
    XFAIL = "xfail"
    SKIP = "skip"


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


_BADGES = {Fate.PASSED: "PASS", Fate.FAILED: "FAIL", Fate.INCONCLUSIVE: "INCONCLUSIVE", Fate.BROKEN: "BROKEN"}
_BADGES |= {Fate.USAGE: "USAGE", Fate.INTERNAL: "INTERNAL"}
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
    tolerated = fate is Fate.INCONCLUSIVE and facts.status in {"passed", "skipped"}
    return TestConclusion(
        facts.node_id,
        fate,
        one_line(_reason(facts, fate)),
        judged=bool(facts.verdicts),
        measured=facts.measured,
        tolerated=tolerated,
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
        case Fate.FAILED:
            return _verdicts_reason(facts.verdicts, Judgement.FAIL) or told
        case Fate.INCONCLUSIVE:
            return _verdicts_reason(facts.verdicts, Judgement.INCONCLUSIVE) or told or facts.spoiled
    return told


def _verdicts_reason(verdicts: Sequence[Verdict], judgement: Judgement) -> str:
    such = [verdict for verdict in verdicts if verdict.judgement is judgement]
    more = f" (and {len(such) - 1} more)" if len(such) > 1 else ""
    return next((f"{verdict.requirement}: {verdict.reason}{more}" for verdict in such), "")


def _in_full(verdicts: Sequence[Verdict]) -> str:
    """``ndr of bridges 9: observed 4.00 Mpps, limit >= 5 Mpps``: the first FAIL; "" without one."""
    failed = [verdict for verdict in verdicts if verdict.judgement is Judgement.FAIL]
    if not failed:
        return ""
    first = failed[0]
    differing = {label for label in first.subject if any(label not in verdict.subject for verdict in verdicts)}
    of = " of " + ", ".join(f"{name} {value}" for name, value in sorted(differing)) if differing else ""
    limit = first.requirement.removeprefix(f"{first.metric} ")
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first.metric}{of}: observed {first.reason}, limit {limit}{more}"


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
