"""A soak in words: for the terminal, the page and Allure alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_nfvperf.model.display import format_fps, format_ratio, format_seconds, format_value, how_many
from pytest_nfvperf.model.measure.loss_bound import loss_bound_text
from pytest_nfvperf.model.measure.soak import Drift, Soak, Spoiled

_DRIFT_NAMES = {
    "rate_change": "received rate",
    "latency_p99_change": "99th percentile of latency",
    "cycles_change": "PMD cycles a packet",
    "memory_growth": "memory of ovs-vswitchd",
}


_ADJACENT_S = 0.05
"""Between the ends of intervals that follow one another."""


def soak_line(soak: Soak) -> str:
    """``60.0 s at 4.00 Mpps: 0 lost of 480,000,000: ...``, and what is against it."""
    ended = f"{format_seconds(soak.elapsed_s)} at {format_fps(soak.load_fps)}"
    if soak.interrupted:
        ended += f" ({soak.interrupted})"
    against = [f"{how_many(soak.spoiled_count, 'interval')} spoiled"] if soak.spoiled_count else []
    against += [how_many(soak.flap_count, "flap")] if soak.flap_count else []
    against += [f"{how_many(soak.missing_intervals, 'sample')} missing"] if soak.missing_intervals else []
    return "; ".join([f"{ended}: {_loss(soak)}", *against])


def soak_facts(soak: Soak) -> list[tuple[str, str]]:
    """What a reader wants to know, by name."""
    sessions = f"{len(soak.sessions)} watched, {how_many(soak.flap_count, 'flap')}" if soak.sessions else "none watched"
    facts = [
        ("time", f"{format_seconds(soak.elapsed_s)} of {format_seconds(soak.planned_s)}"),
        ("load", f"{format_fps(soak.load_fps)} per direction, {soak.skipped:,} frames not sent by the generator"),
        ("loss", f"{_loss(soak)}, in {soak.lossy_count} of {soak.intervals} intervals"),
        ("spoiled by the rig", _spoiled(soak)),
        ("samples", f"{soak.intervals}, one each {format_seconds(soak.interval_s)}; {soak.missing_intervals} missing"),
        ("sessions", sessions),
        *((_DRIFT_NAMES.get(drift.metric, drift.metric), drift_text(drift)) for drift in soak.drifts),
    ]
    if soak.sampling_cores is not None:
        facts.append(("sampling took", f"{format_ratio(round(soak.sampling_cores, 4))} of a core"))
    if soak.interrupted:
        facts.append(("ended early", soak.interrupted))
    return [*facts, *(("against the run", fault) for fault in soak.rig_faults)]


def soak_events(soak: Soak) -> Iterator[str]:
    """Everything that happened at a time, in order; then what is not listed for its number."""
    events = [
        *((one.start_s, f"{_span(one.start_s, one.end_s)}: {one.lost:,} frames lost") for one in soak.lossy),
        *_spoiled_events(soak.spoiled),
        *(
            (
                one.start_s,
                f"{_span(one.start_s, one.end_s)}: no samples of {one.source}: {one.reason or 'nobody knows why'}",
            )
            for one in soak.gaps
        ),
        *((one.at_s, f"{one.at_s:.1f} s: session {one.session} {one.what}") for one in soak.flaps),
    ]
    yield from (text for _, text in sorted(events))
    for kind, count, shown in (
        ("lossy intervals", soak.lossy_count, len(soak.lossy)),
        ("spoiled intervals", soak.spoiled_count, len(soak.spoiled)),
        ("gaps", soak.gap_count, len(soak.gaps)),
        ("flaps", soak.flap_count, len(soak.flaps)),
    ):
        if count > shown:
            yield f"and {count - shown} more {kind}: see the file of samples"


def _spoiled_events(spoiled: Sequence[Spoiled]) -> Iterator[tuple[float, str]]:
    """Intervals that follow one another in one line, with each reason once: a rig is disturbed for minutes."""
    rows: list[list[Spoiled]] = []
    for one in spoiled:
        if rows and one.start_s - rows[-1][-1].end_s < _ADJACENT_S:
            rows[-1].append(one)
        else:
            rows.append([one])
    for row in rows:
        span = _span(row[0].start_s, row[-1].end_s)
        why = row[0].reason if len(row) == 1 else f"{len(row)} intervals: {_reasons(row)}"
        yield row[0].start_s, f"{span}: spoiled by the rig: {why}"


def _reasons(row: Sequence[Spoiled]) -> str:
    """``25 such as "0% of it was undisturbed (CPUs far apart)", 1 such as ...``: those with other figures are alike."""
    alike: dict[str, list[str]] = {}
    for one in row:
        alike.setdefault(re.sub(r"\d[\d,.]*", "", one.reason), []).append(one.reason)
    most = sorted(alike.values(), key=len, reverse=True)
    return "; ".join(f"{len(each)} such as “{each[0]}”" if len(each) > 1 else f"1, “{each[0]}”" for each in most)


def drift_text(drift: Drift) -> str:
    """``+0.01 % (-0.02 % .. +0.04 %)``: change over the soak with its interval."""
    value, low, high = (_signed(number, drift.unit) for number in (drift.value, drift.low, drift.high))
    return f"{value} ({low} .. {high}), Mann-Kendall p {drift.p_value:.2g}"


def _signed(value: float, unit: str) -> str:
    shown = f"{value * 100:.2f} %" if unit == "ratio" else format_value(value, unit)
    return shown if value < 0 else f"+{shown}"


def _loss(soak: Soak) -> str:
    if not soak.offered:
        return "no interval says anything about loss"
    return loss_bound_text(soak.lost / soak.offered, soak.offered)


def _spoiled(soak: Soak) -> str:
    text = f"{soak.spoiled_count} of {soak.intervals} intervals"
    text = f"{text}, {soak.spoiled_lost:,} frames lost in them" if soak.spoiled_count else text
    return f"{text}; {soak.disturbed_lost:,} lost in disturbed windows of others" if soak.disturbed_lost else text


def _span(start_s: float, end_s: float) -> str:
    return f"{start_s:.1f} .. {end_s:.1f} s"
