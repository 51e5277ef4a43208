"""testpmd as a datapath: what it can build, of what a lab has, and what its console prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.frames import trial_request
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.testpmd.console import (
    forwarding_options,
    parse_core_cycles,
    parse_forward_stats,
    port_summary,
    received_sources,
)
from pytest_nfvperf.adapters.testpmd.datapath import (
    TestpmdCounters,
    cabled_port,
    joined_ports,
    lacks_testpmd,
    vhost_port,
)
from pytest_nfvperf.measure.trials import _received_by_dut
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterDelta, CounterSnapshot
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import Dut, DutBond, DutPort
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose, phy2phy, pvvp
from pytest_nfvperf.model.topology.links import Crossing
from pytest_nfvperf.model.topology.parts import bond, endpoint, mirror, monitor
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.sample_trials import counts_of

PRINTED = """
  ------- Forward Stats for RX Port= 0/Queue= 0 -> TX Port= 1/Queue= 0 -------
  RX-packets: 42595296       TX-packets: 42595296       TX-dropped: 0

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 85190592       RX-dropped: 0             RX-total: 85190592
  TX-packets: 85190592       TX-dropped: 4             TX-total: 85190596
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 170381184      RX-dropped: 0             RX-total: 170381184
  TX-packets: 170381184      TX-dropped: 0             TX-total: 170381184
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=26.38 (total cycles=4494447654 / total mac packets=170381184) at 2600 MHz Clock
"""
"""DPDK 22.11.11, two queues a port, --record-core-cycles; the second port left out."""

SUMMARY = """Number of available ports: 2
Port MAC Address       Name         Driver         Status   Link
0    56:48:4F:53:54:00 net_vhost0   net_vhost      down     10 Gbps
1    56:48:4F:53:54:01 0000:00:05.0 net_virtio     up       Unknown
"""
VERBOSE = """testpmd> port 1/queue 0: received 2 packets
  src=02:4E:46:00:00:01 - dst=02:4E:46:00:00:02 - pool=mb_pool_0 - type=0x0800 - length=60 - nb_segs=1
  src=02:4E:46:00:00:0A - dst=FF:FF:FF:FF:FF:FF - pool=mb_pool_0 - type=0x0800 - length=60 - nb_segs=1
