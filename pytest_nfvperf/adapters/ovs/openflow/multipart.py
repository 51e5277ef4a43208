"""Statistics of a bridge by OpenFlow 1.4 multipart requests (7.3.5), several over one connection."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.ovs.openflow.connection import (
    MULTIPART_REPLY,
    MULTIPART_REQUEST,
    OpenFlowConnection,
    connected,
)

_MULTIPART = struct.Struct("!HH4x")  # type, flags
_MORE = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A multipart request. ``kind``: OFPMP_*; ``body``: what follows its header."""

    kind: int
    body: bytes = b""


class Multipart:
    """Asks one bridge; ``asking`` makes it."""

    def __init__(self, connection: OpenFlowConnection) -> None:
        self._connection = connection

    def ask(self, question: Question) -> bytes:
        """The bodies of all parts of the answer, one after the other; RefusedError where there is none."""
        self._connection.send((MULTIPART_REQUEST, _MULTIPART.pack(question.kind, 0) + question.body))
        parts = []
        for kind, payload in self._connection.answers("a statistics request"):
            if kind == MULTIPART_REPLY:
                parts.append(payload[_MULTIPART.size :])
                _, flags = _MULTIPART.unpack_from(payload)
                if not flags & _MORE:
                    break
        return b"".join(parts)


@contextmanager
def asking(management_socket: Path, deadline_s: float = 2.0) -> Iterator[Multipart]:
    """Ask a bridge.

    Raises:
        DeadlineError: vswitchd did not answer in time.
        TestbedError: nobody listens.
    """
    with connected(management_socket, "statistics", deadline_s) as connection:
        yield Multipart(connection)
