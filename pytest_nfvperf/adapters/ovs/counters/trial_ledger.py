"""Where frames of a trial were lost: the counters before and after it, put along the topology's paths. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.ovs.counters.drop_reasons import DROP_COUNTERS, UPCALL_DROPS
from pytest_nfvperf.adapters.ovs.counters.flat_ledger import flat_ledger
from pytest_nfvperf.adapters.ovs.counters.frame_stages import beside, branches, stages
from pytest_nfvperf.model.ledger.ledger import (
    CounterDelta,
    CounterSnapshot,
    FramePath,
    HopKind,
    Ledger,
    LedgerLine,
    Loss,
    as_one,
    attribute,
    deltas,
    frame_path,
    kind_of,
    ledger_of,
    of_node,
)
from pytest_nfvperf.model.topology.frame_route import Crossed, route
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import TrialResult

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
