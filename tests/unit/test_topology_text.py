"""Topologies drawn in text: what a user sees of each sort, and nothing left out of any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from pytest_nfvperf.adapters.report.texts import topology_drawing
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.testbed import DutPort
from pytest_nfvperf.model.testbed.topology_text import WIDTH, port_kinds, topology_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, monitor, namespace, path, veth
from pytest_nfvperf.model.topology.ports import Offloads, PortKind, Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction
from tests.sample_run import TESTBED
from tests.topologies import EXAMPLES, topologies

DRAWN = {
    "phy2phy": """
phy2phy · p0 and p1 send to each other
  br0
  ├─ p0  port  generator
  └─ p1  port  generator
     p0 <-> p1""",
    "pvvp": """
pvvp · p0 and p1 send to each other
  br0
  ├─ p0   port  generator, MTU 9000
  ├─ p1   port  generator, MTU 9000
  ├─ v1a  port  VNF vnf1, io, MTU 9000
  ├─ v1b  port  VNF vnf1, io, MTU 9000
  ├─ v2a  port  VNF vnf2, io, MTU 9000
  └─ v2b  port  VNF vnf2, io, MTU 9000
     p0 <-> v1a, v1b <-> v2a, v2b <-> p1""",
    "one way": """
phy2phy · p0 sends to p1
  br0
  ├─ p0  port  generator
  └─ p1  port  generator
     p0 <-> p1""",
    "chain-9": """
chain-9-veth
  ovs-1 (learns MAC addresses)
  ├─ end0       veth  namespace end0, eth0 198.18.0.1/24
  └─ chain-1-2  veth  to ovs-2 chain-2-1
  ovs-2 (learns MAC addresses)
  ├─ chain-2-1  veth  to ovs-1 chain-1-2
  └─ chain-2-3  veth  to ovs-3 chain-3-2
  ovs-3 (learns MAC addresses)
  ├─ chain-3-2  veth  to ovs-2 chain-2-3
  └─ chain-3-4  veth  to ovs-4 chain-4-3
  ovs-4 (learns MAC addresses)
  ├─ chain-4-3  veth  to ovs-3 chain-3-4
  └─ chain-4-5  veth  to ovs-5 chain-5-4
  ovs-5 (learns MAC addresses)
  ├─ chain-5-4  veth  to ovs-4 chain-4-5
  └─ chain-5-6  veth  to ovs-6 chain-6-5
  ovs-6 (learns MAC addresses)
  ├─ chain-6-5  veth  to ovs-5 chain-5-6
  └─ chain-6-7  veth  to ovs-7 chain-7-6
  ovs-7 (learns MAC addresses)
  ├─ chain-7-6  veth  to ovs-6 chain-6-7
  └─ chain-7-8  veth  to ovs-8 chain-8-7
  ovs-8 (learns MAC addresses)
  ├─ chain-8-7  veth  to ovs-7 chain-7-8
  └─ chain-8-9  veth  to ovs-9 chain-9-8
  ovs-9 (learns MAC addresses)
  ├─ end1       veth  namespace end1, eth0 198.18.0.2/24
  └─ chain-9-8  veth  to ovs-8 chain-8-9""",
    "chain-64": """
