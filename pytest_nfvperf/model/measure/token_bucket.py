"""The token bucket: what a limiter passes of an offered pattern, and how far what it passed is from that.

A pattern is cut into slices of evenly spaced frames. Each bucket begins full, fills at its rate up to its burst, and a
frame passes if the bucket holds its cost. Counted as a fluid, so much passes at most; frames are whole, so that the
largest one may be missing. All is in whole numbers: tokens times 1e9, since times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import MOST_ABSENT
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.topology.limiters import Limiter
from pytest_nfvperf.model.traffic.trial import DirectionCounts

NANO = 10**9
_CLOCK_NS, _PART_NS = 1_000_000, 250_000
"""A meter's clock counts milliseconds (``dp_netdev_run_meter``); those of policers count cycles. Of several buckets one
may be empty in the middle of a slice, so that no slice is longer than such a part."""

Slice = tuple[int, int, int]
"""A part of a trial: its length in ns, the cost of its frames in tokens times 1e9, and for how many ns the machine may
have paused generator or DUT, at any time in it. Frames that were sent in a pause of the DUT came at its end."""


def limiter_passes(limiter: Limiter, pattern: Iterable[Slice], *, least: bool = False) -> int:
    """Tokens, times 1e9, that a limiter passes of a pattern, as a fluid: at most, or at least, whenever pauses were.

    In a pause a bucket fills up to its burst, and what is beyond that is lost. Each band of a meter drains by itself.
    What the committed bucket of a trTCM leaves goes to that of excess.
    """
    passed, buckets = 0, [(rate, burst * NANO) for rate, burst in limiter.buckets]
    tokens = [most for _, most in buckets]
    for length_ns, cost, paused_ns in pattern:
        left, gone_ns, through = cost, paused_ns if least else 0, []
        for at, (rate, most) in enumerate(buckets):
            credit = rate * (length_ns - gone_ns)
            through.append(min(left, tokens[at] + credit))
            tokens[at] = min(most, min(most, tokens[at] + rate * gone_ns) + credit - through[at])
            left -= through[at] if limiter.kind == "trtcm-policer" else 0
        passed += limiter.together(through)
    return passed


@dataclass(frozen=True, slots=True)
class Admission:
    """What a trial passed through a limiter, and what the token bucket passes of its pattern, in tokens times 1e9.

    Attributes:
        length_ns: how long frames were due.
        offered: frames that reached the limiter.
        passed: of the frames received; and with those that something else lost.
        expected: as a fluid; then at least and at most, with whole frames, the limiter's clock, and what the machine's
            pauses may have cost.
        disturbed: some of the difference may be the machine's.
    """

    length_ns: int
    offered: int
    passed: tuple[int, int]
    expected: tuple[int, int, int]
    disturbed: bool

    @property
    def overloaded(self) -> bool:
        """True if more was offered than the limiter passes: otherwise its rate does not show."""
        return self.offered > self.expected[2]


def admission(
    limiter: Limiter, result: TrialResult, counts: Sequence[DirectionCounts], dropped: int, largest: int
) -> Admission:
    """Of a trial whose limited frames have these counts.

    ``dropped``: frames that the DUT counted as dropped by the limiter. ``largest``: bytes of the largest, with FCS.
    """
    sent, received = (sum(getattr(each, name) for each in counts) for name in ("sent", "received"))
    offered = limiter.tokens(sent, sum(each.sent_bytes for each in counts)) * NANO
    passed = limiter.tokens(received, sum(each.received_bytes for each in counts)) * NANO
    pattern = list(offered_pattern(result, offered))
    expected, least = limiter_passes(limiter, pattern), limiter_passes(limiter, pattern, least=True)
    frame, elsewhere = limiter.tokens(1, largest) * NANO, max(0, sent - received - dropped)
    clocks_ns = [_CLOCK_NS * (limiter.kind == "meter"), _PART_NS * (len(limiter.buckets) > 1)]
    step = sum(rate for rate, _ in limiter.buckets) * max(clocks_ns)
    whole = 2 * frame * len(limiter.buckets)  # the rest of one in the bucket, and what it got after the last frame
    return Admission(
        sum(each[0] for each in pattern),
        offered,
        (passed, passed + elsewhere * frame),
        (expected, least - whole - step, expected + step),
        elsewhere > 0 or any(paused > MOST_ABSENT * length for length, _, paused in pattern),
    )


def offered_pattern(result: TrialResult, cost: int) -> Iterator[Slice]:
    """Yield when frames of a trial were sent that cost so many tokens together, in short slices.

    A window with a long pause is one slice, since nobody knows when in it that was. Where the DUT was away for most of
    it, it is one with the next window: there its frames come.
    """
    due_ns, windows = round(result.due_s * NANO), result.windows
    if windows is None or not result.sent:
        skipped = sum(each.skipped for each in result.counts)
        yield from _parts(due_ns, cost, due_ns * skipped // max(1, result.intended))
        return
    count = windows.within(result.due_s)
    lengths = [windows.length_ns + late - early for early, late in pairwise((0, *windows.threads[0].late_ns[:count]))]
    costs = [sum(thread.sent[at] for thread in windows.threads) * cost // result.sent for at in range(count)]
    looks = [row for each in windows.witnesses for row in (each.late_ns, each.waited_ns, each.asked_late_ns) if row]
    away = [*(max((row[at] for row in looks), default=0) for at in range(count)), 0]
    pauses = [away[at] + max(thread.absent_ns[at] for thread in windows.threads) for at in range(count)]
    around = [sum(pauses[max(0, at - 1) : at + 2]) for at in range(count)]
    rest = max(0, due_ns - sum(lengths)), max(0, cost - sum(costs)), sum(around[-1:])
    joined = [0, 0, 0]
    for at, own in enumerate([*zip(lengths, costs, around, strict=True), rest]):
        joined = [before + more for before, more in zip(joined, own, strict=True)]
        if 2 * away[at] <= windows.length_ns:
            yield from _parts(*joined)
            joined = [0, 0, 0]


def _parts(length_ns: int, cost: int, paused_ns: int) -> Iterator[Slice]:
    """Yield a slice in short ones, if it has no long pause."""
    count = max(1, length_ns // _PART_NS) if paused_ns <= MOST_ABSENT * length_ns else 1
    cuts = ([whole * at // count for at in range(count + 1)] for whole in (length_ns, cost, min(length_ns, paused_ns)))
    yield from zip(*([late - early for early, late in pairwise(each)] for each in cuts), strict=True)


def limiter_figures(limiter: Limiter, short: Admission, long: Admission, what: str, **more: Any) -> Iterator[Figure]:
    """Yield the error of a limiter's rate, and which share of its burst it accepted if that is more than a few frames.

    Both trials begin with a full bucket and empty it. So their difference is the rate's alone; what the short one
    passed beyond that rate is the burst. ``what`` was measured, for a person; ``more``: further fields of the figures.
    """
    passed_s = " and ".join(
        f"{each.passed[0] // NANO:,} of {each.expected[0] // NANO:,} expected in {each.length_ns / NANO:.3g} s"
        for each in (short, long)
    )
    more["confidence"] = f"{what}: {passed_s}, each from a full bucket; in {limiter.counted}"
    if short.disturbed or long.disturbed:
        said = "the machine paused generator or DUT, or frames were lost elsewhere"
        more = {"why": (Why.WHOSE_LOSS,), "detail": said, **more}
    part = short.length_ns / (long.length_ns - short.length_ns)
    for metric, first, second, less in (("rate_error", -1, 1, 1), ("burst_accepted", 1 + part, -part, 0)):
        passed = [max(0.0, first * one + second * other) for one, other in product(short.passed, long.passed)]
        expected = [first * one + second * other for one, other in product(short.expected, long.expected)]
        if min(expected) > 0:
            low, high = min(passed) / max(expected) - less, max(passed) / min(expected) - less
            yield Figure(metric, passed[0] / expected[0] - less, "ratio", low, high, **more)
