"""From the samples of a soak to its summary. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_nfvperf.model.measure.kept_off_cpu import KEPT_OFF_FLOOR_NS, KEPT_OFF_SLACK
from pytest_nfvperf.model.measure.soak import Drift, Flap, Gap, Lossy, Soak, Spoiled
from pytest_nfvperf.model.measure.soak_dated import DatedInterval
from pytest_nfvperf.model.measure.soak_table import TIME, SoakTable, thinned
from pytest_nfvperf.model.statistics import slope_estimate, trend_p_value

MOST_NAMED = 50
"""Spoiled and lossy intervals, gaps and flaps are listed up to so many of each; all are counted."""

KEPT_OFF_CPU = "pmd-sched.stolen_ns"
"""Column: how long PMD threads were kept off their CPU, by the kernel or the host, for anything but the DUT."""

SESSION_UP, SESSION_FLAPS = ".up", ".flaps"
"""Columns of a session: 1 while it is up; how often it went down within the interval."""

_TREND_BINS = 60
_FEWEST_BINS = 10
_SETTLING_SHARE = 0.1
"""Of the start, left out of trends: caches fill, memory is touched for the first time."""

_LATE = 1.5
"""An interval so many times as long as it should be lacks a sample."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak was to be. ``most_skipped``: share of an interval's frames that the generator may skip."""

    load_fps: int
    directions: int
    duration_s: float
    interval_s: float
    most_skipped: float


def summarise(
    table: SoakTable,
    plan: Plan,
    gaps: Sequence[Gap] = (),
    interrupted: str = "",
    rig_faults: Sequence[str] = (),
    sampling_cores: float | None = None,
    dated: Mapping[int, DatedInterval] | None = None,
) -> Soak:
    """The summary of a soak.

    ``gaps``: that the collector saw itself. ``interrupted``: why it ended early, or "". ``rig_faults``: against the
    whole run. ``dated``: rows whose losses are dated by windows; the others are judged by all of their loss.
    """
    dated = dated or {}
    spoiled = {row: reason for row in range(len(table)) if (reason := _spoiled(table, row, plan, dated))}
    valid = [row for row in range(len(table)) if row not in spoiled]
    own = {row: max(0, dated[row].lost) if row in dated else _lost(table, row) for row in valid}
    lossy = [row for row in valid if own[row] > 0]
    all_gaps = [*_late_intervals(table, plan), *gaps]
    flaps = list(_flaps(table))
    return Soak(
        load_fps=plan.load_fps,
        planned_s=plan.duration_s,
        elapsed_s=table.column(TIME)[-1] if len(table) else 0.0,
        interval_s=plan.interval_s,
        intervals=len(table),
        offered=_frames(table, (".sent", ".refused"), valid),
        lost=sum(own.values()),
        spoiled_offered=_frames(table, (".sent", ".refused"), spoiled),
        spoiled_lost=_frames(table, (".lost",), spoiled),
        disturbed_lost=sum(dated[row].disturbed_lost for row in valid if row in dated),
        skipped=_frames(table, (".skipped",), range(len(table))),
        spoiled=tuple(
            Spoiled(*_times(table, row), reason, _lost(table, row))
            for row, reason in list(spoiled.items())[:MOST_NAMED]
        ),
        spoiled_count=len(spoiled),
        lossy=tuple(Lossy(*_times(table, row), own[row]) for row in lossy[:MOST_NAMED]),
        lossy_count=len(lossy),
        gaps=tuple(all_gaps[:MOST_NAMED]),
        gap_count=len(all_gaps),
        unexplained=sum(not gap.reason for gap in all_gaps),
        missing_intervals=max(0, _due(table, plan) - len(table)),
        flaps=tuple(flaps[:MOST_NAMED]),
        flap_count=len(flaps),
        drifts=tuple(_drifts(table, valid, plan, dated)),
        interrupted=interrupted,
        rig_faults=tuple(rig_faults),
        sessions=tuple(name.removesuffix(SESSION_UP) for name in table.matching(SESSION_UP)),
        sampling_cores=sampling_cores,
    )


