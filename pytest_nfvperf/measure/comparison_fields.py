"""Fields of each subject's Outcome from the readings of a comparison: samples, ratios, slopes and notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from pytest_nfvperf.measure.alternation import BlockReadings, Pairs
from pytest_nfvperf.measure.same_speed import (
    AT_ITS_BEST,
    WindowBlock,
    block_ratio,
    jackknife,
    paired_ratio,
    ratios_by_block,
    separable_rigs,
    speed_estimate,
    speed_ratio,
)
from pytest_nfvperf.model.disturbance.windows import WindowRate
from pytest_nfvperf.model.measure.outcome import Reading, bands_note
from pytest_nfvperf.model.metrics import HIGHER, LOWER, metric_of
from pytest_nfvperf.model.statistics import (
    FEWEST_FOR_A_SLOPE,
    Bound,
    Pairing,
    Relative,
    SampleEstimate,
    Samples,
    Slope,
    bounded_ratio,
    relative,
    slope,
    slope_estimate,
)

Units = Mapping[str, str]
"""Base unit of each metric."""

FEWEST_UNDISTURBED = 5
"""Readings of a subject: in rounds, this many of two subjects bound a ratio at the confidence of a look."""

MOST_LIMITED = 0.25
"""Share of a subject's readings in turns that may be bounds only: so few do not move a median."""

MOST_UNLIKE = 1.1
"""How many times more the machine may slow one subject's readings than the other's for their ratio to be known. How
much a DUT suffers from a slow core depends on what it does, so a large difference cannot be taken out."""

Block = Sequence[Reading]

_DISTURBED = "the machine disturbed most readings from end to end"


def comparison_fields(per: str, values: Sequence[str], units: Units, readings: BlockReadings) -> list[dict[str, Any]]:
    """Make the fields of each subject's Outcome.

    Where a subject has too few undisturbed readings, whole trials of all subjects are compared. A rate itself is then a
    lower bound. Two of those have a ratio only as far as the machine slowed both alike (``_slowed_alike``).

    Args:
        per: the label that the subjects differ in.
        values: of that label, one a subject, the baseline's first.
        units: base unit of each metric.
        readings: of all subjects.
    """
    numbers = range(len(values))
    read = [readings.readings(number) for number in numbers]
    disturbed = [metric for metric in units if any(_is_mostly_disturbed(metric, own) for own in read)]
    compared = [[[reading.of_whole_trial(disturbed) for reading in block] for block in own] for own in read]
    samples = [
        [
            one_metric
            for metric, unit in units.items()
            if (one_metric := _samples(metric, unit, own, paired=readings.paired)) is not None
        ]
        for own in compared
    ]
    slopes = _slopes(per, values, units, samples, readings)
    notes = (f"{_DISTURBED}: values are of whole trials",) if disturbed else ()
    return [
        {
            "samples": tuple(_as_bound(own) if own.metric in disturbed else own for own in samples[number]),
            "relatives": tuple(
                _slowed_alike(ratio, compared[number], compared[0]) if ratio.metric in disturbed else ratio
                for ratio in _relatives(samples, number, ((per, values[0]),), readings)
            )
            if number
            else (),
            "slopes": slopes if number == numbers[-1] else (),
            "notes": (*notes, *filter(None, map(bands_note, samples[number][:1]))),
            "missing": _missing(samples[number], compared[number]),
        }
        for number in numbers
    ]


