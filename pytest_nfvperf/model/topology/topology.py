"""A topology as data: bridges, what is joined to them, and how frames cross them.

Pure: builds nothing. A Datapath builds it and returns handles that own their teardown.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.arguments import NAME, Allowed, checked, one, several
from pytest_nfvperf.model.topology.bridge_rules import BridgeRules
from pytest_nfvperf.model.topology.compute_nodes import Node
from pytest_nfvperf.model.topology.links import Crossing, Patch, Tunnel, TunnelKind, Underlay, VethLink
from pytest_nfvperf.model.topology.mirrors import Mirror, MirrorMethod
from pytest_nfvperf.model.topology.nodes import (
    Behind,
    Namespace,
    Nic,
    NicKind,
    Port,
    PortKind,
    PortRole,
    VnfKind,
    VnfMode,
)
from pytest_nfvperf.model.topology.topology_checks import all_ports, check
from pytest_nfvperf.model.traffic.trial import Direction

__all__ = [
    "Behind",
    "BridgeRules",
    "Crossing",
    "Mirror",
    "MirrorMethod",
    "Namespace",
    "Nic",
    "NicKind",
    "Node",
    "Patch",
    "Port",
    "PortKind",
    "PortRole",
    "Topology",
    "Tunnel",
    "TunnelKind",
    "Underlay",
    "VethLink",
    "VnfKind",
    "VnfMode",
]


def _each(kind: type) -> Allowed:
    return several(one(kind, f"a {kind.__name__}"))


@checked(
    name=NAME,
    bridges=several(NAME),
    ports=_each(Port),
    crossings=_each(Crossing),
    directions=_each(Direction),
    patches=_each(Patch),
    veths=_each(VethLink),
    tunnels=_each(Tunnel),
    namespaces=_each(Namespace),
    nics=_each(Nic),
    mirrors=_each(Mirror),
    behind=_each(Behind),
    nodes=_each(Node),
    underlays=_each(Underlay),
    rules=_each(BridgeRules),
)
@dataclass(frozen=True, slots=True)
class Topology:
    """Bridges, their ports and how frames cross. ``directions``: who of the endpoints sends to whom.

    A bridge without crossings does MAC learning (the NORMAL action). ``nodes``: on which DUT each bridge stands; empty
    where there is one. ``rules``: what frames pass on bridges that learn, before they are forwarded.

    Raises:
        ValueError: it cannot be built: a name used twice, unknown, or too long for the kernel, a port
            that nothing crosses to, an MTU that does not fit into a tunnel, an invalid VLAN, a mirror that
            cannot be, a tunnel to another node without its other end.
    """

    name: str
    bridges: tuple[str, ...]
    ports: tuple[Port, ...]
    crossings: tuple[Crossing, ...]
    directions: tuple[Direction, ...]
    patches: tuple[Patch, ...] = ()
    veths: tuple[VethLink, ...] = ()
    tunnels: tuple[Tunnel, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    nics: tuple[Nic, ...] = ()
    mirrors: tuple[Mirror, ...] = ()
    behind: tuple[Behind, ...] = ()
    nodes: tuple[Node, ...] = ()
    underlays: tuple[Underlay, ...] = ()
    rules: tuple[BridgeRules, ...] = ()

    def __post_init__(self) -> None:
        check(self)

    def port(self, name: str) -> Port:
        """The port of this name; KeyError for an unknown one."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(f"topology {self.name!r} has no port {name!r}")

    @property
    def interfaces(self) -> tuple[Nic | Behind, ...]:
        """Interfaces of namespaces, on bridges and behind generators' ports."""
        return (*self.nics, *self.behind)

    def bridge_mirrors(self, bridge: str) -> tuple[Mirror, ...]:
        """The mirrors of a bridge."""
        return tuple(mirror for mirror in self.mirrors if mirror.bridge == bridge)

    def bridge_ports(self, bridge: str) -> tuple[str, ...]:
        """Names of all ports of a bridge, with the ends of links, without its own local port."""
        return tuple(name for on, name in all_ports(self) if on == bridge)
