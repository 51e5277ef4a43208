"""Chains of bridges between namespaces, on every datapath of this machine: frames pass, and nothing stays."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.compose import CHAIN_NETWORK, CHAIN_NETWORK_6, bridge_chain
from pytest_nfvperf.model.topology.ports import Namespace, Nic, NicKind, Offloads, PortKind
from pytest_nfvperf.model.topology.topology import Topology
from tests.functional.ovs_support import (
    MACS,
    far_ends,
    frame,
    frames_on,
    needs_hugepages,
    needs_root,
    phy2phy,
    send_tcp,
    started,
    with_nics,
    with_vlans,
)

pytestmark = needs_root


@pytest.fixture(scope="module", params=[pytest.param("dpdk", marks=needs_hugepages), "netdev"])
def ovs(request: pytest.FixtureRequest, journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, request.param, request.param) as running:
        yield running


@pytest.fixture
def build(ovs: OvsDatapath) -> Iterator[object]:
    def built(topology: Topology) -> BuiltOvsTopology:
        made = ovs.build(topology)
        made.wait_ready(5)
        return made

    yield built
    ovs.remove_topologies()
    assert ovs.instance.db.rows("Interface") == {}


@pytest.mark.parametrize("link", ["patch", "veth"])
@pytest.mark.parametrize("bridges", [1, 3])
def test_tcp_passes_a_chain_between_namespaces(build: object, bridges: int, link: str) -> None:
    """With more than a megabyte, so that whoever gets checksum or segmentation wrong is seen."""
    built: BuiltOvsTopology = build(bridge_chain(bridges, link=link, ends="namespace"))  # type: ignore[operator]
    text = bytes(range(256)) * 6000
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", text) == text


@pytest.mark.parametrize("link", ["patch", "veth"])
def test_tcp_passes_a_chain_by_ipv6(build: object, link: str) -> None:
    """Neighbour discovery by multicast, no broadcast; a checksum that the IPv6 header does not have."""
    built: BuiltOvsTopology = build(bridge_chain(3, link=link, ends="namespace", ip=6))  # type: ignore[operator]
    text = bytes(range(256)) * 6000
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK_6}:2", text) == text


def test_a_namespace_that_the_topology_does_not_have_is_named(build: object) -> None:
    built: BuiltOvsTopology = build(bridge_chain(1, ends="namespace"))  # type: ignore[operator]
    with pytest.raises(KeyError, match="topology 'chain-1' has no namespace 'end7'"):
        built.netns("end7")


def test_offloads_that_userspace_cannot_bear_are_refused(ovs: OvsDatapath) -> None:
    chain = bridge_chain(1, ends="namespace")
    nics = tuple(dataclasses.replace(nic, offloads=Offloads(tso=True)) for nic in chain.nics)
    with pytest.raises(ConfigError, match=r"'eth0' of namespace 'end0': tx checksum .*Dut\(userspace_tso=True\)"):
        ovs.build(dataclasses.replace(chain, nics=nics))


def test_nine_bridges_pass_the_first_packet(build: object) -> None:
    built: BuiltOvsTopology = build(bridge_chain(9, ends="namespace"))  # type: ignore[operator]
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", b"first") == b"first"


@pytest.mark.parametrize("kind", [NicKind.INTERNAL, NicKind.TAP])
def test_a_port_of_ovs_is_the_namespaces_interface(build: object, kind: NicKind) -> None:
    built: BuiltOvsTopology = build(with_nics(bridge_chain(2, ends="namespace"), kind=kind))  # type: ignore[operator]
    text = bytes(range(256)) * 6000
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", text) == text


@pytest.mark.parametrize("kind", [PortKind.TAP, PortKind.AF_PACKET])
def test_frames_of_a_generator_pass_by_every_kind_of_port(build: object, kind: PortKind) -> None:
    plain = phy2phy()
    ports = tuple(dataclasses.replace(port, kind=kind) for port in plain.ports)
    built: BuiltOvsTopology = build(dataclasses.replace(plain, ports=ports))  # type: ignore[operator]
    left, right = far_ends(built)
    with frames_on(left) as sender, frames_on(right) as receiver:
        sent = frame(MACS[1], MACS[0], b"x")
        sender.send(sent)
        assert receiver.recv(2048) == sent


@pytest.mark.parametrize(("tags", "passes"), [((7, 7), True), ((7, 8), False)], ids=["same", "different"])
def test_vlans_part_a_bridge(build: object, tags: tuple[int, int], passes: bool) -> None:
    built: BuiltOvsTopology = build(with_vlans(bridge_chain(1, ends="namespace"), tags))  # type: ignore[operator]
    ends = (built.netns("end0"), built.netns("end1"))
    assert "vlan_mode=access tag=7" in built.configuration()
    if passes:
        assert send_tcp(*ends, f"{CHAIN_NETWORK}.2", b"x") == b"x"
    else:
        with pytest.raises(TimeoutError):
            send_tcp(*ends, f"{CHAIN_NETWORK}.2", b"x", wait_s=0.3)


def routed(first: str, second: str, prefix: int, through: str) -> Topology:
    """Namespace - bridge - routing namespace - bridge - namespace. ``through``: to everywhere."""
    ends, gateways = (f"{first}2", f"{second}2"), (f"{first}1", f"{second}1")
    namespaces = tuple(Namespace(f"end{i}", routes=((through, gateway),)) for i, gateway in enumerate(gateways))
    nics = [Nic(f"end{i}", "eth0", f"br{i}", f"end{i}", addresses=(f"{ends[i]}/{prefix}",)) for i in (0, 1)]
    nics += [Nic("router", f"eth{i}", f"br{i}", f"r{i}", addresses=(f"{gateways[i]}/{prefix}",)) for i in (0, 1)]
    router = Namespace("router", routing=True)
    return Topology("routed", ("br0", "br1"), (), (), (), namespaces=(*namespaces, router), nics=tuple(nics))


@pytest.mark.parametrize(
    ("first", "second", "prefix", "through"),
    [("10.1.0.", "10.2.0.", 24, "0.0.0.0/0"), ("fd00:1::", "fd00:2::", 64, "fd00::/16")],
    ids=["ipv4", "ipv6"],
)
def test_a_namespace_routes(build: object, first: str, second: str, prefix: int, through: str) -> None:
    built: BuiltOvsTopology = build(routed(first, second, prefix, through))  # type: ignore[operator]
    text = bytes(range(256)) * 1000
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{second}2", text) == text


def test_a_jumbo_frame_and_queues_reach_every_part(build: object) -> None:
    chain = with_nics(bridge_chain(2, link="veth", ends="namespace", mtu=9000), queues=2)
    built: BuiltOvsTopology = build(chain)  # type: ignore[operator]
    for name in ("end0", "chain-1-2", "chain-2-1"):
        assert re.search(rf"port {name}: .* mtu=9000 link=up", built.configuration())
    namespace = Path("/run/netns") / built.netns("end0")
    queues = inside(namespace, partial(_queues_of, "eth0"))
    assert queues == (9000, 2, 2)


def _queues_of(interface: str) -> tuple[int, int, int]:
    with IPRoute() as links:
        (link,) = links.get_links(ifname=interface)
        return tuple(link.get_attr(f"IFLA_{name}") for name in ("MTU", "NUM_TX_QUEUES", "NUM_RX_QUEUES"))
