"""What a restart of the DUT interrupted between two namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Datagram:
    """One that arrived. Times are ns of the machine's monotonic clock."""

    sent_ns: int
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class Reconnection:
    """A restart, and when datagrams passed around it.

    ``outage_ns``: the longest time without one that arrived, from the restart's begin on. ``restart_ns``: until the DUT
    had taken its configuration again. ``interval_ns``: between the sent datagrams: shorter outages do not show.
    """

    outage_ns: int
    restart_ns: int
    interval_ns: int
    sent: int
    arrived: int


def longest_gap_ns(arrived: Sequence[Datagram], begin_ns: int, end_ns: int) -> int:
    """The longest time between arrivals from ``begin_ns`` to ``end_ns``; the last one before counts as its begin."""
    times = sorted(one.arrived_ns for one in arrived)
    before = max((time for time in times if time <= begin_ns), default=begin_ns)
    within = [before, *(time for time in times if begin_ns < time <= end_ns), end_ns]
    return max(later - earlier for earlier, later in pairwise(within))
