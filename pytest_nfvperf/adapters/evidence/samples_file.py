"""The samples of a soak on disk: a header line, then a JSON array a row.

The place for all of them is taken before the soak begins: a disk that others fill up meanwhile takes no sample away,
and one that is too full is noticed in the first second and not in the twelfth hour. Should the disk refuse a row
all the same, the soak goes on, and the rows that are missing on disk are said.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.evidence.writer import sync
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.soak_table import TIME, SoakTable, row_bytes
from pytest_nfvperf.ports.samples import OpenSamples

_FORMAT = 1


def samples_in(directory: Path) -> OpenSamples:
    """Opens samples files in a directory, which is made with the first."""

    def open_file(name: str, columns: Sequence[str], rows: int, about: Mapping[str, object]) -> SamplesFile:
        directory.mkdir(parents=True, exist_ok=True)
        return SamplesFile(directory / name, columns, rows, about)

    return open_file


class SamplesFile:
    """Takes rows; ``close`` gives back what was taken of the disk and not used.

    Args:
        path: made new; its directory must be there.
        columns: of every row, without ``t``.
        rows: how many will come.
        about: put into the header, plain JSON.

    Raises:
        TestbedError: the disk has no room for the rows, or the file cannot be made.
    """

    def __init__(self, path: Path, columns: Sequence[str], rows: int, about: Mapping[str, object]) -> None:
        self.path = path
        self.columns = (TIME, *columns)
        self.written = 0
        self.failed: tuple[str, int] | None = None
        """The first refusal and how many rows it cost so far."""
        header = json.dumps({"format": _FORMAT, "about": dict(about), "columns": self.columns}) + "\n"
        needed = len(header) + rows * row_bytes(len(columns))
        try:
            self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.posix_fallocate(self._fd, 0, needed)
            self._end = os.pwrite(self._fd, header.encode(), 0)
        except OSError as error:
            self._abandon()
            raise TestbedError(
                f"no room for the samples: {path} needs {needed / 1e6:.1f} MB: {error.strerror}. Free space under "
                f"{path.parent}, choose another results directory (--nfv-results) or a shorter soak"
            ) from error

    @property
    def name(self) -> str:
        """The file, relative to the directory of the evidence."""
        return self.path.name

    def add(self, row: Mapping[str, float]) -> None:
        """Write a row. A disk that refuses it does not end the soak: see ``failed``."""
        if self._fd is None:
            raise ValueError(f"samples file {self.path} is closed")
        line = ("[" + ",".join(_figure(row.get(name)) for name in self.columns) + "]\n").encode()
        try:
            self._end += _written(self._fd, line, self._end)
            self.written += 1
        except OSError as error:
            first, count = self.failed or (str(error.strerror), 0)
            self.failed = (first, count + 1)

    def close(self) -> None:
        """End the file where the rows end. Can be called twice."""
        if self._fd is None:
            return
        os.ftruncate(self._fd, self._end)
        sync(self._fd)
        os.close(self._fd)
        self._fd = None

    def _abandon(self) -> None:
        if getattr(self, "_fd", None) is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._fd)  # type: ignore[arg-type]
            self._fd = None


def _written(fd: int, line: bytes, at: int) -> int:
    """Whole or not at all: what a full disk took of it is overwritten by the next."""
    done = 0
    while done < len(line):
        done += os.pwrite(fd, line[done:], at + done)
    return done


def _figure(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "null"
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def read_samples(path: Path) -> SoakTable:
    """The rows of a file; of one whose writer was killed, those that are whole.

    Raises:
        TestbedError: it is no samples file.
    """
    header, *lines = path.read_bytes().split(b"\n")
    try:
        columns = json.loads(header)["columns"]
    except (ValueError, KeyError, TypeError) as error:
        raise TestbedError(f"{path} is not a file of samples: {error}") from error
    table = SoakTable(columns[1:])
    for line in lines:
        if not line.endswith(b"]"):
            break  # what was taken of the disk and not used, or the row that was being written
        values = zip(columns, json.loads(line), strict=True)
        table.add({name: value for name, value in values if value is not None})
    return table
