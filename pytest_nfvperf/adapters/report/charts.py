"""What the charts of a run show: searches, sweeps, studies, latency, loss and soaks, each described once."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pytest_nfvperf.adapters.report import vega
from pytest_nfvperf.adapters.report.figures import goal_figures
from pytest_nfvperf.adapters.report.published_figures import PublishedSeries
from pytest_nfvperf.adapters.report.subjects import (
    StudyOutcomes,
    interval_text,
    median_text,
    open_mark,
    ratio_text,
    title,
    whiskers,
)
from pytest_nfvperf.adapters.report.vega import SERIES, Line, Look, Row, View
from pytest_nfvperf.model.display import format_fps, format_ns, format_ratio, format_seconds
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.outcome import ClassOutcome, GoalOutcome, LossPoint, Outcome
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import STATE, SoakCurve
from pytest_nfvperf.model.metrics import metric_of, percentile_of
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.statistics import Bound, median_interval
from pytest_nfvperf.model.traffic.histogram import Histogram, coarse_histogram

MOST_CURVES = len(SERIES)
"""Studies in one chart."""
MOST_SERIES = 4
"""Curves of one sweep in a chart: nobody can tell more apart."""
ZERO_LOSS = ("ndr", "throughput")

_PHASES = {"confirmation": "diamond", "latency": "triangle-down", "warm-up": "square", "ceiling": "square"}
_LOSSES = (
    ("no loss", 0.0, vega.GREEN),
    ("lost up to 0.01 %", 1e-4, "#e8b030"),
    ("lost up to 1 %", 1e-2, "#d55e00"),
    ("lost more", float("inf"), "#a3004f"),
)
_INVALID = "invalid: repeated"
_AXIS_TITLES = {"frame_size": "frame size, bytes with FCS", "flows": "flows per direction"}
_MARKS = {
    "↑": "↑: at least (limited by the rig's own ceiling)",
    "≥": "≥: at least (its test says why)",
    "?": "?: no trial of full length confirmed it",
}
Verdicts = Mapping[tuple[tuple[str, str], ...], Sequence[Verdict]]
"""Verdicts by the labels of what they are about: charts draw their limits."""
_NO_VERDICTS: Verdicts = MappingProxyType({})
_SMALL = 50.0
"""Ratios that are all above this many per cent are drawn on an axis that does not begin at 0."""
_PER_DIRECTION = "Mpps per direction"
_LIMITS = vega.LIMIT._replace(line="dot", width=1.4)
_LIMIT_LOOK = {"limit": _LIMITS}
_SCALES = {"bps": ("Gbps", 1e-9), "pps": ("Mpps", 1e-6)}
"""Units of axes that are not base units, and their factor."""
_NUMBER = re.compile(r"\d+(\.\d+)?")
"""Between names, such as those of mixes, there is nothing, and no line."""
_OF_ANOTHER = re.compile(r" of (\{|baseline)")
"""In a requirement that is about the ratio to another figure."""
_PERCENT = "format(100 - 100 / datum.value, '.7~g') + ' %'"
_LOAD = "load, Mpps per direction"
_TIME_UNITS = ((7200, 3600, "h"), (300, 60, "min"), (0, 1, "s"))


def outcome_charts(
    outcome: Outcome, trials: dict[str, TrialData], verdicts: Sequence[Verdict] = ()
) -> dict[str, list[View] | None]:
    """The charts "search", "latency" and "loss" of an outcome; None for what was not measured, or at one load only.

    ``verdicts``: on the outcome; all show the limits of what they show.
    """
    own = [(key, trials[key]) for key in outcome.trials if key in trials]
    measured = [point for point in outcome.latency if point.trial_id in trials and point.p50_ns is not None]
    # Thinned counts are within 1 %, which no eye sees in a chart; decoding exact ones takes 40 ms each.
    histograms = [(point.at, trials[point.trial_id].result.latency) for point in measured]
    if len(measured) == 1:  # at several loads the classes would be too many curves
        classes = trials[measured[0].trial_id].result.classes
        merged = (
            (traffic_class.name, Histogram.merged(c.latency for c in traffic_class.counts if c.latency))
            for traffic_class in classes
        )
        histograms += [(f"{name} at {measured[0].at}", histogram) for name, histogram in merged]
    curves = [(name, histogram) for name, histogram in histograms if histogram is not None and histogram.total]
    held = outcome.offered_losses
    several = len({point.load_fps for point in held}) > 1
    return {
        "search": search_chart(own, outcome, verdicts) if outcome.goals and len(own) > 1 else None,
        "latency": latency_chart(curves, verdicts) if curves else None,
        "loss": loss_chart(held, outcome.classes, verdicts) if several else None,
    }


def search_chart(
    trials: Sequence[tuple[str, TrialData]], outcome: Outcome | None, verdicts: Sequence[Verdict] = ()
) -> list[View]:
    """Load against trial number. The colour shows what a trial lost, the symbol why it was run.

    A second panel shows what lies close to the result, where the first would show one thick line.
    """
    looks: dict[str, Look] = {}
    rows = [_trial_row(number_of_it, *trial, looks) for number_of_it, trial in enumerate(trials, 1)]
    order = [*(name for name, _, _ in _LOSSES), _INVALID]
    looks = dict(sorted(looks.items(), key=lambda pair: order.index(pair[0].partition(",")[0])))
    goals = [goal for goal in (outcome.goals if outcome else ()) if goal.load_fps is not None]
    coloured = list(zip(goals, SERIES, strict=False))
    limits = [
        (fps / 1e6, f"limit: {verdict.requirement}", Look(vega.VERMILION, line="dash"))
        for verdict in verdicts
        if outcome is not None and outcome.goal(verdict.metric) and (fps := limit_fps(verdict, outcome)) is not None
    ]
    lines = [*_goal_rules(coloured), *limits]
    x = vega.number("x", "trial", reach=(0, len(trials) + 1), tickMinStep=1)
    y = vega.number("y", _PER_DIRECTION, zero=True)
    every = vega.series(x, y, rows, looks)
    reach = _result_reach(goals, [row["y"] for row in rows])
    if reach is None:
        return [vega.panel("Every trial", *_goal_bands(y, coloured), vega.rules(y, lines), every)]
    low, high = reach
    close = vega.number("y", _PER_DIRECTION, reach=reach)
    in_range = [row for row in rows if low <= row["y"] <= high]
    found = vega.rules(close, [line for line in lines if low <= line[0] <= high])
    title = "Close to the result (the grey band)"
    band = vega.bands(y, [reach], vega.MUTED, opacity=0.2)
    return [
        vega.panel("Every trial", band, vega.rules(y, limits), every),
        vega.panel(title, *_goal_bands(close, coloured, reach), found, vega.series(x, close, in_range, looks)),
    ]


def limit_fps(verdict: Verdict, outcome: Outcome) -> float | None:
    """The limit of a rate as frames/s per direction; None for a share of another figure, and without a limit."""
    if verdict.limit is None:
        return None
    bits = outcome.bits_per_second(1.0)
    return {
        "pps": verdict.limit,
        "bps": verdict.limit / bits if bits else None,
        "line_ratio": verdict.limit * outcome.line_rate_fps if outcome.line_rate_fps else None,
    }.get(verdict.unit)


def _trial_row(number: int, trial_id: str, trial: TrialData, looks: dict[str, Look]) -> Row:
    """Adds the look of its series to ``looks``."""
    result, judged = trial.result, trial.judgement.counted
    name, colour, symbol = _INVALID, vega.MUTED, "x"
    effect = f"disturbed by the rig: {'; '.join(map(str, result.invalid))}"
    if result.valid and judged.loss_ratio is not None:
        phase = next((phase for phase in _PHASES if phase in result.spec.purpose), "")
        name, colour = next((name, colour) for name, most, colour in _LOSSES if judged.loss_ratio <= most)
        name, symbol = f"{name}, {phase}" if phase else name, _PHASES.get(phase, "circle")
    if result.valid:
        effect = f"{judged.lost:,} of {judged.offered:,} lost ({format_ratio(judged.loss_ratio)})"
    looks.setdefault(name, Look(colour, symbol))
    load = f"{result.spec.load_text} for {format_seconds(result.due_s)}"
    hover = f"{trial_id}, {result.spec.purpose}\n{load}\n{effect}"
    return {"series": name, "x": number, "y": result.spec.load_fps / 1e6, "hover": hover, "link": f"#{trial_id}"}


def _goal_bands(
    y: View, goals: Sequence[tuple[GoalOutcome, str]], reach: tuple[float, float] = (0.0, math.inf)
) -> Iterator[View]:
    """From the load that met a goal to the one that did not."""
    for goal, colour in goals:
        if goal.load_fps is not None and goal.upper_fps is not None:
            low, high = max(goal.load_fps / 1e6, reach[0]), min(goal.upper_fps / 1e6, reach[1])
            if low < high:
                yield vega.bands(y, [(low, high)], colour)


def _goal_rules(goals: Sequence[tuple[GoalOutcome, str]]) -> Iterator[tuple[float, str, Look]]:
    """The loads found, those confirmed, and those that no longer met their goal; one line for equal loads.

    The load found and the load confirmed may differ: tables show the one that was confirmed.
    """
    by_load: dict[str, list[tuple[float, str, Line, str, str]]] = {}
    for goal, colour in goals:
        name, confirmed = goal.goal.name.upper(), goal.confirmation
        loads: list[tuple[float | None, Line, str]] = [(goal.load_fps, "solid", "found")]
        if confirmed is not None:
            loads.append((confirmed.load_fps, "dash", "confirmed" if confirmed.passed else "not confirmed"))
        for load, dash, what in (*loads, (goal.upper_fps, "dot", "not met")):
            if load is not None:
                by_load.setdefault(f"{load:.4g}", []).append((load / 1e6, colour, dash, name, what))
    for alike in by_load.values():
        load, colour, dash, *_ = alike[0]
        said: dict[str, list[str]] = {}
        for *_, name, what in alike:
            said.setdefault(name, []).append(what)
        text = ", ".join(f"{name} {' and '.join(whats)}" for name, whats in said.items())
        yield load, f"{load:.2f} Mpps: {text}", Look(colour, line=dash)


def _result_reach(goals: Sequence[GoalOutcome], loads: Sequence[float]) -> tuple[float, float] | None:
    """2 % around the bounds that were found, in Mpps, if a trial was there."""
    bounds = [load / 1e6 for goal in goals for load in (goal.load_fps, goal.upper_fps) if load]
    if not bounds:
        return None
    low, high = min(bounds) * 0.98, max(bounds) * 1.02
    return (low, high) if any(low <= load <= high for load in loads) else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Curves of outcomes that differ in one label only.

    ``axis``: this label. ``curves``: what the outcomes of each have in common, such as "pvp", and these outcomes.
    """

    axis: str
    curves: tuple[tuple[str, Sequence[Outcome]], ...]

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcomes in self.curves for outcome in outcomes]


