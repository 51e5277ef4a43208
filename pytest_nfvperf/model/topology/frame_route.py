"""Which ports and bridges the frames of a direction pass, as the topology says."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.topology.bridge_paths import link_ends, shortest
from pytest_nfvperf.model.topology.nodes import Port, PortRole, VnfMode
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.topology_checks import all_ports
from pytest_nfvperf.model.traffic.trial import Direction


@dataclass(frozen=True, slots=True)
class Crossed:
    """In by port ``entry``, over bridges that patch ports join, out by port ``exit``: one pass of the datapath."""

    entry: str
    bridges: tuple[str, ...]
    exit: str


def route(topology: Topology, direction: Direction) -> tuple[Crossed, ...] | None:
    """All passes of the datapath in their order; between two of them is a VNF or a veth pair.

    None where the topology does not say it: a port that nothing crosses from, a tunnel, or, on a bridge that learns,
    VNFs that leave MAC addresses as they are: the bridge sees one address at several ports.
    """
    return _Follower(topology, direction).route()


class _Follower:
    def __init__(self, topology: Topology, direction: Direction) -> None:
        self._topology = topology
        self._direction = direction
        self._bridge_of = {port: bridge for bridge, port in all_ports(topology)}
        self._patched = {end.port: end.far_port for patch in topology.patches for end in link_ends(patch)}
        self._joined = {port.name: port.peer for port in topology.ports if port.role is PortRole.FORWARDER}
        self._joined |= {end.port: end.far_port for veth in topology.veths for end in link_ends(veth)}
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
        while True:
            bridge = self._bridge_of[at]
            leaves = self._leaves_by(bridge, at)
            if leaves is None or bridge in bridges:
                return None
            bridges.append(bridge)
            if leaves not in self._patched:
                return Crossed(entry, tuple(bridges), leaves)
            at = self._patched[leaves]

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
        path = shortest(bridge, goal.bridge, [*self._topology.patches, *self._topology.veths])
        return path[0].port if path else None

    @staticmethod
    def _unlearnable(port: Port) -> bool:
        return port.role is PortRole.FORWARDER and port.vnf_mode is not VnfMode.MAC
