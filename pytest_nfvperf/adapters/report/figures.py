"""Figures that every report shows, read off outcomes and verdicts once, so that all reports agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.report.soak_words import soak_line
from pytest_nfvperf.adapters.report.studies import cores_text, interval_text, median_text, ratio_text
from pytest_nfvperf.model.display import MISSING, format_count, format_fps, format_load, format_ratio, format_seconds
from pytest_nfvperf.model.measure.observe import observation
from pytest_nfvperf.model.measure.outcome import BackToBack, GoalOutcome, LatencyPoint, LossPoint, Outcome, SearchStatus
from pytest_nfvperf.model.samples import Bound, Samples, bound_of
from pytest_nfvperf.model.sla.verdict import Judgement, Observation, Verdict

PER_DIRECTION = "Rates are per direction; Gbps counts frames with FCS (layer 2)."
GENERATOR_LIMITED = "generator-limited"
_WORST_FIRST = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.PASS)


def worst(verdicts: Iterable[Verdict]) -> Judgement | None:
    """The judgement that decides: FAIL before INCONCLUSIVE before PASS; None without verdicts."""
    given = {verdict.judgement for verdict in verdicts}
    return next((judgement for judgement in _WORST_FIRST if judgement in given), None)


def goal_seen(outcome: Outcome, name: str) -> Observation | None:
    """What a search found, as the SLA judges it, frames/s per direction; None where it found nothing."""
    return observation(outcome, name, "pps")


def bounded_text(seen: Observation, show: Callable[[float], str]) -> str:
    """``4.10``, ``≥ 4.10``, ``≤ 4.10``, ``~ 4.10``, or ``4.10 .. 4.43`` where the value is one end of an interval."""
    if seen.bound is Bound.BETWEEN:
        return " .. ".join(map(show, seen.interval))
    return seen.bound.mark + show(seen.value)


@dataclass(frozen=True, slots=True)
class GoalFigures:
    """One goal's load in the units people compare, as text; ``note`` says why a figure is missing."""

    mpps: str = MISSING
    gbps: str = MISSING
    line: str = MISSING
    note: str = ""


def goal_figures(outcome: Outcome, name: str) -> GoalFigures:
    """The figures of goal ``name`` ("ndr"), per direction; dashes when it was not searched for."""
    goal = outcome.goal(name)
    if goal is None:
        return GoalFigures()
    seen = goal_seen(outcome, name)
    if seen is None or goal.load_fps is None:
        return GoalFigures(mpps=_without_load(goal), note=goal.detail)
    return GoalFigures(
        mpps=bounded_text(seen, in_mpps),
        gbps=digits(gbps(outcome, seen.value)),
        line=format_line_share(seen.value, outcome.line_rate_fps),
        note=goal_note(goal),
    )


def plateau_figures(outcome: Outcome) -> GoalFigures:
    """The forwarding rate beside a search, per direction, with its interval; dashes where there is none."""
    seen = plateau_seen(outcome)
    if seen is None:
        return GoalFigures()
    interval = ""
    if seen.low is not None and seen.high is not None:
        interval = f"{digits(seen.low / 1e6)} .. {digits(seen.high / 1e6)} Mpps at 95 %"
    return GoalFigures(
        mpps=bounded_text(seen, in_mpps),
        gbps=digits(gbps(outcome, seen.value)),
        line=format_line_share(seen.value, outcome.line_rate_fps),
        note="; ".join(filter(None, (seen.bound_reason, interval, seen.confidence))),
    )


def plateau_seen(outcome: Outcome) -> Observation | None:
    """The forwarding rate beside a search, as an SLA judges it, frames/s per direction; None where there is none."""
    return observation(outcome, "forwarding_rate", "pps") if outcome.plateaus else None


def _without_load(goal: GoalOutcome) -> str:
    return {SearchStatus.BELOW_MINIMUM: "< minimum", SearchStatus.ABORTED: "aborted"}.get(goal.status, MISSING)


def goal_note(goal: GoalOutcome) -> str:
    """What a goal's load rests on: confirmation, bound, detail."""
    parts = [GENERATOR_LIMITED] if goal.generator_limited else []
    confirmation = goal.confirmation
    if confirmation is not None:
        how = "confirmed" if confirmation.passed else "NOT confirmed"
        loss = format_ratio(confirmation.loss_ratio)
        at = "" if confirmation.load_fps == goal.load_fps else f" at {format_fps(confirmation.load_fps)}"
        parts.append(f"{how}{at} by {format_seconds(confirmation.duration_s)}, loss {loss}")
    return "; ".join([*parts, *filter(None, (goal.detail, goal.spoiled))])


def gbps(outcome: Outcome, frames_per_second: float) -> float:
    """Layer-2 Gbit/s with FCS of a rate of the outcome's traffic."""
    return frames_per_second * outcome.mean_frame_size * 8 / 1e9


def format_line_share(frames_per_second: float, line_rate_fps: float | None) -> str:
    """Share of line rate, ``24.3 %``; a dash on ports that have none."""
    return MISSING if line_rate_fps is None else f"{frames_per_second / line_rate_fps * 100:.1f} %"