def find_sweeps(outcomes: Sequence[Outcome]) -> list[Sweep]:
    """Groups of searches that differ in one label only: frame size first, then every label that is a number."""
    searched = [outcome for outcome in outcomes if outcome.goals]
    names = dict.fromkeys(name for outcome in searched for name in outcome.label)
    counting = [name for name in names if all(o.label.get(name, "0").isdigit() for o in searched)]
    axes = ["frame_size", *(name for name in counting if name != "frame_size")]
    return [sweep for axis in axes if axis in names for sweep in _along(axis, searched)]


def _along(axis: str, outcomes: Sequence[Outcome]) -> list[Sweep]:
    groups: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for outcome in outcomes:
        if axis in outcome.label:
            key = (*((k, v) for k, v in outcome.labels if k != axis), ("algorithm", outcome.algorithm))
            groups.setdefault(key, []).append(outcome)
    curves = {key: group for key, group in groups.items() if len({o.label[axis] for o in group}) > 1}
    labels = [dict(key) for key in curves]
    common = {k: v for k, v in labels[0].items() if all(own.get(k) == v for own in labels[1:])} if labels else {}
    names = [_curve_name(own, common | {"test": ""}) for own in labels]
    if len(set(names)) < len(names):
        names = [_curve_name(own, common) for own in labels]
    named = list(zip(names, curves.values(), strict=True))
    return [Sweep(axis, tuple(named[first : first + MOST_SERIES])) for first in range(0, len(named), MOST_SERIES)]


