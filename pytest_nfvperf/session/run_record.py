"""What a run says of itself: its first record, which is written again as more becomes known."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from typing import Any

from pytest_nfvperf import __version__
from pytest_nfvperf.backends.base import Backend
from pytest_nfvperf.config.testbed_file import testbed_to_yaml
from pytest_nfvperf.model.evidence.records import RunData
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, GeneratorInfo
from pytest_nfvperf.model.traffic.cpu_placement import BandsSeen
from pytest_nfvperf.session.options import Options

CPU_BANDS = "cpu_bands"
"""Of the fingerprint: in which bands of CPU distance the trials were. It tells of a run, not of its machine."""


def run_data(
    options: Options,
    backend: Backend,
    selected: tuple[str, ...] | None,
    dut: DatapathInfo | None = None,
    generator: GeneratorInfo | None = None,
    *,
    resumes: tuple[str, ...] = (),
) -> RunData:
    """The record of a run on this backend. ``selected``, ``dut`` and ``generator``: as far as they are known yet.

    ``resumes``: evidence files of the processes that it goes on with.
    """
    return RunData(
        tool_version=__version__,
        python=platform.python_version(),
        argv=tuple(sys.argv),
        profile=options.profile,
        testbed=backend.testbed,
        testbed_yaml=testbed_to_yaml(backend.testbed),
        fingerprint=dict(backend.fingerprint()),
        dut=dut,
        generator=generator,
        sla=(*map(str, options.slas), *options.packs),
        selected=selected,
        compare=options.compare,
        resumes=resumes,
    )


def with_bands(data: RunData, seen: BandsSeen) -> RunData:
    """The same at the end of the run, with the bands of its trials in the fingerprint."""
    return replace(data, fingerprint={**data.fingerprint, CPU_BANDS: _plain(seen)})


def _plain(seen: BandsSeen) -> dict[str, Any]:
    """A band without trials is absent."""
    bands = {"near": (seen.near_trials, seen.near_ns), "far": (seen.far_trials, seen.far_ns)}
    shown: dict[str, Any] = {
        name: {"trials": trials, "median_ns": median_ns} for name, (trials, median_ns) in bands.items() if trials
    }
    return shown | ({"moved_trials": seen.moved_trials} if seen.moved_trials else {})
