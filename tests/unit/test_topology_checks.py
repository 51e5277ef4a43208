"""What cannot be built is said before anything is built: each rule with the words that a user reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.model.topology import compose as catalogue
from pytest_nfvperf.model.topology.links import Crossing, Patch, Tunnel, TunnelKind, VethLink
from pytest_nfvperf.model.topology.ports import Namespace, Nic, NicKind, Port, PortRole, Vlan, VnfMode
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

P0 = Port("p0", "br0", PortRole.ENDPOINT, "02:00:00:00:00:01")
P1 = replace(P0, name="p1", mac="02:00:00:00:00:02")
WATCH = Port("m0", "br0", PortRole.MONITOR, "02:00:00:00:00:03")
NIC = Nic("left", "eth0", "br0", "left0", addresses=("10.1.0.1/24",))
LEFT = Namespace("left")
PATCH = Patch("br0", "to1", "br1", "to0")
VETH = VethLink("br0", "to1", "br1", "to0")
TUNNEL = Tunnel("br0", "vx0", TunnelKind.VXLAN, "10.0.0.1", "10.0.0.2")
STRAIGHT = (Crossing("br0", "p0", "p1"), Crossing("br0", "p1", "p0"))


def topology(**fields):
    return Topology(**({"name": "t", "bridges": ("br0",), "ports": (), "crossings": (), "directions": ()} | fields))


WRONG = {
    "bridge twice": ({"bridges": ("br0", "br0")}, "bridge 'br0' is used twice"),
    "port twice": ({"ports": (P0, P0)}, "port 'p0' is used twice"),
    "a port called as a bridge": ({"ports": (replace(P0, name="br0"),)}, "port 'br0' is used twice"),
    "a link's end called as a port": (
        {"bridges": ("br0", "br1"), "ports": (replace(P0, name="to1"),), "veths": (VETH,)},
        "port 'to1' is used twice",
    ),
    "namespace twice": ({"namespaces": (LEFT, LEFT)}, "namespace 'left' is used twice"),
    "interface twice": (
        {"namespaces": (LEFT,), "nics": (NIC, replace(NIC, port="left1"))},
        "interface 'eth0' of namespace 'left' is used twice",
    ),
    "port's bridge": ({"bridges": (), "ports": (P0,)}, "port 'p0' is on unknown bridge 'br0'"),
    "patch's bridge": ({"patches": (PATCH,)}, "port 'to0' is on unknown bridge 'br1'"),
    "tunnel's bridge": ({"bridges": (), "tunnels": (TUNNEL,)}, "port 'vx0' is on unknown bridge 'br0'"),
    "namespace": ({"nics": (NIC,)}, "interface 'eth0' is in unknown namespace 'left'"),
    "two names": (
        {"namespaces": (LEFT,), "nics": (replace(NIC, kind=NicKind.INTERNAL),)},
        (
            "internal port 'left0' is the interface in namespace 'left' itself: it cannot be 'eth0' there; "
            "give both the same name"
        ),
    ),
    "long bridge": (
        {"bridges": ("a-bridge-of-16-b",)},
        "'a-bridge-of-16-b' is longer than the 15 bytes that the kernel allows; shorten it",
    ),
    "bytes are counted, not letters": (
        {"bridges": ("brücke-fünfzehn",)},
        "'brücke-fünfzehn' is longer than the 15 bytes that the kernel allows; shorten it",
    ),
    "long veth": (
        {"bridges": ("br0", "br1"), "veths": (replace(VETH, port_b="veth-from-br1-to"),)},
        "'veth-from-br1-to' is longer than the 15 bytes that the kernel allows; shorten it",
    ),
    "long interface": (
        {"namespaces": (LEFT,), "nics": (replace(NIC, name="a-name-of-16-byt"),)},
        "'a-name-of-16-byt' is longer than the 15 bytes that the kernel allows; shorten it",
    ),
    "crossing to nowhere": (
        {"ports": (P0,), "crossings": (Crossing("br0", "p0", "p9"),)},
        "crossing uses 'p9', which is not a port of 'br0'",
    ),
    "crossing on another bridge": (
        {"bridges": ("br0", "br1"), "ports": (P0, P1), "crossings": (Crossing("br1", "p0", "p1"),)},
        "crossing uses 'p0', which is not a port of 'br1'",
    ),
    "direction from a monitor": (
        {"ports": (P0, WATCH), "directions": (Direction("m0", "p0"),)},
        "direction m0->p0 uses 'm0', not an endpoint",
    ),
    "peer": (
        {"ports": (replace(P0, role=PortRole.FORWARDER, owner="v1", peer="p1"), P1)},
        "port 'p0' forwards to 'p1', which is not a port of 'v1'",
    ),
    "no MAC to send to": (
        {"ports": (replace(P0, role=PortRole.FORWARDER, owner="fw", vnf_mode=VnfMode.MAC),)},
        (
            "VNF 'fw' in mode mac does not know where frames from 'p0' go on to: put it on a path, say eth_peers, "
            "or use mode io or macswap"
        ),
    ),
    "no MAC as eth_peer": (
        {"ports": (replace(P0, role=PortRole.FORWARDER, owner="fw", vnf_mode=VnfMode.MAC, eth_peer="p1"),)},
        "port 'p0': 'p1' is not a MAC address, such as 02:00:00:00:00:01",
    ),
    "two ways": (
        {"ports": (P0, P1, WATCH), "crossings": (*STRAIGHT, Crossing("br0", "p0", "m0"))},
        "frames from 'p0' shall cross to 'p1' and to 'm0': choose one",
    ),
    "back again": (
        {"ports": (P0,), "crossings": (Crossing("br0", "p0", "p0"),)},
        "frames from 'p0' cannot go back to it: OpenFlow drops them",
    ),
    "dangling": (
        {"ports": (P0, P1), "namespaces": (LEFT,), "nics": (NIC,), "crossings": STRAIGHT},
        (
            "port 'left0' is dangling: bridge 'br0' has crossings, and none uses it, so no frame would pass it; lead a "
            "path over the port, such as path(..., 'left0', ...), leave out the part that makes it, or give 'br0' no "
            "path at all: then it learns MAC addresses"
        ),
    ),
    "dangling patch port": (
        {"bridges": ("br0", "br1"), "ports": (P0, P1), "crossings": STRAIGHT, "patches": (PATCH,)},
        (
            "port 'to1' is dangling: bridge 'br0' has crossings, and none uses it, so no frame would pass it; lead a "
            "path over the port, such as path(..., 'to1', ...), leave out patch('br0', 'br1'), or give 'br0' no path "
            "at all: then it learns MAC addresses"
        ),
    ),
    "no MAC": (
        {"ports": (replace(P0, mac=""),)},
        "port 'p0': '' is not a MAC address, such as 02:00:00:00:00:01",
    ),
    "a group's MAC": (
        {"namespaces": (LEFT,), "nics": (replace(NIC, mac="01:00:5e:00:00:01"),)},
        (
            "interface 'eth0' of namespace 'left': 01:00:5e:00:00:01 is a group's address; "
            "the first byte must be even, such as 02"
        ),
    ),
    "address": (
        {"namespaces": (LEFT,), "nics": (replace(NIC, addresses=("10.1.0.1/33",)),)},
        "interface 'eth0': '10.1.0.1/33' is not an address with a prefix, such as 10.1.0.1/24",
    ),
    "address without a prefix": (
        {"namespaces": (LEFT,), "nics": (replace(NIC, addresses=("10.1.0.1",)),)},
        "interface 'eth0': '10.1.0.1' is not an address with a prefix, such as 10.1.0.1/24",
    ),
    "destination with host bits": (
        {"namespaces": (replace(LEFT, routes=(("10.2.0.1/24", "10.1.0.254"),)),), "nics": (NIC,)},
        "namespace 'left': route to '10.2.0.1/24' by '10.1.0.254': 10.2.0.1/24 has host bits set",
    ),
    "gateway": (
        {"namespaces": (replace(LEFT, routes=(("10.2.0.0/24", "10.9.0.254"),)),), "nics": (NIC,)},
        "namespace 'left': gateway 10.9.0.254 is on none of its networks",
    ),
    "VLAN 0": ({"ports": (replace(P0, vlan=Vlan(tag=0)),)}, "port 'p0': VLAN 0 is not in 1..4094"),
    "VLAN 4095": (
        {"bridges": ("br0", "br1"), "patches": (replace(PATCH, vlan=Vlan(trunks=(1, 4095))),)},
        "port 'to1': VLAN 4095 is not in 1..4094",
    ),
    "MTU": ({"ports": (replace(P0, mtu=67),)}, "port 'p0': MTU 67 is below 68"),
    "tunnel's MTU": (
        {"tunnels": (replace(TUNNEL, mtu=1451),)},
        "tunnel 'vx0': MTU 1451 does not fit, vxlan over an underlay of 1500 leaves 1450",
    ),
    "GRE leaves more": (
        {"tunnels": (replace(TUNNEL, kind=TunnelKind.GRE, mtu=1459),)},
        "tunnel 'vx0': MTU 1459 does not fit, gre over an underlay of 1500 leaves 1458",
    ),
    "an interface behind a tunnel": (
        {"tunnels": (TUNNEL,), "namespaces": (LEFT,), "nics": (NIC,)},
        "interface 'eth0' has MTU 1500, tunnel 'vx0' on its bridge carries 1450",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case):
    fields, message = WRONG[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - all of its text is compared
        topology(**fields)
    assert str(caught.value) == f"topology 't': {message}"


FINE = {
    "a name of 15 bytes": {"bridges": ("a-bridge-of-15b",)},
    "a patch port is no interface of the kernel": {
        "bridges": ("br0", "br1"),
        "patches": (replace(PATCH, port_a="patch-from-br0-to-br1"),),
    },
    "eth0 in two namespaces": {
        "namespaces": (LEFT, Namespace("right")),
        "nics": (NIC, replace(NIC, namespace="right", port="right0")),
    },
    "a monitor that nothing crosses to": {"ports": (P0, P1, WATCH), "crossings": STRAIGHT},
    "VLANs at the edges": {"ports": (replace(P0, vlan=Vlan(1, (4094,))),)},
    "IPv6 and its default route": {
        "namespaces": (replace(LEFT, routes=(("::/0", "2001:2::fe"),)),),
        "nics": (replace(NIC, addresses=("2001:2::1/48",)),),
    },
    "an interface that fits into the tunnel": {
        "tunnels": (TUNNEL,),
        "namespaces": (LEFT,),
        "nics": (replace(NIC, mtu=1450),),
    },
    "a bridge alone": {},
}


@pytest.mark.parametrize("case", FINE)
def test_what_can_be_built_is_not_refused(case):
    assert topology(**FINE[case]).name == "t"


@pytest.mark.parametrize(("link", "ends"), [("patch", "namespace"), ("veth", "generator")])
def test_long_chains_have_names_that_the_kernel_allows(link, ends):
    assert len(catalogue.bridge_chain(999, link=link, ends=ends).bridges) == 999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bridges": 0}, "bridges is 0: write a whole number from 1 to 1000"),
        ({"bridges": 10**9}, "bridges is 1000000000: "),
        ({"bridges": 2, "link": "wire"}, "link is 'wire': write one of patch, veth"),
        ({"bridges": 2, "ends": "host"}, "ends is 'host': write one of generator, namespace"),
    ],
)
def test_chains_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=rf"^bridge_chain\(\): {message}"):
        catalogue.bridge_chain(**arguments)
