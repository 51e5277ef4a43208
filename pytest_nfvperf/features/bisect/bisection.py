"""A bisection as a function of what was measured: what to measure next, or the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from pytest_nfvperf.features.bisect.beliefs import (
    PLANNED_DEVIATIONS,
    Levels,
    Range,
    expected_run_information_bits,
    narrowest,
    posterior,
)
from pytest_nfvperf.features.bisect.events import (
    BisectionSubject,
    By,
    Estimate,
    Event,
    Question,
    Ran,
    Runs,
    VersionComparison,
    estimates,
    runs,
    unusable,
)

_MOST_FAILURE_RUNS = 12
"""Of one version. A version that could still be good or bad then stays undecided."""
_SELDOM, _OFTEN = 0.2, 0.8
"""Beta prior of how often a test fails on one side: most tests fail always or never."""

_LOOKS = (8, 16, 32)
"""Blocks of the ends after each of which the figures are tested (a look)."""
_FALSE_ALARM = 0.002
"""Probability, in each look, to take equal ends for different ones, over all figures together."""
_INSTRUCTION_LOOKS = 2
"""Comparisons of the ends by instructions."""
SMALLEST_INSTRUCTIONS = 0.002
"""Least change of instructions a packet: equal builds differ by less."""
_RUNS, _MOST_RUNS = 3, 6
"""Runs of each end if outcomes differ: at first, and if the difference is one run of these."""
_LEAST_BITS = 1e-3
"""Measurements that are expected to give less information are not made."""
_CONFIRMING_RUNS = 3


class Purpose(StrEnum):
    ENDS = "ends"
    SEARCH = "search"
    CONFIRM = "again"


@dataclass(frozen=True, slots=True)
class Ask:
    """What to measure next.

    Attributes:
        version, base: to measure, and to compare it with.
        blocks: of the comparison; 0 for a run of the tests on the version alone.
        virtual: count instructions.
    """

    version: int
    base: int
    blocks: int
    purpose: Purpose
    virtual: bool = False


class VerdictKind(StrEnum):
    FOUND = "found"  # one candidate
    RANGE = "range"  # several, which no further measurement would split
    SEVERAL = "several"  # a version is at neither level, so more than one change lies between the ends
    # There is nothing to bisect:
    NOT_DIFFERENT = "the ends do not differ"
    SWAPPED = "the ends are swapped"
    UNUSABLE = "an end cannot be used"
    NOTHING = "the tests give nothing to compare"


@dataclass(frozen=True, slots=True)
class BisectionVerdict:
    """The result of a bisection.

    Attributes:
        candidates: those that together reach the confidence; None if there is nothing to bisect.
        confirmed: for FOUND: the culprit differs from its parent in fresh blocks. None: undecided.
        between: versions at neither level.
        text: why there is nothing to bisect.
        figures: the estimate of each subject then.
    """

    kind: VerdictKind
    candidates: Range | None = None
    confirmed: bool | None = None
    between: tuple[int, ...] = ()
    text: str = ""
    figures: tuple[tuple[BisectionSubject, Estimate], ...] = ()

    @property
    def refused(self) -> bool:
        """True if there is nothing to bisect."""
        return self.candidates is None


# Bisection by outcomes. A test fails seldom before the change and often since; the runs teach how often.


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Runs of a test: of the ends, and of the ``measured`` versions between them."""

    good: Runs
    bad: Runs
    measured: Mapping[int, Runs]

    def log_likelihood(self, candidate: int) -> float:
        before = sum((runs for version, runs in self.measured.items() if version < candidate), self.good)
        since = sum((runs for version, runs in self.measured.items() if version >= candidate), self.bad)
        return _log_evidence(before, _SELDOM, _OFTEN) + _log_evidence(since, _OFTEN, _SELDOM)

    def expected_information_bits(self, version: int, chance: float) -> float:
        own = self.measured.get(version, Runs())
        without = (_SELDOM + self.good.failed + own.failed) / (1 + self.good.count + own.count)
        with_change = (_OFTEN + self.bad.failed + own.failed) / (1 + self.bad.count + own.count)
        return expected_run_information_bits(chance, without, with_change)

    def blocks(self, version: int) -> int:
        """1 while a version may run again, else 0."""
        return int(self.measured.get(version, Runs()).count < _MOST_FAILURE_RUNS)

    def between(self) -> tuple[int, ...]:
        """None: a test that fails now and then is not half a change."""
        return ()


