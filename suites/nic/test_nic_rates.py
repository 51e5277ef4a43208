"""Throughput of a NIC against its line rate, its longest frames, and how long a burst its rings hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    Deployer,
    Dut,
    Search,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    Tuning,
    compares,
    compose,
    phy2phy,
    sweep,
)
from pytest_nfvperf.parts import endpoint, path

pytestmark = [pytest.mark.usefixtures("nics"), pytest.mark.nfv(topology="phy2phy")]

JUMBO_MTU = 9000
FRAMES = 1000


@pytest.mark.nfv_smoke
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64, 1518})
def test_line_rate(frame_size: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR in both directions at once, as a share of line rate.

    Steps: build NIC - bridge - NIC; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for this frame size.
    """
    sla.check(search.ndr_pdr(deploy(phy2phy()), Traffic(frame_size=frame_size), latency=True))


@pytest.mark.nfv(direction="unidirectional")
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_line_rate_one_way(frame_size: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR from the first NIC to the second.

    Steps: as above, in one direction.
    Verify: the SLA for this frame size and direction.
    """
    sla.check(search.ndr_pdr(deploy(phy2phy()), Traffic(frame_size=frame_size, bidirectional=False)))


@compares("datapath", ("testpmd", "dpdk"))
def test_what_ovs_costs(datapath: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate and cycles a frame of DPDK's testpmd, which is the NIC's own, and of OVS on the same NICs.

    Steps: in interleaved rounds build NIC - DUT - NIC with each; send 64-byte frames at maximum offered load.
    Verify: the SLA. Skipped where there is no testpmd.
    """
    subjects = [Subject(kind, phy2phy(), Dut(kind)) for kind in datapath]
    sla.check_each(study.forwarding_rate("datapath", subjects, Traffic()))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="jumbo")
@sweep("frame_size", [2048, 4096, 9018], quick={9018})
def test_jumbo_line_rate(frame_size: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR of frames above 1518 bytes, with an MTU of 9000.

    Steps: build NIC - bridge - NIC with that MTU; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for this frame size.
    """
    sla.check(search.ndr_pdr(deploy(with_mtu("jumbo", JUMBO_MTU)), Traffic(frame_size=frame_size)))


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("mtu", [1500, JUMBO_MTU])
def test_longest_frame(mtu: int, tagged: bool, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Frames as long as the MTU allows come through whole: a VLAN tag makes them 4 bytes longer, and still pass.

    Steps: build NIC - bridge - NIC with that MTU; learn; one trial at a calm load.
    Verify: the SLA's ``loss_ratio``.
    """
    headers = Ether() / Dot1Q(vlan=100) / IP() / UDP() if tagged else None
    traffic = Traffic(frame_size=mtu + (22 if tagged else 18), packet=headers)
    sla.check(search.loss_of(deploy(with_mtu(f"mtu-{mtu}", mtu)), traffic, FRAMES))


@sweep("descriptors", [256, 512, 1024, 2048, 4096], quick={1024})
def test_bursts(descriptors: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Longest burst at line rate without loss (RFC 9004), by the length of the NIC's rings.

    Steps: build NIC - bridge - NIC with so many receive and transmit descriptors; learn; warm up; bisect the length of
    the burst; repeat.
    Verify: the SLA's ``back_to_back_frames``.
    """
    rings = Dut(tuning=Tuning(rx_descriptors=descriptors, tx_descriptors=descriptors))
    sla.check(search.back_to_back(deploy(phy2phy(), dut=rings), Traffic(frame_size=64)))


def with_mtu(name: str, mtu: int) -> Topology:
    """Port - bridge - port, whose ports have this MTU."""
    ports = (endpoint(port, "br0", mtu=mtu) for port in ("p0", "p1"))
    return compose(name, *ports, path("p0", "p1"))
