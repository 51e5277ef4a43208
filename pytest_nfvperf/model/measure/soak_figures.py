"""The figures of a soak.

The losses of a soak that ended early are a lower bound. If the rig disturbed too many intervals of a whole soak, the
DUT's losses are between those of the other intervals and all losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_nfvperf.model.display import format_seconds, how_many
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.measure.outcome import loss_bound_text
from pytest_nfvperf.model.measure.soak import Drift, Soak
from pytest_nfvperf.model.sla.rules import load_in_fps

_DRIFTS = ("rate_change", "latency_p99_change", "cycles_change", "memory_growth")
_OF_ALL_INTERVALS = frozenset({"rate_change", "memory_growth"})
"""Trends that use disturbed intervals, too: see ``summarise``."""


def soak_figures(soak: Soak, evidence: tuple[str, ...] = ()) -> Iterator[Figure]:
    """Yield every figure of a soak; ``evidence``: ids of its trials."""
    yield from _losses(soak, evidence)
    sampled = how_many(soak.intervals, "sample")
    sampled += f", {soak.missing_intervals} missing" if soak.missing_intervals else ""
    count = float(soak.missing_intervals + soak.unexplained)
    gaps = exact("sample_gaps", count, "times", confidence=sampled, evidence=evidence)
    yield gaps if soak.is_whole else _bounded(gaps, soak)
    if soak.sessions:
        watched = f"{how_many(len(soak.sessions), 'session')} watched: {', '.join(soak.sessions)}"
        flaps = exact("session_flaps", float(soak.flap_count), "times", confidence=watched, evidence=evidence)
        yield flaps if soak.is_whole and not soak.flap_count else _bounded(flaps, soak)
    counted = how_many(soak.intervals, "interval")
    yield exact("disturbed_ratio", soak.disturbed_ratio, "ratio", confidence=counted, evidence=evidence)
    if soak.sampling_cores is not None:
        yield exact("sampling_cores", soak.sampling_cores, "cores", evidence=evidence)
    for drift in soak.drifts:
        if _is_conclusive(soak, drift):
            trend = f"Theil-Sen over {drift.points} points, Mann-Kendall p {drift.p_value:.2g}, interval at 95 %"
            seen = exact(drift.metric, drift.value, drift.unit, confidence=trend, evidence=evidence)
            yield replace(seen, low=drift.low, high=drift.high)


def soak_missing(soak: Soak) -> dict[str, str]:
    """Why figures are missing, by metric."""
    measured = {drift.metric for drift in soak.drifts}
    conclusive = {drift.metric for drift in soak.drifts if _is_conclusive(soak, drift)}
    missing = dict.fromkeys(set(_DRIFTS) - measured, "too few samples, or the testbed does not tell it")
    if soak.why_partial:
        missing |= dict.fromkeys(set(_DRIFTS) - conclusive, f"no trend over the whole time: {soak.why_partial}")
    if not soak.offered and not soak.is_whole:
        missing |= dict.fromkeys(("loss_ratio", "lost_frames"), f"no interval says anything: {soak.why_partial}")
    if not soak.sessions:
        missing["session_flaps"] = "no session was watched"
    return missing


def _is_conclusive(soak: Soak, drift: Drift) -> bool:
    return not soak.why_partial or (soak.is_whole and drift.metric in _OF_ALL_INTERVALS)


def _losses(soak: Soak, evidence: tuple[str, ...]) -> Iterator[Figure]:
    if soak.offered < 1 and not soak.is_whole:
        return
    ratio = soak.lost / soak.offered if soak.offered else 0.0
    proven = [loss_bound_text(ratio, soak.offered)] if soak.offered else []
    disturbed = "no interval disturbed by the rig"
    if soak.disturbed_count:
        counted = f"{soak.disturbed_count} of {soak.intervals} intervals disturbed by the rig"
        disturbed = f"{counted} ({soak.disturbed_interval_lost:,} lost in them)"
    if soak.disturbed_lost:
        disturbed += f"; {soak.disturbed_lost:,} more lost while the machine disturbed others"
    proof = "; ".join([*proven, f"{format_seconds(soak.elapsed_s)}, {disturbed}"])
    all_lost, all_offered = soak.all_lost, soak.offered + soak.disturbed_interval_offered
    for metric, value, most, unit in (
        ("lost_frames", float(soak.lost), float(all_lost), "frames"),
        ("loss_ratio", ratio, all_lost / all_offered, "ratio"),
    ):
        seen = exact(metric, value, unit, load_in_fps(soak.load_fps), confidence=proof, evidence=evidence)
        if soak.why_partial and soak.is_whole:
            ends = sorted((value, most))
            yield replace(seen, low=ends[0], high=ends[1], why=(Why.WHOSE_LOSS,), detail=soak.why_partial)
        else:
            yield _bounded(seen, soak)


def _bounded(seen: Figure, soak: Soak) -> Figure:
    """Make it a lower bound if the soak cannot be judged over its whole time."""
    return seen.bounded(Why.ENDED_EARLY, high=True, detail=soak.why_partial) if soak.why_partial else seen
