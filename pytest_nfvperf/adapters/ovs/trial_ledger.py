"""The drop ledger of a trial on OVS: where the frames of each direction went, from the DUT's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.ovs.counters import DROP_COUNTERS, RX_OUTSIDE_DROPPED, RX_REASONS, TX_REASONS, UPCALL_DROPS
from pytest_nfvperf.model.ledger.ledger import (
    CounterDelta,
    CounterSnapshot,
    FramePath,
    Hop,
    HopKind,
    Ledger,
    LedgerLine,
    Loss,
    Stage,
    as_one,
    attribute,
    deltas,
    frame_path,
    kind_of,
    ledger_of,
    of_node,
)
from pytest_nfvperf.model.topology.bridges import Mirror
from pytest_nfvperf.model.topology.frame_route import Crossed, route
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialResult, VnfCounts

# Losses by port and reason, without a path: for topologies where directions share ports. Pure.
#
# What can be said then: which counters of drops moved, and how much is left over.

_DROP_PREFIXES = ("coverage.datapath_drop_", "coverage.drop_action_")
_UPCALL_DROPS = ("coverage.datapath_drop_upcall_error", "coverage.datapath_drop_lock_error")


def flat_ledger(
    offered: int,
    received: int,
    before: CounterSnapshot,
    after: CounterSnapshot,
    topology: Topology,
    known: Sequence[LedgerLine] = (),
) -> Ledger:
    """Name hop and reason for lost frames.

    Args:
        offered: frames that the DUT was asked to take (sent + refused).
        received: distinct frames that came back.
        before: the "ovs" collector's snapshot before the trial.
        after: the snapshot after it; the settled one when frames were lost.
        topology: its ports are examined in its order.
        known: lines from elsewhere, such as frames that the generator counted as refused by the ring at p0.

    Returns:
        offered - received = sum of lines + unexplained. Negative unexplained (more drops counted than
        frames lost: foreign frames, learning frames) is shown as it is. A counter that fell gives no line.
    """
    changes = deltas(before, after)
    moved = {change.name: change.delta for change in changes if change.delta > 0}
    lines = list(known)
    for port in topology.ports:
        lines += _port_lines(port.name, moved)
    lines += [*_unread_lines(topology, moved), *_datapath_lines(moved)]
    lines += _upcall_lines(moved, offered - received - _frames(lines))
    return Ledger(offered, received, tuple(lines), offered - received - _frames(lines), changes)


def _frames(lines: Sequence[LedgerLine]) -> int:
    return sum(line.frames for line in lines)


def _port_lines(port: str, moved: Mapping[str, int]) -> list[LedgerLine]:
    lines = _lines_by_reason(f"{port} rx", port, "rx_dropped", RX_REASONS, moved)
    lines += _lines_by_reason(f"{port} tx", port, "tx_dropped", TX_REASONS, moved)
    for direction, names in (("rx", (*RX_OUTSIDE_DROPPED, "rx_errors")), ("tx", ("tx_errors",))):
        lines += [
            LedgerLine(f"{port} {direction}", name, moved[f"{port}.{name}"])
            for name in names
            if f"{port}.{name}" in moved
        ]
    return lines


def _lines_by_reason(
    hop: str, port: str, total: str, reasons: Sequence[str], moved: Mapping[str, int]
) -> list[LedgerLine]:
    """The reasons that the port names, and what is left of its total without one."""
    lines = [LedgerLine(hop, name, moved[f"{port}.{name}"]) for name in reasons if f"{port}.{name}" in moved]
    left = moved.get(f"{port}.{total}", 0) - sum(line.frames for line in lines)
    return [*lines, LedgerLine(hop, total, left)] if left > 0 else lines


def _unread_lines(topology: Topology, moved: Mapping[str, int]) -> list[LedgerLine]:
    """Without DPDK the kernel counts a port's frames, and OVS those that it read from its sockets in time."""
    if any(name.startswith("pmd.") for name in moved):
        return []
    came = sum(moved.get(f"{port.name}.rx_packets", 0) for port in topology.ports)
    unread = came - moved.get("main.packets_received", came)
    return [LedgerLine("datapath", "rx_socket_full", unread)] if unread > 0 else []


