"""Chains of bridges: what each further patch port costs a packet (S2)."""

from __future__ import annotations

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.report.studies import interval_text, percent, ratio_text
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.topology.catalogue import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.figures import Subject

_FLAT = 0.95


def patch_chain_flat(made: Bench) -> list[Figure]:
    """Forwarding rate at 64 B of patch chains of up to 9 bridges, as ratios to one."""
    chains = [Subject(str(number), bridge_chain(number)) for number in (1, 2, 4, 9)]
    study = made.study(QUICK, lambda outcome: all(ratio.low >= _FLAT for ratio in outcome.relatives))
    one, *longer = study.forwarding_rate("bridges", chains, Traffic(frame_size=64))
    return [*(_figure(one, outcome) for outcome in longer), *_slope(longer[-1])]


def _figure(one: Outcome, outcome: Outcome) -> Figure:
    ratio, rate = outcome.relative("forwarding_rate"), one.sampled("forwarding_rate")
    what = f"{outcome.label['bridges']} patched bridges over 1, 64 B"
    if ratio is None or rate is None:
        return Figure(what, "not measured", reached=False)
    detail = f"interval {interval_text(ratio)}; one bridge {format_fps(rate.median)} per direction"
    return Figure(what, ratio_text(ratio), ">= 95 %", ratio.ratio >= _FLAT, detail)


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
