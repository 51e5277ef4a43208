"""Figures that every report shows, read off outcomes and verdicts once, so that all reports agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.subjects import cores_text, interval_text, median_text, ratio_text, worst_share_text
from pytest_nfvperf.model.display import (
    MISSING,
    TableColumn,
    format_connections,
    format_count,
    format_fps,
    format_load,
    format_ns,
    format_ratio,
    format_seconds,
    format_value,
    how_many,
    in_connections,
)
from pytest_nfvperf.model.evidence.records import Span
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.outcome import GoalOutcome, LatencyPoint, Outcome, SearchStatus, loss_bound_text
from pytest_nfvperf.model.measure.soak import DisturbedInterval, Drift, Soak
from pytest_nfvperf.model.metrics import METRICS, metric_of
from pytest_nfvperf.model.sla.rules import load_in_fps, normal_load_name, show_load
from pytest_nfvperf.model.statistics import Bound, Samples

PER_DIRECTION = "Rates are per direction; Gbps counts frames with FCS (layer 2)."
_ADJACENT_S = 0.05
"""Intervals follow one another if no more than this is between them."""


def bounded_text(seen: Figure, show: Callable[[float], str]) -> str:
    """``4.10``, ``≥ 4.10``, ``≤ 4.10``, ``~ 4.10``; an interval as ``4.10 .. 4.43``."""
    if seen.bound is Bound.BETWEEN:
        return " .. ".join(map(show, seen.interval))
    return seen.bound.mark + show(seen.value)


def whole_figures(outcome: Outcome) -> list[Figure]:
    """Figures of all traffic that belong to no load, in their base unit; of deliveries those that went wrong."""
    searched = {goal.goal.name for goal in outcome.goals} | ({"forwarding_rate"} if outcome.goals else set())
    figures = ((figure, metric_of(figure.metric)) for figure in outcome.figures if figure.metric not in searched)
    return [
        figure
        for figure, metric in figures
        if figure.at is None and not figure.of_class
        if metric.unit in {"", figure.unit} and (figure.value or metric.default_limit is None)
    ]


def listed_figures(outcome: Outcome) -> list[Figure]:
    """Those that have no table or chart of their own, unlike a study's readings and a soak's trends."""
    elsewhere = {samples.metric for samples in outcome.samples} | {f"{slope.metric}_slope" for slope in outcome.slopes}
    elsewhere |= {drift.metric for drift in outcome.soak.drifts} if outcome.soak else set()
    return [seen for seen in whole_figures(outcome) if seen.metric not in elsewhere]


def figure_text(seen: Figure) -> str:
    return bounded_text(seen, lambda value: format_value(value, seen.unit))


def metric_columns(outcomes: Iterable[Outcome]) -> dict[str, TableColumn]:
    """Columns of the metrics that have one and that some outcome has, in tables of outcomes."""
    each = tuple(outcomes)
    return {
        name: TableColumn(metric.column, right=True, optional=metric.optional)
        for name, metric in METRICS.items()
        if metric.column and any(cell_of_metric(outcome, name) != MISSING for outcome in each)
    }


def cell_of_metric(outcome: Outcome, name: str) -> str:
    """The median of its readings, or its one figure; without a unit that the column's heading has."""
    samples, metric = outcome.sampled(name), metric_of(name)

    def shown(value: float) -> str:
        return f"{value:,.0f}" if metric.unit in metric.column else format_value(value, metric.unit)

    if samples is not None:
        return worst_share_text(samples) if samples.by_worst else samples.bound.mark + shown(samples.median)
    return next((bounded_text(seen, shown) for seen in listed_figures(outcome) if seen.metric == name), MISSING)


@dataclass(frozen=True, slots=True)
class GoalFigures:
    """One goal's load, as text. ``note``: what it rests on, or why it is missing."""

    mpps: str = MISSING
    gbps: str = MISSING
    line: str = MISSING
    note: str = ""


def goal_figures(outcome: Outcome, name: str) -> GoalFigures:
    """The figures of goal ``name`` ("ndr"), per direction; dashes if it was not searched for."""
    goal = outcome.goal(name)
    if goal is None:
        return GoalFigures()
    seen = outcome.figure(name, "pps")
    if seen is None or goal.load_fps is None:
        why = {SearchStatus.BELOW_MINIMUM: "< minimum", SearchStatus.ABORTED: "aborted"}.get(goal.status, MISSING)
        return GoalFigures(mpps=why, note=goal.detail)
    return _rate_figures(outcome, seen, goal_note(goal, seen))


