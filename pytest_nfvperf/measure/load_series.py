"""Measures at a series of loads: loss, latency, bursts, and the share of flows that a NIC handles itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pytest_nfvperf.measure.measurer import LoadMeasurer
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial, repeat_until_valid
from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import COUNTED, OF_THE_LOAD, Reason, TrialResult
from pytest_nfvperf.model.errors import OutOfTimeError
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.measure.bounds import (
    Reasons,
    TrialLoss,
    class_loss_figures,
    latency_figures,
    latency_missing,
    sample_figure,
)
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.measure.outcome import BackToBack, ClassLoss, ClassOutcome, LatencyPoint, LossPoint, Outcome
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.sla.rules import load_in_fps, share_of_goal
from pytest_nfvperf.model.statistics import Samples
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix, least_load_fps
from pytest_nfvperf.model.traffic.trial import failures, sum_of_classes

DELIVERIES = {f"{kind}_ratio": kind for kind in ("duplicated", "misdirected", "corrupted")}
DELIVERIES |= {"reordered_ratio": "out_of_order"}
"""Metrics of frames that did not come once, to their port, unchanged and in order, with the counts of each."""

_COUNTING_FPS = 1000
"""A load that any DUT and testbed sustains, frames/s per direction."""

_SPARE = 1.25

_NEEDED = f"at least {format_ratio(1 - POLICY.most_not_offered)} is needed"

_BY_CLASS = {"forwarding_rate": None, "load_latency_p50": 50.0, "load_latency_p99": 99.0}
"""Metrics of studies that each class has, and the percentile of those of latency."""

_UNCOUNTED = "the generator does not count such frames, or they may come out of any port"

_FIRST_BURST_S = 0.01
_BURST_RESOLUTION = 0.02
"""Bisection stops when the burst is known to this share."""


def share_after(live: LiveTopology, labels: Mapping[str, str]) -> OffloadShare | None:
    """Where the datapath handles its flows, read right after a measurement: OVS forgets idle ones after 10 s.

    None if the testbed requests no hardware offload (label ``offload``), or the datapath cannot tell.
    """
    share = live.deployment.built.offload_share() if labels.get("offload") == "on" else None
    return None if share is None else share.with_frames(live.runner.take_offloaded())


def loss_curve(
    measurer: LoadMeasurer, maximum_fps: float, *, step: float = 0.1, trial_s: float = 1.0
) -> tuple[TrialLoss, ...]:
    """Frame-loss rate (RFC 2544 section 26.3): from the maximum down in steps, until two trials lose nothing.

    It ends above the fixed loads of a mix, too.

    ``maximum_fps``: per direction. ``step``: fraction of it, at most 0.1 by the RFC. ``trial_s``: per point.
    """
    if not 0 < step <= 0.1:
        raise ValueError(f"step must be above 0 and at most 0.1 (RFC 2544 section 26.3), not {step}")
    points: list[TrialLoss] = []
    least_fps = least_load_fps(measurer.traffic, trial_s)
    for percent in range(round(1 / step), 0, -1):
        load_fps = maximum_fps * percent * step
        if points and load_fps < least_fps:
            break
        trial = measurer.measure(trial_s, load_fps, "loss curve")
        points.append(loss_of_trial(trial))
        if len(points) >= 2 and all(not each.short and each.point.loss_ratio == 0 for each in points[-2:]):
            break
    return tuple(points)


def trial_of_frames(measurer: LoadMeasurer, frames: int) -> Trial:
    """A trial in which so many frames per direction were sent at a calm load; each repeat has twice the time.

    Counts are the question, and no rate: frames that were not sent make it no less valid. But what kept the generator
    may have kept the DUT: frames lost then are counted again, in windows, which tell the DUT's loss from the machine's.
    """
    runner, seconds, lossy = measurer.runner, frames / _COUNTING_FPS, False

    def measure(repeat_of: str | None) -> Trial:
        nonlocal seconds, lossy
        seconds *= 2 if repeat_of else _SPARE
        spec = measurer.spec(seconds, _COUNTING_FPS, COUNTED)
        trial = runner.run_once(spec if lossy else replace(spec, window_s=None), repeat_of=repeat_of, anywhere=True)
        lossy = lossy or trial.result.lost > 0
        return trial

    def tolerated(trial: Trial) -> frozenset[Reason]:
        result = trial.result
        in_windows = result.spec.window_s is not None or not measurer.windowed
        own = result.judgement.loss(trial.certain_drops).least > 0 and (in_windows or trial.certain_drops > 0)
        attributed = not result.lost or own
        return OF_THE_LOAD if attributed and all(each.offered >= frames for each in result.counts) else frozenset()

    trial = repeat_until_valid(measure, runner.repeats, runner.context.time_limit, tolerated)
    measurer.trials.append(trial)
    return trial


def loss_of_trial(trial: Trial) -> TrialLoss:
    """The loss of a trial, and how much of it is certainly the DUT's."""
    result, load_fps, loss = trial.result, trial.result.spec.load_fps, trial.result.judgement.loss(trial.certain_drops)
    short, offered_fps = short_of_load(result), round(load_fps * result.offered_share)
    point = LossPoint(load_fps, loss.most, trial.id, loss.lost, loss.of, offered_fps)
    return TrialLoss(point, loss.least, loss.why or "", short)


