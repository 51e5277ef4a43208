"""Two nodes, each a private OVS of its own, with an underlay between: frames, the ledger over both, faults, remains."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.ovs.counters import DATAPATH_REASONS
from pytest_nfvperf.adapters.ovs.nodes_datapath import BuiltNodes, NodesDatapath, lacks_nodes
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import process_state, run
from pytest_nfvperf.features.routing.path_daemons import LinkSwitch
from pytest_nfvperf.measure.rig import generator_ports, learning_directions
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.validity import LINK_LOSSES
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.ledger import Ledger, counter_deltas
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import Dut, NodeSpec
from pytest_nfvperf.model.topology.compose import compose, node
from pytest_nfvperf.model.topology.links import TunnelKind
from pytest_nfvperf.model.topology.parts import namespace, tunnel, underlay
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import NODES, vm_to_vm
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.generator_support import embedded_in
from tests.functional.loss_rig import losses
from tests.functional.ovs_support import (
    clean_run,
    needs_hugepages,
    needs_root,
    send_tcp,
    some_tunnels,
    testbed,
    until,
)

pytestmark = needs_root

TEXT = bytes(range(256)) * 256
OUTER = {4: ("172.31.0.1", "172.31.0.2"), 6: ("fd00:1f::1", "fd00:1f::2")}


def started(journal: Journal, datapath: str, name: str = "ovs") -> NodesDatapath:
    bed, dut = testbed("dpdk" if datapath == "dpdk" else "netdev"), Dut(datapath, nodes=NODES)
    lacking = lacks_nodes(bed, dut)
    if lacking is not None:
        pytest.skip(lacking)
    return NodesDatapath.start(bed, journal, dut, name=name)


@pytest.fixture(scope="module", params=["netdev", "system"])
def nodes(request: pytest.FixtureRequest, journal: Journal) -> Iterator[NodesDatapath]:
    datapath = started(journal, request.param)
    yield datapath
    datapath.close()


def pods(kind: TunnelKind, ip: int) -> Topology:
    """A namespace on each node, and a tunnel between them."""

    def one(number: int):
        local, remote = OUTER[ip] if number == 1 else OUTER[ip][::-1]
        parts = (
            namespace(f"pod{number}", f"int{number}", f"10.1.0.{number}/24", mtu=1400),
            tunnel(f"int{number}", local=local, remote=remote, kind=kind, key=7, port=f"tun{number}"),
        )
        return node(f"node{number}", *parts, f"phy{number}")

    return compose(f"pods-{kind}-{ip}", one(1), one(2), underlay("phy1", "phy2", ports=("up1", "up2")))


@pytest.mark.parametrize(("kind", "ip"), some_tunnels())
def test_tcp_passes_from_node_to_node(nodes: NodesDatapath, kind: TunnelKind, ip: int) -> None:
    built = nodes.build(pods(kind, ip))
    try:
        built.wait_ready(5)
        assert send_tcp(built.netns("pod1"), built.netns("pod2"), "10.1.0.2", TEXT) == TEXT
        moved = {name: value for one in nodes.collectors() for name, value in one.snapshot().counters}
        ip6gre = kind is TunnelKind.GRE and ip == 6 and nodes.info().kind == "system"  # ovs-vswitchd.conf.db(5)
        assert f"port tun1: type={'ip6gre' if ip6gre else kind}" in built.configuration()
    finally:
        built.close()
    assert moved["up1.tx_bytes"] > len(TEXT)
    assert "node2.vswitchd.cpu_ns" in moved


def trial(
    datapath: NodesDatapath, built: BuiltNodes, journal: Journal, load_fps: int = 2_000, flows: int = 1
) -> tuple[TrialResult, Ledger]:
    """Frames of 256 bytes, all ways of the topology, and where they were lost."""
    topology = built.topology
    spec = TrialSpec(
        Traffic(frame_size=256, flows=flows), load_fps, 0.4, topology.directions, latency=False, residual_s=0.2
    )
    with embedded_in(journal.directory, "nodes") as generator:
        generator.attach(generator_ports(topology, built))
        generator.wait_links_up(5)
        built.wait_ready(5)
        generator.learn(spec.traffic, learning_directions(topology))
        generator.run_trial(dataclasses.replace(spec, duration_s=0.05))
        collectors = datapath.collectors()
        before = [one.snapshot() for one in collectors]
        result = generator.run_trial(spec)
        after = [one.settled(early, one.snapshot(), result.lost) for one, early in zip(collectors, before, strict=True)]
        return result, trial_ledger(topology, result, before, after)


@pytest.mark.parametrize("overlay", ["none", "vxlan"])
def test_the_ledger_is_one_path_over_both_nodes_and_closed(
    nodes: NodesDatapath, journal: Journal, overlay: str
) -> None:
    built = nodes.build(vm_to_vm(overlay, bidirectional=True))
    try:
        result, ledger = trial(nodes, built, journal)
    finally:
        built.close()
    assert all(counts.received == counts.sent > 100 for counts in result.counts), result.counts
    assert (ledger.unexplained, losses(ledger)) == (0, {})
    there, back = ledger.paths
    assert [(hop.name, hop.node) for hop in there.hops if "br-" in hop.name] == [
        ("br-int1 + br-phy1", "node1"),
        ("br-phy2 + br-int2", "node2"),
    ]
    assert any(hop.name.startswith("up1 - up2 underlay") for hop in there.hops)
    assert any(hop.name.startswith("up1 - up2 underlay") for hop in back.hops)


def test_what_one_node_drops_is_lost_there_to_the_frame(nodes: NodesDatapath, journal: Journal) -> None:
    built = nodes.build(vm_to_vm("none"))
    try:
        built.node("node2").replace_flows("br-int2", ["priority=0,actions=drop"])
        result, ledger = trial(nodes, built, journal)
    finally:
        built.close()
    assert result.received == 0
    assert ledger.unexplained == 0
    assert {(hop.name, hop.node) for path in ledger.paths for hop in path.hops if hop.losses} == {
        ("br-phy2 + br-int2", "node2")
    }


def test_an_underlay_that_is_cut_is_named_with_its_node(nodes: NodesDatapath) -> None:
    built = nodes.build(vm_to_vm("none"))
    try:
        built.wait_ready(5)
        before = [one.snapshot() for one in nodes.collectors()]
        with closing(LinkSwitch(nodes.node("node1").instance.home.name, "up1")) as link:
            link.down()
            with pytest.raises(TestbedError, match="node node1: interface 'up1' has no link"):
                nodes.check_alive()
        after = [one.snapshot() for one in nodes.collectors()]
    finally:
        built.close()
    lost = {change.name: change.delta for change in counter_deltas(before, after) if change.name.endswith(LINK_LOSSES)}
    assert lost["up1.link_losses"] >= 1


def test_frames_of_a_vni_that_the_other_node_has_not_are_lost_there(nodes: NodesDatapath, journal: Journal) -> None:
    """A topology with two VNIs is refused; here somebody changes one behind its back."""
    built = nodes.build(vm_to_vm("vxlan"))
    try:
        database = nodes.node("node2").instance.database
        run(["ovs-vsctl", f"--db=unix:{database}", "set", "interface", "tun2", "options:key=43"])
        result, ledger = trial(nodes, built, journal)
    finally:
        built.close()
    assert result.received == 0
    if nodes.info().kind == "system":
        assert ledger.unexplained == result.sent, "the kernel's datapath counts no frame that no port takes"
        return
    assert ledger.unexplained == 0
    (hop,) = (hop for path in ledger.paths for hop in path.hops if hop.losses)
    assert (hop.name, hop.node) == ("br-phy2 + br-int2", "node2")
    (loss,) = hop.losses
    assert (loss.reason, loss.frames) == ("datapath_drop_upcall_error", result.sent)
    (known,) = (reason for reason in DATAPATH_REASONS if reason.name == loss.reason)
    assert "out of a tunnel whose key (VNI) no port has" in known.meaning


def test_an_underlay_whose_mtu_somebody_lowers_is_named(nodes: NodesDatapath) -> None:
    """The kernel refuses frames that are too large, and OVS counts no drop: nothing else tells why they are missing."""
    built = nodes.build(vm_to_vm("vxlan"))
    home = nodes.node("node1").instance.home.name
    try:
        inside_netns(home, lambda: set_mtu("up1", 200))
        with pytest.raises(TestbedError, match="node node1: interface 'up1' has MTU 200, and was made with 1550: "):
            nodes.check_alive()
    finally:
        built.close()


def set_mtu(interface: str, mtu: int) -> None:
    with IPRoute() as links:
        links.link("set", index=links.link_lookup(ifname=interface)[0], mtu=mtu)


@needs_hugepages
def test_dpdk_nodes_pass_frames_by_rings_that_both_have(journal: Journal) -> None:
    datapath = started(journal, "dpdk", "rings")
    try:
        built = datapath.build(vm_to_vm("vxlan", bidirectional=True))
        result, ledger = trial(datapath, built, journal)
        assert "net_virtio_user_up2" in built.configuration()
        built.close()
    finally:
        datapath.close()
    assert result.received > 0
    assert ledger.unexplained == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_node_that_is_gone_is_named_and_nothing_is_left(how: signal.Signals) -> None:
    with clean_run() as own:
        datapath = started(own, "netdev", "mortal")
        try:
            built = datapath.build(vm_to_vm("vxlan"))
            os.kill(datapath.node("node2").instance.pid, how)
            if how is signal.SIGKILL:
                assert until(lambda: not datapath.node("node2").instance.running())
                with pytest.raises(TestbedError, match=r"node node2: ovs-vswitchd .*SIGKILL"):
                    datapath.check_alive()
                assert "node2/ovs-vswitchd.log" in datapath.logs()
            else:
                assert until(lambda: process_state(datapath.node("node2").instance.pid).startswith("T"))
                with pytest.raises(
                    TestbedError, match=r"node node2: ovs-vswitchd .* in state T \(stopped\), and not by us"
                ):
                    datapath.check_alive()
                with pytest.raises(TestbedError, match="node node2: "):
                    [one.snapshot() for one in datapath.collectors()]
            built.close()  # lets a stopped one go on, which could take nothing away
        finally:
            datapath.close()


@needs_hugepages
def test_nodes_may_differ_in_datapath_and_tuning(journal: Journal) -> None:
    """A node with DPDK and one without: a veth pair joins them."""
    specs = (NodeSpec("node1", tuning=Tuning(smc=True)), NodeSpec("node2", datapath="netdev"))
    bed = testbed("dpdk", nodes=specs)
    datapath = NodesDatapath.start(bed, journal, Dut(nodes=NODES), name="unlike")
    try:
        built = datapath.build(vm_to_vm("vxlan", bidirectional=True))
        result, ledger = trial(datapath, built, journal)
        configured = [datapath.node(name).instance.db.root.other_config for name in NODES]
        built.close()
        assert datapath.info().kind == "dpdk+netdev"
    finally:
        datapath.close()
    assert (configured[0]["smc-enable"], configured[1].get("smc-enable")) == ("true", None)
    assert result.received > 0
    assert ledger.unexplained == 0
