"""The ends come first: in what do they differ? Without a difference that is beyond the noise there is no bisection."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from pytest_nfvperf.model.bisect.levels import APART
from pytest_nfvperf.model.bisect.seen import (
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

LOOKS = (8, 16, 32)
"""Blocks of the ends after which it is decided whether to go on."""
_FALSE_ALARM = 0.002
"""Probability of each look to take equal ends for different ones, over all figures together."""
INSTRUCTION_LOOKS = 2
"""Comparisons of the ends by instructions."""
SMALLEST_INSTRUCTIONS = 0.002
"""Least change of instructions a packet: equal builds differ by less."""
RUNS, MOST_RUNS = 3, 6
"""Of each end, where they differ in outcomes: at first, and where the difference is one run in these."""


class Why(StrEnum):
    """Why there is nothing to bisect."""

    NOT_DIFFERENT = "the ends do not differ"
    SWAPPED = "the ends are swapped"
    UNUSABLE = "an end cannot be used"
    NOTHING = "the tests give nothing to compare"


@dataclass(frozen=True, slots=True)
class Refusal:
    """No bisection. ``figures``: what was seen of each subject, as (subject, estimate)."""

    why: Why
    text: str
    figures: tuple[tuple[BisectionSubject, Estimate], ...] = ()


@dataclass(frozen=True, slots=True)
class MoreOfEnds:
    """Not decided yet: so many blocks of a comparison, or (0 blocks) one more run of an end.

    ``virtual``: count instructions.
    """

    version: int
    blocks: int = 0
    virtual: bool = False


def look_at_ends(question: Question, events: Sequence[Event]) -> BisectionSubject | Refusal | MoreOfEnds:
    """What to bisect by, or why not, or what to measure first.

    A subject without a metric goes by outcomes.
    """
    for version, why in unusable(events).items():
        if version in {0, question.bad}:
            return Refusal(Why.UNUSABLE, f"{question.versions[version]} cannot be used: {why}")
    if question.by in {By.EITHER, By.OUTCOMES} and question.metric is None:
        found = _by_outcomes(question, events)
        if found is not None:
            return found
    counted = _by_instructions(question, events) if question.counts else None
    return counted or _by_rates(question, events)


def _by_instructions(question: Question, events: Sequence[Event]) -> BisectionSubject | Refusal | MoreOfEnds | None:
    """None: instructions do not differ, or cannot be counted here, and rates may differ.

    Instructions repeat to a part in a thousand, so two comparisons of fresh builds decide.
    """
    tried = [event for event in _of_ends(question, events) if event.virtual]
    offered = not tried or any(event.figures for event in tried)
    if len(tried) < INSTRUCTION_LOOKS and offered:
        return MoreOfEnds(question.bad, 1, virtual=True)
    figures = [each for each in _figures(question, events) if each.subject.virtual]
    worst = min(figures, key=lambda each: each.worse, default=None)
    if worst is not None and worst.worse <= -2 * APART and _least(worst.estimate.value) >= SMALLEST_INSTRUCTIONS:
        return worst.subject
    if question.by is not By.INSTRUCTIONS:
        return None
    if worst is not None:
        return _not_worse(replace(question, smallest=SMALLEST_INSTRUCTIONS), figures, len(tried))
    note = next((event.note for event in tried if event.note), "")
    return Refusal(Why.NOTHING, note or "the tests count no instructions a packet")


def _least(log_ratio: float) -> float:
    """By which part two figures differ."""
    return abs(math.expm1(log_ratio))


def _by_outcomes(question: Question, events: Sequence[Event]) -> BisectionSubject | Refusal | MoreOfEnds | None:
    """None: outcomes are the same at both ends, and rates may differ."""
    ends = (0, question.bad)
    ran = [sum(isinstance(event, Ran) and event.version == end for event in events) for end in ends]
    suspects = _suspects(question, events)
    wanted = RUNS if question.by is By.OUTCOMES or suspects else 1
    if min(ran) >= RUNS and any(abs(more) == 1 for more in suspects.values()):
        wanted = MOST_RUNS
    for end, count in zip(ends, ran, strict=True):
        if count < wanted:
            return MoreOfEnds(end)
    clear = max(2, min(ran) // 2)
    most = max(suspects, key=lambda test: suspects[test], default="")
    if most and suspects[most] >= clear:
        return BisectionSubject(most)
    turned = [test for test, more in suspects.items() if more <= -clear]
    if turned:
        good, bad = question.versions[0], question.versions[-1]
        return Refusal(
            Why.SWAPPED,
            f"{turned[0]} fails on {good}, which is given as good, and passes on {bad}: exchange --good and --bad",
        )
    if question.by is By.OUTCOMES:
        return Refusal(
            Why.NOT_DIFFERENT, f"no test fails on {question.versions[-1]} and passes on {question.versions[0]}"
        )
    return None


def _suspects(question: Question, events: Sequence[Event]) -> dict[str, int]:
    """Tests with an outcome at both ends that is not the same: how many more runs failed at the bad end."""
    tests = {test: None for event in events if isinstance(event, Ran) for test in (*event.passed, *dict(event.failed))}
    found = {}
    for test in tests:
        seen = runs(events, test)
        good, bad = seen.get(0, Runs()), seen.get(question.bad, Runs())
        if good.count and bad.count and (good.failed, bad.failed) != (0, 0) and (good.passed, bad.passed) != (0, 0):
            found[test] = bad.failed - good.failed
    return found


def _by_rates(question: Question, events: Sequence[Event]) -> BisectionSubject | Refusal | MoreOfEnds:
    figures = tuple(each for each in _figures(question, events) if not each.subject.virtual)
    ends = [event for event in _of_ends(question, events) if not event.virtual]
    blocks = sum(event.blocks for event in ends)
    if not blocks:
        return MoreOfEnds(question.bad, LOOKS[0])
    if not figures:
        wanted = f" of {question.metric}" if question.metric else ""
        note = next((f": {event.note}" for event in ends if event.note), "")
        return Refusal(Why.NOTHING, f"the tests gave no figure{wanted} in which versions could be compared{note}")
    worst = min(figures, key=lambda each: each.worse)
    large = abs(math.expm1(worst.estimate.value)) >= question.smallest
    if worst.worse <= -2 * APART and large:
        return worst.subject
    more = next((look - blocks for look in LOOKS if look > blocks), 0)
    if more > 0:
        return MoreOfEnds(question.bad, more)
    return worst.subject if worst.worse <= -_sure(len(figures)) and large else _not_worse(question, figures, blocks)


def _sure(figures: int) -> float:
    """Standard errors beyond which one of so many figures is no chance."""
    return NormalDist().inv_cdf(1 - _FALSE_ALARM / 2 / figures)


def _not_worse(question: Question, figures: Sequence[_EndFigure], blocks: int) -> Refusal:
    seen = tuple((each.subject, each.estimate) for each in figures)
    good, bad = question.versions[0], question.versions[-1]
    best = max(figures, key=lambda each: each.worse)
    if best.worse >= _sure(len(figures)) and abs(math.expm1(best.estimate.value)) >= question.smallest:
        text = f"{bad} is better than {good}, which is given as good: exchange --good and --bad"
        return Refusal(Why.SWAPPED, text, seen)
    text = (
        f"{bad} is not shown to be worse than {good} by {question.smallest:.1%} or more in {blocks} blocks: there is "
        "nothing to bisect"
    )
    return Refusal(Why.NOT_DIFFERENT, text, seen)


@dataclass(frozen=True, slots=True)
class _EndFigure:
    """``worse``: standard errors by which the bad end is better; negative where it is worse."""

    subject: BisectionSubject
    estimate: Estimate
    worse: float


def _figures(question: Question, events: Sequence[Event]) -> Iterator[_EndFigure]:
    signs = {
        BisectionSubject(figure.test, figure.metric): 1 if figure.more_is_better else -1
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
