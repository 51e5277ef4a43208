"""Mirrors that select: they copy what they shall, in proportion, and to the last copy (left open by S4's author)."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_nfvperf import CopyTrials, Deployer, DutFailure, Traffic, mirror_output, vm_chain
from pytest_nfvperf.parts import mirror

VLAN = 7
FRAME_SIZE, FCS_BYTES = 512, 4
SELECTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "all": ({"select_all": True}, 3),
    "from-p0": ({"select_src": ("p0",)}, 1),
    "to-vm2": ({"select_dst": ("vm2",)}, 1),
    "from-vms": ({"select_src": ("vm1", "vm2")}, 2),
    "its-vlan": ({"select_vlan": (VLAN,)}, 3),
    "other-vlan": ({"select_vlan": (VLAN + 1,)}, 0),
    "from-p0-by-flow": ({"select_src": ("p0",), "by": "flow"}, 1),
}
"""What is selected, and at how many of the three crossings of each frame that copies it."""


@pytest.mark.nfv_functional
@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="vm-chain-2")
@pytest.mark.parametrize("selection", SELECTIONS)
def test_filters(selection: str, deploy: Deployer, copies: CopyTrials) -> None:
    """A mirror that selects ports or VLANs copies those frames alone, of a chain that each crosses the bridge thrice.

    Steps: build generator - VM1 - VM2 - generator with the mirror to VM3; learn; send tagged frames at a calm load.
    Verify: as many copies as crossings are selected, to the last one; all as they were sent; none besides.
    """
    selected, legs = SELECTIONS[selection]
    output = mirror_output("virtual")
    live = deploy(vm_chain(2, output, mirror("some", output.bridge, output.name, **selected)))
    seen = copies(live, Traffic(frame_size=128, vlan=VLAN, bidirectional=False))
    due = seen.crossings // 3 * legs
    if seen.received != due:
        raise DutFailure(f"the mirror made {seen.received:,} copies where its selection wants {due:,}: {seen}")
    if seen.corrupted or seen.truncated:
        raise DutFailure(f"copies are not as the frames were sent: {seen}")


@pytest.mark.nfv_functional
@pytest.mark.nfv(topology="vm-chain-2")
@pytest.mark.parametrize("snaplen", [64, 128, 4096])
def test_snaplen(snaplen: int, deploy: Deployer, copies: CopyTrials) -> None:
    """A snaplen cuts copies to so many bytes, and nothing else.

    Steps: build the chain with a mirror that has the snaplen; learn; send frames of 512 bytes at a calm load.
    Verify: every copy arrives; those of longer frames without their end, others whole; forwarded frames are not cut.
    """
    output = mirror_output("virtual")
    live = deploy(vm_chain(2, output, mirror("short", output.bridge, output.name, snaplen=snaplen)))
    seen = copies(live, Traffic(frame_size=FRAME_SIZE, bidirectional=False))
    cut = seen.received if snaplen < FRAME_SIZE - FCS_BYTES else 0
    if seen.received != seen.expected:
        raise DutFailure(f"the mirror is not complete: {seen}")
    if seen.truncated != cut:
        raise DutFailure(f"a snaplen of {snaplen} has to cut {cut:,} copies of {FRAME_SIZE} bytes: {seen}")
    if seen.corrupted:
        raise DutFailure(f"copies are not as the frames were sent, but for their end: {seen}")
