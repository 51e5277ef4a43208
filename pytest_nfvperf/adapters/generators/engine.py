"""The engine process: JSON lines over its pipes, a deadline on everything.

An engine that died, or does not answer in time, raises GeneratorError with the end of its log,
and is not used again: every later call names that first cause.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_nfvperf.adapters.process.child import Child
from pytest_nfvperf.adapters.process.process import plain_environment, process_state
from pytest_nfvperf.model.errors import GeneratorError

_LOG_TAIL_BYTES = 4096
_QUIT_DEADLINE_S = 3.0


class EngineRefusedError(GeneratorError):
    """The engine answered with an error; it goes on living.

    ``code`` is its stable short name, ``answer`` the whole answer, ``error`` in it its own words.
    """

    def __init__(self, message: str, answer: Mapping[str, Any], *, log: str) -> None:
        super().__init__(message, evidence={"generator log": log})
        self.answer = answer
        self.code: str = answer["code"]


class EngineLink(Protocol):
    """A conversation with an engine: with a process, with one that is recorded, or with a recording."""

    @property
    def pid(self) -> int:
        """Process id; 0 where there is none."""
        ...

    def log_tail(self) -> str:
        """The end of its log."""
        ...

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        """Send one command and return its answer; errors as of :meth:`Engine.command`."""
        ...

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        """As :meth:`Engine.send`."""
        ...

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        """As :meth:`Engine.read`."""
        ...

    def checked(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """As :meth:`Engine.checked`."""
        ...

    def close(self) -> None:
        """End it. Can be called twice."""
        ...


StartEngine = Callable[[Sequence[str], Path, Mapping[str, str]], EngineLink]
"""Starts an engine: program and arguments, file for its log, variables added to its environment."""


class Engine:
    """A running engine process.

    It asks the kernel to be killed when the *thread* that started it ends (PR_SET_PDEATHSIG), so
    start it from a thread that lives as long as the engine is wanted: the main thread.

    Args:
        argv: program and arguments.
        log_path: file for its stderr (DPDK's log included); written anew.
        env: added to this process's environment, such as the tag that a reaper knows it by.
    """

    def __init__(self, argv: Sequence[str], log_path: Path, env: Mapping[str, str] | None = None) -> None:
        self._log_path = log_path
        self._failure: str | None = None
        self._ids = itertools.count(1)
        self._received = b""
        with log_path.open("wb") as log:
            try:
                # A session of its own: ctrl-C at the terminal is for pytest, which then closes us.
                self._process = Child(
                    list(argv),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    env={**plain_environment(), **(env or {})},
                    bufsize=0,
                )
            except OSError as error:
                raise GeneratorError(f"cannot start {argv[0]}: {error}; run `nfvperf build`") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def log_tail(self) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return self._log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        return ""

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        """Send one command and return its answer.

        Args:
            name: the command.
            deadline_s: seconds until an engine that has not answered is killed.
            arguments: its keys (docs/engine-protocol.md).

        Raises:
            EngineRefusedError: it answered with an error.
            GeneratorError: it died, or did not answer in time.
        """
        until = time.monotonic() + deadline_s
        request_id = self.send(name, deadline_s, **arguments)
        with self._ends_when_interrupted(name):
            answer = self._answer(until, name, deadline_s)
        if answer.get("id") != request_id:
            raise self._fail(f"it answered {name} with {str(answer)[:200]}, which is not the answer to it")
        return self.checked(name, answer)

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        """Send a command and return its id, for one that is answered by several lines; ``read`` them all.

        Raises:
            GeneratorError: it died, or did not take it in time.
        """
        if self._failure is not None:
            raise GeneratorError(f"the generator is gone: {self._failure}", evidence={"generator log": self.log_tail()})
        request = {"id": next(self._ids), "cmd": name, **arguments}
        until = time.monotonic() + deadline_s
        with self._ends_when_interrupted(name):
            self._send(json.dumps(request).encode() + b"\n", until, name, deadline_s)
        return int(request["id"])

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        """The next line; GeneratorError when it died or says nothing for so long."""
        if self._failure is not None:
            raise GeneratorError(f"the generator is gone: {self._failure}", evidence={"generator log": self.log_tail()})
        with self._ends_when_interrupted(f"the wait for {awaited}"):
            return self._answer(time.monotonic() + deadline_s, awaited, deadline_s)

    @contextlib.contextmanager
    def _ends_when_interrupted(self, during: str) -> Iterator[None]:
        """End an engine whose exchange a signal's handler broke off: Ctrl-C, or the time limit of pytest-timeout.

        It would go on to the end of its trial, at a priority that leaves next to nothing for others. Its answer would
        be read as that to the next command, and half a request or half an answer may be under way.
        """
        try:
            yield
        except GeneratorError:
            raise
        except BaseException:
            self._fail(f"it was interrupted during {during}")
            raise

    def checked(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer that is no refusal; EngineRefusedError for one that is."""
        if not answer["ok"]:
            raise EngineRefusedError(f"the generator refused {name}: {answer['error']}", answer, log=self.log_tail())
        return answer

    def close(self) -> None:
        """End the process: by ``quit``, else by force. Can be called twice."""
        if self._process.poll() is None and self._failure is None:
            with contextlib.suppress(GeneratorError):
                self.command("quit", _QUIT_DEADLINE_S)
                self._process.wait(_QUIT_DEADLINE_S)
        self._kill()
        self._failure = self._failure or "it was closed"

    def _send(self, data: bytes, until: float, name: str, deadline_s: float) -> None:
        while data:
            self._wait(self._stdin.fileno(), selectors.EVENT_WRITE, until, name, deadline_s)
            try:
                data = data[os.write(self._stdin.fileno(), data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._died(name) from error

    def _answer(self, until: float, name: str, deadline_s: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            self._wait(self._stdout.fileno(), selectors.EVENT_READ, until, name, deadline_s)
            chunk = os.read(self._stdout.fileno(), 1 << 20)
            if not chunk:
                raise self._died(name)
            self._received += chunk
        line, self._received = self._received.split(b"\n", 1)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise self._fail(f"it answered {name} with {line[:200]!r}, which is not JSON") from error
        return answer

    def _wait(self, fd: int, events: int, until: float, name: str, deadline_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(fd, events)
            if selector.select(max(0.0, until - time.monotonic())):
                return
        state = process_state(self.pid)
        raise self._fail(f"it did not answer {name} within {deadline_s:g} s (process state: {state})")

    def _died(self, name: str) -> GeneratorError:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return self._fail(f"it closed its pipes during {name}")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return self._fail(f"it {how} during {name}")

    def _fail(self, failure: str) -> GeneratorError:
        self._failure = failure
        self._kill()
        return GeneratorError(f"the generator failed: {failure}", evidence={"generator log": self.log_tail()})

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()
