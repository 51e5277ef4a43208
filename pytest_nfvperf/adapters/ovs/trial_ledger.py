"""The drop ledger of a trial on OVS: where the frames of each direction went, by the DUT's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pytest_nfvperf.adapters.ovs.counters import (
    DROP_COUNTERS,
    DROP_PREFIXES,
    ERRORS,
    RX_REASONS,
    TX_REASONS,
    UPCALL_DROPS,
)
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.ledger import (
    MISDIRECTED,
    TESTER_DROPS,
    CounterDelta,
    CounterSnapshot,
    FramePath,
    Hop,
    HopKind,
    Ledger,
    LedgerLine,
    Loss,
    PathStage,
    as_one,
    attribute,
    deltas,
    frame_path,
    kind_of,
    ledger_of,
    of_node,
)
from pytest_nfvperf.model.topology.frame_route import RouteHop, frames_entered, route
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge
from pytest_nfvperf.model.traffic.mix import classes_of
from pytest_nfvperf.model.traffic.trial import (
    DirectionCounts,
    NicCounts,
    VnfCounts,
    frames_by_direction,
    sum_of_classes,
)

_OWN_SOURCES: Mapping[str, Mapping[str, str]] = {
    "ovs": dict.fromkeys((*RX_REASONS, *TX_REASONS), ""),
    "linux-bridge": {},
}
"""Snapshots that count frames at every port of the DUT, beside those of other datapaths. OVS's own drops between ports
are read by ``_drop_pool``."""


class Deltas(dict[str, int]):
    """By how much counters rose in a trial, by name: see ``OvsCollector`` and ``KernelCollector``.

    Attributes:
        rx, tx, datapath: names of reasons, with their meanings (``Collector.drop_reasons``).
    """

    def __init__(self, changes: Iterable[CounterDelta], sources: Iterable[Mapping[str, str]]) -> None:
        super().__init__({change.name: change.delta for change in changes if not change.went_back})
        reasons = {name: meaning for source in sources for name, meaning in source.items()}
        sides = {name: next((side for side in ("rx", "tx") if side in name.split("_")), "") for name in reasons}
        self.rx, self.tx, self.datapath = (
            {name: meaning for name, meaning in reasons.items() if sides[name] == side} for side in ("rx", "tx", "")
        )


_BATCH = 32
"""NETDEV_MAX_BURST: frames that OVS sends at once."""

_OWN_NIC = "the generator's own NIC: the rig's loss, not the DUT's"
_COUNTED_ELSEWHERE = {"datapath_drop_meter": "meter", "drop_action_of_pipeline": "flow"}
_NOTED = {f"coverage.{name}": text for name, text in ERRORS.items()} | {
    "softnet.dropped": "frames that the kernel's receive backlog had no room for, on any interface of the machine"
}

_MANY_UPCALLS = 0.05
"""Above this share of frames a thread mostly handles upcalls, each of which takes as long as some hundred frames."""


def flat_ledger(
    offered: int,
    received: int,
    before: CounterSnapshot,
    after: CounterSnapshot,
    topology: Topology,
    known: Sequence[LedgerLine] = (),
    reasons: Iterable[Mapping[str, str]] = tuple(_OWN_SOURCES.values()),
) -> Ledger:
    """Losses by port and reason without a path, for topologies where directions share ports.

    Args:
        offered: frames that the DUT was asked to take (sent + refused).
        received: distinct frames that came back.
        before: the "ovs" collector's snapshot before the trial.
        after: the snapshot after it; the settled one if frames were lost.
        topology: its ports come in its order.
        known: lines from elsewhere, such as frames that the generator counted as refused by the ring at p0.
        reasons: those of each source in the snapshots.

    Returns:
        offered - received = sum of lines + unexplained. The unexplained may be negative: more drops counted than
        frames lost, because of foreign or learning frames. A counter that fell gives no line.
    """
    changes = deltas(before, after)
    moved = Deltas((change for change in changes if change.delta > 0), reasons)
    lines = list(known)
    for port in topology.ports:
        losses_by_side = (
            ("rx", _losses_by_reason(port.name, "rx_dropped", moved.rx, moved)),
            ("tx", _losses_by_reason(port.name, "tx_dropped", moved.tx, moved)),
            ("rx", _named(port.name, ("rx_errors",), moved)),
            ("tx", _named(port.name, ("tx_errors",), moved)),
        )
        for side, losses in losses_by_side:
            lines += [LedgerLine(f"{port.name} {side}", loss.reason, loss.frames) for loss in losses]
    # Without DPDK the kernel counts a port's frames, and OVS those that it read from its sockets in time.
    if not any(name.startswith("pmd.") for name in moved):
        arrived = sum(moved.get(f"{port.name}.rx_packets", 0) for port in topology.ports)
        unread = arrived - moved.get("main.packets_received", arrived)
        lines += [LedgerLine("datapath", "rx_socket_full", unread)] if unread > 0 else []
    for name, frames in sorted(moved.items()):
        if name.startswith(DROP_PREFIXES) or name in moved.datapath:
            lines.append(LedgerLine("datapath", name.removeprefix("coverage."), frames))
    missing = offered - received - sum(line.frames for line in lines)
    failed = min(_failed_upcalls(moved), missing)
    if failed > 0:
        lines.append(LedgerLine("datapath", "upcalls_failed", failed))
        missing -= failed
    return Ledger(offered, received, tuple(lines), missing, changes)


def _stages(
    counts: DirectionCounts, passes: Sequence[RouteHop], moved: Deltas, topology: Topology, result: TrialResult
) -> Iterator[PathStage]:
    """Yield the stages of a direction, from generator to generator. ``passes``: its passes through the datapath."""
    by_port = {vnf.port: vnf for vnf in result.vnfs}
    nics = {nic.port: nic for nic in result.nics}
    tx, rx = counts.direction.tx, counts.direction.rx
    refused = Loss("refused", counts.refused, "its transmit ring was full: the DUT did not drain it in time")
    unsent = max(0, nics[tx].tx_errors or 0) if tx in nics else 0
    unsent_loss = Loss(TESTER_DROPS, unsent, f"tx_errors of {_OWN_NIC}")
    yield PathStage(f"{tx} generator", HopKind.GENERATOR, counts.sent - unsent, (refused, unsent_loss))
    peer_sent = moved.get(f"{tx}.far.tx_packets")
    if peer_sent is not None:  # the generator sends on the kernel's end of a veth pair
        losses = tuple(_named(f"{tx}.far", ("tx_dropped", "qdisc_drops"), moved))
        yield PathStage(f"{tx} veth", HopKind.KERNEL, peer_sent, losses)
    if result.spec.come_back == "never":  # they end in the DUT's first port
        yield next(_received(passes[0].entry, moved))
        return
    node_of = node_of_bridge(topology)
    for number, crossed in enumerate(passes):
        node = node_of.get(crossed.bridges[0], "")
        offered, sent = _offered_to(crossed.exit, moved), moved.get(f"{crossed.exit}.tx_packets")
        crossing = (
            *_received(crossed.entry, moved),
            PathStage(" + ".join(crossed.bridges), HopKind.DATAPATH, offered),
            PathStage(f"{crossed.exit} tx", HopKind.PORT, sent, _tx(crossed.exit, moved)),
        )
        yield from (replace(stage, node=node) for stage in crossing)
        if number + 1 < len(passes):
            yield from _between(crossed.exit, topology, by_port)
    at_peer = tuple(_peer_socket(rx, moved))
    yield from at_peer
    arrived = at_peer[-1].left if at_peer else moved.get(f"{passes[-1].exit}.tx_packets")
    own = _tester_drops(nics[rx], counts, arrived) if rx in nics and not at_peer else ()
    yield PathStage(f"{rx} generator", HopKind.GENERATOR, counts.received, tuple(own))


def _tester_drops(nic: NicCounts, counts: DirectionCounts, arrived: int | None) -> Iterator[Loss]:
    """Yield what the receiving NIC lost. ``arrived``: frames that the DUT's last port sent; None if nobody knows.

    A driver without a buffer for a frame does not say how many it lost: at most what is missing there.
    """
    counted = max(0, nic.lost_on_receive)
    if counted:
        names = [name for name, count in nic.counted.items() if name in {"rx_missed", "rx_errors"} and count > 0]
        yield Loss(TESTER_DROPS, counted, f"{', '.join(names)} of {_OWN_NIC}")
    rest = 0 if arrived is None else arrived - counts.received - counted
    if (nic.rx_nombuf or 0) > 0 and rest > 0:
        yield Loss(TESTER_DROPS, rest, f"rx_nombuf {nic.rx_nombuf:,} of {_OWN_NIC}: its driver had no free buffer")


def _between(port: str, topology: Topology, vnfs: Mapping[str, VnfCounts]) -> Iterator[PathStage]:
    """Yield the stages between two passes: an underlay, a VNF, or a veth pair."""
    for link in topology.underlays:
        if port in {link.port_a, link.port_b}:
            yield PathStage(f"{link.port_a} - {link.port_b} underlay", HopKind.PORT, None)
            return
    owner = next((one.owner for one in topology.ports if one.name == port), None)
    if owner is None:
        return  # a veth pair: one end receives what the other one sent
    vnf = vnfs.get(port)
    if vnf is None:
        yield PathStage(owner, HopKind.VNF, None)
        return
    losses = (
        Loss("dropped by the VNF", vnf.dropped),
        Loss("ring_full", vnf.ring_full, f"at {vnf.peer}: the DUT did not drain it in time"),
    )
    yield PathStage(f"{port} ring", HopKind.PORT, vnf.received)
    yield PathStage(owner, HopKind.VNF, vnf.sent, losses)


def _peer_socket(port: str, moved: Deltas) -> Iterator[PathStage]:
    """Yield the socket by which the generator or a namespace reads the far end of a veth pair or a tap."""
    arrived = moved.get(f"{port}.far.rx_packets", moved.get(f"{port}.tx_packets"))
    losses = tuple(
        Loss(name, moved[f"{port}.far.{name}"], "whoever receives there did not read its socket in time")
        for name in ("socket_drops", "ring_drops", "xdp_drops")
        if f"{port}.far.{name}" in moved
    )
    if losses and arrived is not None:
        yield PathStage(f"{port} socket", HopKind.KERNEL, arrived - sum(loss.frames for loss in losses), losses)


def _received(port: str, moved: Deltas) -> Iterator[PathStage]:
    left, unread = frames_entered(port, moved), moved.get(f"{port}.socket_drops")
    if unread is None:
        losses = _losses_by_reason(port, "rx_dropped", moved.rx, moved)
        losses += _named(port, ("rx_errors",), moved)
        yield PathStage(f"{port} rx", HopKind.PORT, left, tuple(losses))
        return
    policed = tuple(_named(port, ("ovs_rx_qos_drops",), moved))
    yield PathStage(f"{port} rx", HopKind.PORT, left, policed)  # a veth's rx_dropped are its peer's tx_dropped
    socket_drops = Loss("socket_drops", unread, "OVS did not read its socket in time")
    yield PathStage(f"{port} socket", HopKind.KERNEL, None if left is None else left - unread, (socket_drops,))


def _tx(port: str, moved: Deltas) -> tuple[Loss, ...]:
    return (
        *_losses_by_reason(port, "tx_dropped", moved.tx, moved),
        *_named(port, ("qdisc_drops", "tx_errors"), moved),
    )


def _offered_to(port: str, moved: Deltas) -> int | None:
    """Frames that the datapath gave to a port, sent or not; None if the port does not count."""
    sent = moved.get(f"{port}.tx_packets")
    return None if sent is None else sent + sum(loss.frames for loss in _tx(port, moved))


def _branches(
    topology: Topology, routes: Sequence[Sequence[RouteHop]], moved: Deltas, result: TrialResult
) -> Iterator[FramePath]:
    """Yield a path for the copies of each mirror, from the frames that it selects to those that its monitor received.

    There is none for a mirror into a VLAN, which may leave by any port, or if a port of selected frames does not count,
    or if it selects by VLAN, and frames are in several.
    """
    vlan, *others = {vlan for each in classes_of(result.spec.traffic) for vlan in each.traffic.vlans}
    for mirror in topology.mirrors:
        if others and mirror.select_vlan:
            continue
        selected = [
            frames_entered(crossed.entry, moved)
            for passes in routes
            for crossed in passes
            if mirror.bridge in crossed.bridges and mirror.copies(crossed.entry, crossed.exit, vlan)
        ]
        counted = [frames for frames in selected if frames is not None]
        if mirror.output is not None and len(counted) == len(selected):
            output = mirror.output
            sent = moved.get(f"{output}.tx_packets")
            copies = sum(monitor.copies for monitor in result.monitors if monitor.port == output)
            hops = [
                PathStage(f"{mirror.bridge} mirror", HopKind.DATAPATH, _offered_to(output, moved)),
                PathStage(f"{output} tx", HopKind.PORT, sent, _tx(output, moved)),
                *_peer_socket(output, moved),
                PathStage(f"{output} monitor", HopKind.GENERATOR, copies),
            ]
            yield frame_path(f"mirror {mirror.name}->{output}", sum(counted), hops)


def _stray_ports(topology: Topology, routes: Sequence[Sequence[RouteHop]], moved: Deltas) -> Iterator[Hop]:
    """Yield the ports that sent frames although no direction and no mirror leaves by them."""
    used = {crossed.exit for passes in routes for crossed in passes} | {mirror.output for mirror in topology.mirrors}
    for port in topology.ports:
        offered, sent = _offered_to(port.name, moved), moved.get(f"{port.name}.tx_packets")
        if port.name not in used and offered and sent is not None:
            losses = tuple(loss for loss in _tx(port.name, moved) if loss.frames > 0)
            yield Hop(f"{port.name} tx", HopKind.PORT, offered, sent, losses)


def _losses_by_reason(port: str, total: str, reasons: Mapping[str, str], moved: Deltas) -> list[Loss]:
    """The port's losses by reason, and the rest of its total without one."""
    losses = [replace(loss, detail=reasons[loss.reason]) for loss in _named(port, tuple(reasons), moved)]
    left = moved.get(f"{port}.{total}", 0) - sum(loss.frames for loss in losses)
    return [*losses, Loss(total, left)] if left > 0 else losses


