"""How many patch ports in a row OVS follows. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Set

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.topology import Topology

MOST_PATCHES = 64
"""MAX_DEPTH of ofproto/ofproto-dpif-xlate.c, OVS 2.5 to 4.0: a frame that crosses more is dropped silently."""


def refuse_too_deep(topology: Topology) -> None:
    """ConfigError for a chain of patch ports that OVS would build, and drop every frame on."""
    neighbours: dict[str, set[str]] = defaultdict(set)
    for patch in topology.patches:
        neighbours[patch.bridge_a].add(patch.bridge_b)
        neighbours[patch.bridge_b].add(patch.bridge_a)
    longest = _longest(neighbours)
    if longest > MOST_PATCHES:
        raise ConfigError(
            f"topology {topology.name!r} has {longest} patch ports in a row ({longest + 1} bridges), and OVS drops "
            f"frames after {MOST_PATCHES}: use fewer bridges, or join some by veth"
        )


def _longest(neighbours: Mapping[str, Set[str]]) -> int:
    """The longest way in patches: exact for trees, which chains are, by going to the farthest bridge twice."""
    longest, seen = 0, set[str]()
    for bridge in neighbours:
        if bridge not in seen:
            reached = _distances(neighbours, bridge)
            seen |= reached.keys()
            farthest = max(reached, key=lambda name: reached[name])
            longest = max(longest, *_distances(neighbours, farthest).values())
    return longest


def _distances(neighbours: Mapping[str, Set[str]], start: str) -> dict[str, int]:
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        bridge = waiting.popleft()
        for other in neighbours[bridge] - distances.keys():
            distances[other] = distances[bridge] + 1
            waiting.append(other)
    return distances
