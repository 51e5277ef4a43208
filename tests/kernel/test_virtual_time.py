"""``--nfv-virtual-time``: a suite in the guest, how well its figures repeat, and what is refused there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.model.measure.outcome import Outcome
from tests.kernel.inner_tests import ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.daily("minutes of counted instructions")]

ALIKE = 0.002
"""How far builds of one version may differ in the kernel's datapath. In userspace it is 1 %
(docs/how-to/count-instructions.md)."""
ALIKE_ON_RINGS = 0.03
"""The same with DPDK. Bursts that are out of step with a ring's descriptors cost 5 to 11 % more."""


def run_counted(results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with ``--nfv-virtual-time``, as a user does."""
    options = ["--nfv-virtual-time", f"--nfv-results={results}", "--nfv-report=none", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *arguments, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)


def read_outcomes(results: Path) -> dict[str, list[Outcome]]:
    """The outcomes by test."""
    found: dict[str, list[Outcome]] = {}
    for run in (path for path in results.glob("2*") if path.is_dir()):
        for outcome in read_run(run).outcomes.values():
            found.setdefault(outcome.label["test"], []).append(outcome)
    return found


@pytest.fixture(scope="module")
def outcomes(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Outcome]]:
    """Of one guest, which takes half a minute until a test begins."""
    assert kernel.release
    results = tmp_path_factory.mktemp("counted")
    done = run_counted(results, "suites/cost", "-k", "(test_patch_chain and 64 and system) or test_datapath")
    assert done.returncode == 0, done.stdout + done.stderr
    return read_outcomes(results)


def test_a_packet_costs_the_same_in_each_build(outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """Of the kernel's datapath alone: a guest that emulates OVS's userspace datapath, too, takes four minutes."""
    found = {outcome.label["bridges"]: outcome for outcome in outcomes["test_patch_chain"]}
    assert found.keys() >= {"1", "4"}
    for bridges, outcome in found.items():
        assert outcome.label["time"] == "virtual"
        builds = outcome.samples[0].values
        assert len(builds) >= 4
        assert max(builds) <= (1 + ALIKE) * min(builds), f"{bridges}: {builds} instructions a packet"


def test_dpdk_spends_less_on_a_packet_than_the_kernel(outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """From VM to VM over two nodes, in a VXLAN. Bursts of all builds meet the DUT alike, so figures are alike, too."""
    found = {outcome.label["datapath"]: outcome.samples[0].values for outcome in outcomes["test_datapath"]}
    assert found.keys() == {"system", "dpdk"}
    assert all(len(builds) >= 4 for builds in found.values())
    assert max(found["dpdk"]) < 0.2 * min(found["system"]), f"instructions a packet: {found}"
    assert max(found["dpdk"]) <= (1 + ALIKE_ON_RINGS) * min(found["dpdk"]), f"instructions a packet: {found}"


def test_what_measures_by_the_clock_is_refused_there(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.release
    done = run_counted(tmp_path, "suites/throughput/test_frame_sizes.py", "-k", "test_ndr_pdr and 1518", "-rs")
    assert not read_outcomes(tmp_path)
    assert "a search is a figure of the clock, and in virtual time a second is a count of instructions" in done.stdout
