"""One series of a history in a chart: its runs in order with their intervals, the levels, and the changes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from pytest_nfvperf.adapters.report.drawing import BLUE, GREEN, MUTED, ORANGE, VERMILION, dress, finish, new_figure
from pytest_nfvperf.model.display import format_value
from pytest_nfvperf.model.history.series import ABOUT, AT_LEAST, AT_MOST, Direction, Series, Watched

_COLOURS = {Direction.WORSE: VERMILION, Direction.BETTER: GREEN, Direction.CHANGED: ORANGE}
_MOST_DATES = 8
_LEAST_REACH = 0.05
"""Of the axis to either side of the values: noise of a per mille looks like nothing, as it is."""


def history_chart(watched: Watched) -> Figure:
    """Runs at equal distances; dates below some of them."""
    series = watched.series
    figure = new_figure(10.4, 2.9)
    panel = figure.subplots()
    _draw_runs(panel, series)
    edges = [0, *(change.step.at for change in watched.changes), len(series.points)]
    for number, change in enumerate(watched.changes):
        _draw_level(panel, edges[number], edges[number + 1], change.step.before)
        panel.axvline(
            change.step.at - 0.5, color=_COLOURS[change.direction], linewidth=1.4, label=str(change.direction)
        )
        panel.annotate(
            f"{change.step.ratio - 1:+.1%}",
            (change.step.at - 0.5, 0.99),
            (3, -1),
            xycoords=panel.get_xaxis_transform(),
            textcoords="offset points",
            va="top",
            fontsize=8.5,
            color=_COLOURS[change.direction],
        )
    if watched.changes:
        _draw_level(panel, edges[-2], edges[-1], watched.changes[-1].step.after)
    _dress(panel, series)
    finish(figure, (panel,))
    figure.subplots_adjust(left=0.09)
    return figure


def _draw_runs(panel: Axes, series: Series) -> None:
    figures = [point.figure for point in series.points]
    for place, figure in enumerate(figures):
        if figure.low is not None and figure.high is not None:
            panel.plot([place, place], [figure.low, figure.high], color=BLUE, linewidth=1, alpha=0.6)
    for bound, marker in (("", "o"), (AT_LEAST, "^"), (AT_MOST, "v"), (ABOUT, "D")):
        places = [place for place, figure in enumerate(figures) if figure.bound == bound]
        if places:
            panel.plot(
                places,
                [figures[place].value for place in places],
                marker,
                color=BLUE,
                markersize=4.5,
                fillstyle="none" if bound else "full",
                label=f"a run ({bound} this)" if bound else "a run",
            )


def _draw_level(panel: Axes, start: int, end: int, level: float) -> None:
    panel.plot([start - 0.4, end - 0.6], [level, level], color=MUTED, linewidth=1.4, label="median of a level")


def _dress(panel: Axes, series: Series) -> None:
    dress(panel, title=f"{series.what}, machine {series.machine}")
    step = 1 + (len(series.points) - 1) // _MOST_DATES
    places = range(0, len(series.points), step)
    panel.set_xticks(places, [series.points[place].run.when[:10] for place in places], fontsize=8)
    panel.set_xlim(-0.7, len(series.points) - 0.3)
    low, high = min(series.values), max(series.values)
    reach = max(high - low, _LEAST_REACH * abs(high)) * 0.25 or 1.0  # of a loss that was 0 in every run
    panel.set_ylim(low - reach, high + 1.4 * reach)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, series.unit)))
