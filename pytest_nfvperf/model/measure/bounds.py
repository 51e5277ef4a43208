"""Bounds: what the rig leaves of a search, a plateau, a loss, a burst, a latency and a soak, as figures.

Here alone it is decided whether a value is the DUT's own or only a bound of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds, how_many, in_connections
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.measure.cpu_account import as_bound, shares_cpus
from pytest_nfvperf.model.measure.hw_offload import OFFLOADED_FLOWS, FlowPlace, OffloadShare
from pytest_nfvperf.model.measure.outcome import (
    BackToBack,
    ClassLoss,
    Confirmation,
    Cost,
    GoalOutcome,
    LatencyPoint,
    LossPoint,
    ObservedSessions,
    Outcome,
    QueueFrames,
    SearchStatus,
    loss_bound_text,
)
from pytest_nfvperf.model.measure.soak import Drift, Soak
from pytest_nfvperf.model.sla.rules import load_in_fps, normal_load_name, share_of_goal
from pytest_nfvperf.model.statistics import Relative, Samples, Slope, median_interval
from pytest_nfvperf.model.traffic.mix import AnyTraffic

FEWEST_REPEATS = 2
"""With this many searches a figure has an interval."""

GENERATOR_LIMITED = "generator-limited"

CYCLES = "cycles_per_packet"
RSS_IMBALANCE = "rss_imbalance"
_NO_QUEUES = "no port took frames on several receive queues"
_NO_FLOW = "the datapath had no flow right after the measurement"
_NOT_SATURATED = (
    "no trial was at saturation: below it a poll-mode thread counts each poll that finds a frame as busy, and "
    "the figure would be the cycles that it had"
)

LATENCIES = ("min", "p50", "p90", "p99", "p999", "max")
_FEWEST_SAMPLES = {"p50": 2, "p90": 10, "p99": 100, "p999": 1000}
"""With fewer samples the percentile is their maximum, and therefore a lower bound."""

_RATES = frozenset({"ndr", "pdr", "throughput", "forwarding_rate", "mirror_rate"})
"""Rates of frames, which are told in bits and as a share of line rate, too."""

_RATE_UNITS = ("pps", "bps", "line_ratio")
"""A rate is one of so many cores of the DUT."""

_DRIFTS = ("rate_change", "latency_p99_change", "cycles_change", "memory_growth")
_OF_ALL_INTERVALS = frozenset({"rate_change", "memory_growth"})
"""Trends that use disturbed intervals, too: see ``summarise``."""

Reasons = Sequence[tuple[Why, str]]
"""Why a figure is only a bound, each with what was seen; those without a text do not hold."""


def _because(reasons: Reasons) -> tuple[tuple[Why, ...], str]:
    """``why`` and ``detail`` of a Figure."""
    holding = [(why, text) for why, text in reasons if text]
    return tuple(dict.fromkeys(why for why, _ in holding)), "; ".join(dict.fromkeys(text for _, text in holding))


# Searched loads.


@dataclass(frozen=True, slots=True)
class SearchedGoal(GoalOutcome):
    """A goal's result, with what the rig had to do with it.

    Attributes:
        limit: why the rig offered no more than ``load_fps``.
        slowed: why all loads may be too low: the host kept CPUs apart, or shared their cores.
        disturbed: loads above the confirmed one that the rig disturbed, or for which there was no time, so that the DUT
            may sustain more.
        unconfirmed: why no confirmation trial was valid.
        refuted_fps: the lowest load at which a valid confirmation trial lost too much.
    """

    limit: str = ""
    slowed: str = ""
    disturbed: str = ""
    unconfirmed: str = ""
    refuted_fps: int | None = None

    @property
    def is_unconfirmed(self) -> bool:
        """True if a confirmation was requested and did not pass: the DUT does at most the search's load."""
        return bool(self.unconfirmed) if self.confirmation is None else not self.confirmation.passed

    @property
    def result(self) -> GoalOutcome:
        return GoalOutcome(*(getattr(self, each.name) for each in fields(GoalOutcome)))


def goals_missing(goals: Sequence[SearchedGoal], figures: Sequence[Figure]) -> dict[str, str]:
    """Why goals have no figure, by name."""
    measured = {figure.metric for figure in figures}
    absent = [goal for goal in goals if goal.goal.name not in measured]
    return {goal.goal.name: f"search {goal.status.replace('_', ' ')}: {goal.detail or 'no detail'}" for goal in absent}