def _log_evidence(runs: Runs, fails: float, passes: float) -> float:
    """Log-probability of these outcomes in this order, if the share that fails has a Beta(fails, passes) prior."""
    return (
        math.lgamma(fails + runs.failed)
        + math.lgamma(passes + runs.passed)
        - math.lgamma(fails + passes + runs.count)
        - math.lgamma(fails)
        - math.lgamma(passes)
        + math.lgamma(fails + passes)
    )


# First the ends are measured: without a difference beyond the noise there is no bisection.


def _ask_ends(version: int, blocks: int = 0, *, virtual: bool = False) -> Ask:
    return Ask(version, 0, blocks, Purpose.ENDS, virtual)


def _look_at_ends(question: Question, events: Sequence[Event]) -> BisectionSubject | BisectionVerdict | Ask:
    for version, why in unusable(events).items():
        if version in {0, question.bad}:
            return BisectionVerdict(VerdictKind.UNUSABLE, text=f"{question.versions[version]} cannot be used: {why}")
    found = None
    if question.by in {By.EITHER, By.OUTCOMES} and question.metric is None:
        found = _by_outcomes(question, events)
    if found is None and question.counts_instructions:
        found = _by_instructions(question, events)
    return found or _by_rates(question, events)


def _by_instructions(question: Question, events: Sequence[Event]) -> BisectionSubject | BisectionVerdict | Ask | None:
    """None: instructions do not differ, or cannot be counted here; rates may differ."""
    # Instructions repeat to a part in a thousand, so two comparisons of fresh builds decide.
    tried = [event for event in _of_ends(question, events) if event.virtual]
    offered = not tried or any(event.figures for event in tried)
    if len(tried) < _INSTRUCTION_LOOKS and offered:
        return _ask_ends(question.bad, 1, virtual=True)
    figures = [each for each in _figures(question, events) if each.subject.virtual]
    worst = min(figures, key=lambda each: each.better_by, default=None)
    if (
        worst is not None
        and worst.better_by <= -2 * PLANNED_DEVIATIONS
        and abs(math.expm1(worst.estimate.value)) >= SMALLEST_INSTRUCTIONS
    ):
        return worst.subject
    if question.by is not By.INSTRUCTIONS:
        return None
    if worst is not None:
        return _not_worse(replace(question, smallest=SMALLEST_INSTRUCTIONS), figures, len(tried))
    note = next((event.note for event in tried if event.note), "")
    return BisectionVerdict(VerdictKind.NOTHING, text=note or "the tests count no instructions a packet")


