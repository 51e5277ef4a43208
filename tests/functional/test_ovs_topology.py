"""Topologies on a real private OVS: frames cross as said, errors name the interface, nothing stays."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link
from pytest_nfvperf.adapters.ovs.openflow import OpenFlow
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.trial_ledger import flat_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.features.routing.model import BgpPathPlan
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.testbed.testbed import DutPort
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.topology.topology import Topology
from tests.functional.ovs_support import (
    MACS,
    far_ends,
    frame,
    frames_on,
    needs_hugepages,
    needs_root,
    patched,
    phy2phy,
    started,
    testbed,
    testpmd,
    until,
)

pytestmark = needs_root


@pytest.fixture(scope="module")
def netdev_instance(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", "netdev") as ovs:
        yield ovs


@pytest.fixture(scope="module")
def dpdk_instance(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "dpdk", "dpdk") as ovs:
        yield ovs


@pytest.fixture
def netdev(netdev_instance: OvsDatapath) -> Iterator[OvsDatapath]:
    yield netdev_instance
    netdev_instance.remove_topologies()


@pytest.fixture
def dpdk(dpdk_instance: OvsDatapath) -> Iterator[OvsDatapath]:
    yield dpdk_instance
    dpdk_instance.remove_topologies()


def counters(ovs: OvsDatapath) -> dict[str, int]:
    return ovs.collector.snapshot().as_dict()


def is_still(ovs: OvsDatapath) -> bool:
    """True when the PMDs counted nothing between two looks."""
    first = counters(ovs)["pmd.packets_received"]
    time.sleep(0.05)
    return counters(ovs)["pmd.packets_received"] == first


@pytest.mark.parametrize("topology", [phy2phy(), phy2phy(crossed=False), patched()], ids=["crossed", "normal", "patch"])
def test_frames_cross_as_the_topology_says(netdev: OvsDatapath, topology: Topology) -> None:
    built = netdev.build(topology)
    built.wait_ready(5)
    left, right = far_ends(built)
    before = netdev.collector.snapshot()
    with frames_on(left) as sender, frames_on(right) as receiver:
        for i in range(10):
            sent = frame(MACS[1], MACS[0], bytes([i]))
            sender.send(sent)
            assert receiver.recv(2048) == sent
    after = netdev.collector.snapshot()
    moved = {change.name: change.delta for change in deltas(before, after)}
    assert moved["p0.rx_packets"] == 10
    assert moved["p1.tx_packets"] == 10
    assert moved["main.packets_received"] >= 10
    ledger = flat_ledger(10, 10, before, after, topology)
    assert (ledger.lines, ledger.unexplained) == ((), 0)
    built.close()


def test_a_frame_that_no_crossing_takes_is_dropped(netdev: OvsDatapath) -> None:
    one_way = phy2phy()
    one_way = dataclasses.replace(one_way, crossings=one_way.crossings[:1])
    built = netdev.build(one_way)
    built.wait_ready(5)
    left, right = far_ends(built)
    before = netdev.collector.snapshot()
    with frames_on(left) as receiver, frames_on(right) as sender:
        sender.send(frame(MACS[0], MACS[1]))
        assert until(lambda: counters(netdev)["p1.rx_packets"] > before.as_dict()["p1.rx_packets"])
        receiver.settimeout(0.2)
        with pytest.raises(TimeoutError):
            receiver.recv(2048)
    ledger = flat_ledger(1, 0, before, netdev.collector.settled(before, before, 1), one_way)
    assert sum(line.frames for line in ledger.lines) == 1, ledger
    assert ledger.lines[0].reason.startswith(("datapath_drop_", "drop_action_")), ledger
    assert ledger.unexplained == 0
    built.close()


@needs_hugepages
def test_frames_cross_dpdk_ports_and_every_counter_agrees(dpdk: OvsDatapath, journal: Journal) -> None:
    built = dpdk.build(phy2phy())
    with testpmd(journal, built, "txonly") as sender:
        built.wait_ready(15)
        assert until(lambda: counters(dpdk)["pmd.packets_received"] > 10_000)
        assert sender.popen.stdin is not None
        sender.popen.stdin.write(b"stop\n")
        sender.popen.stdin.flush()
        assert until(lambda: is_still(dpdk))
        seen = counters(dpdk)
    # Nobody sends any more: what came in by one port went out by the other, or was refused by its ring.
    for came, went in (("p0", "p1"), ("p1", "p0")):
        assert seen[f"{came}.rx_packets"] == seen[f"{went}.tx_packets"] + seen[f"{went}.tx_dropped"]
    assert seen["pmd.packets_received"] == seen["p0.rx_packets"] + seen["p1.rx_packets"]
    assert seen["pmd.packets_received"] == seen["pmd.c01.packets_received"]
    assert seen["p0.tx_dropped"] == seen["p0.ovs_tx_failure_drops"]
    assert seen["pmd.cycles_busy"] > 0
    built.close()


@needs_hugepages
def test_the_scheduler_is_asked_about_each_pmd(dpdk: OvsDatapath) -> None:
    _, sched, *_ = dpdk.collectors()
    assert until(lambda: sched.snapshot().as_dict().keys() <= {"pmd-sched.throttled_ns"}), (
        "no ports, no PMD thread: the last test's ends with its ports"
    )
    built = dpdk.build(phy2phy())
    first = sched.snapshot().as_dict()
    assert {
        "pmd-sched.run_ns",
        "pmd-sched.run_delay_ns",
        "pmd-sched.kept_off_ns",
        "pmd-sched.involuntary_switches",
    } <= first.keys()
    assert first["pmd-sched.run_ns"] == first["pmd-sched.c01.run_ns"]
    assert until(lambda: sched.snapshot().as_dict()["pmd-sched.run_ns"] > first["pmd-sched.run_ns"])
    built.close()


@needs_hugepages
def test_the_main_thread_leaves_the_generators_cpu_for_as_long_as_it_forwards(dpdk: OvsDatapath) -> None:
    """It reads veth ends as a PMD reads its ports; what it takes of the PMD's CPU is told apart.

    For the few frames of a routing daemon it stays: beside the PMD it would wait for the lock of the one it preempted.
    """
    main = dpdk.instance.vswitchd.pid
    _, sched, *_ = dpdk.collectors()
    routed = BgpPathPlan().topology()
    for topology, cpus in ((routed, {0}), (bridge_chain(2, link="veth"), {1}), (phy2phy(), {0})):
        built = dpdk.build(topology)
        assert os.sched_getaffinity(main) == cpus
        assert ("pmd-sched.beside_run_ns" in sched.snapshot().as_dict()) == (cpus == {1})
        built.close()


def test_a_drop_reason_without_a_hit_is_zero_and_an_unknown_one_is_absent(netdev: OvsDatapath) -> None:
    seen = counters(netdev)
    assert seen["coverage.datapath_drop_meter"] == 0
    assert "coverage.datapath_drop_no_such_reason" not in seen
    assert seen["vswitchd.cpu_ns"] >= 0


def test_counters_are_fresh(netdev: OvsDatapath) -> None:
    """The database's statistics column is seconds old; ours must not be."""
    built = netdev.build(phy2phy())
    built.wait_ready(5)
    left, right = far_ends(built)
    with frames_on(left) as sender, frames_on(right) as receiver:
        for expected in range(1, 20):
            sender.send(frame(MACS[1], MACS[0]))
            receiver.recv(2048)
            assert counters(netdev)["p1.tx_packets"] == expected
    built.close()


