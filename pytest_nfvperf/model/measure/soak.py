"""The result of a soak, one long trial that is looked at once an interval, as data.

Each interval is judged as a trial is. The rig disturbed it if the generator was away too long, or a loss fits into the
time that PMDs were off their CPU. Then it counts neither as passed nor as lossy.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_DISTURBED = 0.25
"""Share of intervals that the rig may disturb before the others are too few to judge the whole time by. Seen: a machine
whose host pauses it for 0.1 s every 12 to 20 s loses up to a sixth of its seconds through nobody's fault. Who has CPUs
of their own can demand less by the metric ``spoiled_ratio``."""

LEAST_OFFERED = 0.9
"""Share of the frames due that must have been offered. With less, all losses do not bound the DUT's at this load."""


@dataclass(frozen=True, slots=True)
class SoakLoad:
    """The requested load: frames/s per direction, or a share of the NDR (0..1); neither: the default.

    Every pytest run of the environment imports this module, so it stays light.
    """

    fps: float | None = None
    ndr_share: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without samples of one source ("generator", "ovs", "bgp"); seconds since the first frame was due.

    ``reason``: for a person; "" if unknown: no soak passes with such a gap.
    """

    source: str
    start_s: float
    end_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DisturbedInterval:
    """An interval that the rig disturbed, and why."""

    start_s: float
    end_s: float
    reason: str
    lost: int


@dataclass(frozen=True, slots=True)
class Lossy:
    """An interval in which the DUT lost frames."""

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
        points: bins that it rests on.
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
        offered, lost: frames of undisturbed intervals, all directions; losses of undisturbed windows if there are any.
        disturbed_lost: frames lost in their other windows.
        disturbed_interval_offered, disturbed_interval_lost: frames of disturbed intervals.
        skipped: frames that were due while the generator was not running.
        disturbed, lossy, gaps, flaps: the first MOST_NAMED; how many there are is in ``disturbed_count``, ...
        unexplained: gaps without a reason.
        missing_intervals: intervals that were due and have no row.
        rig_faults: what else speaks against the whole run.
        sampling_cores: CPUs that collecting the samples took, on average.
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
    lossy: tuple[Lossy, ...] = ()
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
        """Share of intervals that the rig disturbed; 1 if there is no interval."""
        return self.disturbed_count / self.intervals if self.intervals else 1.0

    @property
    def bound_reason(self) -> str:
        """Why its counts are not those of the whole time; "" if they are."""
        reasons = [self.interrupted] if self.interrupted else []
        if self.disturbed_ratio > MOST_DISTURBED:
            first = f", the first: {self.disturbed[0].reason}" if self.disturbed else ""
            reasons.append(f"the rig disturbed {self.disturbed_count} of {self.intervals} intervals{first}")
        return "; ".join([*reasons, *self.rig_faults])

    @property
    def is_whole(self) -> bool:
        """True if it ran its whole time and offered the load, though the rig may have disturbed most of it.

        Then its counts are upper bounds: a machine that disturbs adds losses, flaps and gaps, and takes none away.
        """
        offered = self.offered + self.disturbed_interval_offered
        enough = offered > 0 and offered >= LEAST_OFFERED * (offered + self.skipped)
        return enough and not self.interrupted and not self.rig_faults

    @property
    def all_lost(self) -> int:
        """All lost frames, whether the DUT lost them or the machine did."""
        return self.lost + self.disturbed_lost + self.disturbed_interval_lost
