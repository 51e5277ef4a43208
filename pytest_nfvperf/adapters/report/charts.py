"""What the charts of a run show: searches, sweeps and studies, each described once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from pytest_nfvperf.adapters.report.chart import (
    GREEN,
    LIMIT_COLOUR,
    MUTED,
    SERIES,
    SYMBOLS,
    Axis,
    Chart,
    ChartBand,
    ChartRule,
    ChartSeries,
    Dash,
    Panel,
    Scale,
)
from pytest_nfvperf.adapters.report.figures import goal_figures
from pytest_nfvperf.adapters.report.load_charts import latency_chart, loss_chart
from pytest_nfvperf.adapters.report.published_figures import PublishedSeries
from pytest_nfvperf.adapters.report.studies import (
    StudyOutcomes,
    interval_text,
    median_text,
    open_mark,
    ratio_text,
    whiskers,
)
from pytest_nfvperf.adapters.report.subjects import title
from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.outcome import GoalOutcome, Outcome
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.statistics import Bound, median_interval
from pytest_nfvperf.model.traffic.histogram import Histogram

MOST_CURVES = len(SERIES)
"""Studies in one chart."""
MOST_SERIES = 4
"""Curves of one sweep in a chart: nobody can tell more apart."""
ZERO_LOSS = ("ndr", "throughput")

_PHASES = {"confirmation": "diamond", "latency": "triangle-down", "warm-up": "square", "ceiling": "square"}
_LOSSES = (
    ("no loss", 0.0, GREEN),
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
_SCALES = {"bps": ("Gbps", 1e-9), "pps": ("Mpps", 1e-6)}
"""Units of axes that are not base units, and their factor."""
_Limits = tuple[tuple[int, float, str, str], ...]
"""Limits of one curve: the place, the value, the requirement, and the place's name."""
_StudyPoint = tuple[str, float, float, float, str, str]
"""Label, value, how far its interval reaches below and above, mark, and hover text."""


def outcome_charts(
    outcome: Outcome, trials: dict[str, TrialData], verdicts: Sequence[Verdict] = ()
) -> dict[str, Chart | None]:
    """The charts "search", "latency" and "loss" of an outcome; None for what was not measured, or at one load only.

    ``verdicts``: on the outcome; all show the limits of what they show.
    """
    own = [(key, trials[key]) for key in outcome.trials if key in trials]
    measured = [point for point in outcome.latency if point.trial_id in trials and point.p50_ns is not None]
    # Thinned counts are within 1 %, which no eye sees in a chart; decoding exact ones takes 40 ms each.
    histograms = [(point.at, trials[point.trial_id].result.latency) for point in measured]
    if len(measured) == 1:  # at several loads the classes would be too many curves
        classes = trials[measured[0].trial_id].result.classes
        merged = ((each.name, Histogram.merged(c.latency for c in each.counts if c.latency)) for each in classes)
        histograms += [(f"{name} at {measured[0].at}", histogram) for name, histogram in merged]
    curves = [(at, histogram) for at, histogram in histograms if histogram is not None and histogram.total]
    held = outcome.offered_losses
    several = len({point.load_fps for point in held}) > 1
    return {
        "search": search_chart(own, outcome, verdicts) if outcome.goals and len(own) > 1 else None,
        "latency": latency_chart(curves, verdicts) if curves else None,
        "loss": loss_chart(held, outcome.classes, verdicts) if several else None,
    }


