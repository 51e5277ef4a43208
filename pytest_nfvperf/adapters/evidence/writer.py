"""Evidence on disk: one JSON line a record, written as things happen, and beside it the samples of a soak."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.process.lock import lock_holder
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.records import Record
from pytest_nfvperf.model.measure.soak_series import TIME, SoakTable, row_bytes
from pytest_nfvperf.ports.machine import OpenSamples, SamplesSink, Sink

_SAMPLES_FORMAT = 1


def evidence_file(run_dir: Path, worker: str) -> Path:
    """The file for a process's records. ``worker``: "" outside of pytest-xdist's workers."""
    return run_dir / f"evidence{f'-{worker}' if worker else ''}.jsonl"


class EvidenceWriter(Sink):
    """A Sink that appends lines to a file of its own, which must be new or empty.

    The kernel has a whole line before ``emit`` returns, so every finished trial of a killed run is readable. ``emit``
    takes back a line that it cannot write whole.

    ConfigError if the file already holds a run; TestbedError if it cannot be opened, or (from ``emit``) the disk is
    full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._broken("cannot be opened", error) from error
        with suppress(OSError):  # a file system without locks: no reader can see that the run goes on
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._end = os.fstat(self._fd).st_size
        self._refused = False
        if self._end:
            self.close()
            raise ConfigError("already holds the evidence of a run; choose another results directory", file=str(path))

    def emit(self, record: Record) -> None:
        """Append one line; TestbedError if it cannot be written whole.

        If there is no room for later details of the test that this line ended, they are left out.
        """
        if self._fd is None:
            raise ValueError(f"evidence file {self.path} is closed; record {record.id} came too late")
        line = json.dumps(record.to_json(), allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode()
        try:
            rest = memoryview(data)
            while rest:  # a full disk first takes a part, then refuses what is left
                rest = rest[os.write(self._fd, rest) :]
            if record.kind.durable:
                sync(self._fd)
        except OSError as error:
            with suppress(OSError):  # else the reader leaves the half line out
                os.ftruncate(self._fd, self._end)
            if self._refused and record.kind.says_more:
                return  # the first refusal was reported, and has ended its test
            self._refused = True
            raise self._broken(f"cannot take record {record.id}", error) from error
        self._end += len(data)

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _broken(self, what: str, error: OSError) -> TestbedError:
        return TestbedError(
            f"evidence file {self.path} {what}: {error.strerror}. Free space under {self.path.parent} or choose "
            "another results directory (--nfv-results); without evidence no result counts."
        )


def sync(fd: int) -> None:
    """Have the kernel write a file to its disk, if the file system can; OSError if the disk is full or broken."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EROFS, errno.ENOSYS, errno.EOPNOTSUPP}:  # fsync(2)
            raise


def is_being_written(path: Path) -> bool:
    """True while a process has the file open to write more: its lock (flock(2)) ends with it.

    A process that the run forked shares the lock, and may outlive the run. So the run itself must be alive.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = lock_holder(os.fstat(fd))
        return holder is None or Path(f"/proc/{holder}").exists()
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def samples_in(directory: Path) -> OpenSamples:
    """Opens samples files in a directory, which the first of them creates."""

    def open_file(name: str, columns: Sequence[str], rows: int, about: Mapping[str, object]) -> SamplesFile:
        directory.mkdir(parents=True, exist_ok=True)
        return SamplesFile(directory / name, columns, rows, about)

    return open_file


class SamplesFile(SamplesSink):
    """The samples of a soak on disk: a header line, then a JSON array a row.

    Space for all rows is reserved before the soak. So others cannot fill the disk meanwhile, and a full disk is
    noticed in the first second, not in the twelfth hour. If the disk still refuses a row, the soak goes on, and
    ``failed`` counts the missing rows. ``close`` releases unused space.

    ``path``: new; its directory must exist. ``columns``: of every row, without ``t``. ``about``: plain JSON for the
    header. TestbedError if the disk has no room for so many rows, or the file cannot be made.
    """

    def __init__(self, path: Path, columns: Sequence[str], rows: int, about: Mapping[str, object]) -> None:
        self.path, self.name = path, path.name
        self.columns = (TIME, *columns)
        header = json.dumps({"format": _SAMPLES_FORMAT, "about": dict(about), "columns": self.columns}) + "\n"
        needed = len(header) + rows * row_bytes(len(columns))
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.posix_fallocate(self._fd, 0, needed)
            self._end = os.pwrite(self._fd, header.encode(), 0)
        except OSError as error:
            if self._fd is not None:
                path.unlink(missing_ok=True)
                os.close(self._fd)
                self._fd = None
            raise TestbedError(
                f"no room for the samples: {path} needs {needed / 1e6:.1f} MB: {error.strerror}. Free space under "
                f"{path.parent}, choose another results directory (--nfv-results) or a shorter soak"
            ) from error

    def add(self, row: Mapping[str, float]) -> None:
        """Write a row. A refusal by the disk does not end the soak: see ``failed``."""
        if self._fd is None:
            raise ValueError(f"samples file {self.path} is closed")
        line = ("[" + ",".join(_figure(row.get(name)) for name in self.columns) + "]\n").encode()
        done = 0
        try:
            while done < len(line):  # whole or not at all: what a full disk took of it is overwritten by the next
                done += os.pwrite(self._fd, line[done:], self._end + done)
            self._end += done
            self.written += 1
        except OSError as error:
            first, count = self.failed or (str(error.strerror), 0)
            self.failed = (first, count + 1)

    def close(self) -> None:
        if self._fd is None:
            return
        os.ftruncate(self._fd, self._end)
        sync(self._fd)
        os.close(self._fd)
        self._fd = None


def _figure(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "null"
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def read_samples(path: Path) -> SoakTable:
    """The rows of a file. Of a killed writer's file, the complete rows.

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
