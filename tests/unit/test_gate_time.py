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
SAYS_HOW = '#!/bin/sh\necho "ran: $0 $*"\n'
CALLED = (".ci/unchanged", ".ci/fresh", ".ci/left-behind", ".venv/bin/ruff", ".venv/bin/mypy", "bin/make")


def _gate_after(seconds: int, tree: Path) -> str:
    """What .ci/run prints in a tree whose gates only say how they were called, so many seconds after its start."""
    for name in CALLED:
        stand_in = tree / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(SAYS_HOW)
        stand_in.chmod(0o755)
    shutil.copy(GATE, tree / ".ci/run")
    (tree / ".ci/tests.py").write_text("import sys\nprint('ran: tests', *sys.argv[1:])\n")
    env = {**os.environ, "PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "SECONDS": str(seconds)}
    ran = subprocess.run(["bash", ".ci/run"], cwd=tree, env=env, capture_output=True, text=True, check=True)
    return ran.stdout


@pytest.mark.parametrize(
    ("gone_s", "called", "said"),
    [
        (60, ".ci/fresh \n", False),
        (2400, ".ci/fresh --some\n", True),
        (4300, ".ci/fresh --some bookworm\n", True),
    ],
)
def test_a_busy_host_has_some_tests_on_the_other_release(tmp_path: Path, gone_s: int, called: str, said: bool) -> None:
    told = _gate_after(gone_s, tmp_path)
    assert f"ran: {called}" in told
    assert ("on Debian 13 only some tests run, not all" in told) is said
    assert "=== nothing left behind: passed in" in told


def test_no_test_begins_when_the_time_is_over(tmp_path: Path) -> None:
    """Steps: the gate, 3,000 s after its start; then a test of this tree, after its time. Verify: 300 s are left."""
    words = _gate_after(3000, tmp_path).partition("ran: tests test --begin-until ")[2].split()
    assert int(words[0]) - time.time() == pytest.approx(300, abs=30)
    one = [sys.executable, "-m", "pytest", "-rs", f"{__file__}::test_a_busy_host_has_some_tests_on_the_other_release"]
    env = {**os.environ, "NFV_TESTS_BEGIN_UNTIL": str(time.time() - 1)}
    ran = subprocess.run(one, cwd=TREE, env=env, capture_output=True, text=True, check=True)
    assert "3 skipped" in ran.stdout
    assert "not begun: the gate's time is over, this host is busy" in ran.stdout


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
        ([*range(10, 35)], 1, ["25 tests failed: they are not run again (1 to 24 are)"]),
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
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TIMES.format(passes_at=passes_at))
    ran = subprocess.run([sys.executable, TESTS, "test"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stdout
    assert all(words in ran.stdout for words in said), ran.stdout
    assert ("FLAKY" in ran.stdout) is ("FLAKY" in " ".join(said))
