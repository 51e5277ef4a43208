"""Lets OVS connect to a vhost-user socket the moment somebody listens on it.

DPDK's virtio-user as a server blocks in its probe until OVS has connected, and OVS, once it
failed to connect, tries again only a second later (DPDK's vhost reconnect thread): attaching two ports
one after the other would take two seconds. OVS does connect at once when it is told the path while
somebody listens there. So ports are made without a path, and a thread tells each its path in time.

The kernel lists Unix sockets by network namespace, so the connector is told in whose lists to look; a trial connection
would be taken for OVS's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.jsonrpc import JsonRpc
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

_LISTENING = 0x00010000  # __SO_ACCEPTCON in the flags of /proc/net/unix
OURS = Path("/proc/net/unix")
TELL_DEADLINE_S = 30.0
"""On two busy CPUs ovsdb-server was seen to take more than 5 s. Who waits for the link has a deadline of its own."""
_SOON_S, _SOON_INTERVAL_S, _LATER_INTERVAL_S = 10.0, 0.005, 0.1


def listening_sockets(table: Path = OURS) -> set[str]:
    """Paths of the Unix sockets that somebody listens on, in a list of proc_pid_net(5); none if its process ended."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    paths = set()
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & _LISTENING:
            paths.add(fields[7])
    return paths


class VhostConnector:
    """Watches for listeners from ``start`` until all are connected, or ``close``."""

    THREAD_NAME = "vhost-connector"

    def __init__(
        self,
        database: Path,
        sockets: Mapping[str, Path],
        deadline_s: float = TELL_DEADLINE_S,
        tables: Collection[Path] = (OURS,),
    ) -> None:
        """Prepare; ``start`` watches.

        ``sockets``: where each interface's far end will listen. ``tables``: lists of Unix sockets, of each network
        namespace where a far end may be.
        """
        self._tables = frozenset(tables)
        self._rpc = JsonRpc(database, "ovsdb-server")
        self._waiting = dict(sockets)
        self._deadline_s = deadline_s
        self._stop = threading.Event()
        self._failure: TestbedError | None = None
        self._thread = threading.Thread(target=self._watch, name=self.THREAD_NAME, daemon=True)

    def start(self) -> None:
        if self._waiting:
            self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the watch."""
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        began = time.monotonic()
        try:
            while self._waiting and not self._stop.is_set():
                for interface in self._ready():
                    self._tell(interface, self._waiting.pop(interface))
                soon = time.monotonic() - began < _SOON_S
                self._stop.wait(_SOON_INTERVAL_S if soon else _LATER_INTERVAL_S)
        except TestbedError as error:
            self._failure = error
        finally:
            self._rpc.close()

    def _ready(self) -> list[str]:
        listening = set[str]().union(*(listening_sockets(table) for table in self._tables))
        return [name for name, path in self._waiting.items() if str(path) in listening]

    def _tell(self, interface: str, path: Path) -> None:
        operation = {
            "op": "update",
            "table": "Interface",
            "where": [["name", "==", interface]],
            "row": {"options": ["map", [["vhost-server-path", str(path)]]]},
        }
        try:
            answer = self._rpc.request("transact", ["Open_vSwitch", operation], self._deadline_s)
        except DeadlineError as error:
            raise DeadlineError(
                f"waited {self._deadline_s:g} s for ovsdb-server to take where interface {interface!r} connects, "
                f"{path}: it does not answer, and OVS does not connect meanwhile"
            ) from error
        (result,) = answer[:1]
        if result.get("count") != 1:
            raise TestbedError(f"OVS was not told where interface {interface!r} connects: {result}")

    def close(self) -> None:
        """Stop watching, and wait for no answer. Can be called twice."""
        self._stop.set()
        self._rpc.abort()
        if self._thread.is_alive():
            self._thread.join()
