"""Conversations with an engine, kept as JSON lines and played again without any hardware.

Each line is one exchange: the command, its arguments, and the answer or the failure::

    {"cmd": "links", "arguments": {}, "seconds": 0.0012, "answer": {"id": 3, "ok": true, "links": {"a": true}}}
    {"cmd": "trial", "arguments": {...}, "seconds": 3.01, "failure": "it was killed by SIGKILL during trial"}
    {"cmd": "trial", "arguments": {...}, "sent": 5}
    {"line": {"interval": {...}}}

The first line says which engine it was. A refusal is an answer with ``"ok": false``. A command that is
answered by several lines has its number under ``sent``, and the lines follow.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.engine import EngineLink, EngineRefusedError, StartEngine
from pytest_nfvperf.model.errors import ConfigError, GeneratorError

FORMAT = "nfvperf-engine-recording"
VERSION = 1

_WHERE = {"device", "path", "server", "user", "rpc_port", "event_port", "timeout_ms", "force"}
"""Arguments that say where an engine and its ports are found, which differs from machine to machine."""

_AGAIN = {"hello", "attach", "detach", "links", "learn", "stats", "forward", "ceiling"}
"""Commands that ask for a state, and are asked as often as it takes: their last answer holds on."""


def recording(start: StartEngine, engine: str, path: Path) -> StartEngine:
    """Starts engines as ``start`` does, and appends what is said to a file; each start begins a conversation."""

    def begin(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, {"format": FORMAT, "version": VERSION, "engine": engine})
        return RecordedLink(start(argv, log, env), path, engine)

    return begin


def replaying(path: Path, engine: str, passed: Callable[[float], None] = lambda _: None) -> StartEngine:
    """Instead of engines, conversations of a recording: each start takes the next, and the last one again.

    Args:
        path: the recording.
        engine: which it must be of.
        passed: told how many seconds each exchange took then.
    """
    conversations = deque(read(path, engine))

    def begin(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:  # noqa: ARG001 - as StartEngine
        exchanges = conversations.popleft() if len(conversations) > 1 else conversations[0]
        return ReplayedLink(exchanges, path, passed)

    return begin


class RecordedLink:
    """A conversation that is written down as it goes, without the places and the name of the machine it is on."""

    def __init__(self, link: EngineLink, path: Path, engine: str) -> None:
        self._link = link
        self._path = path
        self._places = {"path": engine, "user": "nfvperf"}

    @property
    def pid(self) -> int:
        """Of the engine."""
        return self._link.pid

    def log_tail(self) -> str:
        """Of the engine."""
        return self._link.log_tail()

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        """Pass the command on, and keep it with what came of it."""
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
            self._keep({**exchange, "seconds": round(time.monotonic() - began, 6)})
        return answer

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        """Pass it on, and keep it with its number."""
        number = self._link.send(name, deadline_s, **arguments)
        _append(self._path, {"cmd": name, "arguments": arguments, "sent": number})
        return number

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        """The engine's next line, kept."""
        line = self._link.read(awaited, deadline_s)
        _append(self._path, {"line": line})
        return line

    def checked(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """As the engine's."""
        return self._link.checked(name, answer)

    def close(self) -> None:
        """End the engine."""
        self._link.close()

    def _keep(self, exchange: dict[str, Any]) -> None:
        """A recording hides where the engine lies here and who asked it: other words replace both."""
        text = json.dumps(exchange)
        for word, replacement in self._places.items():
            said = exchange["arguments"].get(word)
            if said and isinstance(said, str):
                text = text.replace(json.dumps(said)[1:-1], replacement)
        _append(self._path, json.loads(text))


class ReplayedLink:
    """A conversation that has been: the same question gets the same answer, in the order of the recording."""

    pid = 0

    def __init__(self, exchanges: Sequence[Mapping[str, Any]], path: Path, passed: Callable[[float], None]) -> None:
        self._path = path
        self._passed = passed
        self._closed = False
        self._left: dict[str, deque[Mapping[str, Any]]] = defaultdict(deque)
        self._last: dict[str, Mapping[str, Any]] = {}
        self._lines = deque(dict(exchange["line"]) for exchange in exchanges if "line" in exchange)
        for exchange in (exchange for exchange in exchanges if "cmd" in exchange):
            self._left[_key(exchange["cmd"], exchange["arguments"])].append(exchange)

    def log_tail(self) -> str:
        """There is none."""
        return ""

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:  # noqa: ARG002 - at once
        """Answer as it was answered; GeneratorError for what was never asked, or failed then."""
        exchange = self._found(name, _key(name, arguments))
        self._passed(exchange.get("seconds", 0.0))
        if "failure" in exchange:
            raise GeneratorError(exchange["failure"], evidence={"recording": str(self._path)})
        return self.checked(name, dict(exchange["answer"]))

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:  # noqa: ARG002 - as command
        """The number that it had."""
        return int(self._found(name, _key(name, arguments))["sent"])

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:  # noqa: ARG002 - at once
        """The next line of the recording."""
        if not self._lines:
            raise GeneratorError(f"the recording {self._path} ends where {awaited} is awaited")
        return self._lines.popleft()

    def checked(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """As Engine.checked."""
        if not answer["ok"]:
            raise EngineRefusedError(f"the generator refused {name}: {answer['error']}", answer, log="")
        return answer

    def close(self) -> None:
        self._closed = True

    def _found(self, name: str, key: str) -> Mapping[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is gone: it was closed")
        if self._left[key]:
            self._last[key] = self._left[key].popleft()
        elif name == "quit" or (name in _AGAIN and key in self._last):
            return self._last.get(key, {"answer": {"ok": True}})
        else:
            raise GeneratorError(f"the recording {self._path} does not answer this: {self._difference(name, key)}")
        return self._last[key]

    def _difference(self, name: str, key: str) -> str:
        asked = json.loads(key)[1]
        known = [json.loads(other)[1] for other, left in self._left.items() if left and json.loads(other)[0] == name]
        if not known:
            return f"no {name!r} is left in it; the test asks for more than was recorded"
        differing = min(([word for word in asked if asked[word] != other.get(word)] for other in known), key=len)
        return f"{name!r} was recorded with other {', '.join(sorted(differing)) or 'arguments'}; record it anew"


def read(path: Path, engine: str | None = None) -> list[list[Mapping[str, Any]]]:
    """The conversations of a recording.

    Args:
        path: the file.
        engine: that it must be of; None: of any.

    Raises:
        ConfigError: it cannot be read, or is none, or of another engine.
    """
    conversations: list[list[Mapping[str, Any]]] = []
    for number, line in enumerate(_lines(path), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"is not a recording: {error}", file=str(path), line=number) from error
        if "format" in entry:
            _check_header(entry, engine, path, number)
            conversations.append([])
        elif not conversations or not {"cmd", "line"} & set(entry):
            raise ConfigError("is not a recording: it was not made by --nfv-record", file=str(path), line=number)
        else:
            conversations[-1].append(entry)
    if not any(conversations):
        raise ConfigError("holds no recorded requests", file=str(path))
    return [conversation for conversation in conversations if conversation]


def engine_of(path: Path) -> str:
    """Which engine a recording is of; ConfigError as :func:`read`."""
    read(path)
    engine: str = json.loads(_lines(path)[0])["engine"]
    return engine


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from error


def _check_header(header: Mapping[str, Any], engine: str | None, path: Path, line: int) -> None:
    if header["format"] != FORMAT or header.get("version") != VERSION:
        raise ConfigError(f"is not a recording of version {VERSION}", file=str(path), line=line)
    if engine is not None and header["engine"] != engine:
        raise ConfigError(f"is a recording of engine {header['engine']!r}, not {engine!r}", file=str(path), line=line)


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    said = {word: value for word, value in arguments.items() if word not in _WHERE}
    return json.dumps([name, said], sort_keys=True)


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    """One whole line at a time, so that a killed run leaves whole exchanges."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