def _frames(table: SoakTable, suffixes: Sequence[str], rows: Sequence[int] | dict[int, str] | range) -> int:
    return round(sum(table.total(suffix, rows) for suffix in suffixes))


def _times(table: SoakTable, row: int) -> tuple[float, float]:
    end = table.column(TIME)[row]
    return end - table.span_s(row), end


def _lost(table: SoakTable, row: int) -> int:
    return round(table.total(".lost", [row]))


def _due(table: SoakTable, plan: Plan) -> int:
    """Intervals that should have been told of by the time of the last."""
    last = table.column(TIME)[-1] if len(table) else 0.0
    return math.floor(min(last, plan.duration_s) / plan.interval_s + 0.5)


def _spoiled(table: SoakTable, row: int, plan: Plan, dated: Mapping[int, DatedInterval]) -> str:
    """Why the rig spoiled an interval; where its losses are dated, the time that PMDs waited in it is, too."""
    if row not in dated:
        return spoiled_by(table, row, plan)
    return dated[row].spoiled or _skipped(table, row, plan)


def spoiled_by(table: SoakTable, row: int, plan: Plan) -> str:
    """Why the rig spoiled an interval; empty when it did not."""
    return _skipped(table, row, plan) or _kept_off_cpu(table, row, plan)


def _skipped(table: SoakTable, row: int, plan: Plan) -> str:
    for skipped in table.matching(".skipped"):
        direction = skipped.removesuffix(".skipped")
        names = (f"{direction}.sent", f"{direction}.refused", skipped)
        intended = sum(table.column(name)[row] for name in names)
        share = table.column(skipped)[row] / intended if intended else 0.0
        if share > plan.most_skipped:
            return f"{direction}: {share:.1%} of the frames were due while the generator was not running"
    return ""


def _kept_off_cpu(table: SoakTable, row: int, plan: Plan) -> str:
    """A loss that fits into the time that PMDs were kept off their CPU.

    Their time is read a moment after the frames are counted, so a stall may appear in a neighbour. Both neighbours
    count with their own loss: no stall explains two losses.
    """
    if _lost(table, row) <= 0 or KEPT_OFF_CPU not in table.columns:
        return ""
    around = range(max(0, row - 1), min(len(table), row + 2))
    kept_off_ns = math.fsum(value for at in around if not math.isnan(value := table.column(KEPT_OFF_CPU)[at]))
    lost = sum(max(0, _lost(table, at)) for at in around)
    explained = plan.load_fps * plan.directions * kept_off_ns / 1e9 * KEPT_OFF_SLACK
    if kept_off_ns < KEPT_OFF_FLOOR_NS or lost > explained:
        return ""
    return f"the host kept PMD threads off their CPU for {kept_off_ns / 1e6:.2f} ms, which explains {lost} lost frames"


def _late_intervals(table: SoakTable, plan: Plan) -> Iterator[Gap]:
    for row in range(len(table)):
        span_s = table.span_s(row)
        if span_s <= _LATE * plan.interval_s:
            continue
        absent_s = table.column("rig.absent_ns")[row] / 1e9 if "rig.absent_ns" in table.columns else 0.0
        reason = ""
        if absent_s >= (span_s - plan.interval_s) / 2:
            reason = f"the generator was not running for {absent_s:.1f} s of it"
        yield Gap("generator", *_times(table, row), reason)


def _flaps(table: SoakTable) -> Iterator[Flap]:
    for name in table.matching(SESSION_FLAPS):
        for row, count in enumerate(table.column(name)):
            if count > 0:
                end = table.column(TIME)[row]
                yield from (Flap(name.removesuffix(SESSION_FLAPS), end, "went down") for _ in range(int(count)))
    for name in table.matching(SESSION_UP):
        session = name.removesuffix(SESSION_UP)
        counted = f"{session}{SESSION_FLAPS}" in table.columns
        yield from _downs(session, table, counted=counted)


