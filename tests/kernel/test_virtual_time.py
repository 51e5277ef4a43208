"""``--nfv-virtual-time``: a suite in the guest, how well its figures repeat, and what is refused there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.guest.kernel_image import Kernel
from pytest_nfvperf.model.measure.outcome import Outcome
from tests.kernel.inner_tests import ROOT

pytestmark = pytest.mark.kernel

ALIKE = 0.002
"""How far builds of one version may differ in the kernel's datapath. In userspace it is 1 % (docs/virtual-time.md)."""


def counted(results: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Outcome]]:
    """Run pytest with ``--nfv-virtual-time``, as a user does; the outcomes by datapath and bridges."""
    options = ["--nfv-virtual-time", f"--nfv-results={results}", "--nfv-report=none", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *arguments, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    runs = [path for path in results.glob("2*") if path.is_dir()]
    found = [outcome for path in runs for outcome in read_run(path).outcomes.values()]
    return done, {f"{each.label['datapath']} {each.label['bridges']}": each for each in found}


def test_a_packet_costs_the_same_in_each_build(kernel: Kernel, tmp_path: Path) -> None:
    """Of the kernel's datapath alone: a guest that emulates OVS's userspace datapath, too, takes four minutes."""
    assert kernel.release
    done, outcomes = counted(tmp_path, "suites/cost/test_instructions.py", "-k", "test_patch_chain and 64 and system")
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes.keys() >= {"system 1", "system 4"}
    for name, outcome in outcomes.items():
        assert outcome.label["time"] == "virtual"
        builds = outcome.samples[0].values
        assert len(builds) >= 4
        assert max(builds) <= (1 + ALIKE) * min(builds), f"{name}: {builds} instructions a packet"


def test_what_measures_by_the_clock_is_refused_there(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.release
    done, outcomes = counted(tmp_path, "suites/throughput/test_frame_sizes.py", "-k", "test_ndr_pdr and 1518", "-rs")
    assert not outcomes
    assert "a search is a figure of the clock, and in virtual time a second is a count of instructions" in done.stdout
