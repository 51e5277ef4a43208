"""The engine process: JSON lines over its pipes, a deadline on everything.

An engine that died or does not answer in time raises GeneratorError with the end of its log, and is not used again:
every later call names that first cause.

A conversation with an engine can be recorded as JSON lines, and replayed without hardware. Each line is one exchange:
the command, its arguments, and the answer or the failure::

    {"cmd": "links", "arguments": {}, "seconds": 0.0012, "answer": {"id": 3, "ok": true, "links": {"a": true}}}
    {"cmd": "trial", "arguments": {...}, "seconds": 3.01, "failure": "it was killed by SIGKILL during trial"}
    {"cmd": "trial", "arguments": {...}, "sent": 5}
    {"line": {"interval": {...}}}

The first line names the engine. A refusal is an answer with ``"ok": false``. A command with an answer of several lines
has its number under ``sent``, and the lines follow. Ceilings are recorded, too: a search below another ceiling asks for
other loads.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.process import Child, Deadline, plain_environment, process_state
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.ports.generator import Ceilings

_LOG_TAIL_BYTES = 4096
_QUIT_DEADLINE_S = 3.0
FORMAT = "nfvperf-engine-recording"
VERSION = 1
_WHERE = {
    *("device", "path", "server", "user", "rpc_port", "event_port", "timeout_ms", "force"),
    *("witnesses", "undisturbed", "cpus"),
}
"""Arguments that locate an engine, its ports and the DUT's threads, or tell how fast the machine is."""
_REPEATABLE = {"hello", "attach", "detach", "links", "learn", "stats", "forward", "ceiling"}
"""Commands that ask for a state, as often as needed: their last recorded answer is repeated."""
_CEILING = "ceiling"


class EngineRefusedError(GeneratorError):
    """The engine answered with an error and can still be used.

    ``code`` is the error's stable short name; ``answer`` is the whole answer, with the engine's words as ``error``.
    """

    def __init__(self, message: str, answer: Mapping[str, Any], *, log: str) -> None:
        super().__init__(message, evidence={"generator log": log})
        self.answer = answer
        self.code: str = answer["code"]


class EngineLink(ABC):
    """A conversation with an engine process, with one that is recorded, or with a recording."""

    @property
    def pid(self) -> int:
        """Process id; 0 if there is none."""
        return 0

    def log_tail(self) -> str:
        return ""

    @abstractmethod
    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        """Send one command with its keys (docs/reference/engine-protocol.md), and return its answer.

        EngineRefusedError if the answer is an error; GeneratorError if the engine died, or did not answer within
        ``deadline_s`` and was killed.
        """

    @abstractmethod
    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        """Send a command that is answered by several lines, and return its id; ``read`` them all.

        GeneratorError if the engine died, or did not take it in time.
        """

    @abstractmethod
    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        """Return the next line; GeneratorError if the engine died, or is silent for this long."""

    @abstractmethod
    def close(self) -> None: ...


