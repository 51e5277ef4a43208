"""The line rate of a topology in frames a second: what its ports carry, and its underlays, overlays included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_nfvperf.model.topology.bridge_paths import link_ends
from pytest_nfvperf.model.topology.frame_route import Crossed, route
from pytest_nfvperf.model.topology.links import Underlay, encapsulation_bytes
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import VLAN_TAG_BYTES, Traffic
from pytest_nfvperf.model.traffic.trial import Direction


def line_rate_fps(
    topology: Topology, traffic: Traffic, directions: int, ports_bps: float | None, underlays_bps: float | None
) -> float | None:
    """Frames/s per direction at which the slowest link is full; None where no link has a line rate.

    Args:
        topology: what the frames cross.
        traffic: its frames as the generator sends them.
        directions: how many of the topology's directions are sent on at once.
        ports_bps: layer-1 bit/s of the generator's ports; None where they have none.
        underlays_bps: layer-1 bit/s of underlays that say none themselves; None where they have none.
    """
    found = [traffic.line_rate_fps(ports_bps)] if ports_bps else []
    used = topology.directions[:directions]
    crossings = [(end, link, extra) for way in used for end, link, extra in _underlays(topology, way)]
    sharing = Counter(end for end, _, _ in crossings)
    for end, link, extra in crossings:
        rate = link.line_rate_bps or underlays_bps
        if rate is not None:
            found.append(traffic.line_rate_fps(rate, extra) / sharing[end])
    return min(found, default=None)


def _underlays(topology: Topology, direction: Direction) -> Sequence[tuple[str, Underlay, int]]:
    """Each underlay that frames of a direction cross: the end that they enter, the link, and what they are longer by.

    Empty where the topology does not say which way they take.
    """
    links = {end.port: link for link in topology.underlays for end in link_ends(link)}
    passes = route(topology, direction) or () if links else ()
    tag = _tag_bytes(topology, direction)
    return [(one.exit, links[one.exit], tag + _outer_bytes(topology, one)) for one in passes if one.exit in links]


def _tag_bytes(topology: Topology, direction: Direction) -> int:
    """What enters by an access port is in a VLAN from there on, until it leaves by another (802.1Q)."""
    vlan = topology.port(direction.tx).vlan
    return VLAN_TAG_BYTES if vlan is not None and vlan.tag is not None else 0


def _outer_bytes(topology: Topology, one: Crossed) -> int:
    """What an overlay adds to a frame: the same as to the underlay's packet, for its FCS is made anew.

    Outer Ethernet 14, IP, UDP and so on, inner frame without its FCS 4, outer FCS 4; of the packet, the inner Ethernet
    header 14 in place of the outer one.
    """
    tunnel = next((tunnel for tunnel in topology.tunnels if tunnel.port == one.tunnel), None)
    return 0 if tunnel is None else encapsulation_bytes(tunnel.kind, tunnel.local)
