"""The log of a bisection as JSON lines: the question, then all events. A later process continues from it.

Each line is on the disk before the next measurement begins. The next process removes a line that a kill truncated.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pytest_nfvperf.adapters.evidence.writer import sync
from pytest_nfvperf.features.bisect.events import Event, Ran, Unusable, VersionComparison
from pytest_nfvperf.model.errors import ConfigError, TestbedError

LOG = "bisection.jsonl"
_SCHEMA = 1
_KINDS: dict[str, type[Event]] = {"compared": VersionComparison, "ran": Ran, "unusable": Unusable}


class EventLog:
    """The log in a directory, locked by one process at a time.

    ``question``: what the bisection is about, as plain JSON.

    Raises:
        ConfigError: another process has the log, or it belongs to another question; says how they differ.
        TestbedError: it cannot be written.
    """

    def __init__(self, directory: Path, question: Mapping[str, Any]) -> None:
        self.path = directory / LOG
        self.events: list[Event] = []
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._broken(error) from error
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    "another bisection writes here: wait for it to end, or name another directory by --log",
                    file=str(self.path),
                ) from error
            as_read_back = json.loads(json.dumps(dict(question)))  # lists for tuples
            self._read({"kind": "bisection", "schema": _SCHEMA, **as_read_back})
            undo.pop_all()

    def append(self, event: Event) -> None:
        kind = next(name for name, made in _KINDS.items() if made is type(event))
        self._write({"kind": kind, **asdict(event)})
        self.events.append(event)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, question: Mapping[str, Any]) -> None:
        *lines, rest = self.path.read_bytes().split(b"\n")
        if rest:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - len(rest))
        if not lines:
            self._write(question)
            return
        there = self._parsed(lines[0], 1)
        for key in {**there, **question}:
            if there.get(key) != question.get(key):
                its, yours = _shown(there.get(key)), _shown(question.get(key))
                raise ConfigError(
                    f"this log is of another bisection: its {key} is {its}, yours is {yours}. Use the same arguments "
                    "to continue it, or name another directory by --log",
                    file=str(self.path),
                )
        self.events = [self._event(self._parsed(line, number), number) for number, line in enumerate(lines[1:], 2)]

    def _event(self, data: Mapping[str, Any], number: int) -> Event:
        kind = _KINDS.get(str(data.get("kind")))
        if kind is None:
            raise self._unreadable(number, f"kind {data.get('kind')!r} is unknown")
        try:
            return TypeAdapter(kind).validate_python({key: value for key, value in data.items() if key != "kind"})
        except ValidationError as error:
            raise self._unreadable(number, str(error.errors(include_url=False)[0]["msg"])) from error

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            data = json.loads(line)
        except ValueError as error:
            raise self._unreadable(number, str(error)) from error
        if not isinstance(data, dict):
            raise self._unreadable(number, "it is no object")
        return data

    def _unreadable(self, number: int, why: str) -> ConfigError:
        return ConfigError(
            f"this is no line of a bisection's log: {why}. Name another directory by --log, or remove this one",
            file=str(self.path),
            line=number,
        )

    def _write(self, data: Mapping[str, Any]) -> None:
        line = (json.dumps(data, allow_nan=False, ensure_ascii=False) + "\n").encode()
        end = os.fstat(self._fd).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._fd, line[written:])
            sync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, end)
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> TestbedError:
        return TestbedError(
            f"the log {self.path} cannot be written: {error.strerror}. Free space, or name another directory by --log"
        )


def _shown(value: object) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"a list of {len(value)} from {value[0]!r} to {value[-1]!r}"
    return repr(value)