def _by_outcomes(question: Question, events: Sequence[Event]) -> BisectionSubject | BisectionVerdict | Ask | None:
    """None: outcomes are the same at both ends; rates may differ."""
    ends = (0, question.bad)
    ran = [sum(isinstance(event, Ran) and event.version == end for event in events) for end in ends]
    suspects = _suspects(question, events)
    # One run of each end shows whether outcomes may differ at all; a difference of one run may be chance.
    wanted = _RUNS if question.by is By.OUTCOMES or suspects else 1
    if min(ran) >= _RUNS and any(abs(more) == 1 for more in suspects.values()):
        wanted = _MOST_RUNS
    for end, count in zip(ends, ran, strict=True):
        if count < wanted:
            return _ask_ends(end)
    clear = max(2, min(ran) // 2)
    most = max(suspects, key=lambda test: suspects[test], default="")
    if most and suspects[most] >= clear:
        return BisectionSubject(most)
    turned = [test for test, more in suspects.items() if more <= -clear]
    if turned:
        good, bad = question.versions[0], question.versions[-1]
        return BisectionVerdict(
            VerdictKind.SWAPPED,
            text=f"{turned[0]} fails on {good}, which is given as good, and passes on {bad}: exchange --good and --bad",
        )
    if question.by is By.OUTCOMES:
        return BisectionVerdict(
            VerdictKind.NOT_DIFFERENT,
            text=f"no test fails on {question.versions[-1]} and passes on {question.versions[0]}",
        )
    return None


def _suspects(question: Question, events: Sequence[Event]) -> dict[str, int]:
    """Tests that ran on both ends and did not all pass or all fail: how many more runs failed at the bad end."""
    tests = {test: None for event in events if isinstance(event, Ran) for test in (*event.passed, *dict(event.failed))}
    suspects = {}
    for test in tests:
        ran = runs(events, test)
        good, bad = ran.get(0, Runs()), ran.get(question.bad, Runs())
        if good.count and bad.count and (good.failed, bad.failed) != (0, 0) and (good.passed, bad.passed) != (0, 0):
            suspects[test] = bad.failed - good.failed
    return suspects


def _by_rates(question: Question, events: Sequence[Event]) -> BisectionSubject | BisectionVerdict | Ask:
    figures = tuple(each for each in _figures(question, events) if not each.subject.virtual)
    ends = [event for event in _of_ends(question, events) if not event.virtual]
    blocks = sum(event.blocks for event in ends)
    if not blocks:
        return _ask_ends(question.bad, _LOOKS[0])
    if not figures:
        wanted = f" of {question.metric}" if question.metric else ""
        note = next((f": {event.note}" for event in ends if event.note), "")
        return BisectionVerdict(
            VerdictKind.NOTHING, text=f"the tests gave no figure{wanted} in which versions could be compared{note}"
        )
    # A difference of 2 * PLANNED_DEVIATIONS standard errors lets a version be assigned to one of the ends, and ends
    # the looks early.
    # A smaller one counts only after the last look, if it is significant over all figures.
    worst = min(figures, key=lambda each: each.better_by)
    large = abs(math.expm1(worst.estimate.value)) >= question.smallest
    if worst.better_by <= -2 * PLANNED_DEVIATIONS and large:
        return worst.subject
    more = next((look - blocks for look in _LOOKS if look > blocks), 0)
    if more > 0:
        return _ask_ends(question.bad, more)
    if worst.better_by <= -_significant(len(figures)) and large:
        return worst.subject
    return _not_worse(question, figures, blocks)


def _significant(figures: int) -> float:
    """Standard errors beyond which a difference in one of this many figures is significant."""
    return NormalDist().inv_cdf(1 - _FALSE_ALARM / 2 / figures)


def _not_worse(question: Question, figures: Sequence[_EndFigure], blocks: int) -> BisectionVerdict:
    estimated = tuple((each.subject, each.estimate) for each in figures)
    good, bad = question.versions[0], question.versions[-1]
    best = max(figures, key=lambda each: each.better_by)
    if best.better_by >= _significant(len(figures)) and abs(math.expm1(best.estimate.value)) >= question.smallest:
        text = f"{bad} is better than {good}, which is given as good: exchange --good and --bad"
        return BisectionVerdict(VerdictKind.SWAPPED, text=text, figures=estimated)
    text = (
        f"{bad} is not shown to be worse than {good} by {question.smallest:.1%} or more in {blocks} blocks: there is "
        "nothing to bisect"
    )
    return BisectionVerdict(VerdictKind.NOT_DIFFERENT, text=text, figures=estimated)


@dataclass(frozen=True, slots=True)
class _EndFigure:
    subject: BisectionSubject
    estimate: Estimate
    better_by: float
    """Standard errors by which the bad end is better; negative if it is worse."""


def _figures(question: Question, events: Sequence[Event]) -> Iterator[_EndFigure]:
    signs = {
        figure.subject: 1 if figure.more_is_better else -1
        for event in _of_ends(question, events)
        for figure in event.figures
        if question.metric in {None, figure.metric}
    }
    for subject, sign in signs.items():
        estimate = estimates(events, subject)[question.bad]
        yield _EndFigure(subject, estimate, sign * estimate.value / estimate.error)


def _of_ends(question: Question, events: Sequence[Event]) -> list[VersionComparison]:
    return [
        event
        for event in events
        if isinstance(event, VersionComparison) and not event.again and (event.base, event.version) == (0, question.bad)
    ]


# The state depends only on the question and the events, so a killed bisection continues when it is started again.


@dataclass(frozen=True, slots=True)
class BisectionState:
    """A bisection's next step, and what is known. While it measures the ends, only ``step`` is set.

    ``chances``: probability that the change came in with candidate 1, 2, ...
    """

    step: Ask | BisectionVerdict
    subject: BisectionSubject | None = None
    evidence: Levels | Outcomes | None = None
    chances: tuple[float, ...] = ()


def bisection_state(question: Question, events: Sequence[Event]) -> BisectionState:
    subject = _look_at_ends(question, events)
    if not isinstance(subject, BisectionSubject):
        return BisectionState(subject)
    evidence: Levels | Outcomes
    if subject.metric is None:
        ran = runs(events, subject.test)
        between = {version: each for version, each in ran.items() if 0 < version < question.bad}
        evidence = Outcomes(ran.get(0, Runs()), ran.get(question.bad, Runs()), between)
    else:
        measured = estimates(events, subject)
        evidence = Levels(measured.pop(question.bad), measured, question.most_blocks)
    chances = posterior([evidence.log_likelihood(candidate) for candidate in range(1, len(question.versions))])
    step = _search(question, evidence, chances, set(unusable(events)))
    if isinstance(step, BisectionVerdict) and step.kind is VerdictKind.FOUND:
        step = _confirm(question, events, subject, evidence, step)
    if isinstance(step, Ask) and subject.virtual:
        step = replace(step, blocks=1, virtual=True)
    return BisectionState(step, subject, evidence, chances)


def _search(
    question: Question, evidence: Levels | Outcomes, chances: Sequence[float], cannot: set[int]
) -> Ask | BisectionVerdict:
    """Ask for the version with the most expected information, among those that can split the likely candidates."""
    candidates = narrowest(chances, question.confidence)
    between = evidence.between()
    if isinstance(evidence, Levels) and between:
        # Few blocks may lie between the levels by chance: measure such a version again before there are two changes.
        again = next(
            (version for version in between if evidence.measured[version].blocks < question.most_blocks / 2), None
        )
        if again is None or again in cannot:
            return BisectionVerdict(VerdictKind.SEVERAL, candidates, between=between)
        return Ask(again, 0, evidence.blocks(again), Purpose.SEARCH)
    if candidates.first == candidates.last:
        return BisectionVerdict(VerdictKind.FOUND, candidates)
    bits = {
        version: evidence.expected_information_bits(version, sum(chances[:version])) * _likely_usable(version, cannot)
        for version in range(candidates.first, candidates.last)
        if version not in cannot and evidence.blocks(version)
    }
    version = max(bits, key=lambda each: bits[each], default=None)
    if version is None or bits[version] < _LEAST_BITS:
        return BisectionVerdict(VerdictKind.RANGE, candidates)
    blocks = evidence.blocks(version) if isinstance(evidence, Levels) else 0
    return Ask(version, 0, blocks, Purpose.SEARCH)


def _likely_usable(version: int, cannot: set[int]) -> float:
    """Probability that a version is usable: the neighbours of a broken version often do not build either."""
    nearest = min((abs(version - other) for other in cannot), default=None)
    return 1.0 if nearest is None else nearest / (nearest + 1)


def _confirm(
    question: Question,
    events: Sequence[Event],
    subject: BisectionSubject,
    evidence: Levels | Outcomes,
    found: BisectionVerdict,
) -> Ask | BisectionVerdict:
    """Measure the culprit against its parent in fresh blocks, until they decide."""
    culprit = found.candidates.first if found.candidates else 0
    if {culprit, culprit - 1} & set(unusable(events)):
        return found
    if isinstance(evidence, Outcomes):
        return _confirm_outcome(events, subject, culprit, found)
    fresh = estimates(events, subject, again=True).get(culprit)
    answer = None if fresh is None else evidence.is_change(fresh, question.confidence)
    left = question.most_blocks - (0 if fresh is None else fresh.blocks)
    if answer is None and left > 0:
        return Ask(culprit, culprit - 1, min(left, 2 * evidence.enough_blocks), Purpose.CONFIRM)
    return replace(found, confirmed=answer)


def _confirm_outcome(
    events: Sequence[Event], subject: BisectionSubject, culprit: int, found: BisectionVerdict
) -> Ask | BisectionVerdict:
    ran = runs(events, subject.test, again=True)
    before, since = ran.get(culprit - 1, Runs()), ran.get(culprit, Runs())
    # Once both behave as expected, a single run of each is enough.
    as_expected = before.failed == 0 and since.passed == 0 and before.count == since.count > 0
    if not as_expected and min(before.count, since.count) < _CONFIRMING_RUNS:
        version = culprit - 1 if before.count <= since.count else culprit
        return Ask(version, version, 0, Purpose.CONFIRM)
    more = since.failed - before.failed
    return replace(found, confirmed=True if more > 1 or since.count == more else None if more == 1 else False)
