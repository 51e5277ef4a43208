"""Simulated versions: a level for each, noise for each block, and some that cannot be built."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from scipy.stats import t

from pytest_nfvperf.features.bisect.bisection import Ask, BisectionState, BisectionVerdict, VerdictKind
from pytest_nfvperf.features.bisect.events import Event, MetricDifference, Question, Ran, Unusable, VersionComparison
from pytest_nfvperf.features.bisect.trials import bisect

TEST, METRIC = "test_rate.py::test_rate", "forwarding_rate"


@dataclass
class SimulatedVersions:
    """``levels``: log-rate of each version; ``fails``: probability that the test fails on it."""

    levels: Sequence[float]
    noise: float = 0.03
    seed: int = 1
    fails: Mapping[int, float] = field(default_factory=dict)
    cannot: frozenset[int] = frozenset()
    asked: list[Ask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def measure(self, ask: Ask) -> Event:
        self.asked.append(ask)
        again = ask.purpose == "again"
        for version in (ask.base, ask.version):
            if version in self.cannot:
                return Unusable(version, "it does not build")
        if not ask.blocks:
            failed = self._random.random() < self.fails.get(ask.version, 0.0)
            failures = ((TEST, "lost frames"),) if failed else ()
            return Ran(ask.version, () if failed else (TEST,), failures, again)
        difference = self.levels[ask.version] - self.levels[ask.base]
        values = [self._random.gauss(difference, self.noise) for _ in range(ask.blocks)]
        return VersionComparison(ask.base, ask.version, ask.blocks, (figure(values),), again)

    @property
    def between_ends(self) -> set[int]:
        """Versions that were measured beyond the ends."""
        last = len(self.levels) - 1
        return {ask.version for ask in self.asked if 0 < ask.version < last and ask.version not in self.cannot}


def figure(values: Sequence[float]) -> MetricDifference:
    """The mean of the blocks; its standard error is widened by Student's t, because they are few."""
    few = float(t.ppf(0.975, len(values) - 1)) / 1.96
    return MetricDifference(TEST, METRIC, fmean(values), stdev(values) / math.sqrt(len(values)) * few)


def series(count: int, culprit: int | None, change: float) -> list[float]:
    """The levels of ``count`` versions; ``change`` is a factor from the culprit on."""
    return [math.log(change) if culprit is not None and version >= culprit else 0.0 for version in range(count)]


def bisected(versions: SimulatedVersions, question: Question | None = None) -> BisectionState:
    asked = question or Question(tuple(f"v{version}" for version in range(len(versions.levels))))
    events: list[Event] = []
    return bisect(asked, versions.measure, events, events.append)


def verdict(found: BisectionState) -> BisectionVerdict:
    assert isinstance(found.step, BisectionVerdict)
    return found.step


def culprit(found: BisectionState) -> int | None:
    """The one candidate that was found and confirmed."""
    step = verdict(found)
    return step.candidates.first if step.kind is VerdictKind.FOUND and step.confirmed and step.candidates else None
