"""What to measure next, or the verdict: a function of the question and of all that was seen so far.

So a bisection that was killed goes on by being asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.bisect.chances import Range, narrowest, posterior
from pytest_nfvperf.model.bisect.ends import MoreOfEnds, Refusal, look_at_ends
from pytest_nfvperf.model.bisect.levels import Levels
from pytest_nfvperf.model.bisect.outcomes import Outcomes
from pytest_nfvperf.model.bisect.seen import (
    BisectionSubject,
    Event,
    Question,
    Runs,
    estimates,
    runs,
    unusable,
)

_LEAST_TOLD = 1e-3
"""Bits. A measurement that is expected to tell less is not made."""
_CONFIRMING_RUNS = 3


class Purpose(StrEnum):
    """What a measurement is for."""

    ENDS = "ends"
    SEARCH = "search"
    CONFIRM = "again"


@dataclass(frozen=True, slots=True)
class Ask:
    """Measure this next.

    Attributes:
        version: which.
        base: what it is compared with.
        blocks: of the comparison; 0 for a run of the tests on the version alone.
        virtual: count instructions.
    """

    version: int
    base: int
    blocks: int
    purpose: Purpose
    virtual: bool = False


class VerdictKind(StrEnum):
    """What a bisection comes to."""

    FOUND = "found"
    RANGE = "range"
    SEVERAL = "several"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BisectionVerdict:
    """The end.

    Attributes:
        kind: FOUND: one candidate. RANGE: several, which nothing that can be measured would split. SEVERAL: a version
            is at neither level, so more than one change lies between the ends. REFUSED: there is nothing to bisect.
        candidates: that together reach the confidence; None where refused.
        confirmed: of FOUND: does the culprit differ from its parent in fresh blocks? None: these do not tell.
        between: versions at neither level.
        refusal: why there is nothing to bisect.
    """

    kind: VerdictKind
    candidates: Range | None = None
    confirmed: bool | None = None
    between: tuple[int, ...] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class BisectionState:
    """Where a bisection stands.

    Attributes:
        step: an Ask, or the Verdict.
        subject: what it goes by; None while the ends are measured.
        evidence: what is known; None likewise.
        chances: of candidates 1, 2, ...: the change came in with that version. Empty while the ends are measured.
    """

    step: Ask | BisectionVerdict
    subject: BisectionSubject | None = None
    evidence: Levels | Outcomes | None = None
    chances: tuple[float, ...] = ()


def standing(question: Question, events: Sequence[Event]) -> BisectionState:
    """What to do next, after these events."""
    subject = look_at_ends(question, events)
    if isinstance(subject, Refusal):
        return BisectionState(BisectionVerdict(VerdictKind.REFUSED, refusal=subject))
    if isinstance(subject, MoreOfEnds):
        return BisectionState(Ask(subject.version, 0, subject.blocks, Purpose.ENDS, subject.virtual))
    evidence = _evidence(question, events, subject)
    chances = posterior([evidence.log_likelihood(candidate) for candidate in range(1, len(question.versions))])
    step = _search(question, evidence, chances, set(unusable(events)))
    if isinstance(step, BisectionVerdict) and step.kind is VerdictKind.FOUND:
        step = _confirm(question, events, subject, evidence, step)
    if isinstance(step, Ask) and subject.virtual:
        step = replace(step, blocks=1, virtual=True)
    return BisectionState(step, subject, evidence, chances)


def _evidence(question: Question, events: Sequence[Event], subject: BisectionSubject) -> Levels | Outcomes:
    if subject.metric is None:
        ran = runs(events, subject.test)
        between = {version: each for version, each in ran.items() if 0 < version < question.bad}
        return Outcomes(ran.get(0, Runs()), ran.get(question.bad, Runs()), between)
    seen = estimates(events, subject)
    change = seen.pop(question.bad)
    return Levels(change, seen, question.most_blocks)


def _search(
    question: Question, evidence: Levels | Outcomes, chances: Sequence[float], cannot: set[int]
) -> Ask | BisectionVerdict:
    """The version that is expected to tell most, among those that can still split the likely candidates."""
    candidates = narrowest(chances, question.confidence)
    between = evidence.between()
    if isinstance(evidence, Levels) and between:
        again = next((version for version in between if evidence.seen[version].blocks < question.most_blocks / 2), None)
        if again is None or again in cannot:
            return BisectionVerdict(VerdictKind.SEVERAL, candidates, between=between)
        return Ask(again, 0, evidence.blocks(again), Purpose.SEARCH)
    if candidates.first == candidates.last:
        return BisectionVerdict(VerdictKind.FOUND, candidates)
    told = {
        version: evidence.tells(version, sum(chances[:version])) * _likely_usable(version, cannot)
        for version in range(candidates.first, candidates.last)
        if version not in cannot and evidence.blocks(version)
    }
    version = max(told, key=lambda each: told[each], default=None)
    if version is None or told[version] < _LEAST_TOLD:
        return BisectionVerdict(VerdictKind.RANGE, candidates)
    blocks = evidence.blocks(version) if isinstance(evidence, Levels) else 0
    return Ask(version, 0, blocks, Purpose.SEARCH)


def _likely_usable(version: int, cannot: set[int]) -> float:
    """The neighbours of a version that does not build often do not build either."""
    nearest = min((abs(version - other) for other in cannot), default=None)
    return 1.0 if nearest is None else nearest / (nearest + 1)


def _confirm(
    question: Question,
    events: Sequence[Event],
    subject: BisectionSubject,
    evidence: Levels | Outcomes,
    found: BisectionVerdict,
) -> Ask | BisectionVerdict:
    """Measure the culprit against its parent in fresh blocks, until that says yes or no."""
    culprit = found.candidates.first if found.candidates else 0
    if {culprit, culprit - 1} & set(unusable(events)):
        return found
    if isinstance(evidence, Outcomes):
        return _confirm_outcome(events, subject, culprit, found)
    seen = estimates(events, subject, again=True).get(culprit)
    answer = None if seen is None else evidence.is_change(seen, question.confidence)
    left = question.most_blocks - (0 if seen is None else seen.blocks)
    if answer is None and left > 0:
        return Ask(culprit, culprit - 1, min(left, 2 * evidence.enough_blocks), Purpose.CONFIRM)
    return replace(found, confirmed=answer)


def _confirm_outcome(
    events: Sequence[Event], subject: BisectionSubject, culprit: int, found: BisectionVerdict
) -> Ask | BisectionVerdict:
    ran = runs(events, subject.test, again=True)
    before, since = ran.get(culprit - 1, Runs()), ran.get(culprit, Runs())
    if _is_open(before, since):
        version = culprit - 1 if before.count <= since.count else culprit
        return Ask(version, version, 0, Purpose.CONFIRM)
    more = since.failed - before.failed
    return replace(found, confirmed=True if more > 1 or since.count == more else None if more == 1 else False)


def _is_open(before: Runs, since: Runs) -> bool:
    """Not as expected, and fewer than three runs of each."""
    as_expected = before.failed == 0 and since.passed == 0 and before.count == since.count > 0
    return not as_expected and min(before.count, since.count) < _CONFIRMING_RUNS
