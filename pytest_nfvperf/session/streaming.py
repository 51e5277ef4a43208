"""What runs streams in a session: on which CPUs, with whose account of them, and with a profile if one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.runs.rig import Rig
from pytest_nfvperf.runs.rig_parts import RigParts
from pytest_nfvperf.runs.stream_runner import Profiling, StreamRunner
from pytest_nfvperf.runs.trials import Context

CPU_PROFILES = Point[Callable[[RigParts, Path, Context], Profiling]]("profiles")
"""What does a run once more under a profiler, by the option; from the rig, the run's directory and what runs need."""


def stream_runner(
    rig: Rig, context: Context, repeats: int, testbed: Testbed, profile: Profiling | None
) -> StreamRunner:
    """Unless the testbed says otherwise, both ends may use all its CPUs.

    Args:
        rig: whose engine sends.
        context: evidence, progress and time.
        repeats: how often an invalid run is repeated.
        testbed: says which CPUs the ends may use.
        profile: does a run once more under a profiler; None: nobody asks.
    """
    cpus = testbed.cpus
    every = tuple(sorted({*cpus.housekeeping, *cpus.pmd, *cpus.generator, *cpus.vnf}))
    asked = testbed.streams
    of_ends = asked.client_cpus or every, asked.server_cpus or every
    make = rig.parts.make_cpu_accounting
    accounting = make() if make is not None else None
    requests, connects = rig.parts.make_requests, rig.parts.make_connects
    return StreamRunner(rig.streams(), context, repeats, of_ends, accounting, requests, profile, connects)
