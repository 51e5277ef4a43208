"""The samples of a soak: the table of them, which losses are the DUT's, the summary, and the curves to draw.

One row an interval, one column a figure, in bounded memory. Counts are differences within the interval. What a source
did not report is absent (NaN), never 0; its next row covers the time since its last.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import AttributedInterval
from pytest_nfvperf.model.measure.soak import DisturbedInterval, Drift, Flap, Gap, LossyInterval, Soak
from pytest_nfvperf.model.statistics import slope_estimate, trend_p_value

TIME = "t"
"""The column of each row's end, s since the first frame was due."""

PMD_WAIT = "pmd-sched.stolen_ns"
"""Column: how long PMD threads waited for their CPU while the kernel or the host ran anything but the DUT."""

SESSION_UP, SESSION_FLAPS = ".up", ".flaps"
"""Columns of a session: 1 while it is up; how often it went down within the interval."""

MOST_BYTES = 50_000_000
"""Limit for the rows of one soak on disk; a long soak has longer intervals instead."""

_VALUE_BYTES = 10
"""A figure with its comma. Most counts of a second have 7 digits or fewer."""

MOST_NAMED = 50
"""How many disturbed and lossy intervals, gaps and flaps are listed, of each kind; all are counted."""

_TREND_BINS = 60
_FEWEST_BINS = 10
_SETTLING_SHARE = 0.1
"""Share of the soak that trends leave out: at the start caches fill, and memory is touched for the first time."""

_LATE = 1.5
"""An interval that is this many times as long as it should be lacks a sample."""

MOST_POINTS = 240
"""Points of a curve: more than a screen shows, and few enough for the evidence."""

SHORT = 0.9
"""An interval shorter than this share of the others is in no curve."""

STATE = "up"
"""The unit of a state: 1 or 0."""

HITS = "PMD lookups, by where they ended"

_MPPS, _PER_CENT, _US, _MS, _MIB = 1e-6, 100.0, 1e-3, 1e-6, 1 / (1 << 20)

_RATES = (
    ("received rate", "Mpps", ".received", _MPPS),
    *((HITS, "M/s", f".{kind}_hits", _MPPS) for kind in ("phwol", "simple_match", "emc", "smc", "megaflow")),
    *((HITS, "M/s", f".upcalls_{kind}", _MPPS) for kind in ("ok", "failed")),
    ("port packets", "Mpps", ".rx_packets", _MPPS),
    ("port packets", "Mpps", ".tx_packets", _MPPS),
    ("OpenFlow packets", "Mpps", ".openflow_packets", _MPPS),
    ("CPU", "cores", ".cpu_ns", 1e-9),
)
"""Counters drawn as rates: panel, unit, suffix of their columns, factor."""

_GAUGES = (
    ("receive queues, in the last 5 s", "% of their PMD", ".rxq_busy_5s", _PER_CENT),
    ("receive queues, mean of OVS's last minute", "% of their PMD", ".rxq_busy", _PER_CENT),
    ("memory of ovs-vswitchd", "MiB", "vswitchd.rss", _MIB),
    ("connections", "connections", ".connections", 1.0),
    ("sessions", STATE, SESSION_UP, 1.0),
)


