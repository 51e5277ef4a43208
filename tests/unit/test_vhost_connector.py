"""OVS is told where to connect, by a database that takes its time."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import VhostConnector
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import DeadlineError


class SlowDatabase:
    """Speaks as ovsdb-server does to one client, so many seconds late; ``asked``: what it was told."""

    def __init__(self, path: Path) -> None:
        self.late_s = 0.0
        self.asked: list[str] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listening.accept()
        with client:
            while received := client.recv(1 << 16):
                request = json.loads(received)
                self.asked.append(request["params"][1]["where"][0][2])
                time.sleep(self.late_s)
                reply = {"id": request["id"], "result": [{"count": 1}], "error": None}
                try:
                    client.sendall(json.dumps(reply).encode())
                except BrokenPipeError:
                    return

    def close(self) -> None:
        self._listening.close()
        self._thread.join()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SlowDatabase]:
    made = SlowDatabase(tmp_path / "db.sock")
    yield made
    made.close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Path]:
    """A vhost-user socket that somebody listens on."""
    path = tmp_path / "p0.sock"
    with socket.socket(socket.AF_UNIX) as far_end:
        far_end.bind(str(path))
        far_end.listen()
        yield path


def test_a_slow_database_is_waited_for(database: SlowDatabase, port: Path, tmp_path: Path) -> None:
    database.late_s = 0.3
    connector = VhostConnector(tmp_path / "db.sock", {"p0": port}, deadline_s=5.0)
    connector.start()
    wait_until(lambda: not connector._thread.is_alive(), "the connector to be done", 5)
    connector.check()
    connector.close()
    assert database.asked == ["p0"]


def test_a_far_end_in_another_namespace_is_found_in_its_list(
    database: SlowDatabase, port: Path, tmp_path: Path
) -> None:
    ours, gone = Path(f"/proc/{os.getpid()}/net/unix"), Path("/proc/0/net/unix")
    connector = VhostConnector(tmp_path / "db.sock", {"p0": port}, tables=(gone, ours))
    connector.start()
    wait_until(lambda: not connector._thread.is_alive(), "the connector to be done", 5)
    connector.check()
    connector.close()
    assert database.asked == ["p0"]


def test_one_that_does_not_answer_is_said_with_what_was_awaited(
    database: SlowDatabase, port: Path, tmp_path: Path
) -> None:
    database.late_s = 0.5
    connector = VhostConnector(tmp_path / "db.sock", {"p0": port}, deadline_s=0.1)
    connector.start()
    wait_until(lambda: not connector._thread.is_alive(), "the connector to give up", 5)
    connector.close()
    with pytest.raises(
        DeadlineError, match=rf"waited 0\.1 s for ovsdb-server to take where interface 'p0' connects, {port}: it does"
    ):
        connector.check()


def test_closing_does_not_wait_for_the_answer(database: SlowDatabase, port: Path, tmp_path: Path) -> None:
    database.late_s = 1.0
    connector = VhostConnector(tmp_path / "db.sock", {"p0": port})
    connector.start()
    wait_until(lambda: database.asked, "the database to be asked", 5)
    began = time.monotonic()
    connector.close()
    assert not connector._thread.is_alive()
    assert time.monotonic() - began < database.late_s
