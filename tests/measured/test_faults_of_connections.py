"""What goes wrong with connections on a real OVS: each fails at its step, by its reason, and exactly as often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_nfvperf import Conversation
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.measure.ledger import ledger_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.connections import Connections, connections, snat
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.loss_rig import ONE_WAY, LiveLoss, LossRig, loss_rig, losses
from tests.functional.ovs_support import needs_root, started

pytestmark = needs_root

BETWEEN: Any = {"client": "p0", "server": "p1"}
LOAD, SECONDS, OFFERED = 2000, 0.3, 600
PORTS = range(2000, 2100)
"""A hundred tuples of one client: each is used six times in a trial."""
OPEN = Conversation.tcp(close="none")
INVALID = "table=101,priority=40,in_port=p1,ct_state=+inv+trk"


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "netdev", "faults") as ovs, loss_rig(journal, ovs) as made:
        yield made


def wired(*parts: Connections) -> Topology:
    return compose("wired", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), *parts)


def offered(live: LiveLoss, traffic: Traffic, failing: Callable[[int], int]) -> tuple[Trial, int]:
    """A trial in which that many of those sent fail, and how many; on a busy machine others do, too, so it is repeated.

    What a busy machine skips, it does not number: those sent have the first numbers and tuples.
    """
    for _ in range(10):
        live.built.flush_connections()
        trial = live.trial(LOAD, SECONDS, traffic)
        (count,) = trial.result.counts
        if count.sent > OFFERED / 2 and count.lost == failing(count.sent):
            return trial, count.lost
    pytest.fail(f"{count.lost} of {count.sent} connections failed: {failed(trial)}")


def failed(trial: Trial) -> dict[str, int]:
    """Connections by the step at which they failed."""
    (count,) = trial.result.counts
    return {step.name: step.failed for step in count.steps if step.failed}


@pytest.mark.parametrize(
    ("step", "match"),
    [
        ("syn", "in_port=p0,tcp,tp_src=2042,tcp_flags=+syn"),
        ("syn-ack", "in_port=p1,tcp,tp_dst=2042,tcp_flags=+syn+ack"),
        ("request", "in_port=p0,tcp,tp_src=2042,tcp_flags=+psh"),
        ("response", "in_port=p1,tcp,tp_dst=2042,tcp_flags=+psh"),
        ("fin", "in_port=p0,tcp,tp_src=2042,tcp_flags=+fin"),
        ("fin-ack", "in_port=p1,tcp,tp_dst=2042,tcp_flags=+fin"),
    ],
)
def test_a_drop_of_one_step_in_a_hundred_fails_one_percent_there(rig: LossRig, step: str, match: str) -> None:
    with rig.deployment(wired()) as live:
        live.add_flow(f"priority=65000,{match},actions=drop")
        trial, lost = offered(live, Conversation.tcp(ports=PORTS), lambda sent: (sent + 57) // 100)
    assert failed(trial) == {step: lost}
    assert trial.ledger is not None
    assert [frames for (hop, _), frames in losses(trial.ledger).items() if hop == "br0"] == [lost]


def test_above_a_zones_limit_each_fails_at_the_answer_and_the_flow_that_drops_it_is_named(rig: LossRig) -> None:
    with rig.deployment(wired(connections("br0", **BETWEEN, limit=100))) as live:
        trial, lost = offered(live, OPEN, lambda sent: sent - 100)
        assert live.built.connections() == {1: 100}
    assert failed(trial) == {"syn-ack": lost}
    assert trial.ledger is not None
    text = ledger_text(trial.ledger)
    assert INVALID in text
    assert f"note: {lost} of {lost + 100} connections failed at syn-ack" in text


def test_above_a_nats_ports_none_counts_as_established(rig: LossRig) -> None:
    """OVS lets the SYN out as it came, and the server answers whoever sent it."""
    nat = snat("198.51.100.1", (5000, 5099))
    with rig.deployment(wired(connections("br0", **BETWEEN, nat=nat))) as live:
        trial, lost = offered(live, Conversation.tcp(close="none", nat="source"), lambda sent: sent - 100)
        assert live.built.connections() == {1: 100}
    assert failed(trial) == {"syn-ack": lost}


def test_tuples_that_are_closed_are_opened_again_and_open_ones_are_not(rig: LossRig) -> None:
    with rig.deployment(wired(connections("br0", **BETWEEN))) as live:
        offered(live, Conversation.tcp(ports=PORTS), lambda _: 0)
        again = Conversation.tcp(ports=PORTS, close="none")
        trial, lost = offered(live, again, lambda sent: sent - len(PORTS))
    assert failed(trial) == {"syn": lost}


def with_a_flush(live: LiveLoss, traffic: Traffic, after_s: float) -> dict[str, int]:
    """Where connections failed in a trial in which the DUT forgets all of them, which it does for sure."""
    remembered: list[int] = []

    def flush() -> None:
        remembered.append(live.built.connections()[1])
        live.built.flush_connections()

    live.built.flush_connections()
    timer = threading.Timer(after_s, flush)
    timer.start()
    spec = TrialSpec(traffic, LOAD, SECONDS, (ONE_WAY,), latency=False, residual_s=1.0)
    (count,) = live.rig.generator.run_trial(spec).counts
    timer.join()
    assert remembered[0] > 0
    return {step.name: step.failed for step in count.steps if step.failed}


def test_a_flush_fails_connections_that_await_an_answer_and_no_held_ones(rig: LossRig) -> None:
    """A client's FIN without a connection is new to OVS, which commits it; a server's SYN-ACK is invalid."""
    with rig.deployment(wired(connections("br0", **BETWEEN))) as live:
        held = Conversation.tcp(hold_s=0.8)
        assert any(with_a_flush(live, held, 0.55) == {} for _ in range(10))
        shape = ["rate", "1500kbit", "burst", "2000", "limit", "1000000"]  # SYNs wait behind the bridge
        assert rig.ovs.instance.namespace is not None
        inside = ["ip", "netns", "exec", rig.ovs.instance.namespace.name]
        run([*inside, "tc", "qdisc", "replace", "dev", "p1", "root", "tbf", *shape])
        empty = Conversation.tcp(request=0, response=0, close="none")
        found = [with_a_flush(live, empty, SECONDS / 2) for _ in range(5)]
        assert ["syn-ack"] in [list(each) for each in found], found