def search_chart(
    trials: Sequence[tuple[str, TrialData]], outcome: Outcome | None, verdicts: Sequence[Verdict] = ()
) -> Chart:
    """Load against trial number. The colour shows what a trial lost, the symbol why it was run.

    A second panel shows what lies close to the result, where the first would show one thick line.
    """
    points: dict[tuple[str, str, str], list[tuple[int, str, TrialData]]] = {}
    for number, (trial_id, trial) in enumerate(trials, 1):
        phase = next((name for name in _PHASES if name in trial.result.spec.purpose), "search")
        loss = trial.judgement.counted.loss_ratio
        if not trial.result.valid or loss is None:
            points.setdefault((_INVALID, MUTED, ""), []).append((number, trial_id, trial))
        else:
            name, colour = next((name, colour) for name, most, colour in _LOSSES if loss <= most)
            points.setdefault((name, colour, phase), []).append((number, trial_id, trial))
    order = [*(name for name, _, _ in _LOSSES), _INVALID]
    series = [_trial_points(*kind, points[kind]) for kind in sorted(points, key=lambda kind: order.index(kind[0]))]
    phases = dict.fromkeys(phase for _, _, phase in points if phase)
    keys = [ChartSeries(phase, (), (), MUTED, _PHASES.get(phase, "circle")) for phase in phases]
    goals = [goal for goal in (outcome.goals if outcome else ()) if goal.load_fps is not None]
    coloured = list(zip(goals, SERIES, strict=False))
    scale = None
    if any(one.levels for one in series):
        counted = (
            "lost frames, undisturbed windows"
            if any(t.judgement.windows is not None for _, t in trials)
            else "lost frames"
        )
        scale = Scale(counted, [colour for _, _, colour in _LOSSES[1:]])
    limits = [
        ChartRule(fps / 1e6, "y", LIMIT_COLOUR, "dash", f"limit: {verdict.requirement}", 1.6)
        for verdict in verdicts
        if outcome is not None and outcome.goal(verdict.metric) and (fps := limit_fps(verdict, outcome)) is not None
    ]
    x_axis = Axis("trial", reach=(0, len(trials) + 1))
    y_axis, marks = Axis("Mpps per direction", from_zero=True), [*keys, *series]
    rules = [*_goal_rules(coloured), *limits]
    bands = [
        ChartBand((goal.load_fps or 0) / 1e6, goal.upper_fps / 1e6, "y", colour)
        for goal, colour in coloured
        if goal.upper_fps is not None
    ]
    reach = _result_reach(goals, [load for one in series for load in one.y])
    if reach is None:
        return Chart((Panel("Every trial", x_axis, y_axis, marks, rules, bands),), 4.1, scale=scale)
    near = ChartBand(*reach, "y", MUTED, opacity=0.2)
    rules = [rule for rule in rules if reach[0] <= rule.at <= reach[1]]
    close = Axis("Mpps per direction", reach=reach)
    panels = (
        Panel("Every trial", x_axis, y_axis, marks, limits, [near]),
        Panel("Close to the result (the grey band)", x_axis, close, marks, rules, bands),
    )
    return Chart(panels, 4.1, scale=scale)


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


def _trial_points(name: str, colour: str, phase: str, members: Sequence[tuple[int, str, TrialData]]) -> ChartSeries:
    def hover(trial_id: str, trial: TrialData) -> str:
        result, judged = trial.result, trial.judgement.counted
        load = f"{format_fps(result.spec.load_fps)} for {format_seconds(result.due_s)}"
        found = f"{judged.lost:,} of {judged.offered:,} lost ({format_ratio(judged.loss_ratio)})"
        if not result.valid:
            found = f"disturbed by the rig: {'; '.join(map(str, result.invalid))}"
        return f"{trial_id}, {result.spec.purpose}<br>{load}<br>{found}"

    trials = [trial for _, _, trial in members]
    levels = [] if name in {_INVALID, "no loss"} else [trial.judgement.counted.loss_ratio or 0.0 for trial in trials]
    return ChartSeries(
        name,
        [number for number, _, _ in members],
        [trial.result.spec.load_fps / 1e6 for trial in trials],
        colour,
        "x" if name == _INVALID else _PHASES.get(phase, "circle"),
        hover=[hover(trial_id, trial) for _, trial_id, trial in members],
        links=[trial_id for _, trial_id, _ in members],
        levels=levels,
    )


