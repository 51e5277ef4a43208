"""Nodes in a topology: what stands on which, what cannot be, and how frames and counters pass over them."""

from __future__ import annotations

import pytest

from pytest_nfvperf.model.figure import Why, exact
from pytest_nfvperf.model.measure.cpu_account import as_bound, node_labels, shares_cpus
from pytest_nfvperf.model.measure.ledger import (
    CounterSnapshot,
    FramePath,
    Hop,
    HopKind,
    as_one,
    attribute,
    counter_deltas,
    nodes_of,
    of_node,
    off_node,
    on_node,
)
from pytest_nfvperf.model.testbed.testbed import CpuPlan, DatapathInfo, Dut, node_cpus, with_nodes
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.compose import compose, node, phy2phy
from pytest_nfvperf.model.topology.frame_route import RouteHop, route
from pytest_nfvperf.model.topology.links import Node, TunnelKind, encapsulation_bytes
from pytest_nfvperf.model.topology.parts import endpoint, namespace, nic, patch, path, tunnel, underlay, vnf
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import node_topology
from pytest_nfvperf.model.topology.workloads import OVERLAYS, vm_to_vm

ONE, TWO = "10.9.0.1", "10.9.0.2"


def end(number: int, *, name: str | None = None, key: int = 5, mtu: int = 1450, **settings):
    """A node with a generator port and a tunnel to the other."""
    local, remote = (ONE, TWO) if number == 1 else (TWO, ONE)
    ends = {"local": local, "remote": remote, "key": key, "port": f"tun{number}"} | settings
    parts = (endpoint(f"p{number}", f"int{number}", mtu=mtu), tunnel(f"int{number}", **ends))
    return node(name or f"node{number}", *parts, f"phy{number}")


WIRE = underlay("phy1", "phy2", ports=("up1", "up2"))


def test_a_topology_without_a_word_has_no_nodes():
    assert phy2phy().nodes == ()
    assert with_nodes(Dut("dpdk"), phy2phy()) == Dut("dpdk")


def test_parts_stand_on_their_node_and_the_underlay_beside_them():
    made = compose("t", end(1), end(2), WIRE)
    assert made.nodes == (Node("node1", ("int1", "phy1")), Node("node2", ("int2", "phy2")))
    assert made.bridges == ("int1", "phy1", "int2", "phy2")
    assert with_nodes(Dut("dpdk"), made).nodes == ("node1", "node2")


def test_what_stands_on_a_node_is_a_topology_whose_uplink_is_a_port():
    here = node_topology(compose("t", end(1), end(2), WIRE), "node2")
    assert (here.name, here.bridges, here.nodes, here.directions) == ("t@node2", ("int2", "phy2"), (), ())
    assert [(port.name, port.role, port.owner) for port in here.ports] == [
        ("p2", PortRole.ENDPOINT, "generator"),
        ("up2", PortRole.UPLINK, "node1"),
    ]
    assert [one.port for one in here.tunnels] == ["tun2"]
    with pytest.raises(KeyError, match="topology 't' has no node 'node3'"):
        node_topology(compose("t", end(1), end(2), WIRE), "node3")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_frames_pass_both_nodes_and_the_underlay(overlay: str):
    made = vm_to_vm(overlay, bidirectional=True)
    by = dict.fromkeys((1, 2)) if overlay == "none" else {1: "tun1", 2: "tun2"}
    assert [route(made, direction) for direction in made.directions] == [
        (RouteHop("vm1-tx", ("br-int1", "br-phy1"), "up1", by[1]), RouteHop("up2", ("br-phy2", "br-int2"), "vm2-rx")),
        (RouteHop("vm2-tx", ("br-int2", "br-phy2"), "up2", by[2]), RouteHop("up1", ("br-phy1", "br-int1"), "vm1-rx")),
    ]


def test_a_path_leads_through_tunnels():
    made = compose("t", end(1), end(2), WIRE, path("p1", "p2"))
    assert {(c.bridge, c.in_port, c.out_port) for c in made.crossings} == {
        ("int1", "p1", "tun1"),
        ("int1", "tun1", "p1"),
        ("int2", "p2", "tun2"),
        ("int2", "tun2", "p2"),
    }
    assert route(made, made.directions[0]) is not None


