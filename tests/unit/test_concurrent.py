"""A search for concurrent connections, on a simulated DUT whose table is as large as a test says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_bench import Bench

from pytest_nfvperf import Conversation
from pytest_nfvperf.measure.concurrent import ConcurrentSearch, check_concurrent
from pytest_nfvperf.model.errors import ArgumentError, DutFailure
from pytest_nfvperf.model.figure import Why
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.ports.datapath import SamplerReading

WEB = Conversation.tcp(clients=16)
RATE = 10_000


class Held:
    """A live topology whose DUT counts so many connections, and needs so many bytes of each."""

    def __init__(self, table=None, counted=None, **simulated):
        simulated = {"noise": 0.0, "ceiling_fps": None, "refuse": False} | simulated
        self.bench = Bench(lambda _: 50_000, **simulated)
        live = self.bench.redeploy(bridge_chain(1), TESTBED_DUT, quiet=False)
        self.runner, self.topology, self.deployment = live.runner, live.topology, self
        self.bench.generator.table, self.counted, self.reads = table, counted, 0
        self.samplers = [self]

    def connections(self):
        return {} if self.counted is None else {1: self.counted}

    def read(self):
        self.reads += 1
        return SamplerReading({}, {"vswitchd.rss": 1e6 if self.reads % 2 else 1e6 + 400 * (self.counted or 0)})

    def check_alive(self): ...

    def search(self, most, goal=0.0):
        found = ConcurrentSearch(self, WEB, RATE, most, goal, 0.1)
        found.run()
        return found, {figure.metric: figure for figure in found.figures()}


@settings(max_examples=60, deadline=None)
@given(st.integers(100, 200_000), st.integers(1000, 200_000), st.sampled_from([0.0, 0.01, 0.5]))
def test_a_table_is_found_to_one_percent_by_few_trials(table, most, goal):
    found, figures = Held(table).search(most, goal)
    figure, limit = figures["concurrent_connections"], int(table / (1 - goal))
    assert len(found.trials) <= 12
    if most <= limit:
        assert (figure.value, figure.bound, figure.why) == (most, Bound.AT_LEAST, (Why.UNTRIED,))
        assert len(found.trials) == 1
    else:
        assert figure.bound is Bound.EXACT
        assert limit * 0.985 - 1 <= figure.value <= limit


def test_the_dut_counts_while_all_are_open_and_its_memory_is_that_of_each():
    _, figures = Held(counted=30_000).search(30_000)
    assert figures["memory_per_connection"].value == pytest.approx(400)
    assert "30,000 opened, and the DUT counted 30,000" in figures["concurrent_connections"].confidence
    with pytest.raises(DutFailure, match="the DUT counted 29,999 connections while 30,000 of 30,000 were open"):
        Held(counted=29_999).search(30_000)


def test_a_dut_that_keeps_none_has_at_most_what_was_tried():
    _, figures = Held(loss_ratio=0.3).search(30_000)
    assert figures["concurrent_connections"].bound is Bound.AT_MOST
    assert "memory_per_connection" not in figures


def test_what_the_machine_disturbed_refutes_nothing():
    _, figures = Held(1000, invalid_every=1).search(2000)
    figure = figures["concurrent_connections"]
    assert (figure.bound, figure.why) == (Bound.AT_LEAST, (Why.DISTURBED,))
    assert 900 <= figure.value <= 1000


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        (Conversation.udp(), r"write Conversation.tcp\(\)"),
        (Conversation.tcp(close="none"), "closes what it opened"),
        (Conversation.tcp(hold_s=1.0), "leave hold_s out"),
        (Conversation.tcp(response=5000), "the response is one frame"),
        (Conversation.tcp(), "write clients=2"),
    ],
)
def test_a_conversation_that_cannot_be_held_is_refused(conversation, message):
    with pytest.raises(ArgumentError, match=message):
        check_concurrent("search.concurrent", conversation, 100_000, RATE)
