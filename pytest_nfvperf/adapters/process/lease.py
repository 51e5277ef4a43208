"""A lease of a testbed: whoever holds the lock on its file is the only one to use it.

The kernel drops the lock with the process, however it ends, so a worker that replaces a killed one finds the testbed
free. Nothing is written: the lock lies on the testbed file itself, or on a directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from pytest_nfvperf.model.errors import ConfigError

_LOCKS = Path("/proc/locks")


class Lease:
    """Holds a file or directory for this process until ``close()`` or the end of the process."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def close(self) -> None:
        """Let go. Can be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def try_lease(place: Path, *, shared: bool = False) -> Lease | None:
    """Take it, if nobody has it.

    Args:
        place: a file or a directory that can be read.
        shared: others may hold it, too, if they share it.

    Returns:
        None while somebody else holds it.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(place)) from error
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise ConfigError(
                f"cannot be locked: {error.strerror}; put it on a file system that has locks (flock(2)), as the "
                "machine's own disk has",
                file=str(place),
            ) from error
        return None
    return Lease(handle)


def holder_text(place: Path) -> str:
    """Who holds it, for a person: pid and command, as far as this user may see them."""
    status = place.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in _LOCKS.read_text(encoding="ascii").splitlines():
        fields = line.split()
        if device in fields and "FLOCK" in fields and "->" not in fields:
            return f"pid {fields[4]}, command {_command(fields[4])!r}"
    return "a process that this user cannot see"


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "unknown"