def plateau_figures(outcome: Outcome) -> GoalFigures:
    seen = plateau(outcome)
    if seen is None:
        return GoalFigures()
    interval = ""
    if seen.low is not None and seen.high is not None:
        interval = f"{digits(seen.low / 1e6)} .. {digits(seen.high / 1e6)} Mpps at 95 %"
    return _rate_figures(outcome, seen, "; ".join(filter(None, (seen.detail, interval, seen.confidence))))


def _rate_figures(outcome: Outcome, seen: Figure, note: str) -> GoalFigures:
    gbps = outcome.bits_per_second(seen.value) / 1e9  # layer 2, with FCS
    line_fps = outcome.line_rate_fps
    share = MISSING if line_fps is None else f"{seen.value / line_fps * 100:.1f} %"
    return GoalFigures(bounded_text(seen, lambda fps: digits(fps / 1e6)), digits(gbps), share, note)


def plateau(outcome: Outcome) -> Figure | None:
    """The forwarding rate beside a search, frames/s per direction; None if there is none."""
    return outcome.figure("forwarding_rate", "pps") if outcome.goals else None


def goal_note(goal: GoalOutcome, figure: Figure) -> str:
    confirmation = goal.confirmation
    failed = confirmation is not None and not confirmation.passed  # the detail says no more than what follows
    parts = [figure.detail] if figure.detail and not failed else []
    if confirmation is not None:
        how = "confirmed" if confirmation.passed else "NOT confirmed"
        loss = format_ratio(confirmation.loss_ratio)
        where = "" if confirmation.load_fps == goal.load_fps else f" at {format_fps(confirmation.load_fps)}"
        parts.append(f"{how}{where} by {format_seconds(confirmation.duration_s)}, loss {loss}")
    return "; ".join([*parts, *([goal.detail] if goal.detail and goal.detail not in figure.detail else [])])


def digits(value: float) -> str:
    """About three significant digits without a unit: 7.23, 14.14, 0.0502, 123."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def typical_latency(outcome: Outcome) -> LatencyPoint | None:
    """The latency that a summary shows: at half of the PDR if measured, else the middle point."""
    half = [point for point in outcome.latency if point.at.startswith("50 %")]
    points = half or list(outcome.latency)
    return points[len(points) // 2] if points else None


def proven_loss(lost: int, offered: int) -> str:
    """What a loss count proves: none lost of N says that the ratio is below 3/N at 95 % (the rule of three)."""
    if offered == 0:
        return "nothing was offered: says nothing"
    if lost == 0:
        return f"0 lost of {offered:,}: loss ratio below {3 / offered:.1e} at 95 %"
    if lost < 0:
        return f"{-lost:,} more received than the {offered:,} offered: the rig miscounted"
    return f"{lost:,} lost of {offered:,}: {format_ratio(lost / offered)}"


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class of a mix at one load, as text. ``of_load``: its share, or its fixed load."""

    name: str
    frames: str
    of_load: str
    at: str
    rate: str
    lost: str
    p50: str
    p99: str
    lossy: bool
    trial_id: str


