"""A machine that cannot be reached any more: the run goes on without its worker.

xdist starts a worker in place of one that was lost. Where that fails it would end the run by an internal error.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import execnet

_UNREACHABLE = (execnet.HostNotFound, execnet.RemoteError, EOFError, OSError)


def outlive_lost_machines(manager: Any, say: Callable[[str], None]) -> None:
    """From now on a worker that cannot be started is told of, and counts as one that has ended.

    Args:
        manager: xdist's ``NodeManager``, once all its first workers are there.
        say: writes a line to the terminal.
    """
    start = manager.setup_node

    def start_or_go_on(spec: Any, putevent: Callable[[tuple[str, dict[str, Any]]], None]) -> Any:
        try:
            return start(spec, putevent)
        except _UNREACHABLE as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            say(f"no worker can be started on {spec} any more ({why}): it is left out")
            ended = _Ended(spec)
            putevent(("workerfinished", {"node": ended}))
            return ended

    manager.setup_node = start_or_go_on


class _Ended:
    """What xdist asks of a worker that has ended, of one that never started."""

    def __init__(self, spec: Any) -> None:
        self.gateway = SimpleNamespace(id=spec.id, spec=spec)
        self.workeroutput = {"exitstatus": 0, "shouldfail": False, "shouldstop": False}

    def shutdown(self) -> None:
        """It has."""
