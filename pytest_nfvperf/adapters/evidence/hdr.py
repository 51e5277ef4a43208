"""Latency histograms in the form that other tools read: HdrHistogram V2, compressed, base64.

The text starts with ``HISTF`` and opens in HdrHistogram's plotter and in every port of the library
(http://hdrhistogram.org).
"""

from __future__ import annotations

from dataclasses import replace

from hdrh.histogram import HdrHistogram

from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.traffic.histogram import Histogram

HIGHEST_TRACKABLE_NS = 3_600_000_000_000
"""One hour; no frame is waited for that long."""


def encode(histogram: Histogram) -> str:
    """The histogram as V2 compressed base64 text, in nanoseconds; ValueError for a value above one hour."""
    hdr = HdrHistogram(1, HIGHEST_TRACKABLE_NS, histogram.significant_digits)
    for value, count in histogram.counts:
        if not hdr.record_value(value, count):
            raise ValueError(f"latency of {value} ns is above the {HIGHEST_TRACKABLE_NS} ns that a histogram holds")
    return str(hdr.encode().decode("ascii"))


def exact_latency(trial: TrialData) -> Histogram | None:
    """Latency from the scheduled send time over all directions, at the precision it was recorded in."""
    exact = []
    for thin, direction in ((count.latency, str(count.direction)) for count in trial.result.counts):
        if thin is not None and direction in trial.hdr:  # only the thin one knows the exact minimum and maximum
            exact.append(replace(decode(trial.hdr[direction]), min_ns=thin.min_ns, max_ns=thin.max_ns))
        elif thin is not None:
            exact.append(thin)
    return Histogram.merged(exact)


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
