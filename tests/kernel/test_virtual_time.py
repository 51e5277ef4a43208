"""``--nfv-virtual-time``: a suite in the guest, its figures twice, and what is refused there."""

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

ALIKE = {"system": 0.002, "netdev": 0.01}
"""How far two runs of one version may differ, by datapath: the median of five builds each."""


def counted(results: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Outcome]]:
    """Run pytest with ``--nfv-virtual-time``, as a user does; the outcomes by datapath and bridges."""
    options = ["--nfv-virtual-time", f"--nfv-results={results}", "--nfv-report=none", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *arguments, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    runs = [path for path in results.glob("2*") if path.is_dir()]
    found = [outcome for path in runs for outcome in read_run(path).outcomes.values()]
    return done, {f"{each.label['datapath']} {each.label['bridges']}": each for each in found}


def test_a_packet_costs_the_same_in_two_runs(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.release
    tests = ["suites/cost/test_instructions.py", "-k", "test_patch_chain and 64"]
    (first, one), (second, other) = counted(tmp_path / "one", *tests), counted(tmp_path / "other", *tests)
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + first.stderr + second.stdout
    assert {"netdev 1", "system 1", "system 4"} <= one.keys() == other.keys()
    for name, outcome in one.items():
        assert outcome.label["time"] == "virtual"
        figures = [each.samples[0].median for each in (outcome, other[name])]
        alike = ALIKE[name.partition(" ")[0]]
        assert max(figures) <= (1 + alike) * min(figures), f"{name}: {figures} instructions a packet"


def test_what_measures_by_the_clock_is_refused_there(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.release
    done, outcomes = counted(tmp_path, "suites/throughput/test_frame_sizes.py", "-k", "test_ndr_pdr and 1518", "-rs")
    assert not outcomes
    assert "a search is a figure of the clock, and in virtual time a second is a count of instructions" in done.stdout
