"""A study in the browser: the ratio to the baseline with its interval, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.drawing import MUTED, SERIES
from pytest_nfvperf.adapters.report.live.spec import Live, Panel, Trace, curve
from pytest_nfvperf.adapters.report.studies import Comparison, interval_text, is_open, median_text, ratio_text
from pytest_nfvperf.adapters.report.study_chart import SECOND, bars, places_of

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def live_study(comparisons: Sequence[Comparison]) -> Live:
    """Two panels; the comparisons are of one metric, over one label."""
    per, main = comparisons[0].per, comparisons[0].main
    xaxis = {"type": "category", "categoryorder": "array", "categoryarray": list(places_of(comparisons))}
    yaxis = {"rangemode": "tozero"}
    baseline = comparisons[0].outcomes[0].label[per]
    metric, title, unit, factor = SECOND.get(main, (main, main.replace("_", " "), "", 1.0))
    ratios = tuple(_ratios(one, number) for number, one in enumerate(comparisons))
    values = tuple(
        trace for number, one in enumerate(comparisons) if (trace := _values(one, metric, factor, number)) is not None
    )
    hundred = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 100, "y1": 100}
    hundred |= {"line": {"color": MUTED, "dash": "dash", "width": 1}}
    return Live(
        (
            Panel(f"Ratio to {per} {baseline}", per, "% of the baseline", ratios, xaxis, yaxis, (hundred,)),
            Panel(title, per, f"{unit}, median".lstrip(", "), values, xaxis, yaxis),
        )
    )


def _ratios(comparison: Comparison, number: int) -> Trace:
    first = comparison.outcomes[0].label[comparison.per]
    points = [(first, 100.0, 0.0, 0.0, f"{first}: the baseline")]
    for outcome in comparison.outcomes[1:]:
        ratio = outcome.relative(comparison.main)
        if ratio is not None:
            at = outcome.label[comparison.per]
            below = 0.0 if is_open(ratio) else (ratio.ratio - ratio.low) * 100
            above = ((ratio.high or ratio.ratio) - ratio.ratio) * 100
            points.append((at, ratio.ratio * 100, below, above, f"{at}: {ratio_text(ratio)} ({interval_text(ratio)})"))
    return _trace(comparison.name, points, number)


def _values(comparison: Comparison, metric: str, factor: float, number: int) -> Trace | None:
    found = [(outcome, samples) for outcome in comparison.outcomes if (samples := outcome.sampled(metric)) is not None]
    points = []
    for outcome, samples in found:
        at = outcome.label[comparison.per]
        points.append((at, *bars(samples, factor), f"{at}: {median_text(samples)}"))
    return _trace(comparison.name, points, number) if points else None


def _trace(name: str, points: Sequence[tuple[str, float, float, float, str]], number: int) -> Trace:
    x, y, below, above, texts = (list(column) for column in zip(*points, strict=True))
    error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": 4}
    marker = {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8}
    hover = [f"{name}<br>{text}" for text in texts]
    color = SERIES[number % len(SERIES)]
    return curve(name, x, y, color, error_y=error, marker=marker, hovertext=hover, hoverinfo="text")