def with_trials(outcome: Outcome, traffic: AnyTraffic | None, trials: Iterable[Trial]) -> Outcome:
    """Add what the trials that its figures rest on say of each class, of deliveries, and of the DUT's own errors."""
    by_id = {trial.id: trial for trial in trials}
    ids = [point.trial_id for point in outcome.loss_curve]  # also those without a figure
    ids += [trial_id for figure in outcome.figures for trial_id in figure.evidence]
    judged = [by_id[trial_id] for trial_id in dict.fromkeys(ids) if trial_id in by_id]
    judged = [trial for trial in judged if trial.result.spec.purpose not in {"warm-up", "search"}]
    if outcome.goals:  # of a search, what was found and confirmed; at overload a DUT may do anything
        judged = [trial for trial in judged if not trial.result.spec.saturating]
    names = dict.fromkeys(("", *(counts.name for trial in judged for counts in trial.result.classes)))
    figures = [figure for name in names for trial in judged for figure in _deliveries(trial, name)]
    worst = {figure.key: figure for figure in sorted(figures, key=lambda figure: figure.value)}
    counted = {figure.metric for figure in figures}
    uncounted = {metric: _UNCOUNTED for metric in DELIVERIES if judged and metric not in counted}
    classes = _by_class(outcome, traffic, by_id)
    known = [_with_failures(figure, by_id) for figure in outcome.figures]
    return replace(
        outcome,
        notes=(*outcome.notes, *_tuples_used_again(traffic, by_id.values())),
        classes=tuple(of_class for of_class, _ in classes),
        figures=(*known, *worst.values(), *(figure for _, of_class in classes for figure in of_class)),
        missing=outcome.missing | uncounted,
        dut_counted=tuple(_dut_counted(judged)),
    )


def _with_failures(figure: Figure, trials: Mapping[str, Trial]) -> Figure:
    """The figure of a load or a loss with the steps at which connections of its trials failed."""
    if figure.metric not in {"connection_rate", "concurrent_connections", "loss_ratio", "lost_frames"}:
        return figure
    rest_on = [trials[each].result for each in figure.evidence if each in trials]
    counts = [count for each in rest_on if not each.spec.saturating for count in each.counts]
    return replace(figure, confidence="; ".join(filter(None, (figure.confidence, *failures(counts)))))


def _tuples_used_again(traffic: AnyTraffic | None, trials: Iterable[Trial]) -> Iterator[str]:
    """Yield a note where connections failed of a trial that had more of them than addresses and ports."""
    if traffic is None or not traffic.is_conversation:
        return
    opened = [count.sent for trial in trials for count in trial.result.counts if count.lost]
    if (most := max(opened, default=0)) > traffic.combinations:
        yield (
            f"connections failed in a trial of {most:,} on {traffic.combinations:,} pairs of address and port, each "
            f"used {math.ceil(most / traffic.combinations):,} times: if the DUT still remembered the ones before, more "
            "clients or ports give a higher rate"
        )