def _datapath_lines(moved: Mapping[str, int]) -> list[LedgerLine]:
    return [
        LedgerLine("datapath", name.removeprefix("coverage."), frames)
        for name, frames in sorted(moved.items())
        if name.startswith(_DROP_PREFIXES)
    ]


def _upcall_lines(moved: Mapping[str, int], missing: int) -> list[LedgerLine]:
    """A failed upcall is counted by the PMD at once and by coverage a second later: the same frame.

    And it may have lost no frame at all: without room for a flow OVS counts one, and forwards the frame.
    """
    failed = moved.get("pmd.upcalls_failed", 0) + moved.get("main.upcalls_failed", 0)
    left = min(failed - sum(moved.get(name, 0) for name in _UPCALL_DROPS), missing)
    return [LedgerLine("datapath", "upcalls_failed", left)] if left > 0 else []


# What the counters of OVS, the kernel, the VNFs and the generator say of each stage of a frame's path. Pure.
#
# Counters are the moves of a trial by name, as ``collectors`` and ``kernel_counters`` explain them.

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


# Where frames of a trial were lost: the counters before and after it, put along the topology's paths. Pure.

_PORT_SOURCES = ("ovs", "linux-bridge")
"""Snapshots that count frames at every port of the DUT."""

_SOURCES = (*_PORT_SOURCES, "kernel")


def trial_ledger(
    topology: Topology, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
) -> Ledger:
    """Name hop and reason for the frames that a trial lost.

    Args:
        topology: whose ports are looked at.
        result: what the generator and its VNFs counted.
        before: snapshots before the trial; counters of the sources "ovs" and "kernel" are used, and with nodes of
            "node1.ovs" and so on.
        after: and after it; the settled ones when frames were lost in the datapath.
    """
    changes = _changes(before, after)
    moved = {change.name: change.delta for change in changes if not change.went_back}
    shown = tuple(change for change in changes if change.delta)
    routes = [route(topology, count.direction) for count in result.counts]
    known = [passes for passes in routes if passes is not None]
    if len(known) < len(routes) or _shared(known):
        return replace(_without_paths(topology, result, before, after), deltas=shown)
    paths = [
        frame_path(str(count.direction), count.offered, list(stages(count, passes, moved, topology, result.vnfs)))
        for count, passes in zip(result.counts, known, strict=True)
    ]
    explained: Sequence[FramePath] = paths
    notes: list[str] = []
    for node, of in _by_node(topology, moved).items():
        explained, left = attribute(explained, drop_pool(of), _details(of), node)
        notes += [f"{node}: {note}" if node else note for note in _notes(result, of, left)]
    explained = tuple(_with_batches(path) for path in explained)
    told = ledger_of(explained, shown, tuple(beside(topology, known, moved)), notes)
    return replace(told, branches=tuple(branches(topology, known, moved, result)))


def _by_node(topology: Topology, moved: Mapping[str, int]) -> dict[str, Mapping[str, int]]:
    """What each node's counters did; "" is the one DUT of a topology without nodes."""
    nodes = [node.name for node in topology.nodes]
    return {node: of_node(moved, node, nodes) for node in nodes} or {"": moved}


