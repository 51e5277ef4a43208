"""Bisections that look at instructions first, and fall back to rates."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from bisect_support import METRIC, TEST, SimulatedVersions, culprit, series, verdict

from pytest_nfvperf.features.bisect.account import verdict_lines
from pytest_nfvperf.features.bisect.bisection import Ask, BisectionState, VerdictKind
from pytest_nfvperf.features.bisect.events import By, Event, MetricDifference, Question, VersionComparison
from pytest_nfvperf.features.bisect.trials import bisect
from pytest_nfvperf.model.measure.cpu_profile import INSTRUCTIONS_PER_PACKET

REPEATS_TO = 0.0005
COUNT = 17


@dataclass
class CountedVersions:
    """Rates with noise, and instructions that repeat. ``costs``: log-instructions; None: no test offers them."""

    costs: Sequence[float] | None
    rates: SimulatedVersions
    seed: int = 1
    counted: list[Ask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def measure(self, ask: Ask) -> Event:
        if not ask.virtual:
            return self.rates.measure(ask)
        self.counted.append(ask)
        if self.costs is None:
            return VersionComparison(
                ask.base, ask.version, 1, (), note="instructions were not counted: no QEMU", virtual=True
            )
        cost = self._random.gauss(self.costs[ask.version] - self.costs[ask.base], REPEATS_TO)
        figure = MetricDifference(TEST, INSTRUCTIONS_PER_PACKET, cost, 2 * REPEATS_TO, more_is_better=False)
        return VersionComparison(ask.base, ask.version, 1, (figure,), ask.purpose == "again", virtual=True)


def asked(by: By = By.EITHER) -> Question:
    return Question(tuple(f"v{version}" for version in range(COUNT)), by=by, counts_instructions=True)


def found(versions: CountedVersions, question: Question) -> tuple[BisectionState, str]:
    """The end, and what is said of it."""
    events: list[Event] = []
    state = bisect(question, versions.measure, events, events.append)
    return state, "\n".join(verdict_lines(question, events, state))


def same_rates() -> SimulatedVersions:
    return SimulatedVersions(series(COUNT, None, 1.0))


@pytest.mark.parametrize("seed", range(10))
def test_a_hundredth_more_instructions_is_found_by_two_looks_at_the_ends_and_few_between(seed: int) -> None:
    versions = CountedVersions(series(COUNT, 1 + seed, 1.01), same_rates(), seed)
    state, said = found(versions, asked())
    assert culprit(state) == 1 + seed, said
    between = {ask.version for ask in versions.counted if 0 < ask.version < COUNT - 1}
    assert len(between) <= math.log2(16) + 3
    assert [ask.version for ask in versions.counted[:2]] == [COUNT - 1, COUNT - 1]
    assert all(ask.blocks == 0 for ask in versions.rates.asked), "no rate was measured, only outcomes"


def test_where_instructions_are_the_same_rates_decide_and_the_verdict_says_so() -> None:
    versions = CountedVersions(series(COUNT, None, 1.0), SimulatedVersions(series(COUNT, 5, 0.9)))
    state, said = found(versions, asked())
    assert culprit(state) == 5
    assert state.subject is not None
    assert state.subject.metric == METRIC
    assert len(versions.counted) == 2
    assert "slower: caches, layout, contention." in said
    assert said.index("Same instructions a packet, ") > said.index("The ends, ")


def test_where_no_test_offers_instructions_rates_decide_after_one_look() -> None:
    versions = CountedVersions(None, SimulatedVersions(series(COUNT, 5, 0.9)))
    state, said = found(versions, asked())
    assert culprit(state) == 5
    assert len(versions.counted) == 1
    assert "Same instructions" not in said


def test_fewer_instructions_at_the_bad_end_convict_nobody() -> None:
    versions = CountedVersions(series(COUNT, 3, 0.98), SimulatedVersions(series(COUNT, 5, 0.9)))
    state, said = found(versions, asked())
    assert culprit(state) == 5, "what became cheaper is not what became slower"
    assert "Fewer instructions a packet, 0.98" in said
    assert "and yet slower: caches, layout, contention." in said


@pytest.mark.parametrize(
    ("costs", "why", "told"),
    [
        (series(COUNT, None, 1.0), VerdictKind.NOT_DIFFERENT, "is not shown to be worse than v0 by 0.2% or more"),
        (series(COUNT, 3, 0.98), VerdictKind.SWAPPED, "exchange --good and --bad"),
        (None, VerdictKind.NOTHING, "Instructions were not counted: no QEMU"),
    ],
)
def test_who_asks_for_instructions_alone_is_refused_without_them(
    costs: Sequence[float] | None, why: VerdictKind, told: str
) -> None:
    versions = CountedVersions(costs, same_rates())
    state, said = found(versions, asked(By.INSTRUCTIONS))
    step = verdict(state)
    assert step.refused
    assert step.kind is why
    assert told in said
    assert not versions.rates.asked


def test_without_guests_nothing_is_counted() -> None:
    versions = CountedVersions(series(COUNT, 3, 1.1), SimulatedVersions(series(COUNT, 5, 0.9)))
    question = Question(tuple(f"v{version}" for version in range(COUNT)))
    state, _ = found(versions, question)
    assert culprit(state) == 5
    assert not versions.counted
