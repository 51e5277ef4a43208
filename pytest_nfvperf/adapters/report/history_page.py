"""A history as one HTML page: what changed, and a chart a series."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.chart import BLUE, GREEN, MUTED, ORANGE, VERMILION, Axis, Chart, Panel, Rule, Series
from pytest_nfvperf.adapters.report.history_table import change_line, history_rows, machine_line
from pytest_nfvperf.adapters.report.picture import picture, to_svg
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.history.series import (
    ABOUT,
    AT_LEAST,
    AT_MOST,
    ChangeMeaning,
    HistoryEntry,
    Watched,
    in_order,
    machines,
)

_COLOURS = {ChangeMeaning.WORSE: VERMILION, ChangeMeaning.BETTER: GREEN, ChangeMeaning.CHANGED: ORANGE}
_BOUNDS = (("", "circle"), (AT_LEAST, "triangle-up-open"), (AT_MOST, "triangle-down-open"), (ABOUT, "diamond-open"))
_MOST_DATES = 8
_LEAST_REACH = 0.05
"""Of the axis to either side of the values: noise of a per mille looks like nothing, as it is."""

MOST_CHARTS = 150
"""On a page: more take minutes to draw, and nobody looks at them."""


def render_history(
    entries: Sequence[HistoryEntry], watched: Sequence[Watched], problems: Sequence[str], path: Path
) -> Path:
    """Write the page; returns its path.

    Raises:
        ConfigError: it cannot be written.
    """
    runs = in_order(entries)
    # Where there are too many, those with changes and with most runs; in the order of the table.
    first = sorted(watched, key=lambda each: (not each.changes, -len(each.series.points)))[:MOST_CHARTS]
    chosen = {id(each) for each in first}
    shown = [each for each in watched if id(each) in chosen]
    subjects = []
    for name, group in groupby(shown, key=lambda each: each.series.name):
        drawn = [to_svg(picture(history_chart(each)), f"{name}, {each.series.what}") for each in group]
        subjects.append({"name": name, "charts": [Markup(svg) for svg in drawn]})  # noqa: S704 - our own drawings
    text = (
        environment()
        .get_template("history.html")
        .render(
            style=style(),
            first=runs[0],
            last=runs[-1],
            count=len(runs),
            machines=[machine_line(machine) for machine in machines(entries)],
            changes=[(change, change_line(each.series, change)) for each in watched for change in each.changes],
            problems=list(problems),
            rows=history_rows(watched),
            subjects=subjects,
            left_out=len(watched) - len(shown),
        )
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(f"the page cannot be written: {error.strerror}", file=str(path)) from error
    return path


def history_chart(watched: Watched) -> Chart:
    """Runs at equal distances with their intervals, dates below some of them, the levels, and the changes."""
    points, changes = watched.series.points, watched.changes
    series = []
    for bound, symbol in _BOUNDS:
        name = f"a run ({bound} this)" if bound else "a run"
        here = [(place, point.figure) for place, point in enumerate(points) if point.figure.bound == bound]
        for place, one in here:
            series.append(Series(name, [place], [one.value], BLUE, symbol, 4.5))
            if one.low is not None and one.high is not None:
                series.append(Series("", [place, place], [one.low, one.high], BLUE, line="solid", width=1))
    edges = [0, *(change.step.at for change in changes), len(points)]
    levels = [*(change.step.before for change in changes), *(change.step.after for change in changes[-1:])]
    for start, end, level in zip(edges, edges[1:], levels, strict=False):
        series.append(
            Series("median of a level", (start - 0.4, end - 0.6), (level, level), MUTED, line="solid", width=1.4)
        )
    rules = []
    for change in changes:
        colour, label = _COLOURS[change.direction], f"{change.step.ratio - 1:+.1%}"
        rules.append(Rule(change.step.at - 0.5, "x", colour, name=str(change.direction), label=label))
    low, high = min(watched.series.values), max(watched.series.values)
    reach = max(high - low, _LEAST_REACH * abs(high)) * 0.25 or 1.0  # of a loss that was 0 in every run
    dated = range(0, len(points), 1 + (len(points) - 1) // _MOST_DATES)
    panel = Panel(
        f"{watched.series.what}, machine {watched.series.machine}",
        Axis(ticks=tuple((place, points[place].run.when[:10]) for place in dated), reach=(-0.7, len(points) - 0.3)),
        Axis(reach=(low - reach, high + 1.4 * reach), unit=watched.series.unit),
        series,
        rules,
    )
    return Chart((panel,), 2.9, left=0.94)
