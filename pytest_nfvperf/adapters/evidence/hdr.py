"""Latency histograms in the form that other tools read: HdrHistogram V2, compressed, base64.

The text starts with ``HISTF`` and opens in HdrHistogram's own plotter and in every port of
the library (http://hdrhistogram.org).
"""

from __future__ import annotations

from hdrh.histogram import HdrHistogram

from pytest_nfvperf.model.traffic.histogram import Histogram

HIGHEST_TRACKABLE_NS = 3_600_000_000_000
"""One hour; no frame is waited for that long."""


def encode(histogram: Histogram) -> str:
    """The histogram as V2 compressed base64 text, in nanoseconds.

    Raises:
        ValueError: a value is above one hour.
    """
    hdr = HdrHistogram(1, HIGHEST_TRACKABLE_NS, histogram.significant_digits)
    for value, count in histogram.counts:
        if not hdr.record_value(value, count):
            raise ValueError(f"latency of {value} ns is above the {HIGHEST_TRACKABLE_NS} ns that a histogram holds")
    return str(hdr.encode().decode("ascii"))


def decode(text: str) -> Histogram:
    """The histogram back from V2 compressed base64 text.

    The format keeps buckets only: ``min_ns`` and ``max_ns`` are those of the outer buckets.
    """
    hdr = HdrHistogram.decode(text)
    counts = tuple(
        (int(hdr.get_highest_equivalent_value(item.value_iterated_to)), int(item.count_at_value_iterated_to))
        for item in hdr.get_recorded_iterator()
    )
    lowest = int(hdr.get_min_value()) if counts else 0
    return Histogram(counts, lowest, counts[-1][0] if counts else 0, int(hdr.significant_figures))


def thinned(histogram: Histogram, significant_digits: int = 2) -> Histogram:
    """The same counts in the coarser buckets of ``significant_digits``; min and max stay exact.

    Counts are rising and sparse, so a run's evidence stays a size that people can open; the exact
    histogram goes beside it in HdrHistogram's compressed form.
    """
    if histogram.significant_digits <= significant_digits:
        return histogram
    counts: dict[int, int] = {}
    for value, count in histogram.counts:
        bucket = _highest_equivalent(value, significant_digits)
        counts[bucket] = counts.get(bucket, 0) + count
    return Histogram(tuple(sorted(counts.items())), histogram.min_ns, histogram.max_ns, significant_digits)


def _highest_equivalent(value: int, significant_digits: int) -> int:
    """Top of the log-linear bucket that holds ``value``: below 2 * 10^digits every integer is its own bucket."""
    sub_bucket_bits = int(2 * 10**significant_digits - 1).bit_length()
    shift: int = max(0, value.bit_length() - sub_bucket_bits)
    return ((value >> shift) + 1 << shift) - 1