"""
NIC = DutPort("dpdk0", "pci", pci="0000:3b:00.0", rx_descriptors=512)
BOTH = (Direction("p0", "p1"), Direction("p1", "p0"))
ENDS = [endpoint("p0", "br0"), endpoint("p1", "br0")]
THREE = compose("three", *ENDS, endpoint("p2", "br0"), BOTH[0])


def test_what_the_console_prints() -> None:
    assert parse_forward_stats(PRINTED, "22.11")[0].tx_dropped == 4
    assert parse_core_cycles(PRINTED) == (4494447654, 170381184, 2600)
    assert parse_core_cycles("") is None
    assert port_summary(SUMMARY) == [(0, "net_vhost0", False), (1, "0000:00:05.0", True)]
    assert list(received_sources(VERBOSE)) == [(1, "02:4e:46:00:00:01"), (1, "02:4e:46:00:00:0a")]


def test_buffers_fill_all_rings_and_frames_may_be_long() -> None:
    options = forwarding_options("io", 2, 4, 9000, rings=(4096, None))
    assert "--total-num-mbufs=73728" in options
    assert "--max-pkt-len=9018" in options
    assert "--rxd=4096" in options
    assert "--total-num-mbufs=16384" in forwarding_options("io", 2, 1, 1500)


@pytest.mark.parametrize(
    ("topology", "pairs"),
    [
        (phy2phy(), [("p0", "p1")]),
        (pvvp(), [("p0", "v1a"), ("p1", "v2b"), ("v1b", "v2a")]),
        (compose("learning", *ENDS), [("p0", "p1")]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_ports_are_joined_in_pairs(topology: Topology, pairs: list[tuple[str, str]]) -> None:
    assert joined_ports(topology) == pairs


@pytest.mark.parametrize(
    ("topology", "part"),
    [
        (THREE, "p2"),
        (
            replace(
                THREE, crossings=(Crossing("br0", "p0", "p1"), Crossing("br0", "p1", "p2"), Crossing("br0", "p2", "p0"))
            ),
            "p0",
        ),
        (compose("monitored", *ENDS, monitor("m0", "br0"), mirror("m1", "br0", output="m0")), "Mirror"),
        (compose("vlan", endpoint("p0", "br0", vlan=Vlan(7)), ENDS[1]), "'p0' has VLANs"),
        (compose("tap", endpoint("p0", "br0", kind="tap"), ENDS[1]), "'p0' is tap"),
        (compose("bonded", bond("p0", "br0", ("m0", "m1")), ENDS[1]), "'p0' is a bond"),
        (compose("own", *ENDS, rules("br0", flows=["priority=1,actions=drop"])), "BridgeRules"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_it_cannot_build_is_named(topology: Topology, part: str) -> None:
    with pytest.raises(ConfigError, match=f"topology '{topology.name}' cannot be built of testpmd.*{part}"):
        joined_ports(topology)


def test_a_labs_ports() -> None:
    port = replace(phy2phy().ports[0], queues=2)
    nic = cabled_port(port, CabledEnd("dpdk0", (NIC,)))
    assert (nic.device, nic.devargs, nic.rings) == ("0000:3b:00.0", None, (512, None))
    read = cabled_port(port, CabledEnd("dpdk0", (DutPort("dpdk0", "interface", interface="ens1"),), device="x"))
    assert (read.device, read.devargs, read.far_end) == ("net_af_packet_dpdk0", "iface=ens1,qpairs=2", "x")
    vhost = vhost_port(port, 3, Path("/run/x"), 4)
    assert (vhost.device, vhost.devargs) == ("net_vhost3", "iface=/run/x/p0.sock,client=1,queues=4")


@pytest.mark.parametrize(
    ("end", "what"),
    [
        (CabledEnd("b", (NIC, replace(NIC, name="dpdk1")), DutBond("b", ())), "bond"),
        (CabledEnd("r", (replace(NIC, representor="0"),)), "representor"),
        (CabledEnd("k", (DutPort("k", "interface", interface="e", driver="kernel"),)), "read by the kernel"),
    ],
)
def test_a_labs_port_that_only_a_switch_has(end: CabledEnd, what: str) -> None:
    with pytest.raises(ConfigError, match=f"port '{end.name}' is .*{what}") as refused:
        cabled_port(phy2phy().ports[0], end)
    assert refused.value.key == "dut.ports"


def test_an_unknown_mode_is_refused_where_it_is_written() -> None:
    with pytest.raises(ArgumentError, match=r"forwarding.*rxonly"):
        Dut("testpmd", forwarding="rx")


def test_settings_of_ovs_are_none_of_it() -> None:
    testbed = discover_testbed()
    assert "smc" in str(lacks_testpmd(testbed, Dut("testpmd", tuning=Tuning(smc=True))))
    assert "userspace TSO" in str(lacks_testpmd(testbed, Dut("testpmd", userspace_tso=True)))


def trial(come_back: str, *counted: tuple[int, int]) -> TrialResult:
    """A trial by (sent, received) of each direction."""
    counts = tuple(
        counts_of(direction, sent=sent, received=received)
        for direction, (sent, received) in zip(BOTH, counted, strict=False)
    )
    spec = TrialSpec(Traffic(), 1, 1.0, BOTH[: len(counts)], come_back=come_back)  # type: ignore[arg-type]
    return TrialResult(spec, counts, RigHealth())


def test_frames_that_the_dut_keeps_are_received_as_its_ports_count() -> None:
    received = _received_by_dut(
        trial("never", (100, 0), (50, 0)),
        [CounterDelta("p0.rx_packets", 90, False), CounterDelta("p1.rx_packets", 50, False)],
    )
    assert [count.received for count in received.counts] == [90, 50]
    assert [(count.corrupted, count.duplicated, count.latency) for count in received.counts] == [(None, None, None)] * 2


def test_frames_that_nobody_counts_are_no_loss() -> None:
    with pytest.raises(TestbedError, match="does not count those that port 'p0' received"):
        _received_by_dut(trial("never", (100, 0)), [CounterDelta("p0.tx_packets", 90, False)])


def test_the_ledger_ends_where_the_dut_keeps_frames() -> None:
    moved = {"p0.rx_packets": 90, "p0.rx_dropped": 10, "p0.rx_missed": 10, "p1.tx_packets": 0}
    before = CounterSnapshot("testpmd", 0, tuple((name, 0) for name in sorted(moved)))
    after = CounterSnapshot("testpmd", 0, tuple(sorted(moved.items())))
    reasons = {"testpmd": TestpmdCounters.drop_reasons}
    ledger = trial_ledger(phy2phy(), trial("never", (100, 90)), [before], [after], reasons)  # type: ignore[arg-type]
    assert [hop.name for hop in ledger.paths[0].hops] == ["p0 generator", "p0 rx"]
    (loss,) = ledger.paths[0].hops[-1].losses
    assert (loss.reason, loss.frames) == ("rx_missed", 10)
    assert "did not drain it" in loss.detail
    assert ledger.unaccounted == 0


def test_swapped_ends_of_a_frame_are_not_compared() -> None:
    ports = {name: GeneratorPort(name, "net_ring", f"02:00:00:00:00:0{n}") for n, name in enumerate(("p0", "p1"))}
    for traffic, ends in (
        (Traffic(), [[26, 8], [34, 4]]),
        (Traffic(vlan=7), [[30, 8], [38, 4]]),
        (Traffic(src_ip="2001:db8::1", dst_ip="2001:db8::2", frame_size=128), [[22, 32], [54, 4]]),
    ):
        spec = TrialSpec(traffic, 100, 1.0, BOTH)
        as_sent = trial_request(spec, ports)["streams"][0]["changeable"]
        swapped = trial_request(replace(spec, come_back="swapped"), ports)["streams"][0]["changeable"]
        assert sorted([*as_sent, *ends]) == swapped
