"""BIRD's control socket, as birdc uses it.

A command is a line; the answer is lines with four-digit codes, of which 0xxx ends it, and 8xxx and 9xxx refuse
(BIRD 2 programmer's guide, doc/reply_codes).
"""

from __future__ import annotations

import socket
from pathlib import Path

from pytest_nfvperf.model.errors import TestbedError


class BirdControl:
    """A connection to a running BIRD. Opened when first used, and again after an error."""

    def __init__(self, path: Path, deadline_s: float = 2.0) -> None:
        """``deadline_s``: for each answer; one that takes longer is a daemon that hangs."""
        self._path = path
        self._deadline_s = deadline_s
        self._socket: socket.socket | None = None

    def run(self, command: str, *, deadline_s: float | None = None) -> list[str]:
        """The lines of the answer, without their codes.

        Raises:
            TestbedError: nobody answers, not in time, or the command is refused, with BIRD's words.
        """
        deadline_s = deadline_s or self._deadline_s
        try:
            answer = self._ask(command, deadline_s)
        except OSError as error:
            self.close()
            why = f"no answer within {deadline_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise TestbedError(f"bird does not answer on {self._path}: {why}") from error
        except BaseException:
            self.close()  # a signal's handler broke it off; what is under way answers no later command
            raise
        code, text = answer[-1]
        if code[0] in "89":
            raise TestbedError(f"bird refused {command!r}: {text}")
        return [text for _, text in answer]

    def _ask(self, command: str, deadline_s: float) -> list[tuple[str, str]]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(deadline_s)
            self._socket.connect(str(self._path))
            self._answer(self._socket)  # it greets
        self._socket.settimeout(deadline_s)
        self._socket.sendall(command.encode() + b"\n")
        return self._answer(self._socket)

    @staticmethod
    def _answer(connection: socket.socket) -> list[tuple[str, str]]:
        received = b""
        while True:
            part = connection.recv(1 << 16)
            if not part:
                raise ConnectionResetError("the connection was closed")
            received += part
            if received.endswith(b"\n"):
                lines = _lines(received.decode(errors="replace"))
                if lines and lines[-1][0][0] in "089" and lines[-1][0][4:] == " ":
                    return [(code[:4], text) for code, text in lines]

    def close(self) -> None:
        """Hang up. Can be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _lines(text: str) -> list[tuple[str, str]]:
    """(code and its separator, text) of each line; a line without a code goes on from the one before."""
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line[:4].isdigit() and line[4:5] in {" ", "-"}:
            lines.append((line[:5], line[5:]))
        elif lines:
            lines.append((f"{lines[-1][0][:4]}-", line[1:]))
    return lines
