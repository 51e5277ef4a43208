"""An outcome as JUnit properties: ``item.user_properties.extend(junit_properties(...))``."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.figures import is_lower_bound, plateau_seen, typical_latency
from pytest_nfvperf.model.evidence.conclusion import TestConclusion
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Verdict

RESULT = "nfvperf.result"


def junit_properties(outcome: Outcome, verdicts: Sequence[Verdict] = ()) -> list[tuple[str, str]]:
    """(name, value) pairs: labels, frames/s per direction, latency in ns, verdicts; what was not measured is absent."""
    pairs: list[tuple[str, object]] = [(f"label.{name}", value) for name, value in outcome.labels]
    pairs.append(("algorithm", outcome.algorithm))
    for goal in outcome.goals:
        name = goal.goal.name
        pairs += [(f"{name}.status", goal.status.value), (f"{name}.load_fps", goal.reported_fps)]
        pairs.append((f"{name}.lower_bound", "true" if is_lower_bound(goal) else None))
    pairs += _plateau(outcome)
    pairs += _latency(outcome)
    if outcome.back_to_back is not None:
        pairs.append(("back_to_back.mean_burst_frames", outcome.back_to_back.mean_burst_frames))
    if outcome.cost is not None:
        pairs.append(("cycles_per_packet", outcome.cost.pmd_cycles_per_packet))
    pairs += [(f"verdict.{verdict.requirement}", verdict.judgement.value) for verdict in verdicts]
    return [(f"nfvperf.{name}", str(value)) for name, value in pairs if value is not None]


def fate_properties(became: TestConclusion) -> list[tuple[str, str]]:
    """What became of the test, and why, as JUnit properties."""
    reason = [("nfvperf.reason", became.reason)] if became.reason else []
    return [(RESULT, str(became.fate)), *reason]


def _plateau(outcome: Outcome) -> list[tuple[str, object]]:
    seen = plateau_seen(outcome)
    if seen is None:
        return []
    at_least = "true" if seen.lower_bound else None
    return [("forwarding_rate.fps", round(seen.value)), ("forwarding_rate.lower_bound", at_least)]


def _latency(outcome: Outcome) -> list[tuple[str, object]]:
    point = typical_latency(outcome)
    if point is None:
        return []
    return [("latency.at", point.at), ("latency.p50_ns", point.p50_ns), ("latency.p99_ns", point.p99_ns)]
