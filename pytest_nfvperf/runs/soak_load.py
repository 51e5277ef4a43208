"""At which load to soak: the one that was asked for, S1's where this machine can bear it, or a share of the NDR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.errors import DutFailure, InconclusiveError
from pytest_nfvperf.model.measure.asked_load import SoakLoad
from pytest_nfvperf.model.measure.outcome import Outcome, SearchStatus
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialResult, TrialSpec
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import OWN_LIMIT, Search

S1_FPS = 4e6
"""Per direction: the endurance run of S1."""

_TRY_S = 1.0
_TRIES = 4
_SHARE = 0.8
"""Of the NDR, where S1's load is too much."""


def find_load(load: SoakLoad, live: LiveTopology, traffic: Traffic, search: Search) -> float:
    """Frames/s per direction.

    Raises:
        InconclusiveError: the load is above what the rig itself bears, or the rig let no NDR be found.
        DutFailure: the DUT has no NDR to take a share of.
    """
    if load.fps is not None:
        _refuse_beyond_rig(load.fps, live, traffic, search)
        return load.fps
    if load.ndr_share is None and _bears(S1_FPS, live, traffic, search):
        return S1_FPS
    ndr = ndr_to_share(live, traffic, search, "give a load, --nfv-soak-load '1 Mpps'")
    return ndr * (_SHARE if load.ndr_share is None else load.ndr_share)


def ndr_to_share(live: LiveTopology, traffic: Traffic, search: Search, instead: str) -> float:
    """The NDR that a load is a share of, frames/s per direction.

    Args:
        live: the topology to measure on.
        traffic: what to send.
        search: finds it.
        instead: what to do where there is none.

    Raises:
        InconclusiveError: the rig let none be found.
        DutFailure: the DUT has none: it loses frames already at the lowest load.
    """
    outcome = search.ndr_pdr(live, traffic)
    goal = outcome.goal("ndr")
    ndr = goal.reported_fps if goal is not None else None
    if ndr is not None:
        return ndr
    if goal is not None and goal.status is SearchStatus.BELOW_MINIMUM:
        raise DutFailure(f"the load is a share of the NDR, and the DUT has none: {goal.detail} ({_tried(outcome)})")
    why = goal.detail if goal is not None and goal.detail else "the search ended without one"
    raise InconclusiveError(
        f"the load is a share of the NDR, and no NDR could be found ({_tried(outcome)}): {why}. Try again on a quieter "
        f"machine, or {instead}"
    )


def _tried(outcome: Outcome) -> str:
    ceiling = f", the rig's own ceiling is {format_fps(outcome.ceiling_fps)}" if outcome.ceiling_fps else ""
    return f"{len(outcome.trials)} trials{ceiling}"


def _refuse_beyond_rig(load_fps: float, live: LiveTopology, traffic: Traffic, search: Search) -> None:
    """Above its own ceiling the rig loses frames itself, and no soak could tell them from the DUT's loss.

    A ceiling that was kept may be another day's. It is measured again where it speaks against the load, and where the
    generator falls behind at the load although the ceiling does not.
    """
    ceiling = search.ceiling_fps(live, traffic)
    if ceiling is None:
        return
    if load_fps <= ceiling and not _falls_behind(_short_trials(load_fps, live, traffic)):
        return
    today = search.ceiling_fps(live, traffic, anew=True)
    if today is None or load_fps <= today:
        return
    raise InconclusiveError(
        f"the load of {format_fps(load_fps)} per direction is above what the rig itself bears today, "
        f"{format_fps(today)}: what is lost at it may be the rig's loss. Soak at less (--nfv-soak-load "
        f"'{format_fps(today * _SHARE)}'), or give the generator a CPU of its own"
    )


def _bears(load_fps: float, live: LiveTopology, traffic: Traffic, search: Search) -> bool:
    """The rig can do it, and one of a few short trials is without loss.

    A stall of the host in another is no reason for a lower load.
    """
    ceiling = search.ceiling_fps(live, traffic)
    if ceiling is not None and load_fps > ceiling:
        return False
    return any(result.valid and result.lost == 0 for result in _short_trials(load_fps, live, traffic))


def _falls_behind(results: Iterable[TrialResult]) -> bool:
    """The generator cannot do the load: it says so in every trial."""
    return all(any(reason.code in OWN_LIMIT for reason in result.invalid) for result in results)


def _short_trials(load_fps: float, live: LiveTopology, traffic: Traffic) -> Iterator[TrialResult]:
    """A few, each run when it is asked for."""
    live.learn(traffic)
    both = live.topology.directions
    spec = TrialSpec(
        traffic=traffic,
        load_fps=max(1, round(load_fps)),
        duration_s=_TRY_S,
        directions=both if traffic.bidirectional else both[:1],
        purpose="load for the soak",
    )
    live.runner.run_once(spec)  # after idling, caches are cold
    for _ in range(_TRIES):
        yield live.runner.run_once(spec).result