def test_the_underlay_carries_the_vms_mtu_and_the_encapsulation():
    assert [vm_to_vm(overlay).underlays[0].mtu for overlay in OVERLAYS] == [1500, 1550, 1550, 1542]
    assert vm_to_vm("gre", ip=6).underlays[0].mtu == 1562
    assert encapsulation_bytes(TunnelKind.VXLAN, "fd00::1") == 70


def test_the_drawing_says_where_bridges_stand():
    assert "  br-int1, on node1 (learns MAC addresses)" in topology_text(vm_to_vm("vxlan")).splitlines()
    assert "br-phy2, on node2" in topology_text(vm_to_vm("none", bidirectional=False))


LISTED = ("int1", "int2", "phy1", "phy2")

WRONG = {
    "an underlay without nodes": (lambda: (endpoint("p", "phy1"), endpoint("q", "phy2"), WIRE), "it has none"),
    "a name": (lambda: (end(1, name="Node_1"), end(2), WIRE), "node 'Node_1': a name has up to 12 small letters"),
    "a node twice": (lambda: (end(1), end(2, name="node1"), WIRE), "node 'node1' is used twice"),
    "a bridge on two": (lambda: (end(1), end(2), node("node3", "int1"), WIRE), "stands on 'node1' and on 'node3'"),
    "a bridge on none": (lambda: (end(1), end(2), WIRE, "br3", *LISTED), "bridge 'br3' stands on no node"),
    "a patch across": (
        lambda: (end(1), end(2), WIRE, patch("int1", "int2")),
        "join bridges of two nodes: only an underlay does",
    ),
    "a VNF on two": (lambda: (end(1), end(2), WIRE, vnf("v", "int1", "int2")), "VNF 'v' stands on nodes 'node1' and"),
    "an underlay within": (
        lambda: (end(1), end(2), WIRE, underlay("int1", "phy1")),
        "joins bridges of one node, 'node1': use a patch or a veth",
    ),
    "two underlays": (lambda: (end(1), end(2), WIRE, underlay("phy1", "phy2")), "join the same two nodes: choose one"),
    "VNIs that differ": (
        lambda: (end(1), end(2, key=6), WIRE),
        "meets 'tun2', which is vxlan 6: frames would be dropped there",
    ),
    "no other end": (lambda: (end(1), end(2, remote="10.9.0.9"), WIRE), "has no other end: put tunnel(..., local='10"),
    "no underlay": (lambda: (end(1), end(2)), "are on nodes that no underlay joins: add underlay(...)"),
    "a loop": (lambda: (end(1, remote=ONE), end(2), WIRE), "leads to its own address 10.9.0.1: it would be a loop"),
    "a loop by the underlay": (
        lambda: (end(1), end(2), underlay("int1", "phy2")),
        "is on 'int1', where its underlay ends: what it sends would enter it again",
    ),
    "a loop by the tunnel": (
        lambda: (end(1), patch("int1", "phy1"), end(2), patch("int2", "phy2"), WIRE),
        "tunnel 'tun1' - 'tun2' closes a loop of bridges that learn MAC addresses, int1 - phy1 - phy2 - int2 - int1: ",
    ),
    "an underlay too small": (
        lambda: (end(1, underlay_mtu=1600), end(2, underlay_mtu=1600), WIRE),
        "counts on an underlay of MTU 1600, and 'up1' - 'up2' carries 1500: give both the same",
    ),
    "frames too large": (
        lambda: (end(1, mtu=1500), end(2), WIRE),
        "port 'p1' has MTU 1500, tunnel 'tun1' on its bridge carries 1450: give the underlay MTU 1550 or more",
    ),
    "both versions of IP": (lambda: (end(1, remote="fd00::2"), end(2), WIRE), "must be both IPv4 or both IPv6"),
    "no address": (lambda: (end(1, remote="here"), end(2), WIRE), "'here' does not appear to be an IPv4 or IPv6"),
    "a VNI too large": (lambda: (end(1, key=1 << 24), end(2), WIRE), "vxlan has no key 16777216: 0..16777215"),
}


