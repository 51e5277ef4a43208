"""Topologies composed of parts, on a real OVS: frames go where the parts say, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, namespace, namespaces, patch, path, router, tunnel, veth
from pytest_nfvperf.model.topology.topology import Topology
from tests.functional.ovs_support import (
    far_ends,
    frame,
    frames_on,
    needs_root,
    send_tcp,
)

pytestmark = needs_root
TEXT = bytes(range(256)) * 64


@pytest.fixture
def build(ovs: OvsDatapath) -> Iterator[Callable[[Topology], BuiltOvsTopology]]:
    def built(topology: Topology) -> BuiltOvsTopology:
        made = ovs.build(topology)
        made.wait_ready(5)
        return made

    yield built
    ovs.remove_topologies()


def test_frames_follow_a_path_over_patch_and_veth(build):
    """Three bridges in a row, the endpoints at their ends: one frame each way."""
    topology = compose(
        "mixed", endpoint("p0", "brA"), patch("brA", "brB"), veth("brB", "brC"), endpoint("p1", "brC"), path("p0", "p1")
    )
    left, right = far_ends(build(topology))
    macs = [port.mac for port in topology.ports]
    with frames_on(left) as near, frames_on(right) as far:
        near.send(frame(macs[1], macs[0], b"there"))
        assert b"there" in far.recv(2000)
        far.send(frame(macs[0], macs[1], b"back"))
        assert b"back" in near.recv(2000)


def test_namespaces_on_one_network_reach_each_other_over_learning_bridges(build):
    built = build(
        compose(
            "flat",
            namespaces("one", "two", bridge="brA"),
            patch("brA", "brB"),
            namespace("far", "brB", "198.18.0.9/24"),
        )
    )
    assert send_tcp(built.netns("one"), built.netns("two"), "198.18.0.2", TEXT) == TEXT
    assert send_tcp(built.netns("one"), built.netns("far"), "198.18.0.9", TEXT) == TEXT


@pytest.mark.parametrize(
    "right",
    ["veth", *(pytest.param(kind, marks=pytest.mark.thorough("another kind of port")) for kind in ("tap", "internal"))],
)
def test_a_router_joins_two_networks_and_routes_are_set(build, right):
    """Where the right one's interface is OVS's own, it is there later than the veth pairs of the others."""
    built = build(
        compose(
            "routed",
            namespace("left", "brA", "10.1.0.1/24", gateway="10.1.0.254"),
            router("r", {"brA": "10.1.0.254/24", "brB": "10.2.0.254/24"}),
            namespace("right", "brB", "10.2.0.1/24", gateway="10.2.0.254", kind=right),
        )
    )
    assert send_tcp(built.netns("left"), built.netns("right"), "10.2.0.1", TEXT) == TEXT


def test_a_path_keeps_namespaces_apart_that_are_not_on_it(build):
    """Two pairs on one bridge: flows join the members of each, so that the pairs can have the same addresses."""
    pairs = [
        part
        for name in ("a", "b")
        for part in (
            namespace(f"{name}1", "br0", "10.0.0.1/24"),
            namespace(f"{name}2", "br0", "10.0.0.2/24"),
            path(f"{name}1", f"{name}2"),
        )
    ]
    built = build(compose("tenants", *pairs))
    for name in ("a", "b"):
        text = name.encode() * 100
        assert send_tcp(built.netns(f"{name}1"), built.netns(f"{name}2"), "10.0.0.2", text) == text


def test_a_tunnel_between_an_overlay_and_its_underlay(build):
    built = build(
        compose(
            "overlay",
            namespace("pod", "br-int", "10.1.0.1/24", mtu=1400),
            tunnel("br-int", local="172.31.0.1", remote="172.31.0.2", key=42),
            namespace("far", "br-phy", "172.31.0.2/24"),
        )
    )
    assert "br-int-vxlan42" in built.configuration()
