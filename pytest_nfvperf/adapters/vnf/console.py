"""A program that is driven by its console: commands in, text up to the next prompt out, a deadline on everything."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from pytest_nfvperf.adapters.process.process import ManagedProcess
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

_SHOWN_BYTES = 2000
_READ_BYTES = 1 << 16
_LOOK_S = 1.0
_END_S = 1.0
"""From its last word to its end, in which the kernel takes back its memory."""


class Console:
    """The console of a process that was spawned with pipes.

    Args:
        process: whose it is.
        prompt: what it prints when it is ready for a command.

    Every error has the end of the process's log with it.
    """

    def __init__(self, process: ManagedProcess, prompt: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._reader, self._writer = process.stdout.fileno(), process.stdin.fileno()
        self._prompt = prompt.encode()
        self._pending = b""
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def wait_prompt(self, awaited: str, deadline_s: float, meanwhile: Callable[[int], None] = lambda _: None) -> str:
        """What it prints until its next prompt.

        Args:
            awaited: for messages.
            deadline_s: seconds until it must have come.
            meanwhile: called about once a second with the number of bytes printed so far; it may raise to end the wait.

        Raises:
            DeadlineError: no prompt in time; says what was awaited and what it printed last.
            TestbedError: it ended.
        """
        end = time.monotonic() + deadline_s
        while self._prompt not in self._pending:
            left_s = end - time.monotonic()
            if not self._readable(min(left_s, _LOOK_S)):
                meanwhile(len(self._pending))
                if left_s > 0:
                    continue
                seen = f"{self._tail()!r} (process state: {self._process.state()})"
                message = f"{self._process.name}: waited {deadline_s:g} s for {awaited}; last seen: {seen}"
                raise DeadlineError(message, evidence=self._evidence())
            self._pending += self._read()
        text, _, self._pending = self._pending.partition(self._prompt)
        return text.decode(errors="replace")

    def ask(self, command: str, deadline_s: float) -> str:
        """Give a command; what it prints in answer, without the command's echo."""
        self._process.check()
        try:
            os.write(self._writer, f"{command}\n".encode())
        except OSError as error:
            raise self._ended("takes no commands any more") from error
        answer = self.wait_prompt(f"an answer to {command!r}", deadline_s)
        return answer.replace("\r\n", "\n").removeprefix(command).lstrip("\n")

    def _readable(self, left_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            return bool(selector.select(max(0.0, left_s)))

    def _read(self) -> bytes:
        data = os.read(self._reader, _READ_BYTES)
        if not data:
            raise self._ended("closed its console")
        return data

    def _ended(self, what: str) -> TestbedError:
        """How the process ended; what it did to its console, where it goes on running."""
        with suppress(subprocess.TimeoutExpired):
            self._process.popen.wait(_END_S)
        try:
            self._process.check()
        except TestbedError as error:
            return error
        return TestbedError(f"{self._process.name} {what}", evidence=self._evidence())

    def _evidence(self) -> dict[str, str]:
        return {self._process.log.name: self._process.log_tail()}

    def _tail(self) -> str:
        return self._pending[-_SHOWN_BYTES:].decode(errors="replace")
