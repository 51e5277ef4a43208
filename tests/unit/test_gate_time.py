"""The gate .ci/run keeps within its time where the host is busy."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

GATE = Path(__file__).parents[2] / ".ci/run"
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
    (tree / ".ci/tests.py").write_text("print('ran: tests')\n")
    env = {**os.environ, "PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "SECONDS": str(seconds)}
    ran = subprocess.run(["bash", ".ci/run"], cwd=tree, env=env, capture_output=True, text=True, check=True)
    return ran.stdout


@pytest.mark.parametrize(
    ("gone_s", "called", "said"), [(60, ".ci/fresh \n", False), (2400, ".ci/fresh --some\n", True)]
)
def test_a_busy_host_has_some_tests_on_the_other_release(tmp_path: Path, gone_s: int, called: str, said: bool) -> None:
    told = _gate_after(gone_s, tmp_path)
    assert f"ran: {called}" in told
    assert ("on Debian 13 only some tests run, not all" in told) is said
    assert "=== nothing left behind: passed in" in told
