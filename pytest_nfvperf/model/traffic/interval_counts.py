"""What a running trial has counted up to the end of an interval. Counts are since its start, so none can get lost."""

from __future__ import annotations

from dataclasses import dataclass


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
class SoFar:
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


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """All directions of a trial at the end of an interval.

    Attributes:
        at_ns: when, since the first frame was due.
        directions: in the order of the trial's.
        absent_ns: how long the generator's threads have not been running so far, summed.
        longest_poll_gap_ns: of this interval.
    """

    at_ns: int
    directions: tuple[SoFar, ...]
    absent_ns: int
    longest_poll_gap_ns: int
