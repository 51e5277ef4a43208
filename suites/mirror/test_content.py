"""Copies on the host, byte for byte: a mirror changes nothing, makes nothing twice and leaves nothing out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_nfvperf import (
    CopyTrials,
    Deployer,
    DutFailure,
    InconclusiveError,
    LiveTopology,
    Traffic,
    check_frames,
    mirror_output,
    vm_chain,
)
from pytest_nfvperf.extend import Capture
from pytest_nfvperf.parts import mirror, namespace

CALM_FPS = 2_000
OUTPUT = "host-eth0"


@pytest.mark.nfv_functional
@pytest.mark.nfv(topology="vm-chain-2")
@pytest.mark.parametrize("kind", ["tap", "internal"])
@pytest.mark.parametrize("frame_size", [64, 1518])
def test_content(
    frame_size: int,
    kind: str,
    deploy: Deployer,
    copies: CopyTrials,
    capture: Callable[[LiveTopology, str], Capture],
) -> None:
    """Every copy that the host gets is the frame at its crossing, with the MAC addresses that it has there.

    Steps: build the chain with a mirror to an interface of a namespace; capture there; send at a calm load.
    Verify: by sequence numbers each frame once for each crossing; each copy byte for byte as sent (but for the
    signature's number and time); the receiver lost nothing.
    """
    host = namespace("host", "br0", kind=kind)
    live = deploy(vm_chain(2, host, mirror("all", "br0", OUTPUT)))
    check_content(live, capture(live, OUTPUT), copies, frame_size)


@pytest.mark.nfv(topology="vm-chain-2")
@pytest.mark.parametrize("frame_size", [64, 1518])
def test_content_at_a_capture_interface(
    frame_size: int,
    deploy: Deployer,
    copies: CopyTrials,
    capture_interface: Callable[[str], Capture],
) -> None:
    """As on the host, by a capture interface of a lab, cabled to the port that the copies leave by (2b).

    Steps: build the chain with a mirror to the DUT's port; capture behind it; send at a calm load.
    Verify: as on the host. It needs a plug-in's capture interface for the port.
    """
    output = mirror_output("physical")
    receiver = capture_interface(output.name)
    check_content(deploy(vm_chain(2, output, mirror("all", "br0", output.name))), receiver, copies, frame_size)


def check_content(live: LiveTopology, receiver: Capture, copies: CopyTrials, frame_size: int) -> None:
    """Every frame once for each of its three crossings, as it was there."""
    sent = Traffic(frame_size=frame_size, bidirectional=False)
    receiver.start()
    counted = copies(live, sent, load_fps=CALM_FPS)
    captured = receiver.stop()
    (direction,) = live.topology.directions
    found = check_frames(captured.samples, live.topology, direction, sent)
    if captured.lost:
        raise InconclusiveError(f"the receiver lost {captured.lost} copies itself: give it more CPU, or a calmer load")
    if found.wrong:
        raise DutFailure(f"copies differ from the frames that were sent: {'; '.join(found.wrong)}")
    for number, leg in enumerate(found.legs, 1):
        where = f"of the frames at crossing {number} of 3 ({leg.source} to {leg.destination})"
        if leg.duplicated:
            raise DutFailure(f"{leg.duplicated:,} copies {where} came twice: {counted}")
        if leg.copies != counted.expected // 3:
            raise DutFailure(f"{leg.copies:,} of {counted.expected // 3:,} copies came {where}: {counted}")
