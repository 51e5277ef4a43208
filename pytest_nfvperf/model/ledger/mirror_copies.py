"""Copies of a trial's frames that mirrors should have made, and what became of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_nfvperf.model.topology.frame_route import Crossed, route
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import TrialResult


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """Copies of one trial, over all mirrors whose outputs are counted.

    Attributes:
        crossings: how often frames crossed a mirrored bridge, selected or not.
        expected: one for each time that a frame crossed a mirrored bridge and was selected.
        received: by the generator's monitors.
        truncated: of those, the ones cut by a snaplen.
        corrupted: of those, the ones that were otherwise not as sent.
        dropped: given up at the outputs, by the counter that says so.
        uncounted: counters that are missing, so that nobody knows how often frames crossed: ``vm1.rx_packets``.
    """

    crossings: int
    expected: int
    received: int
    truncated: int
    corrupted: int
    dropped: Mapping[str, int]
    uncounted: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Why these counts say nothing of a mirror, for a person; empty where they do say something."""
        if self.uncounted:
            return f"the datapath has no counter {', '.join(self.uncounted)}: nobody knows how many copies are due"
        if not self.crossings:
            return "no frame crossed a mirrored bridge: the topology has no mirror there, or nothing was sent"
        return ""

    @property
    def unexplained(self) -> int:
        """Expected, but neither received nor dropped by anyone who counts."""
        return self.expected - self.received - sum(self.dropped.values())

    def __str__(self) -> str:
        lost = [f"{frames:,} lost: {name}" for name, frames in self.dropped.items()]
        odd = {"unexplained": self.unexplained, "truncated": self.truncated, "corrupted": self.corrupted}
        lost += [f"{frames:,} {what}" for what, frames in odd.items() if frames]
        told = f"{self.received:,} of {self.expected:,} copies received"
        return "; ".join([f"{told}, of frames that crossed {self.crossings:,} times", *lost])


def copy_counts(topology: Topology, result: TrialResult, moved: Mapping[str, int]) -> CopyCounts:
    """Compare what mirrors should have copied with what came.

    Crossings are counted where frames enter a bridge: by the generator that put them on a port, by the VNF that did,
    or, where that does not count, by the port of the DUT.

    Args:
        topology: with its mirrors.
        result: of the trial.
        moved: moves of counters by name: ``<port>.rx_packets``, ``<port>.tx_dropped``, ``<port>.far.ring_drops``.

    Raises:
        ValueError: the topology does not define the path of a direction.
    """
    outputs = [mirror.output for mirror in topology.mirrors if mirror.output is not None]
    vlan = result.spec.traffic.vlan or 0
    mirrored = [
        (crossed.entry, mirror.copies(crossed.entry, crossed.exit, vlan), frames)
        for crossed, frames in _crossings(topology, result, moved)
        for mirror in topology.mirrors
        if mirror.bridge in crossed.bridges
    ]
    seen = [monitor for monitor in result.monitors if monitor.port in outputs]
    return CopyCounts(
        crossings=sum(frames or 0 for _, _, frames in mirrored),
        expected=sum(frames or 0 for _, copied, frames in mirrored if copied),
        received=sum(monitor.copies for monitor in seen),
        truncated=sum(monitor.truncated for monitor in seen),
        corrupted=sum(monitor.corrupted for monitor in seen),
        dropped={name: moved[name] for port in outputs for name in _drops(port) if moved.get(name)},
        uncounted=tuple(dict.fromkeys(_received_by(entry) for entry, _, frames in mirrored if frames is None)),
    )


def _drops(port: str) -> tuple[str, ...]:
    """Counters of copies that an output gave up: its queue was full, or the far end's socket, or ring."""
    far = (f"{port}.far.{name}" for name in ("socket_drops", "ring_drops", "xdp_drops"))
    return (f"{port}.tx_dropped", *far)


def _received_by(port: str) -> str:
    """The DUT's counter of frames that came in by a port."""
    return f"{port}.rx_packets"


def _crossings(
    topology: Topology, result: TrialResult, moved: Mapping[str, int]
) -> Iterator[tuple[Crossed, int | None]]:
    """Each pass of frames through the datapath, and how many there were; None where nobody counts."""
    by_vnfs: Counter[str] = Counter()
    for vnf in result.vnfs:
        by_vnfs[vnf.peer] += vnf.sent
    for count in result.counts:
        passes = route(topology, count.direction)
        if passes is None:
            raise ValueError(f"topology {topology.name!r} does not define the path of {count.direction}")
        for number, crossed in enumerate(passes):
            known = count.sent if number == 0 else by_vnfs.get(crossed.entry)
            yield crossed, moved.get(_received_by(crossed.entry)) if known is None else known
