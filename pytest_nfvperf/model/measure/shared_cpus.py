"""Figures of nodes that share CPUs: each waits for the others, so what is seen bounds what it can do from one side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_nfvperf.model.sla.verdict import Observation
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology

LABEL, SHARED, SHORT_TURNS, OWN = "node_cpus", "shared", "short-turns", "own"
"""Of subjects with several nodes. In short turns rings hold what comes meanwhile, so ratios of rates say what frames
cost; in the kernel's turns of milliseconds they say how large the rings are."""

LOWER_BOUNDS = frozenset({"ndr", "pdr", "throughput", "forwarding_rate", "mpps_per_core", "back_to_back_frames"})
"""Of which a DUT that was kept waiting shows less than it can."""

UPPER_BOUNDS = frozenset({"packet_time", "cycles_per_packet", "loss_ratio", "lost_frames"})
"""Of which it shows more."""

_WHY = "the nodes share CPUs"


def node_labels(topology: Topology, datapath: DatapathInfo) -> dict[str, str]:
    """Whether the nodes of a topology have CPUs of their own, or how they share them; empty for one DUT."""
    shared = SHORT_TURNS if datapath.short_turns else SHARED
    return {LABEL: shared if datapath.at_least else OWN} if topology.nodes else {}


def shares_cpus(labels: Mapping[str, str]) -> bool:
    """True for a subject whose nodes wait for one another's CPU."""
    return labels.get(LABEL) in (SHARED, SHORT_TURNS)


def as_bound(seen: Observation) -> Observation:
    """A rate is at least what was seen, a cost or a loss at most; ratios to a subject that shares alike stay."""
    lower = seen.metric in LOWER_BOUNDS
    upper = seen.metric in UPPER_BOUNDS or seen.metric.startswith("latency_")
    if not (lower or upper):
        return seen
    why = "; ".join(filter(None, (seen.bound_reason, _WHY)))
    return replace(seen, lower_bound=seen.lower_bound or lower, upper_bound=seen.upper_bound or upper, bound_reason=why)
