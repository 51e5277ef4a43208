"""Turns of a comparison: which subject works when, in blocks and rounds."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from pytest_nfvperf.measure.same_speed import (
    AT_ITS_BEST,
    PacedBlock,
    block_ratio,
    jackknife,
    paired_ratio,
    ratios_by_block,
    separable_rigs,
    speed_estimate,
    speed_ratio,
)
from pytest_nfvperf.measure.validity import InvalidTrialsError
from pytest_nfvperf.model.measure.cpu_account import LOWER_BOUNDS
from pytest_nfvperf.model.measure.outcome import FEWEST_FOR_A_SLOPE, Reading, bounded, slope
from pytest_nfvperf.model.statistics import (
    CONFIDENCE,
    TO_THE_LAST,
    Pairing,
    RatioEstimate,
    Relative,
    Samples,
    Slope,
    slope_estimate,
)
from pytest_nfvperf.model.traffic.windows import Paced

# Interleaved rounds: A B C, C B A, A B C, ... (How we measure, rule 7).
#
# Looking at the data after every round, and stopping at will, finds differences that are not there. So there
# are few looks, planned beforehand, and each takes its share of the error probability.

LOOKS = (1, 2, 3, 4)
"""When interim looks at the data happen, as multiples of the fewest repeats: after 5, 10, 15 and 20 rounds."""

LOOK_CONFIDENCE = 0.984
"""Of each interval, so that all looks together err in less than 5 % of the cases. A look sees again what the one before
it saw, so less than a quarter of 5 % each is needed. Four looks, evenly spaced, need 98.18 % where readings are many
(Pocock 1977, table 1); where they are 5 or 8, with the intervals used here, simulations then err in all of 5 %."""

MAX_DISTURBED_READINGS = 4


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often to measure: ``fewest`` repeats a side, whatever they take; no further round after ``budget_s``."""

    fewest: int
    budget_s: float

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of rounds after which an interim look happens."""
        return tuple(self.fewest * factor for factor in LOOKS)


Read = Callable[[int, int, int], Reading]
"""Measures a subject. Arguments: its number, the round's number, how many readings are still to come at least."""


def interleaved(
    subjects: int,
    read: Read,
    rounds: Rounds,
    *,
    enough: Callable[[Sequence[Sequence[Reading]]], bool],
    elapsed_s: Callable[[], float],
) -> list[list[Reading]]:
    """Read every subject in turn, forward and backward, until ``enough`` at a look, or the budget is spent.

    InvalidTrialsError where the rig disturbed too many readings before there were ``fewest`` of each.
    """
    readings: list[list[Reading]] = [[] for _ in range(subjects)]
    disturbed = 0
    number = 0
    for look in rounds.looks:
        while number < look:
            if number >= rounds.fewest and elapsed_s() >= rounds.budget_s:
                return readings
            order = range(subjects) if number % 2 == 0 else range(subjects - 1, -1, -1)
            for place, subject in enumerate(order):
                left = (look - number) * subjects - place
                try:
                    readings[subject].append(read(subject, number, left))
                except InvalidTrialsError:
                    disturbed += 1
                    if disturbed > MAX_DISTURBED_READINGS:
                        if min(map(len, readings)) >= rounds.fewest:
                            return readings  # enough for a figure, if not for every verdict
                        raise
            number += 1
        if enough(readings):
            break
    return readings


# Alternating readings: all subjects deployed at once, one measured at a time, in short turns.
#
# Each *block* builds all subjects anew and reads them in *turns*: every subject once in a random order, then in
# the opposite order. A turn with a disturbed reading, or in which the host moved a CPU, has no pair.

Turn = Sequence[Reading | None]
"""A reading of each subject; None where it was disturbed."""

FEWEST_BLOCKS = 8
"""With a pair for every subject, at the first look. Seven bound a ratio at the confidence of a look."""

LATER_TURNS = 2
"""Where a first look tells too little, it is the machine that spreads readings, and not builds: on a host that shared
its cores all the time, two turns of one block differed by more than two blocks did. A turn takes 0.1 s, a build 0.5."""

LATEST_LOOK = 0.75
"""Of the budget: where the first look would come later, it could save little time. Then the data is looked at once, in
the end, and the interval needs 95 % only: with nine blocks it is a quarter narrower than that of four looks."""

