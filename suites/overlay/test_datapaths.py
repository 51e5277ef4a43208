"""VM to VM over two nodes by datapath, as S3 compared them: the same test, in Mpps and % of 10 GbE."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    Dut,
    SlaCheck,
    Study,
    Subject,
    Traffic,
    compares,
    sweep,
    vm_to_vm,
)

DATAPATHS = ("dpdk", "netdev")
TEN_GBPS = 10e9


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan")
@sweep("frame_size", RFC2544_FRAME_SIZES)
@compares("datapath", DATAPATHS)
def test_datapaths(datapath: Sequence[str], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate over VXLAN on an underlay of 10 Gbps, one way; sizes are those of the VM's frame.

    Steps: for each datapath in turn build two nodes with an underlay between; learn; warm up; offer what the underlay
    carries, or the most that the generator can.
    Verify: the SLA for each datapath; its rate as a ratio to DPDK's, and its share of line rate, are told.
    """
    topology = vm_to_vm("vxlan", line_rate_bps=TEN_GBPS)
    subjects = [Subject(kind, topology, Dut(kind)) for kind in datapath]
    sla.check_each(study.forwarding_rate("datapath", subjects, Traffic(frame_size=frame_size, bidirectional=False)))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan")
@sweep("frame_size", RFC2544_FRAME_SIZES)
@compares("datapath", ("system", "dpdk"))
def test_kernel_against_userspace(datapath: Sequence[str], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """S3's first question: both nodes on the kernel's datapath, and both with DPDK.

    Steps: as test_datapaths.
    Verify: the SLA: DPDK forwards more than the kernel; each rate is also told as a share of line rate.
    """
    topology = vm_to_vm("vxlan", line_rate_bps=TEN_GBPS)
    subjects = [Subject(kind, topology, Dut(kind)) for kind in datapath]
    sla.check_each(study.forwarding_rate("datapath", subjects, Traffic(frame_size=frame_size, bidirectional=False)))
