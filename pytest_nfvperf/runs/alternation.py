"""From readings that alternated to samples, ratios and slopes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_nfvperf.model.measure.comparison import FEWEST_FOR_A_SLOPE, bounded, slope
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.measure.shared_cpus import LOWER_BOUNDS
from pytest_nfvperf.model.samples import TO_THE_LAST, Pairing, Relative, Samples, Slope
from pytest_nfvperf.model.statistics import RatioEstimate, slope_estimate
from pytest_nfvperf.model.traffic.windows import Paced
from pytest_nfvperf.runs.paired import block_ratio, jackknife, paired_ratio
from pytest_nfvperf.runs.same_speed import (
    AT_ITS_BEST,
    PacedBlock,
    ratios_by_block,
    rigs_told_apart,
    speed_estimate,
    speed_ratio,
)

MOST_LIMITED = 0.25
"""Share of a subject's readings that may be bounds only: a median does not feel so few."""


Blocked = Sequence[Sequence[Reading]]
"""Readings of one subject, by block."""

Paired = Sequence[Sequence[tuple[Reading, Reading]]]
"""Readings of baseline and subject in the same turn, by block."""


def block_samples(metric: str, unit: str, blocks: Blocked) -> Samples | None:
    """One value a block: the median of its readings, or the worst one of whole-or-not metrics; None without any."""
    with_it = [[reading for reading in block if metric in reading.values] for block in blocks]
    chosen = [_typical(metric, block) for block in with_it if block]
    if not chosen:
        return None
    every = [reading for block in with_it for reading in block]
    return Samples(
        metric,
        unit,
        tuple(reading.values[metric] for reading in chosen),
        tuple(reading.evidence for reading in chosen),
        _limited([reading.at_least.get(metric, "") for reading in every]),
        _limited([reading.at_most.get(metric, "") for reading in every]),
    )


def _typical(metric: str, block: Sequence[Reading]) -> Reading:
    """The reading in the middle, or the one farthest from 1."""
    if metric in TO_THE_LAST:
        return max(block, key=lambda reading: abs(reading.values[metric] - 1))
    middle = median(reading.values[metric] for reading in block)
    return min(block, key=lambda reading: abs(reading.values[metric] - middle))


def _limited(reasons: Sequence[str]) -> str:
    given = [reason for reason in reasons if reason]
    return given[0] if len(given) > MOST_LIMITED * len(reasons) else ""


def rig_is_the_limit(metric: str, blocks: Blocked) -> bool:
    """True where so many readings are bounds only that their median would be one."""
    return bool(_limited([reading.at_least.get(metric, "") for block in blocks for reading in block]))


def block_ratios(metric: str, blocks: Paired) -> list[float]:
    """Subject over baseline by whole trials, one a block that has a pair."""
    found = (block_ratio(_over_all(metric, block)) for block in blocks)
    return [ratio for ratio in found if ratio is not None]


def _over_all(metric: str, block: Sequence[tuple[Reading, Reading]]) -> list[tuple[float, float]]:
    pairs = ((first.over_all(metric), second.over_all(metric)) for first, second in block)
    return [(first, second) for first, second in pairs if first is not None and second is not None]


def _paced(metric: str, blocks: Paired, itself: Paired = ()) -> list[PacedBlock] | None:
    """Windows of baseline and subject, of every block in order; None where readings do not know the cores' speed.

    ``itself``: pairs of the baseline with a second build of itself, whose windows are the baseline's, too: two builds
    of it in each block make the ratio more exact.
    """
    if not any(metric in a.paced and metric in b.paced for block in blocks for a, b in block):
        return None
    again = [_windows(metric, [copy for _, copy in block]) for block in itself] or [[] for _ in blocks]
    return [
        ([*_windows(metric, [a for a, _ in block]), *copies], _windows(metric, [b for _, b in block]))
        for block, copies in zip(blocks, again, strict=True)
    ]


def _windows(metric: str, readings: Sequence[Reading]) -> list[Paced]:
    return [window for reading in readings for window in reading.paced.get(metric, ())]


def _best(metric: str) -> float:
    """The quantile at which a subject is at its best: whatever the machine takes makes rates smaller, times longer."""
    return AT_ITS_BEST if metric in LOWER_BOUNDS else 1 - AT_ITS_BEST


def _estimate(metric: str, blocks: Paired, confidence: float, itself: Paired = ()) -> RatioEstimate | None:
    """Subject over baseline; None where no block has a pair. ``itself``: as of ``_paced``."""
    paced = _paced(metric, blocks, itself)
    with_windows = [(mine, theirs) for mine, theirs in paced or () if theirs]
    at_speed = speed_estimate(with_windows, confidence, _best(metric)) if with_windows else None
    if at_speed is not None:
        return at_speed
    ratios = block_ratios(metric, blocks)
    return paired_ratio(ratios, confidence) if ratios else None


