"""Chains of bridges: what each further patch port costs a packet (S2)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from benchmarks.comparisons import half_width
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.report.subjects import interval_text, percent, ratio_text
from pytest_nfvperf.measure.measurements import LARGER, Subject
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import Relative
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic

_FLAT, _HALF_WIDTH, _BUDGET_S = 0.95, 0.015, 30.0


def patch_chain_flat(made: Bench) -> list[Figure]:
    """Forwarding rate of patch chains of up to 9 bridges, as ratios to one: how flat, and how exactly that is known.

    Frames have 64 bytes, or more where the generator would be the limit.
    """
    chains = [Subject(str(number), bridge_chain(number)) for number in (1, 2, 4, 9)]
    study = made.study(replace(QUICK, comparison_budget_s=_BUDGET_S), _is_exact)
    one, *longer = study.forwarding_rate("bridges", chains, Traffic(frame_size=64), larger=LARGER)
    took = Figure("patch chains: one comparison, builds and all", f"{one.elapsed_s:.0f} s")
    return [*(figure for outcome in longer for figure in _figures(one, outcome)), *_slope(longer[-1]), took]


def _is_exact(outcome: Outcome) -> bool:
    ratio = outcome.relative("forwarding_rate")
    return ratio is None or half_width(ratio) <= _HALF_WIDTH


def _figures(one: Outcome, outcome: Outcome) -> list[Figure]:
    ratio, rate = outcome.relative("forwarding_rate"), one.sampled("forwarding_rate")
    what = f"{outcome.label['bridges']} patched bridges over 1, {outcome.mean_frame_size:.0f} B"
    if ratio is None or rate is None:
        return [Figure(what, "not measured", reached=False)]
    detail = f"interval {interval_text(ratio)}; one bridge {format_fps(rate.median)} per direction"
    flat = Figure(what, ratio_text(ratio), ">= 95 %", ratio.ratio >= _FLAT, detail)
    return [flat, _width(f"{what}: half the interval's width", ratio)]


def _width(what: str, ratio: Relative) -> Figure:
    half = half_width(ratio)
    observed = f"{half:.1%}" if half < inf else "open"
    return Figure(what, observed, f"<= {_HALF_WIDTH:.1%} in {_BUDGET_S:.0f} s", half <= _HALF_WIDTH)


def _slope(outcome: Outcome) -> list[Figure]:
    return [
        Figure(
            "cost of each added patch port",
            f"{slope.value:+.2f} cycles a packet",
            detail=f"{percent(slope.share_low)} .. {percent(slope.share_high)} of one bridge",
        )
        for slope in outcome.slopes
        if slope.metric == "cycles_per_packet"
    ]