class SoakTable:
    """Columns of equal length; the first one is ``t``. 12 hours of 1 s in 100 columns take 35 MB."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = (TIME, *columns)
        self._values = {name: array("d") for name in self.columns}
        self._matching: dict[str, tuple[str, ...]] = {}
        if len(self._values) != len(self.columns):
            raise ValueError(f"columns must differ: {', '.join(self.columns)}")

    def __len__(self) -> int:
        return len(self._values[TIME])

    def add(self, row: Mapping[str, float]) -> None:
        """Append a row; columns that it lacks become NaN. ValueError if ``t`` does not rise."""
        if len(self) and row[TIME] <= self._values[TIME][-1]:
            raise ValueError(f"time does not rise: {row[TIME]} s after {self._values[TIME][-1]} s")
        for name, values in self._values.items():
            values.append(row.get(name, math.nan))

    def head(self, rows: int) -> SoakTable:
        shorter = SoakTable(self.columns[1:])
        shorter._values = {name: values[:rows] for name, values in self._values.items()}
        return shorter

    def column(self, name: str) -> Sequence[float]:
        return self._values[name]

    def matching(self, suffix: str) -> tuple[str, ...]:
        if suffix not in self._matching:
            self._matching[suffix] = tuple(name for name in self.columns if name.endswith(suffix))
        return self._matching[suffix]

    def total(self, suffix: str, rows: Iterable[int] | None = None) -> float:
        chosen = range(len(self)) if rows is None else list(rows)
        values = (self._values[name][row] for name in self.matching(suffix) for row in chosen)
        return math.fsum(value for value in values if not math.isnan(value))

    def times_s(self, row: int) -> tuple[float, float]:
        """When a row's interval began and ended."""
        end_s = self.column(TIME)[row]
        return end_s - self.span_s(row), end_s

    def span_s(self, row: int) -> float:
        times = self._values[TIME]
        return times[row] - (times[row - 1] if row else 0.0)


