"""Topologies composed from parts: what is filled in, where frames go, and what a mistake is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.topology import compose as catalogue
from pytest_nfvperf.model.topology.compose import Composition, compose
from pytest_nfvperf.model.topology.links import Crossing, Patch, TunnelKind
from pytest_nfvperf.model.topology.parts import (
    bridge,
    endpoint,
    kernel_name,
    monitor,
    namespace,
    namespaces,
    nic,
    patch,
    path,
    router,
    tunnel,
    veth,
    vnf,
)
from pytest_nfvperf.model.topology.ports import Namespace, Nic, NicKind, PortKind, PortRole, VnfMode
from pytest_nfvperf.model.traffic.trial import Direction
from tests.topologies import strings


def test_two_bridges_in_one_line():
    made = compose("two", endpoint("p0", "brA"), patch("brA", "brB"), endpoint("p1", "brB"), path("p0", "p1"))

    assert made.bridges == ("brA", "brB")
    assert made.patches == (Patch("brA", "brA-brB", "brB", "brB-brA"),)
    assert set(made.crossings) == {
        Crossing("brA", "p0", "brA-brB"),
        Crossing("brA", "brA-brB", "p0"),
        Crossing("brB", "brB-brA", "p1"),
        Crossing("brB", "p1", "brB-brA"),
    }
    assert made.directions == (Direction("p0", "p1"), Direction("p1", "p0"))
    assert tuple(port.mac for port in made.ports) == (catalogue.generator_mac(0), catalogue.generator_mac(1))


@pytest.mark.parametrize("vnfs", range(4))
def test_the_catalogue_s_vnf_chains_can_be_composed(vnfs):
    """Same ports, flows and directions as vnf_chain, whatever the VNFs are called."""
    names = [f"v{number}" for number in range(1, vnfs + 1)]
    ends = (endpoint("p0", "br0"), endpoint("p1", "br0"))
    known = catalogue.vnf_chain(vnfs)
    made = compose(known.name, *ends, *(vnf(name, "br0") for name in names), path("p0", *names, "p1"))

    as_known = tuple(replace(port, owner=port.owner.replace("v", "vnf")) for port in made.ports)
    assert (as_known[:2], as_known[2:]) == (known.ports[:2], known.ports[2:])
    assert set(made.crossings) == set(known.crossings)
    assert made.directions == known.directions


@pytest.mark.parametrize("link", ["patch", "veth"])
def test_the_catalogue_s_bridge_chains_can_be_composed(link):
    known = catalogue.bridge_chain(5, link=link)
    made = compose(
        known.name, *known.bridges, *known.ports, *known.patches, *known.veths, path("p0", "p1"), *known.directions
    )
    assert set(made.crossings) == set(known.crossings)
    assert replace(made, crossings=known.crossings) == known


def test_bridges_that_are_listed_keep_their_order():
    assert compose("t", "brB", "brA", endpoint("p0", "brA")).bridges == ("brB", "brA")
    assert compose("t", endpoint("p0", "brA"), veth("brB", "brA")).bridges == ("brA", "brB")
    assert compose("t", bridge("alone")).bridges == ("alone",)


def test_a_slip_in_a_bridge_s_name_is_found_where_bridges_are_listed():
    with pytest.raises(ValueError, match=r"^topology 't': port 'p0' is on unknown bridge 'brAA'$"):
        compose("t", "brA", endpoint("p0", "brAA"))


def test_macs_that_are_given_stay_and_the_others_are_numbered():
    mine = "02:00:00:00:00:99"
    made = compose("t", endpoint("p0", "b", mac=mine), vnf("fw", "b"), vnf("nat", "b"), monitor("m0", "b"))
    assert [port.mac for port in made.ports] == [
        mine, "02:4e:46:00:01:00", "02:4e:46:00:01:01", "02:4e:46:00:02:00", "02:4e:46:00:02:01", "02:4e:46:00:00:11",
    ]  # fmt: skip


def test_a_thousand_ports_have_a_thousand_macs():
    ports = [endpoint(f"p{n}", "b") for n in range(1000)]
    made = compose("t", *ports, Direction("p0", "p1"))
    macs = [port.mac for port in made.ports]
    assert len(set(macs)) == 1000
    assert not {catalogue.vnf_mac(v, side) for v in range(1, 256) for side in (0, 1)} & set(macs)


def test_what_vnf_and_endpoint_say():
    left, right = vnf("fw", "brA", "brB", mode="macswap", mtu=9000, queues=2)
    assert (left.name, left.bridge, left.peer, left.owner) == ("fwa", "brA", "fwb", "fw")
    assert (right.name, right.bridge, right.peer, right.owner) == ("fwb", "brB", "fwa", "fw")
    assert {port.role for port in (left, right)} == {PortRole.FORWARDER}
    assert (left.vnf_mode, right.mtu, right.queues) == (VnfMode.MACSWAP, 9000, 2)
    assert endpoint("p0", "b", kind="af_packet").kind is PortKind.AF_PACKET


def test_vnfs_in_mode_mac_send_to_the_next_stop():
    made = compose(
        "t",
        endpoint("p0", "b", mac="02:00:00:00:00:01"),
        endpoint("p1", "b", mac="02:00:00:00:00:02"),
        vnf("fw", "b", mode="mac"),
        vnf("nat", "b", mode="mac"),
        vnf("plain", "b"),
        path("p0", "fw", "nat", "plain", "p1"),
    )
    sent_to = {port.name: port.eth_peer for port in made.ports}
    assert sent_to["fwa"] == made.port("nata").mac
    assert sent_to["fwb"] == "02:00:00:00:00:01"
    assert sent_to["nata"] == made.port("plaina").mac
    assert sent_to["natb"] == made.port("fwb").mac
    assert sent_to["plaina"] is sent_to["plainb"] is sent_to["p0"] is None


def test_eth_peers_can_be_said():
    behind_a, behind_b = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
    made = compose("t", vnf("fw", "b", mode="mac", eth_peers=(behind_a, behind_b)))
    assert (made.port("fwa").eth_peer, made.port("fwb").eth_peer) == (behind_b, behind_a)


def test_a_next_stop_whose_mac_the_kernel_makes_up_is_not_known():
    parts = [endpoint("p0", "b"), vnf("fw", "b", mode="mac"), path("p0", "fw", "ns")]
    with pytest.raises(ValueError, match=r"VNF 'fw' in mode mac does not know where frames from 'fwa' go on to"):
        compose("t", *parts, namespace("ns", "b", "10.0.0.1/24"))
    made = compose("t", *parts, namespace("ns", "b", "10.0.0.1/24", mac="02:00:00:00:00:77"))
    assert made.port("fwa").eth_peer == "02:00:00:00:00:77"


def test_who_sends_to_whom():
    three = [endpoint(f"p{n}", "b") for n in range(3)]
    assert compose("t", three[0]).directions == ()
    assert compose("t", *three, Direction("p0", "p2")).directions == (Direction("p0", "p2"),)
    with pytest.raises(
        ValueError, match=r"^topology 't': 3 endpoints: say who sends to whom, such as Direction\('p0', 'p1'\)$"
    ):
        compose("t", *three)


def test_namespaces_have_addresses_one_after_the_other():
    made = compose("t", namespaces("left", "right", bridge="br0"))
    assert made.namespaces == (Namespace("left"), Namespace("right"))
    assert made.nics == (
        Nic("left", "eth0", "br0", "left-eth0", addresses=("198.18.0.1/24",)),
        Nic("right", "eth0", "br0", "right-eth0", addresses=("198.18.0.2/24",)),
    )


def test_a_network_that_is_too_small():
    with pytest.raises(ValueError, match=r"^network 10.0.0.0/30 has no address left for namespace 'c'$"):
        namespaces("a", "b", "c", bridge="br0", network="10.0.0.0/30")
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/24 has host bits set"):
        namespaces("a", bridge="br0", network="10.0.0.1/24")


def test_a_router_between_two_bridges():
    made = compose(
        "routed",
        namespace("left", "brA", "10.1.0.1/24", gateway="10.1.0.254"),
        router("r", {"brA": "10.1.0.254/24", "brB": "10.2.0.254/24"}),
        namespace("right", "brB", "10.2.0.1/24", "2001:2::1/64", gateway="2001:2::fe"),
    )
    assert made.namespaces == (
        Namespace("left", routes=(("0.0.0.0/0", "10.1.0.254"),)),
        Namespace("r", routing=True),
        Namespace("right", routes=(("::/0", "2001:2::fe"),)),
    )
    assert [(nic.namespace, nic.name, nic.bridge) for nic in made.nics] == [
        ("left", "eth0", "brA"), ("r", "eth0", "brA"), ("r", "eth1", "brB"), ("right", "eth0", "brB"),
    ]  # fmt: skip


def test_a_path_through_namespaces_and_a_router():
    made = compose(
        "routed",
        namespace("left", "brA", "10.1.0.1/24"),
        router("r", {"brA": "10.1.0.254/24", "brB": "10.2.0.254/24"}),
        namespace("right", "brB", "10.2.0.1/24"),
        path("left", "r", "right"),
    )
    assert set(made.crossings) == {
        Crossing("brA", "left-eth0", "r-eth0"),
        Crossing("brA", "r-eth0", "left-eth0"),
        Crossing("brB", "r-eth1", "right-eth0"),
        Crossing("brB", "right-eth0", "r-eth1"),
    }


def test_an_internal_port_has_one_name():
    made = nic("left", "br0", name="eth7", kind="internal")
    assert (made.name, made.port, made.kind) == ("left-eth7", "left-eth7", NicKind.INTERNAL)
    _, eth0 = namespace("right", "br0", kind=NicKind.INTERNAL)
    assert eth0.name == eth0.port == "right-eth0"


@pytest.mark.parametrize(("kind", "mtu"), [("vxlan", 1450), ("geneve", 1450), ("gre", 1458)])
def test_a_tunnel_carries_what_the_underlay_leaves(kind, mtu):
    made = tunnel("br0", local="10.0.0.1", remote="10.0.0.2", kind=kind, key=7)
    assert (made.kind, made.mtu, made.port, made.key) == (TunnelKind(kind), mtu, f"br0-{kind}7", 7)
    assert compose("t", made, path("br0-" + kind + "7", "p0"), endpoint("p0", "br0")).crossings


PATHS = {
    "too short": (path("p0"), "path p0: a path needs at least two nodes"),
    "unknown stop": (
        path("p0", "p9"),
        "path p0 - p9: no port, VNF or namespace is called 'p9'; there are: p0, p1",
    ),
    "nothing leads there": (
        path("p0", "p1"),
        "path p0 - p1: no patch or veth leads from bridge 'brA' to 'brB'",
    ),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_that_are_none(case):
    wrong, message = PATHS[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - all of its text is compared
        compose("t", endpoint("p0", "brA"), endpoint("p1", "brB"), wrong)
    assert str(caught.value) == f"topology 't': {message}"


@pytest.mark.parametrize("part", [42, None, {"bridge": "brA"}])
def test_what_is_not_a_part(part):
    with pytest.raises(ValueError, match=r"^topology 't': .* is not a part of a topology: give the name of a bridge"):
        compose("t", part)


def test_a_composition_collects_parts():
    composition = Composition()
    with pytest.raises(ValueError, match=r"^topology 'mine' has no parts: give a topology, or make parts first$"):
        composition.topology("mine")
    add = composition.adding(endpoint)
    parts = [add("p0", "br0"), add("p1", "br0", mtu=9000)]
    assert composition.topology("mine") == compose("mine", *parts)


@given(st.text(max_size=40), st.text(max_size=40))
def test_shortened_names_fit_and_stay_apart(one, other):
    for name in (one, other):
        assert len(kernel_name(name).encode()) <= 15
    if len(one.encode()) <= 15:
        assert kernel_name(one) == one


def test_names_that_differ_late_stay_apart():
    assert kernel_name("a-long-bridge-1-a-long-bridge-2") != kernel_name("a-long-bridge-2-a-long-bridge-1")


def ports_passed(topology, start):
    """The ports that a frame passes from ``start`` on: over crossings, links and VNFs, until it stays."""
    crossing = {(c.bridge, c.in_port): c.out_port for c in topology.crossings}
    far = {
        (end.bridge, end.port): (end.peer_bridge, end.peer_port)
        for link in (*topology.patches, *topology.veths)
        for end in link.ends
    }
    ports = {port.name: port for port in topology.ports}
    here = (ports[start].bridge, start)
    passed = [start]
    while True:
        out = (here[0], crossing[here])
        passed.append(out[1])
        if out in far:
            here = far[out]
        elif (peer := ports[out[1]].peer) is not None:
            here = (ports[peer].bridge, peer)
        else:
            return passed
        passed.append(here[1])


@given(strings(), st.randoms(use_true_random=False))
def test_frames_take_the_path_and_return(parts, shuffled):
    """Through every VNF in turn to the other end, and the same ports back; the order of parts does not matter."""
    vnfs = [part[0].owner for part in parts if isinstance(part, tuple)]
    made = compose("t", *parts)

    there = ports_passed(made, "p0")
    assert there[-1] == "p1"
    assert [name[:-1] for name in there if name.endswith("a") and name[0] == "v"] == vnfs
    assert set(there) == {port for bridge in made.bridges for port in made.bridge_ports(bridge)}
    assert ports_passed(made, "p1") == there[::-1]
    shuffled.shuffle(parts)
    again = compose("t", *parts)
    assert set(again.bridges) == set(made.bridges)
    assert set(again.crossings) == set(made.crossings)
