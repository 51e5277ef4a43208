"""A history as a table for a terminal, and its changes in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from pytest_nfvperf.adapters.report.terminal_table import rendered
from pytest_nfvperf.model.display import format_value
from pytest_nfvperf.model.history.series import ChangeMeaning, FigureSeries, HistoryChange, MachinePeriod, Watched

_STYLES = {ChangeMeaning.WORSE: "bold red", ChangeMeaning.BETTER: "green", ChangeMeaning.CHANGED: "yellow"}


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A series. ``told``: its changes, or why there is nothing to say."""

    name: str
    metric: str
    machine: str
    runs: int
    median: str
    last: str
    told: tuple[str, ...]
    direction: ChangeMeaning | None


def history_rows(watched: Sequence[Watched]) -> list[HistoryRow]:
    """A row a series; the direction is that of the gravest change that counts, else of the last."""
    return [
        HistoryRow(
            name=each.series.name,
            metric=each.series.what,
            machine=str(each.series.machine),
            runs=len(each.series.points),
            median=format_value(median(each.series.values), each.series.unit),
            last=last_value(each.series),
            told=tuple(short_text(change) for change in each.changes) or ((each.why_not,) if each.why_not else ()),
            direction=_direction(each.changes),
        )
        for each in watched
    ]


def _direction(changes: Sequence[HistoryChange]) -> ChangeMeaning | None:
    if any(change.counts for change in changes):
        return ChangeMeaning.WORSE
    open_changes = [change for change in changes if change.direction is not ChangeMeaning.WORSE]
    return open_changes[-1].direction if open_changes else None


def last_value(series: FigureSeries) -> str:
    """``at least 4.00 Mpps``."""
    figure = series.points[-1].figure
    return f"{figure.bound} {format_value(figure.value, figure.unit)}".strip()


def short_text(change: HistoryChange) -> str:
    """``-9.8 % at 20261120-093000-4711, acknowledged: the new checksum costs that``."""
    state = ", recovered since" if change.recovered else ""
    if change.acknowledged is not None:
        state = f", acknowledged: {change.acknowledged.reason}"
    return f"{change.step.ratio - 1:+.1%} at {change.run}{state}"


def change_line(series: FigureSeries, change: HistoryChange) -> str:
    """A change in a sentence: of what, when, from what level to what level, and with which versions."""
    step = change.step
    before, after = series.points[step.at - 1].run, series.points[step.at].run
    levels = " to ".join(format_value(level, series.unit) for level in (step.before, step.after))
    differ = [
        f"{name} {before.versions.get(name, 'unknown')} before, {after.versions.get(name, 'unknown')} after"
        for name in sorted({*before.versions, *after.versions})
        if before.versions.get(name) != after.versions.get(name)
    ]
    versions = ", ".join(differ) or "the same versions before and after"
    state = "; recovered since" if change.recovered else ""
    if change.acknowledged is not None:
        state = f"; acknowledged: {change.acknowledged.reason}"
    return (
        f"{change.direction}: {series.name}, {series.what}: {levels} ({step.ratio - 1:+.1%}) since run {change.run} of "
        f"{change.when}; {versions}{state}"
    )


def machine_line(machine: MachinePeriod) -> str:
    """Which runs are on it, and in what it differs from the machine before."""
    differs = f"; it is not machine {machine.number - 1}: {'; '.join(machine.differs)}" if machine.differs else ""
    return f"machine {machine.number}: testbed {machine.testbed}, first run {machine.first.run}{differs}"


def history_text(rows: Sequence[HistoryRow], *, width: int | None = None, color: bool = False) -> str:
    """The table; None for ``width``: as wide as it needs."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for title in ("test", "metric", "machine"):
        table.add_column(title)
    for title in ("runs", "median", "last"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("changes")
    name = ""
    for row in rows:
        told = Text("\n".join(row.told), style=_STYLES.get(row.direction, "dim") if row.direction else "dim")
        shown = row.name if row.name != name else ""
        table.add_row(shown, row.metric, row.machine, str(row.runs), row.median, row.last, told)
        name = row.name
    return rendered([table], width=width, color=color)
