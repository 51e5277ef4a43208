"""Evidence on disk: one JSON line a record, written as things happen."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.record import Record, RecordKind

DURABLE = frozenset({RecordKind.TRIAL, RecordKind.SOAK, RecordKind.TEST_END, RecordKind.ERROR, RecordKind.RUN_END})
"""Kinds after which the file is synced: what took time to measure survives the machine going down, too."""


_AFTERWARDS = frozenset(
    {
        RecordKind.RUN,
        RecordKind.ERROR,
        RecordKind.ATTACHMENT,
        RecordKind.LEDGER,
        RecordKind.TEST_END,
        RecordKind.RUN_END,
    }
)
"""Kinds that only say more of a test that has ended, or of the run."""


def evidence_file(run_dir: Path, worker: str) -> Path:
    """Where a process writes its records; ``worker``: "" in a process that is no worker of pytest-xdist."""
    return run_dir / f"evidence{f'-{worker}' if worker else ''}.jsonl"


class EvidenceWriter:
    """A Sink that appends lines to a file of its own.

    A line is handed to the kernel whole before ``emit`` returns, so a killed run leaves every
    finished trial readable. When a line cannot be written whole it is taken back.

    Args:
        path: the file; its directory is made. It must be new or empty.

    Raises:
        ConfigError: the file already holds a run.
        TestbedError: it cannot be opened, or (from ``emit``) the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._broken("cannot be opened", error) from error
        with suppress(OSError):  # a file system without locks: nobody can tell then that the run goes on
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._end = os.fstat(self._fd).st_size
        self._refused = False
        if self._end:
            self.close()
            raise ConfigError("already holds the evidence of a run; choose another results directory", file=str(path))

    def emit(self, record: Record) -> None:
        """Append one line; TestbedError when it cannot be written whole.

        After that, what only says more of the test that this ended is left out where there is no room for it either.
        """
        if self._fd is None:
            raise ValueError(f"evidence file {self.path} is closed; record {record.id} came too late")
        line = json.dumps(record.to_json(), allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode()
        try:
            _write_all(self._fd, data)
            if record.kind in DURABLE:
                sync(self._fd)
        except OSError as error:
            self._take_back()
            if self._refused and record.kind in _AFTERWARDS:
                return  # the first refusal was told, and has ended its test
            self._refused = True
            raise self._broken(f"cannot take record {record.id}", error) from error
        self._end += len(data)

    def close(self) -> None:
        """Close the file. Can be called twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _take_back(self) -> None:
        """Cut a half-written line, so that the lines before it are all that a reader sees."""
        if self._fd is not None:
            with suppress(OSError):  # the reader leaves the half line out
                os.ftruncate(self._fd, self._end)

    def _broken(self, what: str, error: OSError) -> TestbedError:
        return TestbedError(
            f"evidence file {self.path} {what}: {error.strerror}. Free space under {self.path.parent} or choose "
            "another results directory (--nfv-results); without evidence no result counts."
        )


def sync(fd: int) -> None:
    """Have the kernel write a file to its disk, where there is something to write to: some file systems cannot.

    Raises:
        OSError: the disk refused, as a full one or a broken one does.
    """
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EROFS, errno.ENOSYS, errno.EOPNOTSUPP}:  # fsync(2)
            raise


def is_being_written(path: Path) -> bool:
    """True while a process has the file open to write more: its lock (flock(2)) goes with it, however it ends.

    A process that the run forked shares the lock, and may outlive the run. So the run itself must be alive.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(fd)
        return owner is None or Path(f"/proc/{owner}").exists()
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _owner(fd: int) -> int | None:
    """Who took the lock of this file, as proc_locks(5) says; None where it does not: another machine, a container."""
    status = os.fstat(fd)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            match line.split():
                case [_, "FLOCK", _, "WRITE", owner, where, *_] if where == file and owner.isdigit():
                    return int(owner)
    return None


def _write_all(fd: int, data: bytes) -> None:
    """Write all of it: a full disk first takes a part, then refuses the rest."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
