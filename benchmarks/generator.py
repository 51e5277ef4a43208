"""What the embedded generator does through OVS-DPDK."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import mean, median, quantiles

from benchmarks.rings import pair_ns
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from benchmarks.testpmd import looping, rate_fps
from pytest_nfvperf.adapters.generators.embedded.build import find
from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.display import format_bps, format_fps
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import WindowState
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

SMALL = Traffic(frame_size=64)
TREX_SOFTWARE_FPS = 0.5e6
"""Lossless rate per direction of a TRex server in software on a like port."""


def most_received(made: Bench, live: LiveTopology, traffic: Traffic, loads: list[float], seconds: float = 2.0) -> float:
    """Best received rate per direction at overload, frames/s."""
    trials = [made.trial(live, traffic, load, seconds) for load in loads]
    return max(trial.result.received_fps or 0.0 for trial in trials)


def highest_lossless(made: Bench, live: LiveTopology, traffic: Traffic, start: float, seconds: float = 3.0) -> float:
    """Highest load in steps of 2 %, downwards, of a valid trial without any loss."""
    load = start
    while load > start * 0.3:
        for _ in range(2):
            result = made.trial(live, traffic, load, seconds).result
            if result.valid and result.lost == 0:
                return load
        load *= 0.98
    return 0.0


def lossless(made: Bench) -> list[Figure]:
    """64 B both ways: the highest lossless rate, and ten times 10 s at 4 Mpps."""
    live = made.rig.live(phy2phy(), 5)
    live.learn(SMALL)
    peak = most_received(made, live, SMALL, [8e6, 9e6, 10e6])
    best = highest_lossless(made, live, SMALL, peak)
    trials = [made.trial(live, SMALL, 4e6, 10.0) for _ in range(10)]
    clean = [trial for trial in trials if trial.result.valid and trial.result.lost == 0]
    return [
        Figure("64 B, most received per direction", format_fps(peak), ">= 7 Mpps when quiet", peak >= 7e6),
        Figure("64 B, highest lossless load per direction, 3 s", format_fps(best), ">= 7 Mpps when quiet", best >= 7e6),
        Figure(
            "against TRex in software, lossless",
            f"{best / TREX_SOFTWARE_FPS:.1f} x",
            ">= 10 x",
            best >= 10 * TREX_SOFTWARE_FPS,
        ),
        Figure(
            "10 s at 4 Mpps per direction: valid without loss",
            f"{len(clean)} of {len(trials)}",
            ">= 9 of 10",
            len(clean) >= 9,
            "; ".join(_disturbed(trial) for trial in trials if trial not in clean),
        ),
    ]


def _disturbed(trial: Trial) -> str:
    reasons = ", ".join(str(reason.code) for reason in trial.result.invalid) or "valid"
    return f"{trial.id}: lost {trial.result.lost} ({reasons})"


def large_frames(made: Bench) -> list[Figure]:
    """1500 B both ways."""
    live = made.rig.live(phy2phy(), 5)
    traffic = Traffic(frame_size=1500)
    live.learn(traffic)
    rate = most_received(made, live, traffic, [2.2e6, 3e6, 4e6])
    bits = traffic.bits_per_second(rate)
    return [Figure("1500 B, most received per direction", format_bps(bits), ">= 25 Gbps", bits >= 25e9)]


def pacing(made: Bench) -> list[Figure]:
    """Mean rate and bursts at 1 Mpps: the rate in windows with no dated disturbance, and of whole trials."""
    live = made.rig.live(phy2phy(), 5)
    live.learn(SMALL)
    trials = [made.trial(live, SMALL, 1e6, 5.0, window_s=0.01) for _ in range(3)]
    errors = [error for trial in trials if (error := _pacing_error(trial.result)) is not None]
    whole = ", ".join(f"{abs((trial.result.offered_fps or 0.0) / 1e6 - 1):.2%}" for trial in trials)
    bursts = [trial.result.health.largest_burst or 0 for trial in trials]
    error = median(errors) if errors else None
    shown = "no undisturbed window" if error is None else f"{error:.4%}"
    reached = error is not None and error < 0.001
    return [
        Figure(
            "pacing error at 1 Mpps, no dated disturbance", shown, "< 0.1 %", reached, f"of the whole trials {whole}"
        ),
        Figure("largest burst at 1 Mpps", f"{max(bursts)} frames", "<= 32", max(bursts) <= 32),
    ]


def _pacing_error(result: TrialResult) -> float | None:
    """Of all frames that were due in undisturbed windows, those that were offered too few or too many, as a share.

    A window in which the generator was away for 0.1 ms or more is none: it knows when, and skips what came due.
    """
    windows, number_of_directions = result.windows, len(result.counts)
    if windows is None:
        return None
    seconds = result.spec.duration_s
    offered = [[sum(both) for both in zip(t.sent, t.refused, strict=True)] for t in windows.threads]
    alone = [
        fps
        for at, (fps, state) in enumerate(zip(windows.rates(offered, seconds), windows.states(seconds), strict=True))
        if state is WindowState.UNDISTURBED and not any(thread.absent_ns[at] for thread in windows.threads)
    ]
    return abs(mean(alone) / (result.spec.load_fps * number_of_directions) - 1) if alone else None


def against_testpmd(made: Bench) -> list[Figure]:
    """The generator and testpmd's mac mode on the same two ports, A B B A: of a switch that copies, and of OVS.

    Behind OVS both wait for it, so the ratio says little about them.
    """
    return [
        _compared(made, "64 B against testpmd mac, a switch that copies", _ours_alone, _testpmd_alone, least=1.5),
        _compared(made, "64 B against testpmd mac, through OVS", _ours, _testpmd),
    ]


def _compared(
    made: Bench, what: str, one: Callable[[Bench], float], other: Callable[[Bench], float], least: float | None = None
) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    for first in (True, False, True):
        for own in (first, not first):
            (ours if own else theirs).append(one(made) if own else other(made))
    ratio = median(ours) / median(theirs)
    detail = f"ours {_listed(ours)}, testpmd {_listed(theirs)} per direction"
    if least is None:
        return Figure(what, f"{ratio:.2f} x", detail=detail)
    return Figure(what, f"{ratio:.2f} x", f">= {least} x", ratio >= least, detail)


def _ours_alone(made: Bench) -> float:
    return 1e9 / pair_ns(made, own=True) / 2


def _testpmd_alone(made: Bench) -> float:
    """Of the best twentieth of short spans, as :func:`pair_ns` has it."""
    made.rig.remove_topology()
    cpus = made.backend.testbed.cpus
    with tempfile.TemporaryDirectory(prefix="nfvb-", dir="/run") as directory:
        loop = VhostLoop(
            find(), cpu=cpus.pmd[0], control_cpus=cpus.housekeeping, run_dir=Path(directory), file_prefix="loop"
        )
        with closing(loop), looping(made.backend.journal, loop.devices, cpus.generator[0]) as testpmd:
            return quantiles([rate_fps(testpmd, 0.2) for _ in range(20)], n=20)[-1]


def _ours(made: Bench) -> float:
    live = made.rig.live(phy2phy(), 5)
    live.learn(SMALL)
    return most_received(made, live, SMALL, [9e6], 4.0)


def _testpmd(made: Bench) -> float:
    made.rig.remove_topology()
    datapath = made.rig.datapath()
    built = datapath.build(phy2phy())
    try:
        devices = [device for device in built.attachments().values() if device]
        with looping(made.backend.journal, devices, made.backend.testbed.cpus.generator[0]) as testpmd:
            built.wait_ready(10.0)
            return rate_fps(testpmd, 4.0)
    finally:
        built.close()


def _listed(rates: list[float]) -> str:
    return "/".join(format_fps(rate) for rate in rates)