def _downs(session: str, table: SoakTable, *, counted: bool) -> Iterator[Flap]:
    """Times at which it was seen down and nobody counted that: its flaps are not told, or it never came up at all."""
    ups = table.column(f"{session}{SESSION_UP}")
    flaps = table.column(f"{session}{SESSION_FLAPS}") if counted else [math.nan] * len(ups)
    was_up = True
    for row, up in enumerate(ups):
        if math.isnan(up):
            continue
        if was_up and not up and (math.isnan(flaps[row]) or row == 0):
            yield Flap(session, table.column(TIME)[row], "is not up")
        was_up = bool(up)


def _drifts(table: SoakTable, valid: Sequence[int], plan: Plan, dated: Mapping[int, DatedInterval]) -> Iterator[Drift]:
    """Trends after the start.

    Disturbed intervals count for memory, and for the rate where it is known whose loss there was.
    """
    start = table.column(TIME)[-1] * _SETTLING_SHARE if len(table) else 0.0
    everyone = [row for row in range(len(table)) if table.column(TIME)[row] > start]
    calm = [row for row in valid if table.column(TIME)[row] > start]
    quiet = set(calm)
    known = [row for row in everyone if row in quiet or row in dated or not _lost(table, row)]
    memory = [table.column("vswitchd.rss")[row] for row in everyone] if ("vswitchd.rss" in table.columns) else []
    for metric, unit, rows, values in (
        ("rate_change", "ratio", known, [own_rate(table, row, plan, dated.get(row)) for row in known]),
        ("latency_p99_change", "ratio", calm, latencies(table, calm, "p99")),
        ("cycles_change", "ratio", calm, cycles(table, calm)),
        ("memory_growth", "bytes", everyone, memory),
    ):
        drift = _drift(metric, unit, [table.column(TIME)[row] for row in rows], values) if values else None
        if drift is not None:
            yield drift


def rates(table: SoakTable, rows: Sequence[int]) -> list[float]:
    """Received frames/s, all directions, of these rows."""
    return [table.total(".received", [row]) / table.span_s(row) for row in rows]


def own_rate(table: SoakTable, row: int, plan: Plan, dated: DatedInterval | None) -> float:
    """What the DUT forwards of the load, frames/s, all directions; NaN where nothing was offered.

    Neither the generator's skipped frames nor loss while the machine disturbed it are the DUT's.
    """
    offered = sum(table.total(suffix, [row]) for suffix in (".sent", ".refused"))
    forwarded = table.total(".received", [row]) + (dated.disturbed_lost if dated is not None else 0)
    return plan.load_fps * plan.directions * forwarded / offered if offered else math.nan


def latencies(table: SoakTable, rows: Sequence[int], percentile: str) -> list[float]:
    """The worst direction's percentile in ns, NaN without samples; empty when no latency was measured."""
    names = table.matching(f".{percentile}_ns")
    return [max((table.column(name)[row] for name in names), default=math.nan) for row in rows] if names else []


def cycles(table: SoakTable, rows: Sequence[int]) -> list[float]:
    """Busy PMD cycles a packet, NaN where nothing was received; empty when they were not counted."""
    needed = ("pmd.cycles_busy", "pmd.packets_received")
    if not set(needed) <= set(table.columns):
        return []
    busy, packets = (table.column(name) for name in needed)
    return [busy[row] / packets[row] if packets[row] > 0 else math.nan for row in rows]


def _drift(metric: str, unit: str, times: Sequence[float], values: Sequence[float]) -> Drift | None:
    """None for a series too short to have one."""
    points = thinned(times, values, _TREND_BINS)
    if len(points) < _FEWEST_BINS:
        return None
    x, y = [t for t, _ in points], [value for _, value in points]
    middle = median(y)
    scale = (x[-1] - x[0]) / (1.0 if unit == "bytes" else middle or math.inf)
    found = slope_estimate(x, y)
    return Drift(
        metric, unit, found.slope * scale, found.low * scale, found.high * scale, trend_p_value(y), len(points)
    )
