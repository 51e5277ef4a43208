"""What the route agent does, in a process of its own: what FRR put into its kernel's table becomes flows of the bridge.

Of its own, with the daemons' priority: as a thread of pytest it waited 80 ms for the CPU that it shares with the
generator each time that there was something to do. Started by ``agent.RouteAgent`` as::

    python -m pytest_nfvperf.adapters.routing.route_agent.follower NAMESPACE SOCKET

with what it has to know beside routes as a line of JSON on its standard input. It writes one for each batch of
changes, once the bridge has them::

    {"anew": false, "routes": {"198.18.0.0/15": "12.12.12.2"}, "gone": [], "added": ["198.18.0.0/15"], "removed": [],
     "read_ns": 1, "done_ns": 2}
"""

from __future__ import annotations

import ipaddress
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.ovs.openflow.route_flows import Hop, RouteFlows
from pytest_nfvperf.adapters.routing.route_agent.fib import Fib, MissedChangesError, Route, RouteChange
from pytest_nfvperf.model.errors import TestbedError


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

    def to_json(self) -> str:
        """A line that ``from_json`` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Surroundings:
        """What ``to_json`` wrote."""
        told: dict[str, dict[str, dict[str, Any]]] = json.loads(line)
        return cls(**{key: {name: Hop(**hop) for name, hop in hops.items()} for key, hops in told.items()})


@dataclass(frozen=True, slots=True)
class Followed:
    """A batch of changes of the table that the bridge has now.

    Attributes:
        anew: nothing of before holds: some changes were missed, and all routes are told again.
        routes: that are there, with their gateways; ``gone``: those that are not any more.
        added, removed: prefixes whose flows were made, and removed.
        read_ns: when the kernel's word of them was read; ``done_ns``: when the bridge had them. CLOCK_MONOTONIC.
    """

    anew: bool = False
    routes: Mapping[str, str | None] = field(default_factory=dict)
    gone: Sequence[str] = ()
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    read_ns: int = 0
    done_ns: int = 0


class Follower:
    """Follows a table with the flows of a bridge."""

    def __init__(self, fib: Fib, flows: RouteFlows, around: Surroundings) -> None:
        self._fib = fib
        self._flows = flows
        self._around = around
        self._routes: set[str] = set()
        self._installed: set[str] = set()

    def follow(self) -> Iterator[Followed]:
        """Batches as they come, for ever; the first ones are what is there already.

        Raises:
            TestbedError: the bridge refused a flow, or does not answer.
        """
        self._fib.ask_all()
        while True:
            try:
                yield self._take(self._read(), time.monotonic_ns())
            except MissedChangesError:
                self._flows.change((), self._installed)
                self._installed.clear()
                self._routes.clear()
                yield Followed(anew=True)
                self._fib.ask_all()

    def _read(self) -> list[RouteChange]:
        """The next changes; with those of which the kernel says nothing, because their interface was set down."""
        changes = self._fib.read(None)
        if self._fib.link_went:
            there = self._fib.prefixes()
            changes += [RouteChange(Route(prefix, None), gone=True) for prefix in self._routes if prefix not in there]
        return changes

    def _take(self, changes: list[RouteChange], read_ns: int) -> Followed:
        """The last word about each prefix counts."""
        last = {change.route.prefix: change for change in changes}
        routes = {prefix: change.route for prefix, change in last.items() if not change.gone}
        hops = {prefix: self._around.hop_of(route) for prefix, route in routes.items()}
        added = {prefix: hop for prefix, hop in hops.items() if hop is not None}
        removed = [prefix for prefix in last if prefix not in added and prefix in self._installed]
        if added or removed:
            self._flows.change(added.items(), removed)
        self._routes.update(routes)
        self._routes.difference_update(last.keys() - routes.keys())
        self._installed.update(added)
        self._installed.difference_update(removed)
        return Followed(
            routes={prefix: route.gateway for prefix, route in routes.items()},
            gone=[prefix for prefix in last if prefix not in routes],
            added=list(added),
            removed=removed,
            read_ns=read_ns,
            done_ns=time.monotonic_ns(),
        )


def main(namespace: str, management_socket: str) -> None:
    """Follow until somebody ends it."""
    fib = Fib(Path(namespace))
    around = Surroundings.from_json(sys.stdin.readline())
    for batch in Follower(fib, RouteFlows(Path(management_socket)), around).follow():
        print(json.dumps(asdict(batch)), flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, TestbedError) as error:
        sys.exit(str(error))