def class_figures(outcome: Outcome) -> list[ClassFigures]:
    """A row for each class and load, in the order of the loads; empty if no mix was sent."""
    rows: list[ClassFigures] = []
    for of_class in outcome.classes:
        format_rate = format_connections if of_class.is_conversation else format_fps
        of_load = format_ratio(of_class.share) if of_class.fixed_fps is None else format_rate(of_class.fixed_fps)
        about = {"name": of_class.name, "frames": of_class.traffic, "of_load": of_load}
        latency = {normal_load_name(point.at, point.load_fps): point for point in of_class.latency}
        losses = {loss.at: loss for loss in of_class.losses}
        for load_name in dict.fromkeys((*losses, *latency)):
            loss, point = losses.get(load_name), latency.get(load_name)
            load = (
                loss.load_fps if loss is not None else outcome.class_load_fps(of_class, point.load_fps if point else 0)
            )
            lost = MISSING
            if loss is not None:
                figure = outcome.figure("lost_frames", at=load_name, of_class=of_class.name)
                certain = figure is not None and figure.low == figure.high
                least = "" if figure is None or certain or figure.high is None else f"{figure.interval[0]:,.0f} .. "
                lost = f"{least}{loss.lost_frames:,} of {loss.offered_frames:,}"
            rows.append(
                ClassFigures(
                    **about,
                    at=show_load(load_name),
                    rate=format_rate(load),
                    lost=lost,
                    p50=format_ns(None if point is None else point.p50_ns),
                    p99=format_ns(None if point is None else point.p99_ns),
                    lossy=loss is not None and loss.lost_frames > 0,
                    trial_id=loss.trial_id if loss is not None else point.trial_id if point is not None else "",
                )
            )
        medians = {samples.metric: samples.median for samples in of_class.samples}
        if medians:
            rows.append(
                ClassFigures(
                    **about,
                    at="median",
                    rate=format_rate(medians["forwarding_rate"]) if "forwarding_rate" in medians else MISSING,
                    lost=MISSING,
                    p50=format_ns(medians.get("load_latency_p50")),
                    p99=format_ns(medians.get("load_latency_p99")),
                    lossy=False,
                    trial_id=of_class.samples[0].evidence[0],
                )
            )
    ats = list(dict.fromkeys(row.at for row in rows))
    return sorted(rows, key=lambda row: ats.index(row.at))


def class_line(outcome: Outcome) -> str:
    """``video lost 4,000 of 400,000, voice 0 .. 2 of 100``; "" without a mix, or if no class lost anything."""
    return ", ".join(f"{row.name} lost {row.lost}" for row in class_figures(outcome) if row.lossy)


def other_result(outcome: Outcome) -> str:
    """One line for an outcome that is not a search: a loss curve, a burst, trials at given loads."""
    if outcome.soak is not None:
        return loads_text(outcome, soak_line(outcome.soak))
    if outcome.samples:
        line = times_line(outcome) if is_of_times(outcome) else sampled_line(outcome)
        return line if outcome.sessions is None else f"{line}, {format_count(outcome.sessions.flaps, 'flaps')}"
    if outcome.back_to_back is not None:
        burst = outcome.back_to_back
        mark = bound_mark(outcome.figure("back_to_back_frames"))
        buffer = "" if burst.corrected_buffer_s is None else f", buffer {format_seconds(burst.corrected_buffer_s)}"
        return f"mean burst {mark}{burst.mean_burst_frames:,.0f} frames{buffer}"
    if outcome.loss_curve:
        return loads_text(outcome, _loss_line(outcome))
    rate, point = outcome.figure("connection_rate"), typical_latency(outcome)
    if rate is not None:
        texts = [figure_text(rate), *([] if point is None else [f"p99 {format_ns(point.p99_ns)} at {point.at}"])]
    elif point is not None:
        texts = ["latency at " + ", ".join(point.at for point in outcome.latency)]
    else:
        texts = [f"{metric_of(figure.metric).title} {figure_text(figure)}" for figure in listed_figures(outcome)]
    return ", ".join(texts) or ("not measured: " + ", ".join(outcome.missing) if outcome.missing else MISSING)


def loads_text(outcome: Outcome, text: str) -> str:
    """A text with loads and counts of this outcome, which of a conversation are those of connections."""
    metrics = {*outcome.missing, *(figure.metric for figure in outcome.figures)}
    return (
        in_connections(text) if metrics & {"connection_rate", "failed_connections", "concurrent_connections"} else text
    )


def is_of_times(outcome: Outcome) -> bool:
    """True if all readings are times, such as those of convergence: they are not compared."""
    return bool(outcome.samples) and all(samples.unit == "s" for samples in outcome.samples)


def times_line(outcome: Outcome) -> str:
    """``withdrawal 77.0 ms (sent 1.02 ms, flow 76.8 ms), outage none, survival at least 4.00 s``: medians.

    A time's steps are in brackets: metrics whose names begin with its own.
    """
    times = {samples.metric.removesuffix("_time"): samples for samples in outcome.samples}
    steps = {name: whole for name in times for whole in times if name.startswith(f"{whole}_")}

    def shown(name: str, samples: Samples) -> str:
        bound = f"{samples.bound} " if samples.bound else ""
        value = f"{bound}{format_seconds(samples.median)}" if samples.median else "none"
        return f"{name.replace('_', ' ').strip()} {value}"

    parts = []
    for name in (name for name in times if name not in steps):
        own = ", ".join(shown(step.removeprefix(name), times[step]) for step, whole in steps.items() if whole == name)
        parts.append(shown(name, times[name]) + (f" ({own})" if own else ""))
    return ", ".join(parts)


