"""The file of samples: bounded, whole after a kill, and a full disk is said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.evidence import writer
from pytest_nfvperf.adapters.evidence.writer import SamplesFile, read_samples
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.soak_series import MOST_BYTES, fitting_interval_s, row_bytes

HALF_A_DAY_S = 12 * 3600


def test_twelve_hours_of_a_hundred_columns_stay_below_50_mb(tmp_path: Path) -> None:
    columns = [f"p{number}.rx_packets" for number in range(100)]
    interval_s = fitting_interval_s(HALF_A_DAY_S, 1.0, len(columns))
    assert interval_s == 1.0
    file = SamplesFile(tmp_path / "s.jsonl", columns, 100, {})
    row = dict.fromkeys(columns, 4000000.0)
    for second in range(100):
        file.add({"t": HALF_A_DAY_S - 100 + second + 0.123456, **row})
    file.close()
    assert file.path.stat().st_size / 100 * HALF_A_DAY_S < MOST_BYTES


@given(st.floats(1, 30 * 86400), st.integers(1, 2000))
def test_longer_soaks_have_longer_intervals_and_not_more_bytes(duration_s: float, columns: int) -> None:
    interval_s = fitting_interval_s(duration_s, 1.0, columns)
    assert interval_s == int(interval_s) >= 1
    assert duration_s / interval_s * row_bytes(columns) <= MOST_BYTES


def test_rows_come_back(tmp_path: Path) -> None:
    file = SamplesFile(tmp_path / "s.jsonl", ["a", "b"], 5, {"load_fps": 1})
    file.add({"t": 1.0, "a": 3.0, "b": 0.25})
    file.add({"t": 2.0, "a": 4.0})
    file.close()
    table = read_samples(file.path)
    assert (len(table), table.column("a")[1], table.column("b")[0]) == (2, 4.0, 0.25)
    assert math.isnan(table.column("b")[1]), "absent is not 0"
    assert json.loads(file.path.read_text().splitlines()[0])["about"] == {"load_fps": 1}


def test_the_room_is_taken_at_once_and_given_back(tmp_path: Path) -> None:
    file = SamplesFile(tmp_path / "s.jsonl", ["a"] * 1, 10_000, {})
    assert file.path.stat().st_blocks * 512 >= 10_000 * row_bytes(1)
    file.add({"t": 1.0, "a": 1.0})
    file.close()
    assert file.path.stat().st_size < 200


def test_a_killed_writers_rows_are_read(tmp_path: Path) -> None:
    """It left what it had taken of the disk, and half a row."""
    file = SamplesFile(tmp_path / "s.jsonl", ["a"], 100, {})
    file.add({"t": 1.0, "a": 1.0})
    content = file.path.read_bytes().replace(b"\0", b"") + b"[2.0,1" + bytes(500)
    (tmp_path / "killed.jsonl").write_bytes(content)
    assert len(read_samples(tmp_path / "killed.jsonl")) == 1
    assert len(read_samples(file.path)) == 1
    file.close()


def test_a_disk_without_room_is_said_before_anything_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer.os, "posix_fallocate", full)
    with pytest.raises(
        TestbedError, match=r"no room for the samples: .*s\.jsonl needs 9\.5 MB: No space left on device"
    ):
        SamplesFile(tmp_path / "s.jsonl", ["a"] * 20, 45_000, {})
    assert not (tmp_path / "s.jsonl").exists()


def test_a_row_that_the_disk_refuses_does_not_end_the_soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SamplesFile(tmp_path / "s.jsonl", ["a"], 10, {})
    file.add({"t": 1.0, "a": 1.0})

    def refuse(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writer.os, "pwrite", refuse)
        file.add({"t": 2.0, "a": 2.0})
        file.add({"t": 3.0, "a": 3.0})
    file.add({"t": 4.0, "a": 4.0})
    file.close()
    assert file.failed == ("No space left on device", 2)
    assert list(read_samples(file.path).column("t")) == [1.0, 4.0]


def test_what_is_no_file_of_samples_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(TestbedError, match=r"x\.jsonl is not a file of samples"):
        read_samples(tmp_path / "x.jsonl")