@pytest.mark.parametrize("kind", [pytest.param("dpdk", marks=needs_hugepages), "netdev"])
def test_ten_builds_leave_nothing_behind(request: pytest.FixtureRequest, journal: Journal, kind: str) -> None:
    ovs: OvsDatapath = request.getfixturevalue(kind)
    noted = journal.entries
    for _ in range(10):
        built = ovs.build(patched())
        built.close()
        built.close()
    assert journal.entries == noted
    assert ovs.instance.db.rows("Interface") == {}
    assert not list(ovs.instance.directory.glob("br*.mgmt"))
    with IPRoute() as links:
        assert not [link for link in links.get_links() if str(link.get_attr("IFLA_IFNAME")).startswith(journal.tag)]


@needs_hugepages
def test_a_port_without_a_far_end_is_named(dpdk: OvsDatapath) -> None:
    built = dpdk.build(phy2phy())
    with pytest.raises(DeadlineError, match=r"waited 0.3 s for link on .*'phy2phy'; last seen: no link on p0, p1"):
        built.wait_ready(0.3)
    built.close()


@needs_hugepages
def test_an_interface_that_ovs_cannot_make_is_named_with_its_error(journal: Journal) -> None:
    cabled = tuple(DutPort(name, "pci", pci=f"0000:ff:1f.{i}") for i, name in enumerate(("p0", "p1")))
    ovs = OvsDatapath.start(testbed("dpdk", ports=cabled), journal, name="bogus")
    try:
        with pytest.raises(TestbedError, match=r"interface 'p0' of topology 'phy2phy': .*0000:ff:1f.0") as caught:
            ovs.build(phy2phy())
        assert "netdev_dpdk" in caught.value.evidence["ovs-vswitchd.log (warnings)"]
        assert "br0" not in ovs.instance.db.rows("Bridge")
        ovs.check_alive()
    finally:
        ovs.close()


