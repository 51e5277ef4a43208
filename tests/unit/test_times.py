"""``python -m tests.times`` shows what a change made slower."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import times

RAN = {"a.py::test_one": 3.0, "a.py::test_two[x::y]": 4.5, "b.py::test_it": 20.0, "c.py::test_same": 5.0}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kept times of three files, and the last run's of four tests."""
    file, cached = tmp_path / "times.json", tmp_path / "cached"
    file.write_text(json.dumps({"files": {"a.py": 10.0, "c.py": 5.5, "gone.py": 1.0}, "slowest": {}}))
    cached.write_text(json.dumps(RAN))
    monkeypatch.setattr(times, "KEPT", file)
    monkeypatch.setattr(times, "_CACHED", cached)
    return file


def test_files_that_changed_are_shown_most_seconds_more_first(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert times.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["20.0", "s", "+20.0", "s", "b.py"],
        ["7.5", "s", "-2.5", "s", "a.py"],
    ]
    assert lines[2] == "   32.5 s in 3 files; the same files took 15.5 s when kept"
    assert lines[4] == "   20.0 s  b.py::test_it"
    assert lines[-1] == "    3.0 s  a.py::test_one"


def test_what_is_kept_is_the_next_comparison(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verify: files that did not run keep their times; then nothing has changed."""
    assert times.main(["--keep"]) == 0
    assert json.loads(kept.read_text())["files"] == {"b.py": 20.0, "a.py": 7.5, "c.py": 5.0, "gone.py": 1.0}
    capsys.readouterr()
    assert times.main([]) == 0
    assert capsys.readouterr().out.startswith("   32.5 s in 3 files; the same files took 32.5 s when kept\n")


def test_without_a_run_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(times, "_CACHED", tmp_path / "absent")
    assert times.main([]) == 1
    assert capsys.readouterr().err == "no times: run the tests first (make test)\n"
