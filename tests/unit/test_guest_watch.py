"""A guest that hangs at its start is told from one that is slow: on real processes, without booting one."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.vnf.guest import GuestWatch, HungGuestError, ask_status, connection, wanted_cpu_s


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Any]:
    """Starts Python code as if it were QEMU; returns what watches it and the file that it would print to."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> tuple[GuestWatch, Path]:
        started.append(process := subprocess.Popen([sys.executable, "-c", code]))
        log = tmp_path / "qemu.log"
        qemu: Any = SimpleNamespace(pid=process.pid, name="QEMU of VNF vm1", log=log, log_tail=lambda: "its log")
        console = tmp_path / "console"
        return GuestWatch(qemu, [console], [tmp_path / "v.sock"], tmp_path / "monitor", hung_s=2.0), console

    yield start
    for process in started:
        process.kill()
        process.wait()


def look_for(watch: GuestWatch, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        watch.look(0)
        time.sleep(0.2)


def test_silent_and_idle_it_hangs_and_its_sockets_are_told(watch: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "v.sock"))
        listener.listen()
        watching, _ = watch("import time; time.sleep(60)")
        with pytest.raises(
            HungGuestError, match=r"^QEMU of VNF vm1 hangs: for 2 s it printed nothing and used no CPU"
        ) as told:
            look_for(watching, 20.0)
    assert not told.value.printed
    assert told.value.evidence["vhost-user"] == f"{tmp_path / 'v.sock'}: nobody has connected"
    assert "does not answer" in told.value.evidence["QEMU's monitor"]


def test_silent_but_busy_it_is_slow(watch: Any) -> None:
    watching, _ = watch("while True: pass")
    look_for(watching, 5.0)


def test_idle_after_it_had_printed_it_hangs_and_is_not_for_another_start(watch: Any) -> None:
    watching, console = watch("import time; time.sleep(60)")
    console.write_text("Linux version 6.1\n")
    with pytest.raises(HungGuestError) as told:
        look_for(watching, 20.0)
    assert told.value.printed


def test_a_connection_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    assert connection(path) == "nobody listens"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen()
        client.connect(str(path))
        with listener.accept()[0]:
            assert connection(path) == "connected"


def test_who_is_gone_wants_nothing_and_answers_nothing(tmp_path: Path) -> None:
    assert wanted_cpu_s(2**22 + 1) == 0.0
    assert ask_status(tmp_path / "none").startswith("does not answer: ")