def test_an_interface_of_the_host_is_moved_in(journal: Journal) -> None:
    name, far = f"{journal.tag}d", f"{journal.tag}f"
    with IPRoute() as host:
        host.link("add", kind="veth", ifname=name, peer={"ifname": far})
        try:
            cabled = (DutPort("p0", "interface", interface=name), DutPort("p1", "interface", interface="nosuch0"))
            ovs = OvsDatapath.start(testbed("netdev", ports=cabled), journal, name="moved")
            try:
                with pytest.raises(
                    TestbedError, match=r"dut.ports: port 'p1': this machine has no interface 'nosuch0'"
                ):
                    ovs.build(phy2phy())
                assert not host.link_lookup(ifname=name)
                assert host.link_lookup(ifname=far)
            finally:
                ovs.close()
            (back,) = host.link("get", ifname=name)
            assert back["state"] == "down", "given back as it was, and not gone with OVS's namespace"
        finally:
            remove_link(far)
        assert until(lambda: not host.link_lookup(ifname=far))


def test_a_second_topology_of_the_same_names_is_refused_and_the_first_lives(netdev: OvsDatapath) -> None:
    built = netdev.build(phy2phy())
    with pytest.raises(TestbedError, match="'phy2phy' cannot be built: br0, p0, p1 is in use by another topology"):
        netdev.build(phy2phy())
    built.wait_ready(5)
    built.close()


def test_the_configuration_says_all(netdev: OvsDatapath) -> None:
    built = netdev.build(phy2phy())
    text = built.configuration()
    for expected in (
        "# bridge br0",
        "port p0: type=system ofport=1",
        "priority=100,in_port=1,actions=output:2",
        "pmd-rxq-show",
    ):
        assert expected in text
    built.close()


@needs_hugepages
def test_every_queue_has_its_pmd(dpdk: OvsDatapath) -> None:
    built = dpdk.build(phy2phy())
    text = built.configuration()
    assert "pmd thread numa_id 0 core_id 1" in text
    for port in ("p0", "p1"):
        assert f"port: {port} " in text
    assert "dpdk-extra=--no-pci --in-memory" in text
    built.close()


def test_flows_that_ovs_does_not_understand_are_refused_in_its_words(netdev: OvsDatapath) -> None:
    built = netdev.build(phy2phy())
    openflow = OpenFlow(netdev.instance.ofctl, netdev.instance.directory)
    with pytest.raises(TestbedError, match=r"replace-flows .*exited with status 1") as caught:
        openflow.replace_flows("br0", ["priority=1,actions=no-such-action"])
    assert "no-such-action" in caught.value.evidence["stderr"]
    assert "actions=output:2" in openflow.command("dump-flows", "br0")
    built.close()


@needs_hugepages
def test_a_large_mtu_reaches_the_port(dpdk: OvsDatapath, journal: Journal) -> None:
    plain = phy2phy()
    jumbo = dataclasses.replace(plain, ports=tuple(dataclasses.replace(port, mtu=9000) for port in plain.ports))
    built = dpdk.build(jumbo)
    with testpmd(journal, built, "io"):
        built.wait_ready(15)
        assert "port p0: type=dpdkvhostuserclient ofport=1 mtu=9000" in built.configuration()
    built.close()
