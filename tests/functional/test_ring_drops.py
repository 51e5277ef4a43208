"""Drops of a packet socket's ring, asked for through a duplicate of the socket."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_nfvperf.adapters.net.packet_sockets import RingDrops
from pytest_nfvperf.adapters.net.threads import in_own_thread
from tests.functional.ovs_support import MACS, frame, frames_on, needs_root

pytestmark = needs_root

CHILD = """
import socket, struct
unbound = socket.socket(44, socket.SOCK_RAW)  # AF_XDP: one that does not tell its name
ring = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
ring.setsockopt(263, 10, 1)  # PACKET_VERSION: TPACKET_V2
ring.setsockopt(263, 5, struct.pack("IIII", 4096, 1, 2048, 2))  # PACKET_RX_RING: two frames
ring.bind(("lo", 0x88B5))
plain = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
plain.bind(("lo", 0x88B5))
print("open", flush=True)
input()
"""


def test_frames_that_found_no_room_are_summed_up() -> None:
    """Steps: seven frames, and then three, to a ring of two that nobody reads. Verify: 5 and 8 drops; others are 0."""
    drops = RingDrops()
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        with frames_on("lo") as sender:
            seen = []
            for frames in (0, 7, 3, 0):
                for _ in range(frames):
                    sender.send(frame(*MACS))
                seen.append(drops.read().get("lo"))
        child.communicate(b"\n")
    assert seen == [0, 5, 8, 8]
    assert drops.read() == {}


@pytest.mark.parametrize("look", [RingDrops().read, lambda: in_own_thread(RingDrops().read)])
def test_without_a_ring_there_is_none(look: object) -> None:
    assert look() == {}  # type: ignore[operator]
