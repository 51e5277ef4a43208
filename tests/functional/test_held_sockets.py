"""Packet sockets of another process, held over its close."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.packet_sockets import held_sockets
from pytest_nfvperf.adapters.process.journal import Journal
from tests.functional.ovs_support import needs_root, until

pytestmark = needs_root

CHILD = """
import socket
held = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(20)]
for number, one in enumerate(held):
    one.bind(("lo" if number else "other", 3))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("open", flush=True)
input()
for one in held:
    one.close()
print("closed", flush=True)
input()
"""


@pytest.fixture
def space(journal: Journal) -> Iterator[LiveNamespace]:
    made = LiveNamespace(journal, "held")
    made.run(["ip", "link", "add", "other", "type", "veth"])
    yield made
    made.close()


def packet_sockets(space: LiveNamespace) -> int:
    return len(space.run(["cat", "/proc/net/packet"]).splitlines()) - 1


def test_sockets_of_one_interface_stay_until_they_are_closed_here(space: LiveNamespace) -> None:
    """Steps: hold a process's sockets on lo; let it close all. Verify: those on lo stay, the other goes; then none."""
    argv = ["nsenter", f"--net={space.path}", sys.executable, "-c", CHILD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with held_sockets(child.pid, {"lo", "gone"}) as held:
            assert len(held) == 19
            assert packet_sockets(space) == 20
            print(file=child.stdin, flush=True)
            assert child.stdout.readline() == "closed\n"
            assert packet_sockets(space) == 19
        assert until(lambda: packet_sockets(space) == 0)
        child.communicate("\n")
    assert child.returncode == 0


def test_a_process_that_is_gone_holds_nothing() -> None:
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    with held_sockets(int(child.stdout), {"lo"}) as of_child, held_sockets(1, ()) as of_none:
        assert len(of_child) == 0
        assert len(of_none) == 0
