"""Alternating readings: all subjects deployed at once, one measured at a time, in short turns.

Each *block* builds all subjects anew and reads them in *turns*: every subject once in a random order, then in the
opposite order. A turn with a disturbed reading, or in which the host moved a CPU, has no pair.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.statistics import CONFIDENCE
from pytest_nfvperf.runs.interleave import LOOK_CONFIDENCE, LOOKS
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError

Turn = Sequence[Reading | None]
"""A reading of each subject; None where it was spoiled."""

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
    spoiled: list[InvalidTrialsError] = []
    for look in blocks.looks:
        turns = blocks.turns if look == FEWEST_BLOCKS else LATER_TURNS * blocks.turns
        while _fewest_paired(found, subjects) < look and (
            len(found.blocks) < FEWEST_BLOCKS or elapsed_s() < blocks.budget_s
        ):
            number = len(found.blocks)
            begin_block(number)
            orders = list(_orders(subjects, turns, shuffle))
            left = max(1, look - number) * turns * subjects
            found.blocks.append(_read_block(orders, partial(_take_in, take, number), left, spoiled))
            if _fewest_paired(found, subjects) >= FEWEST_PAIRED and in_vain(found):
                return found
        if look == FEWEST_BLOCKS:
            found.looks = elapsed_s() < LATEST_LOOK * blocks.budget_s
        over = elapsed_s() >= blocks.budget_s
        if over and spoiled and _fewest_paired(found, subjects) < FEWEST_PAIRED:
            raise spoiled[-1]
        if over or (found.looks and enough(found)):
            break
    found.dropped.update(code for error in spoiled for code in set(error.codes))
    return found


def _take_in(take: Take, block: int, subject: int, left: int) -> Reading:
    return take(subject, block, left)


def _read_block(
    orders: Sequence[Sequence[int]], take: Callable[[int, int], Reading], left: int, spoiled: list[InvalidTrialsError]
) -> list[Turn]:
    """The turns of one block; what was spoiled is added to ``spoiled``."""
    turns: list[Turn] = []
    for order in orders:
        turn: list[Reading | None] = [None] * len(order)
        for subject in order:
            try:
                turn[subject] = take(subject, left)
            except InvalidTrialsError as error:
                spoiled.append(error)
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
