"""Probabilities over candidates: which version the change came in with, and how much a measurement would tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_POINTS, _REACH = 160, 6.0
"""Of the integral over what a measurement could show: steps, and how many standard deviations on either side."""


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution."""

    mean: float
    variance: float

    def log_density(self, value: float) -> float:
        """Natural logarithm of the density."""
        return -0.5 * (math.log(2 * math.pi * self.variance) + (value - self.mean) ** 2 / self.variance)

    def after(self, value: float, variance: float) -> Normal:
        """What is known of the mean after one observation of it with this variance."""
        gain = self.variance / (self.variance + variance)
        return Normal(self.mean + gain * (value - self.mean), (1 - gain) * self.variance)


def posterior(log_likelihoods: Sequence[float]) -> tuple[float, ...]:
    """Probability of each candidate, all being alike before."""
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
    """The shortest row of candidates that reaches ``confidence``; of equal ones the likeliest.

    Args:
        chances: of candidates 1, 2, ...
        confidence: at most what all have together.
    """
    best = Range(1, len(chances), math.fsum(chances))
    start, mass = 0, 0.0
    for end, chance in enumerate(chances):
        mass += chance
        while mass - chances[start] >= confidence:
            mass -= chances[start]
            start += 1
        if mass >= confidence:
            found = Range(start + 1, end + 1, min(1.0, mass))
            best = min(best, found, key=lambda each: (each.last - each.first, -each.mass))
    return best


def told(chance: float, without: Normal, with_change: Normal) -> float:
    """Expected information, in bits, of one observation about whether a version has the change.

    Args:
        chance: that it has it.
        without: what would be observed if it has not.
        with_change: what would be observed if it has.
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


def told_by_outcome(chance: float, fails_without: float, fails_with: float) -> float:
    """The same of one run that passes or fails, from the probabilities that it fails in either case."""
    fails = chance * fails_with + (1 - chance) * fails_without
    left = 0.0
    for outcome, has in ((fails, chance * fails_with), (1 - fails, chance * (1 - fails_with))):
        if outcome > 0:
            left += outcome * entropy((has / outcome, 1 - has / outcome))
    return max(0.0, entropy((chance, 1 - chance)) - left)