def _deliveries(trial: Trial, of_class: str) -> Iterator[Figure]:
    """Yield the shares of its frames, or of those of a class, that did not come as they should."""
    spec = trial.result.spec
    own = [counts for counts in trial.result.classes if of_class in {"", counts.name}]
    total = sum_of_classes([count for counts in own for count in counts.counts] or trial.result.counts)
    to_many = len({direction.tx for direction in spec.directions}) < len(spec.directions)
    for metric, kind in DELIVERIES.items():
        frames, of = getattr(total, kind), total.received if kind == "out_of_order" else total.sent
        if frames is None or (kind == "misdirected" and to_many):
            continue
        what = f"{frames:,} {metric.removesuffix('_ratio')} of {of:,} at {spec.load_text}"
        if kind == "misdirected" and frames:
            what += f", which came to {', '.join(port for port, _ in total.elsewhere or ())}"
        yield exact(metric, frames / max(1, of), "ratio", of_class=of_class, confidence=what, evidence=(trial.id,))


def _dut_counted(trials: Iterable[Trial]) -> Iterator[str]:
    """``conntrack_full 8,313 in trial-0003: the connection table was full``, of the trial with most."""
    errors = [(error, trial.id) for trial in trials if trial.ledger is not None for error in trial.ledger.counted]
    worst = {error.reason: (error, trial_id) for error, trial_id in sorted(errors, key=lambda pair: pair[0].frames)}
    yield from (f"{error.reason} {error.frames:,} in {trial_id}: {error.detail}" for error, trial_id in worst.values())


def _by_class(
    outcome: Outcome, traffic: AnyTraffic | None, trials: Mapping[str, Trial]
) -> list[tuple[ClassOutcome, list[Figure]]]:
    """What these trials say of each class of a mix, at the loads of the outcome's own figures; [] for no mix."""
    if not isinstance(traffic, TrafficMix):
        return []
    by_id = {trial_id: trial for trial_id, trial in trials.items() if trial.result.classes}
    losses = [
        (share_of_goal(1.0, goal.goal.name), goal.confirmation.trial_id)
        for goal in outcome.goals
        if goal.confirmation is not None
    ]
    losses += [(load_in_fps(point.load_fps), point.trial_id) for point in outcome.loss_curve]
    if outcome.soak is not None:
        losses += [(load_in_fps(outcome.soak.load_fps), trial_id) for trial_id in outcome.trials]
    outcomes = []
    for stream in traffic.classes:
        name = stream.name
        own = [_class_loss(name, load, by_id[trial], outcome.soak) for load, trial in losses if trial in by_id]
        latency = tuple(
            _percentiles(point.at, point.load_fps, trial.id, trial.result.of_class(name).latency)
            for point in outcome.latency
            if point.p50_ns is not None and (trial := by_id.get(point.trial_id)) is not None
        )
        of_all = (samples for samples in outcome.samples if samples.metric in _BY_CLASS)
        samples = tuple(part for whole in of_all if (part := _class_samples(name, whole, by_id)).values)
        of_class = ClassOutcome(
            name,
            stream.share,
            stream.fixed_fps,
            stream.sends,
            stream.traffic.shape_label,
            stream.traffic.mean_frame_size,
            tuple(loss for loss, _ in own),
            latency,
            samples,
            stream.traffic.is_conversation,
        )
        figures = [figure for _, of_loss in own for figure in of_loss]
        figures += [figure for point in latency for figure in latency_figures(point, name)]
        figures += [replace(figure, of_class=name) for figure in map(sample_figure, samples)]
        outcomes.append((of_class, figures))
    return outcomes


