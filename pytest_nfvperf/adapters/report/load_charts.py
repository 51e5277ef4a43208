"""What the charts of one test at given loads show: latency by percentile, loss against load, a soak over time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.adapters.report.chart import (
    BLUE,
    GREEN,
    LIMIT_COLOUR,
    MUTED,
    SERIES,
    VERMILION,
    Axis,
    Chart,
    ChartBand,
    ChartRule,
    ChartSeries,
    Panel,
)
from pytest_nfvperf.model.display import format_fps, format_ns, format_ratio, format_seconds
from pytest_nfvperf.model.measure.outcome import ClassOutcome, LossPoint
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import STATE, SoakCurve
from pytest_nfvperf.model.metrics import percentile_of
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram

_PERCENTILES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
_OF_ANOTHER = re.compile(r" of (\{|baseline)")
"""In a requirement that is about the ratio to another figure."""
_TIME_UNITS = ((7200, 3600, "h"), (300, 60, "min"), (0, 1, "s"))


def latency_chart(curves: Sequence[tuple[str, Histogram]], verdicts: Sequence[Verdict] = ()) -> Chart:
    """Latency in us against percentile, each further nine as wide as the last (HdrHistogram's plot).

    Args:
        curves: (name of the load, latency from the scheduled send time), light load first; none is empty.
        verdicts: their limits are marked.
    """
    shown = [(name, coarse_histogram(histogram)) for name, histogram in curves]
    most = max(*(histogram.total for _, histogram in shown), 10)  # a single sample is all percentiles
    ticks = [(1 / (1 - share / 100), f"{share:g} %") for share in _PERCENTILES if 1 / (1 - share / 100) <= most]
    limits = list(_latency_limits(verdicts, most))
    allowed = [us * 1e3 for series in limits for us in series.y]
    low, high = min(one.min_ns for _, one in shown), max(*(one.max_ns for _, one in shown), *allowed, 0)
    wide = high > 20 * max(low, 1)
    panel = Panel(
        "Latency by percentile",
        Axis("percentile", log=True, ticks=tuple(ticks), reach=(1, most)),
        Axis("latency, us", log=wide, from_zero=not wide),
        [*(_percentiles(name, one, colour) for (name, one), colour in zip(shown, SERIES, strict=False)), *limits],
    )
    return Chart((panel,), 3.9)


def _latency_limits(verdicts: Sequence[Verdict], most: float) -> Iterator[ChartSeries]:
    """A mark at the percentile that each limit is about. ``most``: where the curves end."""
    marks: dict[tuple[float, float], str] = {}
    for verdict in verdicts:
        percentile = 0.0 if verdict.metric == "latency_min" else percentile_of(verdict.metric)
        at = most if verdict.metric == "latency_max" else None
        if percentile is not None:
            at = float(f"{1 / (1 - percentile / 100):.5g}")
        # A share of another figure has the unit "ratio", and no place here.
        if at is not None and at <= most and verdict.limit is not None and verdict.unit == "ns":
            marks.setdefault((at, verdict.limit / 1e3), verdict.requirement)
    yield from _limit_marks(marks)


def _limit_marks(requirements: Mapping[tuple[float, float], str]) -> Iterator[ChartSeries]:
    """``requirements``: by the place of the limit, (x, y)."""
    if requirements:
        x, y = zip(*requirements, strict=True)
        yield ChartSeries("limit", x, y, LIMIT_COLOUR, "line-ew", 14, hover=list(requirements.values()))


def _percentiles(name: str, histogram: Histogram, colour: str) -> ChartSeries:
    """A step for each bucket; the last ends at the largest sample."""
    total, below = histogram.total, 0
    steps = [(1.0, histogram.min_ns)]
    for value, count in histogram.counts:
        steps.append((total / (total - below), min(value, histogram.max_ns)))
        below += count
    steps.append((float(total), histogram.max_ns))
    return ChartSeries(
        f"{name} ({total:,} samples)",
        [float(f"{x:.5g}") for x, _ in steps],
        [ns / 1e3 for _, ns in steps],
        colour,
        line="solid",
        steps=True,
        hover=[f"{100 - 100 / x:.6g} % within {format_ns(ns)}" for x, ns in steps],
    )


def loss_chart(
    points: Sequence[LossPoint], classes: Sequence[ClassOutcome] = (), verdicts: Sequence[Verdict] = ()
) -> Chart:
    """Loss in per cent against load (RFC 2544 section 26.3); loads without loss are green.

    Args:
        points: at least one, of loads that were offered.
        classes: of a mix, each a line of its own against the load of all.
        verdicts: their limits are marked at the loads that they are about.
    """
    rising = sorted(points, key=lambda point: point.load_fps)
    lost = [(point, point.loss_ratio) for point in rising]
    x, y = [point.load_fps / 1e6 for point in rising], [ratio * 100 for _, ratio in lost]
    series = [ChartSeries("frame loss", x, y, BLUE, line="solid")]
    for name, colour, here in (
        ("no loss", GREEN, [each for each in lost if each[1] <= 0]),
        ("loss", VERMILION, [each for each in lost if each[1] > 0]),
    ):
        series.append(
            ChartSeries(
                name,
                [point.load_fps / 1e6 for point, _ in here],
                [ratio * 100 for _, ratio in here],
                colour,
                "circle",
                labels=[f"{ratio * 100:.3g} %" for _, ratio in here],
                hover=[f"{format_ratio(ratio)} lost at {format_fps(point.load_fps)}" for point, ratio in here],
                links=[point.trial_id for point, _ in here],
            )
        )
    loads = {load_in_fps(point.load_fps): point.load_fps for point in rising}
    for each, colour in zip(classes, itertools.cycle(SERIES), strict=False):
        of_it = [(loads[loss.at], loss) for loss in each.losses if loss.at in loads and loss.offered_frames]
        of_it.sort(key=lambda pair: pair[0])
        series.append(
            ChartSeries(
                f"class {each.name}",
                [load / 1e6 for load, _ in of_it],
                [loss.lost_frames / loss.offered_frames * 100 for _, loss in of_it],
                colour,
                "circle",
                line="dash",
                hover=[f"{loss.lost_frames:,} of {loss.offered_frames:,} lost" for _, loss in of_it],
                links=[loss.trial_id for _, loss in of_it],
            )
        )
    at = {point.trial_id: point.load_fps / 1e6 for point in rising}
    limits = {
        (at[trial], verdict.limit * 100): verdict.requirement
        for verdict in verdicts
        if verdict.metric == "loss_ratio" and verdict.limit is not None and not _OF_ANOTHER.search(verdict.requirement)
        for trial in verdict.evidence
        if trial in at
    }
    series += _limit_marks(limits)
    axes = (Axis("load, Mpps per direction"), Axis("loss, %", from_zero=True))
    return Chart((Panel("Frame loss against load", *axes, [one for one in series if one.x]),), 3.6)


def soak_chart(soak: Soak, curves: Sequence[SoakCurve]) -> Chart | None:
    """A soak over time, a panel a figure, as S1's figures 3 to 10 show it.

    Grey bands are intervals that the rig disturbed, red lines those in which frames were lost.
    """
    if not curves:
        return None
    factor, unit = next((step, name) for least, step, name in _TIME_UNITS if soak.elapsed_s >= least)
    bands = [ChartBand(one.start_s / factor, one.end_s / factor, "x", MUTED, opacity=0.25) for one in soak.disturbed]
    rules = [ChartRule(one.end_s / factor, "x", VERMILION, width=0.8) for one in soak.lossy]
    members: dict[str, list[SoakCurve]] = {}
    for curve in curves:
        members.setdefault(curve.panel, []).append(curve)
    panels = []
    for name, of_it in members.items():
        highest_first = sorted(of_it, key=lambda curve: -max(value for _, value in curve.points))
        top = max(value for _, value in highest_first[0].points)
        series = [_soak_curve(curve, number, len(of_it), factor) for number, curve in enumerate(highest_first)]
        axes = (
            Axis(f"time, {unit}", from_zero=True),
            Axis(of_it[0].unit, from_zero=True, reach=None if top > 0 else (0, 1)),
        )
        panels.append(Panel(name[0].upper() + name[1:], *axes, series, rules, bands))
    return Chart(panels, 2.5, legend_inside=True, note=_left_out(soak, curves))


def _soak_curve(curve: SoakCurve, number: int, of: int, factor: float) -> ChartSeries:
    below = min(of, len(SERIES)) - 1 - number
    return ChartSeries(
        curve.name,
        [round(t / factor, 4) for t, _ in curve.points],
        [float(f"{value:.5g}") for _, value in curve.points],
        SERIES[number % len(SERIES)],
        line=("solid", "dash", "dot")[number // len(SERIES) % 3],
        width=1.3 + max(below, 0) * (curve.unit == STATE),  # states lie on each other: all are to be seen
    )


def _left_out(soak: Soak, curves: Sequence[SoakCurve]) -> str:
    """Name the end of a soak that no curve shows because it is shorter than an interval."""
    longest = max(curves, key=lambda curve: len(curve.points))
    left_s = soak.elapsed_s - longest.points[-1][0]
    if len(longest.points) != soak.intervals - 1 or not 0 < left_s < soak.interval_s:
        return ""  # all is drawn, or so much that nobody sees the end
    return f"The last {format_seconds(left_s)} are in no curve: they are shorter than the other samples, and counted."