chain-64-patch · p0 and p1 send to each other
  ovs-1
  ├─ p0         port   generator
  └─ patch-1-2  patch  to ovs-2 patch-2-1
     p0 <-> patch-1-2
  ovs-2
  ├─ patch-2-1  patch  to ovs-1 patch-1-2
  └─ patch-2-3  patch  to ovs-3 patch-3-2
     patch-2-1 <-> patch-2-3
  ovs-3
  ├─ patch-3-2  patch  to ovs-2 patch-2-3
  └─ patch-3-4  patch  to ovs-4 patch-4-3
     patch-3-2 <-> patch-3-4
  ovs-4
  ├─ patch-4-3  patch  to ovs-3 patch-3-4
  └─ patch-4-5  patch  to ovs-5 patch-5-4
     patch-4-3 <-> patch-4-5
  ovs-5
  ├─ patch-5-4  patch  to ovs-4 patch-4-5
  └─ patch-5-6  patch  to ovs-6 patch-6-5
     patch-5-4 <-> patch-5-6
  ovs-6
  ├─ patch-6-5  patch  to ovs-5 patch-5-6
  └─ patch-6-7  patch  to ovs-7 patch-7-6
     patch-6-5 <-> patch-6-7
  ovs-7
  ├─ patch-7-6  patch  to ovs-6 patch-6-7
  └─ patch-7-8  patch  to ovs-8 patch-8-7
     patch-7-6 <-> patch-7-8
  … 56 bridges …
  ovs-64
  ├─ p1           port   generator
  └─ patch-64-63  patch  to ovs-63 patch-63-64
     patch-64-63 <-> p1""",
    "routed": """
routed
  brA (learns MAC addresses)
  ├─ left-eth0  veth  namespace left, eth0 10.1.0.1/24, TSO off
  └─ r-eth0     veth  router r, eth0 10.1.0.254/24
  brB (learns MAC addresses)
  ├─ right-eth0  veth  namespace right, eth0 10.2.0.1/24, VLAN 7
  └─ r-eth1      veth  router r, eth1 10.2.0.254/24
  namespace left: default route by 10.1.0.254
  namespace right: default route by 10.2.0.254""",
    "node": """
node
  br-ex (learns MAC addresses)
  ├─ p0            port   generator
  └─ br-ex-br-int  patch  to br-int br-int-br-ex
  br-int (learns MAC addresses)
  ├─ pod1-eth0      veth   namespace pod1, eth0 198.18.0.1/24, MTU 1450
  ├─ pod2-eth0      veth   namespace pod2, eth0 198.18.0.2/24, MTU 1450
  ├─ pod3-eth0      veth   namespace pod3, eth0 198.18.0.3/24, MTU 1450
  ├─ br-int-br-ex   patch  to br-ex br-ex-br-int
  └─ br-int-vxlan5  vxlan  vxlan 5 from 10.0.0.1 to 10.0.0.2, MTU 1450""",
    "bgp": """
bgp-path · dpdk2 and vm0 send to each other
  br-ex (learns MAC addresses)
  ├─ dpdk2    port      generator, behind it namespace bird: eth0 12.12.12.2/30, VLAN 177
  ├─ vm0      port      generator, VLAN 101
  └─ vlan177  internal  namespace frr, vlan177 12.12.12.1/30, VLAN 177""",
    "mirror": """
