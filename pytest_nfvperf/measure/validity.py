"""Whether a trial counts: reasons that make it invalid, and how long a run waits for its machine to come to rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.model.display import format_ratio
from pytest_nfvperf.model.errors import GeneratorError, InconclusiveError
from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot, HopKind, Ledger, deltas, nodes_of, sums
from pytest_nfvperf.model.measure.cpu_account import KEPT_OFF_FLOOR_NS, KEPT_OFF_SLACK
from pytest_nfvperf.model.traffic.trial import (
    MOST_NOT_OFFERED,
    DirectionCounts,
    InvalidReason,
    Reason,
    TrialResult,
)

# How long a run waits for its machine to come to rest: in vain on a host that shares its cores all the time.
#
# Searches repeat inconclusive trials; all trials wait for the near band of CPU distance. Each has a patience.

PATIENCE_S = 20.0
"""How long a search may spend on trials that were too disturbed to say whose a loss was, or were invalid, in all; and
how long the near band is waited for."""

LEAST_S = 5.0
"""What is left of it where those before waited in vain."""


@dataclass(slots=True)
class Patience:
    """Time that a wait may take.

    ``allowed_s`` halves after each wait that spent all of it, down to LEAST_S: a host that shares its cores goes on
    doing so. It is whole again after one that did not.
    """

    allowed_s: float = PATIENCE_S

    def learn(self, left_s: float) -> None:
        self.allowed_s = PATIENCE_S if left_s > 0 else max(LEAST_S, self.allowed_s / 2)


# How often a trial that the rig disturbed is run again, and the error when none was valid.

MOVED_S = 60.0
"""How long repeats may take that only a host needs that moves CPUs, the waiting for its near band with them, s."""


class _Judged(Protocol):
    @property
    def invalid(self) -> tuple[InvalidReason, ...]: ...


class InvalidMeasurement(Protocol):
    """A trial, or a run of streams, with its place in the evidence."""

    @property
    def id(self) -> str:
        """Its record."""
        ...

    @property
    def result(self) -> _Judged:
        """With the reasons why it says nothing."""
        ...


class Timed(InvalidMeasurement, Protocol):
    """One that says what it took."""

    @property
    def wall_s(self) -> float:
        """From call to counts, s: waiting for the host is in it."""
        ...


class InvalidTrialsError(InconclusiveError):
    """No valid trial within the budget: the rig is too disturbed to say anything about the DUT."""

    def __init__(self, trials: Sequence[InvalidMeasurement]) -> None:
        self.trials = tuple(trials)
        codes = Counter(str(reason.code) for trial in trials for reason in trial.result.invalid)
        self.codes = tuple(codes)
        self.counted = ", ".join(f"{code} {count}x" for code, count in codes.most_common())
        last = trials[-1]
        super().__init__(
            f"{_in_a_row(len(trials))} invalid ({self.counted}); "
            f"the last, {last.id}: {'; '.join(map(str, last.result.invalid))}"
        )


def _in_a_row(trials: int) -> str:
    return "the only trial was" if trials == 1 else f"{trials} trials in a row were"


class RepeatBudget:
    """Repeats of one trial, beside those for a host that moves CPUs, which have a time instead of a number.

    A disturbance by the DUT or the rig comes again in each repeat. A host that moves CPUs lets them stay for seconds or
    minutes, and then a trial is as good as any.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self._spoiled: list[Timed] = []
        self._moved = 0
        self._moved_s = 0.0

    @property
    def last(self) -> str | None:
        """Id of the trial that the next one repeats; None before the first was spoiled."""
        return self._spoiled[-1].id if self._spoiled else None

    def spend(self, trial: Timed, borne: frozenset[Reason] = frozenset()) -> None:
        """Count a disturbed trial; InvalidTrialsError where it was the last that the budget allows.

        ``borne``: reasons that would not have made it invalid by themselves.
        """
        self._spoiled.append(trial)
        codes = {reason.code for reason in trial.result.invalid} - borne
        if codes == {Reason.CPU_MOVED} and self._moved_s < MOVED_S:
            self._moved += 1
            self._moved_s += trial.wall_s
        if len(self._spoiled) - self._moved > self._repeats:
            raise InvalidTrialsError(self._spoiled)


# Reasons for invalidity that only the testbed's own counters can give: what speaks against the DUT's side.
#
# On shared cores a PMD that is preempted for 4 ms at 4 Mpps leaves 16,000 frames undrained. Neither OVS nor a
# NIC causes that. So a trial whose whole loss fits into the time that PMDs were kept off their CPU says nothing
# about the DUT, and is repeated.

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


def generator_reasons(result: TrialResult) -> tuple[InvalidReason, ...]:
    """What any generator's own counts say against a trial; GeneratorError for one that is no whole number.

    Engines judge themselves by what only they know. This check holds for all, also for those of third parties.
    """
    reasons = [reason for counts in result.counts for reason in _impossible(counts)]
    known = {reason.code for reason in result.invalid}
    reasons = [reason for reason in reasons if reason.code not in known]
    if result.windows is None and not result.held_load and not known:
        share = format_ratio(result.offered_share)
        detail = f"{share} of the frames due were offered, limit {format_ratio(1 - MOST_NOT_OFFERED)}"
        reasons.append(InvalidReason(Reason.UNSENT, detail))
    return tuple(reasons)


_COUNTS = (
    *("intended", "sent", "refused", "skipped", "received", "duplicated", "out_of_order", "foreign", "corrupted"),
    *("sent_bytes", "received_bytes", "elapsed_ns"),
)


def _impossible(counts: DirectionCounts) -> Iterator[InvalidReason]:
    found = {name: getattr(counts, name) for name in _COUNTS}
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
    """A direction of which the generator received nothing, while the DUT's last port sent half of it or more.

    No DUT loses frames behind its own port: the cable, a filter or the generator's receiving side does.
    """
    if ledger is None:
        return ()
    last = [(path, path.hops[-1]) for path in ledger.paths if path.hops[-1].kind is HopKind.GENERATOR]
    return tuple(
        InvalidReason(
            Reason.IMPOSSIBLE_COUNTS,
            f"{path.direction}: the DUT's last port sent {hop.entered} frames of {path.offered} offered, and the "
            "generator received none: look at the cable and at what filters frames there (nfvperf doctor)",
        )
        for path, hop in last
        if len(path.hops) > 1 and hop.left == 0 and hop.entered * 2 >= path.offered > 0
    )


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


def _holds(result: TrialResult) -> bool:
    """A goal that was met although PMDs were kept off their CPU is met."""
    goal, ratio = result.spec.give_up_loss, result.own_loss_ratio
    return goal is not None and ratio is not None and ratio <= goal


def _loss_explained(result: TrialResult, changes: Sequence[CounterDelta]) -> InvalidReason | None:
    # Our own witnesses take some microseconds a window of the PMDs' CPUs, which rings hold.
    witnesses_ns = sum(witness.took_ns for witness in result.windows.witnesses) if result.windows is not None else 0
    kept_off_ns, lost, offered_fps = _kept_off_cpu_ns(changes) - witnesses_ns, result.lost, result.offered_fps
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
