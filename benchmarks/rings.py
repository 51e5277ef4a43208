"""What a frame costs the generator on a vhost-user ring: driven by itself, and by DPDK's virtio-user."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.generators.embedded.build import find
from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop, directions, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

_TRAFFIC = Traffic(frame_size=64, flows=1000)
_OVERLOAD_FPS = 19e6
_TURNS, _TRIALS, _TRIAL_S, _WINDOW_S = 4, 3, 0.4, 0.005
_MOST_NS, _LEAST_RATIO, _MOST_BUSY = 45.0, 2.0, 0.70


def rings(made: Bench) -> list[Figure]:
    """64 B, 1,000 flows, both ways, with latency samples: a sent and received pair against a switch that copies."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(_TURNS):
        for own in (True, False) if turn % 2 == 0 else (False, True):
            found[own].append(pair_ns(made, own))
    own_ns, dpdk_ns = min(found[True]), min(found[False])
    ratio = median(found[False]) / median(found[True])
    listed = {own: "/".join(f"{each:.1f}" for each in values) for own, values in found.items()}
    detail = f"own rings {listed[True]}, DPDK's driver {listed[False]}"
    return [
        Figure("64 B, a pair on rings of its own", f"{own_ns:.1f} ns", f"<= {_MOST_NS:.0f} ns", own_ns <= _MOST_NS),
        Figure("64 B, a pair by DPDK's virtio-user", f"{dpdk_ns:.1f} ns"),
        Figure("own rings against DPDK's", f"{ratio:.2f} x", f">= {_LEAST_RATIO} x", ratio >= _LEAST_RATIO, detail),
        *_with_ovs_running(made),
    ]


def pair_ns(made: Bench, own: bool) -> float:
    """Of the best twentieth of short windows: what shares the machine only ever adds to it."""
    made.rig.remove_topology()  # whose PMD would poll beside the switch that copies
    cpus, options = made.backend.testbed.cpus, EngineOptions(own_rings=own)
    with tempfile.TemporaryDirectory(prefix="nfvb-", dir="/run") as made_dir:
        shared: dict[str, Any] = {"control_cpus": cpus.housekeeping, "run_dir": Path(made_dir)}
        with (
            closing(VhostLoop(find(), cpu=cpus.pmd[0], file_prefix="loop", **shared)) as loop,
            closing(
                EmbeddedGenerator(find(), cpus=cpus.generator, file_prefix="gen", options=options, **shared)
            ) as generator,
        ):
            generator.attach(loop_ports(loop.devices))
            generator.wait_links_up(5.0)
            return 1e9 / quantiles(_window_rates(generator), n=20)[-1]


def _window_rates(generator: EmbeddedGenerator) -> list[float]:
    """Frames/s over both directions of each window."""
    ways = directions(_TRAFFIC)
    spec = TrialSpec(_TRAFFIC, round(_OVERLOAD_FPS), _TRIAL_S, ways, purpose="benchmark", window_s=_WINDOW_S)
    trials = [generator.run_trial(spec) for _ in range(_TRIALS)]
    return [rate for trial in trials if trial.windows for rate in trial.windows.received_fps(_TRIAL_S)]


def _with_ovs_running(made: Bench) -> list[Figure]:
    """How busy the generator is where OVS is the limit."""
    live: LiveTopology = made.rig.live(phy2phy(), 5)
    live.learn(Traffic())
    trials = [made.trial(live, Traffic(), 8e6, 1.0).result for _ in range(5)]
    busy = median(trial.health.busy_ratio or 0.0 for trial in trials)
    rates = "/".join(format_fps(trial.received_fps or 0.0) for trial in trials)
    what = "64 B through OVS at 8 Mpps per direction: generator busy"
    return [Figure(what, f"{busy:.0%}", f"<= {_MOST_BUSY:.0%}", busy <= _MOST_BUSY, f"received {rates} per direction")]
