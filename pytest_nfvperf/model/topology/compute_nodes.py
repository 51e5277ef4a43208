"""Nodes: several DUTs in one topology, each an OVS of its own, that underlays join.

A topology without nodes is one node, without a word. With nodes each bridge stands on one of them, and with it whatever
is joined to it: ports, namespaces, VNFs, tunnels, mirrors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_nfvperf.model.topology.nodes import Port, PortRole

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

NODE_NAME = "[a-z][a-z0-9-]{0,11}"
"""A regular expression. Names of directories and sockets begin with it, and those are short."""

_NO_MAC = "02:00:00:00:00:00"
"""Of an uplink: nobody sends to an underlay's end."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node, and the bridges that stand on it."""

    name: str
    bridges: tuple[str, ...]


def node_of_bridge(topology: Topology) -> dict[str, str]:
    """On which node each bridge stands; empty for a topology without nodes."""
    return {bridge: node.name for node in topology.nodes for bridge in node.bridges}


def standing_on(topology: Topology, name: str) -> Topology:
    """What of a topology stands on a node, as a topology of its own.

    The ends of underlays are ports there: uplinks. It has no directions: frames come from other nodes.

    Raises:
        KeyError: no node of this name.
    """
    node = next((one for one in topology.nodes if one.name == name), None)
    if node is None:
        raise KeyError(f"topology {topology.name!r} has no node {name!r}")
    here = set(node.bridges)
    ports = tuple(port for port in topology.ports if port.bridge in here)
    nics = tuple(nic for nic in topology.nics if nic.bridge in here)
    behind = tuple(one for one in topology.behind if one.port in {port.name for port in ports})
    inhabited = {nic.namespace for nic in nics} | {one.namespace for one in behind}
    return replace(
        topology,
        name=f"{topology.name}@{name}",
        bridges=node.bridges,
        ports=(*ports, *uplinks(topology, name)),
        crossings=tuple(crossing for crossing in topology.crossings if crossing.bridge in here),
        directions=(),
        patches=tuple(patch for patch in topology.patches if patch.bridge_a in here),
        veths=tuple(veth for veth in topology.veths if veth.bridge_a in here),
        tunnels=tuple(tunnel for tunnel in topology.tunnels if tunnel.bridge in here),
        namespaces=tuple(namespace for namespace in topology.namespaces if namespace.name in inhabited),
        nics=nics,
        mirrors=tuple(mirror for mirror in topology.mirrors if mirror.bridge in here),
        behind=behind,
        rules=tuple(one for one in topology.rules if one.bridge in here),
        nodes=(),
        underlays=(),
    )


def uplinks(topology: Topology, name: str) -> tuple[Port, ...]:
    """The ends of underlays on a node, as ports."""
    at = node_of_bridge(topology)
    ends = [
        end
        for link in topology.underlays
        for end in (
            (link.bridge_a, link.port_a, link.bridge_b, link.mtu),
            (link.bridge_b, link.port_b, link.bridge_a, link.mtu),
        )
    ]
    return tuple(
        Port(port, bridge, PortRole.UPLINK, _NO_MAC, at[far], mtu=mtu)
        for bridge, port, far, mtu in ends
        if at[bridge] == name
    )
