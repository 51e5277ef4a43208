"""What a count of lost frames proves, in words."""

from __future__ import annotations

from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.statistics import rule_of_three


def loss_bound_text(loss_ratio: float | None, offered: int | None) -> str:
    """What a loss ratio proves: ``0 lost of 40,000,000: loss ratio < 7.5e-08 at 95 %`` (measuring method, rule 5)."""
    if loss_ratio is None:
        return "loss unknown"
    if offered is None or offered < 1:
        return f"loss ratio {format_ratio(loss_ratio)}"
    if loss_ratio == 0:
        return f"0 lost of {offered:,}: loss ratio < {rule_of_three(offered):.2g} at 95 %"
    return f"{round(loss_ratio * offered):,} lost of {offered:,}"
