"""What an event blocked, from the gaps and windows of its trial: between what is certain and what was seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_search_algorithms import measurer_on

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.events import Event
from pytest_nfvperf.measure.outage import Outages, OutageTime, watch_event
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WitnessWindows
from pytest_nfvperf.model.errors import ArgumentError, TestbedError, UnavailableError
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.outage import (
    GAP_S,
    LogLine,
    Outage,
    outage_figures,
    outage_of,
)
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import (
    ArrivalGap,
    Arrivals,
    Direction,
    DirectionCounts,
    RigHealth,
    TrialSpec,
)

MS = 1_000_000
EVERY_NS = 100_000
"""10,000 frames/s in each of two directions."""
LENGTH_MS = 400
STARTED_NS = 7_000_000_000
EVENT_MS = 100
LATENCY_NS = 20_000
THERE, BACK = Direction("p0", "p1"), Direction("p1", "p0")


@dataclass
class Machine:
    """A trial as the engine would count it. Spans in ms from its start.

    Attributes:
        down: the DUT loses what is offered, by direction.
        held: the DUT holds frames back, and forwards them at the end.
        away: the generator neither sends nor reads.
        paused: the host took the DUT's CPU away.
    """

    down: dict[Direction, list[tuple[int, int]]] = field(default_factory=dict)
    held: list[tuple[int, int]] = field(default_factory=list)
    away: list[tuple[int, int]] = field(default_factory=list)
    paused: list[tuple[int, int]] = field(default_factory=list)

    def result(self) -> TrialResult:
        spec = TrialSpec(
            Traffic(), 1_000_000_000 // EVERY_NS, LENGTH_MS / 1e3, (THERE, BACK), window_s=0.001, gap_s=GAP_S
        )
        sent, skipped, received, missing = ([0] * LENGTH_MS for _ in range(4))
        counts = tuple(self._counts(direction, sent, skipped, received, missing) for direction in spec.directions)
        away = [sum(_within(at * MS, self.away) for _ in "x") * MS for at in range(LENGTH_MS)]
        zeros = (0,) * LENGTH_MS
        thread = ThreadWindows(
            zeros, tuple(sent), zeros, tuple(skipped), tuple(received), tuple(missing), tuple(away), zeros
        )
        late = tuple(2 * MS if _within(at * MS, self.paused) else 0 for at in range(LENGTH_MS))
        windows = Windows(MS, (thread,), (WitnessWindows(1, late, zeros),))
        return TrialResult(spec, counts, RigHealth(), started_ns=STARTED_NS, windows=windows)

    def _counts(
        self, direction: Direction, sent: list[int], skipped: list[int], received: list[int], missing: list[int]
    ) -> DirectionCounts:
        arrived: list[tuple[int, int, int]] = []
        went = lost = 0
        for due in range(0, LENGTH_MS * MS, EVERY_NS):
            if _within(due, self.away):
                skipped[due // MS] += 1
                continue
            sent[due // MS] += 1
            went += 1
            if _within(due, self.down.get(direction, [])):
                lost += 1
                continue
            read = _after(_after(due + LATENCY_NS, self.held), self.away)
            at = min(read // MS, LENGTH_MS - 1)
            missing[at] += went - 1 - (arrived[-1][2] if arrived else 0)
            arrived.append((due, read, went))
            received[at] += 1
        rows = pairwise([(0, 0, 0), *arrived])
        gaps = [
            ArrivalGap(was, due, was_read, read, number - 1 - before, _overlap(was_read, read, self.away))
            for (was, was_read, before), (due, read, number) in rows
            if max(due - was, read - was_read) > GAP_S * 1e9
        ]
        last = arrived[-1][0] if arrived else 0
        arrivals = Arrivals(arrived[0][0] if arrived else 0, last, 0, gaps=tuple(gaps)) if arrived else None
        intended = LENGTH_MS * MS // EVERY_NS
        return DirectionCounts(
            direction, intended, went, 0, intended - went, went - lost, 0, 0, 0, 0, went * 64, 64, 1, arrivals=arrivals
        )


def _within(ns: int, spans: list[tuple[int, int]]) -> bool:
    return any(begin * MS <= ns < end * MS for begin, end in spans)


def _after(ns: int, spans: list[tuple[int, int]]) -> int:
    return next((end * MS for begin, end in spans if begin * MS <= ns < end * MS), ns)


def _overlap(begin: int, end: int, spans: list[tuple[int, int]]) -> int:
    return sum(max(0, min(end, last * MS) - max(begin, first * MS)) for first, last in spans)


def outage(machine: Machine, *, recovered: bool = True) -> Outage:
    began_ns = STARTED_NS + EVENT_MS * MS
    line = LogLine(began_ns + MS, "ovs-vswitchd", "exits")
    return outage_of(
        machine.result(), "trial-0001", "restart", began_ns, began_ns + 5 * MS, (line,), recovered=recovered
    )


def figure_of(found: Outage) -> Figure:
    return next(each for each in outage_figures([found]) if each.metric == "outage")


def value_of(found: Outage) -> float:
    return figure_of(found).value


SLACK_NS = 2 * EVERY_NS + 2 * MS
"""Between two frames, and a window at each end."""


def test_both_methods_agree_where_there_is_one_gap():
    found = outage(Machine(down={THERE: [(110, 160)], BACK: [(110, 180)]}))

    worst = found.worst()
    assert worst is not None
    assert worst.direction == BACK, "one direction was blocked 20 ms longer"
    assert len(worst.gaps) == 1
    assert worst.blocked_ns == pytest.approx(70 * MS, abs=SLACK_NS)
    assert worst.by_loss_ns == pytest.approx(worst.blocked_ns, abs=SLACK_NS)
    assert found.recovered_ns == pytest.approx(80 * MS, abs=SLACK_NS)
    assert found.lost == 1200
    assert [line.ns for line in found.log] == [MS]
    assert not figure_of(found).why


def test_each_gap_counts():
    found = outage(Machine(down={THERE: [(110, 120), (150, 155)]}))

    there = found.blocked[0]
    assert len(there.gaps) == 2
    assert there.blocked_ns == pytest.approx(15 * MS, abs=2 * SLACK_NS)


def test_what_went_before_the_event_is_not_its_outage():
    assert value_of(outage(Machine(down={THERE: [(20, 60)]}))) == 0


def test_frames_that_were_held_back_were_blocked_and_not_lost():
    found = outage(Machine(held=[(150, 190)]))

    assert found.blocked[0].blocked_ns == pytest.approx(40 * MS, abs=SLACK_NS)
    assert found.lost == 0


@pytest.mark.parametrize("spans", [{"away": [(150, 190)]}, {"away": [(120, 130), (140, 170)]}])
def test_a_generator_that_was_away_is_no_outage(spans):
    assert value_of(outage(Machine(**spans))) == 0


def test_what_the_generator_left_out_at_an_end_is_a_bound():
    found = outage(Machine(down={THERE: [(110, 160)]}, away=[(155, 190)]))

    there = found.blocked[0]
    assert there.least_ns <= 50 * MS <= there.blocked_ns
    assert figure_of(found).why == (Why.SLOWED,)


def test_what_the_host_took_is_a_bound():
    found = outage(Machine(down={THERE: [(110, 160)]}, paused=[(110, 160)]))

    assert found.blocked[0].least_ns <= 2 * MS
    assert found.certain_lost < found.lost
    assert figure_of(found).why == (Why.SLOWED,)


def test_an_outage_that_does_not_end_is_at_least_so_long():
    found = outage(Machine(down={THERE: [(110, 400)]}), recovered=False)

    assert not found.ended
    figure = figure_of(found)
    assert figure.high is None
    assert figure.value == pytest.approx(0.29, abs=0.003)


def test_one_of_ten_repeats_that_took_5_ms_longer_is_the_longest():
    usual, longer = (outage(Machine(down={THERE: [(110, end)], BACK: [(110, end)]})) for end in (160, 165))

    figures = {each.metric: each for each in outage_figures([usual] * 6 + [longer] + [usual] * 3)}

    assert figures["outage"].value == pytest.approx(0.05, abs=0.001)
    assert figures["outage_longest"].value - figures["outage"].value == pytest.approx(0.005, abs=0.0002)


spans = st.tuples(st.integers(105, 300), st.integers(1, 90)).map(lambda span: (span[0], span[0] + span[1]))
none_or_one = st.lists(spans, max_size=1)


@given(down=none_or_one, away=none_or_one, paused=none_or_one)
def test_the_true_outage_lies_between_the_bounds(down, away, paused):
    """Whatever the machine does meanwhile. What nobody looked at the DUT may or may not have blocked."""
    found = outage(Machine(down={THERE: down}, away=away, paused=paused)).blocked[0]

    seen_ns = sum((end - begin) * MS - _overlap(begin * MS, end * MS, away) for begin, end in down)
    true_ns = sum((end - begin) * MS for begin, end in down)
    assert found.least_ns <= true_ns
    assert found.blocked_ns + SLACK_NS >= seen_ns


@given(down=none_or_one, paused=none_or_one)
def test_both_methods_agree_within_a_window_while_the_generator_is_there(down, paused):
    found = outage(Machine(down={THERE: down}, paused=paused)).blocked[0]

    assert abs(found.blocked_ns - found.by_loss_ns) <= SLACK_NS


class Waiting(FakeGenerator):
    """Its intervals take real time, so that an event happens in the middle of a trial."""

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))


def live_on(generator: FakeGenerator) -> Any:
    """What an outage needs of a live topology."""
    return SimpleNamespace(
        topology=phy2phy(),
        name="phy2phy",
        datapath_kind="dpdk",
        runner=measurer_on(generator).runner,
        deployment=SimpleNamespace(dut=None),
        learn=lambda _: None,
        refuse_replaced=lambda: None,
        changed=False,
    )


def test_an_event_that_fails_is_told_after_the_trial_has_ended():
    live = live_on(Waiting(4e6))

    def fail() -> None:
        raise TestbedError("vswitchd did not start")

    spec = TrialSpec(Traffic(), 1000, 5.0, (THERE,), gap_s=GAP_S)
    with pytest.raises(TestbedError, match="vswitchd did not start"):
        watch_event(live, spec, Event("fails", 0.02, fail), 0.1)
    assert len(live.runner.context.trials) == 1


@pytest.mark.parametrize(
    ("given", "says"), [(Event("done", 0.0, bool), "without calling it"), ("restart", "events.restart")]
)
def test_what_is_no_maker_of_an_event_is_refused_before_anything_is_sent(given: Any, says: str):
    generator = Waiting(4e6)
    live = live_on(generator)
    outages = Outages(QUICK, {"suite": "mine"}, live.runner.context)
    with pytest.raises(ArgumentError, match=says):
        outages(live, Traffic(), 1000, given)
    assert generator.specs == []


def test_what_this_dut_cannot_do_is_refused_before_anything_is_sent():
    def impossible(_: object) -> Event:
        raise UnavailableError("no NIC whose link could go down")

    generator = Waiting(4e6)
    live = live_on(generator)
    with pytest.raises(UnavailableError, match="no NIC"):
        OutageTime(Traffic(), QUICK, live.runner.context, impossible, 1000).outage(live)
    assert generator.specs == []
