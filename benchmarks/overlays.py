"""What an overlay costs on two nodes (S3), where they share a CPU, too."""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.report.subjects import interval_text, ratio_text
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import Relative
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from pytest_nfvperf.model.traffic.traffic import Traffic

_HALF_WIDTH = 0.03
_WHAT, _TARGET = "VXLAN over none, 64 B", "interval within 3 %"
_MOST_S = 60.0
_LAST_BLOCK_S = 12.0
"""What setting up takes before the first block, and what a block takes that begins at the last moment."""


def overlay_cost(made: Bench) -> list[Figure]:
    """Forwarding rate at 64 B through VXLAN as a ratio to none, and how long that takes."""
    began = time.monotonic()
    profile = replace(QUICK, comparison_budget_s=_MOST_S - _LAST_BLOCK_S)
    study = made.study(profile, lambda outcome: _is_close_to_one(outcome.relative("forwarding_rate")))
    subjects = [Subject(name, vm_to_vm(name)) for name in ("none", "vxlan")]
    none, vxlan = study.forwarding_rate("overlay", subjects, Traffic(frame_size=64, bidirectional=False))
    seconds = time.monotonic() - began
    ratio, rate = vxlan.relative("forwarding_rate"), none.sampled("forwarding_rate")
    if ratio is None or rate is None:
        why = (none.missing | vxlan.missing).get("forwarding_rate", "too few pairs of readings were valid")
        return [Figure(_WHAT, "not measured", _TARGET, reached=False, detail=why)]
    detail = f"interval {interval_text(ratio)}; none {format_fps(rate.median)}"
    return [
        Figure(_WHAT, ratio_text(ratio), _TARGET, _is_close_to_one(ratio), detail),
        Figure("the time it takes", f"{seconds:.0f} s", "<= 60 s", seconds <= _MOST_S),
    ]


def _is_close_to_one(ratio: Relative | None) -> bool:
    """Whether the interval is narrow enough."""
    if ratio is None or ratio.high is None:
        return False
    return max(ratio.high - ratio.ratio, ratio.ratio - ratio.low) <= _HALF_WIDTH
