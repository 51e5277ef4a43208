"""The process behind a socket that somebody else's daemon listens on."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import ProcessId
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.routing.speakers.daemons import is_stopped
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

_DYING_S = 0.5
_CREDENTIALS = struct.Struct("=3i")  # struct ucred, unix(7): pid, uid, gid


class LabProcess:
    """A daemon that is not ours: it is looked at and never ended.

    Args:
        name: of the daemon.
        path: its socket.
        advice: for who reads that nobody is there.

    Raises:
        TestbedError: nobody listens there.
    """

    def __init__(self, name: str, path: Path, advice: str) -> None:
        self.name = name
        self._path = path
        try:
            self._identity = ProcessId.of(_listener(path))
        except OSError as error:
            raise TestbedError(f"no {name} listens on {path}: {error.strerror}; {advice}") from error

    @property
    def pid(self) -> int | None:
        """None when it has ended, or is the child of who opened the socket: then nobody tells."""
        return self._identity.pid if self._identity is not None and self._identity.alive() else None

    def check(self) -> None:
        """TestbedError when it has ended or is stopped."""
        pid = self.pid
        if pid is not None and is_stopped(pid):
            raise TestbedError(f"{self.name} (pid {pid}), which is not ours, is stopped (SIGSTOP)")
        try:
            _listener(self._path)
        except OSError as error:
            raise TestbedError(
                f"{self.name} at {self._path}, which is not ours, has ended ({error.strerror}): start it again"
            ) from error

    def check_after_error(self) -> None:
        """``check``, when a connection to it broke: one that dies may listen for a moment longer than it answers."""
        self.check()
        with suppress(DeadlineError):
            wait_until(lambda: not listens(self._path), f"{self.name} to listen no longer", _DYING_S)
        self.check()


def listens(path: Path) -> bool:
    """True when somebody does."""
    try:
        _listener(path)
    except OSError:
        return False
    return True


def _listener(path: Path) -> int:
    """The pid of who called listen(2) there (unix(7), SO_PEERCRED)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.connect(str(path))
        pid, _, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)
