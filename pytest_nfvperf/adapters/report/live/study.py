"""A study in the browser: the ratio to the baseline with its interval, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.drawing import MUTED, SERIES
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, Trace, curve
from pytest_nfvperf.adapters.report.studies import (
    Comparison,
    interval_text,
    median_text,
    open_mark,
    ratio_text,
    whiskers,
)
from pytest_nfvperf.adapters.report.study_chart import SECOND, are_numbers, bars, places_of, ratio_title

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def live_study(comparisons: Sequence[Comparison]) -> Live:
    """Two panels; the comparisons are of one metric, over one label."""
    per, main = comparisons[0].per, comparisons[0].main
    xaxis = {"type": "category", "categoryorder": "array", "categoryarray": list(places_of(comparisons))}
    yaxis = {"rangemode": "tozero"}
    joined = are_numbers(places_of(comparisons))
    metric, title, unit, factor = SECOND.get(main, (main, main.replace("_", " "), "", 1.0))
    ratios = tuple(_ratios(one, number, joined=joined) for number, one in enumerate(comparisons))
    found = [_values(one, metric, factor, number, joined=joined) for number, one in enumerate(comparisons)]
    values = tuple(trace for trace in found if trace is not None)
    hundred = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 100, "y1": 100}
    hundred |= {"line": {"color": MUTED, "dash": "dash", "width": 1}}
    return Live(
        (
            Panel(ratio_title(comparisons), per, "% of the baseline", ratios, xaxis, yaxis, (hundred,)),
            Panel(title, per, f"{unit}, median".lstrip(", "), values, xaxis, yaxis),
        )
    )


def _ratios(comparison: Comparison, number: int, *, joined: bool) -> Trace:
    first = comparison.outcomes[0].label[comparison.per]
    points, marks = [(first, 100.0, 0.0, 0.0, f"{first}: the baseline")], [""]
    for outcome in comparison.outcomes[1:]:
        ratio = outcome.relative(comparison.main)
        if ratio is not None:
            at = outcome.label[comparison.per]
            text = f"{at}: {ratio_text(ratio)} ({interval_text(ratio)})"
            points.append((at, ratio.ratio * 100, *whiskers(ratio), text))
            marks.append(open_mark(ratio))
    return _trace(comparison.name, points, number, joined=joined) | {"text": marks, "textposition": "top right"}


def _values(comparison: Comparison, metric: str, factor: float, number: int, *, joined: bool) -> Trace | None:
    found = [(outcome, samples) for outcome in comparison.outcomes if (samples := outcome.sampled(metric)) is not None]
    points = []
    for outcome, samples in found:
        at = outcome.label[comparison.per]
        points.append((at, *bars(samples, factor), f"{at}: {median_text(samples)}"))
    return _trace(comparison.name, points, number, joined=joined) if points else None


def _trace(name: str, points: Sequence[tuple[str, float, float, float, str]], number: int, *, joined: bool) -> Trace:
    """``joined`` by a line: only where there is something between two points."""
    x, y, below, above, texts = (list(column) for column in zip(*points, strict=True))
    error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": 4}
    color = SERIES[number % len(SERIES)]
    marker = {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8, "color": color}
    hover = [f"{name}<br>{text}" for text in texts]
    shown = {"error_y": error | {"color": color}, "marker": marker, "hovertext": hover, "hoverinfo": "text"}
    return curve(name, x, y, color, mode="lines+markers+text" if joined else "markers+text", **shown)
