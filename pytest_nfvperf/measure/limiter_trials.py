"""Measures a limiter: two trials above its rate, each from a full bucket, against the token bucket's own formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_nfvperf.measure.limits import LoadRange
from pytest_nfvperf.measure.measurer import SHORT_WINDOW_S, LoadMeasurer
from pytest_nfvperf.measure.trials import Trial, repeat_until_valid
from pytest_nfvperf.model.display import format_fps, listed
from pytest_nfvperf.model.disturbance.trial import Reason, ReasonKind
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.evidence.records import Span
from pytest_nfvperf.model.measure.token_bucket import Admission, admission, limiter_figures
from pytest_nfvperf.model.topology.frame_route import route
from pytest_nfvperf.model.topology.limiters import Limiter
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import classes_of
from pytest_nfvperf.model.traffic.trial import Direction

_TOLERATED = frozenset(reason for reason in Reason if reason.kind is not ReasonKind.TESTBED)
"""What was offered is counted window by window, and a pause widens the figure's interval."""

_MOST_LOAD, _LEAST_LOAD, _CALM_FPS = 4.0, 1.5, 1_000_000
"""A load of so many times the limiter's rate, as far as any DUT sustains it: the faster a bucket is emptied, the better
its burst shows."""
_OVERLOAD, _MARGIN = 1.1, 1.2
_SHORTEST_S, _LEAST_LONGER_S, _MOST_LONGER_S, _SHARPNESS = 0.2, 2.0, 8.0, 0.0025
"""The second trial is so much longer that whole frames and clocks are such a share of it, within these limits."""
_MOST_FILLING_S = 30.0


def limiter_of(topology: Topology, at: str | None) -> Limiter:
    """The limiter of a port, or of a bridge; ArgumentError unless there is one."""
    found = [one for one in topology.limiters if at in {None, one.at, str(one.number or "")}]
    if len(found) != 1:
        known = "; ".join(map(str, topology.limiters)) or "none, such as meter('br0', 'p0', kbps=100_000)"
        problem = "say which of its limiters by of=..., a port, a bridge or a number"
        raise ArgumentError(f"search.limits(): topology {topology.name!r}: {problem}; it has {known}")
    return found[0]


def measured_limiter(loads: LoadRange, limiter: Limiter, load_fps: float | None, of_class: str) -> dict[str, Any]:
    """Fields of the Outcome. ArgumentError for a load that does not show the limiter, and one above the rig's."""
    measurer = loads.measurer
    limited = _limited(loads.live.topology, limiter, measurer.directions)
    largest = max(one.traffic.largest_frame_size for one in classes_of(loads.traffic) if of_class in {"", one.name})

    def offered(load: float) -> float:
        """Tokens a second that frames cost the limiter at this load."""
        spec = measurer.spec(1.0, load, "limiter")
        return sum(
            limiter.tokens(each.frames, round(each.frames * each.sent.traffic.mean_frame_size))
            for each in spec.streams(spec.load_fps)
            if spec.directions[each.direction] in limited and of_class in {"", each.sent.name}
        )

    def admitted(trial: Trial) -> Admission:
        result = trial.result
        counts = result.of_class(of_class).counts if of_class else result.counts
        dropped = 0 if trial.ledger is None else trial.ledger.dropped(limiter.drop_reasons)
        return admission(limiter, result, [each for each in counts if each.direction in limited], dropped, largest)

    frame, (rate, burst) = limiter.tokens(1, largest), map(limiter.together, zip(*limiter.buckets, strict=True))
    fill_s = max(most / own for own, most in limiter.buckets)
    costs = offered(_CALM_FPS) / _CALM_FPS
    load = load_fps or max(_LEAST_LOAD * rate, min(_MOST_LOAD * rate, _CALM_FPS * costs)) / costs
    excess, problem = offered(load) - rate, ""
    if min(most for _, most in limiter.buckets) < frame:
        problem = f"its burst is less than a frame of {frame} bits: give more"
    elif fill_s > _MOST_FILLING_S:
        problem = f"its burst takes {fill_s:.0f} s to fill: give a smaller one"
    elif excess < (_OVERLOAD - 1) * rate or load > loads.limits.maximum_fps:
        least, asked, most = map(format_fps, (_OVERLOAD * rate / costs, load, loads.limits.maximum_fps))
        problem = f"{least} per direction at least exceed it, {asked} would be sent, and the rig sends {most} at most: "
        problem += "limit less, or give another load or larger frames"
    if problem:
        raise ArgumentError(f"search.limits(): {limiter}: {problem}")
    short_s = max(_SHORTEST_S, _MARGIN * burst / excess)
    longer_s = min(max((2 * frame / rate + 0.002) / _SHARPNESS, _LEAST_LONGER_S), _MOST_LONGER_S)
    trials = [_trial(measurer, fill_s, seconds, load, admitted) for seconds in (short_s, short_s + longer_s)]
    short, long = map(admitted, trials)
    if not (short.overloaded and long.overloaded):
        why = f"less reached {limiter} than it passes: the generator, or the DUT before it, did not bring the load"
        return {"missing": dict.fromkeys(("rate_error", "burst_accepted"), why)}
    rests_on, ids = f"{limiter}, offered {format_fps(load)} per direction", tuple(trial.id for trial in trials)
    figures = tuple(limiter_figures(limiter, short, long, rests_on, of_class=of_class, evidence=ids))
    missing = {"rate_error", "burst_accepted"} - {figure.metric for figure in figures}
    why = "it is less than what whole frames and the machine's pauses leave open"
    return {"figures": figures, "missing": dict.fromkeys(sorted(missing), why)}


def _limited(topology: Topology, limiter: Limiter, directions: Sequence[Direction]) -> tuple[Direction, ...]:
    """The directions whose frames it limits; ArgumentError without one, or if it sees a frame twice."""
    passes = {
        direction: sum(limiter.limits(hop.bridges, hop.entry, hop.exit) for hop in route(topology, direction) or ())
        for direction in directions
    }
    if max(passes.values()) != 1:
        seen = "one passes it twice: limit one pass of it" if any(passes.values()) else "none passes it: send one"
        raise ArgumentError(f"search.limits(): {limiter}: of the directions {listed(map(str, directions))} {seen}")
    return tuple(direction for direction, times in passes.items() if times)


def _trial(
    measurer: LoadMeasurer, fill_s: float, seconds: float, load_fps: float, admitted: Callable[[Trial], Admission]
) -> Trial:
    """A trial that begins with a full bucket: nothing is sent for as long as it takes to fill."""
    runner, spec = measurer.runner, measurer.spec(seconds, load_fps, "limiter")
    spec = replace(spec, window_s=spec.window_s and SHORT_WINDOW_S)

    def measure(repeat_of: str | None) -> Trial:
        with runner.recorder.stopwatch.of(Span.WAITING):
            runner.clock.sleep(_MARGIN * fill_s)
        return runner.run_once(spec, repeat_of=repeat_of, anywhere=True)

    def tolerated(trial: Trial) -> frozenset[Reason]:
        return _TOLERATED if admitted(trial).overloaded else frozenset()

    measurer.trials.append(repeat_until_valid(measure, runner.repeats, runner.context.time_limit, tolerated))
    return measurer.trials[-1]
