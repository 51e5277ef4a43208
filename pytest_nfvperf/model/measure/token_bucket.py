"""The token bucket: what a limiter passes of an offered pattern, and how far what it passed is from that.

A pattern is cut into slices of evenly spaced frames. Each bucket begins full, fills at its rate up to its burst, and a
frame passes if the bucket holds its cost. Counted as a fluid, so much passes at most; frames are whole, so that the
largest one may be missing. All is in whole numbers: tokens times 1e9, since times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import MOST_ABSENT
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.topology.limiters import Limiter, LimiterKind
from pytest_nfvperf.model.traffic.trial import DirectionCounts

NANO = 10**9
_CLOCK_NS = 1_000_000
"""A meter's clock counts milliseconds (``dp_netdev_run_meter``); those of policers count cycles."""
_PART_NS = 250_000

Slice = tuple[int, int, int]
"""A part of a trial: its length in ns, the cost of its frames in tokens times 1e9, and for how many ns the machine may
have paused generator or DUT, at any time in it. Frames that were sent in a pause of the DUT came at its end."""


def bucket_passes(pattern: Iterable[Slice], rate: int, burst: int, *, least: bool = False) -> Iterator[int]:
    """Yield the tokens, times 1e9, that a bucket passes of each slice: at most, or at least, whenever its pauses were.

    In a pause it fills up to its burst, and what is beyond that is lost.
    """
    most = tokens = burst * NANO
    for length_ns, cost, paused_ns in pattern:
        gone_ns = paused_ns if least else 0
        credit = rate * (length_ns - gone_ns)
        passed = min(cost, tokens + credit)
        tokens = min(most, min(most, tokens + rate * gone_ns) + credit - passed)
        yield passed


def limiter_passes(limiter: Limiter, pattern: Sequence[Slice], frame: int) -> tuple[int, int, int]:
    """Tokens, times 1e9, that a limiter passes: as a fluid, at least, and at most. ``frame``: cost of the largest one.

    Each band of a meter drains by itself, and the one that passes less decides. What the committed bucket of a trTCM
    leaves goes to that of excess.
    """
    in_series, step_ns = limiter.kind is LimiterKind.TRTCM, _CLOCK_NS if limiter.kind is LimiterKind.METER else 0
    if len(limiter.buckets) > 1:  # a bucket may be empty in the middle of a slice
        step_ns, pattern = max(step_ns, _PART_NS), [part for each in pattern for part in _parts(each)]
    found = []
    for bucket in limiter.buckets:
        through = list(bucket_passes(pattern, *bucket))
        found.append((through, list(bucket_passes(pattern, *bucket, least=True))))
        if in_series:
            pattern = [(ns, cost - own, gone) for (ns, cost, gone), own in zip(pattern, through, strict=True)]
    together = sum if in_series else min
    passed, least = (sum(map(together, zip(*each, strict=True))) for each in zip(*found, strict=True))
    step = together(rate for rate, _ in limiter.buckets) * step_ns
    return passed, least - frame * len(limiter.buckets) - step, passed + step


