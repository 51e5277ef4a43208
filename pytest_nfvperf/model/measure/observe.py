"""Makes the observations that an SLA judges from outcomes and soaks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds, how_many
from pytest_nfvperf.model.measure.cpu_account import as_bound, shares_cpus
from pytest_nfvperf.model.measure.hw_offload import OFFLOADED_FLOWS, FlowPlace
from pytest_nfvperf.model.measure.outcome import (
    NOT_CONFIRMED,
    ClassLoss,
    ClassOutcome,
    Confirmation,
    Cost,
    GoalOutcome,
    LatencyPoint,
    Outcome,
    SearchStatus,
    loss_bound_text,
)
from pytest_nfvperf.model.measure.soak import Drift, Soak
from pytest_nfvperf.model.sla.rules import load_in_fps, normal_load_name, share_of_goal
from pytest_nfvperf.model.sla.verdict import Observation
from pytest_nfvperf.model.statistics import Samples, Slope, median_interval

DELIVERIES = {f"{kind}_ratio": kind for kind in ("duplicated", "misdirected", "corrupted")}
DELIVERIES |= {"reordered_ratio": "out_of_order"}
"""Metrics of frames that did not come once, to their port, unchanged and in order, with the counts of each."""

DRIFTS = ("rate_change", "latency_p99_change", "cycles_change", "memory_growth")

_OF_ALL_INTERVALS = frozenset({"rate_change", "memory_growth"})
"""Trends that use disturbed intervals, too: see ``summarise``."""

FEWEST_REPEATS = 2
"""With this many searches a figure has an interval."""

CYCLES = "cycles_per_packet"
RSS_IMBALANCE = "rss_imbalance"
_NO_QUEUES = "no port took frames on several receive queues"
_NOT_SATURATED = (
    "no trial was at saturation: below it a poll-mode thread counts each poll that finds a frame as busy, and "
    "the figure would be the cycles that it had"
)

LATENCIES = ("min", "p50", "p90", "p99", "p999", "max")
_FEWEST_SAMPLES = {"p50": 2, "p90": 10, "p99": 100, "p999": 1000}
"""With fewer samples the percentile is their maximum, and therefore a lower bound."""

_RATE_UNITS = ("pps", "bps", "line_ratio")


def soak_observations(soak: Soak, evidence: tuple[str, ...] = ()) -> Iterator[Observation]:
    """Every figure of a soak; ``evidence``: ids of its trials.

    The losses of a soak that ended early are a lower bound. If the rig disturbed too many intervals of a whole soak,
    the DUT's losses are between those of the other intervals and all losses.
    """
    yield from _soak_losses(soak, evidence)
    sampled = how_many(soak.intervals, "sample")
    sampled += f", {soak.missing_intervals} missing" if soak.missing_intervals else ""
    count = float(soak.missing_intervals + soak.unexplained)
    gaps = Observation("sample_gaps", count, "times", confidence=sampled, evidence=evidence)
    yield gaps if soak.is_whole else _bounded(gaps, soak)
    if soak.sessions:
        watched = f"{how_many(len(soak.sessions), 'session')} watched: {', '.join(soak.sessions)}"
        flaps = Observation("session_flaps", float(soak.flap_count), "times", confidence=watched, evidence=evidence)
        yield flaps if soak.is_whole and not soak.flap_count else _bounded(flaps, soak)
    counted = how_many(soak.intervals, "interval")
    yield Observation("spoiled_ratio", soak.disturbed_ratio, "ratio", confidence=counted, evidence=evidence)
    if soak.sampling_cores is not None:
        yield Observation("sampling_cores", soak.sampling_cores, "cores", evidence=evidence)
    for drift in soak.drifts:
        if _is_conclusive(soak, drift):
            trend = f"Theil-Sen over {drift.points} points, Mann-Kendall p {drift.p_value:.2g}, interval at 95 %"
            seen = Observation(drift.metric, drift.value, drift.unit, confidence=trend, evidence=evidence)
            yield replace(seen, low=drift.low, high=drift.high)


def soak_unmeasured(soak: Soak) -> dict[str, str]:
    measured = {drift.metric for drift in soak.drifts}
    conclusive = {drift.metric for drift in soak.drifts if _is_conclusive(soak, drift)}
    missing = dict.fromkeys(set(DRIFTS) - measured, "too few samples, or the testbed does not tell it")
    if soak.bound_reason:
        missing |= dict.fromkeys(set(DRIFTS) - conclusive, f"no trend over the whole time: {soak.bound_reason}")
    if not soak.offered and not soak.is_whole:
        missing |= dict.fromkeys(("loss_ratio", "lost_frames"), f"no interval says anything: {soak.bound_reason}")
    if not soak.sessions:
        missing["session_flaps"] = "no session was watched"
    return missing


def _is_conclusive(soak: Soak, drift: Drift) -> bool:
    return not soak.bound_reason or (soak.is_whole and drift.metric in _OF_ALL_INTERVALS)


def _soak_losses(soak: Soak, evidence: tuple[str, ...]) -> Iterator[Observation]:
    if soak.offered < 1 and not soak.is_whole:
        return
    ratio = soak.lost / soak.offered if soak.offered else 0.0
    proven = [loss_bound_text(ratio, soak.offered)] if soak.offered else []
    disturbed = "no interval disturbed by the rig"
    if soak.disturbed_count:
        counted = f"{soak.disturbed_count} of {soak.intervals} intervals disturbed by the rig"
        disturbed = f"{counted} ({soak.disturbed_interval_lost:,} lost in them)"
    if soak.disturbed_lost:
        disturbed += f"; {soak.disturbed_lost:,} more lost while the machine disturbed others"
    proof = "; ".join([*proven, f"{format_seconds(soak.elapsed_s)}, {disturbed}"])
    at = load_in_fps(soak.load_fps)
    all_lost, all_offered = soak.all_lost, soak.offered + soak.disturbed_interval_offered
    for metric, value, most, unit in (
        ("lost_frames", float(soak.lost), float(all_lost), "frames"),
        ("loss_ratio", ratio, all_lost / all_offered, "ratio"),
    ):
        seen = Observation(metric, value, unit, at, confidence=proof, evidence=evidence)
        if soak.bound_reason and soak.is_whole:
            yield replace(seen, low=min(value, most), high=max(value, most), bound_reason=soak.bound_reason)
        else:
            yield _bounded(seen, soak)


def _bounded(seen: Observation, soak: Soak) -> Observation:
    """Make it a lower bound if the soak cannot be judged over its whole time."""
    return replace(seen, lower_bound=bool(soak.bound_reason), bound_reason=soak.bound_reason)


@lru_cache(maxsize=4096)  # a report asks for the figures of each outcome twenty times
def observations(outcome: Outcome) -> tuple[Observation, ...]:
    """Every figure of the outcome, in base units. An aborted search has none: see :func:`unmeasured`.

    A goal has pps, bps (layer 2, with FCS) and, if ports have a line rate, line_ratio; all per direction. Rates of
    nodes that share CPUs are lower bounds.
    """
    found: tuple[Observation, ...] = (
        *(seen for goal in outcome.goals for seen in _of_goal(goal, outcome)),
        *(seen for goal in outcome.goals for seen in _of_confirmation(goal, outcome)),
        *(seen for point in outcome.latency for seen in _of_latency(point)),
        *_of_loss(outcome),
        *_of_back_to_back(outcome),
        *(_of_cost(outcome.cost, outcome) if outcome.cost else ()),
        *(seen for samples in outcome.samples for seen in _of_samples(samples, outcome)),
        *(seen for slope in outcome.slopes for seen in _of_slope(slope)),
        *(soak_observations(outcome.soak, outcome.trials) if outcome.soak else ()),
        *_of_offload(outcome),
        *_of_sessions(outcome),
        *_of_plateaus(outcome),
        *_of_queues(outcome),
        *outcome.deliveries,
    )
    found = (*found, *(seen for each in outcome.classes for seen in _of_class(each, outcome, found)))
    found = tuple(replace(seen, cores=outcome.cores) if seen.unit in _RATE_UNITS else seen for seen in found)
    if outcome.dut_counted:
        counted = f"the DUT counted {'; '.join(outcome.dut_counted)}"
        found = tuple(replace(seen, confidence="; ".join(filter(None, (seen.confidence, counted)))) for seen in found)
    return tuple(as_bound(seen) for seen in found) if shares_cpus(outcome.label) else found


def observation(outcome: Outcome, metric: str, unit: str) -> Observation | None:
    """The figure of all traffic; None if there is none."""
    found = (seen for seen in observations(outcome) if (seen.metric, seen.unit) == (metric, unit))
    return next((seen for seen in found if not seen.of_class), None)


def unmeasured(outcome: Outcome) -> dict[str, str]:
    missing = _queues_unmeasured(outcome) | dict(outcome.missing)
    for goal in outcome.goals:
        if not any(True for _ in _of_goal(goal, outcome)):
            missing[goal.goal.name] = f"search {goal.status.replace('_', ' ')}: {goal.detail or 'no detail'}"
    for loss in outcome.loss_curve:
        if loss.short:  # unless a loss is certain, which is observed
            missing |= dict.fromkeys(("loss_ratio", "lost_frames"), loss.short)
    for point in outcome.latency:
        for name in LATENCIES:
            if getattr(point, f"{name}_ns") is None:
                missing[f"latency_{name}"] = point.disturbed or f"no latency samples at {point.at}"
    cost = outcome.cost
    if cost is not None and cost.pmd_cycles_per_packet is None and cost.pmd_busy_ratio is not None:
        missing[CYCLES] = _NOT_SATURATED
    if outcome.offload is not None and outcome.offload.ratio is None:
        missing[OFFLOADED_FLOWS] = "the datapath had no flow right after the measurement"
    return missing | (soak_unmeasured(outcome.soak) if outcome.soak else {})


def _of_goal(goal: GoalOutcome, outcome: Outcome) -> Iterator[Observation]:
    figure = _goal_figure(goal, outcome)
    if figure is None:
        return
    load, lower, upper, why = figure
    bounded = lower or upper
    low, high = _over_repeats(goal)
    if low is not None and high is not None:  # the ends of all searches bound their median
        lower, upper = math.isinf(high) or (lower and not goal.repeated_ends), low <= 0 or upper
        why = why or "some of the searches found a bound only"
        low, high = (low if low > 0 else None), (high if math.isfinite(high) else None)
    elif goal.disturbed and lower and not upper and not goal.slowed:
        # Bounded from above by the lowest load that valid trials found too high, unless the rig set the search's end.
        ends = (goal.refuted_fps, None if goal.generator_limited else goal.upper_fps)
        high = min((fps for fps in ends if fps is not None), default=None)
        lower = high is None
    evidence = (goal.confirmation.trial_id,) if goal.confirmation else outcome.trials
    line_ratio = load / outcome.line_rate_fps if outcome.line_rate_fps else None
    if line_ratio is not None and _at_line_rate(load, outcome):
        line_ratio = 1.0  # loads are whole frames: the last fraction of a frame is not missing
    for value, unit in ((load, "pps"), (outcome.bits_per_second(load), "bps"), (line_ratio, "line_ratio")):
        if value is not None:
            yield Observation(
                goal.goal.name,
                float(value),
                unit,
                lower_bound=lower,
                upper_bound=upper,
                bound_reason=why if lower or upper or bounded else "",
                confidence=_goal_confidence(goal, outcome),
                evidence=evidence,
                low=None if low is None else float(value) * low / load,
                high=None if high is None else float(value) * high / load,
                repeats=max(1, sum(fps is not None for fps in goal.repeated_fps)),
            )


def goal_ends(goal: GoalOutcome, outcome: Outcome) -> tuple[int | None, float, float | None]:
    """A search's figure, and the lowest and highest load that are still possible, frames/s per direction.

    The figure is None if the search found nothing; the highest load is None if the upper end is open.
    """
    seen = next((each for each in _of_goal(goal, outcome) if each.unit == "pps"), None)
    if seen is None:
        return None, 0.0, None
    low, high = seen.interval
    return round(seen.value), low, high if math.isfinite(high) else None


def _of_plateaus(outcome: Outcome) -> Iterator[Observation]:
    """The forwarding rate that a search also reads: the median of its repeats, or a single one with its own interval.

    A lower bound if the CPUs were far apart during one of them, or the generator was the limit.
    """
    if not outcome.plateaus:
        return
    points = sorted(outcome.plateaus, key=lambda point: point.fps)
    middle = points[(len(points) - 1) // 2]
    low, high = middle.low_fps, middle.high_fps
    if len(points) >= FEWEST_REPEATS:
        interval = median_interval([point.fps for point in points])
        low, high = interval.low, interval.high
    bits = outcome.mean_frame_size * 8
    at_least = next((point.at_least for point in points if point.at_least), "")
    for factor, unit in ((1.0, "pps"), (bits, "bps")):
        yield Observation(
            "forwarding_rate",
            middle.fps * factor,
            unit,
            lower_bound=bool(at_least),
            bound_reason=at_least,
            confidence=f"median of {middle.windows} undisturbed windows at overload",
            evidence=(middle.trial_id,),
            low=None if at_least else low * factor,
            high=None if at_least else high * factor,
            repeats=len(points),
        )


def _queues_unmeasured(outcome: Outcome) -> dict[str, str]:
    known = {each.imbalance for each in outcome.queue_frames if len(each.frames) > 1}
    return {RSS_IMBALANCE: _NO_QUEUES} if outcome.queue_frames and known <= {None} else {}


def _of_queues(outcome: Outcome) -> Iterator[Observation]:
    """The port whose NIC spreads worst, among those with several receive queues."""
    spread = [(each.imbalance, each) for each in outcome.queue_frames if len(each.frames) > 1]
    known = [(imbalance, each) for imbalance, each in spread if imbalance is not None]
    if known:
        imbalance, worst = max(known, key=lambda pair: pair[0])
        frames = f"frames by receive queue, {worst}"
        yield Observation(RSS_IMBALANCE, imbalance, "ratio", confidence=frames, evidence=outcome.trials[-1:])


def _over_repeats(goal: GoalOutcome) -> tuple[float | None, float | None]:
    """The interval of the median over repeats, frames/s per direction; Nones for a single search.

    Its low end is that of the median of all low ends. Its high end is that of all high ends, infinity if open.
    """
    found = [fps for fps in goal.repeated_fps if fps is not None]
    if len(found) < FEWEST_REPEATS:
        return None, None
    ends = [each for each, fps in zip(goal.repeated_ends, goal.repeated_fps, strict=False) if fps is not None]
    lows = [low for low, _ in ends] or found
    highs = [math.inf if high is None else high for _, high in ends] or found
    return median_interval(lows).low, median_interval(highs).high


def _goal_figure(goal: GoalOutcome, outcome: Outcome) -> tuple[int, bool, bool, str] | None:
    """Load in frames/s per direction, whether it is a lower and whether an upper bound, and why."""
    if goal.status is SearchStatus.BELOW_MINIMUM:
        why = "; ".join(filter(None, ("below the search's minimum load", goal.slowed)))
        return (goal.upper_fps, bool(goal.slowed), True, why) if goal.upper_fps else None
    if goal.load_fps is None:
        return None if goal.upper_fps is None else (goal.upper_fps, False, True, goal.detail)
    confirmation = goal.confirmation
    if confirmation is None and goal.detail.startswith(NOT_CONFIRMED):
        # Disturbed loads are no upper bound. If the rig set the search's own end, there is none at all.
        limited = goal.slowed or _rig_limit(goal, goal.load_fps, outcome)
        return goal.load_fps, bool(limited), True, goal.detail
    if confirmation is not None and not confirmation.passed:
        lost = "an unknown share" if confirmation.loss_ratio is None else format_ratio(confirmation.loss_ratio)
        failed = (
            f"confirmation of {confirmation.duration_s:g} s lost {lost}, "
            f"{goal.goal.name} allows {format_ratio(goal.goal.loss_ratio)}"
        )
        why = "; ".join(filter(None, (failed, goal.slowed, goal.disturbed)))
        return confirmation.load_fps, bool(goal.slowed), True, why
    # A confirmation may have passed at a lower load than the search found; only that load is certain.
    load = confirmation.load_fps if confirmation else goal.load_fps
    if _at_line_rate(load, outcome):
        return load, False, False, ""  # no port takes more
    why = "; ".join(dict.fromkeys(filter(None, (_rig_limit(goal, load, outcome), goal.slowed, goal.disturbed))))
    return load, bool(why), False, why


def _rig_limit(goal: GoalOutcome, load_fps: int, outcome: Outcome) -> str:
    """Why the rig offered the DUT no more than this load; "" if the DUT or the line was the limit.

    A confirmation may be a little below the search's load, by frames that the generator left out. The rig limited it as
    it limited the search, unless a valid trial between the two lost too much.
    """
    refuted = goal.refuted_fps is not None and load_fps < goal.refuted_fps <= (goal.load_fps or 0)
    if refuted or _at_line_rate(load_fps, outcome):
        return ""
    if goal.generator_limited:
        return "generator-limited"
    return "met at the search's maximum load" if goal.status is SearchStatus.AT_MAXIMUM else ""


def _of_class(each: ClassOutcome, outcome: Outcome, of_all: Sequence[Observation]) -> Iterator[Observation]:
    """A class's part of each searched load, its losses and latency, and its part of a study's readings."""
    goals = {goal.goal.name for goal in outcome.goals}
    for seen in of_all:
        if seen.metric in goals and seen.unit == "pps":
            for factor, unit in ((1.0, "pps"), (each.mean_frame_size * 8, "bps")):
                value, low, high = (
                    None if end is None else outcome.class_load_fps(each, end) * factor
                    for end in (seen.value, seen.low, seen.high)
                )
                yield replace(seen, value=value or 0.0, unit=unit, low=low, high=high, of_class=each.name)
    for loss in each.losses:
        yield from _of_class_loss(each.name, loss)
    for point in each.latency:
        yield from (replace(seen, of_class=each.name) for seen in _of_latency(point))
    own = replace(outcome, mean_frame_size=each.mean_frame_size, line_rate_fps=None, relatives=())
    for samples in each.samples:
        yield from (replace(seen, of_class=each.name) for seen in _of_samples(samples, own))


def _of_class_loss(name: str, loss: ClassLoss) -> Iterator[Observation]:
    if not loss.offered_frames:
        return
    proof = f"class {name}: {loss_bound_text(loss.lost_frames / loss.offered_frames, loss.offered_frames)}"
    if loss.outage_s:
        begin, end = loss.outage_s
        proof += f"; the longest run of missing frames was due from {begin:.3f} to {end:.3f} s"
    for metric, unit, factor in (("loss_ratio", "ratio", 1 / loss.offered_frames), ("lost_frames", "frames", 1.0)):
        seen = Observation(metric, loss.lost_frames * factor, unit, loss.at, confidence=proof, of_class=name)
        seen = replace(seen, evidence=(loss.trial_id,))
        yield from _between(seen, loss.least_lost * factor, loss.why, loss.short)


def _at_line_rate(load_fps: int, outcome: Outcome) -> bool:
    return outcome.line_rate_fps is not None and load_fps >= math.floor(outcome.line_rate_fps)


def _goal_confidence(goal: GoalOutcome, outcome: Outcome) -> str:
    confirmation = goal.confirmation
    if confirmation is None:
        return goal.detail if goal.detail.startswith(NOT_CONFIRMED) else "not confirmed by a full-length trial"
    offered = _confirmed_frames(confirmation, outcome)
    text = f"{'confirmed' if confirmation.passed else 'not confirmed'} by {confirmation.duration_s:g} s: "
    text += loss_bound_text(confirmation.loss_ratio, offered)
    if confirmation.undisturbed_s is not None and confirmation.lost_disturbed:
        seconds, more = confirmation.undisturbed_s, confirmation.lost_disturbed
        text += f" in {seconds:.2g} undisturbed s; {more:,} more while the machine disturbed it"
    if goal.load_fps and confirmation.load_fps < goal.load_fps:
        text += f" (the search found {format_fps(goal.load_fps)})"
    found = [fps for fps in goal.repeated_fps if fps is not None]
    if len(found) < FEWEST_REPEATS:
        return text
    interval, searches = median_interval(found), len(goal.repeated_fps)
    counted = f"{len(found)} of {searches} searches that found one" if len(found) < searches else f"{searches} searches"
    between = f"{format_fps(interval.low)} .. {format_fps(interval.high)}"
    return f"{text}; the middle of {counted}, {between} at {interval.confidence:.0%}"


def _confirmed_frames(confirmation: Confirmation, outcome: Outcome) -> int:
    if confirmation.offered_frames is not None:
        return confirmation.offered_frames
    return round(confirmation.load_fps * confirmation.duration_s * outcome.directions)


def _of_confirmation(goal: GoalOutcome, outcome: Outcome) -> Iterator[Observation]:
    confirmation = goal.confirmation
    if confirmation is None or confirmation.loss_ratio is None:
        return
    at, evidence = share_of_goal(1.0, goal.goal.name), (confirmation.trial_id,)
    bound = loss_bound_text(confirmation.loss_ratio, _confirmed_frames(confirmation, outcome))
    yield Observation("loss_ratio", confirmation.loss_ratio, "ratio", at, confidence=bound, evidence=evidence)


def _of_latency(point: LatencyPoint) -> Iterator[Observation]:
    at = normal_load_name(point.at, point.load_fps)
    for name in LATENCIES:
        value = getattr(point, f"{name}_ns")
        if value is not None:
            few = point.samples < _FEWEST_SAMPLES.get(name, 1)
            yield Observation(
                f"latency_{name}",
                float(value),
                "ns",
                at=at,
                lower_bound=few,
                bound_reason=f"the largest of only {how_many(point.samples, 'sample')}" if few else "",
                confidence=f"{point.samples:,} samples",
                evidence=(point.trial_id,),
            )


def _of_loss(outcome: Outcome) -> Iterator[Observation]:
    for point in outcome.loss_curve:
        at, evidence = load_in_fps(point.load_fps), (point.trial_id,)
        confidence = loss_bound_text(point.loss_ratio, point.offered_frames)
        if point.offered_fps is not None:
            requested, offered = format_fps(point.load_fps), format_fps(point.offered_fps)
            confidence += "" if requested == offered else f", at {offered} of the {requested} asked for"
        seen = Observation("loss_ratio", point.loss_ratio, "ratio", at, confidence=confidence, evidence=evidence)
        yield from _between(seen, point.by_rule, point.at_most, point.short)
        if point.lost_frames is not None:
            lost = replace(seen, metric="lost_frames", value=float(point.lost_frames), unit="frames")
            yield from _between(lost, point.by_rule * (point.offered_frames or 0), point.at_most, point.short)


def _between(seen: Observation, low: float, at_most: str, short: str) -> Iterator[Observation]:
    """Yield a loss of which only ``low`` is certainly the DUT's, or all if there is no reason why some is not."""
    if short:  # only what was lost at less load belongs to the load
        why = f"{short}; at more load a DUT loses no less"
        yield from [replace(seen, value=low, lower_bound=True, bound_reason=why)] if low else []
    elif not at_most:
        yield seen
    elif not low:
        yield replace(seen, upper_bound=True, bound_reason=at_most)
    else:
        yield replace(seen, low=min(low, seen.value), high=seen.value, bound_reason=at_most)


