"""How a bisection goes on, for a person: a line a step, the verdict, and a page with a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.report.bisection_page import PICTURE, Story, render_bisection
from pytest_nfvperf.model.bisect.bisection import Ask, BisectionState, VerdictKind, standing
from pytest_nfvperf.model.bisect.seen import Event, Question
from pytest_nfvperf.model.bisect.words import ask_text, event_text, verdict_lines


class BisectAccount:
    """Prints, and keeps what the page tells.

    Args:
        question: what is asked.
        titles: of versions, by name; of commits their subjects.
        arguments: of pytest.
    """

    def __init__(self, question: Question, titles: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._question = question
        self._titles = titles
        self._arguments = arguments
        self._after: list[BisectionState] = []

    def open(self, directory: Path, events: Sequence[Event]) -> None:
        """Say what is asked, and what an earlier process saw of it."""
        names = self._question.versions
        print(f"bisecting {len(names) - 2} versions between {names[0]} (good) and {names[-1]} (bad); log: {directory}")
        if events:
            print(f"going on with {len(events)} observations of an earlier run; remove {directory} to begin anew")
        for number, event in enumerate(events, 1):
            before = standing(self._question, events[: number - 1])
            if isinstance(before.step, Ask):
                self.begins(before.step)
            self.saw(event, standing(self._question, events[:number]))

    def begins(self, ask: Ask) -> None:
        """The first half of a line."""
        print(f"{len(self._after) + 1:3}  {ask_text(self._question, ask)}: ", end="", flush=True)

    def saw(self, event: Event, now: BisectionState) -> None:
        """The second half."""
        self._after.append(now)
        print(event_text(self._question, event, now), flush=True)

    def end(self, directory: Path, events: Sequence[Event], found: BisectionState) -> None:
        """The verdict, and where the page is."""
        for line in verdict_lines(self._question, events, found):
            print(line)
        culprit = self._titles.get(_culprit(self._question, found), "")
        if culprit:
            print(f"  {culprit}")
        story = Story(self._question, events, self._after, self._titles, self._arguments)
        page = render_bisection(story, directory)
        picture = f", {PICTURE} beside it" if found.chances else ""
        print(f"page: {page}{picture}")


def _culprit(question: Question, found: BisectionState) -> str:
    step = found.step
    if isinstance(step, Ask) or step.kind is not VerdictKind.FOUND or step.candidates is None:
        return ""
    return question.versions[step.candidates.first]
