"""The result of a soak: one long trial, sampled once an interval.

Each interval is judged like a trial. The rig disturbed it if the generator was absent for too long, or if a loss fits
into the time that PMDs waited for their CPU. A disturbed interval counts neither as passed nor as lossy.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_DISTURBED = 0.25
"""Share of disturbed intervals up to which the others are enough to judge the whole time by. Seen: a machine whose host
pauses it for 0.1 s every 12 to 20 s loses up to a sixth of its seconds through nobody's fault. On dedicated CPUs a test
can demand less by the metric ``disturbed_ratio``."""

LEAST_OFFERED = 0.9
"""Share of the due frames that must have been offered. Otherwise all losses together are no bound for the DUT's."""


@dataclass(frozen=True, slots=True)
class SoakLoad:
    """The requested load: frames/s per direction, or a share of the NDR (0..1); neither: the default.

    Every pytest run of the environment imports this module, so it imports little.
    """

    fps: float | None = None
    ndr_share: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without samples of one source ("generator", "ovs", "bgp"); seconds since the first frame was due.

    ``reason``: "" if unknown: no soak passes with such a gap.
    """

    source: str
    start_s: float
    end_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DisturbedInterval:
    start_s: float
    end_s: float
    reason: str
    lost: int


@dataclass(frozen=True, slots=True)
class LossyInterval:
    start_s: float
    end_s: float
    lost: int


@dataclass(frozen=True, slots=True)
class Drift:
    """How a figure changed over the soak, by the Theil-Sen slope of its binned medians with Sen's interval.

    Attributes:
        unit: "ratio" of the figure's median, or "bytes".
        value: from the first to the last bin.
        p_value: two-sided Mann-Kendall: how rare so ordered a series would be without a trend.
        points: number of bins.
    """

    metric: str
    unit: str
    value: float
    low: float
    high: float
    p_value: float
    points: int


@dataclass(frozen=True, slots=True)
class Flap:
    """A session that was not up, or reported that it had been down."""

    session: str
    at_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Soak:
    """The summary of a soak.

    Attributes:
        offered, lost: frames of undisturbed intervals, all directions; of undisturbed windows, if there are windows.
        disturbed_lost: frames lost in the other windows of these intervals.
        disturbed_interval_offered, disturbed_interval_lost: frames of disturbed intervals.
        skipped: frames that were due while the generator was not running.
        disturbed, lossy, gaps, flaps: the first MOST_NAMED; how many there are is in ``disturbed_count``, ...
        unexplained: gaps without a reason.
        missing_intervals: intervals that were due and have no row.
        rig_faults: further reasons against the whole run.
        sampling_cores: CPUs that sampling took, on average.
    """

    load_fps: int
    planned_s: float
    elapsed_s: float
    interval_s: float
    intervals: int
    offered: int
    lost: int
    disturbed_interval_offered: int
    disturbed_interval_lost: int
    skipped: int
    disturbed: tuple[DisturbedInterval, ...] = ()
    disturbed_count: int = 0
    lossy: tuple[LossyInterval, ...] = ()
    lossy_count: int = 0
    gaps: tuple[Gap, ...] = ()
    gap_count: int = 0
    unexplained: int = 0
    missing_intervals: int = 0
    flaps: tuple[Flap, ...] = ()
    flap_count: int = 0
    drifts: tuple[Drift, ...] = ()
    interrupted: str = ""
    rig_faults: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    sampling_cores: float | None = None
    disturbed_lost: int = 0

    @property
    def disturbed_ratio(self) -> float:
        """1 if there is no interval."""
        return self.disturbed_count / self.intervals if self.intervals else 1.0

    @property
    def why_partial(self) -> str:
        """Why the counts are not those of the whole time; "" if they are."""
        reasons = [self.interrupted] if self.interrupted else []
        if self.disturbed_ratio > MOST_DISTURBED:
            first = f", the first: {self.disturbed[0].reason}" if self.disturbed else ""
            reasons.append(f"the rig disturbed {self.disturbed_count} of {self.intervals} intervals{first}")
        return "; ".join([*reasons, *self.rig_faults])

    @property
    def is_whole(self) -> bool:
        """True if it ran its whole time and offered the load, even if the rig disturbed most of it.

        Then its counts are upper bounds: disturbances add losses, flaps and gaps, and hide none.
        """
        offered = self.offered + self.disturbed_interval_offered
        enough = offered > 0 and offered >= LEAST_OFFERED * (offered + self.skipped)
        return enough and not self.interrupted and not self.rig_faults

    @property
    def all_lost(self) -> int:
        return self.lost + self.disturbed_lost + self.disturbed_interval_lost
