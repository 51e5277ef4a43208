"""A worker that cannot be started, or dies as it starts: the run goes on without it.

xdist would end the run by an internal error that names no worker.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import execnet

_NOT_STARTED = (execnet.HostNotFound, execnet.RemoteError, EOFError, OSError)


class NotStarted:
    """What xdist asks of a worker that has ended, of one that never ran. ``why``: in a line."""

    def __init__(self, spec: Any, why: str) -> None:
        self.why = why
        self.gateway = SimpleNamespace(id=spec.id, spec=spec)
        self.workeroutput = {"exitstatus": 0, "shouldfail": False, "shouldstop": False}

    def shutdown(self) -> None:
        """It has."""


def outlive_failed_starts(manager: Any, say: Callable[[str], None]) -> None:
    """From now on a worker that does not start is told of, and counts as one that has ended.

    One on this machine was killed, so it is started once more. Another machine that did not answer would only take
    the time of those that do.

    Args:
        manager: xdist's ``NodeManager``, before it starts its first worker.
        say: writes a line to the terminal.
    """
    start = manager.setup_node

    def start_or_go_on(spec: Any, putevent: Callable[[tuple[str, dict[str, Any]]], None]) -> Any:
        try:
            return start(spec, putevent)
        except _NOT_STARTED as error:
            why = _line(error)
        if spec.popen:
            say(f"{spec.id} died as it started ({why}): it is started once more")
            spec.id = None
            manager.group.allocate_id(spec)
            try:
                return start(spec, putevent)
            except _NOT_STARTED as error:
                why = _line(error)
        say(f"no worker can be started on {spec} ({why}): it is left out")
        absent = NotStarted(spec, why)
        putevent(("workerfinished", {"node": absent}))
        return absent

    manager.setup_node = start_or_go_on


def _line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
