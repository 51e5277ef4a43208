"""Measures a limiter: two trials above its rate, each from a full bucket, against the token bucket's own formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_nfvperf.measure.limits import LoadRange
from pytest_nfvperf.measure.measurer import SHORT_WINDOW_S, LoadMeasurer
from pytest_nfvperf.measure.trials import Trial, repeat_until_valid
from pytest_nfvperf.model.display import format_fps, listed
from pytest_nfvperf.model.disturbance.trial import Reason, ReasonKind
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.evidence.records import Span
from pytest_nfvperf.model.measure.token_bucket import Admission, admission, limiter_figures
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.topology.frame_route import route
from pytest_nfvperf.model.topology.limiters import Limiter, LimiterKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import classes_of
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts

_TOLERATED = frozenset(reason for reason in Reason if reason.kind is not ReasonKind.TESTBED)
"""What was offered is counted window by window, and a pause widens the figure's interval."""

_MOST_LOAD, _LEAST_LOAD, _CALM_FPS = 4.0, 1.5, 1_000_000
"""A load of so many times the limiter's rate, as far as any DUT sustains it: the faster a bucket is emptied, the better
its burst shows."""
_OVERLOAD = 1.1
_SHORTEST_S = 0.2
_MARGIN = 1.2
_SHARPNESS, _LONGER_S = 0.0025, (2.0, 8.0)
"""The second trial is so much longer that whole frames and clocks are such a share of it; within these seconds."""
_MOST_FILLING_S = 30.0


def limiter_of(topology: Topology, at: str | None) -> Limiter:
    """The limiter of a port, or of a bridge; ArgumentError unless there is one."""
    found = [one for one in topology.limiters if at in {None, one.at, str(one.number or "")}]
    if len(found) == 1:
        return found[0]
    known = [str(one) for one in topology.limiters]
    raise ArgumentError(
        f"search.limits(): topology {topology.name!r} has {len(known)} limiters"
        + (f" ({'; '.join(known)}): say which one by its port, its bridge or its number, of=..." if known else "")
        + ("" if known else ": add one, such as meter('br0', 'p0', kbps=100_000)")
    )


def measured_limiter(loads: LoadRange, limiter: Limiter, load_fps: float | None, of_class: str) -> dict[str, Any]:
    """Fields of the Outcome. ArgumentError for a load that does not show the limiter, and one above the rig's."""
    measurer = loads.measurer
    limited = _limited(loads.live.topology, limiter, measurer.directions)
    own = [each.traffic for each in classes_of(loads.traffic) if of_class in {"", each.name}]
    largest = max((each.largest_frame_size for each in own), default=0)
    rate, burst, fill_s = _bucket(limiter, limiter.tokens(1, largest))
    each_fps = _tokens_offered(measurer, limiter, limited, of_class, _CALM_FPS) / _CALM_FPS
    calm = max(_LEAST_LOAD * rate, min(_MOST_LOAD * rate, _CALM_FPS * each_fps))
    load = load_fps or calm / each_fps
    offered = _tokens_offered(measurer, limiter, limited, of_class, load)
    if offered < _OVERLOAD * rate or load > loads.limits.maximum_fps:
        least, most = format_fps(_OVERLOAD * rate / each_fps), format_fps(loads.limits.maximum_fps)
        raise ArgumentError(
            f"search.limits(): {limiter}: {least} per direction at least exceed it, {format_fps(load)} would be sent, "
            f"and the rig sends {most} at most: limit less, or give another load or larger frames"
        )
    step = limiter.tokens(1, largest) + 2 * rate // 1000
    longer_s = min(max(step / rate / _SHARPNESS, _LONGER_S[0]), _LONGER_S[1])
    short_s = max(_SHORTEST_S, _MARGIN * burst / (offered - rate))
    admitted = partial(_admission, limiter, limited=limited, of_class=of_class, largest=largest)
    trials = [_trial(measurer, fill_s, seconds, load, admitted) for seconds in (short_s, short_s + longer_s)]
    short, long = map(admitted, trials)
    if not (short.overloaded and long.overloaded):
        why = f"less reached {limiter} than it passes: the generator, or the DUT before it, did not bring the load"
        return {"missing": dict.fromkeys(("rate_error", "burst_accepted"), why)}
    at, ids = load_in_fps(round(load)), tuple(trial.id for trial in trials)
    figures = tuple(limiter_figures(limiter, short, long, at=at, of_class=of_class, evidence=ids))
    small = {} if len(figures) == 2 else {"burst_accepted": "the burst is less than what frames and pauses leave open"}
    return {"figures": figures, "missing": small}


