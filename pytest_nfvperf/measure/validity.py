"""Decides whether a trial counts: reasons that make it invalid, how often it is repeated, how long a run waits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pytest_nfvperf.measure.clocks import TimeLimit
from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.errors import GeneratorError, InconclusiveError
from pytest_nfvperf.model.measure.cpu_account import LEAST_WAIT_NS, WAIT_SLACK
from pytest_nfvperf.model.measure.ledger import CounterDelta, CounterSnapshot, HopKind, Ledger, deltas, nodes_of, sums
from pytest_nfvperf.model.traffic.policy import POLICY
from pytest_nfvperf.model.traffic.trial import DirectionCounts, InvalidReason, Reason, TrialResult
from pytest_nfvperf.ports.datapath import LinkOutage

LINK_LOSSES = ".link_losses"
"""Counter of a port: how often it lost its link. It rises during a trial if somebody pulls the cable."""

_WAITED = "pmd-sched.kept_off_ns"
_OWN = "pmd-sched.beside_run_ns"
"""CPU time that the DUT's own main thread took from a PMD. The DUT caused it, so it does not count."""

_THROTTLED = "pmd-sched.throttled_ns"

_OWN_SOCKET = ("socket_drops", "ring_drops", "xdp_drops")
"""Counters of the far end of a port, where the generator receives by the kernel: it had no room for a frame."""

_WHOLE_NUMBERS = (
    *("intended", "sent", "refused", "skipped", "received", "duplicated", "out_of_order", "foreign", "corrupted"),
    *("misdirected", "sent_bytes", "received_bytes", "elapsed_ns"),
)
_MAY_BE_MISSING = frozenset({"duplicated", "out_of_order", "corrupted", "misdirected"})


@dataclass(slots=True)
class Patience:
    """Time that a wait for a quiet machine may take.

    ``allowed_s`` halves after each wait that spent all of it, down to a minimum: a host that shares its cores continues
    to do so. A wait that ended earlier restores it.
    """

    allowed_s: float = POLICY.patience_s

    def learn(self, left_s: float) -> None:
        self.allowed_s = POLICY.patience_s if left_s > 0 else max(POLICY.least_patience_s, self.allowed_s / 2)


class _Judged(Protocol):
    @property
    def invalid(self) -> tuple[InvalidReason, ...]: ...


class JudgedRun(Protocol):
    """A trial, or a run of streams. ``id``: of its record. ``wall_s``: from call to counts, waits included."""

    @property
    def id(self) -> str: ...

    @property
    def result(self) -> _Judged: ...

    @property
    def wall_s(self) -> float: ...


Measured = TypeVar("Measured", bound=JudgedRun)


class InvalidTrialsError(InconclusiveError):
    """No valid trial within the budget: the rig was too disturbed to measure the DUT."""

    def __init__(self, trials: Sequence[JudgedRun], *, out_of_time: bool = False) -> None:
        self.trials = tuple(trials)
        codes = Counter(str(reason.code) for trial in trials for reason in trial.result.invalid)
        self.codes = tuple(codes)
        self.counted = ", ".join(f"{code} {count}x" for code, count in codes.most_common())
        last = trials[-1]
        row = "the only trial was" if len(trials) == 1 else f"{len(trials)} trials in a row were"
        reasons = "; ".join(map(str, last.result.invalid))
        super().__init__(
            f"{row} invalid ({self.counted}); the last, {last.id}: {reasons}"
            + "; out of time for another" * out_of_time
        )


def repeat_until_valid(
    measure: Callable[[str | None], Measured],
    repeats: int,
    time_limit: TimeLimit,
    tolerated: Callable[[Measured], frozenset[Reason]] = lambda _: frozenset(),
) -> Measured:
    """Measure until nothing makes a measurement invalid; InvalidTrialsError if no repeat within the budget is valid.

    The budget is a number of disturbed trials, and a time for those during which only a CPU moved. A disturbance by the
    DUT or the rig returns in each repeat. A host that moved CPUs then leaves them for seconds or minutes, in which a
    trial is as good as any. None is repeated in time that other tests of the run need.

    ``measure``: its argument is the id of the invalid trial that it repeats, None at first. ``tolerated``: reasons that
    do not make this one invalid.
    """
    disturbed: list[Measured] = []
    moved, moved_s = 0, 0.0
    while True:
        found = measure(disturbed[-1].id if disturbed else None)
        codes = {reason.code for reason in found.result.invalid} - tolerated(found)
        if not codes:
            return found
        disturbed.append(found)
        if codes == {Reason.CPU_MOVED} and moved_s < POLICY.moved_s:
            moved, moved_s = moved + 1, moved_s + found.wall_s
        if len(disturbed) - moved > repeats:
            raise InvalidTrialsError(disturbed)
        if not time_limit.spare_s:
            raise InvalidTrialsError(disturbed, out_of_time=True)


