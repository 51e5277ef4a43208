"""What the counters of OVS, the kernel, the VNFs and the generator say of each stage of a frame's path. Pure.

Counters are the moves of a trial by name, as ``collectors`` and ``kernel_counters`` explain them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.ovs.counters.drop_reasons import RX_OUTSIDE_DROPPED, RX_REASONS, TX_REASONS
from pytest_nfvperf.model.ledger.ledger import FramePath, Hop, HopKind, Loss, Stage, frame_path
from pytest_nfvperf.model.topology.bridges import Mirror
from pytest_nfvperf.model.topology.frame_route import Crossed
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialResult, VnfCounts

Moved = Mapping[str, int]


def stages(
    counts: DirectionCounts, passes: Sequence[Crossed], moved: Moved, topology: Topology, vnfs: Sequence[VnfCounts]
) -> Iterator[Stage]:
    """From the generator over all passes of the datapath back to the generator."""
    by_port = {vnf.port: vnf for vnf in vnfs}
    tx, rx = counts.direction.tx, counts.direction.rx
    refused = Loss("refused", counts.refused, "its transmit ring was full: the DUT did not drain it in time")
    yield Stage(f"{tx} generator", HopKind.GENERATOR, counts.sent, (refused,))
    yield from _far_end(tx, moved)
    at = node_of_bridge(topology)
    for number, crossed in enumerate(passes):
        node = at.get(crossed.bridges[0], "")
        yield from (replace(stage, node=node) for stage in _crossing(crossed, moved))
        if number + 1 < len(passes):
            yield from _joint(crossed.exit, topology, by_port)
    yield from _far_socket(rx, moved)
    yield Stage(f"{rx} generator", HopKind.GENERATOR, counts.received)


def _crossing(crossed: Crossed, moved: Moved) -> Iterator[Stage]:
    yield from _received(crossed.entry, moved)
    yield Stage(" + ".join(crossed.bridges), HopKind.DATAPATH, offered_to(crossed.exit, moved))
    yield Stage(f"{crossed.exit} tx", HopKind.PORT, moved.get(f"{crossed.exit}.tx_packets"), _tx(crossed.exit, moved))


def _joint(port: str, topology: Topology, vnfs: Mapping[str, VnfCounts]) -> Iterator[Stage]:
    """What is between two passes: an underlay, a VNF, or a veth pair."""
    for link in topology.underlays:
        if port in {link.port_a, link.port_b}:
            yield Stage(f"{link.port_a} - {link.port_b} underlay", HopKind.PORT, None)
            return
    yield from _vnf(port, topology, vnfs)


def _far_end(port: str, moved: Moved) -> Iterator[Stage]:
    """The kernel's end of a port that is a veth pair, which the generator sends on."""
    left = moved.get(f"{port}.far.tx_packets")
    if left is not None:
        losses = tuple(_named(f"{port}.far", ("tx_dropped", "qdisc_drops"), moved))
        yield Stage(f"{port} veth", HopKind.KERNEL, left, losses)


def _far_socket(port: str, moved: Moved) -> Iterator[Stage]:
    """The socket by which the generator, or whoever is there, reads the far end of a veth pair or a tap."""
    arrived = moved.get(f"{port}.far.rx_packets", moved.get(f"{port}.tx_packets"))
    losses = tuple(
        Loss(name, moved[f"{port}.far.{name}"], "whoever receives there did not read its socket in time")
        for name in ("socket_drops", "ring_drops", "xdp_drops")
        if f"{port}.far.{name}" in moved
    )
    if losses and arrived is not None:
        yield Stage(f"{port} socket", HopKind.KERNEL, arrived - sum(loss.frames for loss in losses), losses)


def _received(port: str, moved: Moved) -> Iterator[Stage]:
    left = moved.get(f"{port}.rx_packets")
    yield Stage(f"{port} rx", HopKind.PORT, left, _rx(port, moved))
    unread = moved.get(f"{port}.socket_drops")
    if unread is not None:
        losses = (Loss("socket_drops", unread, "OVS did not read its socket in time"),)
        yield Stage(f"{port} socket", HopKind.KERNEL, None if left is None else left - unread, losses)