def sampled_line(outcome: Outcome) -> str:
    """``5.64 Mpps, 98.4 % (97.1 .. 99.6 %) of bridges 1, 231 PMD cycles per packet``: medians."""
    main = outcome.samples[0]
    parts = [median_text(main)]
    ratio = outcome.relative(main.metric)
    if ratio is not None:
        baseline = " ".join(f"{name} {value}" for name, value in ratio.baseline)
        parts.append(f"{ratio_text(ratio)} ({interval_text(ratio)}) of {baseline}")
    shown = (name for name in metric_columns([outcome]) if name != main.metric)
    parts += [f"{cell_of_metric(outcome, name)} {metric_of(name).title}" for name in shown]
    if outcome.sampled("sender_cores") is not None:
        parts.append(f"{cores_text(outcome)} cores")
    cost = outcome.sampled("cpu_per_gigabit")
    if cost is not None:
        parts.append(median_text(cost))
    return ", ".join(parts)


def bound_mark(seen: Figure | None) -> str:
    """``≥ ``, ``≤ `` or ``~ `` of a figure that is only a bound."""
    return "" if seen is None else seen.bound.mark


def _loss_line(outcome: Outcome) -> str:
    """``no loss at 4.00 Mpps, 12.1 % at 5.00 Mpps``, and the loads that could not be offered."""
    offered = outcome.offered_losses
    short = [each for each in outcome.loss_curve if each not in offered]
    not_offered = [f"not measured at {format_load(each.load_fps, each.offered_fps)}" for each in short]
    if not offered:
        return ", ".join(not_offered)
    clean = [point for point in offered if point.loss_ratio == 0]
    most = max(offered, key=lambda point: point.loss_ratio)
    best = max(clean, key=lambda point: point.load_fps, default=None)
    parts = ["loss at every load" if best is None else f"no loss at {format_load(best.load_fps, best.offered_fps)}"]
    if most.loss_ratio != 0:
        mark = bound_mark(outcome.figure("loss_ratio", at=load_in_fps(most.load_fps)))
        parts.append(f"{mark}{format_ratio(most.loss_ratio)} at {format_load(most.load_fps, most.offered_fps)}")
    return ", ".join([*parts, *not_offered])


def soak_line(soak: Soak) -> str:
    """``60.0 s at 4.00 Mpps: 0 lost of 480,000,000: ...``, and what speaks against it."""
    ended = f"{format_seconds(soak.elapsed_s)} at {format_fps(soak.load_fps)}"
    if soak.interrupted:
        ended += f" ({soak.interrupted})"
    against = [f"{how_many(soak.disturbed_count, 'interval')} disturbed"] if soak.disturbed_count else []
    against += [how_many(soak.flap_count, "flap")] if soak.flap_count else []
    against += [f"{how_many(soak.missing_intervals, 'sample')} missing"] if soak.missing_intervals else []
    return "; ".join([f"{ended}: {_loss(soak)}", *against])


def soak_facts(soak: Soak) -> list[tuple[str, str]]:
    disturbed = f"{soak.disturbed_count} of {soak.intervals} intervals"
    if soak.disturbed_count:
        disturbed += f", {soak.disturbed_interval_lost:,} frames lost in them"
    if soak.disturbed_lost:
        disturbed += f"; {soak.disturbed_lost:,} lost in disturbed windows of others"
    sessions = f"{len(soak.sessions)} watched, {how_many(soak.flap_count, 'flap')}" if soak.sessions else "none watched"
    facts = [
        ("time", f"{format_seconds(soak.elapsed_s)} of {format_seconds(soak.planned_s)}"),
        ("load", f"{format_fps(soak.load_fps)} per direction, {soak.skipped:,} frames not sent by the generator"),
        ("loss", f"{_loss(soak)}, in {soak.lossy_count} of {soak.intervals} intervals"),
        ("disturbed by the rig", disturbed),
        ("samples", f"{soak.intervals}, one each {format_seconds(soak.interval_s)}; {soak.missing_intervals} missing"),
        ("sessions", sessions),
        *((metric_of(drift.metric).title, drift_text(drift)) for drift in soak.drifts),
    ]
    if soak.interrupted:
        facts.append(("ended early", soak.interrupted))
    return [*facts, *(("against the run", fault) for fault in soak.rig_faults)]


