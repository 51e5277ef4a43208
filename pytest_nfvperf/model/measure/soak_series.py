"""What of a soak is drawn over time: rates of what was counted, per thread, queue and port. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from pytest_nfvperf.model.measure.soak_summary import KEPT_OFF_CPU, SESSION_UP, latencies
from pytest_nfvperf.model.measure.soak_table import TIME, SoakTable, thinned

MOST_POINTS = 240
"""Of each curve: more than a screen shows, and little enough for the evidence."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. ``panel``: the chart it belongs to; ``points``: ``(s, value in unit)``."""

    panel: str
    name: str
    unit: str
    points: tuple[tuple[float, float], ...]


SHORT = 0.9
"""An interval that is less than this share of the others is short: it counts, and is in no curve."""

STATE = "up"
"""The unit of what is so or not: 1 or 0."""

_MPPS, _PER_CENT, _US, _MS, _MIB = 1e-6, 100.0, 1e-3, 1e-6, 1 / (1 << 20)

HITS = "PMD lookups, by where they ended"

_RATES = (
    ("received rate", "Mpps", ".received", _MPPS),
    *((HITS, "M/s", f".{kind}_hits", _MPPS) for kind in ("phwol", "simple_match", "emc", "smc", "megaflow")),
    *((HITS, "M/s", f".upcalls_{kind}", _MPPS) for kind in ("ok", "failed")),
    ("port packets", "Mpps", ".rx_packets", _MPPS),
    ("port packets", "Mpps", ".tx_packets", _MPPS),
    ("OpenFlow packets", "Mpps", ".openflow_packets", _MPPS),
    ("CPU", "cores", ".cpu_ns", 1e-9),
)
"""Counters drawn as rates: panel, unit, how their columns end, factor."""

_GAUGES = (
    ("receive queues, in the last 5 s", "% of their PMD", ".rxq_busy_5s", _PER_CENT),
    ("receive queues, mean of OVS's last minute", "% of their PMD", ".rxq_busy", _PER_CENT),
    ("memory of ovs-vswitchd", "MiB", "vswitchd.rss", _MIB),
    ("sessions", STATE, SESSION_UP, 1.0),
)


def series(table: SoakTable) -> tuple[Series, ...]:
    """All curves that the samples have, in order; those of 0 throughout only where their panel has no other."""
    if not len(table):
        return ()
    table = table.head(len(table) - (1 if short_end_s(table) else 0))
    found = [*_generators(table), *_of_pmds(table), *_of_rates(table), *_of_gauges(table)]
    return tuple(
        one
        for one in found
        if one.points and (_moves(one) or (not any(_moves(other) for other in found if other.panel == one.panel)))
    )


def short_end_s(table: SoakTable) -> float:
    """How long the last interval was, s, where it is shorter than the others; 0 where it is not.

    It holds the end of the trial, and its samplers were read at another moment than the generator's counts: a rate over
    so little would draw a cliff or a peak that nobody measured.
    """
    if len(table) < 2:
        return 0.0
    last, usual = table.span_s(len(table) - 1), median(table.span_s(row) for row in range(len(table) - 1))
    return last if last < SHORT * usual else 0.0


def _moves(one: Series) -> bool:
    return any(value for _, value in one.points)


def _curve(table: SoakTable, panel: str, name: str, unit: str, value: Callable[[int], float]) -> Series:
    rows = range(len(table))
    return Series(panel, name, unit, thinned(table.column(TIME), [value(row) for row in rows], MOST_POINTS))


def _generators(table: SoakTable) -> Iterator[Series]:
    for name in table.matching(".lost"):
        yield Series("frames lost", name.removesuffix(".lost"), "per sample", _extremes(table, name, max))
    rows = range(len(table))
    for percentile in ("p50", "p99", "p999", "max"):
        values = [value * _US for value in latencies(table, rows, percentile)]
        if values:
            yield Series("latency", percentile, "us", thinned(table.column(TIME), values, MOST_POINTS))
    for name, shown in (("rig.absent_ns", "generator not running"), (KEPT_OFF_CPU, "PMDs waiting for a CPU")):
        if name in table.columns:
            yield Series("disturbance by the host", shown, "ms per sample", _extremes(table, name, max, _MS))


def _extremes(
    table: SoakTable, name: str, extreme: Callable[[list[float]], float], factor: float = 1.0
) -> tuple[tuple[float, float], ...]:
    """Of what is rare a median shows nothing: the largest of each group, or the least."""
    size = max(1, -(-len(table) // MOST_POINTS))
    times, values = table.column(TIME), table.column(name)
    groups = (range(first, min(first + size, len(table))) for first in range(0, len(table), size))
    points = ((times[group[-1]], [values[row] for row in group if not math.isnan(values[row])]) for group in groups)
    return tuple((end, extreme(present) * factor) for end, present in points if present)


def _of_pmds(table: SoakTable) -> Iterator[Series]:
    for name in table.matching(".cycles_busy"):
        thread = name.removesuffix(".cycles_busy")
        idle = f"{thread}.cycles_idle"
        if thread == "pmd" or idle not in table.columns:
            continue

        def busy(row: int, busy_name: str = name, idle_name: str = idle) -> float:
            cycles = table.column(busy_name)[row]
            both = cycles + table.column(idle_name)[row]
            return cycles / both * _PER_CENT if both else math.nan

        yield _curve(table, "PMD busy", thread, "%", busy)


def _of_rates(table: SoakTable) -> Iterator[Series]:
    for panel, unit, ending, factor in _RATES:
        for name in table.matching(ending):
            if name.startswith("pmd.") and name.count(".") == 1:
                continue  # the sum over all threads, each of which has its own curve

            def rate(row: int, of: str = name, by: float = factor) -> float:
                return table.column(of)[row] / table.span_s(row) * by

            whole = panel in {HITS, "port packets"}  # of a panel with several counters
            shown = name if whole else name.removesuffix(ending)
            yield _curve(table, panel, shown, unit, rate)


def _of_gauges(table: SoakTable) -> Iterator[Series]:
    for panel, unit, ending, factor in _GAUGES:
        for name in table.matching(ending):
            shown = name.removesuffix(ending) or "resident"
            if ending == SESSION_UP:
                yield Series(panel, shown, unit, _extremes(table, name, min))
                continue
            values = [value * factor for value in table.column(name)]
            yield Series(panel, shown, unit, thinned(table.column(TIME), values, MOST_POINTS))
