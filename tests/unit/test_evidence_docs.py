"""docs/reference/evidence.md shows lines and calls that work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import parse_line
from pytest_nfvperf.model.evidence.records import RecordKind
from tests.sample_run import small_run, write_sample

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/evidence.md").read_text()


def block(language: str, number: int = 0) -> str:
    """One of the page's blocks of this language."""
    return str(re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[number])


def test_the_line_is_evidence() -> None:
    assert parse_line(block("json")).kind == "test_end"


def test_every_kind_is_explained() -> None:
    kinds = PAGE.partition("## Kinds")[2].partition("## Trials")[0]
    assert re.findall(r"^\| `(\w+)` \|", kinds, re.MULTILINE) == [str(kind) for kind in RecordKind]


def test_the_python_example_runs(tmp_path: Path) -> None:
    write_sample(tmp_path / "reports" / "latest", small_run())
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "phy2phy GoalOutcome(" in done.stdout
    assert done.stdout.endswith("[]\n")


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_jq_example_lists_invalid_trials(tmp_path: Path) -> None:
    write_sample(tmp_path, small_run())
    done = subprocess.run(["sh", "-c", block("sh")], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(r"^trial-\d+\t\d+ of \d+ frames were due", done.stdout, re.MULTILINE)
