"""A bisection as one HTML page and one picture: the versions with what was measured of each, and the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.chart import BLUE, GET_CHARTS, MUTED, ORANGE, VERMILION, can_draw
from pytest_nfvperf.adapters.report.picture import dress, finish, new_figure, to_png, to_svg
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.features.bisect.account import event_text, verdict_lines
from pytest_nfvperf.features.bisect.beliefs import Levels
from pytest_nfvperf.features.bisect.bisection import BisectionState
from pytest_nfvperf.features.bisect.events import Estimate, Event, Question, runs, unusable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMES = 24
_PAGE, PICTURE = "bisection.html", "bisection.png"


def render_bisection(
    directory: Path,
    question: Question,
    events: Sequence[Event],
    states: Sequence[BisectionState],
    titles: Mapping[str, str],
    arguments: Sequence[str],
) -> Path:
    """Write the page, and the picture if there is one (``has_picture``); returns the page's path.

    ``states``: after each event; the last one has the verdict. ``titles``: subjects of commits, by the version's name.
    """
    now = states[-1]
    names = question.versions
    chart = Markup()
    if has_picture(now):
        figure = bisection_chart(question, events, now)
        chart = Markup(to_svg(figure, f"bisection of {names[0]} to {names[-1]}"))  # noqa: S704 - our own drawing
        (directory / PICTURE).write_bytes(to_png(figure))
    steps = [
        (names[event.version], titles.get(names[event.version], ""), event_text(question, event, state))
        for event, state in zip(events, states, strict=True)
    ]
    page = environment().get_template("bisection.html")
    text = page.render(
        style=style(),
        good=names[0],
        bad=names[-1],
        between=len(names) - 2,
        lines=list(verdict_lines(question, events, now)),
        chart=chart,
        steps=steps,
        arguments=list(arguments),
        subject=now.subject,
        get_charts="" if can_draw() else GET_CHARTS,
    )
    write_whole(directory / _PAGE, text)
    return directory / _PAGE


def has_picture(now: BisectionState) -> bool:
    return bool(now.chances) and can_draw()


def bisection_chart(question: Question, events: Sequence[Event], now: BisectionState) -> Figure:
    """Two panels, one above the other; ``now.subject`` is known."""
    figure = new_figure(10.4, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    if isinstance(now.evidence, Levels):
        _draw_ratios(above, question, now.evidence)
    else:
        _draw_failures(above, events, now)
    cannot = sorted(unusable(events))
    if cannot:
        middle = [sum(above.get_ylim()) / 2] * len(cannot)
        above.plot(cannot, middle, "x", color=VERMILION, markersize=8, label="skipped: cannot be used")
    candidates = range(1, len(question.versions))
    below.bar(candidates, [chance * 100 for chance in now.chances], color=ORANGE, width=0.8)
    dress(below, title="The change came in with this version", y="probability, %")
    below.set_ylim(0, 105)
    step = 1 + (len(question.versions) - 1) // _MOST_NAMES
    places = list(range(0, len(question.versions), step))
    below.set_xticks(places, [question.versions[place] for place in places], rotation=40, ha="right", fontsize=8)
    below.set_xlim(-0.7, len(question.versions) - 0.3)
    finish(figure, (above, below), bottom_in=0.8)
    figure.subplots_adjust(hspace=0.28)
    return figure


def _draw_ratios(panel: Axes, question: Question, evidence: Levels) -> None:
    measured: Mapping[int, Estimate] = {**evidence.measured, question.bad: evidence.change}
    places = sorted(measured)
    ratios = [measured[place].interval() for place in places]
    middle = [ratio * 100 for ratio, _, _ in ratios]
    bars = ([(ratio - low) * 100 for ratio, low, _ in ratios], [(high - ratio) * 100 for ratio, _, high in ratios])
    panel.axhline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    panel.axhline(evidence.change.interval()[0] * 100, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    panel.errorbar(
        places, middle, yerr=bars, fmt="o", color=BLUE, capsize=3, markersize=5, label="measured, with interval at 95 %"
    )
    panel.plot([0], [100], "s", color=BLUE, markersize=6, label="good end")
    dress(panel, title="Each version against the good end", y=f"% of {question.versions[0]}")


def _draw_failures(panel: Axes, events: Sequence[Event], now: BisectionState) -> None:
    test = now.subject.test if now.subject else ""
    ran = runs(events, test)
    places = sorted(ran)
    shares = [100 * ran[place].failed / ran[place].count for place in places]
    panel.plot(places, shares, "o", color=BLUE, label="runs that failed")
    for place, share in zip(places, shares, strict=True):
        text = f"{ran[place].failed}/{ran[place].count}"
        panel.annotate(text, (place, share), (5, 5), textcoords="offset points", fontsize=8)
    panel.set_ylim(-8, 115)
    dress(panel, title=f"{test} on each version", y="failed runs, %")
