"""A bisection as one HTML page and one picture: the versions with what was measured of each, and the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report import page_charts, vega
from pytest_nfvperf.adapters.report.page_charts import PageCharts
from pytest_nfvperf.adapters.report.picture import as_file, can_draw, to_png, to_svgs
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.adapters.report.vega import Look, Row, View
from pytest_nfvperf.features.bisect.account import event_text, verdict_lines
from pytest_nfvperf.features.bisect.beliefs import Levels
from pytest_nfvperf.features.bisect.bisection import BisectionState
from pytest_nfvperf.features.bisect.events import Estimate, Event, Question, runs, unusable

_PAGE, PICTURE = "bisection.html", "bisection.png"
_MEASURED, _CANNOT = "measured, with interval at 95 %", "skipped: cannot be used"
_CANNOT_LOOK = {_CANNOT: Look(vega.VERMILION, "x")}
_LEVEL = Look(vega.MUTED, line="dash", width=1)


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
    now, versions, charts, chart = states[-1], question.versions, PageCharts(), ""
    if now.chances:
        title, drawn = f"bisection of {versions[0]} to {versions[-1]}", bisection_chart(question, events, now)
        chart = charts.add(drawn, "bisection", title)
        if can_draw():
            (directory / PICTURE).write_bytes(to_png(as_file(to_svgs(drawn, title))))
    steps = [
        (versions[event.version], titles.get(versions[event.version], ""), event_text(question, event, state))
        for event, state in zip(events, states, strict=True)
    ]
    page = environment().get_template("bisection.html")
    text = page.render(
        style=style(),
        good=versions[0],
        bad=versions[-1],
        between=len(versions) - 2,
        lines=list(verdict_lines(question, events, now)),
        chart=chart,
        steps=steps,
        arguments=list(arguments),
        subject=now.subject,
        charts=charts,
        browser=page_charts,
        site="",
    )
    write_whole(directory / _PAGE, text)
    return directory / _PAGE


def has_picture(now: BisectionState) -> bool:
    return bool(now.chances) and can_draw()


def bisection_chart(question: Question, events: Sequence[Event], now: BisectionState) -> list[View]:
    """What was measured of each version, and the chances of each; ``now.subject`` is known."""
    x = vega.names("x", "", question.versions)
    if isinstance(now.evidence, Levels):
        above = _ratios(x, question, events, now.evidence)
    else:
        above = _failures(x, question, events, now)
    y = vega.number("y", "probability, %", reach=(0, 100))
    rows = [
        {"x": version, "y": chance * 100, "hover": f"{version}: {chance:.1%}"}
        for version, chance in zip(question.versions[1:], now.chances, strict=True)
    ]
    return [above, vega.panel("The change came in with this version", vega.bars(x, y, rows, vega.ORANGE))]


def _skipped(question: Question, events: Sequence[Event], y: float) -> list[Row]:
    return [{"series": _CANNOT, "x": question.versions[at], "y": y} for at in sorted(unusable(events))]


def _ratios(x: View, question: Question, events: Sequence[Event], evidence: Levels) -> View:
    measured: Mapping[int, Estimate] = {**evidence.measured, question.bad: evidence.change}
    rows = _skipped(question, events, 100)
    rows.append({"series": "good end", "x": question.versions[0], "y": 100})
    for at in sorted(measured):
        ratio, low, high = (end * 100 for end in measured[at].interval())
        hover = f"{question.versions[at]}: {ratio:.2f} % ({low:.2f} .. {high:.2f} %)"
        place = {"series": _MEASURED, "x": question.versions[at], "y": ratio}
        rows.append(place | {"low": low, "high": high, "hover": hover})
    y = vega.number("y", f"% of {question.versions[0]}")
    levels = [(100, "", _LEVEL), (evidence.change.interval()[0] * 100, "", _LEVEL)]
    looks = {_MEASURED: Look(vega.BLUE, "circle"), "good end": Look(vega.BLUE, "square")} | _CANNOT_LOOK
    return vega.panel("Each version against the good end", vega.rules(y, levels), vega.series(x, y, rows, looks))


def _failures(x: View, question: Question, events: Sequence[Event], now: BisectionState) -> View:
    test = now.subject.test if now.subject else ""
    rows = _skipped(question, events, 0)
    for at, ran in sorted(runs(events, test).items()):
        place = {"series": "runs that failed", "x": question.versions[at], "y": 100 * ran.failed / ran.count}
        rows.append(place | {"label": f"{ran.failed}/{ran.count}"})
    looks = {"runs that failed": Look(vega.BLUE, "circle")} | _CANNOT_LOOK
    y = vega.number("y", "failed runs, %", reach=(0, 100))
    return vega.panel(f"{test} on each version", vega.series(x, y, rows, looks))
