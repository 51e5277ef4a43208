"""Conversation's own frames on a real engine and an ideal switch: each kind opens, answers and ends as it should."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf import Conversation
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.concurrent import ConcurrentSearch
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.machine import Progress
from tests.functional.generator_support import Rig, loop_in, looped_rig, run_dir, spec

SIX = {"client_ip": "2001:2::1", "server_ip": "2001:2:0:8000::1"}
KINDS = {
    "tcp": Conversation.tcp(),
    "tcp over ipv6, segments": Conversation.tcp(response=5000, clients=7, **SIX),
    "rst": Conversation.tcp(close="rst"),
    "open": Conversation.tcp(close="none", vlan=42),
    "no data": Conversation.tcp(request=0, response=0, ports=range(2000, 2100)),
    "held": Conversation.tcp(hold_s=0.3),
    "held without data": Conversation.tcp(request=0, response=0, hold_s=0.1),
    "nat": Conversation.tcp(nat="both"),
    "udp": Conversation.udp(clients=3),
    "udp over ipv6": Conversation.udp(nat="source", **SIX),
    "icmp": Conversation.icmp(),
    "icmpv6": Conversation.icmp(vlan=7, **SIX),
}
DROP_EVERY = 97


@pytest.fixture(scope="module", params=[0, DROP_EVERY], ids=["whole", "losing"])
def rig(request: pytest.FixtureRequest) -> Iterator[tuple[Rig, int]]:
    with (
        run_dir() as directory,
        loop_in(directory, drop_every=request.param) as loop,
        looped_rig(directory, loop) as made,
    ):
        made.generator.attach(made.ports)
        made.generator.wait_links_up(5.0)
        yield made, request.param


@pytest.mark.parametrize("traffic", KINDS.values(), ids=KINDS.keys())
def test_connections_come_to_their_end(rig: tuple[Rig, int], traffic: Traffic) -> None:
    made, drop_every = rig
    forward = made.directions[:1]
    made.generator.learn(traffic, forward)
    for _ in range(10):
        result = made.generator.run_trial(spec(forward, 5000, 0.4, traffic=traffic, latency=True))
        if drop_every or result.lost == 0:  # rings overflow while a busy machine takes the loop's CPU
            break
    (count,) = result.counts
    kinds = [step.name for step in count.steps]
    assert kinds == [step.name for step in traffic.packet.steps]
    assert count.sent + count.skipped == count.intended == 2000
    assert (count.duplicated, count.corrupted, count.misdirected, count.foreign) == (0, 0, 0, 0)
    assert sum(step.failed for step in count.steps) == count.lost
    if drop_every:
        assert sum(step.failed > 0 for step in count.steps) >= 2
        sent, received = (sum(getattr(step, name) for step in count.steps) for name in ("sent", "received"))
        assert (sent - received) * drop_every == pytest.approx(sent, abs=2 * drop_every)
    else:
        assert count.lost == 0 or not result.valid
        assert count.latency is not None


@pytest.mark.parametrize("traffic", [KINDS["tcp"], KINDS["held"]], ids=["at once", "held"])
def test_intervals_count_connections(rig: tuple[Rig, int], traffic: Traffic) -> None:
    made, drop_every = rig
    made.generator.learn(traffic, made.directions[:1])
    running = made.generator.start_trial(spec(made.directions[:1], traffic=traffic, duration_s=0.5), 0.1)
    intervals = []
    while (interval := running.next_interval()) is not None:
        intervals.append(interval.directions[0])
    (count,) = running.result().counts
    assert [each.received for each in intervals] == sorted(each.received for each in intervals)
    assert intervals[-1].received == count.received
    assert (intervals[-1].lost > 0) == (drop_every > 0) or not running.result().valid


def test_as_many_are_open_at_once_as_are_opened(rig: tuple[Rig, int]) -> None:
    made, drop_every = rig
    clock = SystemClock()
    context = Context(Recorder("r", [], clock), Progress(), clock)
    runner = TrialRunner(made.generator, [], check_alive=lambda: None, context=context, repeats=1)
    live: Any = SimpleNamespace(
        topology=SimpleNamespace(directions=made.directions[:1]),
        runner=runner,
        deployment=SimpleNamespace(samplers=(), check_alive=lambda: None),
        connections=dict,
    )
    found = ConcurrentSearch(live, KINDS["tcp"], 5_000, 10_000, 0.5 if drop_every else 0.0, 0.3)
    found.run()
    assert found.passed is not None, [each.text() for each in found.trials]
    assert 0 < found.passed.opened <= 20_000  # a repeat has as many more as the generator left out
    assert (found.passed.completed < found.passed.opened) == (drop_every > 0)