def goal_figures(goals: Sequence[SearchedGoal], outcome: Outcome) -> Iterator[Figure]:
    """Yield the load of each goal in frames/s per direction, and the loss of its confirmation."""
    for goal in goals:
        bounds = _goal_bounds(goal, outcome)
        if bounds is None:
            continue
        load, low, high, reasons = bounds
        why, detail = _because(reasons)
        evidence = (goal.confirmation.trial_id,) if goal.confirmation else outcome.trials
        rests_on = _goal_confidence(goal, outcome)
        yield Figure(
            *(goal.goal.name, float(load), "pps", low, high),
            why=why,
            detail=detail,
            confidence=rests_on,
            evidence=evidence,
        )
    for goal in goals:
        confirmation = goal.confirmation
        if confirmation is not None and confirmation.loss_ratio is not None:
            bound = loss_bound_text(confirmation.loss_ratio, _confirmed_frames(confirmation, outcome))
            load_name, evidence = share_of_goal(1.0, goal.goal.name), (confirmation.trial_id,)
            yield exact("loss_ratio", confirmation.loss_ratio, "ratio", load_name, confidence=bound, evidence=evidence)


def _goal_bounds(goal: SearchedGoal, outcome: Outcome) -> tuple[int, float | None, float | None, Reasons] | None:
    """Load in frames/s per direction, the interval that the DUT's is in, and why it is one; None without a load."""
    load, confirmation = goal.load_fps, goal.confirmation
    slowed = (Why.SLOWED, goal.slowed)
    if load is None:
        if goal.upper_fps is None:
            return None
        below = goal.status is SearchStatus.BELOW_MINIMUM
        reason = (Why.MINIMUM, "below the search's minimum load") if below else (Why.UNCONFIRMED, goal.detail)
        most = goal.upper_fps
        return most, None, None if below and goal.slowed else most, (reason, *((slowed,) if below else ()))
    if goal.is_unconfirmed:
        # Disturbed loads are no upper bound. If the rig set the search's own end, there is none at all.
        most, is_open = load, goal.slowed or _limit(goal, load, outcome)
        reasons = [(Why.UNCONFIRMED, goal.unconfirmed), slowed]
        if confirmation is not None:
            failed = (Why.UNCONFIRMED, _failed_text(goal, confirmation))
            most, reasons, is_open = confirmation.load_fps, [failed, slowed, _disturbed(goal)], goal.slowed
        return most, None, None if is_open else most, reasons
    # A confirmation may have passed at a lower load than the search found; only that load is certain.
    load = confirmation.load_fps if confirmation else load
    if _at_line_rate(load, outcome):
        return load, load, load, ()  # no port takes more
    limit = _limit(goal, load, outcome)
    reached = Why.GENERATOR if limit == GENERATOR_LIMITED else Why.UNTRIED
    high = load if not (limit or goal.slowed or goal.disturbed) else _refuted_end(goal) if not goal.slowed else None
    return load, load, high, ((reached, limit), slowed, _disturbed(goal))


def _disturbed(goal: SearchedGoal) -> tuple[Why, str]:
    return Why.DISTURBED, goal.disturbed


def _refuted_end(goal: SearchedGoal) -> float | None:
    """The lowest load that valid trials found too high, unless the rig set the search's end."""
    if not goal.disturbed:
        return None
    ends = (goal.refuted_fps, None if goal.limit else goal.upper_fps)
    return min((fps for fps in ends if fps is not None), default=None)


def _failed_text(goal: SearchedGoal, confirmation: Confirmation) -> str:
    lost = "an unknown share" if confirmation.loss_ratio is None else format_ratio(confirmation.loss_ratio)
    return (
        f"confirmation of {confirmation.duration_s:g} s lost {lost}, "
        f"{goal.goal.name} allows {format_ratio(goal.goal.loss_ratio)}"
    )


def _limit(goal: SearchedGoal, load_fps: int, outcome: Outcome) -> str:
    """Why the rig offered the DUT no more than this load; "" if the DUT or the line was the limit.

    A confirmation may be a little below the search's load, by frames that the generator left out. The rig limited it as
    it limited the search, unless a valid trial between the two lost too much.
    """
    refuted = goal.refuted_fps is not None and load_fps < goal.refuted_fps <= (goal.load_fps or 0)
    if refuted or _at_line_rate(load_fps, outcome):
        return ""
    if goal.limit:
        return GENERATOR_LIMITED
    return "met at the search's maximum load" if goal.status is SearchStatus.AT_MAXIMUM else ""