def soak_events(soak: Soak) -> Iterator[str]:
    """Everything that happened at a time, in order; then how many events are not listed."""
    events = list(_disturbed_events(soak.disturbed))
    events += [(one.start_s, f"{_span(one.start_s, one.end_s)}: {one.lost:,} frames lost") for one in soak.lossy]
    for gap in soak.gaps:
        why = f"no samples of {gap.source}: {gap.reason or 'nobody knows why'}"
        events.append((gap.start_s, f"{_span(gap.start_s, gap.end_s)}: {why}"))
    events += [(one.at_s, f"{one.at_s:.1f} s: session {one.session} {one.what}") for one in soak.flaps]
    yield from (text for _, text in sorted(events))
    for kind, count, shown in (
        ("lossy intervals", soak.lossy_count, len(soak.lossy)),
        ("disturbed intervals", soak.disturbed_count, len(soak.disturbed)),
        ("gaps", soak.gap_count, len(soak.gaps)),
        ("flaps", soak.flap_count, len(soak.flaps)),
    ):
        if count > shown:
            yield f"and {count - shown} more {kind}: see the file of samples"


def _disturbed_events(disturbed: Sequence[DisturbedInterval]) -> Iterator[tuple[float, str]]:
    """One line for intervals that follow one another, with each reason once: a rig is disturbed for minutes."""
    rows: list[list[DisturbedInterval]] = []
    for interval in disturbed:
        if rows and interval.start_s - rows[-1][-1].end_s < _ADJACENT_S:
            rows[-1].append(interval)
        else:
            rows.append([interval])
    for row in rows:
        why = row[0].reason
        if len(row) > 1:
            alike: dict[str, list[str]] = {}  # reasons that differ in their figures only
            for interval in row:
                alike.setdefault(re.sub(r"\d[\d,.]*", "", interval.reason), []).append(interval.reason)
            most = sorted(alike.values(), key=len, reverse=True)
            said = (
                f"{len(reasons)} such as “{reasons[0]}”" if len(reasons) > 1 else f"1, “{reasons[0]}”"
                for reasons in most
            )
            why = f"{len(row)} intervals: {'; '.join(said)}"
        yield row[0].start_s, f"{_span(row[0].start_s, row[-1].end_s)}: disturbed by the rig: {why}"


def drift_text(drift: Drift) -> str:
    """``+0.01 % (-0.02 % .. +0.04 %)``: change over the soak with its interval."""

    def signed(value: float) -> str:
        shown = f"{value * 100:.2f} %" if drift.unit == "ratio" else format_value(value, drift.unit)
        return shown if value < 0 else f"+{shown}"

    interval = f"{signed(drift.low)} .. {signed(drift.high)}"
    return f"{signed(drift.value)} ({interval}), Mann-Kendall p {drift.p_value:.2g}"


def _loss(soak: Soak) -> str:
    if not soak.offered:
        return "no interval says anything about loss"
    return loss_bound_text(soak.lost / soak.offered, soak.offered)


def _span(start_s: float, end_s: float) -> str:
    return f"{start_s:.1f} .. {end_s:.1f} s"


def time_table(run: RunEvidence) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """What tests spent their time on: headings; node id, name and seconds of each that noted it; at last their sum."""
    spent = [(node_id, one.end.times) for node_id, one in run.tests.items() if one.end is not None and one.end.times]
    spent.sort(key=lambda noted: -sum(noted[1].values()))
    spans = [span for span in Span if any(span in times for _, times in spent)]
    spent += [("", {span: sum(times.get(span, 0.0) for _, times in spent) for span in spans})] if spent else []
    rows = []
    for node_id, times in spent:
        file, _, test = node_id.partition("::")
        name = f"{Path(file).parent.name}/{test.removeprefix('test_')}" if test else how_many(len(spent) - 1, "test")
        shown = [f"{times[span]:.1f}" if span in times else MISSING for span in spans]
        rows.append((node_id, name, [f"{sum(times.values()):.1f}", *shown]))
    return ["seconds", *(span.replace("_", "-") for span in spans)], rows
