"""Output for others: standard streams that never fail, files that are written whole, values stored between runs."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from pytest_nfvperf.model.display import encodable, visible
from pytest_nfvperf.ports.machine import StoredValue

_NOT_REPLACEABLE = {errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTSUP, errno.EINVAL}
"""Errors of a file that is a mount (a container's bind mount), or in a directory that takes no new file. The file
itself may still be writable."""


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file so that nobody ever reads half of it; OSError leaves the old content.

    A new file replaces the old one, and gets its owner and mode. Links are followed; text is written in UTF-8.

    What is no file of one name (a device, a FIFO, a standard stream, a file with hard links) is written into, as by a
    shell's ``>``. So is what cannot be replaced, as a bind mount; it gets its old content back if the disk is full.
    """
    content = data if isinstance(data, bytes) else data.encode("utf-8")
    old = path.stat() if path.exists() else None
    # Standard output and error are not opened again: a socket cannot be, and a file would begin anew.
    streams = [number for number in (1, 2) if old is not None and _is_open_as(number, path)]
    if old is None or (not streams and stat.S_ISREG(old.st_mode) and old.st_nlink == 1):
        try:
            _replace(path.resolve(), content, old)
            return
        except OSError as error:
            if error.errno not in _NOT_REPLACEABLE or old is None:
                raise
    before = path.read_bytes() if path.is_file() else b""
    try:
        # Without O_CREAT, which the kernel refuses for what is somebody else's in /tmp (proc(5), protected_regular).
        sys.stdout.flush()
        handle = os.dup(streams[0]) if streams else os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError:
        if before:
            with suppress(OSError):
                path.write_bytes(before)
        raise


def _replace(path: Path, content: bytes, old: os.stat_result | None) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(content)
        if old is not None:
            os.chown(fresh, old.st_uid, old.st_gid)
            fresh.chmod(stat.S_IMODE(old.st_mode))
        fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _is_open_as(number: int, path: Path) -> bool:
    descriptor = Path(f"/proc/self/fd/{number}")
    return descriptor.exists() and descriptor.samefile(path)


class SteadyOutput:
    """A text stream whose writes never fail: the work must not depend on its readers.

    Characters that the encoding lacks are replaced. If a write fails (nobody reads the pipe any more, the disk is full,
    the terminal is gone), later text is dropped, and ``failed`` has the error. With ``plain``, control characters are
    shown instead of sent; colours stay on a terminal.
    """

    def __init__(self, stream: TextIO, *, plain: bool = False) -> None:
        self.failed: Exception | None = None
        self._stream = stream
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self.failed is None:
            shown = visible(text, colors=self.isatty()) if self.plain else text
            try:
                self._stream.write(encodable(shown, self._stream.encoding or "utf-8"))
            except (OSError, ValueError) as error:  # ValueError: it was closed
                self._give_up(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.failed is None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._give_up(error)

    def isatty(self) -> bool:
        with suppress(ValueError):
            return self._stream.isatty()
        return False

    def _give_up(self, error: Exception) -> None:
        """Redirect the stream to /dev/null: otherwise Python exits with status 120 when it flushes its buffer."""
        self.failed = error
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, self._stream.fileno())
            finally:
                os.close(nowhere)
            self._stream.flush()


@contextmanager
def steady_standard_streams() -> Iterator[SteadyOutput]:
    """Make ``print`` write as ``SteadyOutput`` does, even where standard output or error is closed."""
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        streams = [SteadyOutput(stream if stream is not None else nowhere, plain=True) for stream in before]
        sys.stdout, sys.stderr = (cast("TextIO", stream) for stream in streams)
        try:
            yield streams[0]
        finally:
            for stream in streams:
                stream.flush()
            sys.stdout, sys.stderr = before


class StoredValueFile(StoredValue):
    """The value of one fingerprint in a JSON file ``{fingerprint: value}``.

    The first write makes the file; an unreadable one is replaced. ``fingerprint``: what the value is valid for, such
    as a machine and its CPUs; other values in the file stay.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def read(self) -> object:
        return self._all().get(self._fingerprint)

    def write(self, value: object) -> None:
        """Replace the last value. A full disk loses only the stored value."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(self._all() | {self._fingerprint: value}, sort_keys=True))

    def _all(self) -> dict[str, object]:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError, UnicodeDecodeError):
            return {}
        return stored if isinstance(stored, dict) else {}
