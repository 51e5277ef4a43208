"""Copies of a trial's frames that mirrors should have made, and what became of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_nfvperf.model.nodes import PortRole
from pytest_nfvperf.model.topology import Topology
from pytest_nfvperf.model.trial import TrialResult


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """Copies of one trial, over all mirrors whose outputs are counted.

    Attributes:
        expected: one for each time that a frame crossed a mirrored bridge and was selected.
        received: by the generator's monitors.
        truncated: of those, the ones cut by a snaplen.
        corrupted: of those, the ones that were otherwise not as sent.
        dropped: given up at the outputs, by the port's name: its queue was full.
    """

    expected: int
    received: int
    truncated: int
    corrupted: int
    dropped: Mapping[str, int]

    @property
    def unexplained(self) -> int:
        """Expected, but neither received nor dropped by anyone who counts."""
        return self.expected - self.received - sum(self.dropped.values())


def copy_counts(topology: Topology, result: TrialResult, moved: Mapping[str, int]) -> CopyCounts:
    """Compare what mirrors should have copied with what came.

    Crossings are counted where frames enter a bridge: by the generator that put them on a port, by the VNF that did,
    or, where that does not count, by the port of the DUT.

    Args:
        topology: with its mirrors.
        result: of the trial.
        moved: moves of the DUT's counters by name, ``<port>.rx_packets`` and ``<port>.tx_dropped``.
    """
    outputs = [mirror.output for mirror in topology.mirrors if mirror.output is not None]
    vlan = result.spec.traffic.vlan or 0
    expected = sum(
        frames
        for mirror in topology.mirrors
        for bridge, entry, leaving, frames in entries(topology, result, moved)
        if bridge == mirror.bridge and mirror.copies(entry, leaving, vlan)
    )
    seen = [monitor for monitor in result.monitors if monitor.port in outputs]
    return CopyCounts(
        expected=expected,
        received=sum(monitor.copies for monitor in seen),
        truncated=sum(monitor.truncated for monitor in seen),
        corrupted=sum(monitor.corrupted for monitor in seen),
        dropped={port: moved[f"{port}.tx_dropped"] for port in outputs if moved.get(f"{port}.tx_dropped")},
    )


def entries(topology: Topology, result: TrialResult, moved: Mapping[str, int]) -> Iterator[tuple[str, str, str, int]]:
    """Where frames of a trial came into bridges: (bridge, port in, port out, frames); "" for an unknown port out."""
    counted = {vnf.peer: 0 for vnf in result.vnfs}
    for vnf in result.vnfs:
        counted[vnf.peer] += vnf.sent
    counted |= {count.direction.tx: count.sent for count in result.counts}
    for port in topology.ports:
        if port.role is not PortRole.MONITOR:
            frames = counted.get(port.name, moved.get(f"{port.name}.rx_packets", 0))
            yield port.bridge, port.name, _leaving(topology, result, port.name), frames


def _leaving(topology: Topology, result: TrialResult, entry: str) -> str:
    """By a crossing; on a bridge that learns, where the frames' destination address is."""
    for crossing in topology.crossings:
        if crossing.in_port == entry:
            return crossing.out_port
    ports = {port.mac: port.name for port in topology.ports}
    sends_to = {port.peer: port.eth_peer for port in topology.ports if port.role is PortRole.FORWARDER}
    for count in result.counts:
        if count.direction.tx == entry:
            own = topology.port(entry)
            return ports.get(result.spec.traffic.dst_mac or own.eth_peer or "", count.direction.rx)
    return ports.get(sends_to.get(entry) or "", "")
