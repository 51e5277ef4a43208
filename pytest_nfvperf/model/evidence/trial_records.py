"""What of a trial goes to disk: all that somebody asks for later, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.ledger.ledger import Ledger
from pytest_nfvperf.model.measure.outcome import Cost
from pytest_nfvperf.model.traffic.histogram import Histogram, summarised
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialResult
from pytest_nfvperf.model.traffic.undisturbed import (
    LISTED_OF_STEPS,
    MOST_LISTED,
    Disturbance,
    Undisturbed,
    disturbances,
)

EncodeHistogram = Callable[[Histogram], str]
"""HdrHistogram V2 as text: adapters/evidence/hdr.py."""

STEPS = frozenset({"warm-up", "search", "loss curve", "back-to-back burst", "load for the soak"})
"""Purposes of trials of which there are many, and whose latency nobody asked for: their records are short."""
CONFIRMS = "confirmation of "
"""Begins the purposes of trials that have a result to show, but no latency: no exact histograms."""


def trial_data(
    result: TrialResult,
    *,
    wall_s: float,
    encode: EncodeHistogram | None,
    ledger: Ledger | None = None,
    cost: Cost | None = None,
    repeat_of: str | None = None,
) -> TrialData:
    """A trial as it goes to disk: exact histograms as text, of each the percentiles that people look at as numbers.

    Of a step of a search (``STEPS``) there are no histograms and arrivals, and of its ledger only what was lost where.

    ``encode``: makes that text; None leaves it out. The others as in TrialData.
    """
    wall_s, cost = round(wall_s, 6), None if cost is None else _rounded(cost)
    if result.spec.purpose in STEPS:
        counts = tuple(replace(count, latency=None, latency_raw=None, arrivals=None) for count in result.counts)
        short = None if ledger is None else replace(ledger, deltas=(), paths=(), beside=(), branches=())
        found = _disturbances(result, LISTED_OF_STEPS)
        kept = replace(result, counts=counts, windows=None)
        return TrialData(kept, wall_s, short, cost, repeat_of, {}, result.undisturbed, found, _speaking(result))
    kept = result if result.spec.saturating else replace(result, windows=None)
    found = () if result.spec.saturating else _disturbances(result, MOST_LISTED)
    exact: dict[str, str] = {}
    confirms = result.spec.purpose.startswith(CONFIRMS)
    for count in result.counts:
        for name, histogram in ((str(count.direction), count.latency), (f"{count.direction} raw", count.latency_raw)):
            if histogram is not None and encode is not None and not confirms:
                exact[name] = encode(histogram)
    short_counts = tuple(_summarised_counts(count) for count in result.counts)
    kept = replace(kept, counts=short_counts)
    undisturbed, ran = (None, None) if result.spec.saturating else (result.undisturbed, _speaking(result))
    return TrialData(kept, wall_s, ledger, cost, repeat_of, exact, undisturbed, found, ran)


def _speaking(result: TrialResult) -> Undisturbed | None:
    """The running windows, where the undisturbed ones are too few to speak."""
    return result.running if result.undisturbed is None or not result.undisturbed.enough else None


def _disturbances(result: TrialResult, most: int) -> tuple[Disturbance, ...]:
    return () if result.windows is None else disturbances(result.windows, result.due_s, result.lost, most)


def _summarised_counts(count: DirectionCounts) -> DirectionCounts:
    return replace(count, latency=_summary(count.latency), latency_raw=_summary(count.latency_raw))


def _summary(histogram: Histogram | None) -> Histogram | None:
    return None if histogram is None else summarised(histogram)


def _rounded(cost: Cost) -> Cost:
    """To six significant digits: no counter resolves more."""
    values: dict[str, Any] = {
        name: float(f"{value:.6g}")
        for name in (field.name for field in fields(cost))
        if isinstance(value := getattr(cost, name), float)
    }
    return replace(cost, **values)
