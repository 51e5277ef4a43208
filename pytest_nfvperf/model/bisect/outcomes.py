"""Versions that pass or fail a test: it fails seldom before the change and often from it on; how often is learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_nfvperf.model.bisect.chances import told_by_outcome
from pytest_nfvperf.model.bisect.seen import Runs

_MOST_FAILURE_RUNS = 12
"""Of one version. One that still could be either is left open."""
_SELDOM, _OFTEN = 0.2, 0.8
"""Beta distribution of how often a test fails on one side, before any run: most tests fail always or never."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What is known of a test. ``good`` and ``bad`` are the ends, ``seen`` the versions between them."""

    good: Runs
    bad: Runs
    seen: Mapping[int, Runs]

    def log_likelihood(self, candidate: int) -> float:
        """Of all that was seen, if the change came in with ``candidate``."""
        before = _sum((runs for version, runs in self.seen.items() if version < candidate), self.good)
        since = _sum((runs for version, runs in self.seen.items() if version >= candidate), self.bad)
        return _log_evidence(before, _SELDOM, _OFTEN) + _log_evidence(since, _OFTEN, _SELDOM)

    def tells(self, version: int, chance: float) -> float:
        """Bits that one more run on a version tells, if it has the change with probability ``chance``."""
        own = self.seen.get(version, Runs())
        without = (_SELDOM + self.good.failed + own.failed) / (1 + self.good.count + own.count)
        with_change = (_OFTEN + self.bad.failed + own.failed) / (1 + self.bad.count + own.count)
        return told_by_outcome(chance, without, with_change)

    def blocks(self, version: int) -> int:
        """1 while a version may run again, else 0."""
        return int(self.seen.get(version, Runs()).count < _MOST_FAILURE_RUNS)

    def between(self) -> tuple[int, ...]:
        """None: a test that fails now and then is not half a change."""
        return ()


def _sum(runs: Iterable[Runs], start: Runs) -> Runs:
    for each in runs:
        start += each
    return start


def _log_evidence(runs: Runs, fails: float, passes: float) -> float:
    """Of these outcomes in this order, if the share that fails has the distribution Beta(fails, passes)."""
    return (
        math.lgamma(fails + runs.failed)
        + math.lgamma(passes + runs.passed)
        - math.lgamma(fails + passes + runs.count)
        - math.lgamma(fails)
        - math.lgamma(passes)
        + math.lgamma(fails + passes)
    )
