"""The directory of a history: one file a run, one an acknowledgement, so that branches of it merge without conflict."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.features.history.series import SCHEMA, Acknowledgement, HistoryEntry
from pytest_nfvperf.model.errors import ConfigError

_ACKNOWLEDGED = "acknowledged-"
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Ids of runs that can be names of files, and parts of addresses."""


@dataclass(frozen=True, slots=True)
class History:
    """The contents of a directory. ``problems``: a sentence for each file that could not be used."""

    entries: tuple[HistoryEntry, ...]
    acknowledged: tuple[Acknowledgement, ...]
    problems: tuple[str, ...]


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {kind: TypeAdapter(kind) for kind in (HistoryEntry, Acknowledgement)}


def read_history(directory: Path) -> History:
    """ConfigError: no such directory, or no file of a run in it."""
    if not directory.is_dir():
        raise ConfigError("no such directory: `nfvperf history add RUN` makes one", file=str(directory))
    entries, acknowledged, problems = [], [], []
    for path in sorted(directory.glob("*.json")):
        try:
            if path.name.startswith(_ACKNOWLEDGED):
                acknowledged.append(_parsed(path, Acknowledgement))
            else:
                entries.append(read_entry(path))
        except ConfigError as error:
            problems.append(str(error))
    if not entries:
        why = f"; {'; '.join(problems)}" if problems else ""
        raise ConfigError(f"no run of a history here: add one by `nfvperf history add RUN`{why}", file=str(directory))
    return History(tuple(entries), tuple(acknowledged), tuple(problems))


def read_entry(path: Path) -> HistoryEntry:
    """ConfigError: it cannot be read, is damaged, of a newer nfvperf, or has another run's name."""
    entry: HistoryEntry = _parsed(path, HistoryEntry)
    if path.name != _file_name(entry.run):
        raise ConfigError(f"this is run {entry.run}: its file must be called {_file_name(entry.run)}", file=str(path))
    return entry


def _parsed(path: Path, kind: type) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        data = json.loads(path.read_bytes(), parse_constant=refuse)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except ValueError as error:
        raise ConfigError(f"damaged: no JSON ({error})", file=str(path)) from error
    schema = data.pop("schema", None) if isinstance(data, dict) else None
    if not isinstance(schema, int):
        raise ConfigError("no file of a history: it has no schema number", file=str(path))
    if schema > SCHEMA:
        raise ConfigError(
            f"schema {schema} is of a newer nfvperf, this one reads up to {SCHEMA}: update nfvperf", file=str(path)
        )
    try:
        return _adapters()[kind].validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"damaged: {first['msg']}", file=str(path), key=where or None) from error


def add_entry(directory: Path, entry: HistoryEntry) -> tuple[Path, bool]:
    """Write the file of a run, unless it is there already; returns it, and True if it was written.

    Raises:
        ConfigError: the file cannot be written, or there is another run of this id.
    """
    path = directory / _file_name(entry.run)
    text = _text(entry)
    if path.exists():
        there = read_entry(path)
        if there.started_ns != entry.started_ns:
            raise ConfigError(f"there is another run {entry.run}, of {there.when}: nothing was changed", file=str(path))
        if path.read_text(encoding="utf-8") == text:
            return path, False
    return write_file(path, text), True


def add_acknowledgement(directory: Path, acknowledged: Acknowledgement) -> Path:
    """Write an acknowledgement; another reason for the same change replaces the first.

    Raises:
        ConfigError: the file cannot be written.
    """
    about = json.dumps([acknowledged.test, acknowledged.metric, acknowledged.at])
    name = f"{_ACKNOWLEDGED}{hashlib.sha256(about.encode()).hexdigest()[:12]}.json"
    return write_file(directory / name, _text(acknowledged))


def _text(value: HistoryEntry | Acknowledgement) -> str:
    """One line a field, and always the same text for the same value: git shows and merges it."""
    data = {"schema": SCHEMA, **_adapters()[type(value)].dump_python(value, mode="json", exclude_defaults=True)}
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _file_name(run: str) -> str:
    if not RUN_NAME.fullmatch(run) or run.startswith(_ACKNOWLEDGED):
        raise ConfigError(f"run id {run!r} is no name of a file: letters, digits, '.', '_' and '-' are possible")
    return f"{run}.json"


def write_file(path: Path, text: str) -> Path:
    """Write a file in a directory that may be missing; returns its path. ConfigError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from error
    return path
