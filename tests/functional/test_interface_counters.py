"""The kernel's counters of interfaces, on a veth pair of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.net.interface_counters import Counters, read_interfaces, read_softnet
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from tests.functional.ovs_support import frame, needs_root

pytestmark = needs_root
FRAME = frame("02:00:00:00:00:02", "02:00:00:00:00:01").ljust(500, b"x")


@pytest.fixture
def pair(journal: Journal) -> Iterator[Path]:
    """A namespace with the veth pair left - right; left sends 1 Mbit/s with room for three frames."""
    namespace = LiveNamespace(journal, "count")
    run(["ip", "-n", namespace.name, "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    for name in ("left", "right"):
        run(["ip", "-n", namespace.name, "link", "set", name, "up"])
    yield namespace.path
    namespace.close()


def send(count: int) -> tuple[Counters, Counters]:
    """Counters before and after sending to a socket that holds a few frames and is not read."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) as receiver:
        receiver.bind(("right", 0x88B5))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("left", 0))
            before = read_interfaces()
            for _ in range(count):
                try:
                    sender.send(FRAME)
                except OSError:  # the queue is full
                    continue
            return before, read_interfaces()


def test_frames_that_a_socket_had_no_room_for_are_counted_at_its_interface(pair: Path) -> None:
    before, after = inside(pair, lambda: send(50))
    came = after["right"]["rx_packets"] - before["right"]["rx_packets"]
    dropped = after["right"]["socket_drops"] - before["right"]["socket_drops"]
    assert came >= 50
    assert 40 <= dropped < came
    assert after["left"]["tx_packets"] - before["left"]["tx_packets"] >= 50


def test_frames_that_a_queue_had_no_room_for_are_counted_at_its_interface(pair: Path) -> None:
    shape = ["root", "tbf", "rate", "1mbit", "burst", "2000", "limit", "2000"]
    run(["ip", "netns", "exec", pair.name, "tc", "qdisc", "replace", "dev", "left", *shape])
    before, after = inside(pair, lambda: send(50))
    dropped = after["left"]["qdisc_drops"] - before["left"]["qdisc_drops"]
    assert 30 <= dropped < 50
    assert after["left"]["tx_packets"] - before["left"]["tx_packets"] < 20


def test_the_backlog_is_counted_for_the_machine(tmp_path: Path) -> None:
    assert read_softnet().keys() == {"dropped", "time_squeeze"}
    table = tmp_path / "softnet_stat"
    table.write_text("00000010 00000002 00000003 0\n00000010 0000000a 00000001 0\n")
    assert read_softnet(table) == {"dropped": 12, "time_squeeze": 4}
    assert read_softnet(tmp_path / "none") == {}
