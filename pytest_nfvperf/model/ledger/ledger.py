"""Where the frames of a trial were lost (docs/measuring-method.md, rule 8): counters, and the path made from them.

A path is a chain of hops. Frames enter a hop, leave it, or are lost in it for a reason that a counter names:

    entered = left + losses + unexplained

Counters of the DUT count frames of others, too: an ARP request beside the trial joins a path at the hop that counts it
first, and ends at another. Such frames are told by themselves (``FramePath.foreign``), and are no loss.

What leaves a hop enters the next, so over the whole path nothing can disappear between two hops. A counter
that the source does not offer is absent, never 0: then two hops become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """All counters of one source at one moment: ``(("dpdkvhost0.rx_packets", 12), ...)``, sorted by name.

    ``time_ns``: of this machine's monotonic clock (``time.monotonic_ns()``). Rates are made of it, and the wall clock
    may be set meanwhile.
    """

    source: str
    time_ns: int
    counters: tuple[tuple[str, int], ...]

    def as_dict(self) -> dict[str, int]:
        """Counters by name."""
        return dict(self.counters)


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What one counter did between two snapshots; ``went_back`` when it fell."""

    name: str
    delta: int
    went_back: bool


class HopKind(StrEnum):
    """What frames pass: the generator's own ports, a port of the DUT, its datapath, a VNF, the kernel."""

    GENERATOR = "generator"
    PORT = "port"
    DATAPATH = "datapath"
    VNF = "vnf"
    KERNEL = "kernel"


BY_RULE = ("drop_action_", "datapath_drop_meter", "ovs_tx_mtu_", "ovs_tx_qos_", "ovs_rx_qos_")
"""How counters of drops begin that flows, meters, policers and MTUs cause: on any machine, however busy it is."""


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
        kind: what it is.
        entered, left: frames.
        losses: by reason, each above 0.
        node: on which it is; "" where there is one DUT, and for what is beside it.
    """

    name: str
    kind: HopKind
    entered: int
    left: int
    losses: tuple[Loss, ...] = ()
    node: str = ""

    @property
    def missing(self) -> int:
        """Entered and did not leave; negative when more left than entered, such as copies."""
        return self.entered - self.left

    @property
    def unexplained(self) -> int:
        """Missing without a reason; negative when more was counted as lost than is missing. Never clamped."""
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
        """Distinct frames that came back."""
        return self.hops[-1].left

    @property
    def lost(self) -> int:
        """Offered and not received."""
        return self.offered - self.received

    @property
    def unexplained(self) -> int:
        """Of all hops. A surplus at one hop makes up for a lack at another, as frames do."""
        return sum(hop.unexplained for hop in self.hops)

    @property
    def foreign(self) -> tuple[tuple[int, int], ...]:
        """Of each hop the frames of others that it counts: those that joined there, and those that ended there.

        What a hop lacks are theirs as far as they have joined before; then as far as they join behind it, as the frames
        of a BGP session do, which the host takes at one port and sends by another.
        """
        joined = [max(0, -hop.unexplained) for hop in self.hops]
        lacking = [max(0, hop.unexplained) for hop in self.hops]
        ended = [0] * len(self.hops)
        on_their_way = 0
        for at in range(len(self.hops)):
            ended[at] = min(on_their_way, lacking[at])
            on_their_way += joined[at] - ended[at]
        for at in reversed(range(len(self.hops))):
            more = min(on_their_way, lacking[at] - ended[at])
            ended[at] += more
            on_their_way -= more
        return tuple(zip(joined, ended, strict=True))

    @property
    def foreign_joined(self) -> int:
        """Frames of others that joined anywhere, or drops that were counted twice."""
        return sum(joined for joined, _ in self.foreign)

    @property
    def unaccounted(self) -> int:
        """Frames of the trial that were lost for no reason that anybody counted."""
        return sum(max(0, hop.unexplained) - ended for hop, (_, ended) in zip(self.hops, self.foreign, strict=True))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One hop or reason: e.g. hop "p1 tx", reason "ovs_tx_failure_drops", frames 120."""

    hop: str
    reason: str
    frames: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where frames went in one trial.

    Attributes:
        offered, received: frames, over all directions.
        lines: what is explained: frames by hop and reason.
        unexplained: lost - sum of lines; never clamped: below 0 where counters counted frames of others as lost.
        deltas: what the counters did that moved.
        paths: the same hop by hop, one path a direction; none where directions share ports, and then no
            counter tells them apart.
        branches: the copies that mirrors make of the frames on the paths, a path each: from the frames that were
            selected to those that the monitor got. Losses of copies are not losses of the trial.
        beside: other ports that sent frames of no path.
        notes: what else is worth knowing, as sentences.
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

    @property
    def lost(self) -> int:
        """Offered and not received."""
        return self.offered - self.received

    @property
    def foreign(self) -> int:
        """Frames in the counters that are none of the trial's: of others, or drops that were counted twice."""
        return sum(path.foreign_joined for path in self.paths) if self.paths else max(0, -self.unexplained)

    @property
    def unaccounted(self) -> int:
        """Frames of the trial that were lost for no reason that anybody counted."""
        return sum(path.unaccounted for path in self.paths) if self.paths else max(0, self.unexplained)

    @property
    def by_rule(self) -> int:
        """Frames that the DUT dropped because it was told to, BY_RULE: no disturbance of the machine does that.

        Frames of others may be among them: only what they cannot have been counts.
        """
        dropped = sum(line.frames for line in self.lines if line.reason.startswith(BY_RULE))
        return max(0, dropped - self.foreign)

    @property
    def unnamed_in_datapath(self) -> int:
        """Frames lost without a reason where the datapath's own drop counters could name it.

        They settle late (see ``ports.datapath.Settling``) and are waited for only when this is above 0. Frames that
        the datapath took for itself, such as those of a BGP session, are missing at a hop and lost by nobody.
        """
        if not self.paths:
            return max(self.unexplained, 0)
        return sum(_unnamed(path) for path in self.paths)


def _unnamed(path: FramePath) -> int:
    missing = sum(max(hop.unexplained, 0) for hop in path.hops if hop.kind is HopKind.DATAPATH)
    return min(missing, max(path.unexplained, 0))


def ledger_of(
    paths: Sequence[FramePath],
    deltas: Sequence[CounterDelta] = (),
    beside: Sequence[Hop] = (),
    notes: Sequence[str] = (),
) -> Ledger:
    """The ledger of a trial whose every direction has its path."""
    lines = tuple(
        LedgerLine(hop.name, loss.reason, loss.frames) for path in paths for hop in path.hops for loss in hop.losses
    )
    offered, received = sum(path.offered for path in paths), sum(path.received for path in paths)
    unexplained = sum(path.unexplained for path in paths)
    return Ledger(offered, received, lines, unexplained, tuple(deltas), tuple(paths), tuple(beside), tuple(notes))


def deltas(before: CounterSnapshot, after: CounterSnapshot) -> tuple[CounterDelta, ...]:
    """Differences of the counters present in both snapshots, by name."""
    old, new = before.as_dict(), after.as_dict()
    return tuple(
        CounterDelta(name, new[name] - old[name], new[name] < old[name]) for name in sorted(old.keys() & new.keys())
    )
