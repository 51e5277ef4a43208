"""What the charts of one test at given loads show: latency by percentile, loss against load, a soak over time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.adapters.report import vega
from pytest_nfvperf.adapters.report.vega import SERIES, Line, Look, Row, View
from pytest_nfvperf.model.display import format_fps, format_ns, format_ratio, format_seconds
from pytest_nfvperf.model.measure.outcome import ClassOutcome, LossPoint
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import STATE, SoakCurve
from pytest_nfvperf.model.metrics import percentile_of
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram

_OF_ANOTHER = re.compile(r" of (\{|baseline)")
"""In a requirement that is about the ratio to another figure."""
_PERCENT = "format(100 - 100 / datum.value, '.7~g') + ' %'"
_LOAD = "load, Mpps per direction"
_TIME_UNITS = ((7200, 3600, "h"), (300, 60, "min"), (0, 1, "s"))


def latency_chart(curves: Sequence[tuple[str, Histogram]], verdicts: Sequence[Verdict] = ()) -> list[View]:
    """Latency in us against percentile, each further nine as wide as the last (HdrHistogram's plot).

    Args:
        curves: (name of the load, latency from the scheduled send time), light load first; none is empty.
        verdicts: their limits are marked.
    """
    shown = [(f"{name} ({histogram.total:,} samples)", coarse_histogram(histogram)) for name, histogram in curves]
    most = max(*(histogram.total for _, histogram in shown), 10)  # a single sample is all percentiles
    limits = list(_latency_limits(verdicts, most))
    low = min(one.min_ns for _, one in shown)
    high = max(*(one.max_ns for _, one in shown), *(row["y"] * 1e3 for row in limits), 0)
    wide = high > 20 * max(low, 1)
    ticks: View = {"values": [1, 2, *(10**nines for nines in range(1, 7) if 10**nines <= most)], "labelExpr": _PERCENT}
    x = vega.number("x", "percentile", log=True, reach=(1, most), **ticks)
    y = vega.number("y", "latency, us", log=wide, zero=not wide)
    looks = {name: Look(colour, line="solid") for (name, _), colour in zip(shown, SERIES, strict=False)}
    rows = [row for name, histogram in shown for row in _percentiles(name, histogram) if name in looks]
    steps = vega.series(x, y, rows, looks, steps=True)
    return [vega.panel("Latency by percentile", vega.series(x, y, limits, {"limit": vega.LIMIT}), steps)]


def _latency_limits(verdicts: Sequence[Verdict], most: float) -> Iterator[Row]:
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
    yield from _limit_rows(marks)


def _limit_rows(requirements: Mapping[tuple[float, float], str]) -> Iterator[Row]:
    """``requirements``: by the place of the limit, (x, y)."""
    for (x, y), requirement in requirements.items():
        yield {"series": "limit", "x": x, "y": y, "hover": requirement}


def _percentiles(name: str, histogram: Histogram) -> Iterator[Row]:
    """A step for each bucket; the last ends at the largest sample."""
    total, below = histogram.total, 0
    steps = [(1.0, histogram.min_ns)]
    for value, count in histogram.counts:
        steps.append((total / (total - below), min(value, histogram.max_ns)))
        below += count
    steps.append((float(total), histogram.max_ns))
    for x, ns in steps:
        hover = f"{name}\n{100 - 100 / x:.6g} % within {format_ns(ns)}"
        yield {"series": name, "x": float(f"{x:.5g}"), "y": max(ns, 1) / 1e3, "hover": hover}  # logarithms have no 0


def loss_chart(
    points: Sequence[LossPoint],
    classes: Sequence[ClassOutcome] = (),
    verdicts: Sequence[Verdict] = (),
    title: str = "Frame loss against load",
) -> list[View]:
    """Loss in per cent against load (RFC 2544 section 26.3); loads without loss are green.

    Args:
        points: at least one, of loads that were offered.
        classes: of a mix, each a line of its own against the load of all.
        verdicts: their limits are marked at the loads that they are about.
        title: of the panel.
    """
    rising = sorted(points, key=lambda point: point.load_fps)
    looks = {
        "frame loss": Look(vega.BLUE, line="solid"),
        "no loss": Look(vega.GREEN, "circle"),
        "loss": Look(vega.VERMILION, "circle"),
    }
    rows: list[Row] = []
    for point in rising:
        ratio = point.loss_ratio
        place = {"x": point.load_fps / 1e6, "y": ratio * 100}
        hover = f"{format_ratio(ratio)} lost at {format_fps(point.load_fps)}"
        mark = {"series": "loss" if ratio > 0 else "no loss", "label": f"{ratio * 100:.3g} %"}
        rows += [{"series": "frame loss"} | place, mark | place | {"hover": hover, "link": f"#{point.trial_id}"}]
    loads = {load_in_fps(point.load_fps): point.load_fps for point in rising}
    for each, colour in zip(classes, itertools.cycle(SERIES), strict=False):
        looks[name := f"class {each.name}"] = Look(colour, "circle", "dash")
        of_it = [(loads[loss.at], loss) for loss in each.losses if loss.at in loads and loss.offered_frames]
        for load, loss in sorted(of_it, key=lambda pair: pair[0]):
            place = {"x": load / 1e6, "y": loss.lost_frames / loss.offered_frames * 100}
            hover = f"{name}: {loss.lost_frames:,} of {loss.offered_frames:,} lost"
            rows.append({"series": name} | place | {"hover": hover, "link": f"#{loss.trial_id}"})
    at = {point.trial_id: point.load_fps / 1e6 for point in rising}
    limits = {
        (at[trial], verdict.limit * 100): verdict.requirement
        for verdict in verdicts
        if verdict.metric == "loss_ratio" and verdict.limit is not None and not _OF_ANOTHER.search(verdict.requirement)
        for trial in verdict.evidence
        if trial in at
    }
    x, y = vega.number("x", _LOAD), vega.number("y", "loss, %", zero=True)
    marks = vega.series(x, y, list(_limit_rows(limits)), {"limit": vega.LIMIT})
    return [vega.panel(title, marks, vega.series(x, y, rows, looks))]


def soak_chart(soak: Soak, curves: Sequence[SoakCurve]) -> list[View] | None:
    """A soak over time, a panel a figure, as S1's figures 3 to 10 show it.

    Grey bands are intervals that the rig disturbed, red lines those in which frames were lost.
    """
    if not curves:
        return None
    factor, unit = next((step, name) for least, step, name in _TIME_UNITS if soak.elapsed_s >= least)
    disturbed = [(one.start_s / factor, one.end_s / factor) for one in soak.disturbed]
    lossy = [(one.end_s / factor, "", Look(vega.VERMILION, line="solid", width=0.8)) for one in soak.lossy]
    members: dict[str, list[SoakCurve]] = {}
    for curve in curves:
        members.setdefault(curve.panel, []).append(curve)
    panels, note = list[View](), _left_out(soak, curves)
    for name, of_it in members.items():
        highest_first = sorted(of_it, key=lambda curve: -max(value for _, value in curve.points))
        top = max(value for _, value in highest_first[0].points)
        x = vega.number("x", f"time, {unit}", zero=True)
        y = vega.number("y", of_it[0].unit, zero=True, reach=None if top > 0 else (0, 1))
        looks = {curve.name: _soak_look(curve, at, len(of_it)) for at, curve in enumerate(highest_first)}
        rows = [
            {"series": curve.name, "x": round(t / factor, 4), "y": float(f"{value:.5g}")}
            for curve in highest_first
            for t, value in curve.points
        ]
        behind = vega.bands(x, disturbed, vega.MUTED, opacity=0.25), vega.rules(x, lossy)
        title = name[0].upper() + name[1:]
        notes = [note] if note and not panels else []
        panels.append(vega.panel(title, *behind, vega.series(x, y, rows, looks), notes=notes, height=170))
    return panels


def _soak_look(curve: SoakCurve, at: int, of: int) -> Look:
    below = min(of, len(SERIES)) - 1 - at
    lines: tuple[Line, ...] = ("solid", "dash", "dot")
    width = 1.3 + max(below, 0) * (curve.unit == STATE)  # states lie on each other: all are to be seen
    return Look(SERIES[at % len(SERIES)], line=lines[at // len(SERIES) % 3], width=width)


def _left_out(soak: Soak, curves: Sequence[SoakCurve]) -> str:
    """Name the end of a soak that no curve shows because it is shorter than an interval."""
    longest = max(curves, key=lambda curve: len(curve.points))
    left_s = soak.elapsed_s - longest.points[-1][0]
    if len(longest.points) != soak.intervals - 1 or not 0 < left_s < soak.interval_s:
        return ""  # all is drawn, or so much that nobody sees the end
    return f"The last {format_seconds(left_s)} are in no curve: they are shorter than the other samples, and counted."
