"""Versions that differ in a rate: those before the change are at one level, those from it on at another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_nfvperf.model.bisect.chances import Normal, told
from pytest_nfvperf.model.bisect.seen import Estimate

JITTER = 0.1
"""Of the change: by how much a version's own level differs from its neighbours' (code layout), standard deviation."""
APART = 3.0
"""Standard deviations from a level to the middle between both, for which blocks are planned."""
FEWEST_BLOCKS = 4
BETWEEN = 2.5
"""A version this many standard deviations off both levels, and between them, has a part of the change."""


@dataclass(frozen=True, slots=True)
class Levels:
    """What is known of rates, as log-ratios to the good end.

    Attributes:
        change: the bad end.
        seen: the versions between the ends that were measured.
        most_blocks: of one version.
    """

    change: Estimate
    seen: Mapping[int, Estimate]
    most_blocks: int

    @property
    def jitter(self) -> float:
        """Variance of a version's own level."""
        return (JITTER * self.change.value) ** 2

    @property
    def good(self) -> Normal:
        """The level before the change. The good end is a version as any other: the level need not be its own."""
        return Normal(0.0, self.jitter)

    @property
    def bad(self) -> Normal:
        """The level from the change on."""
        return Normal(self.change.value, self.change.variance + self.jitter)

    @property
    def block_variance(self) -> float:
        """Of one block, of all that were measured."""
        every = [self.change, *self.seen.values()]
        return sum(each.variance * each.blocks for each in every) / len(every)

    def log_likelihood(self, candidate: int) -> float:
        """Of all that was seen, if the change came in with ``candidate``."""
        before = (each for version, each in self.seen.items() if version < candidate)
        since = (each for version, each in self.seen.items() if version >= candidate)
        return self._together(before, self.good) + self._together(since, self.bad)

    def _together(self, seen: Iterable[Estimate], level: Normal) -> float:
        """Versions at one level, which is not known exactly: each tells the next of it."""
        total = 0.0
        for each in seen:
            total += Normal(level.mean, level.variance + each.variance + self.jitter).log_density(each.value)
            level = level.after(each.value, each.variance + self.jitter)
        return total

    def tells(self, version: int, chance: float) -> float:
        """Bits that the next measurement of a version tells, if it has the change with probability ``chance``."""
        return told(chance, self._next(version, self.good), self._next(version, self.bad))

    def _next(self, version: int, level: Normal) -> Normal:
        own = Normal(level.mean, level.variance + self.jitter)
        if version in self.seen:
            own = own.after(self.seen[version].value, self.seen[version].variance)
        return Normal(own.mean, own.variance + self.block_variance / max(1, self.blocks(version)))

    def blocks(self, version: int) -> int:
        """How many blocks the next measurement of a version takes; 0 when it has had all."""
        had = self.seen[version].blocks if version in self.seen else 0
        return max(0, min(self.enough_blocks, self.most_blocks - had))

    @property
    def enough_blocks(self) -> int:
        """Blocks that put a version on one side, unless it is an odd one."""
        enough = (self.change.value / (2 * APART)) ** 2 - self.jitter
        return max(FEWEST_BLOCKS, math.ceil(self.block_variance / enough))

    def between(self) -> tuple[int, ...]:
        """Versions at neither level: they have a part of the change, so there is more than one."""
        return tuple(sorted(version for version, each in self.seen.items() if self._is_between(each)))

    def _is_between(self, seen: Estimate) -> bool:
        share = seen.value / self.change.value
        off = [
            abs(seen.value - level.mean) / math.sqrt(seen.variance + level.variance + self.jitter)
            for level in (self.good, self.bad)
        ]
        return 0 < share < 1 and min(off) > BETWEEN

    def is_change(self, seen: Estimate, confidence: float) -> bool | None:
        """Is the difference of two neighbours the change, or nothing? None: it could be either."""
        variance = seen.variance + 2 * self.jitter
        odds = Normal(self.change.value, variance + self.change.variance).log_density(seen.value)
        odds -= Normal(0.0, variance).log_density(seen.value)
        sure = math.log(confidence / (1 - confidence))
        return True if odds >= sure else False if odds <= -sure else None