@pytest.mark.parametrize(("parts", "text"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_said_before_anything_is_built(parts, text):
    with pytest.raises(ValueError, match=r"^topology 't': ") as failure:
        compose("t", *parts())
    assert text in str(failure.value)


def test_a_namespace_stands_on_one_node():
    pod, near = namespace("pod", "int1")
    with pytest.raises(ValueError, match="namespace 'pod' stands on nodes 'node1' and 'node2': choose one"):
        compose("t", node("node1", pod, near), node("node2", nic("pod", "int2", name="eth1")))


@pytest.mark.parametrize(("overlay", "ip", "text"), [("mpls", 4, "overlay is 'mpls': "), ("gre", 5, "ip is 5: ")])
def test_an_unknown_overlay_is_said(overlay: str, ip: int, text: str):
    with pytest.raises(ValueError, match=text):
        vm_to_vm(overlay, ip=ip)


def snapshots(first: int, second: int, port: int) -> list[CounterSnapshot]:
    """Of both nodes: frames that their PMDs received, and those of a port each."""
    given = (("node1", "up1", first), ("node2", "up2", second))
    return [
        on_node(
            CounterSnapshot("ovs", 0, (("pmd.packets_received", count), (f"{name}.rx_packets", port))),
            place,
            ("up1", "up2"),
        )
        for place, name, count in given
    ]


def test_two_nodes_counters_are_never_paired_and_add_up():
    before, after = snapshots(10, 100, 0), snapshots(11, 102, 7)
    assert nodes_of(before) == ["node1", "node2"]
    moved = {change.name: change.delta for change in counter_deltas(before, list(reversed(after)))}
    assert moved["node1.pmd.packets_received"] == 1
    assert moved["node2.pmd.packets_received"] == 2
    assert moved["pmd.packets_received"] == 3
    assert moved["up1.rx_packets"] == moved["up2.rx_packets"] == 7
    assert of_node(moved, "node2", ["node1", "node2"])["pmd.packets_received"] == 2
    assert as_one(after, ["ovs"]).as_dict()["pmd.packets_received"] == 113


def test_a_nodes_snapshot_goes_back_to_what_its_source_gave():
    given = CounterSnapshot("ovs", 5, (("coverage.x", 1), ("up1.rx_packets", 2)))
    there = on_node(given, "node1", ["up1"])
    assert (there.source, dict(there.counters)) == ("node1.ovs", {"node1.coverage.x": 1, "up1.rx_packets": 2})
    assert off_node(there, "node1") == given


def test_a_nodes_drops_are_of_its_own_hops_only():
    hops = (Hop("a", HopKind.DATAPATH, 10, 7, node="node1"), Hop("b", HopKind.DATAPATH, 7, 5, node="node2"))
    (path_,), left = attribute([FramePath("p", hops)], {"dropped": 9}, node="node2")
    assert [[loss.frames for loss in hop.losses] for hop in path_.hops] == [[], [2]]
    assert left == {"dropped": 7}


def test_rates_of_nodes_that_share_cpus_are_at_least_and_costs_at_most():
    labels = node_labels(vm_to_vm(), DatapathInfo("dpdk", "3", None, "", at_least="node1 and node2 share CPU 1"))
    assert labels == {"node_cpus": "shared"}
    assert shares_cpus(labels)
    short = DatapathInfo("dpdk", "3", None, "", at_least="node1 and node2 share CPU 1", short_turns=True)
    assert node_labels(vm_to_vm(), short) == {"node_cpus": "short-turns"}
    assert shares_cpus(node_labels(vm_to_vm(), short))
    assert not shares_cpus(node_labels(vm_to_vm(), DatapathInfo("dpdk", "3", None, "")))
    assert node_labels(phy2phy(), DatapathInfo("dpdk", "3", None, "")) == {}
    rate, time = as_bound(exact("forwarding_rate", 1e6, "pps")), as_bound(exact("packet_time", 9.0, "ns"))
    assert (rate.low, rate.high, rate.why, rate.detail) == (1e6, None, (Why.SHARED_CPUS,), "the nodes share CPUs")
    assert (time.low, time.high) == (None, 9.0)
    share = exact("offloaded_flows", 1.0, "ratio")
    assert as_bound(share) is share


@pytest.mark.parametrize(
    ("pmd", "dealt", "text"),
    [
        ((2, 3, 4), ((2, 4), (3,)), "PMDs: node1 on CPU 2, 4, node2 on CPU 3"),
        ((1,), ((1,), (1,)), "PMDs: node1 on CPU 1, node2 on CPU 1; they share, so rates are at least those shown"),
    ],
)
def test_cpus_are_dealt_out_to_nodes_or_shared_and_said(pmd, dealt, text):
    plan = node_cpus(CpuPlan((0,), pmd, (0,)), ("node1", "node2"))
    assert tuple(plan.of(name) for name in ("node1", "node2")) == dealt
    assert str(plan) == text
    assert plan.shared == text.endswith("shown")
