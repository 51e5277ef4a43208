"""Where the frames of a trial were lost (How we measure, rule 8): counters, and the path made from them.

A path is a chain of hops. Frames enter a hop, leave it, or are lost in it for a reason that a counter names:

    entered = left + losses + unexplained

The DUT's counters also count other frames, such as ARP: ``FramePath.foreign`` has them, and they are no loss. A counter
that the source does not offer is absent, never 0: then two hops become one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.traffic.mix import shares
from pytest_nfvperf.model.traffic.trial import TrialSpec, failures

MISDIRECTED = "misdirected"
"""Reason of frames that came out of the DUT at a port to which none of their directions leads."""
BY_FLOW = ("drop_action_", "ovs_tx_mtu_", MISDIRECTED)
"""Reasons that begin so are of flows and MTUs, which drop a frame whenever it comes."""
BY_RULE = (*BY_FLOW, "datapath_drop_meter", "ovs_tx_qos_", "ovs_rx_qos_")
"""The same with meters and policers, which do not depend on the machine's load, but on when frames come."""
TESTER_DROPS = "tester_drops"
"""Reason of frames that the generator's own NICs lost, which no DUT did."""
OF_OTHERS = "of others, which are not of this trial (or counted twice)"

_SHARED = "counted for the whole datapath, shared out by what each hop lacks"
_LONGEST_HOP = 36
_MAY_FALL = re.compile(r"(?:^|\.)connections(?:\.zone\d+)?$")
"""Counters of what there is now."""
_OF_MACHINE = "softnet"
"""Counters that all nodes of one machine have in common."""


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """All counters of one source at one moment: ``(("dpdkvhost0.rx_packets", 12), ...)``, sorted by name.

    ``time_ns``: by ``time.monotonic_ns()``, since rates are made of it and the wall clock may be set meanwhile.
    """

    source: str
    time_ns: int
    counters: tuple[tuple[str, int], ...]

    def as_dict(self) -> dict[str, int]:
        return dict(self.counters)


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What one counter did between two snapshots; ``went_back`` when it fell."""

    name: str
    delta: int
    went_back: bool


class HopKind(StrEnum):
    GENERATOR = "generator"
    PORT = "port"
    DATAPATH = "datapath"
    VNF = "vnf"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames lost for one reason, in the words of whoever counted them. ``detail``: what is known beyond that."""

    reason: str
    frames: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a path.

    Attributes:
        name: such as "p1 tx".
        entered, left: frames.
        losses: by reason, each above 0.
        node: on which it is; "" if there is one DUT, or if it is outside of the DUT.
    """

    name: str
    kind: HopKind
    entered: int
    left: int
    losses: tuple[Loss, ...] = ()
    node: str = ""

    @property
    def missing(self) -> int:
        """Frames that entered and did not leave; negative if more left than entered, such as copies."""
        return self.entered - self.left

    @property
    def unexplained(self) -> int:
        """Missing without a reason; negative if more losses were counted than frames are missing. Never clamped."""
        return self.missing - sum(loss.frames for loss in self.losses)


@dataclass(frozen=True, slots=True)
class FramePath:
    """The hops of one direction, such as "p0->p1", from the generator to the generator.

    Raises:
        ValueError: no hop, or one where not exactly as many frames enter as left the one before.
    """

    direction: str
    hops: tuple[Hop, ...]

    def __post_init__(self) -> None:
        if not self.hops:
            raise ValueError(f"path {self.direction} has no hops")
        for hop, following in zip(self.hops, self.hops[1:], strict=False):
            if hop.left != following.entered:
                raise ValueError(
                    f"path {self.direction}: {hop.left} frames leave {hop.name!r} and {following.entered} enter "
                    f"{following.name!r}"
                )

    @property
    def offered(self) -> int:
        """Frames that the DUT was asked to take."""
        return self.hops[0].entered

    @property
    def received(self) -> int:
        """Distinct frames."""
        return self.hops[-1].left

    @property
    def lost(self) -> int:
        return self.offered - self.received

    @property
    def unexplained(self) -> int:
        """Over all hops. A surplus at one hop makes up for a lack at another, as frames do."""
        return sum(hop.unexplained for hop in self.hops)

    @property
    def foreign(self) -> tuple[tuple[int, int], ...]:
        """For each hop the frames of others that it counts: those that joined there, and those that ended there.

        Missing frames of a hop are assigned to those that joined before it; then to those that join after it, such as
        frames of a BGP session, which the host takes at one port and sends by another.
        """
        joined = [max(0, -hop.unexplained) for hop in self.hops]
        lacking = [max(0, hop.unexplained) for hop in self.hops]
        ended = [0] * len(self.hops)
        in_flight = 0
        for number in range(len(self.hops)):
            ended[number] = min(in_flight, lacking[number])
            in_flight += joined[number] - ended[number]
        for number in reversed(range(len(self.hops))):
            more = min(in_flight, lacking[number] - ended[number])
            ended[number] += more
            in_flight -= more
        return tuple(zip(joined, ended, strict=True))

    @property
    def foreign_joined(self) -> int:
        """Frames of others that joined anywhere, or drops that were counted twice."""
        return sum(joined for joined, _ in self.foreign)

    @property
    def unaccounted(self) -> int:
        """Frames of the trial that were lost without a counted reason."""
        return sum(max(0, hop.unexplained) - ended for hop, (_, ended) in zip(self.hops, self.foreign, strict=True))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One hop or reason: e.g. hop "p1 tx", reason "ovs_tx_failure_drops", frames 120."""

    hop: str
    reason: str
    frames: int