def _curve_name(labels: dict[str, str], common: dict[str, str]) -> str:
    always = {"topology", "frame_size", "flows", "direction"}
    return title({name: value for name, value in labels.items() if name in always or name not in common})


def sweep_chart(
    sweep: Sweep,
    published: Sequence[PublishedSeries] = (),
    *,
    verdicts: Verdicts = _NO_VERDICTS,
    line_rate: bool = False,
) -> list[View]:
    """NDR and PDR in frames/s and bit/s per direction. Solid: no loss; dashed: with the loss that PDR allows.

    Args:
        sweep: what to draw.
        published: others' figures, to show beside a sweep of frame sizes.
        verdicts: their limits are drawn.
        line_rate: draw the theoretical maximum, too, which RFC 2544 section 26.1 wants beside the measured one.
    """
    axis = sweep.axis
    labels = {outcome.label[axis] for outcome in sweep.outcomes}
    labels |= {str(size) for other in published for size, _ in other.points}
    # Numbers rising, then mixes.
    ticks = [_tick(axis, text) for text in sorted(labels, key=lambda text: (not text.isdigit(), len(text), text))]
    looks: dict[str, Look] = {}
    rows = [*_published_rows(published, looks), *_goal_rows(sweep, looks)]
    rows += _reference_rows(sweep, verdicts, looks, line_rate=line_rate)
    rows.sort(key=lambda row: ticks.index(row["x"]))
    x = vega.names("x", _AXIS_TITLES.get(axis, axis), ticks)
    notes = [text for mark, text in _MARKS.items() if any(row.get("label") == mark for row in rows)]
    return [
        vega.panel(
            heading, vega.series(x, vega.number(unit, f"{unit} per direction", zero=True), rows, looks), notes=notes
        )
        for heading, unit in (("Frames per second", "Mpps"), ("Bits per second", "Gbps"))
    ]


