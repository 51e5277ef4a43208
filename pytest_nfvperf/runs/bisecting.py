"""The loop of a bisection: ask what to measure, measure it, keep it, until there is a verdict."""

from __future__ import annotations

from pytest_nfvperf.model.bisect.bisection import Ask, BisectionState, standing
from pytest_nfvperf.model.bisect.seen import BisectionSubject, Event, Question, Ran, Unusable, VersionComparison
from pytest_nfvperf.ports.version_trials import Account, Seen, VersionTrials


def bisect(question: Question, trials: VersionTrials, seen: Seen, account: Account) -> BisectionState:
    """Go on until there is a verdict.

    Args:
        question: what is asked.
        trials: measures versions.
        seen: what was seen already, and where more of it is kept.
        account: told of each step.
    """
    now = standing(question, seen.events)
    while isinstance(now.step, Ask):
        account.begins(now.step)
        event = _answering(trials.measure(now.step), now.subject)
        seen.append(event)
        now = standing(question, seen.events)
        account.saw(event, now)
    return now


def _answering(event: Event, subject: BisectionSubject | None) -> Event:
    """The event; or, where it has nothing of what the bisection goes by, that its version cannot be used."""
    match event:
        case VersionComparison() if subject and subject.metric:
            if all(BisectionSubject(figure.test, figure.metric) != subject for figure in event.figures):
                why = f"its comparison has no {subject.metric} of {subject.test}"
                return Unusable(event.version, f"{why}: {event.note}" if event.note else why)
        case Ran() if subject:
            if subject.test not in {*event.passed, *dict(event.failed)}:
                return Unusable(event.version, f"{subject.test} neither passed nor failed on it")
    return event