def merge_fields(facts: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fields of a subject's Outcome, with the notes of both."""
    return {**facts, **found, "notes": (*facts.get("notes", ()), *found.get("notes", ()))}


def rig_is_the_limit(metric: str, blocks: Sequence[Sequence[Reading]]) -> bool:
    """True where so many readings are bounds only that their median would be one."""
    return bool(_limited([reading for block in blocks for reading in block], metric, Bound.AT_LEAST))


def _is_mostly_disturbed(metric: str, blocks: Sequence[Sequence[Reading]]) -> bool:
    """True where too few readings have undisturbed windows, and more have a value of the whole trial."""
    readings = [reading for block in blocks for reading in block]
    undisturbed = sum(metric in reading.values for reading in readings)
    return undisturbed < min(FEWEST_UNDISTURBED, sum(metric in reading.whole for reading in readings))


def _as_bound(samples: Samples) -> Samples:
    metric = metric_of(samples.metric)
    low = samples.bound.opens_low or (metric.slowed and metric.better == LOWER)
    high = samples.bound.opens_high or (metric.slowed and metric.better == HIGHER)
    return replace(samples, bound=Bound.of(low=low, high=high), why=samples.why or (_DISTURBED if low or high else ""))


def _missing(samples: Sequence[Samples], blocks: Sequence[Sequence[Reading]]) -> dict[str, str]:
    """Metrics that none of a subject's readings has, each with the reason."""
    measured = {each.metric for each in samples}
    why = {metric: reason for block in blocks for reading in block for metric, reason in reading.missing.items()}
    return {metric: reason for metric, reason in sorted(why.items()) if metric not in measured}


def _samples(metric: str, unit: str, blocks: Sequence[Sequence[Reading]], *, paired: bool) -> Samples | None:
    """One value a block, of its median reading, or of its worst reading if that decides; None without any."""
    with_it = [[reading for reading in block if metric in reading.values] for block in blocks]
    chosen = [_typical(metric, block) for block in with_it if block]
    if not chosen:
        return None
    every = [reading for block in with_it for reading in block]
    # A round is a value of its own: there one bound makes the samples a bound.
    most_limited = MOST_LIMITED if paired else 0
    least, most = (_limited(every, metric, bound, most_limited) for bound in (Bound.AT_LEAST, Bound.AT_MOST))
    return Samples(
        metric,
        unit,
        tuple(reading.values[metric] for reading in chosen),
        tuple(reading.evidence for reading in chosen),
        Bound.of(low=bool(most), high=bool(least)),
        least or most,
    )


def _typical(metric: str, block: Sequence[Reading]) -> Reading:
    if metric_of(metric).by_worst:
        return max(block, key=lambda reading: abs(reading.values[metric] - 1))
    middle = median(reading.values[metric] for reading in block)
    return min(block, key=lambda reading: abs(reading.values[metric] - middle))


def _limited(readings: Sequence[Reading], metric: str, bound: Bound, most: float = MOST_LIMITED) -> str:
    """The first reason, where more than this share of the readings are such a bound."""
    bounds = [reading.bounds[metric] for reading in readings if metric in reading.bounds]
    given = [why for of_it, why in bounds if of_it is bound]
    return given[0] if len(given) > most * len(readings) else ""


# Ratios. Rounds are independent readings of either subject: their ratio has the interval of Mann and Whitney, and four
# rounds are the fewest that bound it at 95 %. Turns are pairs. Where windows have the cores' slowdown, a regression
# compares them at the same speed; elsewhere the ratios of blocks have the interval of Wilcoxon, which needs six blocks.


def _relatives(
    samples: Sequence[Sequence[Samples]], number: int, differing: tuple[tuple[str, str], ...], readings: BlockReadings
) -> tuple[Relative, ...]:
    baseline = {own.metric: own for own in samples[0]}
    both = [(own, baseline[own.metric]) for own in samples[number] if own.metric in baseline]
    ratios = (
        _paired_relative(own, base, readings.pairs(number), differing, readings)
        if readings.paired
        else relative(own, base, differing, readings.confidence)
        for own, base in both
    )
    return tuple(ratio for ratio in ratios if ratio is not None)


def _slowed_alike(ratio: Relative, own: Sequence[Block], baseline: Sequence[Block]) -> Relative:
    """The ratio of readings that the machine disturbed: wider by as much as it slowed one more than the other.

    Turns are compared at the same speed, or against a second build of the baseline. Rounds are seconds apart, and there
    is no ratio where nobody saw how much each was slowed, or one was slowed much more.
    """
    if ratio.pairing is not None:
        return ratio
    slowdowns = [_slowdown(blocks) for blocks in (own, baseline)]
    observed = [slowdown for slowdown in slowdowns if slowdown is not None]
    wide = max(observed) / min(observed) if len(observed) == len(slowdowns) else math.inf
    if wide <= MOST_UNLIKE:
        return replace(ratio, low=ratio.low / wide, high=None if ratio.high is None else ratio.high * wide)
    times = " and ".join("unknown" if slowdown is None else f"{slowdown:.2f} times" for slowdown in slowdowns)
    why = f"{_DISTURBED}, and did not slow both alike, as far as was seen ({times}; baseline last)"
    return replace(ratio, low=0.0, high=None, why=ratio.why or why)


def _slowdown(blocks: Sequence[Block]) -> float | None:
    """How much the machine slowed the readings, by their median; None if one did not see it."""
    slowdowns = [reading.slowdown for block in blocks for reading in block]
    observed = [slowdown for slowdown in slowdowns if slowdown is not None]
    return median(observed) if observed and len(observed) == len(slowdowns) else None


def _paired_relative(
    own: Samples, baseline: Samples, pairs: Pairs, differing: tuple[tuple[str, str], ...], found: BlockReadings
) -> Relative | None:
    """The ratio of a subject to both builds of its baseline; None where no block has one.

    Where the baseline differs from a second build of itself beyond the interval, the ratio's interval is widened by
    that factor: a difference that equal subjects show cannot be attributed.
    """
    noise_pairs = found.noise_pairs
    estimate = _estimate(own.metric, pairs, found.confidence, noise_pairs)
    if estimate is None:
        return None
    ratio = bounded_ratio(estimate, own, baseline, differing)
    noise = _estimate(own.metric, noise_pairs, found.confidence)
    is_bounded = noise is not None and noise.low > 0 and noise.high < math.inf
    pairing = Pairing(
        sum(map(bool, pairs)),
        sum(map(len, pairs)),
        tuple(found.dropped.most_common()),
        noise.low if noise and is_bounded else None,
        noise.high if noise and is_bounded else None,
        ratios=_ratios_for_pictures(own.metric, pairs, noise_pairs),
        noise_ratios=_ratios_for_pictures(own.metric, noise_pairs),
    )
    wide = pairing.bias
    return replace(ratio, low=ratio.low / wide, high=None if ratio.high is None else ratio.high * wide, pairing=pairing)


def _estimate(metric: str, pairs: Pairs, confidence: float, noise_pairs: Pairs = ()) -> SampleEstimate | None:
    """Subject over baseline; None where no block has a pair. ``noise_pairs``: as of ``_window_rates``."""
    window_rates = _window_rates(metric, pairs, noise_pairs)
    with_windows = [(baseline, own) for baseline, own in window_rates or () if own]
    at_speed = speed_estimate(with_windows, confidence, _best(metric)) if with_windows else None
    if at_speed is not None:
        return at_speed
    ratios = block_ratios(metric, pairs)
    return paired_ratio(ratios, confidence) if ratios else None


def _ratios_for_pictures(metric: str, pairs: Pairs, noise_pairs: Pairs = ()) -> tuple[float, ...]:
    """Of each block: at the same speed where readings have the cores' speed, else the median of its pairs."""
    window_rates = _window_rates(metric, pairs, noise_pairs)
    return tuple(block_ratios(metric, pairs)) if window_rates is None else ratios_by_block(window_rates, _best(metric))


def block_ratios(metric: str, pairs: Pairs) -> list[float]:
    """Subject over baseline by whole trials, one a block that has a pair."""
    values = ([(a.over_all(metric), b.over_all(metric)) for a, b in block] for block in pairs)
    ratios = (block_ratio([(a, b) for a, b in block if a is not None and b is not None]) for block in values)
    return [ratio for ratio in ratios if ratio is not None]


def _window_rates(metric: str, pairs: Pairs, noise_pairs: Pairs = ()) -> list[WindowBlock] | None:
    """Windows of baseline and subject, of every block in order; None where readings lack the cores' speed.

    ``noise_pairs``: of the baseline with its second build, whose windows are added to the baseline's: two builds in
    each block make the ratio more exact.
    """
    if not any(metric in a.window_rates and metric in b.window_rates for block in pairs for a, b in block):
        return None

    def windows(readings: Sequence[Reading]) -> list[WindowRate]:
        return [window for reading in readings for window in reading.window_rates.get(metric, ())]

    copies = [windows([copy for _, copy in block]) for block in noise_pairs] or [[] for _ in pairs]
    return [
        ([*windows([a for a, _ in block]), *copy], windows([b for _, b in block]))
        for block, copy in zip(pairs, copies, strict=True)
    ]


def _best(metric: str) -> float:
    """Quantile of a subject's best windows: disturbances only make rates smaller and times longer."""
    return AT_ITS_BEST if metric_of(metric).better == HIGHER else 1 - AT_ITS_BEST


# Slopes over subjects that are counted, such as by their number of bridges.

_Series = Sequence[tuple[float, int, Samples]]
"""Count, number and samples of each subject that has a metric, the baseline first."""


def _slopes(
    per: str, values: Sequence[str], units: Units, samples: Sequence[Sequence[Samples]], readings: BlockReadings
) -> tuple[Slope, ...]:
    if not all(value.isdigit() for value in values):
        return ()
    slopes = []
    for metric in units:
        series = [
            (float(value), number, of_metric)
            for number, (value, own) in enumerate(zip(values, samples, strict=True))
            for of_metric in own
            if of_metric.metric == metric
        ]
        if not readings.paired:
            slopes.append(slope([(count, own) for count, _, own in series], per, readings.confidence))
        elif series and series[0][1] == 0:
            slopes.append(_paired_slope(series, per, readings))
    return tuple(change for change in slopes if change is not None)


def _paired_slope(series: _Series, per: str, readings: BlockReadings) -> Slope | None:
    """The change for each one more, from the ratios of each block, which cancel what the machine did meanwhile."""
    (first, _, baseline), *others = series
    metric = baseline.metric
    window_rates = [
        (count, _window_rates(metric, readings.pairs(number), readings.noise_pairs)) for count, number, _ in others
    ]
    if any(blocks is not None for _, blocks in window_rates):
        bound = next((samples.why for _, _, samples in series if samples.why), "")
        with_windows = [(count, blocks) for count, blocks in window_rates if blocks]
        return _window_slope(first, with_windows, baseline, per, bound, readings.confidence)
    middle = baseline.median
    points = [(first, replace(baseline, values=(middle,) * len(baseline.values)))]
    for count, number, own in others:
        values = tuple(ratio * middle for ratio in block_ratios(metric, readings.pairs(number)))
        if values:
            points.append((count, replace(own, values=values)))
    return slope(points, per, readings.confidence)


def _window_slope(
    first: float,
    series: Sequence[tuple[float, Sequence[WindowBlock]]],
    baseline: Samples,
    per: str,
    why: str,
    confidence: float,
) -> Slope | None:
    """Theil-Sen slope of the ratios over the counts, its interval by leaving out blocks of all subjects.

    ``first``: the baseline's count; ``series``: the others'.
    """
    if len(series) + 1 < FEWEST_FOR_A_SLOPE:
        return None
    best = _best(baseline.metric)
    on_rigs = [(count, blocks, separable_rigs(blocks)) for count, blocks in series]

    def share_slope(chosen: Sequence[int]) -> float | None:
        counts, ratios = [first], [1.0]
        for count, blocks, rigs in on_rigs:
            ratio = speed_ratio([blocks[number] for number in chosen], rigs, best)
            if ratio is None:
                return None
            counts.append(count)
            ratios.append(ratio)
        return slope_estimate(counts, ratios).value

    # All subjects were read in the same blocks.
    estimate = jackknife(share_slope, len(series[0][1]), confidence)
    if estimate is None:
        return None
    share, reach = estimate
    return Slope(
        metric=baseline.metric,
        unit=baseline.unit,
        per=per,
        value=share * baseline.median,
        low=(share - reach) * baseline.median,
        high=(share + reach) * baseline.median,
        share=share,
        share_low=share - reach,
        share_high=share + reach,
        confidence=confidence,
        why=why,
    )
