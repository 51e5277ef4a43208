"""How often a bisection is right: on simulated versions, whose rates and instructions are numbers with noise.

No machine is measured, so this can run beside anything. What is benchmarked is the whole decision: which version is
measured next, for how long, and what is said at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from benchmarks.prefixes import MOST_MEASURED, VERSIONS
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from tests.bisect_support import SimulatedVersions, bisected, culprit, series, verdict

Found = TypeVar("Found")

SERIES = 100
"""Bisections of each kind."""

RATES, INSTRUCTIONS = 0.03, 0.002
"""Noise, as the standard deviation of a block's log-ratio: of forwarding rates here, of instructions a packet.

Of a poll-mode thread's instructions 0.0016 was seen, with six builds of each side."""

_RIGHT, _REFUSED = 0.99, 0.98


def bisections(_: Bench) -> list[Figure]:
    """A tenth by rates and a hundredth by instructions are found; a series without a change is refused."""
    return [
        *_found("10 % slower in one of 16, by rates", 0.9, RATES),
        *_found("1 % dearer in one of 16, by instructions", 1 / 1.01, INSTRUCTIONS),
        _refused(),
    ]


def _found(what: str, change: float, noise: float) -> list[Figure]:
    """How many culprits were found and confirmed, and how many versions that took."""

    def one(seed: int) -> tuple[bool, int]:
        guilty = 1 + seed % (VERSIONS - 1)
        versions = SimulatedVersions(series(VERSIONS, guilty, change), noise, seed)
        return culprit(bisected(versions)) == guilty, len(versions.between_ends)

    found = _each(one)
    right = sum(is_right for is_right, _ in found)
    measured = sorted(count for _, count in found)
    usual, most = measured[len(measured) // 2], measured[-1]
    return [
        _share(f"bisection: {what}", right, _RIGHT),
        Figure(
            f"bisection: {what}: versions measured beyond the ends",
            f"{usual}",
            f"<= {MOST_MEASURED}",
            usual <= MOST_MEASURED,
            f"the median; at most {most}",
        ),
    ]


def _refused() -> Figure:
    def one(seed: int) -> bool:
        versions = SimulatedVersions(series(VERSIONS, None, 1.0), RATES, seed)
        return verdict(bisected(versions)).refused

    return _share("bisection: refused where nothing changed, by rates", sum(_each(one)), _REFUSED)


def _each(one: Callable[[int], Found]) -> Sequence[Found]:
    """Of seeds that are the same in each run."""
    return [one(seed) for seed in range(SERIES)]


def _share(what: str, found: int, least: float) -> Figure:
    return Figure(what, f"{found} of {SERIES}", f">= {math.ceil(least * SERIES)}", found >= least * SERIES)