def _limited(topology: Topology, limiter: Limiter, directions: Sequence[Direction]) -> tuple[Direction, ...]:
    """The directions whose frames it limits; ArgumentError without one, or if it sees a frame twice."""
    passes = {
        direction: [limiter.limits(hop.bridges, hop.entry, hop.exit) for hop in route(topology, direction) or ()]
        for direction in directions
    }
    found = tuple(direction for direction, hops in passes.items() if any(hops))
    if not found or any(sum(hops) > 1 for hops in passes.values()):
        raise ArgumentError(
            f"search.limits(): {limiter}: of the directions {listed(map(str, directions))} "
            + ("one passes it twice: limit one pass of it" if found else "none passes it: send what it limits")
        )
    return found


def _bucket(limiter: Limiter, frame: int) -> tuple[int, int, float]:
    """Rate and burst in tokens, together, and how long it takes to fill; ArgumentError for one that shows nothing."""
    fill_s = max(burst / rate for rate, burst in limiter.buckets)
    smallest = min(burst for _, burst in limiter.buckets)
    if fill_s > _MOST_FILLING_S or smallest < frame:
        raise ArgumentError(
            f"search.limits(): {limiter}: "
            + (f"it fills in {fill_s:.0f} s, before each trial: give a smaller burst" if smallest >= frame else "")
            + ("" if smallest >= frame else f"no frame of {frame} bits fits into its burst: give a larger one")
        )
    together = sum if limiter.kind is LimiterKind.TRTCM else min  # the slowest of several bands decides
    return together(rate for rate, _ in limiter.buckets), together(burst for _, burst in limiter.buckets), fill_s


def _tokens_offered(
    measurer: LoadMeasurer, limiter: Limiter, limited: Sequence[Direction], of_class: str, load_fps: float
) -> float:
    """Tokens a second that frames cost it at this load."""
    spec = measurer.spec(1.0, load_fps, "limiter")
    streams = [
        each
        for each in spec.streams(spec.load_fps)
        if spec.directions[each.direction] in limited and of_class in {"", each.sent.name}
    ]
    return sum(limiter.tokens(each.frames, round(each.frames * each.sent.traffic.mean_frame_size)) for each in streams)


def _trial(
    measurer: LoadMeasurer, fill_s: float, seconds: float, load_fps: float, admitted: Callable[[Trial], Admission]
) -> Trial:
    """A trial that begins with a full bucket: nothing is sent for as long as it takes to fill."""
    runner = measurer.runner
    spec = measurer.spec(seconds, load_fps, "limiter")
    spec = spec if spec.window_s is None else replace(spec, window_s=SHORT_WINDOW_S)

    def measure(repeat_of: str | None) -> Trial:
        with runner.recorder.stopwatch.of(Span.WAITING):
            runner.clock.sleep(_MARGIN * fill_s)
        return runner.run_once(spec, repeat_of=repeat_of, anywhere=True)

    def tolerated(trial: Trial) -> frozenset[Reason]:
        return _TOLERATED if admitted(trial).overloaded else frozenset()

    trial = repeat_until_valid(measure, runner.repeats, runner.context.time_limit, tolerated)
    measurer.trials.append(trial)
    return trial


def _admission(limiter: Limiter, trial: Trial, limited: Sequence[Direction], of_class: str, largest: int) -> Admission:
    result = trial.result
    of = result.of_class(of_class).counts if of_class else result.counts
    counts: list[DirectionCounts] = [each for each in of if each.direction in limited]
    dropped = 0 if trial.ledger is None else trial.ledger.dropped(limiter.drop_reasons)
    return admission(limiter, result, counts, dropped, largest)