def _of_back_to_back(outcome: Outcome) -> Iterator[Observation]:
    found = outcome.back_to_back
    if found is None:
        return
    repeats = f"mean of {how_many(len(found.burst_frames), 'repeat')}"
    yield Observation(
        "back_to_back_frames",
        found.mean_burst_frames,
        "frames",
        lower_bound=found.unlimited or bool(found.at_least),
        bound_reason="the longest burst lost nothing" if found.unlimited else found.at_least,
        confidence=repeats,
        evidence=outcome.trials,
    )
    corrected_s = found.corrected_buffer_s
    if corrected_s is not None:
        yield Observation("corrected_buffer_s", corrected_s, "s", confidence=repeats, evidence=outcome.trials)


def _of_cost(cost: Cost, outcome: Outcome) -> Iterator[Observation]:
    """The cost of the confirmation's trial. If its load is a lower bound, so is the rate a core."""
    confirmed = (goal for goal in outcome.goals if goal.confirmation and goal.confirmation.trial_id == cost.trial_id)
    limited = next((seen for goal in confirmed for seen in _of_goal(goal, outcome) if seen.lower_bound), None)
    per_core = None if cost.mpps_per_core is None else cost.mpps_per_core * 1e6
    for metric, value, unit in (
        (CYCLES, cost.pmd_cycles_per_packet, "cycles"),
        ("pmd_busy", cost.pmd_busy_ratio, "ratio"),
        ("mpps_per_core", per_core, "pps"),
        ("dut_cpu_seconds", cost.dut_cpu_seconds, "s"),
        ("generator_cpu_seconds", cost.generator_cpu_seconds, "s"),
        ("test_process_cpu_seconds", cost.test_process_cpu_seconds, "s"),
    ):
        if value is not None:
            trial_id = cost.saturated_trial_id if metric == CYCLES and cost.saturated_trial_id else cost.trial_id
            seen = Observation(metric, value, unit, evidence=(trial_id,))
            if metric == "mpps_per_core" and limited is not None:
                seen = replace(seen, lower_bound=True, bound_reason=limited.bound_reason)
            yield seen


