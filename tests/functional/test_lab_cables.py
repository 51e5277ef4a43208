"""A lab of veth pairs: cables checked by learning frames, interfaces borrowed and given back, bonds."""

from __future__ import annotations

import dataclasses
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.borrowed_interfaces import (
    BorrowedInterfaces,
    check_free,
    read_interface_use,
    remove_link,
)
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.openflow import connected, links_up
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import check_dut
from pytest_nfvperf.measure.cable_check import check_cabling, refuse_wrong_cables
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.ledger import ledger_text
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import CableSpec, DutBond, DutPort, Testbed
from pytest_nfvperf.model.topology.compose import compose, phy2phy, pvp
from pytest_nfvperf.model.topology.parts import endpoint
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.machine import Progress
from tests.functional.lab_support import generator_of, lab_testbed, veth_cables, vsctl
from tests.functional.ovs_support import clean_run, needs_hugepages, needs_root, patched

pytestmark = needs_root


@contextmanager
def lab_of(testbed: Testbed, journal: Journal) -> Iterator[tuple[OvsDatapath, object]]:
    """A private OVS without DPDK on the testbed's ports, and a generator that has borrowed its own."""
    check_dut(testbed)
    side = EmbeddedSide(testbed)
    side.check()
    side.borrow(journal)
    ovs = OvsDatapath.start(testbed, journal, name="lab")
    try:
        with generator_of(testbed, journal) as generator:
            yield ovs, generator
    finally:
        ovs.close()
        side.close()


def problem(local: Sequence[str], peer: Sequence[str]) -> str:
    """What the check says of these interfaces, cabled in order; "" when all is well."""
    with clean_run() as journal:
        testbed = lab_testbed(local, peer)
        with lab_of(testbed, journal) as (ovs, generator):
            try:
                check_cabling(testbed, ovs, generator, link_deadline_s=2)
            except TestbedError as error:
                return error.message
    return ""


def set_up(*names: str) -> None:
    with IPRoute() as host:
        for name in names:
            host.link("set", index=host.link_lookup(ifname=name)[0], state="up")


def test_cables_are_found_where_they_are_and_where_they_are_not() -> None:
    with veth_cables(3) as cables:
        (local0, peer0), (local1, peer1), (somebody, elsewhere) = cables
        assert problem([local0, local1], [peer0, peer1]) == ""
        crossed = problem([local0, local1], [peer1, peer0])
        assert "port 0 of the generator is not connected to dpdk0 but to dpdk1" in crossed
        assert "port 1 of the generator is not connected to dpdk1 but to dpdk0" in crossed
        assert "links: [[generator.0, dut.dpdk1], [generator.1, dut.dpdk0]]" in crossed
        unplugged = problem([local0, local1], [peer0, elsewhere])
        assert "a cable of the testbed file has no link (generator.0 - dpdk0, generator.1 - dpdk1)" in unplugged
        assert "no link on dpdk1" in unplugged  # of the generator's end or the DUT's: whoever sees it first
        set_up(peer1, somebody)
        assert problem([local0, local1], [peer0, elsewhere]) == (
            "the cabling differs from the testbed file: port 1 of the generator is not connected to dpdk1, nor to "
            "another port of the DUT: its frames arrived nowhere; change the cables, or write in the testbed file: "
            "links: [[generator.0, dut.dpdk0]]"
        )


def test_a_mac_filter_is_named_where_only_broadcast_arrives() -> None:
    """A macvlan lets in what is sent to its own address and to all, as a VF does, also in promiscuous mode."""
    with veth_cables(2) as cables, IPRoute() as host:
        (lower, peer0), (local1, peer1) = cables
        set_up(lower)
        host.link(
            "add", ifname="nfvtest8", kind="macvlan", link=host.link_lookup(ifname=lower)[0], macvlan_mode="bridge"
        )
        try:
            told = problem(["nfvtest8", local1], [peer0, peer1])
        finally:
            remove_link("nfvtest8")
    assert told.startswith(
        "a MAC filter of the DUT's port drops what is sent to other addresses than its own (generator.0 - dpdk0): "
        "frames to the broadcast address arrive, and those to another station's do not."
    )
    assert "ip link set PF vf NUMBER trust on" in told


