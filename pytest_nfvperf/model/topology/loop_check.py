"""Loops of bridges that learn MAC addresses: a frame to all, or to an unknown address, would circle for ever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_nfvperf.model.topology.overlays import overlays

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

_Link = tuple[str, str, str]
"""The two bridges that it joins, and what it is, for a person."""


def learning_loop(topology: Topology) -> str | None:
    """The first link that closes a loop, and what to do; None where none does.

    Bridges with flows (crossings) send each frame one way. Links that carry certain VLANs only are taken for part of
    no loop.
    """
    learning = set(topology.bridges) - {crossing.bridge for crossing in topology.crossings}
    joined: dict[str, list[str]] = defaultdict(list)
    for one, other, link in _links(topology):
        if not {one, other} <= learning:
            continue
        way = _way(joined, one, other)
        if way:
            return (
                f"{link} closes a loop of bridges that learn MAC addresses, {' - '.join([*way, one])}: frames to all "
                "would circle in it for ever; leave out one of the links, or lead a path(...) over a bridge, which "
                "then forwards by flows"
            )
        joined[one].append(other)
        joined[other].append(one)
    return None


def _links(topology: Topology) -> Iterator[_Link]:
    """What carries frames of any VLAN from bridge to bridge; tunnels last, for they cross other links."""
    for what, links in (("patch", topology.patches), ("veth", topology.veths)):
        for link in links:
            if link.vlan is None:
                yield link.bridge_a, link.bridge_b, f"{what} {link.port_a!r} - {link.port_b!r}"
    for wire in topology.underlays:
        yield wire.bridge_a, wire.bridge_b, f"underlay {wire.port_a!r} - {wire.port_b!r}"
    for found in overlays(topology.nodes, topology.tunnels, topology.underlays):
        yield found.bridge_a, found.bridge_b, f"tunnel {found.port_a!r} - {found.port_b!r}"


def _way(joined: dict[str, list[str]], start: str, goal: str) -> list[str]:
    """Bridges from one to the other, both included; empty where nothing leads there."""
    came: dict[str, str | None] = {start: None}
    waiting = [start]
    while waiting:
        here = waiting.pop(0)
        if here == goal:
            return _back(came, here)
        for following in joined[here]:
            if following not in came:
                came[following] = here
                waiting.append(following)
    return []


def _back(came: dict[str, str | None], end: str) -> list[str]:
    way = [end]
    while (before := came[way[-1]]) is not None:
        way.append(before)
    return way[::-1]
