"""S1's path on a real OVS with the generator: faults that only show there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.model import BgpPathPlan
from pytest_nfvperf.features.routing.path_daemons import LocalBgp
from pytest_nfvperf.features.routing.ports import BgpPath
from pytest_nfvperf.model.errors import DeadlineError
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.bgp_support import needs_daemons
from tests.functional.loss_rig import LiveLoss, LossRig, loss_rig
from tests.functional.ovs_support import leftovers, needs_hugepages, processes_tagged, run_base, started

pytestmark = [*needs_daemons, needs_hugepages]
BOTH = (Direction("dpdk2", "vm0"), Direction("vm0", "dpdk2"))
PLAN = BgpPathPlan()


@pytest.fixture(scope="module")
def rig() -> Iterator[LossRig]:
    with run_base() as base:
        journal = open_journal(base)
        with started(journal, "dpdk") as ovs, loss_rig(journal, ovs) as made:
            yield made
        journal.close()
        assert leftovers(journal.tag) == []


def path_on(live: LiveLoss, plan: BgpPathPlan) -> BgpPath:
    return LocalBgp(lambda: live.rig.ovs._journal).start(live.built, plan)


def test_data_goes_where_bgp_says_and_stops_when_it_is_withdrawn(rig: LossRig) -> None:
    with rig.deployment(PLAN.topology()) as live:
        path = path_on(live, PLAN)
        try:
            assert path.await_ready().flaps == 0
            trial = live.trial(1000, 0.2, PLAN.traffic(64), BOTH)
            assert all(counts.received == counts.sent > 0 for counts in trial.result.counts)
            assert [counts.foreign for counts in trial.result.counts] == [0, 0]
            path.bird.withdraw([PLAN.clients])
            path.agent.await_installed(PLAN.clients, 5, gone=True)
            live.forget_flows()
            trial = live.trial(1000, 0.2, PLAN.traffic(64), BOTH)
            to_vm, from_vm = trial.result.counts
            assert (to_vm.received == to_vm.sent > 0, from_vm.received) == (True, 0)
        finally:
            path.close()


@pytest.mark.thorough("waits for several sessions")
def test_a_link_that_is_cut_ends_the_session_until_it_is_mended(rig: LossRig) -> None:
    with rig.deployment(PLAN.topology()) as live:
        path = path_on(live, PLAN)
        try:
            path.await_ready()
            for cable in (path.bird_link, path.frr_link):
                cable.down()
                path.frr.await_session(PLAN.bird_address, lambda seen: not seen.established, "the end", 5)
                path.agent.await_installed(PLAN.clients, 2, gone=True)
                cable.up()
                path.await_established(8)
                path.agent.await_installed(PLAN.clients, 5)
        finally:
            path.close()


@pytest.mark.thorough("waits for several sessions")
def test_the_steps_of_a_change_are_dated_in_their_order(rig: LossRig) -> None:
    with rig.deployment(PLAN.topology()) as live:
        path = path_on(live, PLAN)
        try:
            path.await_ready()
            with path.steps() as steps:
                for change, gone in ((path.bird.withdraw, True), (path.bird.announce, False)):
                    began_ns = time.monotonic_ns()
                    change([PLAN.clients])
                    path.agent.await_installed(PLAN.clients, 5, gone=gone)
                    times = steps.since(began_ns, PLAN.clients, gone=gone)
                    assert list(times) == ["sent", "received", "routed", "flow"]
                    assert (
                        0 < times["sent"] < times["routed"] < times["flow"] < time.monotonic_ns() / 1e9 - began_ns / 1e9
                    )
                    assert times["received"] < times["routed"]
        finally:
            path.close()


@pytest.mark.thorough("waits for several sessions")
def test_a_neighbour_in_another_vlan_is_never_heard(rig: LossRig) -> None:
    plan = BgpPathPlan(neighbor_vlan=178)
    with rig.deployment(plan.topology()) as live:
        path = path_on(live, plan)
        try:
            with pytest.raises(
                DeadlineError, match=r"Established, BFD up; last seen: 12\.12\.12\.2 \(AS 65000\) [A-Z]"
            ):
                path.await_established(2)
        finally:
            path.close()


@pytest.mark.thorough("waits for several sessions")
def test_a_route_that_is_never_installed_says_why(rig: LossRig) -> None:
    with rig.deployment(PLAN.topology()) as live:
        path = path_on(live, PLAN)
        try:
            path.await_ready()
            with pytest.raises(
                DeadlineError, match="no such route in the kernel's table of FRR's namespace; there are 2"
            ):
                path.agent.await_installed("203.0.113.0/24", 0.2)
            path.frr.announce(["192.0.2.0/24"])
            with pytest.raises(DeadlineError, match=r"192\.0\.2\.0/24 on br-ex .*nowhere, in no network of ours"):
                path.agent.await_installed("192.0.2.0/24", 1)
        finally:
            path.close()


KILLED = """
import sys, time
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.model import Neighbor, SpeakerConfig
journal = open_journal(Path(sys.argv[1]))
namespace = LiveNamespace(journal, "one")
config = SpeakerConfig(65000, "10.0.0.1", (Neighbor("10.0.0.2", 65000),))
speakers = FrrSpeaker(journal, namespace.name, config), BirdSpeaker(journal, namespace.name, config)
for speaker in speakers:
    speaker.start()
print(journal.tag, flush=True)
time.sleep(60)
"""


def test_kill_minus_9_leaves_nothing() -> None:
    with run_base() as base:
        base.chmod(0o755)
        run = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(base)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert run.stdout is not None
        tag = run.stdout.readline().strip()
        assert len(processes_tagged(tag)) >= 3, "zebra, bgpd and bird"
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
        wait_until(lambda: not processes_tagged(tag), "the daemons to end with the run", 5)
        assert not reap(base).failed
        assert leftovers(tag) == []
        assert not (base / tag).exists()
