"""A bisection as one HTML page and one SVG file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.bisection_chart import bisection_chart
from pytest_nfvperf.adapters.report.drawing import to_png, to_svg
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.model.bisect.bisection import Standing
from pytest_nfvperf.model.bisect.seen import Event, Question
from pytest_nfvperf.model.bisect.words import event_text, verdict_lines

PAGE, PICTURE = "bisection.html", "bisection.png"


@dataclass(frozen=True, slots=True)
class Story:
    """What a page tells.

    Attributes:
        question: what was asked.
        events: what was seen, in order.
        after: where the bisection stood after each of them; the last is the verdict.
        titles: of versions, by name; of commits their subjects.
        arguments: of pytest.
    """

    question: Question
    events: Sequence[Event]
    after: Sequence[Standing]
    titles: Mapping[str, str]
    arguments: Sequence[str]


def render_bisection(story: Story, directory: Path) -> Path:
    """Write the page and the picture; returns the page's path."""
    now = story.after[-1]
    names = story.question.versions
    chart = Markup()
    if now.chances:
        figure = bisection_chart(story.question, story.events, now)
        chart = Markup(to_svg(figure, f"bisection of {names[0]} to {names[-1]}"))  # noqa: S704 - our own drawing
        (directory / PICTURE).write_bytes(to_png(figure))
    steps = [
        (names[event.version], story.titles.get(names[event.version], ""), event_text(story.question, event, standing))
        for event, standing in zip(story.events, story.after, strict=True)
    ]
    page = environment().get_template("bisection.html")
    text = page.render(
        style=style(),
        good=names[0],
        bad=names[-1],
        between=len(names) - 2,
        lines=list(verdict_lines(story.question, story.events, now)),
        chart=chart,
        steps=steps,
        arguments=list(story.arguments),
        subject=now.subject,
    )
    write_whole(directory / PAGE, text)
    return directory / PAGE
