"""What an overlay between two nodes costs a packet (S3): VM to VM through a VLAN, VXLAN, Geneve and GRE."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    compares,
    sweep,
    vm_to_vm,
)

OVERLAYS = ("none", "vxlan", "geneve", "gre")
CASES: dict[str, Topology] = {name: vm_to_vm(name) for name in OVERLAYS}
CASES |= {f"{name}-ipv6": vm_to_vm(name, ip=6) for name in OVERLAYS if name != "none"}
"""Overlays over IPv4, and over IPv6."""


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="vm-to-vm")
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("overlay", CASES, quick=("none", "vxlan", "gre"))
def test_overlay_cost(overlay: Sequence[str], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate from a VM on one node to a VM on the other, one way; sizes are those of the VM's frame.

    Steps: for each overlay in turn build two nodes with an underlay between; learn; warm up; offer more than it
    forwards.
    Verify: the SLA for each overlay, most of all its rate as a ratio to none.
    """
    subjects = [Subject(name, CASES[name]) for name in overlay]
    sla.check_each(study.forwarding_rate("overlay", subjects, Traffic(frame_size=frame_size, bidirectional=False)))