def digits(value: float) -> str:
    """About three significant digits without a unit: 7.23, 14.14, 0.0502, 123."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def in_mpps(frames_per_second: float) -> str:
    """About three significant digits, without the unit."""
    return digits(frames_per_second / 1e6)


def typical_latency(outcome: Outcome) -> LatencyPoint | None:
    """The latency that a summary shows: at half of the PDR where measured, else the middle point."""
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


def other_result(outcome: Outcome) -> str:
    """One line for an outcome that is not a search: a loss curve, a burst, trials at given loads."""
    if outcome.soak is not None:
        return soak_line(outcome.soak)
    if outcome.samples:
        line = times_line(outcome) if is_of_times(outcome) else sampled_line(outcome)
        return line if outcome.sessions is None else f"{line}, {format_count(outcome.sessions.flaps, 'flaps')}"
    if outcome.back_to_back is not None:
        return _burst_line(outcome.back_to_back)
    if outcome.loss_curve:
        return _loss_line(outcome.loss_curve)
    if outcome.latency:
        return "latency at " + ", ".join(point.at for point in outcome.latency)
    return "not measured: " + ", ".join(metric for metric, _ in outcome.missing) if outcome.missing else MISSING


def _burst_line(burst: BackToBack) -> str:
    """``mean burst 1,204 frames``, with ``≥`` where longer ones were not lossless for the rig's sake."""
    mark = bound_of(burst.mean_burst_frames, lower=burst.unlimited or bool(burst.at_least), upper=False).mark
    buffer = "" if burst.corrected_buffer_s is None else f", buffer {format_seconds(burst.corrected_buffer_s)}"
    return f"mean burst {mark}{burst.mean_burst_frames:,.0f} frames{buffer}"


def is_of_times(outcome: Outcome) -> bool:
    """True for readings that are times alone, such as those of convergence: nothing is compared in them."""
    return bool(outcome.samples) and all(samples.unit == "s" for samples in outcome.samples)


def times_line(outcome: Outcome) -> str:
    """``withdrawal 77.0 ms (sent 1.02 ms, flow 76.8 ms), outage none, survival at least 4.00 s``: medians.

    In brackets the steps of a time: those of metrics that are called after its own.
    """
    times = {samples.metric.removesuffix("_time"): samples for samples in outcome.samples}
    steps = {name: whole for name in times for whole in times if name.startswith(f"{whole}_")}
    return ", ".join(
        _time(name, times[name])
        + _in_brackets([_time(s.removeprefix(name), times[s]) for s in steps if steps[s] == name])
        for name in times
        if name not in steps
    )


def _time(name: str, samples: Samples) -> str:
    bound = f"{samples.bound} " if samples.bound else ""
    value = f"{bound}{format_seconds(samples.median)}" if samples.median else "none"
    return f"{name.replace('_', ' ').strip()} {value}"


def _in_brackets(parts: Sequence[str]) -> str:
    return f" ({', '.join(parts)})" if parts else ""


def sampled_line(outcome: Outcome) -> str:
    """``5.64 Mpps, 98.4 % (97.1 .. 99.6 %) of bridges 1, 231 cycles``: medians, and the ratio of the first metric."""
    main = outcome.samples[0]
    parts = [median_text(main)]
    ratio = outcome.relative(main.metric)
    if ratio is not None:
        baseline = " ".join(f"{name} {value}" for name, value in ratio.baseline)
        parts.append(f"{ratio_text(ratio)} ({interval_text(ratio)}) of {baseline}")
    cycles = outcome.sampled("cycles_per_packet")
    if cycles is not None:
        parts.append(f"{cycles.median:.0f} cycles per packet")
    if outcome.sampled("sender_cores") is not None:
        parts.append(f"{cores_text(outcome)} cores")
    cost = outcome.sampled("cpu_per_gigabit")
    if cost is not None:
        parts.append(median_text(cost))
    return ", ".join(parts)


def _loss_line(points: Sequence[LossPoint]) -> str:
    """``no loss at 4.00 Mpps, 12.1 % at 5.00 Mpps``; of a load that was not offered only that it was not."""
    held = [point for point in points if not point.short]
    not_held = [f"not measured at {format_load(each.load_fps, each.offered_fps)}" for each in points if each.short]
    if not held:
        return ", ".join(not_held)
    clean = [point for point in held if point.loss_ratio == 0]
    most = max(held, key=lambda point: point.loss_ratio)
    best = max(clean, key=lambda point: point.load_fps, default=None)
    parts = ["loss at every load" if best is None else f"no loss at {format_load(best.load_fps, best.offered_fps)}"]
    if most.loss_ratio != 0:
        mark = bound_of(most.loss_ratio, lower=False, upper=bool(most.at_most)).mark
        parts.append(f"{mark}{format_ratio(most.loss_ratio)} at {format_load(most.load_fps, most.offered_fps)}")
    return ", ".join([*parts, *not_held])