def _named(port: str, names: Sequence[str], moved: Deltas) -> list[Loss]:
    return [Loss(name, moved[f"{port}.{name}"]) for name in names if moved.get(f"{port}.{name}")]


def _flat(
    topology: Topology,
    result: TrialResult,
    before: Sequence[CounterSnapshot],
    after: Sequence[CounterSnapshot],
    sources: Mapping[str, Mapping[str, str]],
) -> Ledger:
    refused = [
        LedgerLine(f"{count.direction.tx} generator", "refused", count.refused)
        for count in result.counts
        if count.refused
    ]
    refused += [
        LedgerLine(f"{nic.port} generator", TESTER_DROPS, lost)
        for nic in result.nics
        if (lost := max(0, nic.lost_on_receive) + max(0, nic.tx_errors or 0))
    ]
    early, late = (as_one(snapshots, sources) for snapshots in (before, after))
    return flat_ledger(result.offered, result.received, early, late, topology, refused, sources.values())


def trial_ledger(
    topology: Topology,
    result: TrialResult,
    before: Sequence[CounterSnapshot],
    after: Sequence[CounterSnapshot],
    others: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Ledger:
    """Name hop and reason for the frames that a trial lost, from the counters along the topology's paths.

    ``before``, ``after``: snapshots of the sources "ovs" and "kernel", or with nodes "node1.ovs" and so on; after the
    trial the settled ones if frames were lost in the datapath. ``others``: further sources that count frames at ports.
    """
    sources, result = {**_OWN_SOURCES, **others}, _in_frames(result)
    later = {snapshot.source: snapshot for snapshot in after}
    changes = [
        change
        for early in before
        if kind_of(early.source) in {*sources, "kernel"} and early.source in later
        for change in deltas(early, later[early.source])
    ]
    moved = Deltas((change for change in changes if not change.went_back), sources.values())
    shown = tuple(change for change in changes if change.delta)
    routes = [route(topology, count.direction) for count in result.counts]
    known = [passes for passes in routes if passes is not None]
    entries = Counter(crossed.entry for passes in known for crossed in passes)
    exits = Counter(crossed.exit for passes in known for crossed in passes)
    # If two directions use the same side of a port, its counters cannot separate them.
    if len(known) < len(routes) or max([*entries.values(), *exits.values()], default=0) > 1:
        flat = _flat(topology, result, before, after, sources)
        return replace(flat, deltas=shown, counted=_errors(moved))
    paths, notes = list[FramePath](), list[str]()
    for count, passes in zip(result.counts, known, strict=True):
        stages, note = _each_frame_once(list(_stages(count, passes, moved, topology, result)), count)
        paths.append(frame_path(str(count.direction), count.offered, stages))
        notes += [note] if note else []
    explained: Sequence[FramePath] = paths
    nodes = [node.name for node in topology.nodes]
    # "" is the one DUT of a topology without nodes
    for node, own in ({name: of_node(moved, name, nodes) for name in nodes} or {"": moved}).items():
        pool, details = _drop_pool(own, moved.datapath), moved.datapath | _details(own)
        if not node:
            pool[MISDIRECTED] = sum(count.misdirected or 0 for count in result.counts)
            came_to = sum_of_classes(result.counts).elsewhere or ()
            details[MISDIRECTED] = "came to " + ", ".join(f"{port}: {frames:,}" for port, frames in came_to)
        explained, left = attribute(explained, pool, details, node)
        notes += [f"{node}: {note}" if node else note for note in _notes(result, own, left)]
    explained = tuple(_with_batches(path) for path in explained)
    ledger = ledger_of(explained, shown, tuple(_stray_ports(topology, known, moved)), notes)
    branches = tuple(_branches(topology, known, moved, result))
    return replace(ledger, branches=branches, counted=_errors(moved))


def _in_frames(result: TrialResult) -> TrialResult:
    """The result with counts of frames, where those of a conversation are of connections."""
    counts = [count for each in result.classes for count in each.counts] or result.counts
    if not any(count.steps for count in counts):
        return result
    return replace(result, counts=frames_by_direction(counts))


def _each_frame_once(stages: list[PathStage], counts: DirectionCounts) -> tuple[list[PathStage], str]:
    """Take the copies out of what ports counted behind the hop that made them; also returns a note, "" for none.

    The generator tells copies from frames, and the DUT's ports do not. Dropped frames and copies may be as many. So the
    copies are those of the first datapath that has more frames behind it than in front of it, else of the last one.
    """
    copies, before, maker = counts.duplicated or 0, counts.offered, 0
    for at, stage in enumerate(stages[:-1]):
        if stage.kind is HopKind.DATAPATH:
            maker = at
            if stage.left is not None and stage.left > before:
                break
        before = before if stage.left is None else stage.left
    counted = [stage.left for stage in stages[:-1] if stage.left is not None]
    if not copies or counted[-1] < counts.received + copies:  # made where nobody counts
        return stages, ""
    behind = [stage if stage.left is None else replace(stage, left=stage.left - copies) for stage in stages[maker:-1]]
    note = f"{counts.direction}: {copies:,} further copies of its frames came out of {stages[maker].name}"
    return [*stages[:maker], *behind, stages[-1]], f"{note}; the hops count each frame once"


def _errors(moved: Deltas) -> tuple[Loss, ...]:
    """What OVS counted as errors, over all nodes."""
    errors = {name: sum(moved[counter] for counter in moved if counter.endswith(f"coverage.{name}")) for name in ERRORS}
    return tuple(Loss(name, frames, ERRORS[name]) for name, frames in errors.items() if frames > 0)


def _drop_pool(moved: Mapping[str, int], others: Collection[str]) -> dict[str, int]:
    """The datapath's total drops by reason.

    Drops that OVS counts twice appear once: failed upcalls, meters' drops (by the meter at once, by coverage later),
    and flows' drops (by coverage and by the flow). ``others``: counters of a datapath that is no OVS.
    """
    pool = {name: frames for name in DROP_COUNTERS if (frames := moved.get(f"coverage.{name}", 0)) > 0}
    pool |= {name: frames for name in others if (frames := moved.get(name, 0)) > 0}
    for reason, kind in _COUNTED_ELSEWHERE.items():
        elsewhere = sum(_of_kind(moved, kind).values())
        if elsewhere > pool.get(reason, 0):
            pool[reason] = elsewhere
    failed = _failed_upcalls(moved)
    return {**pool, "upcalls_failed": failed} if failed > 0 else pool


def _failed_upcalls(moved: Mapping[str, int]) -> int:
    """Failed upcalls that coverage has not counted yet: a PMD counts them at once, coverage a second later.

    It is the weakest of all reasons, because such a frame may not be lost: without room for a flow OVS counts a failure
    and forwards the frame.
    """
    failed = moved.get("pmd.upcalls_failed", 0) + moved.get("main.upcalls_failed", 0)
    return failed - sum(max(0, moved.get(f"coverage.{name}", 0)) for name in UPCALL_DROPS)


def _with_batches(path: FramePath) -> FramePath:
    """Explain frames that OVS gave up uncounted: the rest of a batch after the kernel refused one (ENOBUFS).

    These are frames missing in the datapath before a port whose queue was full, at most 31 for each refused one.
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


def _of_kind(moved: Mapping[str, int], kind: str) -> dict[str, int]:
    return {name: frames for name, frames in moved.items() if name.startswith(f"{kind}.") and frames > 0}


def _details(moved: Mapping[str, int]) -> dict[str, str]:
    details = {}
    for reason, kind in _COUNTED_ELSEWHERE.items():
        names = [name.split(".", 2)[1:] for name in _of_kind(moved, kind)]
        if names:
            details[reason] = ", ".join(f"{kind} {what} of {bridge}" for bridge, what in names)
    return details


def _notes(result: TrialResult, moved: Mapping[str, int], left: Mapping[str, int]) -> Iterator[str]:
    for reason, frames in left.items():
        if reason not in {"upcalls_failed", MISDIRECTED}:
            yield f"{reason} counted {frames:,} more than any hop lacks: frames that are not of this trial"
    for name, text in _NOTED.items():
        if moved.get(name, 0) > 0:
            yield f"{name.partition('.')[2]} {moved[name]:,}: {text}"
    if result.lost <= 0:
        return
    # A thread does not poll while it handles upcalls, and waiting frames are lost.
    for thread in ("pmd", "main"):
        failed = moved.get(f"{thread}.upcalls_failed", 0)
        upcalls = moved.get(f"{thread}.upcalls_ok", 0) + failed
        frames = moved.get(f"{thread}.packets_received", 0)
        if upcalls > _MANY_UPCALLS * frames > 0:
            yield (
                f"upcall storm: {upcalls:,} of {frames:,} frames had no flow in the datapath, and no ring is polled "
                f"during an upcall; {failed:,} upcalls left no flow behind (flow limit, or failed)"
            )
