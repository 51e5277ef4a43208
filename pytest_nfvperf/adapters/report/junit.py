"""An outcome as JUnit properties: ``item.user_properties.extend(junit_properties(...))``."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.figures import goal_seen, plateau_seen, typical_latency
from pytest_nfvperf.model.evidence.conclusion import TestConclusion
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.samples import Bound
from pytest_nfvperf.model.sla.verdict import Observation, Verdict
from pytest_nfvperf.model.text import visible

RESULT, REASON = "nfvperf.result", "nfvperf.reason"
ATTEMPT = "nfvperf.attempt"
"""Of a test that another plugin repeated: which attempt it was, from 2 on."""


def junit_properties(outcome: Outcome, verdicts: Sequence[Verdict] = ()) -> list[tuple[str, str]]:
    """(name, value) pairs: labels, frames/s per direction, latency in ns, verdicts; what was not measured is absent."""
    pairs: list[tuple[str, object]] = [(f"label.{name}", value) for name, value in outcome.labels]
    pairs.append(("algorithm", outcome.algorithm))
    for goal in outcome.goals:
        pairs.append((f"{goal.goal.name}.status", goal.status.value))
        if goal.load_fps is not None:
            pairs += _bounded(f"{goal.goal.name}.load_fps", goal_seen(outcome, goal.goal.name))
    pairs += _bounded("forwarding_rate.fps", plateau_seen(outcome))
    pairs += _latency(outcome)
    if outcome.back_to_back is not None:
        pairs.append(("back_to_back.mean_burst_frames", outcome.back_to_back.mean_burst_frames))
    if outcome.cost is not None:
        pairs.append(("cycles_per_packet", outcome.cost.pmd_cycles_per_packet))
    pairs += [(f"verdict.{verdict.requirement}", verdict.judgement.value) for verdict in verdicts]
    return [(visible(f"nfvperf.{name}"), visible(str(value))) for name, value in pairs if value is not None]


def fate_properties(became: TestConclusion) -> list[tuple[str, str]]:
    """What became of the test, and why, as JUnit properties."""
    reason = [(REASON, visible(became.reason))] if became.reason else []
    return [(RESULT, str(became.fate)), *reason]


def _bounded(name: str, seen: Observation | None) -> list[tuple[str, object]]:
    """The value, which bound of the truth it is, and its interval where that has two ends."""
    if seen is None:
        return []
    metric = name.rsplit(".", 1)[0]
    pairs: list[tuple[str, object]] = [(name, round(seen.value))]
    pairs += [(f"{metric}.lower_bound", "true" if seen.lower_bound else None)]
    pairs += [(f"{metric}.upper_bound", "true" if seen.upper_bound else None)]
    if seen.bound is Bound.BETWEEN:
        pairs += [(f"{metric}.{end}_fps", round(fps)) for end, fps in zip(("low", "high"), seen.interval, strict=True)]
    return pairs


def _latency(outcome: Outcome) -> list[tuple[str, object]]:
    point = typical_latency(outcome)
    if point is None:
        return []
    return [("latency.at", point.at), ("latency.p50_ns", point.p50_ns), ("latency.p99_ns", point.p99_ns)]
