"""Searches: how long they take and how well they repeat."""

from __future__ import annotations

import time

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.model.display import format_fps, format_seconds
from pytest_nfvperf.model.measure.observe import observations
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import GATE, QUICK, Profile
from pytest_nfvperf.model.statistics import relative_spread
from pytest_nfvperf.model.topology.catalogue import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

_REPEATS = 5


def quick_repeats(made: Bench) -> list[Figure]:
    """NDR and PDR at 64 B in the quick profile, five times."""
    taken = [_search(made, QUICK) for _ in range(_REPEATS)]
    figures = [
        Figure(
            "NDR + PDR at 64 B, quick, longest",
            format_seconds(max(seconds for _, seconds in taken)),
            "<= 60 s",
            max(seconds for _, seconds in taken) <= 60,
        )
    ]
    for name in ("ndr", "pdr"):
        loads = [load for outcome, _ in taken if (load := _load(outcome, name)) is not None]
        if len(loads) < _REPEATS:
            figures.append(Figure(f"{name} repeats", f"{len(loads)} of {_REPEATS} found", "", reached=False))
            continue
        spread = relative_spread(loads) or 0.0
        shown = "/".join(format_fps(load) for load in loads)
        figures.append(Figure(f"{name}: (max - min) / median of 5", f"{spread:.1%}", "<= 5 %", spread <= 0.05, shown))
    return figures


def gate_beside_quick(made: Bench) -> list[Figure]:
    """The gate profile's figures beside the quick one's."""
    figures = []
    for profile in (QUICK, GATE):
        outcome, seconds = _search(made, profile)
        shown = ", ".join(f"{name} {format_fps(_load(outcome, name))}" for name in ("ndr", "pdr"))
        figures.append(Figure(f"64 B, profile {profile.name}", shown, detail=format_seconds(seconds)))
    return figures


def _search(made: Bench, profile: Profile) -> tuple[Outcome, float]:
    live = made.rig.live(phy2phy(), profile.invalid_trial_budget)
    search = made.search(profile)
    traffic = Traffic(frame_size=64)
    started = time.monotonic()
    return search.ndr_pdr(live, traffic), time.monotonic() - started


def _load(outcome: Outcome, name: str) -> float | None:
    """What an SLA would be judged by, frames/s per direction."""
    return next((seen.value for seen in observations(outcome) if (seen.metric, seen.unit) == (name, "pps")), None)
