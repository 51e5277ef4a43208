"""At which load to soak: the one that was asked for, S1's where this machine can bear it, or a share of the NDR."""

from __future__ import annotations

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import Search

S1_FPS = 4e6
"""Per direction: the endurance run of S1."""

_TRY_S = 1.0
_TRIES = 4
_SHARE = 0.8
"""Of the NDR, where S1's load is too much."""


def find_load(load: SoakLoad, live: LiveTopology, traffic: Traffic, search: Search) -> float:
    """Frames/s per direction.

    Raises:
        InvalidTrialsError: the rig is too disturbed to find the NDR.
        TestbedError: no NDR was found, so there is no share of it.
    """
    if load.fps is not None:
        return load.fps
    if load.ndr_share is None and _bears(S1_FPS, live, traffic):
        return S1_FPS
    ndr = ndr_to_share(live, traffic, search, "give a load, --nfv-soak-load '1 Mpps'")
    return ndr * (_SHARE if load.ndr_share is None else load.ndr_share)


def ndr_to_share(live: LiveTopology, traffic: Traffic, search: Search, instead: str) -> float:
    """The NDR that a load is a share of, frames/s per direction.

    Args:
        live: where.
        traffic: what.
        search: finds it.
        instead: what to do where there is none.

    Raises:
        InvalidTrialsError: the rig is too disturbed to find it.
        TestbedError: there is none.
    """
    goal = search.ndr_pdr(live, traffic).goal("ndr")
    ndr = goal.reported_fps if goal is not None else None
    if ndr is None:
        why = goal.detail if goal is not None and goal.detail else "the search ended without one"
        raise TestbedError(f"the load is a share of the NDR, and no NDR was found ({why}): {instead}")
    return ndr


def _bears(load_fps: float, live: LiveTopology, traffic: Traffic) -> bool:
    """One of a few short trials is without loss: a stall of the host in another is no reason for a lower load."""
    live.learn(traffic)
    both = live.topology.directions
    spec = TrialSpec(
        traffic=traffic,
        load_fps=round(load_fps),
        duration_s=_TRY_S,
        directions=both if traffic.bidirectional else both[:1],
        purpose="load for the soak",
    )
    live.runner.run_once(spec)  # after idling, caches are cold
    tried = (live.runner.run_once(spec).result for _ in range(_TRIES))
    return any(result.valid and result.lost == 0 for result in tried)
