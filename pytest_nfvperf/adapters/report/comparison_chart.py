"""A comparison in a chart: for each side of each test the ratio with its interval, and the ratios of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_nfvperf.adapters.report.comparison_table import subject
from pytest_nfvperf.adapters.report.drawing import GREEN, INK, MUTED, ORANGE, SERIES, VERMILION, dress, new_figure
from pytest_nfvperf.adapters.report.subjects import differing
from pytest_nfvperf.model.compare.record import MetricComparison, Word
from pytest_nfvperf.model.evidence.comparison import ComparedRun

_COLOURS = {Word.SLOWER: VERMILION, Word.FASTER: SERIES[0], Word.SAME: GREEN, Word.CANNOT_TELL: ORANGE}
_ROW_IN, _LEFT_IN, _HEAD_IN, _FOOT_IN, _WIDTH_IN = 0.3, 4.2, 0.4, 1.0, 10.4
_LEAST_REACH = 0.04
"""Of the axis to either side of 1: what is smaller looks like nothing, as it is."""


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    metric: MetricComparison


def comparison_chart(compared: ComparedRun) -> Figure | None:
    """Ratios of the metric that decides, a line each, the first test on top; None where there are none."""
    lines = _lines(compared)
    if not lines:
        return None
    height = _HEAD_IN + _ROW_IN * len(lines) + _FOOT_IN
    figure = new_figure(_WIDTH_IN, height)
    panel = figure.subplots()
    dress(
        panel, title=f"Ratio to {compared.comparing.baseline.name}, with its interval", x="ratio (better to the right)"
    )
    margin = compared.comparing.margin
    panel.axvspan(1 - margin, 1 + margin, color=GREEN, alpha=0.12, linewidth=0, label=f"margin of {margin:.0%}")
    panel.axvline(1, color=MUTED, linewidth=1)
    for at, line in enumerate(lines):
        _draw(panel, line.metric, len(lines) - 1 - at)
    _label(panel)
    panel.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])
    panel.set_ylim(-0.6, len(lines) - 0.4)
    panel.set_xlim(*_reach(lines))
    figure.subplots_adjust(left=_LEFT_IN / _WIDTH_IN, right=0.985, top=1 - _HEAD_IN / height, bottom=_FOOT_IN / height)
    figure.legend(loc="lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def _lines(compared: ComparedRun) -> list[_Line]:
    labels = [dict(test.data.labels) for test in compared.tests]
    different = differing(labels)
    return [
        _Line(f"{subject(own, different)}, {side.side}", metric)
        for test, own in zip(compared.tests, labels, strict=True)
        for side in test.data.sides
        if (metric := side.deciding) is not None and metric.ratio is not None
    ]


def _draw(panel: Axes, metric: MetricComparison, y: int) -> None:
    """The baseline over itself grey and above, blocks as dots, the ratio with its interval."""
    ratio = metric.ratio or 1.0
    panel.plot(metric.noise_ratios, [y + 0.28] * len(metric.noise_ratios), "|", color=MUTED, markersize=5)
    colour = _COLOURS[metric.word]
    panel.plot(
        metric.block_ratios, [y - 0.24] * len(metric.block_ratios), "o", color=colour, alpha=0.45, markersize=2.6
    )
    low, high = metric.low or ratio, metric.high or ratio
    panel.errorbar([ratio], [y], xerr=[[ratio - low], [high - ratio]], fmt="o", color=colour, markersize=5, capsize=3)


def _label(panel: Axes) -> None:
    """What the marks mean, drawn nowhere."""
    for word, colour in _COLOURS.items():
        panel.plot([], [], "o", color=colour, markersize=5, label=str(word))
    panel.plot([], [], "o", color=MUTED, markersize=2.6, label="one block of fresh builds")
    panel.plot([], [], "|", color=MUTED, markersize=5, label="baseline over its second build, by block")


def _reach(lines: Sequence[_Line]) -> tuple[float, float]:
    """From the lowest to the highest end of all intervals, and some more; single blocks may lie outside."""
    ends = [end for line in lines for end in (line.metric.low, line.metric.high, line.metric.ratio) if end is not None]
    low, high = min([*ends, 1 - _LEAST_REACH]), max([*ends, 1 + _LEAST_REACH])
    return low - (high - low) * 0.06, high + (high - low) * 0.06
