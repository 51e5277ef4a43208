"""TRex's latency histograms: buckets of one significant digit, in microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_nfvperf.model.traffic.histogram import Histogram

_NS_PER_US = 1000
_SHORTEST = "0"
SIGNIFICANT_DIGITS = 1


def bucket_ends_ns(bucket: int) -> tuple[int, int]:
    """Lowest and highest latency that TRex puts into a bucket, which it calls by its lowest, in microseconds.

    20 is 20 to under 30 us, 300 is 300 to under 400 us; below 10 us there is one bucket, 0.
    """
    width = 10 ** max(1, len(str(bucket)) - 1)
    return bucket * _NS_PER_US, (bucket + width) * _NS_PER_US - 1


def counted(latency: Mapping[str, Any], received: int) -> dict[str, Any]:
    """A stream's latency with as many frames in it as were received.

    Under 10 us the server shows the largest difference of two counters that it ever saw, from one trial to the
    next (too many), and none before it has added those counters up (too few). The other buckets are counts, and
    so is what was received: it counts a frame and puts it into a bucket at once. The rest was under 10 us.
    """
    above = {bucket: frames for bucket, frames in latency["histogram"].items() if bucket != _SHORTEST}
    rest = received - sum(above.values())
    return {**latency, "histogram": {**above, _SHORTEST: rest} if rest > 0 else above}


def merged(latencies: Sequence[Mapping[str, Any]]) -> Histogram:
    """The histograms of a direction's latency streams as one; empty when no frame came back.

    The stamp is that of the actual sending: the server has no other. One that fell behind stretched its
    time, which makes the trial invalid.
    """
    parts = [_histogram(latency) for latency in latencies if any(latency["histogram"].values())]
    empty = Histogram(counts=(), min_ns=0, max_ns=0, significant_digits=SIGNIFICANT_DIGITS)
    return Histogram.merged(parts) or empty


def _histogram(latency: Mapping[str, Any]) -> Histogram:
    filled = sorted((int(bucket), frames) for bucket, frames in latency["histogram"].items() if frames)
    ends = [bucket_ends_ns(bucket) for bucket, _ in filled]
    return Histogram(
        counts=tuple((end[1], frames) for end, (_, frames) in zip(ends, filled, strict=True)),
        min_ns=_within(latency["min_us"], ends[0], otherwise=ends[0][0]),
        max_ns=_within(latency["max_us"], ends[-1], otherwise=ends[-1][1]),
        significant_digits=SIGNIFICANT_DIGITS,
    )


def _within(value_us: float, ends_ns: tuple[int, int], *, otherwise: int) -> int:
    """The server's smallest or largest value; it is seconds old at times, and then not of its bucket."""
    value_ns = round(value_us * _NS_PER_US)
    return value_ns if ends_ns[0] <= value_ns <= ends_ns[1] else otherwise