def check_answer(link: EngineLink, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer itself; EngineRefusedError if it is a refusal."""
    if not answer["ok"]:
        raise EngineRefusedError(f"the generator refused {name}: {answer['error']}", answer, log=link.log_tail())
    return answer


StartEngine = Callable[[Sequence[str], Path, Mapping[str, str]], EngineLink]
"""Starts an engine: program and arguments, file for its log, variables added to its environment."""


class Engine(EngineLink):
    """A running engine process.

    The kernel kills it when the *thread* that started it ends (PR_SET_PDEATHSIG): start it from a thread that lives as
    long as the engine is needed, the main thread.

    ``log_path``: file for its stderr (DPDK's log included); overwritten. ``env``: added to this process's environment,
    such as the tag by which a reaper finds it.
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
        return self._process.pid

    def log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return self._log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        return ""

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        request_id = self.send(name, deadline_s, **arguments)
        with self._ends_when_interrupted(name):
            answer = self._answer(name, deadline_s)
        if answer.get("id") != request_id:
            raise self._fail(f"it answered {name} with {str(answer)[:200]}, which is not the answer to it")
        return check_answer(self, name, answer)

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        self._check_usable()
        number = next(self._ids)
        # A view: what is left of a capture's 100 MB is not copied with every 64 KiB that the pipe takes.
        data = memoryview(json.dumps({"id": number, "cmd": name, **arguments}).encode() + b"\n")
        deadline = Deadline(deadline_s)
        with self._ends_when_interrupted(name):
            while data:
                self._wait(self._stdin.fileno(), select.POLLOUT, deadline, name, deadline_s)
                try:
                    data = data[os.write(self._stdin.fileno(), data) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._died(name) from error
        return number

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        self._check_usable()
        with self._ends_when_interrupted(f"the wait for {awaited}"):
            return self._answer(awaited, deadline_s)

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise GeneratorError(f"the generator is gone: {self._failure}", evidence={"generator log": self.log_tail()})

    @contextlib.contextmanager
    def _ends_when_interrupted(self, during: str) -> Iterator[None]:
        """End the engine if a signal's handler interrupts an exchange: Ctrl-C, or the time limit of pytest-timeout.

        Otherwise it would finish its trial, at a priority that leaves little for others, and its answer would be taken
        for that to the next command. Half a request or half an answer may also be in the pipe.
        """
        try:
            yield
        except GeneratorError:
            raise
        except BaseException:
            self._fail(f"it was interrupted during {during}")
            raise

    def close(self) -> None:
        """End the process by ``quit``, or by force if that takes too long. Can be called twice."""
        try:
            if self._process.poll() is None and self._failure is None:
                # A busy machine may need longer for the driver's end: what a killed engine held the kernel gives back.
                with contextlib.suppress(GeneratorError, subprocess.TimeoutExpired):
                    self.command("quit", _QUIT_DEADLINE_S)
                    self._process.wait(_QUIT_DEADLINE_S)
        finally:
            self._kill()
            self._failure = self._failure or "it was closed"

    def _answer(self, name: str, deadline_s: float) -> dict[str, Any]:
        deadline = Deadline(deadline_s)
        while b"\n" not in self._received:
            self._wait(self._stdout.fileno(), select.POLLIN, deadline, name, deadline_s)
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

    def _wait(self, fd: int, events: int, deadline: Deadline, name: str, deadline_s: float) -> None:
        if deadline.wait_ready(fd, events):
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


def recording(start: StartEngine, engine: str, path: Path) -> StartEngine:
    """Start engines as ``start`` does, and append each conversation to a file."""

    def begin(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, {"format": FORMAT, "version": VERSION, "engine": engine})
        return RecordedLink(start(argv, log, env), path, engine)

    return begin


def replaying(path: Path, engine: str, passed: Callable[[float], None] = lambda _: None) -> StartEngine:
    """Replay conversations instead of starting engines: each start takes the next one, the last one repeatedly.

    ``engine`` must have been recorded. ``passed`` receives the recorded duration of each exchange, seconds.
    """
    conversations = deque(read(path, engine))

    def begin(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:  # noqa: ARG001 - as StartEngine
        exchanges = conversations.popleft() if len(conversations) > 1 else conversations[0]
        return ReplayedLink(exchanges, path, passed)

    return begin


class RecordedLink(EngineLink):
    """A conversation that is recorded, without paths and the user of this machine."""

    def __init__(self, link: EngineLink, path: Path, engine: str) -> None:
        self._link = link
        self._path = path
        self._replaced = {"path": engine, "user": "nfvperf"}

    @property
    def pid(self) -> int:
        return self._link.pid

    def log_tail(self) -> str:
        return self._link.log_tail()

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        exchange: dict[str, Any] = {"cmd": name, "arguments": arguments}
        began = time.monotonic()
        try:
            answer = self._link.command(name, deadline_s, **arguments)
            exchange["answer"] = answer
        except EngineRefusedError as error:
            exchange["answer"] = dict(error.answer)
            raise
        except GeneratorError as error:
            exchange["failure"] = error.message
            raise
        finally:
            text = json.dumps({**exchange, "seconds": round(time.monotonic() - began, 6)})
            for word, replacement in self._replaced.items():
                value = arguments.get(word)
                if value and isinstance(value, str):
                    text = text.replace(json.dumps(value)[1:-1], replacement)
            _append(self._path, json.loads(text))
        return answer

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        number = self._link.send(name, deadline_s, **arguments)
        _append(self._path, {"cmd": name, "arguments": arguments, "sent": number})
        return number

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        line = self._link.read(awaited, deadline_s)
        _append(self._path, {"line": line})
        return line

    def close(self) -> None:
        self._link.close()


class ReplayedLink(EngineLink):
    """A recorded conversation: the same question gets the same answer, in the order of the recording.

    GeneratorError for a question without a recorded answer, or that failed then.
    """

    def __init__(self, exchanges: Sequence[Mapping[str, Any]], path: Path, passed: Callable[[float], None]) -> None:
        self._path = path
        self._passed = passed
        self._closed = False
        self._left: dict[str, deque[Mapping[str, Any]]] = defaultdict(deque)
        self._last: dict[str, Mapping[str, Any]] = {}
        self._lines = deque(dict(exchange["line"]) for exchange in exchanges if "line" in exchange)
        for exchange in (exchange for exchange in exchanges if "cmd" in exchange):
            self._left[_key(exchange["cmd"], exchange["arguments"])].append(exchange)

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:  # noqa: ARG002 - at once
        exchange = self._found(name, _key(name, arguments))
        self._passed(exchange.get("seconds", 0.0))
        if "failure" in exchange:
            raise GeneratorError(exchange["failure"], evidence={"recording": str(self._path)})
        return check_answer(self, name, dict(exchange["answer"]))

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:  # noqa: ARG002 - as command
        return int(self._found(name, _key(name, arguments))["sent"])

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:  # noqa: ARG002 - at once
        if not self._lines:
            raise GeneratorError(f"the recording {self._path} ends where {awaited} is awaited")
        return self._lines.popleft()

    def close(self) -> None:
        self._closed = True

    def _found(self, name: str, key: str) -> Mapping[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is gone: it was closed")
        if self._left[key]:
            self._last[key] = self._left[key].popleft()
        elif name != "quit" and not (name in _REPEATABLE and key in self._last):
            raise GeneratorError(f"the recording {self._path} does not answer this: {self._difference(name, key)}")
        return self._last.get(key, {"answer": {"ok": True}})

    def _difference(self, name: str, key: str) -> str:
        asked = json.loads(key)[1]
        known = [json.loads(other)[1] for other, left in self._left.items() if left and json.loads(other)[0] == name]
        if not known:
            return f"no {name!r} is left in it; the test asks for more than was recorded"
        differing = min(([word for word in asked if asked[word] != other.get(word)] for other in known), key=len)
        return f"{name!r} was recorded with other {', '.join(sorted(differing)) or 'arguments'}; record it again"


def read(path: Path, engine: str | None = None) -> list[list[Mapping[str, Any]]]:
    """The conversations of a recording of this engine; None: of any.

    ConfigError if it cannot be read, is no recording, or is of another engine.
    """
    conversations: list[list[Mapping[str, Any]]] = []
    for number, line in enumerate(_lines(path), 1):

        def wrong(why: str, at: int = number) -> ConfigError:
            return ConfigError(why, file=str(path), line=at)

        try:
            entry = json.loads(line)
        except ValueError as error:
            raise wrong(f"is not a recording: {error}") from error
        if "format" in entry:
            if entry["format"] != FORMAT or entry.get("version") != VERSION:
                raise wrong(f"is not a recording of version {VERSION}")
            if engine is not None and entry["engine"] != engine:
                raise wrong(f"is a recording of engine {entry['engine']!r}, not {engine!r}")
            conversations.append([])
        elif not conversations or not {"cmd", "line"} & set(entry):
            raise wrong("is not a recording: it was not made by --nfv-record")
        else:
            conversations[-1].append(entry)
    if not any(conversations):
        raise ConfigError("holds no recorded requests", file=str(path))
    return [conversation for conversation in conversations if conversation]


def engine_of(path: Path) -> str:
    """The engine of a recording; errors of :func:`read`."""
    read(path)
    engine: str = json.loads(_lines(path)[0])["engine"]
    return engine


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from error


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([name, {word: value for word, value in arguments.items() if word not in _WHERE}], sort_keys=True)


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    # one whole line at a time, so that a killed run leaves whole exchanges
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


class RecordedCeilings(Ceilings):
    def __init__(self, ceilings: Ceilings, path: Path) -> None:
        self._ceilings = ceilings
        self._path = path

    def cached(self, traffic: AnyTraffic, directions: int) -> float | None:
        known = self._ceilings.cached(traffic, directions)
        if known is not None:
            self._note(traffic, directions, known)
        return known

    def measure(self, traffic: AnyTraffic, directions: int) -> float | None:
        fps = self._ceilings.measure(traffic, directions)
        self._note(traffic, directions, fps)
        return fps

    def _note(self, traffic: AnyTraffic, directions: int, fps: float | None) -> None:
        exchange = {"cmd": _CEILING, "arguments": _ceiling_of(traffic, directions), "answer": {"ok": True, "fps": fps}}
        _append(self._path, {**exchange, "seconds": 0.0})


class ReplayedCeilings(Ceilings):
    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self._known = {
            json.dumps(exchange["arguments"], sort_keys=True): exchange["answer"]["fps"]
            for exchange in exchanges
            if exchange.get("cmd") == _CEILING
        }

    def cached(self, traffic: AnyTraffic, directions: int) -> float | None:
        fps: float | None = self._known.get(json.dumps(_ceiling_of(traffic, directions), sort_keys=True))
        return fps

    measure = cached


def _ceiling_of(traffic: AnyTraffic, directions: int) -> dict[str, Any]:
    return {"frame_size": traffic.shape_label, "directions": directions}