def test_ports_that_share_a_wire_are_not_called_crossed() -> None:
    """Two functions of one NIC: its switch hands both what comes by the wire, and each what the other one sends."""
    with veth_cables(4) as cables, IPRoute() as host:
        (local0, inner0), (local1, inner1), (outer0, peer0), (outer1, peer1) = cables
        host.link("add", ifname="nfvtest9", kind="bridge", br_ageing_time=0)  # it learns nothing: a hub
        try:
            hub = host.link_lookup(ifname="nfvtest9")[0]
            for name in (inner0, inner1, outer0, outer1):
                host.link("set", index=host.link_lookup(ifname=name)[0], master=hub, state="up")
            host.link("set", index=hub, state="up")
            assert problem([local0, local1], [peer0, peer1]) == ""
            assert problem([local1, local0], [peer0, peer1]) == "", "whichever port a frame reaches last"
        finally:
            remove_link("nfvtest9")


def test_the_bridge_of_the_check_forwards_nothing() -> None:
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        with lab_of(lab_testbed(local, peer), journal) as (ovs, generator):
            built = ovs.build(phy2phy())
            ports = generator_ports(built.topology, built)
            generator.attach(ports)
            built.wait_ready(5)
            there, back = built.topology.directions
            spec = TrialSpec(Traffic(), 1000, 0.2, (there, back))
            assert all(counts.received == counts.sent > 0 for counts in generator.run_trial(spec).counts)
            macs = [port.mac for port in built.topology.ports]
            built.note_sources(macs)
            assert all(counts.received == 0 < counts.sent for counts in generator.run_trial(spec).counts)
            assert built.sources() == {macs[0]: ("p0",), macs[1]: ("p1",)}
            generator.detach([port.name for port in ports])


def test_both_faults_at_once() -> None:
    """One wrong, one nowhere: pure comparison, the frames are tried above."""
    ends = [
        CabledEnd(f"dpdk{n}", (DutPort(f"dpdk{n}", "pci"),), generator_port=str(n), device="0000:3b:00.0")
        for n in range(2)
    ]
    with pytest.raises(TestbedError) as caught:
        refuse_wrong_cables(ends, {"dpdk0": ["dpdk1"], "dpdk1": []})
    assert "port 0 of the generator is not connected to dpdk0 but to dpdk1; port 1 of the" in caught.value.message
    assert "port 1 of the generator is not connected to dpdk1, nor to another" in caught.value.message
    with pytest.raises(TestbedError, match="arrived nowhere; look at the cables"):
        refuse_wrong_cables(ends, {"dpdk0": [], "dpdk1": []})


def test_interfaces_come_back_as_they_were() -> None:
    with veth_cables(2) as cables, IPRoute() as host:
        names = [name for pair in cables for name in pair]
        host.link("set", index=host.link_lookup(ifname=names[0])[0], mtu=1400, state="up")
        before = {name: read_interface_use(name) for name in names}
        local, peer = zip(*cables, strict=True)
        testbed = lab_testbed(local, peer)
        with clean_run() as journal, lab_of(testbed, journal) as (ovs, generator):
            built = ovs.build(phy2phy())
            generator.attach(generator_ports(built.topology, built))
            assert not host.link_lookup(ifname=names[0]), "it is in OVS's namespace"
            assert ovs.info().detail.endswith("ports are the lab's interfaces")
            built.wait_ready(5)
            generator.learn(Traffic(), built.topology.directions)
            result = generator.run_trial(
                TrialSpec(Traffic(), load_fps=1000, duration_s=0.2, directions=built.topology.directions)
            )
            assert all(counts.received == counts.sent > 0 for counts in result.counts)
            generator.detach(["p0", "p1"])
        assert {name: read_interface_use(name) for name in names} == before


def test_a_link_that_comes_back_within_a_trial_makes_it_invalid() -> None:
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        testbed = lab_testbed(local, peer)
        with lab_of(testbed, journal) as (ovs, generator):
            built = ovs.build(phy2phy())
            generator.attach(generator_ports(built.topology, built))
            generator.wait_links_up(5)
            built.wait_ready(5)
            flap = threading.Thread(target=lambda: flapped(built, peer[1]))
            clock = SystemClock()
            runner = TrialRunner(
                generator,
                ovs.collectors(),
                check_alive=ovs.check_alive,
                context=Context(Recorder("flap", [], clock), Progress(), clock),
            )
            spec = TrialSpec(Traffic(), load_fps=1000, duration_s=2.0, directions=built.topology.directions)
            trial = runner.run_once(spec, begins=flap.start)
            flap.join()
            calm = runner.run_once(replace(spec, duration_s=0.3))
            generator.detach(["p0", "p1"])
    told = [reason.detail for reason in trial.result.invalid if reason.code is Reason.LINK_DOWN]
    (ours,) = [text for text in told if text.startswith("the DUT's")]
    after_s, lasted_s = map(float, re.findall(r"(\d+\.\d) s", ours))
    assert re.fullmatch(r"the DUT's port p1 \(\w+\) lost its link [\d.]+ s after the trial began, for [\d.]+ s", ours)
    assert 0.1 <= after_s < 2.0
    assert 0.3 <= lasted_s < 2.0, "0.5 s, as often as the watch looks"
    assert f"the generator's port p1 ({peer[1]}) lost its link 1x meanwhile" in told
    assert trial.result.lost > 0
    assert [reason for reason in calm.result.invalid if reason.code is Reason.LINK_DOWN] == []