def _tick(axis: str, label: str) -> str:
    grouped = "," if axis == "flows" else ""
    return f"{int(label):{grouped}}" if label.isdigit() else label.replace("imix-", "IMIX ")


def _rate(axis: str, outcome: Outcome, frames_per_second: float, name: str, **more: Any) -> Row:
    """In the units of both panels; bits of layer 2, with FCS. Mixes have no line."""
    label, bits = outcome.label[axis], frames_per_second * outcome.mean_frame_size * 8
    row = {"series": name, "x": _tick(axis, label), "Mpps": frames_per_second / 1e6, "Gbps": bits / 1e9} | more
    return row if label.isdigit() else row | {"alone": True}


def _published_rows(published: Sequence[PublishedSeries], looks: dict[str, Look]) -> Iterator[Row]:
    for at, other in enumerate(published):
        name = f"published: {other.name}"
        looks[name] = Look(vega.MUTED, vega.SYMBOLS[3:0:-1][at % 3], "dot", width=1.2)
        for size, fps in sorted(other.frames_per_second().items()):
            mpps, gbps = fps / 1e6, fps * size * 8 / 1e9
            hover = f"{size}: {mpps:.4g} Mpps, {gbps:.4g} Gbps\n{other.source}"
            yield {"series": name, "x": str(size), "Mpps": mpps, "Gbps": gbps, "hover": hover}


def _goal_rows(sweep: Sweep, looks: dict[str, Look]) -> Iterator[Row]:
    for (curve, outcomes), colour in zip(sweep.curves, SERIES, strict=False):
        marked = set[tuple[str, str]]()
        for outcome in outcomes:
            for goal in outcome.goals:
                seen, metric = outcome.figure(goal.goal.name, "pps"), goal.goal.name
                if goal.load_fps is None or seen is None:
                    looks.setdefault(name := f"{curve}: no result", Look(colour, "x"))
                    yield _rate(sweep.axis, outcome, 0.0, name, hover="no result")
                    continue
                strict = Look(colour, "circle", "solid"), Look(colour, "circle-open", "dash", 80, 1.3)
                looks.setdefault(name := f"{curve} {metric.upper()}", strict[metric not in ZERO_LOSS])
                shown, mark = goal_figures(outcome, metric), (outcome.label[sweep.axis], _sweep_mark(outcome, seen))
                more = {"hover": f"{mark[0]}: {shown.mpps} Mpps, {shown.gbps} Gbps\n{shown.note}"}
                more |= {"link": f"#{goal.confirmation.trial_id}"} if goal.confirmation else {}
                more |= {"label": mark[1]} if mark not in marked else {}  # NDR and PDR lie on each other
                marked.add(mark)
                yield _rate(sweep.axis, outcome, seen.value, name, **more)