FEWEST_PAIRED = 4
"""Blocks with a pair for each subject, without which there is no figure."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How often to measure.

    ``turns``: of each block up to the first look, an even number; later blocks have LATER_TURNS times as many.
    ``budget_s``: no further block after it, once there are FEWEST_BLOCKS. ``seed``: of the random order.
    """

    turns: int
    budget_s: float
    seed: int = 1

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of blocks with a pair for every subject after which an interim look happens."""
        return tuple(FEWEST_BLOCKS * factor for factor in LOOKS)


@dataclass(slots=True)
class Alternated:
    """The turns of each block, and dropped readings by reason. ``looks``: False: the data is looked at once."""

    blocks: list[list[Turn]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    looks: bool = True

    @property
    def confidence(self) -> float:
        """Level of each interval, 0..1, that makes 95 % of all looks together."""
        return LOOK_CONFIDENCE if self.looks else CONFIDENCE

    def readings(self, subject: int) -> list[list[Reading]]:
        return [[reading for turn in block if (reading := turn[subject]) is not None] for block in self.blocks]

    def pairs(self, baseline: int, subject: int) -> list[list[tuple[Reading, Reading]]]:
        return [
            [(a, b) for turn in block if (a := turn[baseline]) is not None and (b := turn[subject]) is not None]
            for block in self.blocks
        ]


BeginBlock = Callable[[int], None]
"""Removes what was deployed; told the block's number."""

Take = Callable[[int, int, int], Reading]
"""Reads the subject of this number, in this block, with so many readings still to come at least."""


def alternated(
    subjects: int,
    begin_block: BeginBlock,
    take: Take,
    blocks: Blocks,
    *,
    enough: Callable[[Alternated], bool],
    elapsed_s: Callable[[], float],
    in_vain: Callable[[Alternated], bool] = lambda _: False,
) -> Alternated:
    """Read all subjects, block by block, until ``enough`` at a look, or the budget is spent.

    ``in_vain``: asked after each block, once FEWEST_PAIRED have a pair; True ends it. The last disturbed reading's
    InvalidTrialsError where too few blocks have a pair.
    """
    found = Alternated()
    shuffle = random.Random(blocks.seed)  # noqa: S311 - an order, no secret
    disturbed: list[InvalidTrialsError] = []
    for look in blocks.looks:
        turns = blocks.turns if look == FEWEST_BLOCKS else LATER_TURNS * blocks.turns
        while _fewest_paired(found, subjects) < look and (
            len(found.blocks) < FEWEST_BLOCKS or elapsed_s() < blocks.budget_s
        ):
            number = len(found.blocks)
            begin_block(number)
            orders = list(_orders(subjects, turns, shuffle))
            left = max(1, look - number) * turns * subjects
            found.blocks.append(_read_block(orders, partial(_take_in, take, number), left, disturbed))
            if _fewest_paired(found, subjects) >= FEWEST_PAIRED and in_vain(found):
                return found
        if look == FEWEST_BLOCKS:
            found.looks = elapsed_s() < LATEST_LOOK * blocks.budget_s
        over = elapsed_s() >= blocks.budget_s
        if over and disturbed and _fewest_paired(found, subjects) < FEWEST_PAIRED:
            raise disturbed[-1]
        if over or (found.looks and enough(found)):
            break
    found.dropped.update(code for error in disturbed for code in set(error.codes))
    return found


def _take_in(take: Take, block: int, subject: int, left: int) -> Reading:
    return take(subject, block, left)


def _read_block(
    orders: Sequence[Sequence[int]], take: Callable[[int, int], Reading], left: int, disturbed: list[InvalidTrialsError]
) -> list[Turn]:
    """The turns of one block; what was disturbed is added to ``disturbed``."""
    turns: list[Turn] = []
    for order in orders:
        turn: list[Reading | None] = [None] * len(order)
        for subject in order:
            try:
                turn[subject] = take(subject, left)
            except InvalidTrialsError as error:
                disturbed.append(error)
            left -= 1
        turns.append(turn)
    return turns


def _orders(subjects: int, turns: int, shuffle: random.Random) -> Iterator[list[int]]:
    """A random order, then the opposite, and so on: what drifts evenly meets all alike."""
    order = list(range(subjects))
    for turn in range(turns):
        if turn % 2 == 0:
            shuffle.shuffle(order)
            yield list(order)
        else:
            yield list(reversed(order))


def _fewest_paired(found: Alternated, subjects: int) -> int:
    """Blocks with a pair, of the subject that has the fewest."""
    return min(sum(bool(pairs) for pairs in found.pairs(0, subject)) for subject in range(1, subjects))


# From readings that alternated to samples, ratios and slopes. Pure.

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
    series = [(count, blocks, separable_rigs(blocks)) for count, blocks in paced if blocks]
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