def _goal_rules(goals: Sequence[tuple[GoalOutcome, str]]) -> Iterator[ChartRule]:
    """The loads found, those confirmed, and those that no longer met their goal; one line for equal loads.

    The load found and the load confirmed may differ: tables show the one that was confirmed.
    """
    at: dict[str, list[tuple[float, str, Dash, str, str]]] = {}
    for goal, colour in goals:
        name, confirmed = goal.goal.name.upper(), goal.confirmation
        found: list[tuple[float | None, Dash, str]] = [(goal.load_fps, "solid", "found")]
        if confirmed is not None:
            found.append((confirmed.load_fps, "dash", "confirmed" if confirmed.passed else "not confirmed"))
        for load, dash, what in (*found, (goal.upper_fps, "dot", "not met")):
            if load is not None:
                at.setdefault(f"{load:.4g}", []).append((load / 1e6, colour, dash, name, what))
    for alike in at.values():
        load, colour, dash, *_ = alike[0]
        said: dict[str, list[str]] = {}
        for *_, name, what in alike:
            said.setdefault(name, []).append(what)
        text = ", ".join(f"{name} {' and '.join(whats)}" for name, whats in said.items())
        yield ChartRule(load, "y", colour, dash, f"{load:.2f} Mpps: {text}")


def _result_reach(goals: Sequence[GoalOutcome], loads: Sequence[float]) -> tuple[float, float] | None:
    """2 % around the bounds that were found, in Mpps, if a trial was there."""
    bounds = [load / 1e6 for goal in goals for load in (goal.load_fps, goal.upper_fps) if load]
    if not bounds:
        return None
    low, high = min(bounds) * 0.98, max(bounds) * 1.02
    return (low, high) if any(low <= load <= high for load in loads) else None


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """Outcomes that differ in one label only. ``name``: what they have in common, such as "pvp"."""

    name: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one chart shows. ``axis``: the label on the x axis."""

    axis: str
    series: tuple[SweepSeries, ...]


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
    common = {k: v for k, v in labels[0].items() if all(one.get(k) == v for one in labels[1:])} if labels else {}
    names = [_curve_name(own, common | {"test": ""}) for own in labels]
    if len(set(names)) < len(names):
        names = [_curve_name(own, common) for own in labels]
    series = [SweepSeries(name, tuple(group)) for name, group in zip(names, curves.values(), strict=True)]
    return [Sweep(axis, tuple(series[i : i + MOST_SERIES])) for i in range(0, len(series), MOST_SERIES)]


def _curve_name(labels: dict[str, str], common: dict[str, str]) -> str:
    always = {"topology", "frame_size", "flows", "direction"}
    return title({name: value for name, value in labels.items() if name in always or name not in common})


def sweep_chart(
    series: Sequence[SweepSeries],
    published: Sequence[PublishedSeries] = (),
    *,
    axis: str = "frame_size",
    verdicts: Verdicts = _NO_VERDICTS,
) -> Chart:
    """NDR and PDR in frames/s and bit/s per direction. Solid: no loss; dashed: with the loss that PDR allows.

    ``axis``: the label on the x axis. Published series need "frame_size". ``verdicts``: their limits are drawn.
    """
    values = {outcome.label[axis] for one in series for outcome in one.outcomes}
    values |= {str(size) for other in published for size, _ in other.points}
    places = sorted(values, key=lambda text: (not text.isdigit(), len(text), text))  # numbers rising, then mixes
    grouped = "," if axis == "flows" else ""
    names = [f"{int(t):{grouped}}" if t.isdigit() else t.replace("imix-", "IMIX\n") for t in places]
    x_axis = Axis(_AXIS_TITLES.get(axis, axis), tuple(names))
    panels = []
    for heading, unit in (("Frames per second", "Mpps"), ("Bits per second", "Gbps")):
        panel = _Sweeping(axis, places, in_bits=unit == "Gbps")
        drawn = [*_sweep_series(panel, series, published), *_sweep_limits(panel, series, verdicts)]
        panels.append(Panel(heading, x_axis, Axis(f"{unit} per direction", from_zero=True), drawn))
    return Chart(panels, 4.4)


@dataclass(frozen=True, slots=True)
class _Sweeping:
    """Where outcomes stand in a panel of a sweep."""

    axis: str
    places: Sequence[str]
    in_bits: bool

    def at(self, outcome: Outcome) -> int:
        return self.places.index(outcome.label[self.axis])

    def value(self, frame_size: float, frames_per_second: float) -> float:
        """In Gbit/s (layer 2, with FCS) or in Mpps."""
        return frames_per_second * (frame_size * 8 / 1e9 if self.in_bits else 1e-6)


def _sweep_series(
    panel: _Sweeping, series: Sequence[SweepSeries], published: Sequence[PublishedSeries]
) -> Iterator[ChartSeries]:
    for number, other in enumerate(published):
        yield _published_curve(panel, other, SYMBOLS[3:0:-1][number % 3])
    marks = set[str]()
    for number, one in enumerate(series):
        colour = SERIES[number % len(SERIES)]
        curves = [
            curve
            for name in dict.fromkeys(goal.goal.name for outcome in one.outcomes for goal in outcome.goals)
            for curve in _goal_curves(panel, one, name, colour)
        ]
        marked = set[tuple[float, str]]()  # NDR and PDR lie on each other: one mark says it for both
        for curve in curves:
            fresh = [
                label if (at, label) not in marked else "" for at, label in zip(curve.x, curve.labels, strict=True)
            ]
            marked.update(zip(curve.x, curve.labels, strict=True))
            marks.update(curve.labels)
            yield replace(curve, labels=fresh)
        without = sorted({panel.at(o) for o in one.outcomes for goal in o.goals if goal.load_fps is None})
        if without:
            yield ChartSeries(f"{one.name}: no result", without, [0.0] * len(without), colour, "x")
    roof = sorted(
        (panel.at(outcome), panel.value(outcome.mean_frame_size, outcome.ceiling_fps))
        for one in series
        for outcome in one.outcomes
        if outcome.ceiling_fps is not None
    )
    if roof:
        x, y = zip(*roof, strict=True)
        yield ChartSeries("rig's own ceiling", x, y, MUTED, "line-ew", 14)
    yield from (ChartSeries(text, (), (), MUTED) for mark, text in _MARKS.items() if mark in marks)


def _goal_curves(panel: _Sweeping, one: SweepSeries, name: str, colour: str) -> Iterator[ChartSeries]:
    """A line through numbers, such as frame sizes. Mixes have no line: nothing lies between them."""

    def hover(place: str, outcome: Outcome, goal: GoalOutcome) -> str:
        shown = goal_figures(outcome, goal.goal.name)
        return f"{place}: {shown.mpps} Mpps, {shown.gbps} Gbps<br>{shown.note}"

    found = sorted(
        (
            (panel.at(outcome), outcome, goal, seen)
            for outcome in one.outcomes
            if (goal := outcome.goal(name)) and goal.load_fps is not None and (seen := outcome.figure(name, "pps"))
        ),
        key=lambda each: each[0],
    )
    strict = name in ZERO_LOSS
    numbers = [each for each in found if panel.places[each[0]].isdigit()]
    for members, joined in ((numbers, True), ([each for each in found if each not in numbers], False)):
        if members:
            yield ChartSeries(
                f"{one.name} {name.upper()}",
                [at for at, _, _, _ in members],
                [panel.value(outcome.mean_frame_size, seen.value) for _, outcome, _, seen in members],
                colour,
                "circle" if strict else "circle-open",
                5.5 if strict else 6.5,
                line=("solid" if strict else "dash") if joined else "",
                width=1.8 if strict else 1.3,
                labels=[_sweep_mark(outcome, seen) for _, outcome, _, seen in members],
                hover=[hover(panel.places[at], outcome, goal) for at, outcome, goal, _ in members],
                links=[goal.confirmation.trial_id if goal.confirmation else None for _, _, goal, _ in members],
            )


def _sweep_limits(panel: _Sweeping, series: Sequence[SweepSeries], verdicts: Verdicts) -> Iterator[ChartSeries]:
    """The limit of each goal at each place. Curves that have the same limits share one line."""
    found: dict[_Limits, tuple[str, str]] = {}
    for number, one in enumerate(series):
        for name in dict.fromkeys(goal.goal.name for outcome in one.outcomes for goal in outcome.goals):
            points = sorted(
                (
                    panel.at(outcome),
                    panel.value(outcome.mean_frame_size, fps),
                    verdict.requirement,
                    outcome.label[panel.axis],
                )
                for outcome in one.outcomes
                for verdict in verdicts.get(outcome.labels, ())
                if verdict.metric == name and (fps := limit_fps(verdict, outcome)) is not None
            )
            if points:
                found.setdefault(tuple(points), (f"limit of {one.name} {name.upper()}", SERIES[number % len(SERIES)]))
    yield from _limit_lines(found, str.isdigit)


def _limit_lines(found: dict[_Limits, tuple[str, str]], is_number: Callable[[str], object]) -> Iterator[ChartSeries]:
    """A step at each limit, and a line through those at numbers. ``found``: name and colour of each; one needs none."""
    for limits, (name, colour) in found.items():
        shown = (name, colour) if len(found) > 1 else ("limit", LIMIT_COLOUR)
        numbers = [one for one in limits if is_number(one[3])]
        for members, joined in ((numbers, True), ([one for one in limits if one not in numbers], False)):
            if members:
                x, y, requirements, _ = zip(*members, strict=True)
                line: Dash | Literal[""] = "dot" if joined else ""
                yield ChartSeries(shown[0], x, y, shown[1], "line-ew", 14, line=line, width=1.4, hover=requirements)


def _sweep_mark(outcome: Outcome, seen: Figure) -> str:
    """``↑`` only where the rig's ceiling is drawn and was the limit."""
    mark = load_mark(seen)
    return "↑" if mark == "≥" and Why.GENERATOR in seen.why and outcome.ceiling_fps is not None else mark


