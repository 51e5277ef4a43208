"""Instructions a packet (virtual time) from a VM on one node to a VM on the other: what does the overlay add (S3)?

Both nodes' work counts: encapsulation on the one, decapsulation on the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, Traffic, compares, sweep, vm_to_vm

pytestmark = pytest.mark.nfv_virtual_time

DATAPATHS = ("netdev", "dpdk", "system")
SMALL_FRAMES = (64, 128, 256)


@pytest.mark.nfv(topology="vm-to-vm")
@sweep("datapath", DATAPATHS, quick=DATAPATHS)
@compares("overlay", ("none", "vxlan", "geneve", "gre"), quick=("none", "vxlan"))
def test_overlay(overlay: Sequence[str], datapath: str, study: Study, sla: SlaCheck) -> None:
    """Instructions a packet by overlay, in OVS's userspace datapath and in the kernel's.

    Steps: in interleaved rounds build two nodes with each overlay; learn; send bursts, each after the one before.
    Verify: the SLA: an overlay costs more than none.
    """
    subjects = [Subject(name, vm_to_vm(name), Dut(datapath)) for name in overlay]
    sla.check_each(study.instructions_per_packet("overlay", subjects, Traffic(bidirectional=False)))


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan")
@compares("datapath", DATAPATHS, quick=("system", "dpdk"))
def test_datapath(datapath: Sequence[str], study: Study, sla: SlaCheck) -> None:
    """Instructions a packet by datapath, from VM to VM in a VXLAN (S3's comparison, where rates cannot be had).

    Steps: in interleaved rounds build two nodes with each datapath; learn; send bursts, each after the one before.
    Verify: the SLA: OVS with DPDK spends less on a frame than the kernel does.
    """
    subjects = [Subject(kind, vm_to_vm("vxlan"), Dut(kind)) for kind in datapath]
    sla.check_each(study.instructions_per_packet("datapath", subjects, Traffic(bidirectional=False)))


@pytest.mark.nfv(topology="vm-to-vm", overlay="vxlan")
@sweep("datapath", ("dpdk", "system"), quick={"dpdk"})
@compares("frame_size", SMALL_FRAMES)
def test_small_frames(frame_size: Sequence[int], datapath: str, study: Study, sla: SlaCheck) -> None:
    """Instructions a packet by frame size: a frame costs what its headers cost (S3's rates are flat over small sizes).

    Steps: in interleaved rounds build two nodes; learn; send bursts of frames of one size, each after the one before.
    Verify: the SLA: a frame of 256 bytes takes little more than one of 64.
    """
    subjects = [
        Subject(str(size), vm_to_vm("vxlan"), Dut(datapath), Traffic(frame_size=size, bidirectional=False))
        for size in frame_size
    ]
    sla.check_each(study.instructions_per_packet("frame_size", subjects, Traffic(bidirectional=False)))
