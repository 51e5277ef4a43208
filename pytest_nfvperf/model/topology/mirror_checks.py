"""What is wrong with a topology's mirrors, said before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_nfvperf.model.topology.mirrors import Mirror, MirrorMethod

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

_VLANS = range(1, 4095)
_SNAPLENS = range(14, 65536)  # an Ethernet header at least, ovs-vswitchd.conf.db(5)


def wrong_mirror(topology: Topology) -> str | None:
    """The first mistake, for a person, with what would be right; None when there is none."""
    outputs: dict[str, str] = {}
    names: set[str] = set()
    for mirror in topology.mirrors:
        if mirror.name in names:
            return f"mirror {mirror.name!r} is used twice"
        names.add(mirror.name)
        problem = next(_problems(topology, mirror), None)
        if problem is not None:
            return f"mirror {mirror.name!r}: {problem}"
        if mirror.output is None:
            continue
        other = outputs.setdefault(mirror.output, mirror.name)
        if other != mirror.name:
            return (
                f"mirrors {other!r} and {mirror.name!r} both put copies on {mirror.output!r}, where nobody could tell "
                "them apart: give each an output of its own, or make one mirror of both"
            )
    return None


def _problems(topology: Topology, mirror: Mirror) -> Iterator[str]:
    if mirror.bridge not in topology.bridges:
        yield f"its bridge {mirror.bridge!r} is unknown; there are: {', '.join(topology.bridges)}"
    yield from _of_output(topology, mirror)
    yield from _of_selection(topology, mirror)
    if mirror.snaplen is not None and mirror.snaplen not in _SNAPLENS:
        yield f"snaplen {mirror.snaplen} is not in 14..65535 bytes"
    if mirror.by is MirrorMethod.FLOW:
        yield from _of_flows(topology, mirror)


def _of_output(topology: Topology, mirror: Mirror) -> Iterator[str]:
    if (mirror.output is None) == (mirror.output_vlan is None):
        yield "say either the output port or the output VLAN of its copies"
    if mirror.output_vlan is not None and mirror.output_vlan not in _VLANS:
        yield f"output VLAN {mirror.output_vlan} is not in 1..4094"
    if mirror.output is not None:
        yield from _not_on_bridge(topology, mirror, (mirror.output,), "its output")
    if mirror.output in {*mirror.select_src, *mirror.select_dst}:
        yield f"it selects frames of {mirror.output!r}, its own output: it would copy its copies"
    for crossing in topology.crossings:
        if mirror.output in {crossing.in_port, crossing.out_port} and crossing.bridge == mirror.bridge:
            yield (
                f"frames cross to or from {mirror.output!r}, its output, which OVS keeps for copies: take a port "
                "that no path uses"
            )


def _of_selection(topology: Topology, mirror: Mirror) -> Iterator[str]:
    if not (mirror.select_all or mirror.select_src or mirror.select_dst or mirror.select_vlan):
        yield "it selects nothing: say select_all, select_src, select_dst or select_vlan"
    yield from _not_on_bridge(topology, mirror, (*mirror.select_src, *mirror.select_dst), "it selects")
    for vlan in mirror.select_vlan:
        if vlan != 0 and vlan not in _VLANS:
            yield f"it selects VLAN {vlan}, which is not in 1..4094 (0 for frames without one)"


def _not_on_bridge(topology: Topology, mirror: Mirror, ports: tuple[str, ...], what: str) -> Iterator[str]:
    own = topology.bridge_ports(mirror.bridge)
    for port in ports:
        if port in own:
            continue
        elsewhere = next((bridge for bridge in topology.bridges if port in topology.bridge_ports(bridge)), None)
        if elsewhere is not None:
            yield f"{what} {port!r}, which is on bridge {elsewhere!r}, and a mirror sees {mirror.bridge!r} alone"
        yield f"{what} {port!r}, which is no port of {mirror.bridge!r}; there are: {', '.join(own) or 'none'}"


def _of_flows(topology: Topology, mirror: Mirror) -> Iterator[str]:
    if mirror.output is None or mirror.select_vlan or mirror.snaplen is not None:
        yield "a mirror by flows copies whole frames of ports to a port: VLANs and snaplen need one by OVSDB"
    crossed = any(crossing.bridge == mirror.bridge for crossing in topology.crossings)
    if mirror.select_dst and not crossed:
        yield (
            f"bridge {mirror.bridge!r} learns MAC addresses, so no flow knows where a frame leaves: select by "
            "select_src, or mirror by OVSDB"
        )
