"""The history as people see it: a table, and a page with a chart for each series."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from markupsafe import Markup
from rich import box
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.report.chart import (
    BLUE,
    GREEN,
    MUTED,
    ORANGE,
    VERMILION,
    Axis,
    Chart,
    ChartRule,
    ChartSeries,
    Panel,
)
from pytest_nfvperf.adapters.report.picture import picture, to_svg
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.adapters.report.terminal_table import rendered
from pytest_nfvperf.features.history.files import write_file
from pytest_nfvperf.features.history.series import (
    ABOUT,
    AT_LEAST,
    AT_MOST,
    ChangeMeaning,
    FigureSeries,
    HistoryChange,
    HistoryEntry,
    MachinePeriod,
    Watched,
    in_order,
    machines,
)
from pytest_nfvperf.model.display import format_value

_MOST_CHARTS = 150
"""On a page: more take minutes to draw, and nobody looks at them."""

_STYLES = {ChangeMeaning.WORSE: "bold red", ChangeMeaning.BETTER: "green", ChangeMeaning.CHANGED: "yellow"}
_COLOURS = {ChangeMeaning.WORSE: VERMILION, ChangeMeaning.BETTER: GREEN, ChangeMeaning.CHANGED: ORANGE}
_BOUNDS = (("", "circle"), (AT_LEAST, "triangle-up-open"), (AT_MOST, "triangle-down-open"), (ABOUT, "diamond-open"))
_MOST_DATES = 8
_LEAST_REACH = 0.05
"""Least reach of the axis around the values, as a share: noise of a per mille must look small."""


_Row = tuple[tuple[str, ...], tuple[str, ...], ChangeMeaning | None]
"""A series: its cells; its changes as texts, or why it cannot be checked; their direction, None without a change."""


def _rows(watched: Sequence[Watched]) -> list[_Row]:
    """The cells are name, metric, machine, number of runs, median and last value.

    The direction is WORSE if a change counts, else that of the last change that is not for the worse.
    """
    rows: list[_Row] = []
    for series, changes, why_not in ((each.series, each.changes, each.why_not) for each in watched):
        last = series.points[-1].figure
        middle = format_value(median(series.values), series.unit)
        newest = f"{last.bound} {format_value(last.value, last.unit)}".strip()
        cells = (series.name, series.what, str(series.machine), str(len(series.points)), middle, newest)
        texts = tuple(map(_change_text, changes)) or ((why_not,) if why_not else ())
        others = [change.direction for change in changes if change.direction is not ChangeMeaning.WORSE]
        counts = any(change.counts for change in changes)
        rows.append((cells, texts, ChangeMeaning.WORSE if counts else others[-1] if others else None))
    return rows


def _state(change: HistoryChange, sign: str) -> str:
    if change.acknowledged is not None:
        return f"{sign} acknowledged: {change.acknowledged.reason}"
    return f"{sign} recovered since" if change.recovered else ""


def _change_text(change: HistoryChange) -> str:
    """``-9.8 % at 20261120-093000-4711, acknowledged: the new checksum costs that``."""
    return f"{change.step.ratio - 1:+.1%} at {change.run}{_state(change, ',')}"


def change_line(series: FigureSeries, change: HistoryChange) -> str:
    """What changed when, from what level to what level, and with which versions."""
    step = change.step
    before, after = series.points[step.at - 1].run, series.points[step.at].run
    levels = " to ".join(format_value(level, series.unit) for level in (step.before, step.after))
    differ = [
        f"{name} {before.versions.get(name, 'unknown')} before, {after.versions.get(name, 'unknown')} after"
        for name in sorted({*before.versions, *after.versions})
        if before.versions.get(name) != after.versions.get(name)
    ]
    versions = ", ".join(differ) or "the same versions before and after"
    return (
        f"{change.direction}: {series.name}, {series.what}: {levels} ({step.ratio - 1:+.1%}) since run {change.run} of "
        f"{change.when}; {versions}{_state(change, ';')}"
    )


def machine_line(machine: MachinePeriod) -> str:
    """Which runs are on it, and how it differs from the machine before."""
    differs = f"; it is not machine {machine.number - 1}: {'; '.join(machine.differs)}" if machine.differs else ""
    return f"machine {machine.number}: testbed {machine.testbed}, first run {machine.first.run}{differs}"


def history_text(watched: Sequence[Watched], *, width: int | None = None, color: bool = False) -> str:
    """``width``: columns; None: as wide as needed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for title in ("test", "metric", "machine"):
        table.add_column(title)
    for title in ("runs", "median", "last"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("changes")
    previous = ""
    for (name, *cells), texts, direction in _rows(watched):
        text = Text("\n".join(texts), style=_STYLES[direction] if direction else "dim")
        table.add_row(name if name != previous else "", *cells, text)
        previous = name
    return rendered([table], width=width, color=color)


def render_history(
    entries: Sequence[HistoryEntry], watched: Sequence[Watched], problems: Sequence[str], path: Path
) -> Path:
    """Write the page; returns its path.

    Raises:
        ConfigError: it cannot be written.
    """
    runs = in_order(entries)
    # Where there are too many, those with changes and with most runs; in the order of the table.
    first = sorted(watched, key=lambda each: (not each.changes, -len(each.series.points)))[:_MOST_CHARTS]
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
            rows=_rows(watched),
            subjects=subjects,
            left_out=len(watched) - len(shown),
        )
    )
    return write_file(path, text)


def history_chart(watched: Watched) -> Chart:
    """Runs at equal distances with their intervals, some dates, the levels, and the changes."""
    points, changes = watched.series.points, watched.changes
    series = []
    for bound, symbol in _BOUNDS:
        name = f"a run ({bound} this)" if bound else "a run"
        here = [(place, point.figure) for place, point in enumerate(points) if point.figure.bound == bound]
        for place, one in here:
            series.append(ChartSeries(name, [place], [one.value], BLUE, symbol, 4.5))
            if one.low is not None and one.high is not None:
                series.append(ChartSeries("", [place, place], [one.low, one.high], BLUE, line="solid", width=1))
    edges = [0, *(change.step.at for change in changes), len(points)]
    levels = [*(change.step.before for change in changes), *(change.step.after for change in changes[-1:])]
    for start, end, level in zip(edges, edges[1:], levels, strict=False):
        series.append(
            ChartSeries("median of a level", (start - 0.4, end - 0.6), (level, level), MUTED, line="solid", width=1.4)
        )
    rules = []
    for change in changes:
        colour, label = _COLOURS[change.direction], f"{change.step.ratio - 1:+.1%}"
        rules.append(ChartRule(change.step.at - 0.5, "x", colour, name=str(change.direction), label=label))
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
