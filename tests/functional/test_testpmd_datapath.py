"""testpmd as the DUT: its modes, its counters, a lab's ports, and what is left when it or the run dies."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import read_interface_use
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.testpmd.datapath import BuiltTestpmd, TestpmdDatapath
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.measure.cable_check import check_cabling
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.measure.trials import Context, Recorder, Trial, TrialRunner
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.measure.ledger import HopKind
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.compose import phy2phy, pvp
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.plugin.datapath_contract import DatapathContract
from pytest_nfvperf.ports.generator import Generator
from pytest_nfvperf.ports.machine import Progress
from tests.functional.generator_support import embedded_in
from tests.functional.lab_support import generator_of, lab_testbed, veth_cables
from tests.functional.ovs_support import clean_run, leftovers, needs_hugepages, needs_root, run_base, until

pytestmark = [
    needs_root,
    needs_hugepages,
    pytest.mark.skipif(shutil.which("dpdk-testpmd") is None, reason="needs dpdk-testpmd (apt install dpdk-dev)"),
]
TCP_TO_WEB = Traffic(packet=Ether() / IP() / TCP(dport=80), frame_size=128)
IPV6 = Traffic(frame_size=128, src_ip="2001:db8::1", dst_ip="2001:db8:1::1")
FRAMES = 2000


@pytest.fixture
def journal() -> Iterator[Journal]:
    with clean_run() as journal:
        yield journal


@contextmanager
def datapath_of(journal: Journal, forwarding: str = "io", testbed: Testbed | None = None) -> Iterator[TestpmdDatapath]:
    made = TestpmdDatapath(testbed or discover_testbed(), journal, Dut("testpmd", forwarding=forwarding))
    try:
        yield made
    finally:
        made.close()


class TestContract(DatapathContract):
    """What every datapath keeps to."""

    topology = phy2phy()
    needs_far_ends = True

    @pytest.fixture
    def datapath(self, journal: Journal) -> Iterator[TestpmdDatapath]:
        with datapath_of(journal) as made:
            yield made


@contextmanager
def attached(datapath: TestpmdDatapath, generator: Generator, topology: Topology) -> Iterator[BuiltTestpmd]:
    built = datapath.build(topology)
    ports = generator_ports(topology, built)
    try:
        generator.attach(ports)
        generator.wait_links_up(5)
        built.wait_ready(5)
        yield built
    finally:
        generator.detach([port.name for port in ports])
        built.close()


def trial_of(datapath: TestpmdDatapath, generator: Generator, built: BuiltTestpmd, traffic: Traffic, fps: int) -> Trial:
    """One trial in both directions, valid or not."""
    clock = SystemClock()
    collectors = datapath.collectors()
    reasons = {one.source: one.drop_reasons for one in collectors if one.drop_reasons is not None}
    runner = TrialRunner(
        generator,
        collectors,
        make_ledger=lambda result, before, after: trial_ledger(built.topology, result, before, after, reasons),
        check_alive=datapath.check_alive,
        context=Context(Recorder("testpmd", [], clock), Progress(), clock),
        come_back=built.come_back,
    )
    if built.come_back != "never":
        generator.learn(traffic, built.topology.directions)
    return runner.run_once(TrialSpec(traffic, fps, FRAMES / fps, built.topology.directions))


@pytest.mark.parametrize(
    "traffic", [Traffic(flows=10), TCP_TO_WEB, IPV6, Traffic(vlan=7)], ids=["v4", "tcp", "v6", "vlan"]
)
@pytest.mark.parametrize("forwarding", ["io", "mac", "macswap", "5tswap"])
def test_frames_come_back_as_the_mode_returns_them(journal: Journal, forwarding: str, traffic: Traffic) -> None:
    with (
        datapath_of(journal, forwarding) as datapath,
        embedded_in(journal.directory) as generator,
        attached(datapath, generator, phy2phy()) as built,
    ):
        trial = trial_of(datapath, generator, built, traffic, 10_000)
    result, ledger = trial.result, trial.ledger
    assert result.received == result.offered > 0
    assert [(each.corrupted, each.duplicated, each.misdirected) for each in result.counts] == [(0, 0, 0)] * 2
    assert ledger is not None
    assert [(path.lost, path.unexplained) for path in ledger.paths] == [(0, 0)] * 2
    assert trial.cost.pmd_busy_ratio is not None


def test_frames_that_it_keeps_are_counted_by_its_ports(journal: Journal) -> None:
    with (
        datapath_of(journal, "rxonly") as datapath,
        embedded_in(journal.directory) as generator,
        attached(datapath, generator, phy2phy()) as built,
    ):
        trial = trial_of(datapath, generator, built, Traffic(), 10_000)
    assert trial.result.received == trial.result.offered > 0
    assert trial.result.latency is None
    assert trial.ledger is not None
    assert [path.hops[-1].kind for path in trial.ledger.paths] == [HopKind.PORT] * 2
    assert trial.ledger.unaccounted == 0


def test_it_joins_the_ports_of_a_vnf_in_pairs(journal: Journal) -> None:
    with (
        datapath_of(journal) as datapath,
        embedded_in(journal.directory) as generator,
        attached(datapath, generator, pvp()) as built,
    ):
        trial = trial_of(datapath, generator, built, Traffic(), 10_000)
    assert trial.result.received == trial.result.offered > 0
    assert trial.ledger is not None
    assert trial.ledger.unaccounted == 0


def test_frames_that_find_no_room_at_the_far_end_are_named(journal: Journal) -> None:
    """The VNF's ports are taken by an engine that never polls them."""
    with (
        datapath_of(journal) as datapath,
        embedded_in(journal.directory) as generator,
        embedded_in(journal.directory, "idle") as idle,
        closing(datapath.build(pvp())) as built,
    ):
        ends = generator_ports(built.topology, built)
        generator.attach([port for port in ends if port.role is PortRole.ENDPOINT])
        idle.attach([port for port in ends if port.role is not PortRole.ENDPOINT])
        built.wait_ready(5)
        ledger = trial_of(datapath, generator, built, Traffic(), 10_000).ledger
        for engine, names in ((generator, ("p0", "p1")), (idle, ("v1a", "v1b"))):
            engine.detach(names)
    assert ledger is not None
    assert {(line.hop, line.reason) for line in ledger.lines} == {("v1a tx", "tx_full"), ("v1b tx", "tx_full")}
    assert sum(line.frames for line in ledger.lines) > 0


