"""From a soak to the figures that an SLA can be about.

The losses of a soak that ended early are a lower bound. Where the rig disturbed too many intervals of a whole soak, the
DUT's losses are between those of the other intervals and all that there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_nfvperf.model.display import format_seconds, how_many
from pytest_nfvperf.model.measure.loss_bound import loss_bound_text
from pytest_nfvperf.model.measure.soak import Drift, Soak
from pytest_nfvperf.model.sla.rules import load_in_fps
from pytest_nfvperf.model.sla.verdict import Observation

DRIFTS = ("rate_change", "latency_p99_change", "cycles_change", "memory_growth")

_OF_SPOILED_INTERVALS = frozenset({"rate_change", "memory_growth"})
"""Trends that rest on spoiled intervals, too: see ``soak_summary``."""


def soak_observations(soak: Soak, evidence: tuple[str, ...] = ()) -> Iterator[Observation]:
    """Every figure of a soak; ``evidence``: ids of its trials."""
    yield from _losses(soak, evidence)
    gaps = Observation("sample_gaps", float(soak.missing_intervals + soak.unexplained), "times", evidence=evidence)
    gaps = replace(gaps, confidence=_samples_text(soak))
    yield gaps if soak.is_whole else _bounded(gaps, soak)
    if soak.sessions:
        watched = f"{how_many(len(soak.sessions), 'session')} watched: {', '.join(soak.sessions)}"
        flaps = Observation("session_flaps", float(soak.flap_count), "times", confidence=watched, evidence=evidence)
        yield flaps if soak.is_whole and not soak.flap_count else _bounded(flaps, soak)
    yield Observation(
        "spoiled_ratio", soak.spoiled_ratio, "ratio", confidence=how_many(soak.intervals, "interval"), evidence=evidence
    )
    if soak.sampling_cores is not None:
        yield Observation("sampling_cores", soak.sampling_cores, "cores", evidence=evidence)
    yield from (_of_drift(drift, evidence) for drift in soak.drifts if _tells(soak, drift))


def soak_unmeasured(soak: Soak) -> dict[str, str]:
    """Trends that have no figure, and why."""
    seen = {drift.metric for drift in soak.drifts}
    told = {drift.metric for drift in soak.drifts if _tells(soak, drift)}
    missing = dict.fromkeys(set(DRIFTS) - seen, "too few samples, or the testbed does not tell it")
    if soak.bound_reason:
        missing |= dict.fromkeys(set(DRIFTS) - told, f"no trend over the whole time: {soak.bound_reason}")
    if not soak.offered and not soak.is_whole:
        missing |= dict.fromkeys(("loss_ratio", "lost_frames"), f"no interval says anything: {soak.bound_reason}")
    if not soak.sessions:
        missing["session_flaps"] = "no session was watched"
    return missing


def _tells(soak: Soak, drift: Drift) -> bool:
    return not soak.bound_reason or (soak.is_whole and drift.metric in _OF_SPOILED_INTERVALS)


def _losses(soak: Soak, evidence: tuple[str, ...]) -> Iterator[Observation]:
    if soak.offered < 1 and not soak.is_whole:
        return
    ratio = soak.lost / soak.offered if soak.offered else 0.0
    proven = [loss_bound_text(ratio, soak.offered)] if soak.offered else []
    proof = "; ".join([*proven, f"{format_seconds(soak.elapsed_s)}, {_spoiled_text(soak)}"])
    at = load_in_fps(soak.load_fps)
    all_lost, all_offered = soak.all_lost, soak.offered + soak.spoiled_offered
    for metric, value, most, unit in (
        ("lost_frames", float(soak.lost), float(all_lost), "frames"),
        ("loss_ratio", ratio, all_lost / all_offered, "ratio"),
    ):
        seen = Observation(metric, value, unit, at, confidence=proof, evidence=evidence)
        if soak.bound_reason and soak.is_whole:
            yield replace(seen, low=min(value, most), high=max(value, most), bound_reason=soak.bound_reason)
        else:
            yield _bounded(seen, soak)


def _bounded(seen: Observation, soak: Soak) -> Observation:
    """At least so much, where the soak does not speak for its whole time."""
    return replace(seen, lower_bound=bool(soak.bound_reason), bound_reason=soak.bound_reason)


def _spoiled_text(soak: Soak) -> str:
    elsewhere = f"; {soak.disturbed_lost:,} more lost while the machine disturbed others" if soak.disturbed_lost else ""
    if not soak.spoiled_count:
        return f"no interval spoiled by the rig{elsewhere}"
    counted = f"{soak.spoiled_count} of {soak.intervals} intervals spoiled by the rig"
    return f"{counted} ({soak.spoiled_lost:,} lost in them){elsewhere}"


def _samples_text(soak: Soak) -> str:
    text = how_many(soak.intervals, "sample")
    return f"{text}, {soak.missing_intervals} missing" if soak.missing_intervals else text


def _of_drift(drift: Drift, evidence: tuple[str, ...]) -> Observation:
    confidence = f"Theil-Sen over {drift.points} points, Mann-Kendall p {drift.p_value:.2g}, interval at 95 %"
    return Observation(
        drift.metric, drift.value, drift.unit, confidence=confidence, evidence=evidence, low=drift.low, high=drift.high
    )
