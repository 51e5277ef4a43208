"""docs/reference/exit-status.md lists every status and every word that there is."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.model.evidence.conclusion import RunResult, TestResult

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/exit-status.md").read_text()


def test_every_exit_status_is_in_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| ([a-z ]+) \|", PAGE, re.MULTILINE)
    assert sorted((int(status), run) for status, run in rows) == sorted(
        (run.exit_status, str(run)) for run in RunResult
    )


def test_every_word_for_a_test_is_in_the_table() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([a-z ]+) \| [^|]+ \| [a-z]* ?\| [a-z]* ?\|$", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(map(str, TestResult))


def test_readme_links_it() -> None:
    assert "(docs/reference/exit-status.md)" in (ROOT / "README.md").read_text()