def _reference_rows(sweep: Sweep, verdicts: Verdicts, looks: dict[str, Look], *, line_rate: bool) -> Iterator[Row]:
    """What the rates stand beside: the rig's ceiling, the line's rate, and limits, a line for each goal's."""
    for curve, outcome in [(curve, outcome) for curve, outcomes in sweep.curves for outcome in outcomes]:
        if outcome.ceiling_fps is not None:
            looks.setdefault(name := "rig's own ceiling", Look(vega.MUTED, "bar", size=110))
            yield _rate(sweep.axis, outcome, outcome.ceiling_fps, name)
        if line_rate and outcome.line_rate_fps is not None:
            looks.setdefault(name := "theoretical maximum", Look(vega.MUTED, line="dash"))
            yield _rate(sweep.axis, outcome, outcome.line_rate_fps, name)
        for verdict in verdicts.get(outcome.labels, ()):
            fps = limit_fps(verdict, outcome) if outcome.goal(verdict.metric) else None
            if fps is not None:
                looks.setdefault("limit", _LIMITS)
                of_it = f"{curve} {verdict.metric}"
                yield _rate(sweep.axis, outcome, fps, "limit", curve=of_it, hover=verdict.requirement)


def _sweep_mark(outcome: Outcome, seen: Figure) -> str:
    """``↑`` only where the rig's ceiling is drawn and was the limit."""
    mark = load_mark(seen)
    return "↑" if mark == "≥" and Why.GENERATOR in seen.why and outcome.ceiling_fps is not None else mark


def load_mark(seen: Figure) -> str:
    """``≥`` where the rig, not the DUT, ended the search; ``?`` where no trial of full length confirmed it."""
    if seen.low is None:
        return "?"
    return "≥" if seen.bound in {Bound.AT_LEAST, Bound.BETWEEN} else ""


def study_chart(
    comparisons: Sequence[StudyOutcomes], verdicts: Verdicts = _NO_VERDICTS, named: Sequence[str] = ()
) -> list[View]:
    """The ratio to the baseline with its interval, and the cost. All comparisons have one metric and one label.

    ``verdicts``: limits of the ratio, and of what the second panel shows, are drawn. ``named``: for the legend.
    """
    per, main = comparisons[0].per, comparisons[0].main
    labels = list(dict.fromkeys(outcome.label[per] for comparison in comparisons for outcome in comparison.outcomes))
    joined = all(map(_NUMBER.fullmatch, labels))
    if joined:
        labels.sort(key=float)
    metric = metric_of(main).companion or main
    unit, factor = _SCALES.get(metric_of(metric).unit, (metric_of(metric).unit, 1.0))
    line: Line = "solid" if joined else ""
    looks = {
        (named[number] if named else comparison.name): Look(
            SERIES[number % len(SERIES)], vega.SYMBOLS[number % len(vega.SYMBOLS)], line
        )
        for number, comparison in enumerate(comparisons)
    }
    shown = list(zip(looks, comparisons, strict=True))
    ratios = [{"series": name} | row for name, one in shown for row in _ratio_rows(one)]
    values = [{"series": name} | row for name, one in shown for row in _metric_rows(one, metric, factor)]
    asked = list(_study_limits(comparisons, verdicts, main, "ratio", 100.0))
    # Differences are the point: from 0 they are seen only where they are large.
    small = all(row["y"] > _SMALL for row in (*ratios, *asked))
    x, side_by_side = vega.names("x", per, labels), "series" if len(comparisons) > 1 else ""
    y = vega.number("y", "% of the baseline, with its interval", zero=not small)
    baseline = vega.rules(y, [(100, "", Look(vega.MUTED, line="dash", width=1))])
    limits, drawn = vega.series(x, y, asked, _LIMIT_LOOK), vega.series(x, y, ratios, looks, offset=side_by_side)
    left = vega.panel(ratio_title(comparisons), baseline, limits, drawn)
    if not values:
        return [left]
    y = vega.number("y", f"{unit}, median with its interval".lstrip(", "), zero=True)
    limits = vega.series(x, y, list(_study_limits(comparisons, verdicts, metric, "", factor)), _LIMIT_LOOK)
    return [left, vega.panel(metric_of(metric).title, limits, vega.series(x, y, values, looks, offset=side_by_side))]


def _study_limits(
    comparisons: Sequence[StudyOutcomes], verdicts: Verdicts, metric: str, unit: str, factor: float
) -> Iterator[Row]:
    """Limits of a metric; ``unit`` "ratio": of its ratio to the study's baseline, else of the metric itself."""
    subjects = [(comparison, outcome) for comparison in comparisons for outcome in comparison.outcomes]
    for comparison, outcome in subjects:
        per, label = comparison.per, outcome.label[comparison.per]
        baseline = f"{{{per}: {comparison.outcomes[0].label[per]}}}"
        for verdict in verdicts.get(outcome.labels, ()):
            of_ratio = verdict.requirement.endswith(f" of {baseline}")
            of_it = of_ratio if unit == "ratio" else verdict.unit != "ratio"
            if verdict.metric == metric and verdict.limit is not None and of_it:
                row = {"series": "limit", "x": label, "y": verdict.limit * factor, "hover": verdict.requirement}
                yield row | {"curve": comparison.name} | ({} if _NUMBER.fullmatch(label) else {"alone": True})