def _at_line_rate(load_fps: float, outcome: Outcome) -> bool:
    return outcome.line_rate_fps is not None and load_fps >= math.floor(outcome.line_rate_fps)


def _goal_confidence(goal: SearchedGoal, outcome: Outcome) -> str:
    confirmation = goal.confirmation
    if confirmation is None:
        return goal.unconfirmed or "not confirmed by a full-length trial"
    offered = _confirmed_frames(confirmation, outcome)
    text = f"{'confirmed' if confirmation.passed else 'not confirmed'} by {confirmation.duration_s:g} s: "
    text += loss_bound_text(confirmation.loss_ratio, offered)
    if confirmation.undisturbed_s is not None and confirmation.lost_disturbed:
        seconds, more = confirmation.undisturbed_s, confirmation.lost_disturbed
        text += f" in {seconds:.2g} undisturbed s; {more:,} more while the machine disturbed it"
    if goal.load_fps and confirmation.load_fps < goal.load_fps:
        text += f" (the search found {format_fps(goal.load_fps)})"
    return text


def _confirmed_frames(confirmation: Confirmation, outcome: Outcome) -> int:
    if confirmation.offered_frames is not None:
        return confirmation.offered_frames
    return round(confirmation.load_fps * confirmation.duration_s * outcome.directions)


def middle_figure(middle: Figure, repeats: Sequence[Figure | None]) -> Figure:
    """The figure of the middle one of several searches; ``repeats``: those of all, None where one found nothing.

    Its interval is that of the median over the searches: the low end is that of the median of all low ends, the high
    end that of all high ends, open where too few of those are closed.
    """
    figures = [figure for figure in repeats if figure is not None]
    middle = replace(middle, repeats=len(figures))
    if len(figures) < FEWEST_REPEATS:
        return middle
    low = median_interval([figure.interval[0] for figure in figures]).low
    high = median_interval([figure.interval[1] for figure in figures]).high
    interval = median_interval([figure.value for figure in figures])
    counted = f"{len(figures)} of {len(repeats)} searches that found one"
    counted = counted if len(figures) < len(repeats) else f"{len(figures)} searches"
    between = f"{format_fps(interval.low)} .. {format_fps(interval.high)} at {interval.confidence:.0%}"
    middle = replace(
        middle,
        low=None if low <= 0 or middle.low is None else low,
        high=high if math.isfinite(high) else None,
        confidence=f"{middle.confidence}; the middle of {counted}, {between}",
    )
    if middle.why or None not in (middle.low, middle.high):
        return middle
    whys = tuple(dict.fromkeys(why for figure in figures for why in figure.why))
    return replace(middle, why=whys, detail="some of the searches found a bound only")


# Plateaus: what the DUT forwards at overload.


@dataclass(frozen=True, slots=True)
class PlateauPoint:
    """The rate that the DUT forwards at overload while the machine disturbs nothing.

    Attributes:
        fps: median of the undisturbed windows, per direction.
        low_fps, high_fps: its 95 % interval.
        windows: how many were undisturbed.
        far_reason: why the DUT may forward more: the host kept the CPUs of generator and DUT apart.
        generator_limited: the same, because the generator offered no more than the DUT took.
    """

    trial_id: str
    fps: float
    low_fps: float
    high_fps: float
    windows: int
    far_reason: str = ""
    generator_limited: str = ""

    @property
    def at_least(self) -> str:
        """Why the DUT may forward more than this; "" if it does not."""
        return self.far_reason or self.generator_limited

    def figure(self) -> Figure:
        basis = f"median of {self.windows} undisturbed windows at overload"
        of_it = Figure(
            *("forwarding_rate", self.fps, "pps", self.low_fps, self.high_fps),
            confidence=basis,
            evidence=(self.trial_id,),
        )
        if not self.at_least:
            return of_it
        why = Why.FAR_CPUS if self.far_reason else Why.GENERATOR
        return replace(of_it, low=self.fps).bounded(why, high=True, detail=self.at_least)