@needs_hugepages
def test_a_policer_on_a_port_with_a_driver_of_dpdks() -> None:
    """Its rx_packets are the driver's, which come before the policer."""
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        with lab_of(lab_testbed(local, peer, datapath="dpdk"), journal) as (ovs, generator):
            built = ovs.build(phy2phy())
            generator.attach(generator_ports(built.topology, built))
            generator.wait_links_up(5)
            built.wait_ready(5)
            there, _ = built.topology.directions
            generator.learn(Traffic(), built.topology.directions)
            (p0,) = [interface for interface, name in built.interface_names().items() if name == "p0"]
            policer = ["ingress_policing_rate=800", "ingress_policing_burst=80"]  # kbit/s, kbit
            vsctl(ovs.instance.directory, "set", "Interface", p0, *policer)
            clock = SystemClock()
            runner = TrialRunner(
                generator,
                ovs.collectors(),
                make_ledger=lambda result, before, after: trial_ledger(built.topology, result, before, after),
                check_alive=ovs.check_alive,
                context=Context(Recorder("policer", [], clock), Progress(), clock),
            )
            ledger = runner.run_once(TrialSpec(Traffic(bidirectional=False), 5000, 0.5, (there,))).ledger
            generator.detach(["p0", "p1"])
    assert ledger is not None
    (policed,) = [line for line in ledger.lines if line.reason == "ovs_rx_qos_drops"]
    assert policed.hop == "p0 rx"
    assert policed.frames == ledger.lost > 0, ledger_text(ledger)
    assert [hop.unexplained for hop in ledger.paths[0].hops] == [0] * len(ledger.paths[0].hops), ledger_text(ledger)


def flapped(built: BuiltOvsTopology, peer: str) -> None:
    """Take an end of a cable down 0.3 s from now, and up 0.5 s after OVS has said so."""
    time.sleep(0.3)
    number = built.ofports()["p1"]

    def has_link() -> bool:
        with connected(built.management_socket("br0")) as bridge:
            return links_up(bridge, [number])[number]

    assert has_link()
    with IPRoute() as host:
        index = host.link_lookup(ifname=peer)[0]
        host.link("set", index=index, state="down")
        wait_until(lambda: not has_link(), "OVS to see the lost link", 2)
        time.sleep(0.5)
        host.link("set", index=index, state="up")
    wait_until(has_link, "OVS to see the link again", 2)


@needs_hugepages
def test_queues_that_the_device_has_not_are_named_with_both_figures() -> None:
    """OVS takes the smaller number without an error."""
    with veth_cables(1) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        asked = lab_testbed(local, peer, datapath="dpdk", tuning=Tuning(rxq=4))
        given = lab_testbed(local, peer, datapath="dpdk")
        given = replace(given, ports=(replace(given.ports[0], rxq=2),))
        one_port = compose("one", endpoint("p0", "br0"))
        set_up(*peer)
        with lab_ovs(asked, journal) as ovs, pytest.raises(TestbedError) as caught:
            ovs.build(one_port).wait_ready(5)
        assert caught.value.message == (
            "port 'dpdk0': 4 receive queues were asked for, and OVS has 1: the driver is net_af_packet, which has 1 at "
            "most. Write 'rxq: 1', or take another device"
        )
        assert "dpdk0" in caught.value.evidence["ovs-appctl dpif/show"]
        with lab_ovs(given, journal) as ovs:
            ovs.build(one_port).wait_ready(5)


@contextmanager
def lab_ovs(testbed: Testbed, journal: Journal) -> Iterator[OvsDatapath]:
    ovs = OvsDatapath.start(testbed, journal, name="lab")
    try:
        yield ovs
    finally:
        ovs.close()