def thinned(times: Sequence[float], values: Sequence[float], most: int) -> tuple[tuple[float, float], ...]:
    """At most ``most`` points: medians of equally many neighbours, at the middle of their times; without NaN."""
    if most < 1:
        raise ValueError(f"at least one point, not {most}")
    present = [(t, value) for t, value in zip(times, values, strict=True) if not math.isnan(value)]
    size = max(1, -(-len(present) // most))
    groups = (present[first : first + size] for first in range(0, len(present), size))
    return tuple((median(t for t, _ in group), median(value for _, value in group)) for group in groups)


def row_bytes(columns: int) -> int:
    return (columns + 1) * _VALUE_BYTES + 2


def fitting_interval_s(duration_s: float, wanted_s: float, columns: int) -> float:
    """The wanted interval, or the shortest multiple of it with which all rows stay below MOST_BYTES."""
    factor = max(1, math.ceil(duration_s / wanted_s * row_bytes(columns) / MOST_BYTES))
    return wanted_s * factor


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """Parameters of a soak. ``most_skipped``: share of an interval's frames that the generator may skip."""

    load_fps: int
    directions: int
    duration_s: float
    interval_s: float
    most_skipped: float


def summarise(
    table: SoakTable,
    plan: SoakPlan,
    gaps: Sequence[Gap] = (),
    interrupted: str = "",
    rig_faults: Sequence[str] = (),
    sampling_cores: float | None = None,
    attributed: Mapping[int, AttributedInterval] | None = None,
) -> Soak:
    """The summary of a soak.

    ``gaps``: those that the collector saw itself. ``interrupted``: why it ended early, or "". ``rig_faults``: against
    the whole run. ``attributed``: rows whose losses are known by windows; the others are judged by all of their loss.
    """
    attributed = attributed or {}
    disturbed = {row: why for row in range(len(table)) if (why := _disturbed(table, row, plan, attributed.get(row)))}
    valid = [row for row in range(len(table)) if row not in disturbed]
    own = {row: max(0, attributed[row].lost) if row in attributed else _lost(table, row) for row in valid}
    lossy = [row for row in valid if own[row] > 0]
    elapsed_s = table.column(TIME)[-1] if len(table) else 0.0
    due = math.floor(min(elapsed_s, plan.duration_s) / plan.interval_s + 0.5)
    all_gaps = [*_late_intervals(table, plan), *gaps]
    flaps = list(_flaps(table))
    return Soak(
        load_fps=plan.load_fps,
        planned_s=plan.duration_s,
        elapsed_s=elapsed_s,
        interval_s=plan.interval_s,
        intervals=len(table),
        offered=_frames(table, (".sent", ".refused"), valid),
        lost=sum(own.values()),
        disturbed_interval_offered=_frames(table, (".sent", ".refused"), disturbed),
        disturbed_interval_lost=sum(
            attributed[row].all_lost if row in attributed else _lost(table, row) for row in disturbed
        ),
        disturbed_lost=sum(attributed[row].disturbed_lost for row in valid if row in attributed),
        skipped=_frames(table, (".skipped",), range(len(table))),
        disturbed=tuple(
            DisturbedInterval(*table.times_s(row), reason, _lost(table, row))
            for row, reason in list(disturbed.items())[:MOST_NAMED]
        ),
        disturbed_count=len(disturbed),
        lossy=tuple(LossyInterval(*table.times_s(row), own[row]) for row in lossy[:MOST_NAMED]),
        lossy_count=len(lossy),
        gaps=tuple(all_gaps[:MOST_NAMED]),
        gap_count=len(all_gaps),
        unexplained=sum(not gap.reason for gap in all_gaps),
        missing_intervals=max(0, due - len(table)),
        flaps=tuple(flaps[:MOST_NAMED]),
        flap_count=len(flaps),
        drifts=tuple(_drifts(table, valid, plan, attributed)),
        interrupted=interrupted,
        rig_faults=tuple(rig_faults),
        sessions=tuple(name.removesuffix(SESSION_UP) for name in table.matching(SESSION_UP)),
        sampling_cores=sampling_cores,
    )


def _frames(table: SoakTable, suffixes: Sequence[str], rows: Iterable[int]) -> int:
    return round(sum(table.total(suffix, rows) for suffix in suffixes))


def _lost(table: SoakTable, row: int) -> int:
    return round(table.total(".lost", [row]))


def _disturbed(table: SoakTable, row: int, plan: SoakPlan, attributed: AttributedInterval | None) -> str:
    if attributed is not None and attributed.disturbed:
        return attributed.disturbed
    for skipped in table.matching(".skipped"):
        direction = skipped.removesuffix(".skipped")
        names = (f"{direction}.sent", f"{direction}.refused", skipped)
        intended = sum(table.column(name)[row] for name in names)
        share = table.column(skipped)[row] / intended if intended else 0.0
        if share > plan.most_skipped:
            return f"{direction}: {share:.1%} of the frames were due while the generator was not running"
    # Windows already account for the time that PMDs waited.
    return "" if attributed is not None else _waited_for_cpu(table, row, plan)


def _waited_for_cpu(table: SoakTable, row: int, plan: SoakPlan) -> str:
    """Describe a loss that fits into the time that PMDs waited for their CPU.

    That time is read a moment after the frames are counted, so a stall may appear in a neighbour. Both neighbours count
    with their own loss: no stall explains two losses.
    """
    if _lost(table, row) <= 0 or PMD_WAIT not in table.columns:
        return ""
    around = range(max(0, row - 1), min(len(table), row + 2))
    waited_ns = math.fsum(value for at in around if not math.isnan(value := table.column(PMD_WAIT)[at]))
    lost = sum(max(0, _lost(table, at)) for at in around)
    explained = plan.load_fps * plan.directions * waited_ns / 1e9 * POLICY.wait_slack
    if waited_ns < POLICY.least_wait_ns or lost > explained:
        return ""
    return f"the host kept PMD threads off their CPU for {waited_ns / 1e6:.2f} ms, which explains {lost} lost frames"


def _late_intervals(table: SoakTable, plan: SoakPlan) -> Iterator[Gap]:
    """Yield intervals that lack a sample. One without a reason fails the soak: its frames are not accounted for."""
    for row in range(len(table)):
        span_s = table.span_s(row)
        if span_s <= _LATE * plan.interval_s:
            continue
        absent_s = table.column("rig.absent_ns")[row] / 1e9 if "rig.absent_ns" in table.columns else 0.0
        overrun_s, reason = span_s - plan.interval_s, ""
        if absent_s >= overrun_s / 2:  # the generator's absence explains most of it
            reason = f"the generator was not running for {absent_s:.1f} s of it"
        yield Gap("generator", *table.times_s(row), reason)


def _flaps(table: SoakTable) -> Iterator[Flap]:
    for name in table.matching(SESSION_FLAPS):
        for row, count in enumerate(table.column(name)):
            if count > 0:
                end = table.column(TIME)[row]
                yield from (Flap(name.removesuffix(SESSION_FLAPS), end, "went down") for _ in range(int(count)))
    # A session may be down without a counted flap: its daemon reports none, or it never came up.
    for name in table.matching(SESSION_UP):
        session, ups = name.removesuffix(SESSION_UP), table.column(name)
        counted = f"{session}{SESSION_FLAPS}"
        flaps = table.column(counted) if counted in table.columns else [math.nan] * len(ups)
        was_up = True
        for row, up in enumerate(ups):
            if math.isnan(up):
                continue
            if was_up and not up and (math.isnan(flaps[row]) or row == 0):
                yield Flap(session, table.column(TIME)[row], "is not up")
            was_up = bool(up)


def _drifts(
    table: SoakTable, valid: Sequence[int], plan: SoakPlan, attributed: Mapping[int, AttributedInterval]
) -> Iterator[Drift]:
    """Trends after the start. Disturbed intervals count for memory, and for the rate if their loss is attributed."""
    times = table.column(TIME)
    start = times[-1] * _SETTLING_SHARE if len(table) else 0.0
    settled = [row for row in range(len(table)) if times[row] > start]
    undisturbed = [row for row in valid if times[row] > start]
    quiet = set(undisturbed)
    known = [row for row in settled if row in quiet or row in attributed or not _lost(table, row)]
    memory = [table.column("vswitchd.rss")[row] for row in settled] if ("vswitchd.rss" in table.columns) else []
    cycles: list[float] = []
    if {"pmd.cycles_busy", "pmd.packets_received"} <= set(table.columns):
        busy, packets = table.column("pmd.cycles_busy"), table.column("pmd.packets_received")
        cycles = [busy[row] / packets[row] if packets[row] > 0 else math.nan for row in undisturbed]
    for metric, unit, rows, values in (
        ("rate_change", "ratio", known, [_own_rate(table, row, plan, attributed.get(row)) for row in known]),
        ("latency_p99_change", "ratio", undisturbed, _latencies(table, undisturbed, "p99")),
        ("cycles_change", "ratio", undisturbed, cycles),
        ("memory_growth", "bytes", settled, memory),
    ):
        drift = _drift(metric, unit, [times[row] for row in rows], values) if values else None
        if drift is not None:
            yield drift


def _own_rate(table: SoakTable, row: int, plan: SoakPlan, attributed: AttributedInterval | None) -> float:
    """What the DUT forwards of the load, frames/s, all directions; NaN if nothing was offered.

    Frames that the generator skipped, and losses while the machine disturbed it, are not the DUT's.
    """
    offered = sum(table.total(suffix, [row]) for suffix in (".sent", ".refused"))
    forwarded = table.total(".received", [row]) + (attributed.disturbed_lost if attributed is not None else 0)
    return plan.load_fps * plan.directions * forwarded / offered if offered else math.nan


def _latencies(table: SoakTable, rows: Sequence[int], percentile: str) -> list[float]:
    """The worst direction's percentile in ns, NaN without samples; empty if no latency was measured."""
    names = table.matching(f".{percentile}_ns")
    return [max((table.column(name)[row] for name in names), default=math.nan) for row in rows] if names else []


def _drift(metric: str, unit: str, times: Sequence[float], values: Sequence[float]) -> Drift | None:
    points = thinned(times, values, _TREND_BINS)
    if len(points) < _FEWEST_BINS:
        return None
    x, y = [t for t, _ in points], [value for _, value in points]
    middle = median(y)
    scale = (x[-1] - x[0]) / (1.0 if unit == "bytes" else middle or math.inf)
    found = slope_estimate(x, y)
    return Drift(
        metric, unit, found.value * scale, found.low * scale, found.high * scale, trend_p_value(y), len(points)
    )


# Curves over time: rates of what was counted, per thread, queue and port.


@dataclass(frozen=True, slots=True)
class SoakCurve:
    """One curve. ``panel``: the chart it belongs to; ``points``: ``(s, value in unit)``."""

    panel: str
    name: str
    unit: str
    points: tuple[tuple[float, float], ...]


def series(table: SoakTable) -> tuple[SoakCurve, ...]:
    """All curves of the samples, in order. A curve of zeros is left out if its panel has another."""
    if not len(table):
        return ()
    table = table.head(len(table) - (1 if short_end_s(table) else 0))
    made = (*_rig_curves(table), *_pmd_curves(table), *_rate_curves(table), *_gauges(table))
    curves = [curve for curve in made if curve.points]
    moving = [any(value for _, value in curve.points) for curve in curves]
    panels = {curve.panel for curve, moves in zip(curves, moving, strict=True) if moves}
    return tuple(curve for curve, moves in zip(curves, moving, strict=True) if moves or curve.panel not in panels)


def short_end_s(table: SoakTable) -> float:
    """Length of the last interval, s, if it is shorter than the others; 0 if it is not.

    Its samplers were read at another moment than the generator's counts. A rate over so short a time would draw a cliff
    or a peak that nobody measured.
    """
    if len(table) < 2:
        return 0.0
    last, usual = table.span_s(len(table) - 1), median(table.span_s(row) for row in range(len(table) - 1))
    return last if last < SHORT * usual else 0.0


def _curve(table: SoakTable, panel: str, name: str, unit: str, values: Sequence[float]) -> SoakCurve:
    return SoakCurve(panel, name, unit, thinned(table.column(TIME), values, MOST_POINTS))


def _rig_curves(table: SoakTable) -> Iterator[SoakCurve]:
    for name in table.matching(".lost"):
        yield SoakCurve("frames lost", name.removesuffix(".lost"), "per sample", _extremes(table, name, max))
    for percentile in ("p50", "p99", "p999", "max"):
        values = [value * _US for value in _latencies(table, range(len(table)), percentile)]
        if values:
            yield _curve(table, "latency", percentile, "us", values)
    for name, shown in (("rig.absent_ns", "generator not running"), (PMD_WAIT, "PMDs waiting for a CPU")):
        if name in table.columns:
            yield SoakCurve("disturbance by the host", shown, "ms per sample", _extremes(table, name, max, _MS))


def _extremes(
    table: SoakTable, name: str, extreme: Callable[[list[float]], float], factor: float = 1.0
) -> tuple[tuple[float, float], ...]:
    """The largest of each group, or the least: a median hides rare values."""
    size = max(1, -(-len(table) // MOST_POINTS))
    times, values = table.column(TIME), table.column(name)
    groups = (range(first, min(first + size, len(table))) for first in range(0, len(table), size))
    points = ((times[group[-1]], [values[row] for row in group if not math.isnan(values[row])]) for group in groups)
    return tuple((end, extreme(present) * factor) for end, present in points if present)


def _pmd_curves(table: SoakTable) -> Iterator[SoakCurve]:
    for name in table.matching(".cycles_busy"):
        thread = name.removesuffix(".cycles_busy")
        idle_name = f"{thread}.cycles_idle"
        if thread != "pmd" and idle_name in table.columns:
            both = zip(table.column(name), table.column(idle_name), strict=True)
            shares = [busy / (busy + idle) * _PER_CENT if busy + idle else math.nan for busy, idle in both]
            yield _curve(table, "PMD busy", thread, "%", shares)


def _rate_curves(table: SoakTable) -> Iterator[SoakCurve]:
    spans = [table.span_s(row) for row in range(len(table))]
    for panel, unit, ending, factor in _RATES:
        for name in table.matching(ending):
            if name.startswith("pmd.") and name.count(".") == 1:
                continue  # the sum over all threads, each of which has its own curve
            shown = name if panel in {HITS, "port packets"} else name.removesuffix(ending)  # several counters each
            values = [value / span * factor for value, span in zip(table.column(name), spans, strict=True)]
            yield _curve(table, panel, shown, unit, values)


def _gauges(table: SoakTable) -> Iterator[SoakCurve]:
    for panel, unit, ending, factor in _GAUGES:
        for name in table.matching(ending):
            shown = name.removesuffix(ending) or "resident"
            if ending == SESSION_UP:
                yield SoakCurve(panel, shown, unit, _extremes(table, name, min))
            else:
                yield _curve(table, panel, shown, unit, [value * factor for value in table.column(name)])
