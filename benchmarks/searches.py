"""Searches: how long they take and how well they repeat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from benchmarks.competing_load import THIRD, runs
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.model import figure
from pytest_nfvperf.model.display import format_fps, format_seconds
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import GATE, QUICK, Profile
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

_REPEATS = 5


def quick_repeats(made: Bench) -> list[Figure]:
    """NDR, PDR and plateau at 64 B in the quick profile, five times."""
    return _repeated(made, "", 1)


def repeats_under_load(made: Bench) -> list[Figure]:
    """The same beside a process that computes for a third of the time on the housekeeping CPU."""
    with runs(THIRD, made.backend.testbed.cpus.housekeeping[0]):
        return _repeated(made, ", beside a process that takes a third of the CPU", 2)


def _repeated(made: Bench, condition: str, slack: int) -> list[Figure]:
    """``slack``: how often the spread may be that of a quiet machine."""
    taken = [_search(made, QUICK) for _ in range(_REPEATS)]
    longest = max(seconds for _, seconds in taken)
    found = [Figure(f"NDR + PDR at 64 B, longest{condition}", format_seconds(longest), "<= 60 s", longest <= 60)]
    for metric, most in (("ndr", 0.08), ("pdr", 0.05), ("forwarding_rate", 0.02)):
        seen = [each for outcome, _ in taken if (each := outcome.figure(metric, "pps")) is not None]
        found.append(_spread(f"{metric}: (max - min) / median of {_REPEATS}{condition}", seen, most * slack))
    return found


def _spread(what: str, seen: Sequence[figure.Figure], most: float) -> Figure:
    if len(seen) < _REPEATS:
        return Figure(what, f"{len(seen)} of {_REPEATS} found", f"<= {most:.0%}", reached=False)
    rates = [each.value for each in seen]
    middle = median(rates)
    spread = (max(rates) - min(rates)) / middle if middle else 0.0
    shown = "/".join(f"{'>= ' if each.high is None else ''}{format_fps(each.value)}" for each in seen)
    return Figure(what, f"{spread:.1%}", f"<= {most:.0%}", spread <= most, shown)


def gate_against_quick(made: Bench) -> list[Figure]:
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
    seen = outcome.figure(name, "pps")
    return None if seen is None else seen.value
