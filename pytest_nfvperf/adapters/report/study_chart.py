"""A study in a chart: the ratio to the baseline over how many there are, with its interval, and what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import MUTED, SERIES, dress, finish, new_figure
from pytest_nfvperf.adapters.report.studies import Comparison, open_mark, whiskers
from pytest_nfvperf.model.samples import Samples
from pytest_nfvperf.model.statistics import median_interval

MOST_CURVES = len(SERIES)
_MARKERS = ("o", "s", "^", "D", "v", "P")
SECOND = {
    "forwarding_rate": ("cycles_per_packet", "PMD cycles per packet", "cycles", 1.0),
    "tcp_throughput": ("tcp_throughput", "TCP goodput", "Gbps", 1e-9),
}
"""What the second panel shows beside the ratio of a metric: metric, title, unit, and its factor."""


def study_chart(comparisons: Sequence[Comparison]) -> Figure:
    """Two panels; the comparisons are of one metric, over one label."""
    per, main = comparisons[0].per, comparisons[0].main
    places = places_of(comparisons)
    figure = new_figure(10.4, 4.4)
    left, right = figure.subplots(1, 2)
    dress(left, title=ratio_title(comparisons), x=per, y="% of the baseline, with its interval")
    left.axhline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    metric, title, unit, factor = SECOND.get(main, (main, main.replace("_", " "), "", 1.0))
    dress(right, title=title, x=per, y=f"{unit}, median with its interval".lstrip(", "))
    for number, comparison in enumerate(comparisons):
        shift = (number - (len(comparisons) - 1) / 2) * 0.1  # error bars beside each other, not on each other
        _draw_ratio(left, comparison, places, number, shift)
        _draw_metric(right, comparison, metric, factor, places, number, shift)
    for panel in (left, right):
        if not are_numbers(places):
            for container in panel.containers:
                container[0].set_linestyle("none")
        panel.set_xticks(range(len(places)), list(places))
        panel.set_xlim(-0.4, len(places) - 0.6)
        panel.set_ylim(0, panel.get_ylim()[1] * 1.05)
    finish(figure, (left, right), bottom_in=0.66)
    return figure


def places_of(comparisons: Sequence[Comparison]) -> dict[str, int]:
    """Where each value of the label stands on the x axis, from 0: numbers rising; names as measured."""
    values = list(dict.fromkeys(outcome.label[one.per] for one in comparisons for outcome in one.outcomes))
    if are_numbers(values):
        values.sort(key=float)
    return {value: place for place, value in enumerate(values)}


def are_numbers(values: Iterable[str]) -> bool:
    """False for names: between two of them there is nothing, and no line."""
    return all(re.fullmatch(r"\d+(\.\d+)?", value) for value in values)


def ratio_title(comparisons: Sequence[Comparison]) -> str:
    """``Ratio to bridges 1``; where each has a baseline of its own, ``Ratio to the baseline of each``."""
    per = comparisons[0].per
    baselines = {one.outcomes[0].label[per] for one in comparisons}
    return f"Ratio to {per} {baselines.pop()}" if len(baselines) == 1 else "Ratio to the baseline of each"


def _draw_ratio(panel: Axes, comparison: Comparison, places: dict[str, int], number: int, shift: float) -> None:
    x, y, below, above = [places[comparison.outcomes[0].label[comparison.per]] + shift], [100.0], [0.0], [0.0]
    for outcome in comparison.outcomes[1:]:
        ratio = outcome.relative(comparison.main)
        if ratio is None:
            continue
        x.append(places[outcome.label[comparison.per]] + shift)
        y.append(ratio.ratio * 100)
        for bar, length in zip((below, above), whiskers(ratio), strict=True):
            bar.append(length)
        if mark := open_mark(ratio):
            panel.annotate(mark, (x[-1], y[-1]), (6, 4), textcoords="offset points", color=SERIES[number], fontsize=11)
    _draw(panel, x, y, (below, above), number, comparison.name)


def _draw_metric(
    panel: Axes, comparison: Comparison, metric: str, factor: float, places: dict[str, int], number: int, shift: float
) -> None:
    found = [(outcome, samples) for outcome in comparison.outcomes if (samples := outcome.sampled(metric)) is not None]
    points = [(places[outcome.label[comparison.per]] + shift, *bars(samples, factor)) for outcome, samples in found]
    if points:
        x, y, below, above = (list(column) for column in zip(*points, strict=True))
        _draw(panel, x, y, (below, above), number, comparison.name)


def bars(samples: Samples, factor: float) -> tuple[float, float, float]:
    """The median, and how far its interval reaches below and above, each times ``factor``."""
    interval = median_interval(samples.values)
    middle = samples.median
    return middle * factor, (middle - interval.low) * factor, (interval.high - middle) * factor


def _draw(
    panel: Axes, x: list[float], y: list[float], bars: tuple[list[float], list[float]], number: int, name: str
) -> None:
    panel.errorbar(
        x,
        y,
        yerr=bars,
        color=SERIES[number % len(SERIES)],
        linewidth=1.6,
        elinewidth=1.1,
        capsize=3,
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=5,
        label=name,
    )