def _class_samples(name: str, of_all: Samples, trials: Mapping[str, Trial]) -> Samples:
    """A class's part of a study's readings: of a rate as many of the frames received, and its own latency."""
    values: list[float] = []
    for value, trial_id in zip(of_all.values, of_all.evidence, strict=True):
        result, percentile = trials[trial_id].result, _BY_CLASS[of_all.metric]
        own = result.of_class(name)
        if percentile is None:
            values.append(value * own.received / max(1, result.received) * len(result.counts) / len(own.counts))
        elif own.latency is not None and (found := own.latency.percentile_ns(percentile)) is not None:
            values.append(found)
    return replace(of_all, values=tuple(values))


def _class_loss(name: str, load: str, trial: Trial, soak: Soak | None) -> tuple[ClassLoss, list[Figure]]:
    """A class's loss over the whole trial, with its figures: how much of it is certainly the DUT's."""
    result = trial.result
    counts, by_rule = next(counts for counts in result.classes if counts.name == name), trial.certain_drops
    bounded = soak is not None and bool(soak.why_partial)
    of_soak = None if soak is None else by_rule if bounded else soak.lost
    most, least, why = result.judgement.loss_of_class(name, by_rule, of_soak, bounded=bounded)
    arrivals = [count.arrivals for count in counts.counts if count.arrivals is not None]
    worst = max(arrivals, key=lambda arrival: arrival.outage_ns, default=None)
    gap = (worst.gap_after_ns, worst.gap_before_ns) if worst is not None else (None, None)
    loss = ClassLoss(
        load,
        round(max(count.intended for count in counts.counts) / result.due_s),
        trial.id,
        counts.offered,
        most,
        tuple(ns / 1e9 for ns in gap if ns is not None),
    )
    short = "" if soak is not None else _short_of_class(result, name, counts.offered_share)
    return loss, [*class_loss_figures(name, loss, least, why or "", short)]


def short_of_load(result: TrialResult) -> str:
    if result.sustained_load or result.spec.purpose == COUNTED:
        return ""
    load_fps, share = result.spec.load_fps, result.offered_share
    return (
        f"the generator offered {format_fps(load_fps * share)} of the {format_fps(load_fps)} asked for "
        f"({format_ratio(share)}; {_NEEDED})"
    )


def _short_of_class(result: TrialResult, name: str, share: float) -> str:
    if not short_of_load(result) or share >= 1 - POLICY.most_not_offered:
        return ""
    return f"the generator offered {format_ratio(share)} of the frames of class {name} that were due ({_NEEDED})"


def latency_profile(
    measurer: LoadMeasurer, loads: Sequence[tuple[str, float]], trial_s: float
) -> tuple[tuple[LatencyPoint, ...], dict[str, str]]:
    """Latency at given loads; ``loads`` is ((name, frames/s per direction), ...), e.g. ("50 % of pdr", 2e6).

    If the rig disturbed all trials at a load, or the time is over, its point has no latency. Returns the points, and
    why latencies are missing, by metric.
    """
    points, missing = [], dict[str, str]()
    for name, load_fps in loads:
        try:
            trial = measurer.measure(trial_s, load_fps, f"latency at {name}", measurer.repeats_left)
            point, why = latency_point(name, trial)
        except (InvalidTrialsError, OutOfTimeError) as error:
            trials = error.trials if isinstance(error, InvalidTrialsError) else ()
            point, why = _percentiles(name, round(load_fps), trials[-1].id if trials else "", None), str(error)
        points.append(point)
        missing |= latency_missing(point, why)
    return tuple(points), missing


def latency_point(name: str, trial: Trial) -> tuple[LatencyPoint, str]:
    """The latency of one trial, and why it has none; ``name``: of its load ("50 % of pdr").

    No figures if it was short of that load.
    """
    short = short_of_load(trial.result) or "; ".join(map(str, trial.result.invalid))
    latency = None if short else trial.result.latency
    return _percentiles(name, trial.result.spec.load_fps, trial.id, latency), short


