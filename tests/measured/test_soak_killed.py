"""A soak that begins again at a lower load is killed between its two parts: what is left, and what is on record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stops import REPOSITORY, hugepages_in_use, left_behind

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.generators.embedded import build

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces, hugepages, Open vSwitch")

LOAD, LOWER = 50_000, 25_000
KILLS_BETWEEN = f"""
import os, signal
from pytest_nfvperf.measure import soak
from pytest_nfvperf.session import run

run.find_loads = lambda *_: ({LOAD}.0, {LOWER}.0)
soak._LOOK_AT, soak._MOST_TROUBLED = 3, -1.0  # whatever the machine does, the first part is given up
soak._disturbed_by_rig = lambda _: True  # and the next is at the lower load,
soak._MOST_SAMPLING = 1.0  # not at the same one with fewer samples
part = soak.Soaker._soak_at

def killed_at_the_second(self, live, spec, also, sample_s, *, may_give_up):
    if spec.load_fps == {LOWER}:
        os.kill(os.getpid(), signal.SIGKILL)
    return part(self, live, spec, also, sample_s, may_give_up=may_give_up)

soak.Soaker._soak_at = killed_at_the_second
"""


@pytest.fixture
def base() -> Iterator[Path]:
    path = Path(f"/run/nfvperf-soak-killed-{os.getpid()}")
    build.build()
    path.mkdir()
    yield path
    for lock in path.glob("*.lock"):
        lock.unlink()
    path.rmdir()


@pytest.mark.thorough("kill -9 in a trial is in make test")
def test_killed_between_its_parts_it_leaves_nothing(base: Path, tmp_path: Path) -> None:
    """Steps: begin a soak, give its first part up, kill the run before the second; do what the next start does first.

    Verify: nothing is left on the machine; the first part is on record with its samples, and `nfvperf show` says what
    became of the test.
    """
    (tmp_path / "kills_between.py").write_text(KILLS_BETWEEN)
    env = os.environ | {"NFVPERF_RUN_DIR": str(base), "PYTHONPATH": str(tmp_path)}
    hugepages = hugepages_in_use()

    def started(*command: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", *command]
        return subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=120, check=False)

    soak = ("suites/endurance/test_soak.py::test_soak", "--nfv-soak-duration", "20 s")
    run = started("pytest", "-p", "kills_between", "-p", "no:cacheprovider", f"--nfv-results={tmp_path}", *soak)
    assert run.returncode == -9, run.stdout + run.stderr
    tags = [path.name for path in base.glob("*") if path.is_dir()]
    assert left_behind(base, tags), "it was killed with its topology in place"

    cleaned = started("pytest_nfvperf.cli.main", "clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left_behind(base, tags) == []
    assert hugepages_in_use() <= hugepages

    (folder,) = tmp_path.glob("2*")
    (test,) = (test for test in read_run(folder).tests.values() if test.node_id)
    ((given_up, samples),) = ((one.soak, one.samples) for one in test.soaks.values())
    assert (given_up.load_fps, given_up.interrupted.partition(":")[2]) == (
        LOAD, " too many intervals lost frames, or were disturbed, to go on with; another begins",
    )  # fmt: skip
    assert len((folder / samples).read_text().splitlines()) >= 3
    shown = started("pytest_nfvperf.cli.main", "show", str(folder))
    assert shown.returncode == 3, shown.stdout + shown.stderr
    assert f"{folder}: no test came to a figure; the evidence has " in shown.stdout
    told = "unfinished  suites/endurance/test_soak.py::test_soak: it had begun when the run was killed"
    assert told in shown.stdout.splitlines()
    assert "Killed: the run did not end by itself: of 1 selected test 1 unfinished." in shown.stdout