def load_mark(seen: Figure) -> str:
    """``≥`` where the rig, not the DUT, ended the search; ``?`` where no trial of full length confirmed it."""
    if seen.low is None:
        return "?"
    return "≥" if seen.bound in {Bound.AT_LEAST, Bound.BETWEEN} else ""


def _published_curve(panel: _Sweeping, other: PublishedSeries, symbol: str) -> ChartSeries:
    points = sorted((panel.places.index(str(size)), size, fps) for size, fps in other.frames_per_second().items())
    values = [panel.value(size, fps) for _, size, fps in points]
    sizes, unit = [size for _, size, _ in points], "Gbps" if panel.in_bits else "Mpps"
    return ChartSeries(
        f"published: {other.name}",
        [at for at, _, _ in points],
        values,
        MUTED,
        symbol,
        line="dot",
        width=1.2,
        hover=[f"{size}: {value:.4g} {unit}<br>{other.source}" for size, value in zip(sizes, values, strict=True)],
    )


def study_chart(
    comparisons: Sequence[StudyOutcomes], verdicts: Verdicts = _NO_VERDICTS, names: Sequence[str] = ()
) -> Chart:
    """The ratio to the baseline with its interval, and the cost. All comparisons have one metric and one label.

    ``verdicts``: limits of the ratio, and of what the second panel shows, are drawn. ``names``: for the legend.
    """
    per, main = comparisons[0].per, comparisons[0].main
    places = list(dict.fromkeys(outcome.label[per] for one in comparisons for outcome in one.outcomes))
    # Between two names there is nothing, and no line.
    joined = all(re.fullmatch(r"\d+(\.\d+)?", place) for place in places)
    if joined:
        places.sort(key=float)
    metric = metric_of(main).beside or main
    heading, unit = metric_of(metric).title, metric_of(metric).unit
    unit, factor = _SCALES.get(unit, (unit, 1.0))

    def curve(number: int, points: Sequence[_StudyPoint]) -> ChartSeries:
        labels, y, below, above, marks, hover = zip(*points, strict=True)
        return ChartSeries(
            names[number] if names else comparisons[number].name,
            [places.index(label) for label in labels],
            y,
            SERIES[number % len(SERIES)],
            SYMBOLS[number % len(SYMBOLS)],
            5,
            line="solid" if joined else "",
            width=1.6,
            below=below,
            above=above,
            labels=marks,
            hover=hover,
            shift=(number - (len(comparisons) - 1) / 2) * 0.1,  # error bars beside each other, not on each other
        )

    ratios = [curve(number, _ratio_points(one)) for number, one in enumerate(comparisons)]
    found = [_metric_points(one, metric, factor) for one in comparisons]
    values = [curve(number, points) for number, points in enumerate(found) if points]
    axis = Axis(per, tuple(places))
    ratios += _study_limits(comparisons, places, verdicts, main, "ratio", 100.0)
    values += _study_limits(comparisons, places, verdicts, metric, "", factor)
    baseline = ChartRule(100, "y", MUTED, "dash", width=1)
    y_titles = "% of the baseline, with its interval", f"{unit}, median with its interval".lstrip(", ")
    # Differences are the point: from 0 they are seen only where they are large.
    small = all(min(low, default=100) > _SMALL for low in ([*one.y] for one in ratios))
    left = Panel(ratio_title(comparisons), axis, Axis(y_titles[0], from_zero=not small), ratios, (baseline,))
    return Chart((left, Panel(heading, axis, Axis(y_titles[1], from_zero=True), values)), 4.4)


