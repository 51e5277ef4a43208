"""A daemon's vty socket, as vtysh uses it, without starting vtysh each time.

vtysh(1) sends a command and a zero byte; the answer is text, three zero bytes and a status
(FRR developer's guide, "VTYSH"). Starting vtysh takes 10 ms, and ten times that beside a polling PMD.
"""

from __future__ import annotations

import socket
from pathlib import Path

from pytest_nfvperf.model.errors import TestbedError

_END = b"\0\0\0"
_SUCCESS = (0, 4)  # CMD_SUCCESS, CMD_SUCCESS_DAEMON, lib/command.h


class Vty:
    """A connection to one daemon. Opened when first used, and again after an error."""

    def __init__(self, path: Path, daemon: str, deadline_s: float = 2.0) -> None:
        """``deadline_s``: for each answer; one that takes longer is a daemon that hangs."""
        self._path = path
        self._daemon = daemon
        self._deadline_s = deadline_s
        self._socket: socket.socket | None = None

    def run(self, *commands: str, deadline_s: float | None = None) -> str:
        """Give commands one after the other; the last one's answer.

        Raises:
            TestbedError: nobody answers, not in time, or a command is refused, with the daemon's words.
        """
        answer, status = "", 0
        try:
            for command in commands:
                answer, status = self._ask(command, deadline_s or self._deadline_s)
                if status not in _SUCCESS:
                    raise TestbedError(f"{self._daemon} refused {command!r} (status {status}): {answer.strip()}")
        except OSError as error:
            self.close()
            why = f"no answer within {self._deadline_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise TestbedError(f"{self._daemon} does not answer on {self._path}: {why}") from error
        except TestbedError:
            raise
        except BaseException:
            self.close()  # a signal's handler broke it off; what is under way answers no later command
            raise
        return answer

    def _ask(self, command: str, deadline_s: float) -> tuple[str, int]:
        connection = self._connected(deadline_s)
        connection.sendall(command.encode() + b"\0")
        received = bytearray()
        while len(received) < 4 or received[-4:-1] != _END:
            part = connection.recv(1 << 16)
            if not part:
                raise ConnectionResetError("the connection was closed")
            received += part
        return received[:-4].decode(errors="replace"), received[-1]

    def _connected(self, deadline_s: float) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(deadline_s)
            self._socket.connect(str(self._path))
            self._ask("enable", deadline_s)
        self._socket.settimeout(deadline_s)
        return self._socket

    def close(self) -> None:
        """Hang up. Can be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
