"""The route-to-flow agent: what FRR put into its kernel's table becomes flows of the bridge.

A stand-in for ovn-bgp-agent, which does the same by way of OVN: BGP decides, OVS forwards, and the kernel's table is
only how one tells the other. Routes by a gateway lead to the port that the gateway is behind; routes to nowhere,
which FRR announces for addresses of ours, lead to the port of the network that they are in.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, spawn, wait_until
from pytest_nfvperf.adapters.routing.route_agent.follower import Followed, Surroundings
from pytest_nfvperf.adapters.routing.speakers.daemons import NICE
from pytest_nfvperf.model.errors import TestbedError

_MODULE = "pytest_nfvperf.adapters.routing.route_agent.follower"
_PIPE_BYTES = 1 << 20
"""Room for batches of thousands of routes: it shall not wait for us, who have less priority."""

_REMEMBERED = 64
"""Of the last batches, for those who ask when they were made."""


@dataclass(slots=True)
class _Known:
    """What the process told; changed by single operations that are atomic in CPython."""

    routes: dict[str, str | None] = field(default_factory=dict)
    installed: set[str] = field(default_factory=set)


class RouteAgent:
    """Follows one namespace's table from ``start`` to ``close``, by a process; see ``follower``."""

    def __init__(
        self, journal: Journal, namespace: Path, bridge: str, management_socket: Path, around: Surroundings
    ) -> None:
        """``namespace``: the file of FRR's; ``bridge``: for messages; ``management_socket``: the bridge's."""
        self._journal = journal
        self._bridge = bridge
        self._argv = [sys.executable, "-m", _MODULE, str(namespace), str(management_socket)]
        self._around = around
        self._known = _Known()
        self._followed: deque[Followed] = deque(maxlen=_REMEMBERED)
        self._process: ManagedProcess | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin with all routes that are there; TestbedError when it cannot be started."""
        package = Path(pytest_nfvperf.__file__).parents[1]
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
        log = self._journal.directory / "route-agent.log"
        process = spawn(
            self._journal, "route agent", self._argv, log=log, env={"PYTHONPATH": path}, pipes=True, nice=NICE
        )
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise AssertionError("spawned with pipes")
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        process.stdin.write(f"{self._around.to_json()}\n".encode())
        process.stdin.flush()
        self._thread = threading.Thread(target=self._listen, args=(process,), name="route-agent", daemon=True)
        self._thread.start()

    @property
    def routes(self) -> Mapping[str, str | None]:
        """Gateways of the daemon's routes by prefix; None for those to nowhere."""
        return self._known.routes

    def followed(self) -> tuple[Followed, ...]:
        """The last changes that it made, in their order."""
        return tuple(self._followed)

    def check(self) -> None:
        """TestbedError, with its last words, when it came to an end by itself."""
        if self._process is None:
            return
        try:
            self._process.check()
        except TestbedError as error:
            said = self._process.log_tail(1) or error.message
            raise TestbedError(
                f"the route agent of bridge {self._bridge} ended: {said}", evidence=error.evidence
            ) from error

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until a prefix has a flow, or has none any more.

        Raises:
            DeadlineError: says what is there instead: no route, or one that leads nowhere.
        """

        def looks() -> bool:
            self.check()
            return (prefix in self._known.installed) is not gone

        what = "to be gone" if gone else "to be there"
        wait_until(
            looks, f"the flow for {prefix} on {self._bridge} {what}", deadline_s, last_seen=lambda: self._why(prefix)
        )

    def await_count(self, count: int, deadline_s: float) -> None:
        """Wait until so many prefixes have flows; DeadlineError says how many have."""

        def looks() -> bool:
            self.check()
            return len(self._known.installed) == count

        wait_until(
            looks,
            f"flows for {count} prefixes on {self._bridge}",
            deadline_s,
            last_seen=lambda: f"{len(self._known.installed)} flows, {len(self.routes)} routes in FRR's table",
        )

    def _why(self, prefix: str) -> str:
        if prefix not in self.routes:
            others = ", ".join(sorted(self.routes)[:5]) or "none"
            return f"no such route in the kernel's table of FRR's namespace; there are {len(self.routes)}: {others}"
        if prefix in self._known.installed:
            return "the route, and its flow"
        gateway = self.routes[prefix]
        way = f"by {gateway}" if gateway is not None else "to nowhere, in no network of ours"
        return f"the route {way}, which leads to no port of {self._bridge}"

    def _listen(self, process: ManagedProcess) -> None:
        """Until it ends."""
        for line in process.stdout or ():
            batch = Followed(**json.loads(line))
            if batch.anew:
                self._known = _Known()
            self._known.routes.update(batch.routes)
            for prefix in batch.gone:
                self._known.routes.pop(prefix, None)
            self._known.installed.update(batch.added)
            self._known.installed.difference_update(batch.removed)
            self._followed.append(batch)

    def close(self) -> None:
        """End it; the flows stay until the bridge goes. Can be called twice."""
        if self._process is None:
            return
        self._process.popen.terminate()
        if self._thread is not None:
            self._thread.join()  # before its pipe is closed
        self._process.stop()
        self._process = self._thread = None