def plateau_figure(repeats: Sequence[Figure]) -> Figure:
    """The middle of the plateaus of several searches, the lower of two: a lower bound if one of them is."""
    middle = sorted(repeats, key=lambda figure: figure.value)[(len(repeats) - 1) // 2]
    if len(repeats) >= FEWEST_REPEATS:
        interval = median_interval([figure.value for figure in repeats])
        middle = replace(middle, low=interval.low, high=interval.high, repeats=len(repeats))
    bound = next((figure for figure in repeats if figure.high is None), None)
    if bound is None:
        return middle
    return replace(middle, low=middle.value, high=None, why=bound.why, detail=bound.detail)


# Losses.


@dataclass(frozen=True, slots=True)
class TrialLoss:
    """What a trial lost at its load.

    Attributes:
        least: the loss ratio that is certainly the DUT's: dropped by its own rules, or in undisturbed windows.
        whose: why the rest may be the machine's.
        short: why so little was offered that only ``least`` belongs to the load: more load loses no less.
    """

    point: LossPoint
    least: float = 0.0
    whose: str = ""
    short: str = ""

    def figures(self) -> Iterator[Figure]:
        point = self.point
        confidence = loss_bound_text(point.loss_ratio, point.offered_frames)
        requested, offered = format_fps(point.load_fps), format_fps(point.offered_fps)
        confidence += "" if requested == offered else f", at {offered} of the {requested} asked for"
        load_name = load_in_fps(point.load_fps)
        for metric, unit, value, least in (
            ("loss_ratio", "ratio", point.loss_ratio, self.least),
            ("lost_frames", "frames", float(point.lost_frames), self.least * point.offered_frames),
        ):
            figure = exact(metric, value, unit, load_name, confidence=confidence, evidence=(point.trial_id,))
            yield from between(figure, least, self.whose, self.short)

    def missing(self) -> dict[str, str]:
        """Unless a loss is certain there is no figure of a load that was not offered."""
        return dict.fromkeys(("loss_ratio", "lost_frames"), self.short) if self.short else {}


def between(figure: Figure, least: float, whose: str, short: str) -> Iterator[Figure]:
    """Yield a loss of which only ``least`` is certainly the DUT's, or all if there is no reason why some is not."""
    if short:  # only what was lost at less load belongs to the load
        why = f"{short}; at more load a DUT loses no less"
        certain = replace(figure, value=least, low=least, high=None, why=(Why.SHORT,), detail=why)
        yield from [certain] if least else []
    elif not whose:
        yield figure
    else:
        low = min(least, figure.value) if least else None
        yield replace(figure, low=low, why=(Why.WHOSE_LOSS,), detail=whose)


def class_loss_figures(name: str, loss: ClassLoss, least_lost: int, whose: str, short: str) -> Iterator[Figure]:
    """Yield the loss of a class of a mix. ``least_lost``: frames that are certainly the DUT's loss."""
    if not loss.offered_frames:
        return
    proof = f"class {name}: {loss_bound_text(loss.lost_frames / loss.offered_frames, loss.offered_frames)}"
    if loss.outage_s:
        begin, end = loss.outage_s
        proof += f"; the longest run of missing frames was due from {begin:.3f} to {end:.3f} s"
    for metric, unit, factor in (("loss_ratio", "ratio", 1 / loss.offered_frames), ("lost_frames", "frames", 1.0)):
        value = loss.lost_frames * factor
        figure = exact(metric, value, unit, loss.at, confidence=proof, of_class=name, evidence=(loss.trial_id,))
        yield from between(figure, least_lost * factor, whose, short)


# Latency and bursts.


def latency_missing(point: LatencyPoint, why: str) -> dict[str, str]:
    """Why percentiles of this point are missing, by metric."""
    absent = [name for name in LATENCIES if getattr(point, f"{name}_ns") is None]
    return {f"latency_{name}": why or f"no latency samples at {point.at}" for name in absent}


def latency_figures(point: LatencyPoint, of_class: str = "") -> Iterator[Figure]:
    load_name = normal_load_name(point.at, point.load_fps)
    for name in LATENCIES:
        value = getattr(point, f"{name}_ns")
        if value is not None:
            figure = exact(f"latency_{name}", float(value), "ns", load_name, confidence=f"{point.samples:,} samples")
            figure = replace(figure, of_class=of_class, evidence=(point.trial_id,))
            few = point.samples < _FEWEST_SAMPLES.get(name, 1)
            largest = f"the largest of only {how_many(point.samples, 'sample')}"
            yield figure.bounded(Why.FEW, high=True, detail=largest) if few else figure


def burst_figures(bursts: BackToBack, trials: tuple[str, ...], reasons: Reasons) -> Iterator[Figure]:
    """Yield the longest burst, a lower bound for these reasons, and the buffer that it fills."""
    repeats = f"mean of {how_many(len(bursts.burst_frames), 'repeat')}"
    burst = exact("back_to_back_frames", bursts.mean_burst_frames, "frames", confidence=repeats, evidence=trials)
    why, detail = _because(reasons)
    yield burst.bounded(*why, high=bool(why), detail=detail)
    if bursts.corrected_buffer_s is not None:
        yield exact("corrected_buffer_s", bursts.corrected_buffer_s, "s", confidence=repeats, evidence=trials)


# Cost, queues, flows in hardware, and repeated readings.


def cost_figures(cost: Cost, goals: Sequence[GoalOutcome] = (), loads: Sequence[Figure] = ()) -> Iterator[Figure]:
    """Yield the cost of a trial. If a load that it confirmed is a lower bound, so is the rate a core."""
    confirmed = {goal.goal.name for goal in goals if goal.confirmation and goal.confirmation.trial_id == cost.trial_id}
    bound = next((load for load in loads if load.metric in confirmed and load.high is None), None)
    for metric, value, unit in (
        (CYCLES, cost.pmd_cycles_per_packet, "cycles"),
        ("pmd_busy", cost.pmd_busy_ratio, "ratio"),
        ("mpps_per_core", None if cost.mpps_per_core is None else cost.mpps_per_core * 1e6, "pps"),
        ("dut_cpu_seconds", cost.dut_cpu_seconds, "s"),
        ("generator_cpu_seconds", cost.generator_cpu_seconds, "s"),
        ("test_process_cpu_seconds", cost.test_process_cpu_seconds, "s"),
    ):
        if value is not None:
            trial_id = cost.saturated_trial_id if metric == CYCLES and cost.saturated_trial_id else cost.trial_id
            figure = exact(metric, value, unit, evidence=(trial_id,))
            if metric == "mpps_per_core" and bound is not None:
                figure = figure.bounded(*bound.why, high=True, detail=bound.detail)
            yield figure


def cost_missing(cost: Cost | None) -> dict[str, str]:
    saturated = cost is None or cost.pmd_cycles_per_packet is not None or cost.pmd_busy_ratio is None
    return {} if saturated else {CYCLES: _NOT_SATURATED}


def queue_figures(queues: Sequence[QueueFrames], trials: tuple[str, ...]) -> tuple[list[Figure], dict[str, str]]:
    """The port whose NIC spreads worst, among those with several receive queues; or why there is none, by metric."""
    spread = [(port_queues.imbalance, port_queues) for port_queues in queues if len(port_queues.frames) > 1]
    measured = [(imbalance, port_queues) for imbalance, port_queues in spread if imbalance is not None]
    if not measured:
        return [], {RSS_IMBALANCE: _NO_QUEUES} if queues else {}
    imbalance, worst = max(measured, key=lambda pair: pair[0])
    frames = f"frames by receive queue, {worst}"
    return [exact(RSS_IMBALANCE, imbalance, "ratio", confidence=frames, evidence=trials[-1:])], {}


def with_offload(outcome: Outcome, share: OffloadShare | None) -> Outcome:
    """Add the share of flows and frames that a NIC handles itself."""
    if share is None:
        return outcome
    flows = tuple((flow.text, flow.place is FlowPlace.HARDWARE) for flow in share.flows)
    figures = []
    for metric, ratio, confidence in share.figures():
        figure = exact(metric, ratio, "ratio", confidence=confidence, evidence=outcome.trials[-1:])
        if metric == OFFLOADED_FLOWS:
            figure = replace(figure, flows=flows, flows_left_out=share.total - len(flows))
        figures.append(figure)
    missing = {} if share.ratio is not None else {OFFLOADED_FLOWS: _NO_FLOW}
    return replace(outcome, offload=share, figures=(*outcome.figures, *figures), missing=outcome.missing | missing)


def sample_figure(samples: Samples, relatives: Sequence[Relative] = ()) -> Figure:
    """The median with its interval, or the worst reading."""
    interval = median_interval(samples.values)
    low, high = (samples.figure, samples.figure) if samples.by_worst else (interval.low, interval.high)
    text = f"median of {len(samples.values)}, interval at {format_ratio(interval.confidence)}"
    return Figure(
        samples.metric,
        samples.figure,
        samples.unit,
        None if samples.bound.opens_low else low,
        None if samples.bound.opens_high else high,
        why=(Why.RIG,) if samples.why else (),
        detail=samples.why,
        confidence=f"worst of {len(samples.values)}" if samples.by_worst else text,
        evidence=samples.evidence,
        relatives=tuple(ratio for ratio in relatives if ratio.metric == samples.metric),
    )


def session_figure(sessions: ObservedSessions) -> Figure:
    elsewhere = f"; {sessions.elsewhere} more under overload, which are not judged" if sessions.elsewhere else ""
    rests_on = f"{sessions.watched} watched in {how_many(len(sessions.trials), 'trial')}{elsewhere}"
    return exact("session_flaps", float(sessions.flaps), "times", confidence=rests_on, evidence=sessions.trials)


def sampled(outcome: Outcome) -> Outcome:
    """The outcome with the figures of its samples and slopes."""
    figures = [sample_figure(samples, outcome.relatives) for samples in outcome.samples]
    figures += [figure for slope in outcome.slopes for figure in _slope_figures(slope)]
    return replace(outcome, figures=(*outcome.figures, *figures))


def _slope_figures(slope: Slope) -> Iterator[Figure]:
    confidence = f"Theil-Sen slope per one more of {slope.per}, interval at {format_ratio(slope.confidence)}"
    for unit, value, low, high in (
        (slope.unit, slope.value, slope.low, slope.high),
        ("ratio", slope.share, slope.share_low, slope.share_high),
    ):
        figure = Figure(f"{slope.metric}_slope", value, unit, low, high, confidence=confidence)
        yield figure.bounded(Why.RIG, low=True, high=True, detail=slope.why) if slope.why else figure


# Soaks. The losses of one that ended early are a lower bound. If the rig disturbed too many intervals of a whole soak,
# the DUT's losses are between those of the other intervals and all losses.


def soak_figures(soak: Soak, evidence: tuple[str, ...] = ()) -> Iterator[Figure]:
    """Yield every figure of a soak; ``evidence``: ids of its trials."""
    yield from _soak_losses(soak, evidence)
    sampled = how_many(soak.intervals, "sample")
    sampled += f", {soak.missing_intervals} missing" if soak.missing_intervals else ""
    count = float(soak.missing_intervals + soak.unexplained)
    gaps = exact("sample_gaps", count, "times", confidence=sampled, evidence=evidence)
    yield gaps if soak.is_whole else _if_partial(gaps, soak)
    if soak.sessions:
        watched = f"{how_many(len(soak.sessions), 'session')} watched: {', '.join(soak.sessions)}"
        flaps = exact("session_flaps", float(soak.flap_count), "times", confidence=watched, evidence=evidence)
        yield flaps if soak.is_whole and not soak.flap_count else _if_partial(flaps, soak)
    counted = how_many(soak.intervals, "interval")
    yield exact("disturbed_ratio", soak.disturbed_ratio, "ratio", confidence=counted, evidence=evidence)
    if soak.sampling_cores is not None:
        yield exact("sampling_cores", soak.sampling_cores, "cores", evidence=evidence)
    for drift in soak.drifts:
        if _is_conclusive(soak, drift):
            trend = f"Theil-Sen over {drift.points} points, Mann-Kendall p {drift.p_value:.2g}, interval at 95 %"
            figure = exact(drift.metric, drift.value, drift.unit, confidence=trend, evidence=evidence)
            yield replace(figure, low=drift.low, high=drift.high)


def soak_missing(soak: Soak) -> dict[str, str]:
    """Why figures are missing, by metric."""
    measured = {drift.metric for drift in soak.drifts}
    conclusive = {drift.metric for drift in soak.drifts if _is_conclusive(soak, drift)}
    missing = dict.fromkeys(set(_DRIFTS) - measured, "too few samples, or the testbed does not tell it")
    if soak.why_partial:
        missing |= dict.fromkeys(set(_DRIFTS) - conclusive, f"no trend over the whole time: {soak.why_partial}")
    if not soak.offered and not soak.is_whole:
        missing |= dict.fromkeys(("loss_ratio", "lost_frames"), f"no interval says anything: {soak.why_partial}")
    if not soak.sessions:
        missing["session_flaps"] = "no session was watched"
    return missing


def _is_conclusive(soak: Soak, drift: Drift) -> bool:
    return not soak.why_partial or (soak.is_whole and drift.metric in _OF_ALL_INTERVALS)


def _soak_losses(soak: Soak, evidence: tuple[str, ...]) -> Iterator[Figure]:
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
    all_lost, all_offered = soak.all_lost, soak.offered + soak.disturbed_interval_offered
    for metric, value, most, unit in (
        ("lost_frames", float(soak.lost), float(all_lost), "frames"),
        ("loss_ratio", ratio, all_lost / all_offered, "ratio"),
    ):
        figure = exact(metric, value, unit, load_in_fps(soak.load_fps), confidence=proof, evidence=evidence)
        if soak.why_partial and soak.is_whole:
            ends = sorted((value, most))
            yield replace(figure, low=ends[0], high=ends[1], why=(Why.WHOSE_LOSS,), detail=soak.why_partial)
        else:
            yield _if_partial(figure, soak)


def _if_partial(figure: Figure, soak: Soak) -> Figure:
    """Make it a lower bound if the soak cannot be judged over its whole time."""
    return figure.bounded(Why.ENDED_EARLY, high=True, detail=soak.why_partial) if soak.why_partial else figure


# What is common to all figures of an outcome.


def completed(outcome: Outcome) -> Outcome:
    """The outcome with each class's part of a searched load, all units of a rate, and bounds where nodes share CPUs."""
    goals = {goal.goal.name for goal in outcome.goals}
    parts = [
        replace(figure.converted("pps", partial(outcome.class_load_fps, mix_class)), of_class=mix_class.name)
        for mix_class in outcome.classes
        for figure in outcome.figures
        if figure.metric in goals and not figure.of_class
    ]
    figures = [converted for figure in (*outcome.figures, *parts) for converted in _in_all_units(figure, outcome)]
    if outcome.dut_counted:
        counted = f"the DUT counted {'; '.join(outcome.dut_counted)}"
        figures = [
            replace(figure, confidence="; ".join(filter(None, (figure.confidence, counted)))) for figure in figures
        ]
    if shares_cpus(outcome.label):
        figures = [as_bound(figure) for figure in figures]
    return replace(outcome, figures=tuple(figures))


_UNITS_OF_CONNECTIONS = {"pps": "conn/s", "frames": "connections"}
_NOT_OF_CONNECTIONS = {"mpps_per_core", "forwarding_rate"}


def of_connections(outcome: Outcome, traffic: AnyTraffic) -> Outcome:
    """The outcome of a conversation, whose load is connections a second: with figures of connections; others as is."""
    if not traffic.is_conversation:
        return outcome
    figures = tuple(
        replace(
            figure,
            metric="failed_connections" if figure.metric == "lost_frames" else figure.metric,
            unit=_UNITS_OF_CONNECTIONS.get(figure.unit, figure.unit),
            confidence=in_connections(figure.confidence),
            detail=in_connections(figure.detail),
        )
        for figure in outcome.figures
        if figure.metric not in _NOT_OF_CONNECTIONS
    )
    renamed = {"failed_connections" if name == "lost_frames" else name: why for name, why in outcome.missing.items()}
    missing = {name: in_connections(why) for name, why in renamed.items() if name not in _NOT_OF_CONNECTIONS}
    notes = tuple(map(in_connections, outcome.notes))
    return replace(outcome, figures=figures, missing=missing, notes=notes, goals=(), mean_frame_size=0.0)


def _in_all_units(figure: Figure, outcome: Outcome) -> Iterator[Figure]:
    """Yield a rate in frames, in bits (layer 2, with FCS), and as a share of line rate, if ports have one."""
    figure = replace(figure, cores=outcome.cores) if figure.unit in _RATE_UNITS else figure
    yield figure
    if figure.unit != "pps" or figure.metric not in _RATES:
        return
    sizes = {mix_class.name: mix_class.mean_frame_size for mix_class in outcome.classes}
    if size := sizes.get(figure.of_class, 0.0):
        yield figure.converted("bps", lambda fps: fps * size * 8)
    elif outcome.mean_frame_size:
        yield figure.converted("bps", outcome.bits_per_second)
    line = outcome.line_rate_fps
    if line and not figure.of_class:
        # loads are whole frames: the last fraction of a frame is not missing
        yield figure.converted("line_ratio", lambda fps: 1.0 if _at_line_rate(fps, outcome) else fps / line)
