"""OpenFlow 1.4 on a bridge's management socket: as much of it as chains of many bridges need to be quick.

PyPI ``ovs`` speaks none, and starting ovs-ofctl takes 10 ms a bridge, 100 ms beside a polling PMD.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.model.errors import DeadlineError, TestbedError

XID = 1
ERROR, FLOW_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 1, 14, 18, 19, 20, 21

_VERSION = 0x05
_HEADER = struct.Struct("!BBHI")  # version, type, length, xid
_HELLO, _ECHO_REQUEST, _ECHO_REPLY = 0, 2, 3


class RefusedError(TestbedError):
    """vswitchd refused a request: it, or this bridge's datapath, has no such thing."""


class OpenFlowConnection:
    """A connection to one bridge; ``connected`` makes it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._greeted = False

    def send(self, *messages: tuple[int, bytes]) -> None:
        """Send messages of these types and bodies, the first after a hello."""
        parts = [] if self._greeted else [_HEADER.pack(_VERSION, _HELLO, _HEADER.size, 0)]
        self._greeted = True
        parts += [_HEADER.pack(_VERSION, kind, _HEADER.size + len(body), XID) + body for kind, body in messages]
        self._socket.sendall(b"".join(parts))

    def answers(self, what: str) -> Iterator[tuple[int, bytes]]:
        """Type and body of each answer, as long as somebody asks; RefusedError where ``what`` is refused."""
        while True:
            _, kind, length, xid = _HEADER.unpack(self._exactly(_HEADER.size))
            body = self._exactly(length - _HEADER.size)
            if kind == ERROR:
                raise RefusedError(f"vswitchd refused {what}: OpenFlow error {body[:4].hex()}")
            if kind == _ECHO_REQUEST:
                self._socket.sendall(_HEADER.pack(_VERSION, _ECHO_REPLY, length, xid) + body)
            elif xid == XID:
                yield kind, body

    def _exactly(self, length: int) -> bytes:
        received = b""
        while len(received) < length:
            part = self._socket.recv(length - len(received))
            if not part:
                raise ConnectionResetError("vswitchd closed the connection")
            received += part
        return received


@contextmanager
def connected(management_socket: Path, what: str, deadline_s: float) -> Iterator[OpenFlowConnection]:
    """Speak with a bridge about ``what``.

    Raises:
        DeadlineError: vswitchd did not answer in time.
        TestbedError: nobody listens.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(deadline_s)
            connection.connect(str(management_socket))
            yield OpenFlowConnection(connection)
    except TimeoutError as error:
        raise DeadlineError(f"waited {deadline_s:g} s for {what} from {management_socket}") from error
    except OSError as error:
        raise TestbedError(f"no {what} from {management_socket}: {error}") from error
