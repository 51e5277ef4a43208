"""Finds the load of a soak: the requested one, the part of S1's that this machine sustains, or a share of the NDR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_nfvperf.measure.call_arguments import check_load
from pytest_nfvperf.measure.measurer import window_s
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.errors import DutFailure, InconclusiveError
from pytest_nfvperf.model.measure.outcome import SearchStatus
from pytest_nfvperf.model.measure.profile import S1_SOAK_FPS
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialResult, load_too_high

_LOADS = (S1_SOAK_FPS, S1_SOAK_FPS / 2, S1_SOAK_FPS / 4)
"""A soak takes the first of these that the machine sustains, starting with the profile's. A soak is about time: at a
load that a shared machine sustains only now and then, most of it would be inconclusive."""

_TRY_S = 1.0
_TRIES, _WITHOUT_LOSS = 4, 3
_SHARE = 0.8
"""Of the NDR, if all of these loads are too high."""


def find_loads(load: SoakLoad, live: LiveTopology, traffic: AnyTraffic, search: Search) -> tuple[float, ...]:
    """The load, and lower ones to use in turn if the rig disturbs a soak at it; frames/s per direction.

    A requested load is never replaced. InconclusiveError if the load is above what the rig itself sustains, or no NDR
    could be found; DutFailure if the DUT has no NDR.
    """
    if load.fps is not None:
        check_load("soak.run", traffic, load.fps, _TRY_S)
        _refuse_beyond_rig(load.fps, live, traffic, search)
        return (load.fps,)
    if load.ndr_share is None:
        loads = tuple(fps for fps in _LOADS if fps <= search.profile.soak_fps)
        for number, fps in enumerate(loads):
            tried = _tried_at(fps, live, traffic, search)
            if _sustained(tried):
                return loads[number:]
        # A machine that others use may lose frames, too: a soak at a low load may still be conclusive.
        if tried and not any(not result.inconclusive and result.own_lost > 0 for result in tried):
            return _LOADS[-1:]
    ndr = ndr_to_share(live, traffic, search, "give a load, --nfv-soak-load '1 Mpps'")
    return (min(ndr * _SHARE, _LOADS[-1]) if load.ndr_share is None else ndr * load.ndr_share,)


def ndr_to_share(live: LiveTopology, traffic: AnyTraffic, search: Search, instead: str) -> float:
    """The NDR that a load is a share of, frames/s per direction; ``instead``: advice if there is none.

    InconclusiveError if the rig let none be found; DutFailure if the DUT loses frames even at the lowest load.
    """
    outcome = search.ndr_pdr(live, traffic)
    goal = outcome.goal("ndr")
    ndr = goal.reported_fps if goal is not None else None
    if ndr is not None:
        return ndr
    ceiling = f", the rig's own ceiling is {format_fps(outcome.ceiling_fps)}" if outcome.ceiling_fps else ""
    tried = f"{len(outcome.trials)} trials{ceiling}"
    if goal is not None and goal.status is SearchStatus.BELOW_MINIMUM:
        raise DutFailure(f"the load is a share of the NDR, and the DUT has none: {goal.detail} ({tried})")
    why = goal.detail if goal is not None and goal.detail else "the search ended without one"
    raise InconclusiveError(
        f"the load is a share of the NDR, and no NDR could be found ({tried}): {why}. Try again on a quieter "
        f"machine, or {instead}"
    )


def _refuse_beyond_rig(load_fps: float, live: LiveTopology, traffic: AnyTraffic, search: Search) -> None:
    """Refuse a load above the rig's ceiling: there the rig loses frames itself, and its loss looks like the DUT's.

    A cached ceiling may be another day's. So measure it again if it is below the load, or if the generator falls behind
    although it is not.
    """
    ceiling = search.ceiling_fps(live, traffic)
    if ceiling is None:
        return
    if load_fps <= ceiling:
        # The generator falls behind at this load only if it says so in every trial.
        trials = _short_trials(load_fps, live, traffic)
        if not all(load_too_high(result.invalid) for result in trials):
            return
    today = search.ceiling_fps(live, traffic, anew=True)
    if today is None or load_fps <= today:
        return
    raise InconclusiveError(
        f"the load of {format_fps(load_fps)} per direction is above what the rig itself sustains today, "
        f"{format_fps(today)}: what is lost at it may be the rig's loss. Soak at less (--nfv-soak-load "
        f"'{format_fps(today * _SHARE)}'), or give the generator a CPU of its own"
    )


def _tried_at(load_fps: float, live: LiveTopology, traffic: AnyTraffic, search: Search) -> list[TrialResult]:
    """Run a few short trials until the load is known to be too high; none above the rig's ceiling."""
    ceiling = search.ceiling_fps(live, traffic)
    tried: list[TrialResult] = []
    if ceiling is not None and load_fps > ceiling:
        return tried
    for result in _short_trials(load_fps, live, traffic):
        tried.append(result)
        if len(tried) == _TRIES or not _sustained(tried):
            break
    return tried


def _sustained(tried: Sequence[TrialResult]) -> bool:
    """True if most of the trials lost nothing: a single stall of the host is no reason for a lower load."""
    lossy = sum(result.lost > 0 or load_too_high(result.invalid) for result in tried)
    return bool(tried) and lossy <= _TRIES - _WITHOUT_LOSS


def _short_trials(load_fps: float, live: LiveTopology, traffic: AnyTraffic) -> Iterator[TrialResult]:
    live.learn(traffic)
    spec = trial_spec(live, traffic, load_fps, _TRY_S, "load for the soak", window_s=window_s(_TRY_S))
    live.runner.run_once(spec)  # after idling, caches are cold
    for _ in range(_TRIES):
        yield live.runner.run_once(spec).result