def _changes(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> list[CounterDelta]:
    later = {snapshot.source: snapshot for snapshot in after}
    return [
        change
        for early in before
        if kind_of(early.source) in _SOURCES and early.source in later
        for change in deltas(early, later[early.source])
    ]


def _shared(routes: Iterable[Sequence[Crossed]]) -> bool:
    """Two directions by the same side of a port: its counters do not tell them apart."""
    entries = Counter(crossed.entry for passes in routes for crossed in passes)
    exits = Counter(crossed.exit for passes in routes for crossed in passes)
    return max([*entries.values(), *exits.values()], default=0) > 1


def _without_paths(
    topology: Topology, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
) -> Ledger:
    refused = [
        LedgerLine(f"{count.direction.tx} generator", "refused", count.refused)
        for count in result.counts
        if count.refused
    ]
    early, late = (as_one(of, _PORT_SOURCES) for of in (before, after))
    return flat_ledger(result.offered, result.received, early, late, topology, refused)


def drop_pool(moved: Mapping[str, int]) -> dict[str, int]:
    """Drops that the datapath counts as a whole, by reason.

    What is counted twice is here once: failed upcalls by the PMD at once and by coverage a second later, what
    meters drop by the meter at once and by coverage later, what flows drop by coverage and by the flow.
    A failed upcall is the weakest of reasons: without room for a flow OVS counts one, and forwards the frame.
    """
    pool = {name: frames for name in DROP_COUNTERS if (frames := moved.get(f"coverage.{name}", 0)) > 0}
    for reason, kind in _COUNTED_ELSEWHERE.items():
        elsewhere = sum(_of_kind(moved, kind).values())
        if elsewhere > pool.get(reason, 0):
            pool[reason] = elsewhere
    failed = moved.get("pmd.upcalls_failed", 0) + moved.get("main.upcalls_failed", 0)
    left = failed - sum(pool.get(name, 0) for name in UPCALL_DROPS)
    return {**pool, "upcalls_failed": left} if left > 0 else pool


_BATCH = 32
"""NETDEV_MAX_BURST: frames that OVS sends at once."""


def _with_batches(path: FramePath) -> FramePath:
    """OVS gives up the rest of a batch when the kernel refuses a frame of it (ENOBUFS), and counts nothing.

    Frames that the datapath lacks in front of a port whose queue was full are that, as far as the batches go.
    """
    hops = list(path.hops)
    for at, (hop, port) in enumerate(zip(path.hops, path.hops[1:], strict=False)):
        full = sum(loss.frames for loss in port.losses if loss.reason == "qdisc_drops")
        given_up = min(max(hop.unexplained, 0), full * (_BATCH - 1))
        if hop.kind is HopKind.DATAPATH and given_up:
            loss = Loss("send_refused", given_up, "the rest of batches that OVS gave up when the queue was full")
            hops[at] = replace(hop, left=hop.left + given_up)
            hops[at + 1] = replace(port, entered=port.entered + given_up, losses=(*port.losses, loss))
    return FramePath(path.direction, tuple(hops))


_COUNTED_ELSEWHERE = {"datapath_drop_meter": "meter", "drop_action_of_pipeline": "flow"}


def _of_kind(moved: Mapping[str, int], kind: str) -> dict[str, int]:
    """Frames by (bridge, what) of the counters ``kind.bridge.what``."""
    return {name: frames for name, frames in moved.items() if name.startswith(f"{kind}.") and frames > 0}


def _details(moved: Mapping[str, int]) -> dict[str, str]:
    """Which meter and which flow it was."""
    details = {}
    for reason, kind in _COUNTED_ELSEWHERE.items():
        found = [name.split(".", 2)[1:] for name in _of_kind(moved, kind)]
        if found:
            details[reason] = ", ".join(f"{kind} {what} of {bridge}" for bridge, what in found)
    return details


def _notes(result: TrialResult, moved: Mapping[str, int], left: Mapping[str, int]) -> Iterator[str]:
    for reason, frames in left.items():
        if reason != "upcalls_failed":
            yield f"{reason} counted {frames:,} more than any hop lacks: frames that are not of this trial"
    for name, text in _NOTED.items():
        if moved.get(name, 0) > 0:
            yield f"{name.partition('.')[2]} {moved[name]:,}: {text}"
    if result.lost > 0:
        yield from _upcalls(moved)


_NOTED = {
    "coverage.upcall_flow_limit_hit": "as many megaflows as OVS keeps (upcall/show): further flows go by upcalls",
    "coverage.conntrack_full": "the connection table was full",
    "softnet.dropped": "frames that the kernel's receive backlog had no room for, on any interface of the machine",
}

_MANY_UPCALLS = 0.05
"""Share of frames beyond which upcalls, each as long as some hundred frames, are what a thread is busy with."""


def _upcalls(moved: Mapping[str, int]) -> Iterator[str]:
    """A thread that handles upcalls does not poll: frames are then lost where they wait for it."""
    for thread in ("pmd", "main"):
        failed = moved.get(f"{thread}.upcalls_failed", 0)
        upcalls = moved.get(f"{thread}.upcalls_ok", 0) + failed
        frames = moved.get(f"{thread}.packets_received", 0)
        if upcalls > _MANY_UPCALLS * frames > 0:
            yield (
                f"upcall storm: {upcalls:,} of {frames:,} frames had no flow in the datapath, and no ring is polled "
                f"during an upcall; {failed:,} upcalls left no flow behind (flow limit, or failed)"
            )
