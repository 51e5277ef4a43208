"""Measurements that are not searches: loss curve, latency profile, back-to-back bursts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import BackToBack, LatencyPoint, LossPoint
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.measurer import LoadMeasurer, loss_of
from pytest_nfvperf.runs.trials import Trial

_UNTOLD = "too little of the trial was undisturbed to tell the DUT's loss from the machine's"


def loss_curve(
    measurer: LoadMeasurer, maximum_fps: float, *, step: float = 0.1, trial_s: float = 1.0
) -> tuple[LossPoint, ...]:
    """Frame-loss rate (RFC 2544 section 26.3): from the maximum down in steps, until two trials lose nothing.

    Args:
        measurer: what is measured.
        maximum_fps: 100 %, frames/s per direction.
        step: fraction of the maximum, at most 0.1 by the RFC.
        trial_s: seconds per point.
    """
    if not 0 < step <= 0.1:
        raise ValueError(f"step must be above 0 and at most 0.1 (RFC 2544 section 26.3), not {step}")
    points: list[LossPoint] = []
    for percent in range(round(1 / step), 0, -1):
        trial = measurer.measure(trial_s, maximum_fps * percent * step, "loss curve")
        points.append(loss_point(trial))
        if len(points) >= 2 and points[-1].loss_ratio == points[-2].loss_ratio == 0:
            break
    return tuple(points)


def loss_point(trial: Trial) -> LossPoint:
    """The loss of one trial."""
    result = trial.result
    counted = result.dated or result
    point = LossPoint(result.spec.load_fps, loss_of(trial), trial.id, counted.lost, counted.offered)
    if not result.says_nothing:
        return point
    by_rule = trial.ledger.by_rule / result.offered if trial.ledger is not None and result.offered else 0.0
    return replace(point, at_most=_UNTOLD, by_rule=by_rule)


def latency_profile(
    measurer: LoadMeasurer, loads: Sequence[tuple[str, float]], trial_s: float
) -> tuple[LatencyPoint, ...]:
    """Latency at given loads; ``loads`` is ((name, frames/s per direction), ...), e.g. ("50 % of pdr", 2e6).

    A load at which the rig spoiled all trials has a point without latency, which says why.
    """
    return tuple(_latency_at(measurer, name, load, trial_s) for name, load in loads)


def _latency_at(measurer: LoadMeasurer, name: str, load_fps: float, trial_s: float) -> LatencyPoint:
    try:
        return latency_point(name, measurer.measure(trial_s, load_fps, f"latency at {name}", measurer.repeats_left))
    except InvalidTrialsError as error:
        nothing = (None,) * 6
        return LatencyPoint(name, round(load_fps), error.trials[-1].id, *nothing, samples=0, spoiled=str(error))


def latency_point(name: str, trial: Trial) -> LatencyPoint:
    """The latency of one trial; ``name`` says at what load ("50 % of pdr")."""
    histogram = trial.result.latency
    load = trial.result.spec.load_fps
    if histogram is None or not histogram.total:
        return LatencyPoint(name, load, trial.id, None, None, None, None, None, None, 0)
    p50, p90, p99, p999 = (histogram.percentile_ns(p) for p in (50, 90, 99, 99.9))
    return LatencyPoint(name, load, trial.id, histogram.min_ns, p50, p90, p99, p999, histogram.max_ns, histogram.total)


def back_to_back(
    measurer: LoadMeasurer, maximum_fps: float, *, repeats: int, longest_s: float, throughput_fps: float | None
) -> BackToBack:
    """Longest burst at the maximum rate without loss (RFC 9004).

    Args:
        measurer: what is measured.
        maximum_fps: burst rate, frames/s per direction.
        repeats: searches whose mean is reported.
        longest_s: the longest burst tried, in seconds (RFC 9004: 2 s).
        throughput_fps: measured throughput for the corrected buffer time, None if unknown.

    Returns:
        The result: a lower bound where the rig spoiled bursts. Unlimited when even the longest burst lost nothing:
        then the frames are a lower bound, too, and there is no buffer to speak of.
    """
    bursts = [_longest_burst(measurer, maximum_fps, longest_s) for _ in range(repeats)]
    mean = fmean(bursts)
    unlimited = min(bursts) >= int(maximum_fps * longest_s)
    spoiled = f"the rig spoiled longer bursts: {measurer.spoiled[0]}" if measurer.spoiled and not unlimited else ""
    open_ended = unlimited or spoiled
    corrected = None if open_ended else _corrected_buffer_s(mean, maximum_fps, throughput_fps)
    return BackToBack(round(maximum_fps), tuple(bursts), mean, corrected, unlimited, spoiled)


def _corrected_buffer_s(mean_burst: float, maximum_fps: float, throughput_fps: float | None) -> float | None:
    """RFC 9004 section 5.4: the implied time, less what was forwarded while the burst arrived."""
    if throughput_fps is None:
        return None
    implied = mean_burst / maximum_fps
    return implied * (1 - min(1.0, throughput_fps / maximum_fps))


_FIRST_BURST_S = 0.01
_BURST_RESOLUTION = 0.02
"""Bisection stops when the burst is known to this share of itself."""


def _longest_burst(measurer: LoadMeasurer, load_fps: float, longest_s: float) -> int:
    """Frames per direction of the longest lossless burst, by upward from 10 ms, then by bisection."""
    low, high = 0.0, longest_s
    burst = min(longest_s, _FIRST_BURST_S)
    while burst < longest_s and _lossless(measurer, load_fps, burst):
        low, burst = burst, min(longest_s, burst * 4)
    if burst >= longest_s and _lossless(measurer, load_fps, longest_s):
        return int(load_fps * longest_s)
    high = burst
    while high - low > max(1 / load_fps, high * _BURST_RESOLUTION):
        middle = (low + high) / 2
        if _lossless(measurer, load_fps, middle):
            low = middle
        else:
            high = middle
    return int(load_fps * low)


def _lossless(measurer: LoadMeasurer, load_fps: float, burst_s: float) -> bool:
    """False also where the rig spoils every repeat: so the longest lossless burst is never overstated."""
    trial = measurer.measure_if_possible(burst_s, load_fps, "back-to-back burst", goes_lower=False)
    return trial is not None and loss_of(trial) == 0


def no_burst(failed: Sequence[str], ceiling_fps: float | None) -> str:
    """Why there is no longest burst: the rates at which the rig held none, each with what spoiled it."""
    ceiling = format_fps(ceiling_fps) if ceiling_fps else "unknown"
    return (
        f"the rig held no burst at any rate, its ceiling measured anew being {ceiling} per direction; tried "
        f"{', '.join(failed)}: leave the machine alone meanwhile, or give the generator a CPU of its own"
    )
