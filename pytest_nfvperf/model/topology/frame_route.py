"""Which ports and bridges the frames of a direction pass, as the topology says."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.topology.bridge_paths import Link, link_ends, shortest
from pytest_nfvperf.model.topology.compute_nodes import node_of_bridge
from pytest_nfvperf.model.topology.nodes import Port, PortRole, VnfMode
from pytest_nfvperf.model.topology.overlays import overlays
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.topology_checks import all_ports
from pytest_nfvperf.model.traffic.trial import Direction


@dataclass(frozen=True, slots=True)
class Crossed:
    """In by port ``entry``, over bridges that patch ports join, out by port ``exit``: one pass of the datapath.

    What enters a tunnel to another node leaves by the underlay's end, as outer frames, and comes out of the tunnel's
    other end in the pass after that. ``tunnel``: the port by which it entered, None for frames as they are.
    """

    entry: str
    bridges: tuple[str, ...]
    exit: str
    tunnel: str | None = None


def route(topology: Topology, direction: Direction) -> tuple[Crossed, ...] | None:
    """All passes of the datapath in their order; between two of them is a VNF, a veth pair or an underlay.

    None where the topology does not say it: a port that nothing crosses from, a tunnel whose other end is on no node,
    or, on a bridge that learns, VNFs that leave MAC addresses as they are: it sees one address at several ports.
    """
    return _Follower(topology, direction).route()


class _Follower:
    def __init__(self, topology: Topology, direction: Direction) -> None:
        self._topology = topology
        self._direction = direction
        self._bridge_of = {port: bridge for bridge, port in all_ports(topology)}
        self._patched = {end.port: end.far_port for patch in topology.patches for end in link_ends(patch)}
        self._joined = {port.name: port.peer for port in topology.ports if port.role is PortRole.FORWARDER}
        joints: list[Link] = [*topology.veths, *topology.underlays]
        self._joined |= {end.port: end.far_port for joint in joints for end in link_ends(joint)}
        self._overlays = overlays(topology.nodes, topology.tunnels, topology.underlays)
        self._tunnelled = {end.port: (end.far_port, one) for one in self._overlays for end in link_ends(one)}
        self._inside: str | None = None
        """The port by which the frames come out of the tunnel that they are in."""
        self._rewritten = {port.name: port.eth_peer for port in topology.ports if port.vnf_mode is VnfMode.MAC}
        self._destination = topology.port(direction.tx).eth_peer or topology.port(direction.rx).mac

    def route(self) -> tuple[Crossed, ...] | None:
        crossed: list[Crossed] = []
        entry: str | None = self._direction.tx
        while entry is not None and all(entry != one.entry for one in crossed):
            one = self._cross(entry)
            if one is None:
                return None
            crossed.append(one)
            if one.exit == self._direction.rx:
                return tuple(crossed)
            self._destination = self._rewritten.get(one.exit) or self._destination
            entry = self._joined.get(one.exit)
        return None

    def _cross(self, entry: str) -> Crossed | None:
        bridges: list[str] = []
        at = entry
        if self._inside is not None:
            bridges.append(self._bridge_of[entry])
            at, self._inside = self._inside, None
        while True:
            bridge = self._bridge_of[at]
            leaves = self._leaves_by(bridge, at)
            if leaves is None or bridge in bridges:
                return None
            bridges.append(bridge)
            if leaves in self._tunnelled:
                return self._encapsulated(entry, bridges, leaves)
            if leaves not in self._patched:
                return Crossed(entry, tuple(bridges), leaves)
            at = self._patched[leaves]

    def _encapsulated(self, entry: str, bridges: list[str], port: str) -> Crossed:
        """Out by the underlay's end on this node."""
        self._inside, overlay = self._tunnelled[port]
        nodes = node_of_bridge(self._topology)
        ends = link_ends(overlay.underlay)
        below = next(end for end in ends if nodes[end.bridge] == nodes[bridges[-1]])
        return Crossed(entry, (*bridges, below.bridge), below.port, port)

    def _leaves_by(self, bridge: str, entered: str) -> str | None:
        crossings = [crossing for crossing in self._topology.crossings if crossing.bridge == bridge]
        exits = [crossing.out_port for crossing in crossings if crossing.in_port == entered]
        if crossings:
            return exits[0] if exits else None  # a topology has one way for each port
        return self._learnt(bridge, entered)

    def _learnt(self, bridge: str, entered: str) -> str | None:
        """On a bridge that learns frames go to where their destination is, as long as every address has one place."""
        ports = self._topology.ports
        if any(port.bridge == bridge and self._unlearnable(port) for port in ports):
            return None
        goal = next((port for port in ports if port.mac == self._destination), None)
        if goal is None or goal.name == entered:
            return None
        if goal.bridge == bridge:
            return goal.name
        topology = self._topology
        links: list[Link] = [*topology.patches, *topology.veths, *topology.underlays, *self._overlays]
        path = shortest(bridge, goal.bridge, links)
        return path[0].port if path else None

    @staticmethod
    def _unlearnable(port: Port) -> bool:
        return port.role is PortRole.FORWARDER and port.vnf_mode is not VnfMode.MAC