def test_an_interface_that_somebody_needs_is_refused() -> None:
    with veth_cables(1) as cables, IPRoute() as host, clean_run() as journal:
        local, _ = cables[0]
        host.addr("add", index=host.link_lookup(ifname=local)[0], address="198.51.100.7", prefixlen=24)
        with pytest.raises(ConfigError) as caught:
            BorrowedInterfaces(journal).take(local, "port 'dpdk0'", key="dut.ports")
        assert f"dut.ports: port 'dpdk0': interface {local!r} is in use: it has the address 198.51.100.7" in str(
            caught.value
        )
        assert "a measurement would cut it off" in str(caught.value)


def test_an_interface_of_the_default_route_or_below_an_address_is_refused() -> None:
    with veth_cables(2) as cables, IPRoute() as host, clean_run():
        (routed, _), (lower, _) = cables
        index = host.link_lookup(ifname=routed)[0]
        host.link("set", index=index, state="up")
        host.route(
            "add", family=socket.AF_INET, dst_len=0, oif=index, scope="link", table=4711
        )  # a table that no packet of the machine's asks
        with pytest.raises(ConfigError) as caught:
            check_free(routed, "port 'dpdk0'", "dut.ports")
        assert f"interface {routed!r} is in use: the default route leads by it; a measurement" in str(caught.value)
        parent = host.link_lookup(ifname=lower)[0]
        host.link("add", ifname="nfvtest7", kind="macvlan", link=parent)
        check_free(lower, "port 'dpdk1'", "dut.ports")
        host.addr("add", index=host.link_lookup(ifname="nfvtest7")[0], address="198.51.100.7", prefixlen=24)
        with pytest.raises(ConfigError) as caught:
            check_free(lower, "port 'dpdk1'", "dut.ports")
        assert f"{lower!r} is in use: nfvtest7 on it has the address 198.51.100.7; a" in str(caught.value)


def bonded(testbed: Testbed) -> Testbed:
    """The testbed with dpdk1 and dpdk2 as one bond, cabled to generator port 1 by dpdk1."""
    return dataclasses.replace(
        testbed,
        bonds=(DutBond("bond0", ("dpdk1", "dpdk2")),),
        links=(CableSpec("0", "dpdk0"), CableSpec("1", "bond0")),
    )


def test_a_bond_carries_frames_and_a_flow_would_pass_it_by() -> None:
    with veth_cables(3) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        testbed = bonded(lab_testbed(local, peer[:2]))
        with lab_of(testbed, journal) as (ovs, generator):
            check_cabling(testbed, ovs, generator)
            built = ovs.build(phy2phy())
            generator.attach(generator_ports(built.topology, built))
            built.wait_ready(5)
            generator.learn(Traffic(), built.topology.directions)
            assert "bond_mode: active-backup" in ovs.instance.ctl.call("bond/show", "bond0")
            assert set(built.port_names("br0").values()) == {"p0", "p1"}
            assert len(built.port_names("br0")) == 3
            generator.detach(["p0", "p1"])
            built.close()
            with pytest.raises(ConfigError, match="flows bypass bond 'bond0': use single ports for it"):
                ovs.build(pvp())


def test_a_cables_link_is_taken_down_and_up_again() -> None:
    """No frame arrives while it is down; those sent after it is up again do."""
    with veth_cables(2) as cables, clean_run() as journal:
        local, peer = zip(*cables, strict=True)
        with lab_of(lab_testbed(local, peer), journal) as (ovs, generator):
            built = ovs.build(phy2phy())
            generator.attach(generator_ports(built.topology, built))
            built.wait_ready(5)
            there, _ = directions = built.topology.directions

            def received() -> list[bool]:
                generator.learn(Traffic(), directions)
                result = generator.run_trial(TrialSpec(Traffic(), 1000, 0.2, (there,)))
                return [counts.received > 0 for counts in result.counts]

            assert received() == [True]
            built.set_link(there.rx, up=False)
            assert received() == [False]
            built.set_link(there.rx, up=True)
            built.wait_ready(5)
            assert received() == [True]
            generator.detach(["p0", "p1"])


def test_the_link_of_a_port_inside_ovs_is_not_taken_down() -> None:
    with clean_run() as journal:
        ovs = OvsDatapath.start(lab_testbed([], []), journal, name="lab")
        try:
            built = ovs.build(patched())
            with pytest.raises(UnavailableError, match="link of port 'patcha' cannot be taken down: it is no NIC and"):
                built.set_link("patcha", up=False)
        finally:
            ovs.close()
