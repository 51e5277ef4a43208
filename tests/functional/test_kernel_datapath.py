"""Chains on the kernel's own datapaths, OVS's module and the Linux bridge. `make test-kernel` runs this in a guest.

Two namespaces are the ends, as in S2; each bridge in between does MAC learning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.net.linux_bridge import BridgeDatapath
from pytest_nfvperf.adapters.ovs.installation import lacks
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.measure.hw_offload import FlowPlace
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import CHAIN_NETWORK, bridge_chain
from pytest_nfvperf.model.topology.ports import NicKind
from pytest_nfvperf.ports.datapath import Datapath
from tests.functional.ovs_support import (
    far_ends,
    frame,
    frames_on,
    needs_root,
    phy2phy,
    send_tcp,
    started_on,
    testbed,
    with_nics,
    with_vlans,
)

pytestmark = needs_root
SYSTEM, LINUX_BRIDGE = Dut("system"), Dut("linux-bridge")
MEGABYTE = bytes(range(256)) * 4096


def missing(dut: Dut) -> str | None:
    return BridgeDatapath.lacks(dut) if dut == LINUX_BRIDGE else lacks(testbed("netdev"), dut)


@pytest.fixture(scope="module", params=[SYSTEM, LINUX_BRIDGE], ids=lambda dut: str(dut.kind))
def datapath(request: pytest.FixtureRequest, journal: Journal) -> Iterator[Datapath]:
    lacking = missing(request.param)
    if lacking is not None:
        pytest.skip(lacking)
    started: Datapath
    if request.param == LINUX_BRIDGE:
        started = BridgeDatapath(journal)
    else:
        started = OvsDatapath.start(testbed("netdev"), journal, request.param, name="kernel")
    yield started
    started.close()


@pytest.fixture(autouse=True)
def nothing_stands_after(datapath: OvsDatapath | BridgeDatapath) -> Iterator[None]:
    yield
    if isinstance(datapath, BridgeDatapath):  # which is nothing but its topologies
        datapath.close()
    else:
        datapath.remove_topologies()


@pytest.mark.parametrize(
    "bridges", [2, *(pytest.param(number, marks=pytest.mark.thorough("more of the same")) for number in (1, 9))]
)
@pytest.mark.parametrize("link", ["patch", "veth"])
def test_tcp_passes_a_chain_between_namespaces(datapath: Datapath, link: str, bridges: int) -> None:
    """Steps: build the chain, send a megabyte by TCP. Verify: it arrives as it was, and links were not lost."""
    if datapath.info().kind == "linux-bridge" and link == "patch":
        pytest.skip("a Linux bridge has no patch ports")
    built = datapath.build(bridge_chain(bridges, link=link, ends="namespace"))
    built.wait_ready(10)
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", MEGABYTE) == MEGABYTE
    datapath.check_alive()
    built.close()


def test_the_kernels_own_ports_of_a_bridge_are_counted(datapath: Datapath) -> None:
    built = datapath.build(bridge_chain(1, ends="namespace"))
    built.wait_ready(10)
    counters = datapath.collectors()[0]
    before = counters.snapshot().as_dict()
    send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", MEGABYTE)
    after = counters.snapshot().as_dict()
    assert after["end0.rx_bytes"] - before["end0.rx_bytes"] > len(MEGABYTE)
    assert after["end1.tx_bytes"] - before["end1.tx_bytes"] > len(MEGABYTE)
    built.close()


def test_frames_of_a_generator_pass(datapath: Datapath) -> None:
    """Its ports are veth pairs, as on the userspace datapath without DPDK."""
    built = datapath.build(phy2phy())
    built.wait_ready(10)
    left, right = far_ends(built)
    with frames_on(left) as sender, frames_on(right) as receiver:
        sent = frame("02:00:00:00:00:02", "02:00:00:00:00:01", b"x")
        sender.send(sent)
        assert receiver.recv(2048) == sent
    built.close()


def test_an_internal_port_is_the_namespaces_interface(datapath: Datapath) -> None:
    if datapath.info().kind == "linux-bridge":
        pytest.skip("a Linux bridge has no internal ports but its own")
    chain = with_nics(bridge_chain(2, ends="namespace"), kind=NicKind.INTERNAL)
    built = datapath.build(chain)
    built.wait_ready(10)
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", MEGABYTE) == MEGABYTE
    built.close()


@pytest.mark.parametrize(("tags", "passes"), [((7, 7), True), ((7, 8), False)], ids=["same", "different"])
def test_vlans_part_a_bridge(datapath: Datapath, tags: tuple[int, int], passes: bool) -> None:
    """Only in a guest for the Linux bridge: this needs CONFIG_BRIDGE_VLAN_FILTERING."""
    chain = with_vlans(bridge_chain(1, ends="namespace"), tags)
    try:
        built = datapath.build(chain)
    except Exception as error:
        if "CONFIG_BRIDGE_VLAN_FILTERING" in str(error):
            pytest.skip(str(error))
        raise
    built.wait_ready(10)
    ends = (built.netns("end0"), built.netns("end1"))
    if passes:
        assert send_tcp(*ends, f"{CHAIN_NETWORK}.2", b"x") == b"x"
    else:
        with pytest.raises(TimeoutError):
            send_tcp(*ends, f"{CHAIN_NETWORK}.2", b"x", wait_s=0.5)
    built.close()


@pytest.mark.parametrize(
    ("policy", "place"), [("none", FlowPlace.TC), ("skip_hw", FlowPlace.TC), ("skip_sw", FlowPlace.SOFTWARE)]
)
def test_flows_that_tc_takes_are_not_in_hardware(
    datapath: Datapath, journal: Journal, policy: str, place: FlowPlace
) -> None:
    """OVS asks tc to offload, and no interface here can: tc keeps what it takes. With skip_sw it may not keep any."""
    if datapath.info().kind == "linux-bridge":
        pytest.skip("a Linux bridge has no flows to offload")
    bed = testbed("system")
    bed = replace(bed, ovs=replace(bed.ovs, hw_offload=True, tc_policy=policy))
    with started_on(bed, journal, "tc") as offloading:
        built = offloading.build(bridge_chain(1, ends="namespace"))
        built.wait_ready(10)
        send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", MEGABYTE)
        share = built.offload_share()
        built.close()
    tcp = [flow for flow in share.flows if "eth_type(0x0800)" in flow.text]
    assert len(tcp) >= 2, share
    assert {flow.place for flow in tcp} == {place}, share
    assert (share.full, share.partial, share.tc_policy) == (0, 0, policy)
