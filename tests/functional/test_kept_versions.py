"""Every version that ``nfvperf ovs add`` keeps here, with packets: ledger, collectors and samplers hold on each."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from pytest_nfvperf.adapters.ovs.counters import DATAPATH_REASONS
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.testbed.ovs_settings import CachedVersion, NamedOvs
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, path, vnf
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import OWN_RING
from tests.functional.generator_support import embedded_in, forwards_whole, run_dir, spec
from tests.functional.loss_rig import LossRig, loss_rig, losses
from tests.functional.ovs_support import needs_hugepages, needs_root, phy2phy, testbed

KEPT = [version for version in Registry().all() if version.datapath == "ovs"]
_NONE = pytest.param(
    None, marks=pytest.mark.skip("no version is kept here: `nfvperf ovs add debian:bullseye` (or another) adds one")
)


def _name(version: CachedVersion | None) -> str:
    return "none" if version is None else version.name


pytestmark = [
    needs_root,
    needs_hugepages,
    pytest.mark.parametrize("version", KEPT or [_NONE], ids=_name, scope="module"),
]

CALM_FPS = 50_000
ONE_WAY = Traffic(bidirectional=False)


@pytest.fixture(scope="module")
def ovs(journal: Journal, version: CachedVersion) -> Iterator[OvsDatapath]:
    bed = testbed("dpdk")
    named = NamedOvs("kept", version.name, version.place, version.origin, version.checksum, version.build)
    bed = dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, versions=(named,)))
    running = OvsDatapath.start(bed, journal, Dut("dpdk", version="kept"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def rig(journal: Journal, ovs: OvsDatapath) -> Iterator[LossRig]:
    with loss_rig(journal, ovs) as made:
        yield made


def test_it_says_what_it_is(ovs: OvsDatapath, version: CachedVersion) -> None:
    info = ovs.info()
    assert (info.version, info.dpdk_version, info.origin) == (version.version, version.dpdk_version, version.origin)
    assert info.installation.startswith(version.place)
    assert dict(info.build)["checksum"] == version.checksum
    assert "dpdkvhostuserclient" in dict(info.build)["port types"]
    assert ovs.instance.ctl.call("version").splitlines()[0].endswith(version.version)


def test_the_engine_drives_its_rings_and_lets_it_in_again(ovs: OvsDatapath) -> None:
    """Killed under traffic, and restarted: all it forwards then comes through whole, as before."""
    topology = phy2phy()
    with closing(ovs.build(topology)) as built, run_dir() as directory, embedded_in(directory) as generator:
        generator.attach(generator_ports(topology, built))
        assert generator.sending() == {"p0": OWN_RING, "p1": OWN_RING}
        for _ in range(2):
            forwards_whole(generator, topology)
            kill = threading.Timer(0.1, os.kill, (ovs.instance.pid, signal.SIGKILL))
            kill.start()
            died = generator.run_trial(spec(topology.directions, duration_s=0.5))
            kill.join()
            assert Reason.LINK_DOWN in {reason.code for reason in died.invalid}
            ovs.restart(killed=True)
        forwards_whole(generator, topology)


def test_without_loss_every_hop_has_the_same_count(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        ledger = live.ledger(CALM_FPS)
    assert (ledger.lost, ledger.lines, ledger.unexplained) == (0, (), 0)
    assert {hop.left for hop in ledger.paths[0].hops} == {ledger.offered}
    assert len(ledger.paths[0].hops) == 5


def test_a_drop_flow_and_a_meter_are_named(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        live.add_flow(f"priority=200,ip,in_port={live.number('p0')},nw_src=0.0.0.1/0.0.0.1,actions=drop")
        dropped = live.ledger(CALM_FPS, traffic=dataclasses.replace(ONE_WAY, flows=2))
        live.ofctl("add-meter", "meter=7,pktps,bands=type=drop,rate=1000")
        live.add_flow(f"priority=300,in_port={live.number('p0')},actions=meter:7,output:{live.number('p1')}")
        metered = live.ledger(CALM_FPS)
    assert 0 < dropped.lost < dropped.offered
    assert losses(dropped) == {("br0", "drop_action_of_pipeline"): dropped.lost}
    assert set(losses(metered)) == {("br0", "datapath_drop_meter")}
    assert (dropped.unexplained, metered.unexplained) == (0, 0)


def test_an_mtu_that_is_too_small_is_named(rig: LossRig) -> None:
    narrow = phy2phy()
    narrow = dataclasses.replace(narrow, ports=(narrow.ports[0], dataclasses.replace(narrow.ports[1], mtu=1000)))
    with rig.deployment(narrow) as live:
        ledger = live.ledger(CALM_FPS, traffic=dataclasses.replace(ONE_WAY, frame_size=1400))
    assert losses(ledger) == {("p1 tx", "ovs_tx_mtu_exceeded_drops"): ledger.offered}
    assert ledger.unexplained == 0


def test_a_ring_that_nobody_reads_is_named(rig: LossRig) -> None:
    chain = compose("dead", endpoint("p0", "br0"), endpoint("p1", "br0"), vnf("v1", "br0"), path("p0", "v1", "p1"))
    with rig.deployment(chain, unread=("v1a", "v1b")) as live:
        ledger = live.ledger(CALM_FPS)
    assert ledger.lost == ledger.offered
    assert ledger.lost - 1_024 <= losses(ledger)["v1a tx", "ovs_tx_failure_drops"] < ledger.lost


def test_overload_is_accounted_for(rig: LossRig) -> None:
    with rig.deployment(phy2phy()) as live:
        ledger = live.ledger(60_000_000)
    assert losses(ledger)["p0 generator", "refused"] > 0
    assert abs(ledger.unexplained) <= 0.001 * ledger.lost


def test_collectors_and_samplers_read_what_this_version_has(rig: LossRig, version: CachedVersion) -> None:
    with rig.deployment(phy2phy()) as live:
        live.trial(CALM_FPS)
        counters = {name for each in rig.ovs.collectors() for name in each.snapshot().as_dict()}
        readings = [sampler.read() for sampler in rig.ovs.samplers()]
    now = tuple(map(int, version.version.split(".")[:2]))
    later = {each.name for each in DATAPATH_REASONS if now < tuple(map(int, each.since.split(".")))}
    assert any(name.endswith("packets_received") for name in counters), sorted(counters)
    assert not {name for name in counters if name.rpartition(".")[2] in later}
    assert all(reading.counters or reading.gauges for reading in readings)
