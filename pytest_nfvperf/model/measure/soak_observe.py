"""From a soak to the figures that an SLA can be about.

What a soak that ended early saw is a lower bound of what its whole time would have shown: frames lost are lost, and
none lost so far proves nothing of the rest. The same holds where the rig spoiled too many intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.measure.loss_bound import loss_bound_text
from pytest_nfvperf.model.measure.soak import Drift, Soak
from pytest_nfvperf.model.sla.load_name import load_in_fps
from pytest_nfvperf.model.sla.verdict import Observation

DRIFTS = ("rate_change", "latency_p99_change", "cycles_change", "memory_growth")


def soak_observations(soak: Soak, evidence: tuple[str, ...] = ()) -> Iterator[Observation]:
    """Every figure of a soak; ``evidence``: ids of its trials."""
    yield from _losses(soak, evidence)
    gaps = Observation("sample_gaps", float(soak.missing_intervals + soak.unexplained), "times", evidence=evidence)
    yield _bounded(replace(gaps, confidence=_samples_text(soak)), soak)
    if soak.sessions:
        watched = f"{len(soak.sessions)} sessions watched: {', '.join(soak.sessions)}"
        flaps = Observation("session_flaps", float(soak.flap_count), "times", confidence=watched, evidence=evidence)
        yield _bounded(flaps, soak)
    yield Observation(
        "spoiled_ratio", soak.spoiled_ratio, "ratio", confidence=f"{soak.intervals} intervals", evidence=evidence
    )
    if soak.sampling_cores is not None:
        yield Observation("sampling_cores", soak.sampling_cores, "cores", evidence=evidence)
    if not soak.bound_reason:
        yield from (_of_drift(drift, evidence) for drift in soak.drifts)


def soak_unmeasured(soak: Soak) -> dict[str, str]:
    """Trends that have no figure, and why."""
    found = {drift.metric for drift in soak.drifts}
    missing = {name: "too few samples, or the testbed does not tell it" for name in DRIFTS if name not in found}
    if soak.bound_reason:
        missing |= dict.fromkeys(DRIFTS, f"no trend over the whole time: {soak.bound_reason}")
    if not soak.offered:
        missing |= dict.fromkeys(("loss_ratio", "lost_frames"), f"no interval says anything: {soak.bound_reason}")
    if not soak.sessions:
        missing["session_flaps"] = "no session was watched"
    return missing


def _losses(soak: Soak, evidence: tuple[str, ...]) -> Iterator[Observation]:
    if soak.offered < 1:
        return
    ratio = soak.lost / soak.offered
    proof = f"{loss_bound_text(ratio, soak.offered)}; {format_seconds(soak.elapsed_s)}, {_spoiled_text(soak)}"
    at = load_in_fps(soak.load_fps)
    for metric, value, unit in (("lost_frames", float(soak.lost), "frames"), ("loss_ratio", ratio, "ratio")):
        yield _bounded(Observation(metric, value, unit, at, confidence=proof, evidence=evidence), soak)


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
    text = f"{soak.intervals} samples"
    return f"{text}, {soak.missing_intervals} missing" if soak.missing_intervals else text


def _of_drift(drift: Drift, evidence: tuple[str, ...]) -> Observation:
    confidence = f"Theil-Sen over {drift.points} points, Mann-Kendall p {drift.p_value:.2g}, interval at 95 %"
    return Observation(
        drift.metric, drift.value, drift.unit, confidence=confidence, evidence=evidence, low=drift.low, high=drift.high
    )
