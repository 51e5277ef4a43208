"""Outages in a page: a table of the repeats of an event, and of the longest one what passed and what happened when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from pytest_nfvperf.adapters.report import vega
from pytest_nfvperf.adapters.report.vega import Look, View
from pytest_nfvperf.model.measure.outage import Outage


def outages_shown(outages: Iterable[Outage]) -> Iterator[dict[str, Any]]:
    """Yield each event with its repeats, and the longest of them."""
    for event, repeats in groupby(sorted(outages, key=lambda outage: outage.event), key=lambda outage: outage.event):
        own = list(repeats)
        longest = max(own, key=lambda each: (not each.ended, each.span_s()[1]))
        yield {
            "event": event,
            "repeats": own,
            "classes": any(direction.of_class for each in own for direction in each.blocked),
            "longest": longest,
            "log": [f"{line.ns / 1e6:+,.1f} ms {line.source}: {line.text}" for line in longest.log],
        }


def outage_chart(outage: Outage) -> list[View] | None:
    """Frames offered and received by short times around the event; None where the generator has no windows."""
    if not outage.received:
        return None
    step_ms, from_ms = outage.bin_ns / 1e6, outage.bins_from_ns / 1e6
    x = vega.number("x", "ms from the event")
    y = vega.number("y", f"frames in {step_ms:g} ms", zero=True)
    series = {"offered": outage.offered, "received": outage.received}
    rows = [
        {"series": name, "x": round(from_ms + at * step_ms, 3), "y": frames}
        for name, counts in series.items()
        for at, frames in enumerate(counts)
    ]
    looks = {"offered": Look(vega.MUTED, line="solid", width=1.2), "received": Look(vega.BLUE, line="solid")}
    worst = outage.worst()
    gaps = [(gap.after_ns / 1e6, gap.before_ns / 1e6) for gap in worst.gaps] if worst is not None else []
    lines = [(0.0, "event", Look(vega.VERMILION, line="solid", width=1.0))]
    lines.append((outage.returned_ns / 1e6, "it returned", Look(vega.VERMILION, line="dash", width=1.0)))
    behind = vega.bands(x, gaps, vega.ORANGE), vega.rules(x, lines)
    return [vega.panel("Frames around the event", *behind, vega.series(x, y, rows, looks, steps=True), height=200)]
