"""Reasons for invalidity that only the testbed's own counters can give.

The generator judges itself; here the DUT's side is looked at: counters that fell, and a
poll-mode thread that was kept off its CPU by the kernel or the host below it. On a machine whose cores are shared,
a PMD that is preempted for 4 ms at 4 Mpps leaves 16,000 frames undrained. That is
neither OVS's doing nor something a NIC vendor ships, so a trial whose whole loss fits into
the time stolen from the PMDs says nothing about the DUT, and is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot, deltas
from pytest_nfvperf.model.measure.stolen_time import STOLEN_FLOOR_NS, STOLEN_SLACK
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason, TrialResult

LINK_LOSSES = ".link_losses"
"""Of a port: how often it lost its link. One that did during a trial was pulled by somebody."""

STOLEN_COUNTER = "pmd-sched.kept_off_ns"
OWN_COUNTER = "pmd-sched.beside_run_ns"
"""What the DUT's own main thread took of a PMD's CPU is the DUT's doing: not stolen."""

MOST_STOLEN = 0.01
"""Share of a saturating trial that PMDs may wait for a CPU: their rate is too low by as much."""


def counter_deltas(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> tuple[CounterDelta, ...]:
    """Deltas of all sources; snapshots are paired by source."""
    later = {snapshot.source: snapshot for snapshot in after}
    return tuple(delta for early in before if early.source in later for delta in deltas(early, later[early.source]))


def testbed_reasons(result: TrialResult, changes: Sequence[CounterDelta]) -> tuple[InvalidReason, ...]:
    """What the testbed's counters say against a trial."""
    reasons = [
        InvalidReason(Reason.COUNTER_WENT_BACK, f"{change.name} fell by {-change.delta}")
        for change in changes
        if change.went_back
    ]
    reasons += [
        InvalidReason(
            Reason.LINK_DOWN, f"{change.name.removesuffix(LINK_LOSSES)} lost its link {change.delta}x meanwhile"
        )
        for change in changes
        if change.name.endswith(LINK_LOSSES) and change.delta > 0
    ]
    stolen = _stolen_share(result, changes) if result.spec.saturating else _stolen_reason(result, changes)
    return (*reasons, stolen) if stolen else tuple(reasons)


def _stolen_share(result: TrialResult, changes: Sequence[CounterDelta]) -> InvalidReason | None:
    """Where the rate counts, a PMD that did not run is a rate that was not reached."""
    stolen_s = _stolen_ns(changes) / 1e9
    if stolen_s <= MOST_STOLEN * result.spec.duration_s:
        return None
    return InvalidReason(
        Reason.DUT_CPU_STOLEN,
        f"the host kept PMD threads off their CPU for {stolen_s * 1e3:.2f} ms, "
        f"above {MOST_STOLEN:.0%} of the trial, so its rate is too low",
    )


def _stolen_ns(changes: Sequence[CounterDelta]) -> int:
    waited, own = (
        sum(change.delta for change in changes if change.name == name) for name in (STOLEN_COUNTER, OWN_COUNTER)
    )
    return max(0, waited - own)


def _holds(result: TrialResult) -> bool:
    """A goal that was met although the CPU was taken is met."""
    goal, ratio = result.spec.give_up_loss, result.loss_ratio
    return goal is not None and ratio is not None and ratio <= goal


def _stolen_reason(result: TrialResult, changes: Sequence[CounterDelta]) -> InvalidReason | None:
    stolen_ns = _stolen_ns(changes)
    offered_fps = result.offered_fps
    if result.lost <= 0 or stolen_ns < STOLEN_FLOOR_NS or offered_fps is None or _holds(result):
        return None
    explained = offered_fps * len(result.counts) * stolen_ns / 1e9 * STOLEN_SLACK
    if result.lost > explained:
        return None
    return InvalidReason(
        Reason.DUT_CPU_STOLEN,
        f"the host kept PMD threads off their CPU for {stolen_ns / 1e6:.2f} ms, "
        f"which explains up to {explained:.0f} lost frames; {result.lost} were lost",
    )