def _parts(of: Slice) -> Iterator[Slice]:
    """Yield a slice in short parts; one with a long pause as it is, since nobody knows in which part that was."""
    length_ns, cost, paused_ns = of
    count = max(1, length_ns // _PART_NS) if paused_ns <= MOST_ABSENT * length_ns else 1
    for at in range(count):
        yield length_ns // count, cost * (at + 1) // count - cost * at // count, paused_ns // count


@dataclass(frozen=True, slots=True)
class Admission:
    """What a trial passed through a limiter, and what the token bucket passes of its pattern, in tokens times 1e9.

    Attributes:
        length_ns: how long frames were due.
        offered: frames that reached the limiter.
        passed: of the frames received. ``passed_most``: with those that something else lost.
        expected: as a fluid. ``expected_least``, ``expected_most``: with whole frames, the limiter's clock, and what
            the machine's pauses may have cost.
        disturbed: some of the difference may be the machine's.
    """

    length_ns: int
    offered: int
    passed: int
    passed_most: int
    expected: int
    expected_least: int
    expected_most: int
    disturbed: bool

    @property
    def overloaded(self) -> bool:
        """True if more was offered than the limiter passes: otherwise its rate does not show."""
        return self.offered > self.expected_most


def admission(
    limiter: Limiter, result: TrialResult, counts: Sequence[DirectionCounts], dropped: int, largest: int
) -> Admission:
    """Of a trial whose limited frames have these counts.

    ``dropped``: frames that the DUT counted as dropped by the limiter. ``largest``: bytes of the largest, with FCS.
    """
    sent, received = (sum(getattr(each, name) for each in counts) for name in ("sent", "received"))
    offered = limiter.tokens(sent, sum(each.sent_bytes for each in counts)) * NANO
    passed = limiter.tokens(received, sum(each.received_bytes for each in counts)) * NANO
    frame = limiter.tokens(1, largest) * NANO
    pattern = offered_pattern(result, offered, sent)
    expected, least, most = limiter_passes(limiter, pattern, frame)
    elsewhere = max(0, sent - received - dropped)
    paused = any(paused_ns > MOST_ABSENT * length_ns for length_ns, _, paused_ns in pattern)
    length_ns = sum(each[0] for each in pattern)
    return Admission(
        length_ns, offered, passed, passed + elsewhere * frame, expected, least, most, paused or elsewhere > 0
    )


def offered_pattern(result: TrialResult, cost: int, frames: int) -> list[Slice]:
    """When so many frames of a trial, which cost so many tokens together, were sent."""
    due_ns, windows = round(result.due_s * NANO), result.windows
    if windows is None or not frames:
        skipped, intended = sum(each.skipped for each in result.counts), max(1, result.intended)
        return [(due_ns, cost, due_ns * skipped // intended)]
    count = windows.within(result.due_s)
    lengths = [windows.length_ns + late - early for early, late in pairwise((0, *windows.threads[0].late_ns[:count]))]
    costs = [sum(thread.sent[at] for thread in windows.threads) * cost // result.sent for at in range(count)]
    looks = [row for each in windows.witnesses for row in (each.late_ns, each.waited_ns, each.asked_late_ns) if row]
    away = [max((row[at] for row in looks), default=0) for at in range(count)]
    pauses = [own + max(thread.absent_ns[at] for thread in windows.threads) for at, own in enumerate(away)]
    around = [sum(pauses[max(0, at - 1) : at + 2]) for at in range(count)]
    rest = (max(0, due_ns - sum(lengths)), max(0, cost - sum(costs)), sum(around[-1:]))
    most_away = [*(2 * each > windows.length_ns for each in away), False]
    return list(_joined([*zip(lengths, costs, around, strict=True), rest], most_away))


def _joined(slices: Sequence[Slice], most_away: Sequence[bool]) -> Iterator[Slice]:
    """Yield the slices, those in most of which the DUT was away with the next one: there its frames come."""
    length_ns = cost = paused_ns = 0
    for one, goes_on in zip(slices, most_away, strict=True):
        length_ns, cost, paused_ns = length_ns + one[0], cost + one[1], paused_ns + one[2]
        if not goes_on:
            yield length_ns, cost, min(length_ns, paused_ns)
            length_ns = cost = paused_ns = 0


def limiter_figures(limiter: Limiter, short: Admission, long: Admission, what: str, **more: Any) -> Iterator[Figure]:
    """Yield the error of a limiter's rate, and which share of its burst it accepted if that is more than a few frames.

    Both trials begin with a full bucket and empty it. So their difference is the rate's alone; what the short one
    passed beyond that rate is the burst. ``what`` was measured, for a person; ``more``: further fields of the figures.
    """
    part = short.length_ns / (long.length_ns - short.length_ns)
    figures: dict[str, Callable[[float, float], float]] = {
        "rate_error": lambda first, second: second - first,
        "burst_accepted": lambda first, second: first - (second - first) * part,
    }
    corners = [*product((short.passed, short.passed_most), (long.passed, long.passed_most))]
    expected = [*product((short.expected_least, short.expected_most), (long.expected_least, long.expected_most))]
    if short.disturbed or long.disturbed:
        said = "the machine paused generator or DUT, or frames were lost elsewhere"
        more = {"why": (Why.WHOSE_LOSS,), "detail": said, **more}
    for metric, of in figures.items():
        wanted, less = [of(*each) for each in expected], int(metric == "rate_error")
        if min(wanted) <= 0:
            continue
        found = [max(0.0, of(*each)) for each in corners]
        value = max(0.0, of(short.passed, long.passed)) / of(short.expected, long.expected)
        ends = min(found) / max(wanted) - less, max(found) / min(wanted) - less
        yield Figure(
            metric, value - less, "ratio", *ends, confidence=f"{what}: {_confidence(limiter, short, long)}", **more
        )


def _confidence(limiter: Limiter, short: Admission, long: Admission) -> str:
    token = "packets" if limiter.unit == "pktps" else "bits"
    parts = (
        f"{each.passed // NANO:,} of {each.expected // NANO:,} {token} expected in {each.length_ns / NANO:.3g} s"
        for each in (short, long)
    )
    return f"{' and '.join(parts)}, each from a full bucket; counted: {limiter.counted}"
