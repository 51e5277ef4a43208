"""The route-to-flow agent: what FRR put into its kernel's table becomes flows of the bridge.

A stand-in for ovn-bgp-agent, which does the same by way of OVN: BGP decides, OVS forwards, and the kernel's table is
only how one tells the other. Routes by a gateway lead to the port that the gateway is behind; routes to nowhere,
which FRR announces for addresses of ours, lead to the port of the network that they are in.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nfvperf.adapters.net.wait import wait_until
from pytest_nfvperf.adapters.ovs.route_flows import Hop, RouteFlows
from pytest_nfvperf.adapters.routing.fib import Change, Fib, MissedChangesError, Route
from pytest_nfvperf.model.errors import TestbedError

_LOOK_S = 0.2
"""How long a read waits before it looks whether it shall end; changes are read at once."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the agent knows beside routes.

    ``gateways``: hops by next hop's address. ``networks``: hops by the network that announced addresses are in.
    """

    gateways: Mapping[str, Hop]
    networks: Mapping[str, Hop]

    def hop_of(self, route: Route) -> Hop | None:
        """Where a route's frames go; None for a route that leads nowhere known."""
        if route.gateway is not None:
            return self.gateways.get(route.gateway)
        wanted = ipaddress.ip_network(route.prefix)
        for network, hop in self.networks.items():
            known = ipaddress.ip_network(network)
            if wanted.version == known.version and wanted.subnet_of(known):  # type: ignore[arg-type] # same version
                return hop
        return None


@dataclass(slots=True)
class _Known:
    """What the thread found; replaced whole or changed by single operations that are atomic in CPython."""

    routes: dict[str, Route] = field(default_factory=dict)
    installed: dict[str, float] = field(default_factory=dict)  # when, time.monotonic()


class RouteAgent:
    """Follows one namespace's table from ``start`` to ``close``, in a thread of its own."""

    def __init__(self, namespace: Path, bridge: str, management_socket: Path, around: Surroundings) -> None:
        """``namespace``: the file of FRR's; ``bridge``: for messages; ``management_socket``: the bridge's."""
        self._bridge = bridge
        self._around = around
        self._known = _Known()
        self._fib = Fib(namespace)
        self._flows = RouteFlows(management_socket)
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="route-agent", daemon=True)

    def start(self) -> None:
        """Begin with all routes that are there."""
        self._fib.ask_all()
        self._thread.start()

    @property
    def routes(self) -> Mapping[str, Route]:
        """Routes of the daemon's by prefix."""
        return self._known.routes

    @property
    def installed(self) -> Mapping[str, float]:
        """Prefixes that have a flow, and since when (time.monotonic())."""
        return self._known.installed

    def check(self) -> None:
        """TestbedError when the thread came to an end by itself."""
        if self._failure is not None:
            raise TestbedError(f"the route agent of bridge {self._bridge} ended: {self._failure}") from self._failure

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until a prefix has a flow, or has none any more.

        Raises:
            DeadlineError: says what is there instead: no route, or one that leads nowhere.
        """

        def looks() -> bool:
            self.check()
            return (prefix in self.installed) is not gone

        what = "to be gone" if gone else "to be there"
        wait_until(
            looks, f"the flow for {prefix} on {self._bridge} {what}", deadline_s, last_seen=lambda: self._why(prefix)
        )

    def await_count(self, count: int, deadline_s: float) -> None:
        """Wait until so many prefixes have flows; DeadlineError says how many have."""

        def looks() -> bool:
            self.check()
            return len(self.installed) == count

        wait_until(
            looks,
            f"flows for {count} prefixes on {self._bridge}",
            deadline_s,
            last_seen=lambda: f"{len(self.installed)} flows, {len(self.routes)} routes in FRR's table",
        )

    def _why(self, prefix: str) -> str:
        route = self.routes.get(prefix)
        if route is None:
            others = ", ".join(sorted(self.routes)[:5]) or "none"
            return f"no such route in the kernel's table of FRR's namespace; there are {len(self.routes)}: {others}"
        if prefix in self.installed:
            return "the route, and its flow"
        way = f"by {route.gateway}" if route.gateway is not None else "to nowhere, in no network of ours"
        return f"the route {way}, which leads to no port of {self._bridge}"

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                self._take(self._read())
        except (OSError, TestbedError) as error:
            if not self._stop.is_set():
                self._failure = error

    def _read(self) -> list[Change]:
        try:
            return self._fib.read(_LOOK_S)
        except MissedChangesError:
            self._flows.change((), self._known.installed)
            self._known = _Known()
            self._fib.ask_all()
            return []

    def _take(self, changes: list[Change]) -> None:
        """The last word about each prefix counts."""
        last = {change.route.prefix: change for change in changes}
        added: dict[str, Hop] = {}
        removed: list[str] = []
        for prefix, change in last.items():
            hop = None if change.gone else self._around.hop_of(change.route)
            if change.gone:
                self._known.routes.pop(prefix, None)
            else:
                self._known.routes[prefix] = change.route
            if hop is not None:
                added[prefix] = hop
            elif prefix in self._known.installed:
                removed.append(prefix)
        if added or removed:
            self._flows.change(added.items(), removed)
        now = time.monotonic()
        for prefix in removed:
            del self._known.installed[prefix]
        self._known.installed.update(dict.fromkeys(added, now))

    def close(self) -> None:
        """End; the flows stay until the bridge goes. Can be called twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._fib.close()
