"""Loss made on purpose on veth pairs, on OVS without DPDK: the kernel's own counters name hop and reason."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.model.measure.ledger import Ledger, ledger_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, path, veth
from tests.functional.loss_rig import LossRig, loss_rig, losses
from tests.functional.ovs_support import far_ends, needs_root, phy2phy, started

pytestmark = needs_root


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "netdev") as ovs, loss_rig(journal, ovs) as made:
        yield made


def narrow(rig: LossRig, interface: str) -> None:
    """A transmit queue of 1 Mbit/s and two frames."""
    assert rig.ovs.instance.namespace is not None
    tc = ["tc", "qdisc", "replace", "dev", interface, "root", "tbf"]
    shape = ["rate", "1mbit", "burst", "2000", "limit", "3000"]
    run(["ip", "netns", "exec", rig.ovs.instance.namespace.name, *tc, *shape])


def assert_counted_once_or_twice(ledger: Ledger) -> None:
    """Nothing is missing. A frame that ends a sendmmsg() early is tried again by OVS: a full queue drops it twice.

    sendmmsg() says how many frames went before the one that was refused, and says the refusal only if none did
    (sendmmsg(2)). So a frame is dropped twice only in a batch of which others were sent: at most one for each frame
    that was delivered.
    """
    delivered = ledger.offered - ledger.lost
    assert -delivered <= ledger.unexplained <= 0, ledger_text(ledger)


def test_without_loss_every_hop_has_the_same_count(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        ledger = live.ledger(5_000)
    assert {hop.left for hop in ledger.paths[0].hops} == {ledger.offered}, ledger_text(ledger)
    assert [hop.name for hop in ledger.paths[0].hops] == [
        *("p0 generator", "p0 veth", "p0 rx", "p0 socket", "br0", "p1 tx", "p1 socket", "p1 generator")
    ]


def test_a_full_queue_of_the_veth_that_ovs_sends_by(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        narrow(rig, "p1")
        ledger = live.ledger(10_000)
    named = losses(ledger)
    assert named["p1 tx", "qdisc_drops"] > 0
    assert {hop for hop, _ in named} == {"p1 tx"}, ledger_text(ledger)
    assert_counted_once_or_twice(ledger)


def test_a_full_queue_of_a_veth_between_bridges(rig: LossRig) -> None:
    linked = compose("v", endpoint("p0", "br0"), endpoint("p1", "br1"), veth("br0", "br1"), path("p0", "p1"))
    with rig.deployment(linked) as live:
        narrow(rig, "br0-br1")
        ledger = live.ledger(10_000)
    named = losses(ledger)
    assert named["br0-br1 tx", "qdisc_drops"] > 0
    assert {hop for hop, _ in named} == {"br0-br1 tx"}, ledger_text(ledger)
    assert_counted_once_or_twice(ledger)


def test_a_socket_that_ovs_does_not_read_in_time(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live, ThreadPoolExecutor(1) as aside:
        stopped = aside.submit(_stopped_while_frames_come, rig.ovs.instance.vswitchd.pid, far_ends(live.built)[0])
        ledger = live.ledger(20_000, 2.0)
        stopped.result()
    assert losses(ledger)["p0 socket", "socket_drops"] > 0, ledger_text(ledger)
    assert abs(ledger.unexplained) <= 0.001 * ledger.lost, ledger_text(ledger)


def _stopped_while_frames_come(pid: int, sender: str) -> None:
    """Stop a process in a trial, until 10,000 more frames have come by this interface: a socket holds some hundred."""

    def sent() -> int:
        return int(Path(f"/sys/class/net/{sender}/statistics/tx_packets").read_text())

    before = sent()
    wait_until(lambda: sent() > before + 500, "frames of the trial", 20)
    os.kill(pid, signal.SIGSTOP)
    try:
        before = sent()
        wait_until(lambda: sent() > before + 10_000, "frames while nobody reads them", 20)
    finally:
        os.kill(pid, signal.SIGCONT)
