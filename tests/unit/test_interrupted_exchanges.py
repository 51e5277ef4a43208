"""What a signal breaks off or holds up between a request and its answer.

What its handler breaks off: the next request gets its own answer. pytest-timeout raises from SIGALRM's handler, Ctrl-C
from SIGINT's; neither is an Exception. What a stop holds up (Ctrl-Z, a frozen container): the answer counts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.ovs.ovsdb import JsonRpc
from pytest_nfvperf.adapters.process.process import process_state, wait_until
from pytest_nfvperf.features.routing.bird import BirdControl
from pytest_nfvperf.features.routing.frr import Vty
from pytest_nfvperf.model.errors import GeneratorError

ENGINE = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "slow":
        time.sleep(1.5)
    print(json.dumps({"id": request["id"], "ok": True, "of": request["cmd"]}), flush=True)
"""
AFTER_S = 0.5  # a busy machine may take a tenth of a second from one line to the next


class LimitError(BaseException):
    """As pytest's own Failed: no Exception, so that nobody catches it by accident."""


@contextmanager
def limit(after_s: float = AFTER_S) -> Iterator[None]:
    """A time limit as pytest-timeout sets it."""

    def expired(number: int, frame: object) -> None:
        raise LimitError

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        with pytest.raises(LimitError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine([sys.executable, "-c", ENGINE], tmp_path / "engine.log")
    yield made
    made.close()


@pytest.mark.parametrize("awaits", ["command", "read"])
def test_an_engine_whose_command_was_abandoned_is_ended(engine: Engine, awaits: str) -> None:
    """It would send on to the end of its trial; its answer would be taken for that to the next command."""
    engine.command("quick", 5.0)
    with limit():
        if awaits == "command":
            engine.command("slow", 5.0)
        else:
            engine.send("slow", 5.0)
            engine.read("an interval", 5.0)

    with pytest.raises(GeneratorError, match=r"the generator is gone: it was interrupted during .*"):
        engine.command("quick", 5.0)
    assert not Path(f"/proc/{engine.pid}").exists()


Serve = Callable[[socket.socket], None]


def serving(path: Path, serve: Serve) -> threading.Thread:
    """Answers each connection in turn, until the listening socket is gone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(60)

    def accept() -> None:
        with listener:
            for _ in range(2):
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    return thread


def answers(reply: Callable[[bytes], bytes], greeting: bytes = b"") -> Serve:
    """Replies to every request; to one with "slow" in it after the limit."""

    def serve(connection: socket.socket) -> None:
        with connection:
            if greeting:
                connection.sendall(greeting)
            while request := connection.recv(1 << 16):
                if b"slow" in request:
                    threading.Event().wait(2 * AFTER_S)
                try:
                    connection.sendall(reply(request))
                except OSError:
                    return

    return serve


def rpc_reply(request: bytes) -> bytes:
    asked = json.loads(request)
    return json.dumps({"id": asked["id"], "error": None, "result": asked["method"]}).encode()


def test_the_next_request_to_a_daemon_of_ovs_gets_its_own_answer(tmp_path: Path) -> None:
    serving(tmp_path / "ctl", answers(rpc_reply))
    rpc = JsonRpc(tmp_path / "ctl", "ovs-vswitchd")
    with limit():
        rpc.request("slow", [])

    assert rpc.request("quick", []) == "quick"
    rpc.close()


def test_the_next_command_to_a_daemon_of_frr_gets_its_own_answer(tmp_path: Path) -> None:
    serving(tmp_path / "vty", answers(lambda request: request.rstrip(b"\0") + b"\0\0\0\0"))
    vty = Vty(tmp_path / "vty", "bgpd")
    with limit():
        vty.run("slow")

    assert vty.run("quick") == "quick"
    vty.close()


def test_the_next_command_to_bird_gets_its_own_answer(tmp_path: Path) -> None:
    serving(tmp_path / "ctl", answers(lambda request: b"0000 " + request, b"0001 BIRD ready.\n"))
    control = BirdControl(tmp_path / "ctl")
    with limit():
        control.run("slow")

    assert control.run("quick") == ["quick"]
    control.close()


WAITER = """
import json, sys, threading
from pathlib import Path
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.ovs.ovsdb import JsonRpc
from pytest_nfvperf.adapters.process.process import run, wait_until

place, program = Path(sys.argv[1]), sys.argv[2]
engine = Engine([sys.executable, "-c", program], place / "log")
engine.command("quick", 60.0)
waits = {
    "engine": lambda: engine.command("slow", 2.0)["of"],
    "daemon": lambda: JsonRpc(place / "ctl", "ovs-vswitchd").request("slow", [], 2.0),
    "program": lambda: run(["sh", "-c", "sleep 1; echo slow"], deadline_s=2.0).strip(),
    "state": lambda: wait_until((place / "state").exists, "a state", 2.0) and "slow",
}
ended = {}

def note(name):
    try:
        ended[name] = waits[name]()
    except Exception as error:
        ended[name] = error

threads = [threading.Thread(target=note, args=(name,)) for name in waits]
for thread in threads:
    thread.start()
print(engine.pid, flush=True)
for thread in threads:
    thread.join()
print(json.dumps(ended, default=str), flush=True)
engine.close()
"""
WORKING = ENGINE.replace("time.sleep(1.5)", "[time.sleep(0.05) for _ in range(20)]")


@pytest.mark.parametrize("others_too", [False, True], ids=["ctrl-z", "frozen container"])
def test_an_answer_counts_that_came_while_this_process_was_stopped(tmp_path: Path, others_too: bool) -> None:
    """Steps: wait for four answers, due after 1 s, for at most 2 s; be stopped for 3 s meanwhile, the engine too where
    a container is frozen. Verify: all four are there."""
    serving(tmp_path / "ctl", answers(rpc_reply))
    command = [sys.executable, "-c", WAITER, str(tmp_path), WORKING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as waiter:
        assert waiter.stdout is not None
        stopped = [waiter.pid, int(waiter.stdout.readline())][: 1 + others_too]
        threading.Event().wait(0.3)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(process_state(pid)[:1] == "T" for pid in stopped), "all to be stopped", 10)
        threading.Event().wait(1)
        (tmp_path / "state").touch()
        threading.Event().wait(2)
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        said, _ = waiter.communicate()
    last = JsonRpc(tmp_path / "ctl", "ovs-vswitchd")
    assert last.request("quick", []) == "quick"
    last.close()
    assert json.loads(said) == dict.fromkeys(["engine", "daemon", "program", "state"], "slow")