def _study_limits(
    comparisons: Sequence[StudyOutcomes],
    places: Sequence[str],
    verdicts: Verdicts,
    metric: str,
    unit: str,
    factor: float,
) -> Iterator[ChartSeries]:
    """Limits of a metric; ``unit`` "ratio": of its ratio to the study's baseline, else of the metric itself."""
    found: dict[_Limits, tuple[str, str]] = {}
    for number, one in enumerate(comparisons):
        baseline = f"{{{one.per}: {one.outcomes[0].label[one.per]}}}"
        points = [
            (places.index(at := outcome.label[one.per]), verdict.limit * factor, verdict.requirement, at)
            for outcome in one.outcomes
            for verdict in verdicts.get(outcome.labels, ())
            if verdict.metric == metric and verdict.limit is not None
            if (verdict.requirement.endswith(f" of {baseline}") if unit == "ratio" else verdict.unit != "ratio")
        ]
        if points:
            found.setdefault(tuple(sorted(points)), (f"limit of {one.name}", SERIES[number % len(SERIES)]))
    yield from _limit_lines(found, partial(re.fullmatch, r"\d+(\.\d+)?"))


def ratio_title(comparisons: Sequence[StudyOutcomes]) -> str:
    per = comparisons[0].per
    baselines = {one.outcomes[0].label[per] for one in comparisons}
    return f"Ratio to {per} {baselines.pop()}" if len(baselines) == 1 else "Ratio to the baseline of each"


def _ratio_points(comparison: StudyOutcomes) -> list[_StudyPoint]:
    first = comparison.outcomes[0].label[comparison.per]
    points: list[_StudyPoint] = [(first, 100.0, 0.0, 0.0, "", f"{first}: the baseline")]
    for outcome in comparison.outcomes[1:]:
        ratio = outcome.relative(comparison.main)
        if ratio is not None:
            at = outcome.label[comparison.per]
            text = f"{at}: {ratio_text(ratio)} ({interval_text(ratio)})"
            points.append((at, ratio.ratio * 100, *whiskers(ratio), open_mark(ratio), text))
    return points


def _metric_points(comparison: StudyOutcomes, metric: str, factor: float) -> list[_StudyPoint]:
    points: list[_StudyPoint] = []
    for outcome in comparison.outcomes:
        samples = outcome.sampled(metric)
        if samples is not None:
            at, middle, ends = outcome.label[comparison.per], samples.median, median_interval(samples.values)
            reach = (middle - ends.low) * factor, (ends.high - middle) * factor
            points.append((at, middle * factor, *reach, "", f"{at}: {median_text(samples)}"))
    return points