def _percentiles(name: str, load: int, trial_id: str, histogram: Histogram | None) -> LatencyPoint:
    if histogram is None or not histogram.total:
        return LatencyPoint(name, load, trial_id, None, None, None, None, None, None, samples=0)
    p50, p90, p99, p999 = map(histogram.percentile_ns, (50, 90, 99, 99.9))
    least, most = histogram.min_ns, histogram.max_ns
    return LatencyPoint(name, load, trial_id, least, p50, p90, p99, p999, most, histogram.total)


def back_to_back(
    measurer: LoadMeasurer, maximum_fps: float, *, repeats: int, longest_s: float, throughput_fps: float | None
) -> tuple[BackToBack, Reasons]:
    """Longest burst at the maximum rate without loss (RFC 9004): the mean of ``repeats`` searches.

    ``maximum_fps``: burst rate per direction. ``longest_s``: the longest burst tried (RFC 9004: 2 s).
    ``throughput_fps``: for the corrected buffer time, None if unknown. Returns why it is only a lower bound, too: the
    rig disturbed longer bursts, or even the longest one lost nothing, so that no buffer is the limit.
    """
    bursts = [_longest_burst(measurer, maximum_fps, longest_s) for _ in range(repeats)]
    mean = fmean(bursts)
    unlimited = min(bursts) >= int(maximum_fps * longest_s)
    reasons = [(Why.UNTRIED, "the longest burst lost nothing")] if unlimited else []
    if measurer.disturbed_loads and not unlimited:
        reasons.append((Why.DISTURBED, f"the rig disturbed longer bursts: {measurer.disturbed_loads[0]}"))
    corrected_s = None
    if not reasons and throughput_fps is not None:
        # RFC 9004 section 5.4: the implied time, less what was forwarded while the burst arrived.
        corrected_s = mean / maximum_fps * (1 - min(1.0, throughput_fps / maximum_fps))
    return BackToBack(round(maximum_fps), tuple(bursts), mean, corrected_s), reasons


def _longest_burst(measurer: LoadMeasurer, load_fps: float, longest_s: float) -> int:
    low, high = 0.0, min(longest_s, _FIRST_BURST_S)
    while high < longest_s and load_fps < least_load_fps(measurer.traffic, high):
        high = min(longest_s, high * 4)
    while high < longest_s and _lossless(measurer, load_fps, high):
        low, high = high, min(longest_s, high * 4)
    if high >= longest_s and _lossless(measurer, load_fps, longest_s):
        return int(load_fps * longest_s)
    while high - low > max(1 / load_fps, high * _BURST_RESOLUTION):
        middle = (low + high) / 2
        if _lossless(measurer, load_fps, middle):
            low = middle
        else:
            high = middle
    return int(load_fps * low)


def _lossless(measurer: LoadMeasurer, load_fps: float, burst_s: float) -> bool:
    """Also False if the rig disturbs the burst or every repeat, so the longest lossless one is never overstated.

    A burst without a frame of each class of a mix is none.
    """
    if load_fps * burst_s < 1:  # no frame at all
        return True
    if load_fps < least_load_fps(measurer.traffic, burst_s):
        return False
    trial = measurer.measure_if_possible(burst_s, load_fps, "back-to-back burst", goes_lower=False)
    if trial is None or trial.result.judgement.assumed_loss_ratio != 0:
        return False
    # A burst with gaps is none, although its undisturbed windows were at full rate: queues drain in the gaps.
    result = trial.result
    if result.offered < (1 - POLICY.most_not_offered) * result.intended:
        share, burst = format_ratio(result.offered / result.intended), format_seconds(burst_s)
        measurer.disturbed_loads.append(f"{trial.id}: the generator offered {share} of a burst of {burst}")
        return False
    return True


def no_burst(failed: Sequence[str], ceiling_fps: float | None) -> str:
    """Why there is no longest burst. ``failed``: rates at which the rig sustained none, each with the reason."""
    ceiling = format_fps(ceiling_fps) if ceiling_fps else "unknown"
    return (
        f"the rig sustained no burst at any rate; its ceiling, measured again, is {ceiling} per direction; tried "
        f"{', '.join(failed)}: leave the machine alone meanwhile, or give the generator a CPU of its own"
    )