def test_its_death_is_an_error_with_its_log(journal: Journal) -> None:
    with datapath_of(journal) as datapath:
        built = datapath.build(phy2phy())
        datapath.check_alive()
        built.process.popen.kill()
        built.process.popen.wait(5)
        with pytest.raises(TestbedError, match=r"dpdk-testpmd of the DUT \(pid \d+\) was killed by SIGKILL") as death:
            datapath.check_alive()
        assert list(death.value.evidence) == [built.process.log.name]


def test_a_frozen_one_takes_no_cpu_and_goes_on(journal: Journal) -> None:
    with datapath_of(journal) as datapath:
        built = datapath.build(phy2phy())
        assert datapath.freeze()
        assert built.process.state()[:1] == "T"
        datapath.thaw()
        assert datapath.collectors()[0].snapshot().counters


def test_a_labs_cables_are_checked_and_its_interfaces_come_back(journal: Journal) -> None:
    with veth_cables(3) as cables:
        names = [name for cable in cables for name in cable]
        before = [read_interface_use(name) for name in names]
        local, peer = zip(*cables, strict=True)
        for ends, problem in ((peer, None), ((peer[1], peer[0], peer[2]), "not connected to dpdk0 but to dpdk1")):
            testbed = lab_testbed(local, ends, datapath="testpmd")
            side = EmbeddedSide(testbed)
            side.borrow(journal)
            with datapath_of(journal, testbed=testbed) as datapath, generator_of(testbed, journal) as generator:
                if problem is not None:
                    with pytest.raises(TestbedError, match=problem):
                        check_cabling(testbed, datapath, generator)
                else:
                    check_cabling(testbed, datapath, generator)
                    with attached(datapath, generator, phy2phy()) as built:
                        trial = trial_of(datapath, generator, built, Traffic(), 2_000)
                    assert trial.result.received == trial.result.offered > 0
            side.close()
        assert [read_interface_use(name) for name in names] == before


CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.testpmd.datapath import TestpmdDatapath
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.functional.lab_support import lab_testbed
journal = open_journal(Path(sys.argv[1]))
print(journal.tag, flush=True)
names = sys.argv[2:]
built = TestpmdDatapath(lab_testbed(names[:2], names[2:], datapath="testpmd"), journal).build(phy2phy())
print("built", flush=True)
sys.stdin.read()
"""


def test_a_killed_run_leaves_no_process_and_the_labs_interfaces_as_they_were() -> None:
    with veth_cables(2) as cables, run_base() as base:
        names = [local for local, _ in cables] + [peer for _, peer in cables]
        before = [read_interface_use(name) for name in names]
        command = [sys.executable, "-c", CHILD, str(base), *names]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as child:  # type: ignore[call-overload]
            tag = child.stdout.readline().strip()
            assert child.stdout.readline().strip() == "built"
            child.send_signal(signal.SIGKILL)
        assert until(lambda: not [each for each in leftovers(tag) if each.startswith("process")])
        assert reap(base).failed == ()
        assert [read_interface_use(name) for name in names] == before
        assert leftovers(tag) == []


def test_a_link_that_the_driver_cannot_switch_is_said_to_be_so(journal: Journal) -> None:
    with datapath_of(journal) as datapath:
        built = datapath.build(phy2phy())
        with pytest.raises(UnavailableError, match="the driver of port 'p1' cannot switch its link"):
            built.set_link("p1", up=False)
