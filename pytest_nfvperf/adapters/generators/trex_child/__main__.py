"""``python -m pytest_nfvperf.adapters.generators.trex_child``: JSON lines in, JSON lines out.

Ends this process when nobody is left who would release its ports.

The process that the parent starts only waits: PyPI's client library answers a fault of its subscriber
with SIGTERM to its parent's process group, which must not be pytest's. The worker below it does the work.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn, TextIO

from pytest_nfvperf.adapters.generators.trex_child.failures import Failure, Stopped
from pytest_nfvperf.adapters.generators.trex_child.session import TrexSession, about, refused

RELEASE_DEADLINE_S = 12.0
"""How long a worker may try to stop its traffic and release its ports before it ends all the same."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_CODE_GIVEN_UP = 3


def split() -> None:
    """Fork: the parent waits for the child, which returns from here as the worker."""
    leader = os.getpid()
    die_with_parent(signal.SIGKILL)
    worker = os.fork()
    if worker:
        _wait_for(worker)
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _stop)
    if os.getppid() != leader:  # it ended before prctl took hold
        os._exit(_CODE_GIVEN_UP)


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the thread that made this process ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def end_soon() -> None:
    """Interrupt the main thread so that it releases what it holds; end by force where it hangs."""
    give_up_later()
    os.kill(os.getpid(), signal.SIGTERM)


def give_up_later() -> None:
    """End by force after the deadline, whatever hangs by then."""
    timer = threading.Timer(RELEASE_DEADLINE_S, os._exit, (_CODE_GIVEN_UP,))
    timer.daemon = True
    timer.start()


def _wait_for(worker: int) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for stream in (sys.stdin, sys.stdout):
        os.close(stream.fileno())  # else nobody would see the worker close its own
    _, status = os.waitpid(worker, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows must not be interrupted again
    raise Stopped


def main() -> int:
    """Serve until ``quit``, the end of input, or the end of the parent."""
    split()
    answers = _own_stdout()
    session = TrexSession()
    try:
        _serve(session, _requests(), answers)
    except Stopped:
        give_up_later()
    finally:
        _close(session)
    return 0


def _own_stdout() -> TextIO:
    """The library prints: what it prints goes to the log, the answers to where they belong."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _requests() -> queue.SimpleQueue[str]:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        end_soon()

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines


def _serve(session: TrexSession, requests: queue.SimpleQueue[str], answers: TextIO) -> None:
    commands: Mapping[str, Callable[..., dict[str, Any]]] = {
        "hello": session.hello,
        "library": about,
        "attach": session.attach,
        "detach": session.detach,
        "links": session.links,
        "learn": session.trial,
        "trial": session.trial,
    }
    while True:
        request = json.loads(requests.get())
        number, name = request.pop("id"), request.pop("cmd")
        if name == "quit":
            _close(session)
            _answer(answers, {"id": number, "ok": True})
            return
        _answer(answers, {"id": number, **_result(commands, name, request)})


def _result(commands: Mapping[str, Callable[..., dict[str, Any]]], name: str, request: Mapping[str, Any]) -> Any:
    try:
        if name not in commands:
            raise Failure("unknown_command", f"there is no command {name!r}")
        return {"ok": True, **commands[name](**request)}
    except Stopped:
        raise
    # What a library of any age raises: it is named in the answer, with its trace in the log.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        traceback.print_exc()
        return refused(error)


def _answer(answers: TextIO, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _close(session: TrexSession) -> None:
    """A server that does not take the farewell has lost us anyway; the trace is in the log."""
    try:
        session.close()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - see _result
        traceback.print_exc()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        code = main()
        # The library's threads and sockets have no end of their own.
        sys.stderr.flush()
        os._exit(code)