def _ratios_by_block(metric: str, blocks: Paired, itself: Paired = ()) -> tuple[float, ...]:
    """Of each block, for pictures: at the same speed where readings know it, else the median of its pairs."""
    paced = _paced(metric, blocks, itself)
    return tuple(block_ratios(metric, blocks)) if paced is None else ratios_by_block(paced, _best(metric))


@dataclass(frozen=True, slots=True)
class Against:
    """A baseline, and the labels in which it differs.

    ``itself``: pairs of it with a second build of itself: the noise floor. ``dropped``: reasons of dropped readings.
    """

    differing: tuple[tuple[str, str], ...]
    itself: Paired
    dropped: tuple[tuple[str, int], ...] = ()


def block_relative(
    own: Samples, baseline: Samples, blocks: Paired, against: Against, confidence: float
) -> Relative | None:
    """The ratio of a subject to both builds of its baseline; None where no block has one.

    Where the baseline differs from a second build of itself beyond the interval, the ratio's interval is widened by
    that factor: what equal subjects show says nothing of unequal ones.
    """
    estimate = _estimate(own.metric, blocks, confidence, against.itself)
    if estimate is None:
        return None
    found = bounded(estimate, own, baseline, against.differing)
    noise_low, noise_high = _ends(_estimate(own.metric, against.itself, confidence))
    pairing = Pairing(
        sum(map(bool, blocks)),
        sum(map(len, blocks)),
        against.dropped,
        noise_low,
        noise_high,
        ratios=_ratios_by_block(own.metric, blocks, against.itself),
        noise_ratios=_ratios_by_block(own.metric, against.itself),
    )
    wide = pairing.bias
    return replace(found, low=found.low / wide, high=None if found.high is None else found.high * wide, pairing=pairing)


def _ends(floor: RatioEstimate | None) -> tuple[float, float] | tuple[None, None]:
    """Of an interval; None where nothing bounds it."""
    return (floor.low, floor.high) if floor is not None and floor.low > 0 and floor.high < math.inf else (None, None)


def block_slope(
    subjects: Sequence[tuple[float, Samples, Paired | None]], per: str, confidence: float, itself: Paired = ()
) -> Slope | None:
    """The change for each one more, from the ratios of each block: what the machine did meanwhile is out of them.

    ``subjects``: count, samples, and pairs with the baseline; the baseline first, with None. ``itself``: pairs of the
    baseline with a second build of itself.
    """
    baseline = subjects[0][1]
    if any(_paced(samples.metric, blocks or ()) is not None for _, samples, blocks in subjects[1:]):
        return _paced_slope(subjects, per, confidence, itself)
    middle = baseline.median
    series = [(subjects[0][0], replace(baseline, values=(middle,) * len(baseline.values)))]
    for count, samples, blocks in subjects[1:]:
        values = tuple(ratio * middle for ratio in block_ratios(samples.metric, blocks or ()))
        if values:
            series.append((count, replace(samples, values=values)))
    return slope(series, per, confidence)


def _paced_slope(
    subjects: Sequence[tuple[float, Samples, Paired | None]], per: str, confidence: float, itself: Paired
) -> Slope | None:
    """The slope of the ratios over the counts, its interval by leaving out blocks of all subjects."""
    paced = [(count, _paced(samples.metric, blocks or (), itself)) for count, samples, blocks in subjects[1:]]
    series = [(count, blocks, rigs_told_apart(blocks)) for count, blocks in paced if blocks]
    if len(series) + 1 < FEWEST_FOR_A_SLOPE:
        return None
    blocks = len(series[0][1])  # the same of all subjects: they were read in the same blocks
    baseline = subjects[0][1]
    best = _best(baseline.metric)
    found = jackknife(lambda chosen: _share_slope(subjects[0][0], series, chosen, best), blocks, confidence)
    if found is None:
        return None
    share, reach = found
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
        bound_reason=next((why for _, each, _ in subjects if (why := each.at_least or each.at_most)), ""),
    )


def _share_slope(
    first: float,
    series: Sequence[tuple[float, Sequence[PacedBlock], Sequence[int]]],
    chosen: Sequence[int],
    best: float,
) -> float | None:
    """Theil-Sen slope of the ratios of the chosen blocks, from 1 at the baseline's count."""
    points = [(first, 1.0)]
    for count, blocks, rigs in series:
        ratio = speed_ratio([blocks[at] for at in chosen], rigs, best)
        if ratio is None:
            return None
        points.append((count, ratio))
    return slope_estimate([x for x, _ in points], [y for _, y in points]).slope