def counter_deltas(before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> tuple[CounterDelta, ...]:
    """Deltas of all sources, and their sums over nodes. Snapshots are paired by source."""
    later = {snapshot.source: snapshot for snapshot in after}
    found = [delta for early in before if early.source in later for delta in deltas(early, later[early.source])]
    return (*found, *sums(found, nodes_of(before)))


def generator_reasons(result: TrialResult) -> tuple[InvalidReason, ...]:
    """Reasons by any generator's own counts; GeneratorError for a count that is no whole number.

    Engines add reasons that only they know. This check covers all of them, third parties' too.
    """
    known = {reason.code for reason in result.invalid}
    reasons = [reason for counts in result.counts for reason in _impossible(counts) if reason.code not in known]
    if result.windows is None and not result.sustained_load and not known:
        share = format_ratio(result.offered_share)
        detail = f"{share} of the frames due were offered, limit {format_ratio(1 - POLICY.most_not_offered)}"
        reasons.append(InvalidReason(Reason.UNSENT, detail))
    return tuple(reasons)


def _impossible(counts: DirectionCounts) -> Iterator[InvalidReason]:
    named = {name: getattr(counts, name) for name in _WHOLE_NUMBERS}
    found = {name: count for name, count in named.items() if count is not None or name not in _MAY_BE_MISSING}
    for name, count in found.items():
        if type(count) is not int:
            raise GeneratorError(
                f"{counts.direction}: the generator says {name} = {count!r}: a whole number belongs there"
            )
    negative = [f"{name} {count}" for name, count in found.items() if count < 0]
    if negative:
        yield InvalidReason(Reason.IMPOSSIBLE_COUNTS, f"{counts.direction}: below 0: {', '.join(negative)}")
    elif counts.received > counts.sent:
        detail = f"{counts.direction}: sent {counts.sent}, received {counts.received}"
        yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, detail)


def unreceived(ledger: Ledger | None) -> tuple[InvalidReason, ...]:
    """Directions in which the generator received nothing, although the DUT's last port sent half of the frames or more.

    A DUT does not lose frames behind its own port: the cable, a filter or the generator's receiving side does.
    """
    paths = ledger.paths if ledger is not None else ()
    last = [(path, path.hops[-1]) for path in paths if path.hops[-1].kind is HopKind.GENERATOR]
    return tuple(
        InvalidReason(
            Reason.IMPOSSIBLE_COUNTS,
            f"{path.direction}: the DUT's last port sent {hop.entered} frames of {path.offered} offered, and the "
            "generator received none: look at the cable and at what filters frames there (nfvperf doctor)",
        )
        for path, hop in last
        if len(path.hops) > 1 and hop.left == 0 and hop.entered * 2 >= path.offered > 0
    )


def outage_reasons(outages: Sequence[LinkOutage], began_ns: int) -> tuple[InvalidReason, ...]:
    """Reasons against a trial during which a port of the DUT had no link. A cable or the other end may be the cause.

    ``began_ns``: when it began, by ``time.monotonic_ns()``.
    """
    return tuple(outage.reason("the DUT's", began_ns) for outage in outages)


