"""The text of a bisection: what is measured, what was observed, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_nfvperf.features.bisect.beliefs import Levels, narrowest
from pytest_nfvperf.features.bisect.bisection import (
    SMALLEST_INSTRUCTIONS,
    Ask,
    BisectionState,
    BisectionVerdict,
    VerdictKind,
)
from pytest_nfvperf.features.bisect.events import (
    BisectionSubject,
    Estimate,
    Event,
    Question,
    Ran,
    Runs,
    Unusable,
    VersionComparison,
    estimates,
    runs,
    unusable,
)
from pytest_nfvperf.model.display import how_many

_MOST_NAMED = 4


def ask_text(question: Question, ask: Ask) -> str:
    """``search  v8 against v0``."""
    name = question.versions[ask.version]
    against = f" against {question.versions[ask.base]}" if ask.blocks else ""
    against += ", instructions" if ask.virtual else ""
    return f"{ask.purpose:<7} {name}{against}"


def event_text(question: Question, event: Event, now: BisectionState) -> str:
    """A measurement and the state after it: ``0.902 (0.880 .. 0.925) in 8 blocks; came in with v8: 97.0%``."""
    if not now.chances:
        return _observation(event, now.subject)
    likeliest = narrowest(now.chances, question.confidence)
    versions = _range_text(question, likeliest.first, likeliest.last)
    return f"{_observation(event, now.subject)}; came in with {versions}: {likeliest.mass:.1%}"


def _observation(event: Event, subject: BisectionSubject | None) -> str:
    match event:
        case Unusable():
            return f"skipped: {_first_line(event.why)}"
        case Ran():
            failed = dict(event.failed)
            if not failed:
                return f"{how_many(len(event.passed), 'test')} passed"
            test = subject.test if subject and subject.test in failed else next(iter(failed))
            return f"{how_many(len(failed), 'test')} failed: {test}: {_first_line(failed[test])}"
        case VersionComparison():
            own = [each for each in event.figures if each.subject == subject] or event.figures
            one = max(own, key=lambda each: abs(each.log_ratio) / each.standard_error, default=None)
            if one is None:
                return event.note or "no figure"
            return f"{_ratio_text(Estimate(one.log_ratio, one.standard_error**2, event.blocks))} {one.metric}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _ratio_text(estimate: Estimate) -> str:
    """``0.902 (0.880 .. 0.925) in 8 blocks``: the ratio with its interval at 95 %."""
    ratio, low, high = estimate.interval()
    return f"{ratio:.4g} ({low:.4g} .. {high:.4g}) in {how_many(estimate.blocks, 'block')}"


def _range_text(question: Question, first: int, last: int) -> str:
    names = question.versions
    return names[first] if first == last else f"{names[first]} .. {names[last]}"


def verdict_lines(question: Question, events: Sequence[Event], now: BisectionState) -> Iterator[str]:
    verdict = now.step
    if not isinstance(verdict, BisectionVerdict):
        return
    if (refusal := verdict.refusal) is not None:
        yield f"Nothing to bisect: {refusal.why}. {refusal.text[0].upper()}{refusal.text[1:]}."
        for subject, estimate in refusal.figures:
            yield f"  {subject.metric} of {subject.test}: {_ratio_text(estimate)}"
        return
    assert verdict.candidates is not None
    assert now.subject is not None
    found = verdict.candidates
    named = _range_text(question, found.first, found.last)
    if verdict.kind is VerdictKind.FOUND:
        yield f"{named} brought it in (probability {found.mass:.1%})."
        yield _again(question, events, now.subject, verdict)
    elif verdict.kind is VerdictKind.RANGE:
        yield f"One of {found.last - found.first + 1} versions brought it in, {named} (probability {found.mass:.1%})."
        yield _why_range(question, events, verdict)
    else:
        name = question.versions[verdict.between[0]]
        yield f"There is more than one change: {name} lies between the ends."
        yield (
            f"Bisect on either side of it: --good {question.versions[0]} --bad {name}, and --good {name} --bad "
            f"{question.versions[-1]}."
        )
    yield _ends(question, events, now)
    yield from _same_instructions(question, events, now.subject)


def _same_instructions(question: Question, events: Sequence[Event], subject: BisectionSubject) -> Iterator[str]:
    """For a bisection by rates: how instructions differ between the ends, if they were counted."""
    if subject.metric is None or subject.virtual:
        return
    counted = [each for each in events if isinstance(each, VersionComparison) and each.virtual]
    for same in dict.fromkeys(figure.subject for each in counted for figure in each.figures):
        estimate = estimates(counted, same).get(question.bad)
        if estimate is not None:
            fewer = math.expm1(estimate.value) <= -SMALLEST_INSTRUCTIONS
            instructions = (
                f"{'Fewer' if fewer else 'Same'} instructions a packet, {_ratio_text(estimate)} ({same.test})"
            )
            yield f"{instructions}, {'and yet ' if fewer else ''}slower: caches, layout, contention."


def _again(question: Question, events: Sequence[Event], subject: BisectionSubject, verdict: BisectionVerdict) -> str:
    culprit = verdict.candidates.first if verdict.candidates else 0
    parent, name = question.versions[culprit - 1], question.versions[culprit]
    again = ""
    if subject.metric is None:
        ran = runs(events, subject.test, again=True)
        if culprit in ran:
            before, since = ran.get(culprit - 1, Runs()), ran[culprit]
            again = f"failed in {since.failed} of {since.count} runs, the parent in {before.failed} of {before.count}"
    elif (estimate := estimates(events, subject, again=True).get(culprit)) is not None:
        again = _ratio_text(estimate)
    if not again:
        return f"It could not be measured again against its parent {parent}: treat it with caution."
    against = f"Measured again against its parent {parent}: {again}."
    if verdict.confirmed:
        return f"{against} Confirmed."
    if verdict.confirmed is None:
        return f"{against} That is neither the whole change nor none: there may be another one, or too much noise."
    return (
        f"{against} That DISAGREES: {name} is not shown to be worse than its parent. Bisect again with more confidence."
    )


def _why_range(question: Question, events: Sequence[Event], verdict: BisectionVerdict) -> str:
    assert verdict.candidates is not None
    inside = range(verdict.candidates.first, verdict.candidates.last)
    cannot = [question.versions[version] for version in sorted(unusable(events)) if version in inside]
    if not cannot:
        return "Noise does not let it be narrowed: repeat on a quieter machine, or raise --most-blocks."
    more = f" and {len(cannot) - _MOST_NAMED} more" if len(cannot) > _MOST_NAMED else ""
    return f"It cannot be narrowed: {', '.join(cannot[:_MOST_NAMED])}{more} cannot be used."


def _ends(question: Question, events: Sequence[Event], now: BisectionState) -> str:
    assert now.subject is not None
    good, bad = question.versions[0], question.versions[-1]
    if isinstance(now.evidence, Levels):
        change = _ratio_text(now.evidence.change)
        return f"The ends, {bad} over {good}: {now.subject.metric} {change} ({now.subject.test})."
    ran = runs(events, now.subject.test)
    failed = [f"{name} in {ran[at].failed} of {ran[at].count}" for at, name in ((0, good), (question.bad, bad))]
    return f"{now.subject.test} failed on {' and on '.join(failed)} runs."
