"""Counters on the way of a frame, and what they say about loss (MEASURING.md rule 8).

A counter that the source does not offer is absent, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """All counters of one source at one moment: ``(("dpdkvhost0.rx_packets", 12), ...)``, sorted by name."""

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


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One hop or reason: e.g. hop "p1 (vhost-user tx)", reason "ovs_tx_failure_drops", frames 120."""

    hop: str
    reason: str
    frames: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where frames went in one trial. ``unexplained`` = lost - sum of lines; never clamped."""

    offered: int
    received: int
    lines: tuple[LedgerLine, ...]
    unexplained: int
    deltas: tuple[CounterDelta, ...] = ()


def deltas(before: CounterSnapshot, after: CounterSnapshot) -> tuple[CounterDelta, ...]:
    """Differences of the counters present in both snapshots, by name."""
    old, new = before.as_dict(), after.as_dict()
    return tuple(
        CounterDelta(name, new[name] - old[name], new[name] < old[name]) for name in sorted(old.keys() & new.keys())
    )


def ledger_text(ledger: Ledger) -> str:
    """The way of the frames as lines of text: offered, each hop's losses by reason, received, the rest."""
    rows = [("offered", "", ledger.offered)]
    rows += [(line.hop, line.reason, -line.frames) for line in ledger.lines]
    rows += [("received", "", ledger.received), ("unexplained", "", ledger.unexplained)]
    hops = max(len(hop) for hop, _, _ in rows)
    reasons = max(len(reason) for _, reason, _ in rows)
    return "\n".join(f"{hop:<{hops}}  {reason:<{reasons}}  {frames:>15,}" for hop, reason, frames in rows)
