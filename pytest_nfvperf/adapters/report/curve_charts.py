"""Latency against percentile, and loss against load."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.drawing import (
    BLUE,
    GREEN,
    MUTED,
    SERIES,
    VERMILION,
    dress,
    finish,
    new_figure,
)
from pytest_nfvperf.model.measure.outcome import LossPoint
from pytest_nfvperf.model.traffic.histogram import Histogram, thinned

_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)


def latency_chart(curves: Sequence[tuple[str, Histogram]]) -> Figure:
    """Latency in us against percentile, each further nine as wide as the last (HdrHistogram's plot).

    Args:
        curves: (name of the load, latency from the scheduled send time), light load first.
    """
    figure = new_figure(10.4, 3.9)
    panel = figure.subplots()
    dress(panel, title="Latency by percentile", x="percentile", y="latency, us")
    shown = [(name, thinned(histogram)) for name, histogram in curves if histogram.total]
    for (name, histogram), color in zip(shown, SERIES, strict=False):
        _draw_percentiles(panel, name, histogram, color)
    most = max((histogram.total for _, histogram in shown), default=1)
    ticks = [tick for tick in _TICKS if 1 / (1 - tick / 100) <= max(most, 10)]
    panel.set_xscale("log")
    panel.set_xticks([1 / (1 - tick / 100) for tick in ticks], [f"{tick:g} %" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlim(1, max(most, 10))  # a single sample is all percentiles
    _log_if_wide(panel, [histogram for _, histogram in shown])
    finish(figure, [panel])
    return figure


def _draw_percentiles(panel: Axes, name: str, histogram: Histogram, color: str) -> None:
    """A step for each bucket; the last ends at the largest sample."""
    total, below = histogram.total, 0
    x, y = [1.0], [histogram.min_ns / 1e3]
    for value, count in histogram.counts:
        y.append(min(value, histogram.max_ns) / 1e3)
        x.append(total / (total - below))
        below += count
    x.append(float(total))
    y.append(histogram.max_ns / 1e3)
    panel.plot(x, y, color=color, linewidth=1.7, label=f"{name} ({total:,} samples)", drawstyle="steps-post")


def _log_if_wide(panel: Axes, histograms: Sequence[Histogram]) -> None:
    low = min((histogram.min_ns for histogram in histograms), default=1)
    high = max((histogram.max_ns for histogram in histograms), default=1)
    if high > 20 * max(low, 1):
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    else:
        panel.set_ylim(bottom=0)


def loss_chart(points: Sequence[LossPoint]) -> Figure:
    """Loss in per cent against load (RFC 2544 section 26.3); loads without loss are green."""
    figure = new_figure(10.4, 3.6)
    panel = figure.subplots()
    dress(panel, title="Frame loss against load", x="load, Mpps per direction", y="loss, %")
    rising = sorted(points, key=lambda point: point.load_fps)
    x = [point.load_fps / 1e6 for point in rising]
    y = [point.loss_ratio * 100 for point in rising]
    panel.plot(x, y, color=BLUE, linewidth=1.4, zorder=2)
    for clean, color, label in ((True, GREEN, "no loss"), (False, VERMILION, "loss")):
        here = [(a, b) for a, b in zip(x, y, strict=True) if (b <= 0) == clean]
        if here:
            x_here, y_here = [a for a, _ in here], [b for _, b in here]
            panel.scatter(x_here, y_here, color=color, s=34, zorder=3, label=label, clip_on=False)
    for a, b in zip(x, y, strict=True):
        panel.annotate(f"{b:.3g} %", (a, b), (0, 7), textcoords="offset points", ha="center", fontsize=8, color=MUTED)
    panel.margins(y=0.15)
    panel.set_ylim(bottom=0)
    finish(figure, [panel])
    return figure
