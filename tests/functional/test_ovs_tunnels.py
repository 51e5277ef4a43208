"""Tunnels, userspace TSO and AF_XDP on a private OVS, with packets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.ovs.installation import lacks
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.ports import OuterPath, outer_path
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import CHAIN_NETWORK, bridge_chain
from pytest_nfvperf.model.topology.links import Tunnel, TunnelKind
from pytest_nfvperf.model.topology.ports import Namespace, Nic, Offloads, Port, PortKind, PortRole
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
    testbed,
    with_nics,
)

pytestmark = needs_root
MORE = pytest.mark.thorough("another kind")
MEGABYTE = bytes(range(256)) * 4096
VXLAN_PORT = 4789  # RFC 7348


@pytest.fixture(scope="module")
def netdev(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", "netdev") as ovs:
        yield ovs


def overlay(kind: TunnelKind = TunnelKind.VXLAN) -> Topology:
    """Namespace - br-int - tunnel - br-phy - namespace."""
    return Topology(
        name="overlay",
        bridges=("br-int", "br-phy"),
        ports=(),
        crossings=(),
        directions=(),
        tunnels=(Tunnel("br-int", "tun0", kind, "172.31.0.1", "172.31.0.2", key=42),),
        namespaces=(Namespace("pod"), Namespace("far")),
        nics=(
            Nic("pod", "eth0", "br-int", "pod", addresses=("10.1.0.1/24",), mtu=1400),
            Nic("far", "eth0", "br-phy", "far", addresses=("172.31.0.2/24",)),
        ),
    )


def test_tcp_passes_a_vxlan_tunnel_to_a_namespace_that_ends_it(netdev: OvsDatapath) -> None:
    """Steps: the kernel of the far namespace ends the tunnel. Verify: a megabyte arrives, with VNI 42 said."""
    built = netdev.build(overlay())
    built.wait_ready(5)
    with IPRoute(netns=built.netns("far")) as links:
        under = links.link_lookup(ifname="eth0")[0]
        properties = {"vxlan_id": 42, "vxlan_link": under, "vxlan_group": "172.31.0.1", "vxlan_port": VXLAN_PORT}
        links.link("add", kind="vxlan", ifname="vx", mtu=1400, **properties)
        index = links.link_lookup(ifname="vx")[0]
        links.addr("add", index=index, address="10.1.0.2", prefixlen=24)
        links.link("set", index=index, state="up")
    assert send_tcp(built.netns("pod"), built.netns("far"), "10.1.0.2", MEGABYTE) == MEGABYTE
    text = built.configuration()
    assert "port tun0: type=vxlan" in text
    assert "key=42 local_ip=172.31.0.1 remote_ip=172.31.0.2" in text
    built.close()


@pytest.mark.parametrize("kind", [TunnelKind.GENEVE, pytest.param(TunnelKind.GRE, marks=MORE)])
def test_other_encapsulations_are_taken_by_ovs(netdev: OvsDatapath, kind: TunnelKind) -> None:
    built = netdev.build(overlay(kind))
    built.wait_ready(5)
    assert f"port tun0: type={kind}" in built.configuration()
    built.close()


def test_the_underlay_is_the_bridge_of_the_far_end() -> None:
    assert outer_path(overlay(), overlay().tunnels[0]) == OuterPath("br-phy", "172.31.0.1/24")


def test_an_underlay_of_a_generator_is_told_its_mac() -> None:
    port = Port("p0", "br-phy", PortRole.ENDPOINT, MACS[0])
    with_port = dataclasses.replace(overlay(), nics=overlay().nics[:1], ports=(port,))
    assert outer_path(with_port, with_port.tunnels[0]) == OuterPath("br-phy", "172.31.0.1/24", MACS[0])


def test_a_tunnel_to_nowhere_is_named(netdev: OvsDatapath) -> None:
    nowhere = dataclasses.replace(overlay(), nics=overlay().nics[:1])
    with pytest.raises(ConfigError, match=r"tunnel 'tun0': no bridge of topology 'overlay' leads to 172\.31\.0\.2;"):
        netdev.build(nowhere)


@pytest.mark.parametrize("kind", [pytest.param("dpdk", marks=[needs_hugepages, MORE]), "netdev"])
@pytest.mark.parametrize("link", [pytest.param("patch", marks=MORE), "veth"])
def test_userspace_tso_lets_namespaces_keep_their_offloads(journal: Journal, kind: str, link: str) -> None:
    """Steps: OVS with userspace TSO, ends with TSO on. Verify: TCP arrives whole, and TSO is read back as on."""
    dut = Dut(kind, userspace_tso=True)
    lacking = lacks(testbed(kind), dut)
    if lacking is not None:
        pytest.skip(lacking)
    ovs = OvsDatapath.start(testbed(kind), journal, dut, name="tso")
    try:
        built = ovs.build(with_nics(bridge_chain(2, link=link, ends="namespace"), offloads=Offloads(tso=True)))
        built.wait_ready(10)
        assert "offloads of eth0" in built.configuration()
        assert "tso=on" in built.configuration()
        assert "userspace-tso-enable=true" in built.configuration()
        assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", MEGABYTE) == MEGABYTE
    finally:
        ovs.close()


def af_xdp() -> Topology:
    plain = phy2phy()
    return dataclasses.replace(
        plain, ports=tuple(dataclasses.replace(port, kind=PortKind.AF_XDP) for port in plain.ports)
    )


@needs_hugepages
def test_frames_pass_af_xdp_ports_by_ovs_own_driver_or_dpdks(journal: Journal) -> None:
    with started(journal, "dpdk", "xdp") as ovs:
        built = ovs.build(af_xdp())
        built.wait_ready(10)
        left, right = far_ends(built)
        with frames_on(left) as sender, frames_on(right) as receiver:
            sent = frame(MACS[1], MACS[0], b"xdp")
            sender.send(sent)
            assert receiver.recv(2048) == sent
        driver = "afxdp" if "afxdp" in ovs.instance.db.root.iface_types else "dpdk"
        assert f"port p0: type={driver}" in built.configuration()


def test_an_ovs_without_af_xdp_says_what_it_has(netdev: OvsDatapath) -> None:
    if "afxdp" in netdev.instance.db.root.iface_types:
        pytest.skip("this OVS has the interface type afxdp")
    with pytest.raises(ConfigError, match=r"port 'p0' is AF_XDP, which this OVS was built without: it has .*vxlan"):
        netdev.build(af_xdp())
