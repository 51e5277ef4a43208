"""Subjects of a comparison side by side: one OVS-DPDK each, all but one frozen, and nothing stays frozen."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from user_project import CONFTEST, records

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from tests.functional.ovs_support import needs_root, until

pytestmark = [
    needs_root,
    pytest.mark.skipif(read_hugepages().free_mib < 2048, reason="needs 2 GiB of free hugepages, for three OVS-DPDK"),
]

CACHE = build.default_cache_dir()  # now: pytester gives each test another home

STUDY = """
import os
from pathlib import Path

import psutil
import pytest_nfvperf as nfv
from pytest_nfvperf.measure import study as comparing
from pytest_nfvperf.measure.measurements import ForwardingRate

def states():
    children = psutil.Process().children()
    return sorted(child.status() for child in children if child.name().startswith("ovs-vswitchd"))

def test_chains(study, monkeypatch):
    seen, turn = [], ForwardingRate.turn

    def watched(self, live, remaining_s):
        seen.append(states())
        with Path("turning").open("a") as turns:
            turns.write("x")
        return turn(self, live, remaining_s)

    monkeypatch.setattr(ForwardingRate, "turn", watched)
    monkeypatch.setattr(comparing, "FEWEST_BLOCKS", 4)  # as few as give a ratio
    chains = [nfv.Subject(str(number), nfv.bridge_chain(number, link="patch")) for number in (1, 2)]
    outcomes = study.forwarding_rate("bridges", chains, nfv.Traffic(frame_size=64))
    # Of the last rig only the first turn of the first block may come before it is there.
    assert len(seen) >= 4 * 2 * 3
    assert all(now.count("stopped") == len(now) - 1 for now in seen), seen
    assert sum(len(now) == 3 for now in seen) >= len(seen) - 3
    ratios = [each for each in outcomes[1].relatives if each.metric == "forwarding_rate"]
    unread = [outcome.missing.get("forwarding_rate", "") for outcome in outcomes]
    assert ratios or any(why.startswith("the machine disturbed every window") for why in unread), unread
    assert all(ratio.pairing.blocks >= 4 and 0.5 < ratio.ratio < 2 for ratio in ratios)

def test_nobody_is_frozen_afterwards():
    assert "stopped" not in states()
    assert len(states()) == 1
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    build.build()
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_side=STUDY)
    return pytester


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory of this test's own: a short path, because sockets are in it."""
    path = Path(f"/run/nfvperf-side-{os.getpid()}")
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(path))
    path.mkdir()
    yield path
    shutil.rmtree(path)


def test_one_works_and_the_others_are_frozen(project: pytest.Pytester) -> None:
    """Steps: compare two chains on OVS-DPDK; look at all vswitchd before each turn. Verify: all but one stopped."""
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-profile", "smoke", timeout=240)
    result.assert_outcomes(passed=2)
    trials = [trial["data"]["result"] for trial in records(project.path, "trial")]
    watched = [trial["windows"] for trial in trials if trial.get("windows")]
    assert len(watched) > 4 * 2 * 3 - 3
    assert all(windows["witnesses"][0]["late_ns"] for windows in watched)


def test_kill_9_leaves_nobody_frozen(project: pytest.Pytester, run_dir: Path) -> None:
    """Steps: kill -9 pytest in a turn, while DUTs are stopped; clean. Verify: no process is left, then nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) as child:
        turns = project.path / "turning"
        assert until(lambda: turns.exists() and turns.stat().st_size >= 8, deadline_s=60), "DUTs change places"
        theirs = psutil.Process(child.pid).children(recursive=True)
        assert sum(one.name().startswith("ovs-vswitchd") for one in theirs) >= 2
        assert until(lambda: any(one.status() == psutil.STATUS_STOPPED for one in theirs))
        child.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(theirs, timeout=10)
    assert alive == []
    assert gone
    clean = [sys.executable, "-m", "pytest_nfvperf.cli.main", "clean"]
    subprocess.run(clean, check=True, stdout=subprocess.DEVNULL)
    assert [path for path in run_dir.iterdir() if path.is_dir()] == []