mirror · p0 and p1 send to each other
  br0
  ├─ p0     port  generator
  ├─ p1     port  generator, MTU 9000, VLAN 5
  ├─ vnf1a  port  VNF vnf1, mac
  ├─ vnf1b  port  VNF vnf1, mac
  ├─ vnf2a  port  VNF vnf2, mac
  ├─ vnf2b  port  VNF vnf2, mac
  └─ m0     port  monitor
     p0 <-> vnf1a, vnf1b <-> vnf2a, vnf2b <-> p1
     mirror all -> m0: every frame""",
}


@pytest.mark.parametrize("name", DRAWN)
def test_each_sort(name):
    assert topology_text(EXAMPLES[name]) == DRAWN[name].strip("\n")


def test_very_many_ports_are_counted():
    lines = topology_text(EXAMPLES["fan"]).splitlines()
    assert len(lines) == 14
    assert lines[-2:] == ["  ├─ … 189 ports …", "  └─ ns199-eth0  veth  namespace ns199, eth0 198.18.0.200/24"]


def test_what_a_link_is_set_to_is_said():
    offloads = Offloads(tso=False, gso=True, gro=False, tx_checksum=True, rx_checksum=False)
    wire = veth("a", "b", mtu=9000, offloads=offloads, vlan=Vlan(3, (4, 5)))
    text = topology_text(compose("t", endpoint("p0", "a", queues=2), wire, endpoint("p1", "b"), path("p0", "p1")))
    said = " ".join(text.replace("│", "").split())
    assert "to b b-a, MTU 9000, VLAN 3, trunk 4, 5, TSO off, GSO on, GRO off, tx checksum on, rx checksum off" in said
    assert "p0 port generator, 2 queues" in said


def test_long_lines_are_folded_and_the_trunk_goes_on():
    offloads = Offloads(tso=False, gso=True, gro=False, tx_checksum=True, rx_checksum=False)
    spaces = [namespace(f"ns{n}", "br0", f"10.0.0.{n}/24", offloads=offloads, mtu=9000) for n in (1, 2, 3)]
    assert topology_text(compose("t", *spaces)).splitlines()[2:6] == [
        "  ├─ ns1-eth0  veth  namespace ns1, eth0 10.0.0.1/24, MTU 9000, TSO off, GSO on, GRO off, tx",
        "  │     checksum on, rx checksum off",
        "  ├─ ns2-eth0  veth  namespace ns2, eth0 10.0.0.2/24, MTU 9000, TSO off, GSO on, GRO off, tx",
        "  │     checksum on, rx checksum off",
    ]


def test_the_head_is_folded_where_very_many_send():
    ends = [endpoint(f"p{n}", "br0") for n in range(12)]
    lines = topology_text(compose("hub", *ends, *(Direction(f"p{n}", f"p{n + 1}") for n in range(11)))).splitlines()
    assert lines[0].startswith("hub · p0 sends to p1, p1 sends to p2, ")
    assert lines[1].startswith("      p")
    assert all(len(line) <= WIDTH for line in lines)


def test_a_flow_that_has_no_way_back():
    from pytest_nfvperf.model.topology.links import Crossing

    made = compose("t", endpoint("p0", "b"), endpoint("p1", "b"), monitor("m0", "b"), Crossing("b", "p0", "p1"))
    assert topology_text(made).splitlines()[-1] == "     p0 -> p1"


def test_what_ports_are_follows_from_the_datapath_and_the_testbed():
    topology = compose("t", endpoint("p0", "b"), endpoint("p1", "b", kind=PortKind.AF_XDP))
    lab = replace(TESTBED, ports=(DutPort("p0", "pci", pci="0000:3b:00.0"),))
    assert port_kinds(topology, "dpdk", TESTBED) == {"p0": "vhost-user", "p1": "af_xdp"}
    assert port_kinds(topology, "netdev", TESTBED) == {"p0": "veth", "p1": "af_xdp"}
    assert port_kinds(topology, "dpdk", lab) == {"p0": "physical", "p1": "af_xdp"}
    deployed = TopologyData(topology, "dpdk", port_kinds=port_kinds(topology, "dpdk", TESTBED))
    assert topology_drawing(deployed).splitlines()[0] == "t · dpdk datapath · p0 and p1 send to each other"
    assert "p0  vhost-user  generator" in topology_drawing(deployed)
    sent = {"p0": "own ring", "p1": "own ring", "v1": "DPDK's virtio-user: a forwarder hands on DPDK's buffers"}
    assert topology_drawing(replace(deployed, sending=sent)).splitlines()[-2:] == [
        "rings of p0, p1: own ring",
        "rings of v1: DPDK's virtio-user: a forwarder hands on DPDK's buffers",
    ]


@given(topologies())
def test_nothing_is_left_out(topology: Topology):
    text = topology_text(topology)
    for name in topology.bridges:
        assert name in text
    for name in (*(port.name for port in topology.ports), *(space.name for space in topology.namespaces)):
        assert name in text
    for tunnel in topology.tunnels:
        assert tunnel.remote in text
    assert all(len(line) <= WIDTH for line in text.splitlines())
