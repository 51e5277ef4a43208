"""A controller of the run's: bridges connect to it, it adds no flow, and it can be lost.

It listens in the run's directory: vswitchd connects to no socket outside of its own (bridge_configure_remotes()).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.openflow import BARRIER_REPLY, BARRIER_REQUEST, OpenFlowConnection
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import TestbedError

PROBE_MS = 1_000
"""The shortest inactivity probe. fail_mode=standalone begins after three: 3 s, by default 15 s (fail-open.c)."""

_DEADLINE_S = 20.0


class OwnController:
    """A controller of bridges of an OVS. Its threads end with its sockets: nothing outlives our process."""

    def __init__(self, instance: RunningOvs) -> None:
        self._instance = instance
        self._path = instance.directory / "ctl"
        self._sockets: list[socket.socket] = []
        self._connected: set[socket.socket] = set()

    def attach(self, bridges: Sequence[str], fail_mode: str) -> None:
        """Become the bridges' controller, and wait until all are connected. OVS removes their flows meanwhile."""

        def change(transaction: ovs.db.idl.Transaction) -> None:
            for name in bridges:
                bridge = self._instance.db.rows("Bridge")[name]
                row = transaction.insert(transaction.idl.tables["Controller"])
                row.target, row.inactivity_probe, row.max_backoff = f"unix:{self._path}", PROBE_MS, PROBE_MS
                bridge.controller, bridge.fail_mode = [row], fail_mode

        self.lose()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._sockets.append(listener)
        try:
            listener.bind(str(self._path))
            listener.listen()
        except OSError as error:
            raise TestbedError(f"no controller can listen on {self._path}: {error.strerror}") from error
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        self._instance.db.transact(change, "a controller", _DEADLINE_S)
        what = f"bridges {', '.join(bridges)} to connect to their controller"
        wait_until(lambda: len(self._connected) == len(bridges), what, _DEADLINE_S)

    def _serve(self, listener: socket.socket) -> None:
        """Accept a bridge, and answer it until a socket is closed; another thread accepts the next one."""
        with suppress(OSError, TestbedError):
            connection = listener.accept()[0]
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
            bridge = OpenFlowConnection(connection)
            # Whoever only says hello and echoes has not admitted the bridge (rconn.c), so it would fail open.
            bridge.send((BARRIER_REQUEST, b""))
            for kind, _ in bridge.answers("a barrier"):
                if kind == BARRIER_REPLY:
                    self._connected.add(connection)

    def lose(self) -> None:
        """Close its connections and listen no more. Can be called twice."""
        for each in self._sockets:
            with suppress(OSError):  # the other end has closed it
                each.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
            each.close()
        self._sockets, self._connected = [], set()
        self._path.unlink(missing_ok=True)
