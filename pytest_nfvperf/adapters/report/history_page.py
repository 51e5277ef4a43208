"""A history as one HTML page: what changed, and a chart a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report.drawing import to_svg
from pytest_nfvperf.adapters.report.history_chart import history_chart
from pytest_nfvperf.adapters.report.history_table import change_line, history_rows, machine_line
from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.history.series import HistoryEntry, Watched, in_order, machines

MOST_CHARTS = 150
"""On a page: more take minutes to draw, and nobody looks at them."""


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    charts: list[Markup]


def render_history(
    entries: Sequence[HistoryEntry], watched: Sequence[Watched], problems: Sequence[str], path: Path
) -> Path:
    """Write the page; returns its path.

    Raises:
        ConfigError: it cannot be written.
    """
    runs = in_order(entries)
    shown = _charted(watched)
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
            subjects=_subjects(shown),
            left_out=len(watched) - len(shown),
        )
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(f"the page cannot be written: {error.strerror}", file=str(path)) from error
    return path


def _charted(watched: Sequence[Watched]) -> list[Watched]:
    """Where there are too many, those with changes and with most runs; in the order of the table."""
    first = sorted(watched, key=lambda each: (not each.changes, -len(each.series.points)))[:MOST_CHARTS]
    chosen = {id(each) for each in first}
    return [each for each in watched if id(each) in chosen]


def _subjects(watched: Sequence[Watched]) -> list[_Subject]:
    return [
        _Subject(name, [_drawn(each) for each in group])
        for name, group in groupby(watched, key=lambda each: each.series.name)
    ]


def _drawn(each: Watched) -> Markup:
    title = f"{each.series.name}, {each.series.what}"
    return Markup(to_svg(history_chart(each), title))  # noqa: S704 - our own drawing
