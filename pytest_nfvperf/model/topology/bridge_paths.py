"""Paths over bridges that patch ports, veth pairs, underlays and tunnels join."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.topology.links import Crossing, Patch, Underlay, VethLink
from pytest_nfvperf.model.topology.overlays import Overlay

Link = Patch | VethLink | Underlay | Overlay
"""What joins two bridges so that frames pass from one to the other."""


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link: frames leave ``bridge`` by ``port`` and enter ``far_bridge`` by ``far_port``."""

    bridge: str
    port: str
    far_bridge: str
    far_port: str


def link_ends(link: Link) -> tuple[LinkEnd, LinkEnd]:
    """Both ends of a link."""
    return (
        LinkEnd(link.bridge_a, link.port_a, link.bridge_b, link.port_b),
        LinkEnd(link.bridge_b, link.port_b, link.bridge_a, link.port_a),
    )


def shortest(start: str, goal: str, links: Iterable[Link]) -> list[LinkEnd] | None:
    """The path over the fewest links from one bridge to another: empty for the same bridge, None without a path."""
    leaving: dict[str, list[LinkEnd]] = {}
    for link in links:
        for end in link_ends(link):
            leaving.setdefault(end.bridge, []).append(end)
    came_by: dict[str, LinkEnd | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came_by:
        here = waiting.popleft()
        for end in leaving.get(here, ()):
            if end.far_bridge not in came_by:
                came_by[end.far_bridge] = end
                waiting.append(end.far_bridge)
    if goal not in came_by:
        return None
    found: list[LinkEnd] = []
    while (last := came_by[goal]) is not None:
        found.append(last)
        goal = last.bridge
    return found[::-1]


def crossings_along(path: Sequence[LinkEnd], bridge: str, first: str, last: str) -> list[Crossing]:
    """Each bridge's crossings in both directions, from port ``first`` of ``bridge`` over the links to port ``last``."""
    bridges = [bridge, *(end.far_bridge for end in path)]
    entries = [first, *(end.far_port for end in path)]
    exits = [*(end.port for end in path), last]
    hops = zip(bridges, entries, exits, strict=True)
    return [crossing for name, a, b in hops for crossing in (Crossing(name, a, b), Crossing(name, b, a))]
