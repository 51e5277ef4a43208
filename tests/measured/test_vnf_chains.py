"""Chains of VNFs in mode mac, with real frames: each VNF sends to the MAC address of the next stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.measure.ledger import ledger_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, mirror, monitor, path, vnf
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import mirror_output, vm_chain, vm_receiving
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.loss_rig import LossRig, loss_rig
from tests.functional.ovs_support import needs_hugepages, needs_root, started

pytestmark = [needs_root, needs_hugepages]

CALM_FPS = 20_000
MORE = pytest.mark.thorough("more of the same")


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "dpdk") as ovs, loss_rig(journal, ovs) as made:
        yield made


def test_each_vnf_of_a_path_sends_to_the_next(rig: LossRig) -> None:
    """Flows that match the MAC addresses of every leg: none of another address would come through."""
    chain = compose(
        "pvvp-mac",
        endpoint("p0", "br0"),
        endpoint("p1", "br0"),
        vnf("v1", "br0", mode="mac"),
        vnf("v2", "br0", mode="mac"),
        path("p0", "v1", "v2", "p1"),
    )
    macs = {port.name: port.mac for port in chain.ports}
    legs = [("p0", "v1a", "p0", "p1"), ("v1b", "v2a", "v1b", "v2a"), ("v2b", "p1", "v2b", "p1")]
    with rig.deployment(chain) as live:
        live.ofctl("del-flows")
        for entry, leaves, source, to in legs:
            match = f"in_port={live.number(entry)},dl_src={macs[source]},dl_dst={macs[to]}"
            live.add_flow(f"{match},actions=output:{live.number(leaves)}")
        result = live.trial(CALM_FPS).result
    assert result.received == result.sent > 0
    assert [(vnf.received, vnf.sent) for vnf in result.vnfs if vnf.port in {"v1a", "v2a"}] == [(result.sent,) * 2] * 2


@pytest.mark.parametrize("vms", [pytest.param(1, marks=MORE), 2])
def test_vms_on_a_bridge_that_learns(rig: LossRig, vms: int) -> None:
    """S4's chain: every frame crosses the bridge once more than there are VMs, and none is flooded once learnt."""
    with rig.deployment(vm_chain(vms)) as live:
        trial = live.trial(CALM_FPS, directions=(Direction("p0", "p0"),))
    result, ledger = trial.result, trial.ledger
    assert result.received == result.sent > 0
    assert result.counts[0].duplicated == result.counts[0].foreign == 0
    assert [(vnf.port, vnf.received, vnf.sent) for vnf in result.vnfs] == [
        (f"vm{number}", result.sent, result.sent) for number in range(1, vms + 1)
    ]
    assert ledger is not None
    assert [hop.name for hop in ledger.paths[0].hops if hop.name == "br0"] == ["br0"] * (vms + 1)
    assert {hop.left for hop in ledger.paths[0].hops} == {result.sent}


def test_a_vm_that_only_receives(rig: LossRig) -> None:
    """S4's 1a: the bridge has learnt the receiver, so the generator's own port sees none of its frames again."""
    with rig.deployment(vm_receiving()) as live:
        trial = live.trial(CALM_FPS, directions=(Direction("p0", "vm1"),))
    assert trial.result.received == trial.result.sent > 0
    assert trial.ledger is not None
    assert trial.ledger.unexplained == 0


def watched(vms: int) -> Topology:
    """S4's chain with a mirror of all that crosses the bridge."""
    return vm_chain(vms, monitor("m0", "br0"), mirror("all", "br0", "m0"))


def test_every_copy_of_a_mirror_is_on_a_path_of_its_own(rig: LossRig) -> None:
    with rig.deployment(watched(2)) as live:
        trial = live.trial(CALM_FPS, directions=(Direction("p0", "p0"),))
    assert trial.ledger is not None
    (copies,) = trial.ledger.branches
    assert (copies.direction, copies.offered) == ("mirror all->m0", 3 * trial.result.sent)
    assert (copies.received, copies.unexplained) == (copies.offered, 0)
    assert [hop.name for hop in copies.hops] == ["br0 mirror", "m0 tx", "m0 monitor"]
    assert trial.ledger.beside == ()


@pytest.mark.parametrize("output", ["host", *(pytest.param(each, marks=MORE) for each in ("af_packet", "af_xdp"))])
def test_at_overload_copies_that_the_hosts_socket_lost_are_counted(rig: LossRig, output: str) -> None:
    """The generator does not read its ring while it is away; the kernel tells whoever asks that very socket."""
    port = mirror_output(output)
    with rig.deployment(vm_chain(2, port, mirror("all", "br0", port.name))) as live:
        ledger = live.trial(60_000_000, directions=(Direction("p0", "p0"),)).ledger
    assert ledger is not None
    (copies,) = ledger.branches
    assert copies.offered > 10_000
    assert abs(copies.unexplained) <= 0.001 * copies.offered, ledger_text(ledger)
    assert {loss.reason for hop in copies.hops for loss in hop.losses} <= {"ring_drops", "xdp_drops"}


def test_at_overload_with_a_mirror_every_frame_and_every_copy_is_received_or_explained(rig: LossRig) -> None:
    with rig.deployment(watched(2)) as live:
        ledger = live.trial(60_000_000, directions=(Direction("p0", "p0"),)).ledger
    assert ledger is not None
    assert ledger.lost > 0
    assert abs(ledger.unexplained) <= 0.001 * ledger.offered
    (copies,) = ledger.branches
    assert copies.offered > 0
    assert abs(copies.unexplained) <= 0.001 * copies.offered
    assert f"mirror all -> m0: {copies.offered:,} copies due" in ledger_text(ledger)
