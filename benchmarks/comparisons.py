"""What a comparison calls different: the same against the same."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.report.studies import interval_text
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.topology.catalogue import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.study import Subject

COMPARISONS, MINUTE_S, MOST_DIFFERENT = 40, 60.0, 2


def same_against_same(made: Bench) -> list[Figure]:
    """Forty comparisons of a minute of a topology with itself: at most two may tell a difference."""
    profile = replace(QUICK, comparison_budget_s=MINUTE_S)
    found = []
    for _ in range(COMPARISONS):
        study = made.study(profile, lambda _: False)
        _, again = study.forwarding_rate("build", [Subject(name, phy2phy()) for name in "AB"], Traffic(frame_size=64))
        found.append(again.relative("forwarding_rate"))
    told = [ratio for ratio in found if ratio is not None]
    different = [ratio for ratio in told if ratio.low > 1 or (ratio.high is not None and ratio.high < 1)]
    widths = sorted((ratio.high - ratio.low) / 2 for ratio in told if ratio.high is not None)
    shown = "; ".join(interval_text(ratio) for ratio in different)
    within = f"half the interval's width: {widths[len(widths) // 2]:.1%} in the middle" if widths else ""
    reached = len(told) == COMPARISONS and len(different) <= MOST_DIFFERENT
    return [
        Figure(
            "the same against the same, a minute each: called different",
            f"{len(different)} of {len(told)}",
            f"<= {MOST_DIFFERENT} of {COMPARISONS}",
            reached,
            "; ".join(filter(None, (within, shown))),
        )
    ]
