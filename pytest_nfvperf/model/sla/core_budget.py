"""A rate under a budget of cores: what a measurement with other CPUs than the budget's says about it.

With fewer cores than it may have, a datapath does at least what was seen; with more, at most.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_nfvperf.model.sla.verdict import Observation

_CORES = re.compile(r"(?P<number>[1-9]\d{0,2}) cores?", re.ASCII)


def budget_of(at: str | None) -> int | None:
    """The number of ``2 cores``; None for what is no budget of cores."""
    match = _CORES.fullmatch(" ".join((at or "").split()))
    return int(match["number"]) if match else None


def budget_text(cores: int) -> str:
    """``2 cores``."""
    return "1 core" if cores == 1 else f"{cores} cores"


def within(seen: Observation, budget: int) -> Observation | str:
    """The figure as a bound of what the datapath does on so many cores; or why that cannot be said."""
    if not seen.cores:
        return f"how many cores the datapath had is not known, and the SLA is about {budget_text(budget)}"
    if seen.cores == budget:
        return seen
    lower = seen.cores < budget
    why = f"on {budget_text(seen.cores)}, and the SLA is about {budget_text(budget)}"
    return replace(
        seen,
        lower_bound=seen.lower_bound or lower,
        upper_bound=seen.upper_bound or not lower,
        bound_reason="; ".join(filter(None, (seen.bound_reason, why))),
    )
