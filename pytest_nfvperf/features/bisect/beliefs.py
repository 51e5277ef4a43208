"""Probabilities that each version is the first bad one, and the information that a measurement is expected to give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.features.bisect.events import Estimate

_POINTS, _REACH = 160, 6.0
"""Steps of the integral over possible measurements, and its reach on either side in standard deviations."""

_JITTER = 0.1
"""Standard deviation of a version's own level around its neighbours' (code layout), as a part of the change."""
PLANNED_DEVIATIONS = 3.0
"""Standard deviations from a level to the middle between both, for which blocks are planned."""
_FEWEST_BLOCKS = 4
_BETWEEN = 2.5
"""A version this many standard deviations off both levels, and between them, has a part of the change."""


@dataclass(frozen=True, slots=True)
class Normal:
    mean: float
    variance: float

    def log_density(self, value: float) -> float:
        return -0.5 * (math.log(2 * math.pi * self.variance) + (value - self.mean) ** 2 / self.variance)

    def after(self, value: float, variance: float) -> Normal:
        """Bayesian update: the mean's distribution after one observation with this variance."""
        gain = self.variance / (self.variance + variance)
        return Normal(self.mean + gain * (value - self.mean), (1 - gain) * self.variance)


def posterior(log_likelihoods: Sequence[float]) -> tuple[float, ...]:
    """Probability of each candidate, from a uniform prior."""
    highest = max(log_likelihoods)
    weights = [math.exp(each - highest) for each in log_likelihoods]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def entropy(chances: Sequence[float]) -> float:
    """In bits: 0 for certainty, 4 for one of 16."""
    return -sum(chance * math.log2(chance) for chance in chances if chance > 0)


@dataclass(frozen=True, slots=True)
class Range:
    """Candidates ``first`` to ``last``, both included, and the probability that the change is among them."""

    first: int
    last: int
    mass: float


def narrowest(chances: Sequence[float], confidence: float) -> Range:
    """The shortest range of candidates that reaches ``confidence``; of equally short ones the likeliest.

    ``chances``: of candidates 1, 2, ... ``confidence``: at most their sum.
    """
    best = Range(1, len(chances), math.fsum(chances))
    start, mass = 0, 0.0
    for end, chance in enumerate(chances):
        mass += chance
        while mass - chances[start] >= confidence:
            mass -= chances[start]
            start += 1
        if mass >= confidence:
            candidates = Range(start + 1, end + 1, min(1.0, mass))
            best = min(best, candidates, key=lambda option: (option.last - option.first, -option.mass))
    return best


def expected_information_bits(chance: float, without: Normal, with_change: Normal) -> float:
    """Expected information, in bits, of one observation about whether a version has the change.

    ``chance``: that it has. ``without``, ``with_change``: the observation's distribution if it has not, and if it has.
    """
    if not 0 < chance < 1:
        return 0.0
    reach = _REACH * math.sqrt(max(without.variance, with_change.variance))
    low = min(without.mean, with_change.mean) - reach
    step = (max(without.mean, with_change.mean) + reach - low) / _POINTS
    left = 0.0
    for point in range(_POINTS + 1):
        value = low + point * step
        has = chance * math.exp(with_change.log_density(value))
        has_not = (1 - chance) * math.exp(without.log_density(value))
        if has + has_not > 0:
            share = has / (has + has_not)
            left += (has + has_not) * step * entropy((share, 1 - share))
    return max(0.0, entropy((chance, 1 - chance)) - left)


def expected_run_information_bits(chance: float, fails_without: float, fails_with: float) -> float:
    """Expected information, in bits, of one run that passes or fails.

    ``chance``: that the version has the change. ``fails_without``, ``fails_with``: probability of a failure if it has
    not, and if it has.
    """
    fails = chance * fails_with + (1 - chance) * fails_without
    left = 0.0
    for outcome, has in ((fails, chance * fails_with), (1 - fails, chance * (1 - fails_with))):
        if outcome > 0:
            left += outcome * entropy((has / outcome, 1 - has / outcome))
    return max(0.0, entropy((chance, 1 - chance)) - left)


