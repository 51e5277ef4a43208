"""A topology built on several OVS, one a node, which underlays join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nfvperf.adapters.ovs.topology.built_node import BuiltNode
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.links import Overlay, link_ends, overlays
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge
from pytest_nfvperf.ports.datapath import Attachment


class BuiltNodes:
    """A live topology with nodes. Owns its teardown."""

    def __init__(self, topology: Topology, built: Mapping[str, BuiltNode]) -> None:
        """``built``: what stands on each node, in the order in which it was made."""
        self.topology = topology
        self._built = dict(built)
        self._at = node_of_bridge(topology)

    def node(self, name: str) -> BuiltNode:
        """What stands on a node; KeyError for an unknown one."""
        return self._built[name]

    def attachments(self) -> tuple[Attachment, ...]:
        found = {each.port: each for built in self._built.values() for each in built.attachments()}
        names = [*(port.name for port in self.topology.ports), *(behind.label for behind in self.topology.behind)]
        return tuple(found[name] for name in names if name in found)

    def netns(self, namespace: str) -> str:
        for built in self._built.values():
            if namespace in {spec.name for spec in built.topology.namespaces}:
                return built.netns(namespace)
        raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")

    def learned(self) -> dict[str, str]:
        """Port of each learned MAC address; the last node wins where several learned it."""
        return {mac: port for built in self._built.values() for mac, port in built.learned().items()}

    def firewall(self) -> dict[str, Sequence[str]]:
        return {name: rules for built in self._built.values() for name, rules in built.firewall().items()}

    def not_offloaded(self) -> str | None:
        for node, built in self._built.items():
            why = built.not_offloaded()
            if why is not None:
                return f"{node}: {why}"
        return None

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for link on every port, the underlays' too, and give tunnels the other ends' MAC addresses."""
        for built in self._built.values():
            built.wait_ready(deadline_s)
        for overlay in overlays(self.topology.nodes, self.topology.tunnels, self.topology.underlays):
            self._introduce(overlay)

    def _introduce(self, overlay: Overlay) -> None:
        """Give both ends the other's MAC address. ARP would find it, and lose frames meanwhile."""
        below = {self._at[end.bridge]: end for end in link_ends(overlay.underlay)}
        ports = {overlay.port_a: overlay.bridge_a, overlay.port_b: overlay.bridge_b}
        for tunnel in self.topology.tunnels:
            if tunnel.port in ports:
                end = below[self._at[tunnel.bridge]]
                far = self._built[self._at[end.far_bridge]]
                local = self._built[self._at[end.bridge]]
                local.tell_neighbour(end.bridge, tunnel.remote, far.mac_of(end.far_bridge))

    def configuration(self) -> str:
        return "\n".join(f"## node {node}\n{built.configuration()}" for node, built in self._built.items())

    def close(self) -> None:
        """Close every node, the last first, even when one fails."""
        errors: list[TestbedError] = []
        for built in reversed(self._built.values()):
            try:
                built.close()
            except TestbedError as error:
                errors.append(error)
        if errors:
            raise errors[0]