def testbed_reasons(result: TrialResult, changes: Sequence[CounterDelta]) -> tuple[InvalidReason, ...]:
    fallen = [change for change in changes if change.went_back]
    reasons = [InvalidReason(Reason.COUNTER_WENT_BACK, f"{each.name} fell by {-each.delta}") for each in fallen]
    for change in changes:
        if change.name.endswith(LINK_LOSSES) and change.delta > 0:
            port = change.name.removesuffix(LINK_LOSSES)
            reasons.append(InvalidReason(Reason.LINK_DOWN, f"{port} lost its link {change.delta}x meanwhile"))
    reasons += _unread(result, changes)
    waited, own, throttled = (
        sum(change.delta for change in changes if change.name == name) for name in (_WAITED, _OWN, _THROTTLED)
    )
    explains = _rate_too_low if result.spec.saturating else _loss_explained
    why = _throttled(result, throttled) or explains(result, max(0, waited - own))
    return (*reasons, InvalidReason(Reason.DUT_CPU_STOLEN, why)) if why else tuple(reasons)


def _unread(result: TrialResult, changes: Sequence[CounterDelta]) -> Iterator[InvalidReason]:
    """Yield a reason for each direction with missing frames, where the kernel dropped frames that we did not read."""
    moved = {change.name: change.delta for change in changes}
    for count in result.counts:
        rx, missing = count.direction.rx, count.sent - count.received
        dropped = [f"{name} {frames}" for name in _OWN_SOCKET if (frames := moved.get(f"{rx}.far.{name}", 0)) > 0]
        if dropped and missing > 0:
            yield InvalidReason(
                Reason.TESTER_DROPS,
                f"{count.direction}: the generator did not read its socket on {rx} in time ({', '.join(dropped)}), "
                f"{missing} frames are missing: send less, or give the generator CPUs of its own",
            )


def _throttled(result: TrialResult, throttled_ns: int) -> str:
    """Why a trial says nothing: a CPU quota kept the DUT off its CPUs, which no window shows; "" if it did no harm."""
    harmless_ns = POLICY.most_kept_off * result.spec.duration_s * 1e9 if result.spec.saturating else LEAST_WAIT_NS
    most_lost = math.inf if result.spec.saturating else _explained(result, throttled_ns)
    if throttled_ns < harmless_ns or not (result.spec.saturating or 0 < result.lost <= most_lost):
        return ""
    return (
        f"the CPU quota of a control group kept the DUT off its CPUs for {throttled_ns / 1e6:.2f} ms: take the limit "
        "away (docker --cpus, cpu.max), or give it CPUs of its own"
    )


def _rate_too_low(result: TrialResult, waited_ns: int) -> str:
    """Why the rate of a saturating trial is too low: a PMD did not run; "" if all ran."""
    waited_s = waited_ns / 1e9
    most = POLICY.most_kept_off if result.windows is None else POLICY.most_kept_off_windowed
    if waited_s <= most * result.spec.duration_s:
        return ""
    return (
        f"the host kept PMD threads off their CPU for {waited_s * 1e3:.2f} ms, "
        f"above {most:.0%} of the trial, so its rate is too low"
    )


def _loss_explained(result: TrialResult, waited_ns: int) -> str:
    """Why a loss says nothing about the DUT: all of it fits into the time that PMDs waited for their CPU; or "".

    On shared cores a PMD that is preempted for 4 ms at 4 Mpps leaves 16,000 frames undrained. Neither OVS nor a NIC
    causes that.
    """
    windows, goal, ratio = result.windows, result.spec.give_up_loss, result.own_loss_ratio
    if result.judged_windows is not None and windows is not None and all(each.waited_ns for each in windows.witnesses):
        return ""  # windows in which a PMD waited are not judged anyway
    # Our own witnesses use the PMDs' CPUs for some microseconds a window. Rings hold the frames that come meanwhile.
    waited_ns -= sum(witness.took_ns for witness in windows.witnesses) if windows is not None else 0
    lost, explained = result.lost, _explained(result, waited_ns)
    if lost <= 0 or waited_ns < LEAST_WAIT_NS:
        return ""
    if goal is not None and ratio is not None and ratio <= goal:
        return ""  # the goal is met although PMDs waited
    if lost > explained:
        return ""
    return (
        f"the host kept PMD threads off their CPU for {waited_ns / 1e6:.2f} ms, "
        f"which explains up to {explained:.0f} lost frames; {lost} were lost"
    )


def _explained(result: TrialResult, off_ns: int) -> float:
    """Most frames that a DUT loses because it was off its CPUs for so long."""
    return (result.offered_fps or 0.0) * len(result.counts) * off_ns / 1e9 * WAIT_SLACK