@dataclass(frozen=True, slots=True)
class Levels:
    """Bisection by rates: one level before the change, another one since. Rates are log-ratios to the good end.

    Attributes:
        change: of the bad end.
        measured: of versions between the ends.
        most_blocks: of one version.
    """

    change: Estimate
    measured: Mapping[int, Estimate]
    most_blocks: int

    @property
    def jitter(self) -> float:
        return (_JITTER * self.change.value) ** 2

    @property
    def good(self) -> Normal:
        """The level before the change; the good end's own rate differs from it by jitter, as that of any version."""
        return Normal(0.0, self.jitter)

    @property
    def bad(self) -> Normal:
        return Normal(self.change.value, self.change.variance + self.jitter)

    @property
    def block_variance(self) -> float:
        """Mean variance of one block, over all measured versions."""
        every = [self.change, *self.measured.values()]
        return sum(each.variance * each.blocks for each in every) / len(every)

    def log_likelihood(self, candidate: int) -> float:
        """Log-likelihood of all measurements, if the change came in with ``candidate``."""
        before = (each for version, each in self.measured.items() if version < candidate)
        since = (each for version, each in self.measured.items() if version >= candidate)
        return self._at_level(before, self.good) + self._at_level(since, self.bad)

    def _at_level(self, measured: Iterable[Estimate], level: Normal) -> float:
        total = 0.0
        for each in measured:  # the level is not known exactly: each version narrows it for the next
            total += Normal(level.mean, level.variance + each.variance + self.jitter).log_density(each.value)
            level = level.after(each.value, each.variance + self.jitter)
        return total

    def expected_information_bits(self, version: int, chance: float) -> float:
        """Of the next measurement of a version that has the change with probability ``chance``."""
        return expected_information_bits(chance, self._next(version, self.good), self._next(version, self.bad))

    def _next(self, version: int, level: Normal) -> Normal:
        own = Normal(level.mean, level.variance + self.jitter)
        if version in self.measured:
            own = own.after(self.measured[version].value, self.measured[version].variance)
        return Normal(own.mean, own.variance + self.block_variance / max(1, self.blocks(version)))

    def blocks(self, version: int) -> int:
        """Blocks of the next measurement of a version; 0 if it has had all."""
        had = self.measured[version].blocks if version in self.measured else 0
        return max(0, min(self.enough_blocks, self.most_blocks - had))

    @property
    def enough_blocks(self) -> int:
        """Blocks that suffice to decide on which side a usual version is."""
        enough = (self.change.value / (2 * PLANNED_DEVIATIONS)) ** 2 - self.jitter
        return max(_FEWEST_BLOCKS, math.ceil(self.block_variance / enough))

    def between(self) -> tuple[int, ...]:
        """Versions at neither level: they have a part of the change, so there is more than one change."""

        def is_between(measured: Estimate) -> bool:
            share = measured.value / self.change.value
            off = [
                abs(measured.value - level.mean) / math.sqrt(measured.variance + level.variance + self.jitter)
                for level in (self.good, self.bad)
            ]
            return 0 < share < 1 and min(off) > _BETWEEN

        return tuple(sorted(version for version, each in self.measured.items() if is_between(each)))

    def is_change(self, measured: Estimate, confidence: float) -> bool | None:
        """Whether the difference of two neighbours is the change, rather than nothing; None: it could be either."""
        variance = measured.variance + 2 * self.jitter
        odds = Normal(self.change.value, variance + self.change.variance).log_density(measured.value)
        odds -= Normal(0.0, variance).log_density(measured.value)
        sure = math.log(confidence / (1 - confidence))
        return True if odds >= sure else False if odds <= -sure else None
