"""What frames pass on nodes' bridges before they are forwarded: access lists, conntrack, VNIs by flow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.ovs.nodes_datapath import NodesDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.connections import connections
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from tests.functional.loss_rig import losses
from tests.functional.ovs_support import needs_hugepages, needs_root, testbed
from tests.functional.test_nodes import started, trial

pytestmark = needs_root

VNIS, FLOWS, ZONE = 100, 400, 7


@pytest.fixture(scope="module")
def nodes(journal: Journal) -> Iterator[NodesDatapath]:
    datapath = started(journal, "netdev", "rules")
    yield datapath
    datapath.close()


def received_by_vni(nodes: NodesDatapath) -> dict[int, int]:
    """Frames that node2 took out of the tunnel, by their VNI."""
    flows = nodes.node("node2").instance.ctl.call("bridge/dump-flows", "br-int2")
    found = re.findall(r"n_packets=(\d+).*tun_id=(0x[0-9a-f]+),in_port", flows)
    return {int(vni, 16): int(frames) for frames, vni in found}


def test_flows_are_dealt_to_vnis_and_tracked_and_none_is_lost(nodes: NodesDatapath, journal: Journal) -> None:
    built = nodes.build(vm_to_vm("geneve", key=1000, vnis=VNIS, zone=ZONE))
    try:
        # About two frames of each flow in either direction: one each would leave a flow out where a frame is late.
        result, ledger = trial(nodes, built, journal, load_fps=4_000, flows=FLOWS)
        frames = received_by_vni(nodes)
        tracked = nodes.node("node1").instance.ctl.call("dpctl/dump-conntrack", f"zone={ZONE}").splitlines()
    finally:
        built.close()
    assert result.received == result.sent
    assert (ledger.unexplained, losses(ledger)) == (0, {})
    assert sorted(frames) == list(range(1000, 1000 + VNIS))
    used = sum(count > 0 for count in frames.values())
    assert used > 0.8 * VNIS, "400 flows, each in one of 100 VNIs by its hash, leave hardly one out"
    assert len(tracked) >= FLOWS


def test_connections_of_two_nodes_are_counted_together_and_flushed(nodes: NodesDatapath, journal: Journal) -> None:
    tracked = (
        connections("br-int1", client="vm1-tx", server="tun1", zone=ZONE),
        connections("br-int2", client="tun2", server="vm2-rx", zone=ZONE),
    )
    built = nodes.build(replace(vm_to_vm("geneve"), connections=tracked))
    try:
        result, ledger = trial(nodes, built, journal, flows=50)
        assert built.connections() == {ZONE: 2 * 50}
        built.flush_connections()
        assert built.connections() == {ZONE: 0}
    finally:
        built.close()
    assert (result.received, losses(ledger)) == (result.sent, {})


def test_frames_pass_an_access_list_of_many_rules_whose_evidence_is_short(
    nodes: NodesDatapath, journal: Journal
) -> None:
    built = nodes.build(vm_to_vm("vxlan", acl=100_000))
    try:
        instance = nodes.node("node1").instance
        target = f"unix:{instance.sockets / 'br-int1.mgmt'}"
        counted = run([*instance.ofctl, "-O", "OpenFlow14", "dump-aggregate", target])
        result, ledger = trial(nodes, built, journal)
        evidence = built.configuration()
    finally:
        built.close()
    assert "flow_count=100003" in counted
    assert result.received == result.sent
    assert ledger.unexplained == 0
    assert "(100000 rules of the access list)" in evidence
    assert len(evidence) < 20_000


@needs_hugepages
def test_a_ring_between_nodes_has_the_queues_that_are_asked_for(journal: Journal) -> None:
    nodes = NodesDatapath.start(
        testbed("dpdk"), journal, Dut(nodes=("node1", "node2"), tuning=Tuning(rxq=2)), name="queues"
    )
    try:
        built = nodes.build(vm_to_vm("vxlan"))
        result, _ = trial(nodes, built, journal, flows=64)
        polled = {name: nodes.node(name).instance.ctl.call("dpif-netdev/pmd-rxq-show") for name in ("node1", "node2")}
        built.close()
    finally:
        nodes.close()
    assert result.received > 0
    assert re.search(r"port: up2\s+queue-id:\s+1", polled["node2"])
