"""The route agent's decisions: which flows a table's changes come to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pytest_nfvperf.adapters.ovs.openflow import NextHop
from pytest_nfvperf.features.routing.route_agent import (
    KnownHops,
    MissedChangesError,
    RouteBatch,
    RouteChange,
    follow,
)

OUT = NextHop(1, "02:00:00:00:00:01", "02:00:00:00:00:02")
VM = NextHop(2, "02:00:00:00:00:03", "02:00:00:00:00:02")
HOPS = KnownHops({"12.12.12.2": OUT}, {"172.16.101.0/24": VM})


class Table:
    """Tells batches of changes; an error is raised in its turn."""

    def __init__(self, *batches: list[RouteChange] | Exception) -> None:
        self.batches = list(batches)
        self.asked = 0
        self.link_went_down = False
        self.there: set[str] = set()

    def ask_all(self) -> None:
        self.asked += 1

    def prefixes(self) -> set[str]:
        return self.there

    def read(self, deadline_s: float | None) -> list[RouteChange]:
        assert deadline_s is None, "it has nothing else to do"
        batch = self.batches.pop(0)
        self.link_went_down = batch == []
        if isinstance(batch, Exception):
            raise batch
        return batch


class Bridge:
    """Keeps its flows."""

    def __init__(self) -> None:
        self.flows: dict[str, NextHop] = {}
        self.changes = 0

    def change(self, added: Iterable[tuple[str, NextHop]], removed: Iterable[str]) -> None:
        for prefix in list(removed):
            del self.flows[prefix]
        self.flows.update(added)
        self.changes += 1


def there(prefix: str, gateway: str | None = "12.12.12.2") -> RouteChange:
    return RouteChange(prefix, gateway)


def gone(prefix: str) -> RouteChange:
    return RouteChange(prefix, "12.12.12.2", gone=True)


def batches(table: Table, bridge: Bridge) -> list[RouteBatch]:
    return list(islice(follow(table, bridge.change, HOPS), len(table.batches)))  # type: ignore[arg-type]


def test_routes_become_flows_and_go_with_them() -> None:
    bridge = Bridge()
    first, second = batches(
        Table([there("198.18.0.0/15"), there("172.16.101.7/32", None)], [gone("198.18.0.0/15")]), bridge
    )
    assert (set(first.added), first.removed) == ({"198.18.0.0/15", "172.16.101.7/32"}, [])
    assert first.routes == {"198.18.0.0/15": "12.12.12.2", "172.16.101.7/32": None}
    assert (second.added, second.removed, second.gone) == ([], ["198.18.0.0/15"], ["198.18.0.0/15"])
    assert bridge.flows == {"172.16.101.7/32": VM}
    assert first.read_ns <= first.done_ns <= second.read_ns


def test_the_last_word_of_a_batch_counts() -> None:
    bridge = Bridge()
    (only,) = batches(Table([there("198.18.0.0/15"), gone("198.18.0.0/15")]), bridge)
    assert (only.added, only.removed, only.gone) == ([], [], ["198.18.0.0/15"])
    assert (bridge.flows, bridge.changes) == ({}, 0)


def test_a_route_that_leads_nowhere_any_more_loses_its_flow() -> None:
    bridge = Bridge()
    _, moved = batches(Table([there("198.18.0.0/15")], [there("198.18.0.0/15", "192.0.2.1")]), bridge)
    assert (moved.removed, moved.routes) == (["198.18.0.0/15"], {"198.18.0.0/15": "192.0.2.1"})
    assert bridge.flows == {}


def test_what_was_missed_is_requested_again() -> None:
    bridge, table = Bridge(), Table([there("198.18.0.0/15")], MissedChangesError(), [there("203.0.113.0/24")])
    _, reset, after = batches(table, bridge)
    assert reset.reset
    assert after.added == ["203.0.113.0/24"]
    assert set(bridge.flows) == {"203.0.113.0/24"}
    assert table.asked == 2


def test_routes_that_went_with_their_interface_are_missed() -> None:
    """The kernel says that the interface is down, and nothing of them."""
    bridge, table = Bridge(), Table([there("198.18.0.0/15"), there("172.16.101.0/24", None)], [])
    table.there = {"172.16.101.0/24"}
    _, down = batches(table, bridge)
    assert (down.removed, down.gone) == (["198.18.0.0/15"], ["198.18.0.0/15"])
    assert set(bridge.flows) == {"172.16.101.0/24"}


def test_what_it_knows_beside_routes_is_told_as_a_line() -> None:
    line = HOPS.to_json()
    assert "\n" not in line
    assert KnownHops.from_json(line) == HOPS
