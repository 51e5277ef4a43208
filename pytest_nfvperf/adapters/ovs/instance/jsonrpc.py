"""JSON-RPC 1.0 over a Unix socket with a deadline: what ovsdb-server and ovs-appctl's targets speak.

PyPI ``ovs`` has a client too, but it waits for ever when the daemon hangs, and its pure-Python
parser takes 10 ms for a coverage listing, which a 20 ms snapshot cannot afford.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_nfvperf.model.errors import DeadlineError, TestbedError

_RECEIVE_BYTES = 1 << 16


class RefusedError(TestbedError):
    """The daemon understood a request and refused it."""


class JsonRpc:
    """A connection to one daemon; connects when first used, and again after a failure."""

    def __init__(self, path: Path, daemon: str) -> None:
        self._path = path
        self._daemon = daemon
        self._socket: socket.socket | None = None
        self._received = b""
        self._id = 0
        self._aborted = False

    def request(self, method: str, params: Sequence[Any], deadline_s: float = 5.0) -> Any:
        """Ask, and return the result.

        Raises:
            RefusedError: the daemon's own error message.
            DeadlineError: it did not answer in time.
            TestbedError: nobody listens.
        """
        self._id += 1
        text = json.dumps({"method": method, "params": list(params), "id": self._id})
        try:
            reply = self._exchange(text.encode(), time.monotonic() + deadline_s)
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"waited {deadline_s:g} s for {self._daemon} to answer {method!r}") from error
        except OSError as error:
            self.close()
            raise TestbedError(f"{self._daemon} does not answer on {self._path}: {error}") from error
        except BaseException:
            self.close()  # a signal's handler broke it off; what is under way answers no later request
            raise
        if reply.get("error") is not None:
            raise RefusedError(f"{self._daemon} refused {method!r}: {reply['error']}")
        return reply["result"]

    def _exchange(self, request: bytes, end: float) -> dict[str, Any]:
        connection = self._connect(end)
        if self._aborted:
            raise ConnectionAbortedError("nobody waits for the answer any more")
        connection.sendall(request)
        while True:
            reply = self._take_reply()
            if reply is not None:
                return reply
            connection.settimeout(max(0.001, end - time.monotonic()))
            received = connection.recv(_RECEIVE_BYTES)
            if not received:
                raise ConnectionResetError("the connection was closed")
            self._received += received

    def _connect(self, end: float) -> socket.socket:
        if self._socket is None:
            self._received = b""
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            connection.settimeout(max(0.001, end - time.monotonic()))
            try:
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                raise
            self._socket = connection
        return self._socket

    def _take_reply(self) -> dict[str, Any] | None:
        """The next whole reply, or None while it is still in parts (replies have no delimiter)."""
        if not self._received.rstrip().endswith(b"}"):
            return None
        try:
            reply = json.loads(self._received)
        except ValueError:
            return None
        self._received = b""
        if not isinstance(reply, dict):
            raise ConnectionError(f"not a JSON-RPC reply: {reply!r}")
        return reply

    def abort(self) -> None:
        """For good: a request that another thread waits for ends now, with TestbedError, and so do all after it."""
        self._aborted = True
        connection = self._socket
        if connection is not None:
            with suppress(OSError):  # it has hung up meanwhile
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up. Can be called twice; the next call connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