def _of_offload(outcome: Outcome) -> Iterator[Observation]:
    share = outcome.offload
    if share is None:
        return
    flows = tuple((flow.text, flow.place is FlowPlace.HARDWARE) for flow in share.flows)
    for metric, ratio, confidence in share.figures():
        seen = Observation(metric, ratio, "ratio", confidence=confidence, evidence=outcome.trials[-1:])
        if metric == OFFLOADED_FLOWS:
            seen = replace(seen, flows=flows, flows_left_out=share.total - len(flows))
        yield seen


def _of_sessions(outcome: Outcome) -> Iterator[Observation]:
    seen = outcome.sessions
    if seen is None:
        return
    elsewhere = f"; {seen.elsewhere} more under overload, which are not judged" if seen.elsewhere else ""
    confidence = f"{seen.watched} watched in {how_many(len(seen.trials), 'trial')}{elsewhere}"
    yield Observation("session_flaps", float(seen.flaps), "times", confidence=confidence, evidence=seen.trials)


def _of_samples(samples: Samples, outcome: Outcome) -> Iterator[Observation]:
    """The median with its interval, or the worst reading. Frame rates also as bit rate and share of line rate."""
    found = median_interval(samples.values)
    low, high = (samples.figure, samples.figure) if samples.by_worst else (found.low, found.high)
    text = f"median of {len(samples.values)}, interval at {format_ratio(found.confidence)}"
    factors = {samples.unit: 1.0}
    if samples.unit == "pps" and outcome.mean_frame_size:
        factors["bps"] = outcome.mean_frame_size * 8
    if samples.unit == "pps" and outcome.line_rate_fps:
        factors["line_ratio"] = 1 / outcome.line_rate_fps
    for unit, factor in factors.items():
        yield Observation(
            samples.metric,
            samples.figure * factor,
            unit,
            lower_bound=bool(samples.at_least),
            upper_bound=bool(samples.at_most),
            bound_reason=samples.at_least or samples.at_most,
            confidence=f"worst of {len(samples.values)}" if samples.by_worst else text,
            evidence=samples.evidence,
            low=low * factor,
            high=high * factor,
            relatives=tuple(ratio for ratio in outcome.relatives if ratio.metric == samples.metric),
        )


def _of_slope(slope: Slope) -> Iterator[Observation]:
    confidence = f"Theil-Sen slope per one more of {slope.per}, interval at {format_ratio(slope.confidence)}"
    for unit, value, low, high in (
        (slope.unit, slope.value, slope.low, slope.high),
        ("ratio", slope.share, slope.share_low, slope.share_high),
    ):
        seen = Observation(f"{slope.metric}_slope", value, unit, confidence=confidence, low=low, high=high)
        if slope.bound_reason:
            seen = replace(seen, low=-math.inf, high=math.inf, bound_reason=slope.bound_reason)
        yield seen
