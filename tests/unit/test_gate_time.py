"""The gate .ci/run keeps within its time where the host is busy, and tells a disturbed test from a broken one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
GATE, TESTS = TREE / ".ci/run", TREE / ".ci/tests.py"
SAYS_HOW = '#!/bin/sh\necho "ran: $0 $*" profile=$NFV_TESTS_PROFILE\n'
CALLED = (".ci/unchanged", ".ci/fresh", ".ci/left-behind", ".venv/bin/python", "bin/make")
TARGETS = ("test", "test-rest", "test-kernel")


def _gate_after(seconds: int, tree: Path, *arguments: str) -> str:
    """What .ci/run prints in a tree whose gates only say how they were called, so many seconds after its start."""
    for name in CALLED:
        stand_in = tree / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(SAYS_HOW)
        stand_in.chmod(0o755)
    shutil.copy(GATE, tree / ".ci/run")
    (tree / ".ci/tests.py").write_text("import sys\nprint('ran: tests', *sys.argv[1:], flush=True)\n")
    env = {**os.environ, "PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "SECONDS": str(seconds)}
    env.pop("NFV_TESTS_PROFILE", None)
    command = ["bash", ".ci/run", *arguments]
    ran = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=True)
    return ran.stdout


def _tests_called(said: str) -> list[str]:
    return [line.split()[2] for line in said.splitlines() if line.startswith("ran: tests ")]


@pytest.mark.parametrize(("gone_s", "called"), [(60, ".ci/fresh --some"), (4600, ".ci/fresh --some bookworm")])
def test_a_busy_host_tries_one_release(tmp_path: Path, gone_s: int, called: str) -> None:
    told = _gate_after(gone_s, tmp_path)
    assert f"ran: {called} profile=\n" in told
    assert ("s are gone: only Debian 12 is tried" in told) is ("bookworm" in called)
    assert "=== nothing left behind: passed in" in told


def test_the_times_of_the_tests_follow_them(tmp_path: Path) -> None:
    told = _gate_after(0, tmp_path)
    assert _tests_called(told) == list(TARGETS)
    assert told.index("ran: tests test-rest ") < told.index("ran: .venv/bin/python -m tests.times")


def test_once_a_day_all_runs_however_long_it_takes(tmp_path: Path) -> None:
    """Verify: what .ci/run has, then the rest with no time to begin until; all examples; all tests on Debian 13."""
    told = _gate_after(4600, tmp_path, "--daily")
    assert _tests_called(told) == [*TARGETS, "test-daily", "test-kernel-daily", "test-lab"]
    assert "ran: tests test-daily\n" in told
    assert "ran: .ci/fresh  profile=daily\n" in told


def test_no_test_begins_when_the_time_is_over(tmp_path: Path) -> None:
    """Steps: the gate, 2,400 s after its start; then a test of this tree, after its time. Verify: 300 s are left."""
    words = _gate_after(2400, tmp_path).partition("ran: tests test --begin-until ")[2].split()
    assert int(words[0]) - time.time() == pytest.approx(300, abs=30)
    one = [sys.executable, "-m", "pytest", "-rs", f"{__file__}::test_a_busy_host_tries_one_release"]
    env = {**os.environ, "NFV_TESTS_BEGIN_UNTIL": str(time.time() - 1)}
    ran = subprocess.run(one, cwd=TREE, env=env, capture_output=True, text=True, check=True)
    assert "2 skipped" in ran.stdout
    assert "not begun: the gate's time is over, this host is busy" in ran.stdout


NOT_NEEDED = ("nfvperf", "xdist", "hypothesispytest", "allure_pytest", "pytester")
TIMES = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("passes_at", {passes_at})
def test_it(passes_at):
    runs = Path(f"runs-{{passes_at}}")
    runs.write_text(runs.read_text() + "." if runs.exists() else ".")
    assert len(runs.read_text()) >= passes_at
"""


@pytest.mark.parametrize(
    ("passes_at", "status", "said"),
    [
        ([1], 0, []),
        ([1, 2, 3], 0, [f"FLAKY, failed once and passed without the others: test_it.py::test_it[{at}]" for at in "23"]),
        ([2, 4], 1, ["FLAKY", "failed 3 times: test_it.py::test_it[4]"]),
        ([*range(10, 14)], 1, ["4 tests failed: they are not run again (1 to 3 are)"]),
    ],
    ids=["all pass", "some at last", "one never", "too many"],
)
def test_a_test_that_fails_each_time_refuses_the_change(
    tmp_path: Path, passes_at: list[int], status: int, said: list[str]
) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "Makefile").write_text("test:\n\t@.venv/bin/python -m pytest\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {' '.join(f'-p no:{name}' for name in NOT_NEEDED)}\n")
    (tmp_path / "test_it.py").write_text(TIMES.format(passes_at=passes_at))
    ran = subprocess.run([sys.executable, TESTS, "test"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stdout
    assert all(words in ran.stdout for words in said), ran.stdout
    assert ("FLAKY" in ran.stdout) is ("FLAKY" in " ".join(said))
