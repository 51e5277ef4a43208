"""What Linux bridges and OVS's patch ports cannot do is said before anything is built."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

from pytest_nfvperf.adapters.net.linux_bridge import refuse_impossible, vlan_entries
from pytest_nfvperf.adapters.ovs.built_topology import refuse_too_deep
from pytest_nfvperf.adapters.ovs.rows import vlan_mode
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.compose import bridge_chain, compose, phy2phy, pvp
from pytest_nfvperf.model.topology.links import Patch, Tunnel, TunnelKind
from pytest_nfvperf.model.topology.parts import bond
from pytest_nfvperf.model.topology.ports import NicKind, PortKind, PortRole, Vlan
from pytest_nfvperf.model.topology.topology import Topology

PLAIN = phy2phy()
TUNNEL = Tunnel("br0", "tun0", TunnelKind.VXLAN, "172.31.0.1", "172.31.0.2")


def ports(**changes: Any) -> Topology:
    changed = tuple(dataclasses.replace(port, **changes) for port in PLAIN.ports)
    return dataclasses.replace(PLAIN, ports=changed, directions=())


def nics(**changes: Any) -> Topology:
    chain = bridge_chain(1, ends="namespace")
    changed = (dataclasses.replace(nic, name=nic.port, **changes) for nic in chain.nics)
    return dataclasses.replace(chain, nics=tuple(changed))


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (bridge_chain(2), "'patch-1-2' is a patch port, which only Open vSwitch has; join them by veth"),
        (dataclasses.replace(PLAIN, crossings=(), tunnels=(TUNNEL,)), "'tun0' is a tunnel; take an OVS datapath"),
        (ports(kind=PortKind.VHOST_USER), "port 'p0' is vhost-user; take the kind TESTBED or AF_PACKET"),
        (ports(role=PortRole.MONITOR), "port 'p0' is a monitor"),
        (compose("bonded", bond("b0", "br0", ("m0", "m1"))), "port 'b0' is a bond; take an OVS datapath"),
        (nics(kind=NicKind.INTERNAL), "interface 'end0' is internal; take a veth pair"),
        (pvp(), "the crossings of 'br0' are flows, and a Linux bridge has none"),
        (dataclasses.replace(PLAIN, crossings=PLAIN.crossings[:1]), "the crossings of 'br0' are flows"),
    ],
)
def test_what_a_linux_bridge_has_not_is_named(topology: Topology, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_impossible(topology)
    assert f"topology {topology.name!r} cannot be built of Linux bridges: {said}" in str(caught.value)


@pytest.mark.parametrize("topology", [PLAIN, bridge_chain(3, link="veth"), bridge_chain(1, ends="namespace")])
def test_what_it_has_is_not_refused(topology: Topology) -> None:
    refuse_impossible(topology)


@pytest.mark.parametrize(
    ("vlan", "mode", "entries"),
    [
        (Vlan(7), "access", [(7, 6)]),
        (Vlan(trunks=(7, 9)), "trunk", [(7, 0), (9, 0)]),
        (Vlan(), "trunk", [(1, 8), (4094, 16)]),
        (Vlan(7, (9,)), "native-untagged", [(9, 0), (7, 6)]),
    ],
)
def test_vlans_mean_the_same_on_both(vlan: Vlan, mode: str, entries: list[tuple[int, int]]) -> None:
    """Flags: 2 for the VLAN of untagged frames, 4 for sent untagged, 8 and 16 for a range's ends."""
    assert vlan_mode(vlan) == mode
    assert vlan_entries(vlan) == entries


def with_arm(at: str, bridges: int) -> Topology:
    """A chain of 40 bridges with another one joined to one of them."""
    chain = bridge_chain(40, ends="namespace")
    names = [at, *(f"arm-{number}" for number in range(bridges))]
    arm = [Patch(a, f"out-{a}", b, f"in-{b}") for a, b in pairwise(names)]
    return dataclasses.replace(chain, bridges=(*chain.bridges, *names[1:]), patches=(*chain.patches, *arm))


def test_patches_in_a_row_are_counted_through_branches() -> None:
    refuse_too_deep(bridge_chain(65))
    with pytest.raises(ConfigError, match=r"'chain-66-patch' has 65 patch ports in a row \(66 bridges\), and OVS"):
        refuse_too_deep(bridge_chain(66))
    refuse_too_deep(with_arm("ovs-20", 40))
    with pytest.raises(ConfigError, match=r"has 79 patch ports in a row"):
        refuse_too_deep(with_arm("ovs-1", 40))
