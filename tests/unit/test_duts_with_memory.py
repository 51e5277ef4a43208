"""Verdicts on simulated DUTs that remember: buckets, queues, caches. Between pauses of the generator they recover.

A PASS says that the DUT keeps the limit at the load that was asked for, as it would if nothing paused; a FAIL that it
does not. Here both are known: the same DUT is run once more without a pause.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.measure.load_series import loss_of_trial
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.examples import examples
from tests.unit.test_never_wrong import DUE, Row, judged, trial_of

LIMITS = (0.0, 0.005, 0.03, 0.2)
LEAST = 1 - POLICY.most_not_offered
"""The share of a load that is enough for it to count as offered."""
BLINK = 0.04
"""Share of a window for which the generator may be away without being seen."""


@dataclass
class Dut:
    """Frames of a window in, frames out; a machine that takes its core away makes it ``slow`` for that window.

    Attributes:
        rate: frames a window that a policer lets through in the long run. ``bucket``: how many more at once.
        capacity: frames a window that it forwards. ``queue``: how many wait for the next window.
        cold: frames that are lost until its caches are warm.
        loses: share of what is left that it drops all the time.
    """

    rate: int = 10**6
    bucket: int = 0
    capacity: int = 10**6
    queue: int = 0
    cold: int = 0
    loses: float = 0.0
    tokens: int = field(init=False)
    waiting: int = field(default=0, init=False)
    owed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.tokens = self.bucket

    def lost(self, offered: int, *, slow: bool = False) -> int:
        missed = min(self.cold, offered)
        self.cold -= missed
        served = round(self.capacity * (0.6 if slow else 1.0))
        left = offered - missed
        missed += max(0, self.waiting + left - served - self.queue)
        self.waiting = min(self.queue, max(0, self.waiting + left - served))
        dropped = max(0, left - self.rate - self.tokens)
        self.tokens = min(self.bucket, self.tokens + self.rate - (left - dropped))
        missed = min(offered, missed + dropped)
        self.owed += (offered - missed) * self.loses
        more, self.owed = int(self.owed), self.owed % 1
        return missed + more


KINDS = st.sampled_from(["policer", "queue", "cache", "losing", "perfect"])


@st.composite
def duts(draw: st.DrawFn) -> dict[str, float]:
    """Arguments of a DUT whose limit is near the load, so that both verdicts are there."""
    kind = draw(KINDS)
    near = draw(st.integers(DUE // 2, DUE + DUE // 10))
    if kind == "policer":
        return {"rate": near, "bucket": draw(st.sampled_from([10, 100, DUE, 5 * DUE, 20 * DUE]))}
    if kind == "queue":
        return {"capacity": near, "queue": draw(st.sampled_from([64, 512, 4096]))}
    if kind == "cache":
        return {"cold": draw(st.integers(1, 10 * DUE))}
    return {"loses": draw(st.sampled_from([0.0001, 0.002, 0.01, 0.05, 0.5]))} if kind == "losing" else {}


@st.composite
def pauses(draw: st.DrawFn) -> list[Row]:
    """What the machine does to each window: the generator away, the DUT's core shared."""
    chance = random.Random(draw(st.integers(0, 10**9)))
    away, length = draw(st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.2, 0.5])), draw(st.sampled_from([1, 3, 10]))
    shared = draw(st.sampled_from([0.0, 0.0, 0.1, 0.6]))
    rows, left = [], 0
    for _ in range(draw(st.integers(30, 200))):
        left = length if chance.random() < away / length else max(0, left - 1)
        share = chance.uniform(0.05, 1.0) if left else chance.choice([0, 0, 0, BLINK / 4]) if away else 0
        rows.append(Row(round(DUE * share), 0, 0, shared=chance.random() < shared, absent=share > BLINK))
    return rows


def measured(dut: Dut, machine: Sequence[Row]) -> list[Row]:
    return [
        Row(row.skipped, 0, dut.lost(DUE - row.skipped, slow=row.shared), row.shared, row.absent) for row in machine
    ]


def truth(made: dict[str, float], windows: int, share: float = 1.0) -> float:
    """The loss ratio at this share of the load if nothing pauses."""
    dut, offered = Dut(**made), int(DUE * share)
    return sum(dut.lost(offered) for _ in range(windows)) / (offered * windows)


def verdict(rows: list[Row], limit: float) -> Judgement:
    found = loss_of_trial(trial_of(rows))
    outcome = Outcome((), "fixed-load", 64.0, 1, figures=tuple(found.figures()), missing=found.missing())
    return judged(outcome, "loss_ratio", f"'<= {limit * 100:g} %'")


@settings(max_examples=examples(10_000), deadline=None)
@given(duts(), pauses(), st.sampled_from(LIMITS))
def test_no_memory_hides_a_broken_limit_and_no_pause_breaks_one(
    made: dict[str, float], machine: list[Row], limit: float
) -> None:
    if "cold" in made:  # a slow core would explain what it loses at first: a warm-up trial comes before
        machine = [Row(row.skipped, 0, 0, shared=False, absent=row.absent) for row in machine]
    windows, undisturbed = len(machine), not any(row.skipped or row.shared for row in machine)
    found = verdict(measured(Dut(**made), machine), limit)
    if found is Judgement.PASS:
        assert min(truth(made, windows), truth(made, windows, LEAST)) <= limit
    elif found is Judgement.FAIL:
        assert max(truth(made, windows), truth(made, 50 * windows)) > limit, "nor later, when its queue is full"
    assert found is not Judgement.INCONCLUSIVE or not undisturbed
