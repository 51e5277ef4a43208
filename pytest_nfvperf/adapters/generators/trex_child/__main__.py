"""``python -m pytest_nfvperf.adapters.generators.trex_child``: JSON lines in, JSON lines out."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from pytest_nfvperf.adapters.generators.trex_child import lifeline
from pytest_nfvperf.adapters.generators.trex_child.failures import Failure, Stopped
from pytest_nfvperf.adapters.generators.trex_child.session import Session, about, refused


def main() -> int:
    """Serve until ``quit``, the end of input, or the end of the parent."""
    lifeline.split()
    answers = _own_stdout()
    session = Session()
    try:
        _serve(session, _requests(), answers)
    except Stopped:
        lifeline.give_up_later()
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
        lifeline.end_soon()

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines


def _serve(session: Session, requests: queue.SimpleQueue[str], answers: TextIO) -> None:
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


def _close(session: Session) -> None:
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