def _rx(port: str, moved: Moved) -> tuple[Loss, ...]:
    if f"{port}.socket_drops" in moved:
        return ()  # a veth's rx_dropped are its peer's tx_dropped
    return (
        *_losses_by_reason(port, "rx_dropped", RX_REASONS, moved),
        *_named(port, (*RX_OUTSIDE_DROPPED, "rx_errors"), moved),
    )


def _tx(port: str, moved: Moved) -> tuple[Loss, ...]:
    return (
        *_losses_by_reason(port, "tx_dropped", TX_REASONS, moved),
        *_named(port, ("qdisc_drops", "tx_errors"), moved),
    )


def offered_to(port: str, moved: Moved) -> int | None:
    """Frames that the datapath gave to a port, sent or not; None where the port does not count."""
    sent = moved.get(f"{port}.tx_packets")
    return None if sent is None else sent + sum(loss.frames for loss in _tx(port, moved))


def _vnf(port: str, topology: Topology, vnfs: Mapping[str, VnfCounts]) -> Iterator[Stage]:
    vnf = vnfs.get(port)
    owner = next((one.owner for one in topology.ports if one.name == port), None)
    if owner is None:
        return  # a veth pair: what one end sent is what the other received
    if vnf is None:
        yield Stage(owner, HopKind.VNF, None)
        return
    losses = (
        Loss("dropped by the VNF", vnf.dropped),
        Loss("ring_full", vnf.ring_full, f"at {vnf.peer}: the DUT did not drain it in time"),
    )
    yield Stage(f"{port} ring", HopKind.PORT, vnf.received)
    yield Stage(owner, HopKind.VNF, vnf.sent, losses)


def branches(
    topology: Topology, routes: Sequence[Sequence[Crossed]], moved: Moved, result: TrialResult
) -> Iterator[FramePath]:
    """A path for the copies of each mirror, from the frames that it selects to what the monitor at its output got.

    None for a mirror into a VLAN, which may leave by any port, and where nobody counts the frames that are selected.
    """
    vlan = result.spec.traffic.vlan or 0
    for mirror in topology.mirrors:
        selected = [
            moved.get(f"{crossed.entry}.rx_packets")
            for passes in routes
            for crossed in passes
            if mirror.bridge in crossed.bridges and mirror.copies(crossed.entry, crossed.exit, vlan)
        ]
        counted = [frames for frames in selected if frames is not None]
        if mirror.output is not None and len(counted) == len(selected):
            hops = list(_copied(mirror, mirror.output, moved, result))
            yield frame_path(f"mirror {mirror.name}->{mirror.output}", sum(counted), hops)


def _copied(mirror: Mirror, output: str, moved: Moved, result: TrialResult) -> Iterator[Stage]:
    sent = moved.get(f"{output}.tx_packets")
    yield Stage(f"{mirror.bridge} mirror", HopKind.DATAPATH, offered_to(output, moved))
    yield Stage(f"{output} tx", HopKind.PORT, sent, _tx(output, moved))
    yield from _far_socket(output, moved)
    got = sum(monitor.copies for monitor in result.monitors if monitor.port == output)
    yield Stage(f"{output} monitor", HopKind.GENERATOR, got)


def beside(topology: Topology, routes: Sequence[Sequence[Crossed]], moved: Moved) -> Iterator[Hop]:
    """Ports that no direction leaves by, and no mirror's copies, and that sent all the same."""
    used = {crossed.exit for passes in routes for crossed in passes} | {mirror.output for mirror in topology.mirrors}
    for port in topology.ports:
        offered, sent = offered_to(port.name, moved), moved.get(f"{port.name}.tx_packets")
        if port.name not in used and offered and sent is not None:
            yield Hop(f"{port.name} tx", HopKind.PORT, offered, sent, _positive(_tx(port.name, moved)))


def _losses_by_reason(port: str, total: str, reasons: Sequence[str], moved: Moved) -> list[Loss]:
    """The reasons that the port names, and what is left of its total without one."""
    losses = _named(port, reasons, moved)
    left = moved.get(f"{port}.{total}", 0) - sum(loss.frames for loss in losses)
    return [*losses, Loss(total, left)] if left > 0 else losses


def _named(port: str, names: Sequence[str], moved: Moved) -> list[Loss]:
    return [Loss(name, moved[f"{port}.{name}"]) for name in names if moved.get(f"{port}.{name}")]


def _positive(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    return tuple(loss for loss in losses if loss.frames > 0)
