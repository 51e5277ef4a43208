"""How frames find their way over bridges that patch ports and veth pairs join."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.topology.links import Crossing, Patch, VethLink

Link = Patch | VethLink
"""What joins two bridges so that frames pass from one to the other."""


@dataclass(frozen=True, slots=True)
class Way:
    """A link as seen from one of its ends: out by ``port``, into ``far_bridge`` by ``far_port``."""

    bridge: str
    port: str
    far_bridge: str
    far_port: str


def ways_of(link: Link) -> tuple[Way, Way]:
    """A link from both of its ends."""
    return (
        Way(link.bridge_a, link.port_a, link.bridge_b, link.port_b),
        Way(link.bridge_b, link.port_b, link.bridge_a, link.port_a),
    )


def shortest(start: str, goal: str, links: Iterable[Link]) -> list[Way] | None:
    """Over the fewest links from one bridge to another; empty for the same bridge, None when none leads there."""
    leaving: dict[str, list[Way]] = {}
    for link in links:
        for way in ways_of(link):
            leaving.setdefault(way.bridge, []).append(way)
    came_by: dict[str, Way | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came_by:
        here = waiting.popleft()
        for way in leaving.get(here, ()):
            if way.far_bridge not in came_by:
                came_by[way.far_bridge] = way
                waiting.append(way.far_bridge)
    if goal not in came_by:
        return None
    found: list[Way] = []
    while (last := came_by[goal]) is not None:
        found.append(last)
        goal = last.bridge
    return found[::-1]


def crossings_along(ways: Sequence[Way], bridge: str, first: str, last: str) -> list[Crossing]:
    """Both ways over every bridge, from port ``first`` of ``bridge`` over the links to port ``last``."""
    bridges = [bridge, *(way.far_bridge for way in ways)]
    entries = [first, *(way.far_port for way in ways)]
    exits = [*(way.port for way in ways), last]
    hops = zip(bridges, entries, exits, strict=True)
    return [crossing for name, a, b in hops for crossing in (Crossing(name, a, b), Crossing(name, b, a))]
