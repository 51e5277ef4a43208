"""Whether a trial sees from inside how far the CPUs are apart, as the round trips around it do; and what those cost."""

from __future__ import annotations

import time
from collections import Counter

from benchmarks.faults import embedded
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.measure.measurer import window_s
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import WindowState
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

TRIALS = 200
LOAD_FPS, SECONDS = 4e6, 0.2
LOOKS = 20

_FEWEST = 4
"""Windows at full speed that tell the cost of a frame; in fewer the cores were shared nearly all the time."""


def band_witness(made: Bench) -> list[Figure]:
    """200 trials: the band by the cost of a frame in their windows against the round trip before and after."""
    live = made.rig.live(phy2phy(), 5)
    traffic = Traffic(frame_size=64)
    live.learn(traffic)
    trials = (made.trial(live, traffic, LOAD_FPS, SECONDS, window_s(SECONDS)) for _ in range(TRIALS))
    found = Counter(_named(trial.result) for trial in trials)
    told = found["rightly"] + found["wrongly"]
    generator, cpus = embedded(made), made.backend.testbed.cpus.pmd
    started = time.monotonic()
    for _ in range(LOOKS):
        generator.distances(cpus)
    each_s = 2 * (time.monotonic() - started) / LOOKS
    return [
        Figure(
            "near or far, told by a trial's windows as by the round trip",
            f"{found['rightly']} of {told}",
            "all",
            told > 0 and not found["wrongly"],
            f"of {TRIALS} trials {found['moved']} were moved meanwhile, in {found['shared']} the cores were shared",
        ),
        Figure("round trips before and after a trial", format_seconds(each_s), "<= 25 ms", each_s <= 0.025),
    ]


def _named(result: TrialResult) -> str:
    placed, windows = result.placement, result.windows
    if placed is None or windows is None or placed.moved:
        return "moved"
    states = Counter(windows.states(result.due_s))
    near, far = states[WindowState.ALONE], states[WindowState.FAR]
    if near + far < _FEWEST:
        return "shared"
    return "rightly" if (far > near) == placed.far else "wrongly"