def ratio_title(comparisons: Sequence[StudyOutcomes]) -> str:
    per = comparisons[0].per
    baselines = {one.outcomes[0].label[per] for one in comparisons}
    return f"Ratio to {per} {baselines.pop()}" if len(baselines) == 1 else "Ratio to the baseline of each"


def _ratio_rows(comparison: StudyOutcomes) -> Iterator[Row]:
    first = comparison.outcomes[0].label[comparison.per]
    yield {"x": first, "y": 100.0, "low": 100.0, "high": 100.0, "hover": f"{first}: the baseline"}
    for outcome in comparison.outcomes[1:]:
        ratio = outcome.relative(comparison.main)
        if ratio is not None:
            label, value = outcome.label[comparison.per], ratio.ratio * 100
            below, above = whiskers(ratio)
            ends = {"low": value - below, "high": value + above, "label": open_mark(ratio)}
            yield {"x": label, "y": value, **ends, "hover": f"{label}: {ratio_text(ratio)} ({interval_text(ratio)})"}


def _metric_rows(comparison: StudyOutcomes, metric: str, factor: float) -> Iterator[Row]:
    for outcome in comparison.outcomes:
        samples = outcome.sampled(metric)
        if samples is not None:
            label, ends = outcome.label[comparison.per], median_interval(samples.values)
            row = {"x": label, "y": samples.median * factor, "low": ends.low * factor, "high": ends.high * factor}
            yield row | {"hover": f"{label}: {median_text(samples)}"}


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
        tick = {"x": point.load_fps / 1e6, "y": ratio * 100}
        hover = f"{format_ratio(ratio)} lost at {format_fps(point.load_fps)}"
        mark = {"series": "loss" if ratio > 0 else "no loss", "label": f"{ratio * 100:.3g} %"}
        rows += [{"series": "frame loss"} | tick, mark | tick | {"hover": hover, "link": f"#{point.trial_id}"}]
    loads = {load_in_fps(point.load_fps): point.load_fps for point in rising}
    for of_class, colour in zip(classes, itertools.cycle(SERIES), strict=False):
        looks[name := f"class {of_class.name}"] = Look(colour, "circle", "dash")
        of_it = [(loads[loss.at], loss) for loss in of_class.losses if loss.at in loads and loss.offered_frames]
        for load, loss in sorted(of_it, key=lambda pair: pair[0]):
            tick = {"x": load / 1e6, "y": loss.lost_frames / loss.offered_frames * 100}
            hover = f"{name}: {loss.lost_frames:,} of {loss.offered_frames:,} lost"
            rows.append({"series": name} | tick | {"hover": hover, "link": f"#{loss.trial_id}"})
    mpps_of = {point.trial_id: point.load_fps / 1e6 for point in rising}
    limits = {
        (mpps_of[trial], verdict.limit * 100): verdict.requirement
        for verdict in verdicts
        if verdict.metric == "loss_ratio" and verdict.limit is not None and not _OF_ANOTHER.search(verdict.requirement)
        for trial in verdict.evidence
        if trial in mpps_of
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
    disturbed = [(interval.start_s / factor, interval.end_s / factor) for interval in soak.disturbed]
    lossy = [(interval.end_s / factor, "", Look(vega.VERMILION, line="solid", width=0.8)) for interval in soak.lossy]
    members: dict[str, list[SoakCurve]] = {}
    for curve in curves:
        members.setdefault(curve.panel, []).append(curve)
    panels, note = list[View](), _left_out(soak, curves)
    for name, of_it in members.items():
        highest_first = sorted(of_it, key=lambda curve: -max(value for _, value in curve.points))
        top = max(value for _, value in highest_first[0].points)
        x = vega.number("x", f"time, {unit}", zero=True)
        y = vega.number("y", of_it[0].unit, zero=True, reach=None if top > 0 else (0, 1))
        looks = {curve.name: _soak_look(curve, number, len(of_it)) for number, curve in enumerate(highest_first)}
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
