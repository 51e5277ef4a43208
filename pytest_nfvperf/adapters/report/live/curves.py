"""Latency against percentile, and loss against load, in the browser."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.drawing import BLUE, GREEN, SERIES, VERMILION
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, Trace, curve
from pytest_nfvperf.model.display import format_fps, format_ns, format_ratio
from pytest_nfvperf.model.measure.outcome import LossPoint
from pytest_nfvperf.model.traffic.histogram import Histogram, thinned

_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)


def live_latency(curves: Sequence[tuple[str, Histogram]]) -> Live:
    """Latency in us against percentile, each further nine as wide as the last (HdrHistogram's plot)."""
    shown = [(name, thinned(histogram)) for name, histogram in curves]
    most = max(histogram.total for _, histogram in shown)
    ticks = [tick for tick in _TICKS if 1 / (1 - tick / 100) <= max(most, 10)]
    low, high = min(h.min_ns for _, h in shown), max(h.max_ns for _, h in shown)
    wide = high > 20 * max(low, 1)
    xaxis = {
        "type": "log",
        "tickvals": [1 / (1 - tick / 100) for tick in ticks],
        "ticktext": [f"{tick:g} %" for tick in ticks],
    }
    traces = [_percentiles(name, histogram, color) for (name, histogram), color in zip(shown, SERIES, strict=False)]
    yaxis = {"type": "log"} if wide else {"rangemode": "tozero"}
    return Live((Panel("Latency by percentile", "percentile", "latency, us", tuple(traces), xaxis, yaxis),))


def _percentiles(name: str, histogram: Histogram, color: str) -> Trace:
    """A step for each bucket; the last ends at the largest sample."""
    total, below = histogram.total, 0
    steps = [(1.0, histogram.min_ns)]
    for value, count in histogram.counts:
        steps.append((total / (total - below), min(value, histogram.max_ns)))
        below += count
    steps.append((float(total), histogram.max_ns))
    return curve(
        f"{name} ({total:,} samples)",
        [float(f"{x:.5g}") for x, _ in steps],
        [ns / 1e3 for _, ns in steps],
        color,
        mode="lines",
        line={"shape": "hv"},
        text=[f"{100 - 100 / x:.6g} % within {format_ns(ns)}" for x, ns in steps],
        hoverinfo="text+name",
    )


def live_loss(points: Sequence[LossPoint]) -> Live:
    """Loss in per cent against load (RFC 2544 section 26.3); loads without loss are green."""
    rising = sorted(points, key=lambda point: point.load_fps)
    lossy = curve(
        "frame loss",
        [point.load_fps / 1e6 for point in rising],
        [point.loss_ratio * 100 for point in rising],
        BLUE,
        marker={"size": 9, "color": [VERMILION if point.loss_ratio > 0 else GREEN for point in rising]},
        text=[f"{format_ratio(point.loss_ratio)} lost at {format_fps(point.load_fps)}" for point in rising],
        customdata=[point.trial_id for point in rising],
        hoverinfo="text",
    )
    yaxis = {"rangemode": "tozero"}
    return Live((Panel("Frame loss against load", "load, Mpps per direction", "loss, %", (lossy,), {}, yaxis),))
