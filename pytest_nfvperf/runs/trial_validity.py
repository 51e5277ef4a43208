"""Reasons for invalidity that only the testbed's own counters can give.

The generator judges itself. This module judges the DUT's side: counters that fell, and poll-mode threads that the
kernel, or the host below it, kept off their CPU. On a machine with shared cores, a PMD that is preempted for 4 ms at
4 Mpps leaves 16,000 frames undrained. Neither OVS nor a NIC causes that. So a trial whose whole loss fits into the
time that PMDs were kept off their CPU says nothing about the DUT, and is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot, deltas
from pytest_nfvperf.model.ledger.node_counters import nodes_of, sums
from pytest_nfvperf.model.measure.kept_off_cpu import KEPT_OFF_FLOOR_NS, KEPT_OFF_SLACK
from pytest_nfvperf.model.traffic.trial import InvalidReason, Reason, TrialResult

LINK_LOSSES = ".link_losses"
"""Of a port: how often it lost its link. One that did during a trial was pulled by somebody."""

KEPT_OFF_COUNTER = "pmd-sched.kept_off_ns"
OWN_COUNTER = "pmd-sched.beside_run_ns"
"""What the DUT's own main thread took of a PMD's CPU is the DUT's doing, and does not count."""

MOST_KEPT_OFF = 0.01
"""Share of a saturating trial that PMDs may wait for a CPU: their rate is too low by as much."""

MOST_KEPT_OFF_WINDOWED = 0.1
"""The same where the rate is that of the better windows: those in which a PMD waited are not among them."""


def counter_deltas(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> tuple[CounterDelta, ...]:
    """Deltas of all sources; snapshots are paired by source. What nodes count by themselves is there as a sum, too."""
    later = {snapshot.source: snapshot for snapshot in after}
    found = [delta for early in before if early.source in later for delta in deltas(early, later[early.source])]
    return (*found, *sums(found, nodes_of(before)))


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
    cpu = _rate_too_low(result, changes) if result.spec.saturating else _loss_explained(result, changes)
    return (*reasons, cpu) if cpu else tuple(reasons)


def _rate_too_low(result: TrialResult, changes: Sequence[CounterDelta]) -> InvalidReason | None:
    """A saturating trial measures a rate: a PMD that did not run makes it too low."""
    kept_off_s = _kept_off_cpu_ns(changes) / 1e9
    most = MOST_KEPT_OFF if result.windows is None else MOST_KEPT_OFF_WINDOWED
    if kept_off_s <= most * result.spec.duration_s:
        return None
    return InvalidReason(
        Reason.DUT_CPU_STOLEN,
        f"the host kept PMD threads off their CPU for {kept_off_s * 1e3:.2f} ms, "
        f"above {most:.0%} of the trial, so its rate is too low",
    )


def _kept_off_cpu_ns(changes: Sequence[CounterDelta]) -> int:
    waited, own = (
        sum(change.delta for change in changes if change.name == name) for name in (KEPT_OFF_COUNTER, OWN_COUNTER)
    )
    return max(0, waited - own)


def _dated_by_waits(result: TrialResult) -> bool:
    """True where windows in which a PMD waited for its CPU are none of those that are judged."""
    windows = result.windows
    return result.dated is not None and windows is not None and all(seen.waited_ns for seen in windows.witnesses)


def _witnesses_ns(result: TrialResult) -> int:
    """What our own witnesses took of the PMDs' CPUs: some microseconds a window, which rings hold."""
    return sum(witness.took_ns for witness in result.windows.witnesses) if result.windows is not None else 0


def _holds(result: TrialResult) -> bool:
    """A goal that was met although PMDs were kept off their CPU is met."""
    goal, ratio = result.spec.give_up_loss, result.own_loss_ratio
    return goal is not None and ratio is not None and ratio <= goal


def _loss_explained(result: TrialResult, changes: Sequence[CounterDelta]) -> InvalidReason | None:
    kept_off_ns, lost = _kept_off_cpu_ns(changes) - _witnesses_ns(result), result.lost
    offered_fps = result.offered_fps
    if _dated_by_waits(result):
        return None
    if lost <= 0 or kept_off_ns < KEPT_OFF_FLOOR_NS or offered_fps is None or _holds(result):
        return None
    explained = offered_fps * len(result.counts) * kept_off_ns / 1e9 * KEPT_OFF_SLACK
    if lost > explained:
        return None
    return InvalidReason(
        Reason.DUT_CPU_STOLEN,
        f"the host kept PMD threads off their CPU for {kept_off_ns / 1e6:.2f} ms, "
        f"which explains up to {explained:.0f} lost frames; {lost} were lost",
    )
