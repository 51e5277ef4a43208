"""From samples of several subjects to ratios and slopes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_nfvperf.model.display import format_value
from pytest_nfvperf.model.samples import Relative, Samples, Slope
from pytest_nfvperf.model.statistics import CONFIDENCE, RatioEstimate, ratio_estimate, slope_estimate, two_bands

FEWEST_FOR_A_SLOPE = 3
"""Subjects. Two make a ratio, not a line."""


def relative(
    samples: Samples, baseline: Samples, differing: tuple[tuple[str, str], ...], confidence: float = CONFIDENCE
) -> Relative | None:
    """The ratio of two samples of a metric; None without a value above 0. ``differing``: the baseline's labels."""
    if not _positive(samples) or not _positive(baseline):
        return None
    return bounded(ratio_estimate(baseline.values, samples.values, confidence), samples, baseline, differing)


def bounded(
    found: RatioEstimate, samples: Samples, baseline: Samples, differing: tuple[tuple[str, str], ...]
) -> Relative:
    """An estimate as what it says of the subject: where either side is only a bound, an end is open."""
    own, others = samples.at_least or samples.at_most, baseline.at_least or baseline.at_most
    reasons = [own, f"baseline: {others}" if others else ""]
    unbounded = math.isinf(found.high) or bool(samples.at_least or baseline.at_most)
    return Relative(
        metric=samples.metric,
        baseline=differing,
        ratio=found.ratio,
        low=0.0 if samples.at_most or baseline.at_least else found.low,
        high=None if unbounded else found.high,
        confidence=found.confidence,
        smallest_detectable=None if math.isinf(found.smallest_detectable) else found.smallest_detectable,
        bound_reason="; ".join(dict.fromkeys(filter(None, reasons))),
        baseline_value=baseline.median,
        baseline_bound="at least" if baseline.at_least else "at most" if baseline.at_most else "",
    )


def _positive(samples: Samples) -> bool:
    return bool(samples.values) and all(math.isfinite(value) and value > 0 for value in samples.values)


def slope(series: Sequence[tuple[float, Samples]], per: str, confidence: float = CONFIDENCE) -> Slope | None:
    """The change for each one more; shares are of the first subject.

    ``series``: (how many, samples) of each subject, all of one metric. ``per``: the label that counts. None for fewer
    than three subjects, or a baseline with a median of 0.
    """
    if len(series) < FEWEST_FOR_A_SLOPE or not all(samples.values for _, samples in series):
        return None
    baseline = abs(series[0][1].median)
    if not baseline:
        return None
    points = [(x, value) for x, samples in series for value in samples.values]
    found = slope_estimate([x for x, _ in points], [y for _, y in points], confidence)
    return Slope(
        metric=series[0][1].metric,
        unit=series[0][1].unit,
        per=per,
        value=found.slope,
        low=found.low,
        high=found.high,
        share=found.slope / baseline,
        share_low=found.low / baseline,
        share_high=found.high / baseline,
        confidence=confidence,
        bound_reason=next((why for _, each in series if (why := each.at_least or each.at_most)), ""),
    )


def bands_note(samples: Samples) -> str:
    """Says so when the samples fall into two bands (How we measure, rule 11); else empty."""
    found = two_bands(samples.values)
    if found is None:
        return ""
    low, high = (
        f"{len(band)} of {format_value(band[0], samples.unit)} .. {format_value(band[-1], samples.unit)}"
        for band in (found.low, found.high)
    )
    return f"{samples.metric} falls into two bands: {low} and {high}"
