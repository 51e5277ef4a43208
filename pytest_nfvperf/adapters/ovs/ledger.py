"""Where frames of a trial were lost: the counters before and after it, put along the topology's paths. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.ovs.flat_ledger import flat_ledger
from pytest_nfvperf.adapters.ovs.reasons import DROP_COUNTERS, UPCALL_DROPS
from pytest_nfvperf.adapters.ovs.stages import copies, stages
from pytest_nfvperf.model.hops import attribute, frame_path
from pytest_nfvperf.model.ledger import CounterDelta, CounterSnapshot, Ledger, LedgerLine, deltas, ledger_of
from pytest_nfvperf.model.route import Crossed, route
from pytest_nfvperf.model.topology import Topology
from pytest_nfvperf.model.trial import TrialResult

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
        before: snapshots before the trial; counters of the sources "ovs" and "kernel" are used.
        after: and after it; the settled ones when frames were lost in the datapath.
    """
    changes = _changes(before, after)
    moved = {change.name: change.delta for change in changes if not change.went_back}
    shown = tuple(change for change in changes if change.delta)
    ways = [route(topology, count.direction) for count in result.counts]
    known = [way for way in ways if way is not None]
    if len(known) < len(ways) or _shared(known):
        return replace(_without_paths(topology, result, before, after), deltas=shown)
    paths = [
        frame_path(str(count.direction), count.offered, list(stages(count, way, moved, topology, result.vnfs)))
        for count, way in zip(result.counts, known, strict=True)
    ]
    explained, left = attribute(paths, drop_pool(moved), _details(moved))
    beside = copies(topology, [crossed for way in known for crossed in way], moved)
    return ledger_of(explained, shown, tuple(beside), _notes(moved, left))


def _changes(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> list[CounterDelta]:
    later = {snapshot.source: snapshot for snapshot in after}
    return [
        change
        for early in before
        if early.source in _SOURCES and early.source in later
        for change in deltas(early, later[early.source])
    ]


def _shared(ways: Iterable[Sequence[Crossed]]) -> bool:
    """Two directions by the same side of a port: its counters do not tell them apart."""
    entries = Counter(crossed.entry for way in ways for crossed in way)
    exits = Counter(crossed.exit for way in ways for crossed in way)
    return max([*entries.values(), *exits.values()], default=0) > 1


def _without_paths(
    topology: Topology, result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]
) -> Ledger:
    refused = [
        LedgerLine(f"{count.direction.tx} generator", "refused", count.refused)
        for count in result.counts
        if count.refused
    ]
    early, late = (next(one for one in of if one.source in _PORT_SOURCES) for of in (before, after))
    return flat_ledger(result.offered, result.received, early, late, topology, refused)


def drop_pool(moved: Mapping[str, int]) -> dict[str, int]:
    """Drops that the datapath counts as a whole, by reason.

    Failed upcalls are counted by the PMD at once and by coverage a second later: the same frames, once here.
    """
    pool = {name: frames for name in DROP_COUNTERS if (frames := moved.get(f"coverage.{name}", 0)) > 0}
    failed = moved.get("pmd.upcalls_failed", 0) + moved.get("main.upcalls_failed", 0)
    left = failed - sum(pool.get(name, 0) for name in UPCALL_DROPS)
    if left > 0:
        pool["upcalls_failed"] = left
    return pool


def _details(moved: Mapping[str, int]) -> dict[str, str]:  # noqa: ARG001
    return {}


def _notes(moved: Mapping[str, int], left: Mapping[str, int]) -> list[str]:  # noqa: ARG001
    return [
        f"{reason} counted {frames:,} more than any hop lacks: frames that are not of this trial"
        for reason, frames in left.items()
    ]
