"""From what the engine says about itself to the reasons why a trial says nothing about the DUT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.traffic.trial import DirectionCounts, InvalidReason, Reason, RigHealth, TrialSpec
from pytest_nfvperf.model.traffic.undisturbed import Undisturbed
from pytest_nfvperf.ports.generator import GeneratorPort

BYSTANDERS = ("arp", "ipv6", "lldp", "stp")
"""Foreign frames that a healthy switch or host sends on its own: counted, but no reason."""


MOST_SKIPPED_UNDISTURBED = 0.02
"""Share of the frames due in undisturbed windows that may be skipped: the load of those windows is what was offered."""


@dataclass(frozen=True, slots=True)
class ValidityPolicy:
    """How much of its own failing the rig may forgive itself.

    Attributes:
        max_skipped_ratio: share of a direction's intended frames that may be skipped because the
            generator was not running, or fell behind. 0.5 %: the load was right within that.
        max_skipped_saturating: the same of a trial whose load is only to be above what the DUT takes: the time
            in which the generator was absent is taken off its rate.
        max_skipped_windowed: the same where only undisturbed windows count, in which the generator was there.
        max_poll_gap_ns: a longer gap spoils a trial on any port.
        max_foreign_frames: frames of earlier trials, misdirected or unknown ones, per trial.
        may_fall_behind: the load is meant to be above what the generator sends: windows tell whether it was the limit.
        undated: there are windows, and too few undisturbed ones. A loss says nothing then, and the search is told so
            (TrialResult.says_nothing): a generator that fell behind as well, in a shared core, makes it no worse.
        cpus: of the generator's polling threads, which the reasons name; empty where nobody knows them.
    """

    max_skipped_ratio: float = 0.005
    max_skipped_saturating: float = 0.05
    max_skipped_windowed: float = 0.5
    max_poll_gap_ns: int = 250_000_000
    max_foreign_frames: int = 0
    may_fall_behind: bool = False
    undated: bool = False
    cpus: tuple[int, ...] = ()

    def of(self, spec: TrialSpec, *, dated: bool = False) -> ValidityPolicy:
        """The policy for one trial. ``dated``: enough of it was undisturbed, and its loss is that of those windows."""
        windowed = dated or (spec.saturating and spec.window_s is not None)
        if not (windowed or spec.saturating):
            return replace(self, undated=spec.window_s is not None)
        allowed = max(self.max_skipped_ratio, self.max_skipped_windowed if windowed else self.max_skipped_saturating)
        return replace(self, max_skipped_ratio=allowed, may_fall_behind=spec.saturating and windowed)


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What one direction's counts do not hold.

    ``fell_behind`` is part of the skipped frames; ``highest_seq`` is one above the highest
    sequence number received; ``beyond_window`` frames came too late to be told from duplicates.
    """

    fell_behind: int
    highest_seq: int
    beyond_window: int


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What the engine says of a receiving port: foreign frames by kind, whether its peer waits when it is full."""

    foreign: Mapping[str, int]
    back_pressure: bool


def judge(
    counts: Sequence[DirectionCounts],
    facts: Sequence[StreamFacts],
    ports: Mapping[str, PortFacts],
    attached: Mapping[str, GeneratorPort],
    health: RigHealth,
    policy: ValidityPolicy,
    dated: Undisturbed | None = None,
) -> tuple[InvalidReason, ...]:
    """All reasons, in the order of the directions. ``dated``: undisturbed windows, where they are enough."""
    reasons: list[InvalidReason] = []
    if policy.undated and any(count.lost > 0 for count in counts):
        policy = replace(policy, may_fall_behind=True)
    for count, fact in zip(counts, facts, strict=True):
        reasons += _skipped(count, fact, policy)
        reasons += _miscounted(count, fact)
        if dated is None:
            reasons += _late_poll(count, ports[count.direction.rx], attached, health)
    if dated is not None:
        reasons += _skipped_undisturbed(dated)
    reasons += _foreign(ports, policy)
    reasons += _gap(health, policy)
    return tuple(reasons)


def foreign_frames(foreign: Mapping[str, int]) -> int:
    """Foreign frames that nobody but a broken rig or DUT sends."""
    return sum(frames for kind, frames in foreign.items() if kind not in BYSTANDERS)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} frames ({part / whole:.2%})"


def _skipped(count: DirectionCounts, fact: StreamFacts, policy: ValidityPolicy) -> Iterator[InvalidReason]:
    allowed = policy.max_skipped_ratio * count.intended
    absent, behind = count.skipped - fact.fell_behind, 0 if policy.may_fall_behind else fact.fell_behind
    if absent + behind <= allowed:
        return
    limit = f"limit {policy.max_skipped_ratio:.2%}"
    if absent >= behind:
        detail = f"{count.direction}: {_share(absent, count.intended)} were due while the generator was not running"
        yield InvalidReason(Reason.SKIPPED_FRAMES, f"{detail}, {limit}{_remedy(policy.cpus)}")
    if behind > allowed or behind > absent:
        detail = f"{count.direction}: {_share(behind, count.intended)} were due faster than it could send"
        yield InvalidReason(Reason.FELL_BEHIND, f"{detail}, {limit}")


def _remedy(cpus: Sequence[int]) -> str:
    """Which CPU was taken from the generator, and what to do about it."""
    if not cpus:
        return ""
    named = f"CPU{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"
    return (
        f"; other work took {named} from it: let nothing else run there, "
        "or give the generator CPUs of its own ('cpus: {generator: [...]}' in the testbed file)"
    )


def _skipped_undisturbed(dated: Undisturbed) -> Iterator[InvalidReason]:
    """A load that the generator does not hold while nobody disturbs it is too high for it.

    Where the DUT lost more than the generator left out, it is too high for the DUT, whatever the generator holds.
    """
    if dated.skipped_ratio > MOST_SKIPPED_UNDISTURBED and dated.lost <= dated.due - dated.offered:
        behind = _share(dated.due - dated.offered, dated.due)
        limit = f"limit {MOST_SKIPPED_UNDISTURBED:.2%}"
        yield InvalidReason(
            Reason.FELL_BEHIND, f"in undisturbed windows {behind} were due faster than it could send, {limit}"
        )


def _miscounted(count: DirectionCounts, fact: StreamFacts) -> Iterator[InvalidReason]:
    if count.received > count.sent or fact.highest_seq > count.sent:
        detail = f"{count.direction}: sent {count.sent}, received {count.received}, highest number {fact.highest_seq}"
        yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, detail)
    if count.corrupted:
        detail = f"{count.direction}: {count.corrupted} of {count.received} received frames were not as sent"
        yield InvalidReason(Reason.CORRUPT_FRAMES, detail)
    if fact.beyond_window:
        detail = f"{count.direction}: {fact.beyond_window} frames came over a million frames late"
        yield InvalidReason(Reason.FOREIGN_FRAMES, detail)


def _late_poll(
    count: DirectionCounts, rx: PortFacts, attached: Mapping[str, GeneratorPort], health: RigHealth
) -> Iterator[InvalidReason]:
    """A loss that a gap in our own polling may have caused is no loss of the DUT's."""
    gap_ns = health.longest_poll_gap_ns
    if gap_ns is None or count.sent <= count.received or count.elapsed_ns <= 0:
        return
    ring = attached[count.direction.rx].rx_descriptors
    if rx.back_pressure and 2 * attached[count.direction.tx].tx_descriptors <= ring:
        return  # what is in flight fits while nobody polls
    arriving = count.sent * gap_ns // count.elapsed_ns
    if arriving > ring:
        detail = f"{count.direction}: not polled for {gap_ns / 1e6:.1f} ms, {arriving} frames; the ring holds {ring}"
        yield InvalidReason(Reason.LATE_POLL, detail)


def _foreign(ports: Mapping[str, PortFacts], policy: ValidityPolicy) -> Iterator[InvalidReason]:
    for name, port in ports.items():
        if foreign_frames(port.foreign) > policy.max_foreign_frames:
            kinds = ", ".join(f"{frames} {kind}" for kind, frames in port.foreign.items() if frames)
            yield InvalidReason(Reason.FOREIGN_FRAMES, f"{name}: received frames not of this trial: {kinds}")


def _gap(health: RigHealth, policy: ValidityPolicy) -> Iterator[InvalidReason]:
    gap_ns = health.longest_poll_gap_ns
    if gap_ns is not None and gap_ns > policy.max_poll_gap_ns:
        limit = f"limit {policy.max_poll_gap_ns / 1e6:.0f} ms"
        yield InvalidReason(Reason.LATE_POLL, f"the generator did not run for {gap_ns / 1e6:.1f} ms, {limit}")
