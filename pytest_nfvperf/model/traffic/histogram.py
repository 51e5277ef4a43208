"""A latency histogram as data: HdrHistogram's log-linear buckets, sparse.

The generator counts in HdrHistogram's layout (Gil Tene; http://hdrhistogram.org), the same precision at every
magnitude. Here it is a frozen list of (bucket value, count). Percentiles are read off the recorded counts and never
interpolated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from pytest_nfvperf.model.metrics import percentile_of


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per value bucket, in nanoseconds.

    Attributes:
        counts: ``((highest_equivalent_ns, count), ...)`` rising, counts above 0.
        min_ns, max_ns: smallest and largest recorded value, exact.
        significant_digits: HdrHistogram precision the buckets were made with.
    """

    counts: tuple[tuple[int, int], ...]
    min_ns: int
    max_ns: int
    significant_digits: int = 3

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def percentiles_ns(self, metrics: Iterable[str]) -> dict[str, float | None]:
        """The percentile that each of these metrics is, such as ``response_time_p99``; others are left out."""
        shares = ((name, percentile_of(name)) for name in metrics)
        return {name: self.percentile_ns(share) for name, share in shares if share is not None}

    def percentile_ns(self, percentile: float) -> int | None:
        """Value at or below which ``percentile`` percent of samples lie, in ns; None without samples."""
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile must be 0..100, not {percentile}")
        total = self.total
        if total == 0:
            return None
        rank = max(1, math.ceil(round(total * percentile / 100, 9)))
        seen = 0
        for value, count in self.counts:
            seen += count
            if seen >= rank:
                return max(self.min_ns, min(value, self.max_ns))
        return self.max_ns

    @staticmethod
    def merged(histograms: Iterable[Histogram]) -> Histogram | None:
        """The sum of several histograms of one precision; None for none."""
        given = list(histograms)
        if not given:
            return None
        counts: Counter[int] = Counter()
        for histogram in given:
            counts.update(dict(histogram.counts))
        filled = [histogram for histogram in given if histogram.counts]
        return Histogram(
            counts=tuple(sorted(counts.items())),
            min_ns=min((h.min_ns for h in filled), default=0),
            max_ns=max((h.max_ns for h in filled), default=0),
            significant_digits=given[0].significant_digits,
        )


_RUNGS = (
    *(1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99),
    *(99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.995, 99.999, 99.9999, 100),
)


def compact_histogram(histogram: Histogram) -> Histogram:
    """The same number of values in two dozen buckets: those percentiles that people look at stay exact.

    Min and max stay exact, too. What lies between two of these percentiles is put into the upper one.
    """
    total, counted, seen = histogram.total, 0, 0
    ranks = sorted({max(1, math.ceil(round(total * rung / 100, 9))) for rung in _RUNGS}) if total else []
    counts: list[tuple[int, int]] = []
    for value, count in histogram.counts:
        seen += count
        while ranks and ranks[0] <= seen:
            del ranks[0]
            if seen > counted:
                counts.append((value, seen - counted))
                counted = seen
    return replace(histogram, counts=tuple(counts))


def coarse_histogram(histogram: Histogram, significant_digits: int = 2) -> Histogram:
    """The same counts in the coarser buckets of ``significant_digits``; min and max stay exact.

    A run's evidence then stays a size that people can open. It also has the exact histogram, in HdrHistogram's
    compressed form.
    """
    if histogram.significant_digits <= significant_digits:
        return histogram
    counts: Counter[int] = Counter()
    for value, count in histogram.counts:
        counts[_highest_equivalent(value, significant_digits)] += count
    return Histogram(tuple(sorted(counts.items())), histogram.min_ns, histogram.max_ns, significant_digits)


def _highest_equivalent(value: int, significant_digits: int) -> int:
    """Top of the log-linear bucket that holds ``value``: below 2 * 10^digits every integer is its own bucket."""
    sub_bucket_bits = int(2 * 10**significant_digits - 1).bit_length()
    shift: int = max(0, value.bit_length() - sub_bucket_bits)
    return ((value >> shift) + 1 << shift) - 1


# What a running trial has counted up to the end of an interval. Counts are since its start, so none can get lost.


@dataclass(frozen=True, slots=True)
class IntervalLatency:
    """Latency of the frames that arrived in one interval, from the scheduled send time; 0 without samples."""

    samples: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """One direction's counts since the trial's start; names as in DirectionCounts.

    ``highest_seq``: of the frames received, + 1. Below it, ``highest_seq - received`` frames are missing.
    """

    sent: int = 0
    refused: int = 0
    skipped: int = 0
    received: int = 0
    highest_seq: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    corrupted: int = 0
    latency: IntervalLatency | None = None

    @property
    def lost(self) -> int:
        """Frames of which it is known by now that they are lost; those under way are not among them."""
        return self.refused + self.highest_seq - self.received

    @staticmethod
    def summed(classes: Sequence[TrialProgress]) -> TrialProgress:
        """A direction's counts, from those of its classes. Its latency is that of the slowest class."""
        if len(classes) == 1:
            return classes[0]
        counts = [each.name for each in fields(TrialProgress) if each.name != "latency"]
        latencies = [each.latency for each in classes if each.latency is not None]
        return TrialProgress(
            **{name: sum(getattr(each, name) for each in classes) for name in counts},
            latency=max(latencies, key=lambda latency: latency.p99_ns, default=None),
        )


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """All directions of a trial at the end of an interval.

    Attributes:
        at_ns: when, since the first frame was due.
        directions: in the order of the trial's.
        absent_ns: how long the generator's threads have not been running so far, summed.
        longest_poll_gap_ns: of this interval.
        classes: of each class of a mix, over its directions.
    """

    at_ns: int
    directions: tuple[TrialProgress, ...]
    absent_ns: int
    longest_poll_gap_ns: int
    classes: Mapping[str, TrialProgress] = field(default_factory=dict)