@dataclass(frozen=True, slots=True)
class ClassFrames:
    """Frames of one class of a mix, in one direction, such as "p0->p1"."""

    name: str
    direction: str
    offered: int
    received: int

    @property
    def lost(self) -> int:
        return self.offered - self.received


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where frames went in one trial.

    Attributes:
        offered, received: frames, over all directions.
        lines: explained losses, by hop and reason.
        unexplained: lost - sum of lines. Never clamped: below 0 if counters counted frames of others as lost.
        deltas: changes of the counters that moved.
        paths: the same hop by hop, one path a direction. None if directions share ports: no counter can tell
            them apart.
        beside: other ports that sent frames of no path.
        notes: what else is worth knowing, as sentences.
        branches: one path for each mirror's copies, from the frames that were selected to those that the monitor
            got. Losses of copies are not losses of the trial.
        classes: of a mix, which lost; they add up to the paths. No counter of a DUT tells them apart at a hop.
        counted: errors that the DUT counted beside drops on the paths.
    """

    offered: int
    received: int
    lines: tuple[LedgerLine, ...]
    unexplained: int
    deltas: tuple[CounterDelta, ...] = ()
    paths: tuple[FramePath, ...] = ()
    beside: tuple[Hop, ...] = ()
    notes: tuple[str, ...] = ()
    branches: tuple[FramePath, ...] = ()
    classes: tuple[ClassFrames, ...] = ()
    counted: tuple[Loss, ...] = ()

    @property
    def lost(self) -> int:
        return self.offered - self.received

    @property
    def ends(self) -> list[tuple[str, int, int, int]]:
        """Of each direction: frames offered, those that the DUT's last port sent, and those that the generator got."""
        whole = (path for path in self.paths if len(path.hops) > 1 and path.hops[-1].kind is HopKind.GENERATOR)
        return [(path.direction, path.offered, path.hops[-1].entered, path.received) for path in whole]

    @property
    def foreign(self) -> int:
        """Counted frames that are not the trial's: frames of others, or drops that were counted twice."""
        return sum(path.foreign_joined for path in self.paths) if self.paths else max(0, -self.unexplained)

    @property
    def unaccounted(self) -> int:
        """Frames of the trial that were lost without a counted reason."""
        return sum(path.unaccounted for path in self.paths) if self.paths else max(0, self.unexplained)

    def dropped(self, reasons: tuple[str, ...]) -> int:
        """Frames by lines whose reason begins so. As many as ``foreign`` may be of others, and do not count."""
        return max(0, sum(line.frames for line in self.lines if line.reason.startswith(reasons)) - self.foreign)

    @property
    def unnamed_in_datapath(self) -> int:
        """Frames lost in the datapath for a reason that its own drop counters may still name.

        These settle late (``ports.datapath.Collector.settled``), so the trial waits for them only if this is above 0.
        Frames that the datapath took for itself, such as those of a BGP session, are missing at a hop but not lost.
        """
        if not self.paths:
            return max(self.unexplained, 0)
        in_datapath = [
            sum(max(hop.unexplained, 0) for hop in path.hops if hop.kind is HopKind.DATAPATH) for path in self.paths
        ]
        return sum(min(here, max(path.unexplained, 0)) for here, path in zip(in_datapath, self.paths, strict=True))


