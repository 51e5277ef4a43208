"""What a machine and a ring do to a rate that nobody changed: the causes of docs/explanation/noise.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median, quantiles

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import WindowState
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

_BUILDS, _TRIALS, _TRIAL_S, _WINDOW_S = 12, 6, 0.2, 0.005
_OVERLOAD_FPS, _CALM_FPS = 10e6, 1e6
_TRAFFIC = Traffic(frame_size=64)


def causes_of_noise(made: Bench) -> list[Figure]:
    """64 B at overload on many builds of one path: rates by state, by trial, by build, and after a low load."""
    trials: list[TrialResult] = []
    built, calmed = list[float](), list[float]()
    within = list[float]()
    for _ in range(_BUILDS):
        made.rig.remove_topology()
        live = made.rig.live(phy2phy(), 5)
        live.learn(_TRAFFIC)
        fresh = [_overload(made, live) for _ in range(_TRIALS)]
        made.trial(live, _TRAFFIC, _CALM_FPS, 1.0)
        after = [_overload(made, live) for _ in range(_TRIALS)]
        trials += fresh + after
        rates = [rate for rate in map(_undisturbed_fps, fresh) if rate]
        if len(rates) > 1:
            within.append((max(rates) - min(rates)) / median(rates))
        _note(built, fresh)
        _note(calmed, after)
    return [
        *_by_state(trials),
        Figure("3. share of windows in which the host took a CPU", f"{_share(trials, _AWAY):.1%}"),
        Figure("4. spread of undisturbed trials on one build", _middle(within)),
        Figure("5. builds of a path, undisturbed", _spread(built)),
        Figure("5. the same after a second at 1 Mpps", _spread(calmed)),
    ]


_AWAY = (WindowState.ABSENT, WindowState.PAUSED)


def _overload(made: Bench, live: LiveTopology) -> TrialResult:
    return made.trial(live, _TRAFFIC, _OVERLOAD_FPS, _TRIAL_S, window_s=_WINDOW_S).result


def _undisturbed_fps(result: TrialResult) -> float | None:
    """Per direction; None without at least four undisturbed windows."""
    rates = result.windows.undisturbed_fps(_TRIAL_S) if result.windows else ()
    return median(rates) / len(result.counts) if len(rates) > 3 else None


def _note(rates: list[float], results: Iterable[TrialResult]) -> None:
    known = [rate for rate in map(_undisturbed_fps, results) if rate]
    if known:
        rates.append(median(known))


def _windows(results: Iterable[TrialResult]) -> Iterable[tuple[WindowState, float]]:
    """State, and rate per direction, of each window."""
    for result in results:
        if result.windows is not None:
            rates = [rate / len(result.counts) for rate in result.windows.received_fps(_TRIAL_S)]
            yield from zip(result.windows.states(_TRIAL_S), rates, strict=False)


def _share(results: Iterable[TrialResult], states: tuple[WindowState, ...]) -> float:
    seen = [state for state, _ in _windows(results)]
    return sum(state in states for state in seen) / max(1, len(seen))


def _by_state(results: list[TrialResult]) -> list[Figure]:
    by_state = defaultdict[WindowState, list[float]](list)
    for state, rate in _windows(results):
        by_state[state].append(rate)
    total = sum(map(len, by_state.values()))
    return [
        Figure(f"1. {state}: p10, median, p90", _deciles(rates), detail=f"{len(rates) / total:.0%} of {total} windows")
        for state, rates in sorted(by_state.items(), key=lambda each: -len(each[1]))
        if len(rates) > 20
    ]


def _tenths(values: list[float]) -> tuple[float, float, float]:
    tenths = quantiles(values, n=10)
    return tenths[0], median(values), tenths[-1]


def _deciles(rates: list[float]) -> str:
    return " / ".join(map(format_fps, _tenths(rates)))


def _middle(shares: list[float]) -> str:
    return f"{median(shares):.1%} in the middle, {max(shares):.1%} at most" if shares else "no undisturbed trials"


def _spread(rates: list[float]) -> str:
    if not rates:
        return "no undisturbed trials"
    share = (max(rates) - min(rates)) / median(rates)
    return f"{format_fps(min(rates))} to {format_fps(max(rates))}, median {format_fps(median(rates))} ({share:.1%})"
