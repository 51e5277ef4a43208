"""What an overlay costs on two nodes (S3), where they share a CPU, too."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.report.studies import interval_text, ratio_text
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.scenarios.overlay_path import vm_to_vm
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.study import Subject

_REPEATS = 8
_HALF_WIDTH = 0.03
_WHAT, _TARGET = "VXLAN over none, 64 B", "interval within 3 %"
_MOST_S = 60.0


def overlay_cost(made: Bench) -> list[Figure]:
    """Forwarding rate at 64 B through VXLAN as a ratio to none, and how long that takes."""
    began = time.monotonic()
    study = made.study(replace(QUICK, comparison_repeats=_REPEATS), lambda _: True)
    subjects = [Subject(name, vm_to_vm(name)) for name in ("none", "vxlan")]
    none, vxlan = study.forwarding_rate("overlay", subjects, Traffic(frame_size=64, bidirectional=False))
    seconds = time.monotonic() - began
    ratio, rate = vxlan.relative("forwarding_rate"), none.sampled("forwarding_rate")
    if ratio is None or rate is None:
        why = dict([*none.missing, *vxlan.missing]).get("forwarding_rate", "too few pairs of readings were valid")
        return [Figure(_WHAT, "not measured", _TARGET, reached=False, detail=why)]
    high = math.inf if ratio.high is None else ratio.high
    near = max(high - ratio.ratio, ratio.ratio - ratio.low) <= _HALF_WIDTH
    detail = f"interval {interval_text(ratio)}; none {format_fps(rate.median)}"
    return [
        Figure(_WHAT, ratio_text(ratio), _TARGET, near, detail),
        Figure("the time it takes", f"{seconds:.0f} s", "<= 60 s", seconds <= _MOST_S),
    ]