def ledger_of(
    paths: Sequence[FramePath],
    deltas: Sequence[CounterDelta] = (),
    beside: Sequence[Hop] = (),
    notes: Sequence[str] = (),
) -> Ledger:
    lines = tuple(
        LedgerLine(hop.name, loss.reason, loss.frames) for path in paths for hop in path.hops for loss in hop.losses
    )
    offered, received = sum(path.offered for path in paths), sum(path.received for path in paths)
    unexplained = sum(path.unexplained for path in paths)
    return Ledger(offered, received, lines, unexplained, tuple(deltas), tuple(paths), tuple(beside), tuple(notes))


def with_classes(ledger: Ledger, result: TrialResult) -> Ledger:
    """Add what each class of the trial's mix offered and received, and where connections failed."""
    frames = (
        ClassFrames(class_counts.name, str(count.direction), count.offered, count.received)
        for class_counts in result.classes
        for count in class_counts.counts
    )
    counts = [count for each in result.classes for count in each.counts] or result.counts
    return replace(ledger, classes=tuple(frames), notes=(*failures(counts), *ledger.notes))


def counter_deltas(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> tuple[CounterDelta, ...]:
    """Deltas of all sources, and their sums over nodes. Snapshots are paired by source."""
    later = {snapshot.source: snapshot for snapshot in after}
    changes = [delta for early in before if early.source in later for delta in deltas(early, later[early.source])]
    return (*changes, *sums(changes, nodes_of(before)))


def deltas(before: CounterSnapshot, after: CounterSnapshot) -> tuple[CounterDelta, ...]:
    """Differences of the counters that both snapshots have, by name."""
    old, new = before.as_dict(), after.as_dict()
    return tuple(
        CounterDelta(name, new[name] - old[name], new[name] < old[name] and not _MAY_FALL.search(name))
        for name in sorted(old.keys() & new.keys())
    )


# The ledger as text: the path of the frames, downwards, with the loss at the hop where it happened.
#
#     p0 -> p1: 10,000 offered, 9,000 received, 1,000 lost
#           10,000  generator p0
#           10,000  p0 rx
#      ->    9,000  br0              1,000 lost: drop_action_of_pipeline (priority=200,in_port=1 actions=drop)
#            9,000  p1 tx
#            9,000  generator p1
#
# The number is what came out of the hop.


def ledger_text(ledger: Ledger) -> str:
    """The paths of the frames; without paths, the losses by hop and reason."""
    blocks = [_path_text(path) for path in ledger.paths] or [_table_text(ledger)]
    blocks += [_path_text(branch, "copies due") for branch in ledger.branches]
    if ledger.classes:
        blocks.append("\n".join(["by class:", *class_rows(ledger.classes)]))
    if ledger.beside:
        blocks.append("\n".join(["beside the path (copies, not the trial's frames):", *_hop_rows(ledger.beside)]))
    if ledger.notes:
        blocks.append("\n".join(f"note: {note}" for note in ledger.notes))
    return "\n\n".join(blocks)


def class_rows(classes: Sequence[ClassFrames]) -> list[str]:
    """``  voice  p0 -> p1: 1,000 offered, 900 received, 100 lost``, a row for each class and direction."""
    name = max(len(frames.name) for frames in classes)
    return [
        f"  {frames.name:<{name}}  {frames.direction.replace('->', ' -> ')}: {frames.offered:,} offered, "
        f"{frames.received:,} received, {frames.lost:,} lost"
        for frames in classes
    ]


def loss_sort_key(spec: TrialSpec) -> tuple[int, bool]:
    """Sort key for trials that lost frames: the lowest load first, warm-ups last."""
    return spec.load_fps, spec.purpose == "warm-up"


def _path_text(path: FramePath, entered: str = "offered") -> str:
    rest = f", {path.unaccounted:,} of them unexplained" if path.unaccounted else ""
    rest += f"; frames of others in the counters: {path.foreign_joined:,}" if path.foreign_joined else ""
    head = (
        f"{path.direction.replace('->', ' -> ')}: {path.offered:,} {entered}, {path.received:,} received, "
        f"{path.lost:,} lost{rest}"
    )
    return "\n".join([head, *_hop_rows(path.hops, path.foreign)])


def _hop_rows(hops: Sequence[Hop], foreign: Sequence[tuple[int, int]] = ()) -> list[str]:
    wide = max(len(f"{max(hop.left, hop.entered):,}") for hop in hops)
    name = min(max(len(hop.name) for hop in hops), _LONGEST_HOP)
    rows = []
    for hop, others in zip(hops, foreign or [(0, 0)] * len(hops), strict=True):
        losses = hop_losses(hop, others) or [""]
        mark = "->" if hop.missing > 0 else "  "
        rows.append(f" {mark} {hop.left:>{wide},}  {hop.name:<{name}}  {losses[0]}".rstrip())
        rows += [" " * (4 + wide + 2 + max(name, len(hop.name)) + 2) + more for more in losses[1:]]
    return rows


def hop_losses(hop: Hop, others: tuple[int, int]) -> list[str]:
    """A line for each reason, for the unexplained rest, and for frames of others (``others`` as FramePath.foreign)."""
    joined, ended = others
    lines = [
        f"{loss.frames:,} lost: {loss.reason}" + (f" ({loss.detail})" if loss.detail else "") for loss in hop.losses
    ]
    lines += [f"{hop.unexplained - ended:,} lost, unexplained"] if hop.unexplained > ended else []
    lines += [f"{ended:,} of others end here"] if ended else []
    return lines + ([f"{joined:,} {OF_OTHERS}"] if joined else [])


def _table_text(ledger: Ledger) -> str:
    rows = [("offered", "", ledger.offered)]
    rows += [(line.hop, line.reason, -line.frames) for line in ledger.lines]
    rows += [("received", "", ledger.received), ("unexplained", "", ledger.unaccounted)]
    rows += [("of others, or counted twice", "", -ledger.foreign)] if ledger.foreign else []
    hops = max(len(hop) for hop, _, _ in rows)
    reasons = max(len(reason) for _, reason, _ in rows)
    return "\n".join(f"{hop:<{hops}}  {reason:<{reasons}}  {frames:>15,}" for hop, reason, frames in rows)


# Counters of several nodes. A source is named after its node, "node1.ovs", so snapshots of two nodes are never paired.
# A port's counters keep their names, because a topology has each port once. Counters of a whole node begin with its
# name, "node1.pmd.packets_received".


def on_node(snapshot: CounterSnapshot, node: str, ports: Collection[str]) -> CounterSnapshot:
    """Add the node to the source, and to the names of counters that are not a port's."""
    common = {*ports, _OF_MACHINE}
    named = (
        (name if name.partition(".")[0] in common else f"{node}.{name}", value) for name, value in snapshot.counters
    )
    return CounterSnapshot(f"{node}.{snapshot.source}", snapshot.time_ns, tuple(sorted(named)))


def off_node(snapshot: CounterSnapshot, node: str) -> CounterSnapshot:
    """The reverse of ``on_node``."""
    named = ((name.removeprefix(f"{node}."), value) for name, value in snapshot.counters)
    return CounterSnapshot(kind_of(snapshot.source), snapshot.time_ns, tuple(sorted(named)))


def kind_of(source: str) -> str:
    """``ovs`` of ``node1.ovs``, and of ``ovs``."""
    return source.rpartition(".")[2]


def nodes_of(snapshots: Sequence[CounterSnapshot]) -> list[str]:
    names = (snapshot.source.rpartition(".")[0] for snapshot in snapshots)
    return list(dict.fromkeys(name for name in names if name))


def of_node(moved: Mapping[str, int], node: str, nodes: Sequence[str]) -> dict[str, int]:
    """Changes of one node's counters, without the node in their names; all ports' counters are among them."""
    prefixes = tuple(f"{other}." for other in nodes)
    common = {name: delta for name, delta in moved.items() if not name.startswith(prefixes)}
    own = {name: delta for name, delta in moved.items() if name.startswith(f"{node}.")}
    return common | {name.removeprefix(f"{node}."): delta for name, delta in own.items()}


def sums(changes: Sequence[CounterDelta], nodes: Sequence[str]) -> list[CounterDelta]:
    """Changes of the nodes' own counters, added up over the nodes."""
    total = Counter[str]()
    for change in changes:
        node, _, name = change.name.partition(".")
        if node in nodes:
            total[name] += change.delta
    return [CounterDelta(name, delta, went_back=False) for name, delta in sorted(total.items())]


def as_one(snapshots: Sequence[CounterSnapshot], kinds: Collection[str]) -> CounterSnapshot:
    """One snapshot of these kinds, as if of one DUT: counters that each node has are added up."""
    chosen = [snapshot for snapshot in snapshots if kind_of(snapshot.source) in kinds]
    total = Counter[str]()
    for snapshot in chosen:
        node = snapshot.source.rpartition(".")[0]
        total.update({name.removeprefix(f"{node}."): value for name, value in snapshot.counters})
    return CounterSnapshot(kind_of(chosen[0].source), chosen[0].time_ns, tuple(sorted(total.items())))


# A path is built from stages.


@dataclass(frozen=True, slots=True)
class PathStage:
    """A hop as its counters show it. ``left``: frames that came out of it; None if nobody counts them."""

    name: str
    kind: HopKind
    left: int | None
    losses: tuple[Loss, ...] = ()
    node: str = ""


def frame_path(direction: str, offered: int, stages: Sequence[PathStage]) -> FramePath:
    """Chain the stages. A stage whose output nobody counts becomes one hop with the next.

    Raises:
        ValueError: no stages, or nobody counts what leaves the last.
    """
    hops: list[Hop] = []
    open_stages: list[PathStage] = []
    entered = offered
    for stage in stages:
        open_stages.append(stage)
        if stage.left is not None:
            hops.append(_one_hop(open_stages, entered, stage.left))
            entered = stage.left
            open_stages = []
    if open_stages:
        raise ValueError(f"path {direction}: nobody counted what came out of {open_stages[-1].name!r}")
    return FramePath(direction, tuple(hops))


def _one_hop(stages: Sequence[PathStage], entered: int, left: int) -> Hop:
    kinds = {stage.kind for stage in stages}
    # The datapath's reasons apply to any hop that it is part of.
    kind = HopKind.DATAPATH if HopKind.DATAPATH in kinds else stages[-1].kind
    losses = tuple(loss for stage in stages for loss in stage.losses if loss.frames > 0)
    node = next((stage.node for stage in reversed(stages) if stage.node), "")
    return Hop(", ".join(stage.name for stage in stages), kind, entered, left, losses, node)


def attribute(
    paths: Sequence[FramePath], pool: Mapping[str, int], details: Mapping[str, str] | None = None, node: str = ""
) -> tuple[tuple[FramePath, ...], dict[str, int]]:
    """Attribute losses that the datapath counts as a whole to the hops with unexplained losses.

    Several hops share them by what each lacks, and the loss says so. A hop never gets more than it lacks: the rest
    was not of this trial (learning frames, neighbour discovery).

    Args:
        paths: of all directions.
        pool: frames by reason, the surest first.
        details: what to say of a reason.
        node: whose datapath counted, if there are several.

    Returns:
        The paths with the reasons, and what remains of the pool.
    """
    hops = [hop for path in paths for hop in path.hops]
    lacking = [max(hop.unexplained, 0) if hop.kind is HopKind.DATAPATH and hop.node == node else 0 for hop in hops]
    losses: list[list[Loss]] = [[] for _ in lacking]
    left: dict[str, int] = {}
    for reason, frames in pool.items():
        parts = spread(frames, lacking)
        several = sum(1 for lack in lacking if lack) > 1
        for number, share in enumerate(parts):
            if share:
                detail = "; ".join(filter(None, [(details or {}).get(reason, ""), _SHARED if several else ""]))
                losses[number].append(Loss(reason, share, detail))
                lacking[number] -= share
        if frames > sum(parts):
            left[reason] = frames - sum(parts)
    added = iter(losses)
    explained = (
        FramePath(path.direction, tuple(replace(hop, losses=(*hop.losses, *next(added))) for hop in path.hops))
        for path in paths
    )
    return tuple(explained), left


def spread(frames: int, lacking: Sequence[int]) -> list[int]:
    """Share out frames by what each lacks, never more than that."""
    return list(lacking) if frames >= sum(lacking) else shares(frames, lacking)
