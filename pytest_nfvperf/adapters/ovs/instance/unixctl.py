"""ovs-appctl's commands (ovs-appctl(8)) without ovs-appctl."""

from __future__ import annotations

from pathlib import Path

from pytest_nfvperf.adapters.ovs.instance.jsonrpc import JsonRpc, RefusedError

UnixctlError = RefusedError
"""The daemon refused a command."""


class Unixctl:
    """The control socket of one daemon."""

    def __init__(self, path: Path, daemon: str) -> None:
        self._rpc = JsonRpc(path, daemon)

    def call(self, command: str, *args: str, deadline_s: float = 5.0) -> str:
        """Run a command and return its output.

        Raises:
            UnixctlError: the daemon's own error message.
            DeadlineError: it did not answer in time.
            TestbedError: nobody listens.
        """
        return str(self._rpc.request(command, args, deadline_s))

    def knows(self, command: str) -> bool:
        return self.usage(command) is not None

    def usage(self, command: str) -> str | None:
        """The arguments that it takes, in the daemon's words: ``[-pmd core] [dp]``; None when it does not have it."""
        words = (line.split(maxsplit=1) for line in self.call("list-commands").splitlines())
        return next((" ".join(rest) for name, *rest in filter(None, words) if name == command), None)

    def close(self) -> None:
        self._rpc.close()
