"""What an OVS did when, from its logs and its database, on the clock of a trial (CLOCK_MONOTONIC)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.process import wall_offset_ns
from pytest_nfvperf.model.measure.outage import LogLine

MOST_EVENTS, _MOST_TEXT, _TAIL_BYTES = 100, 300, 1 << 20
_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\|\d+\|(.*)$", re.MULTILINE)
"""lib/vlog.c, the default pattern of a log file; the time is UTC."""

PROBLEM = re.compile(r"\|(?:WARN|ERR|EMER)\|")
_LOUD = {"statistics", "status"}
"""Columns that change by themselves."""


def events_since(
    ns: int, logs: Mapping[str, Path], database: Path, names: Mapping[str, str], steps: Sequence[LogLine]
) -> tuple[LogLine, ...]:
    """What happened since then, in order; of more than ``MOST_EVENTS``, our steps and then problems are kept.

    ``logs``: by daemon. ``database``: ovsdb-server's file. ``names``: of its rows, by UUID. ``steps``: what we did.
    """
    offset_ns = wall_offset_ns()  # now: somebody may have set the clock since the run began
    found = [*steps, *transactions(_tail(database), offset_ns, names)]
    found += [event for source, log in logs.items() for event in log_events(source, _tail(log), offset_ns)]
    recent = [event for event in found if event.ns >= ns]
    recent.sort(key=lambda event: (event.source != "nfvperf", not PROBLEM.search(event.text), event.ns))
    kept = recent[:MOST_EVENTS]
    if more := len(recent) - len(kept):
        kept[-1] = LogLine(kept[-1].ns, "nfvperf", f"{more + 1} more lines are not listed")
    return tuple(sorted(kept))


def _tail(file: Path) -> str:
    with suppress(FileNotFoundError), file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        return opened.read().decode("utf-8", errors="replace")
    return ""


def log_events(source: str, text: str, offset_ns: int) -> Iterator[LogLine]:
    """Yield the lines of a daemon's log. ``offset_ns``: wall clock less monotonic clock."""
    for at, line in _LINE.findall(text):
        at_ms = round(datetime.fromisoformat(at).timestamp() * 1000)
        yield LogLine(at_ms * 1_000_000 - offset_ns, source, line[:_MOST_TEXT])


def transactions(text: str, offset_ns: int, names: Mapping[str, str]) -> Iterator[LogLine]:
    """Yield the transactions of a database file that say when they were (ovsdb(5), "_date")."""
    for line in text.splitlines():
        try:
            record = json.loads(line) if line.startswith("{") else {}
        except ValueError:  # half of a line: a tail begins anywhere, and the last one may be being written
            continue
        said = "; ".join(filter(None, [record.get("_comment"), *_changes(record, names)]))
        if said and "_date" in record:
            yield LogLine(record["_date"] * 1_000_000 - offset_ns, "database", said[:_MOST_TEXT])


def _changes(record: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    rows = [(table, *row) for table, changed in record.items() if isinstance(changed, dict) for row in changed.items()]
    for table, uuid, row in rows:
        columns = " ".join(f"{key}={json.dumps(value)}" for key, value in (row or {}).items() if key not in _LOUD)
        if row is None or columns:
            yield f"{table} {names.get(uuid, (row or {}).get('name', uuid[:8]))}: {columns or 'deleted'}"
