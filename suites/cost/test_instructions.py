"""Instructions a packet (virtual time): what does OVS spend on a frame, and what does each further bridge add?

These tests run with ``--nfv-virtual-time`` only. The count repeats to a percent in userspace, and to a part in a
thousand in the kernel, on a machine that others use too: it shows a change that no rate would. It knows neither caches
nor contention.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, Traffic, bridge_chain, compares, sweep

pytestmark = pytest.mark.nfv_virtual_time

FRAME_SIZES = (64, 512, 1518)
DATAPATHS = ("netdev", "dpdk", "system")
CHAINS = (1, 2, 4)


@pytest.mark.nfv(topology="chain", link="patch", bridges="1")
@sweep("datapath", DATAPATHS, quick={"dpdk"})
def test_one_bridge(datapath: str, study: Study, sla: SlaCheck) -> None:
    """Instructions a packet of one bridge: the shortest test to compare versions by, and to bisect them.

    Steps: build it anew in each round; learn; send bursts, each after the one before was forwarded.
    Verify: measured and reported; no limit is shipped.
    """
    sla.check_each(study.instructions_per_packet("bridges", [Subject("1", bridge_chain(1), Dut(datapath))], Traffic()))


@pytest.mark.nfv(topology="chain", link="patch")
@sweep("datapath", DATAPATHS, quick=DATAPATHS)
@sweep("frame_size", FRAME_SIZES, quick={64})
@compares("bridges", CHAINS, quick=(1, 4))
def test_patch_chain(bridges: Sequence[int], frame_size: int, datapath: str, study: Study, sla: SlaCheck) -> None:
    """Instructions a packet of chains joined by patch ports, in OVS's userspace datapath and in the kernel's.

    Steps: in interleaved rounds build each chain anew; learn; send bursts, each after the one before was forwarded.
    Verify: the SLA: patch ports are resolved when a flow is translated, so a further bridge costs the kernel nothing.
    """
    chains = [Subject(str(number), bridge_chain(number, link="patch"), Dut(datapath)) for number in bridges]
    sla.check_each(study.instructions_per_packet("bridges", chains, Traffic(frame_size=frame_size)))


@pytest.mark.nfv(topology="chain", link="veth")
@sweep("datapath", DATAPATHS, quick=DATAPATHS)
@compares("bridges", CHAINS, quick=(1, 2))
def test_veth_chain(bridges: Sequence[int], datapath: str, study: Study, sla: SlaCheck) -> None:
    """Instructions a packet of chains joined by veth pairs, where each further bridge is another lookup.

    Steps: as test_patch_chain.
    Verify: measured and reported; no limit is shipped.
    """
    chains = [Subject(str(number), bridge_chain(number, link="veth"), Dut(datapath)) for number in bridges]
    sla.check_each(study.instructions_per_packet("bridges", chains, Traffic()))
