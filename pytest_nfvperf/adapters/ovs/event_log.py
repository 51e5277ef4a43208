"""What an OVS did when, from its logs and its database, on the clock of a trial (CLOCK_MONOTONIC)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.process import wall_offset_ns
from pytest_nfvperf.model.measure.outage import LogLine

MOST_EVENTS = 100

_LINE = re.compile(r"^(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z\|\d+\|(?P<text>.*)$")
"""lib/vlog.c, the default pattern of a log file: %D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m; the time is UTC."""

_PROBLEM = re.compile(r"\|(?:WARN|ERR|EMER)\|")
_LOUD = {"statistics", "status", "link_resets", "bond_active_slave", "rstp_status"}
"""Columns that change by themselves."""

_MOST_TEXT = 300
_TAIL_BYTES = 1 << 20


def events_since(
    ns: int, logs: Mapping[str, Path], database: Path, names: Mapping[str, str], steps: Sequence[LogLine]
) -> tuple[LogLine, ...]:
    """What happened since then, in order; of more than ``MOST_EVENTS`` our steps and problems come first.

    Args:
        ns: by ``time.monotonic_ns()``.
        logs: files of daemons, by the daemon's name.
        database: the file of ovsdb-server.
        names: of rows of the database, by UUID.
        steps: what we did.
    """
    offset_ns = wall_offset_ns()  # now: somebody may have set the clock since the run began
    found = [*steps, *(event for source, log in logs.items() for event in log_events(source, _tail(log), offset_ns))]
    found += transactions(_tail(database), offset_ns, names)
    recent = sorted({event for event in found if event.ns >= ns}, key=lambda event: (_rank(event), event.ns))
    kept = recent if len(recent) <= MOST_EVENTS else recent[: MOST_EVENTS - 1]
    if len(kept) < len(recent):
        kept.append(LogLine(kept[-1].ns, "nfvperf", f"{len(recent) - len(kept)} more lines are not listed"))
    return tuple(sorted(kept))


def _rank(event: LogLine) -> int:
    return 0 if event.source == "nfvperf" else 1 if _PROBLEM.search(event.text) else 2


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            return opened.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def log_events(source: str, text: str, offset_ns: int) -> Iterator[LogLine]:
    """Yield the lines of a daemon's log. ``offset_ns``: wall clock less monotonic clock."""
    for line in filter(None, map(_LINE.match, text.splitlines())):
        at_ns = round(datetime.fromisoformat(f"{line['time']}+00:00").timestamp() * 1000) * 1_000_000
        yield LogLine(at_ns - offset_ns, source, line["text"][:_MOST_TEXT])


def transactions(text: str, offset_ns: int, names: Mapping[str, str]) -> Iterator[LogLine]:
    """Yield the transactions of a database file that say when they were (ovsdb(5), "_date").

    ``names``: of rows, by UUID.
    """
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            record = json.loads(line)
        except ValueError:  # half of a line, at the begin of a tail or while it is written
            continue
        if isinstance(record, dict) and isinstance(record.get("_date"), int):
            changes = "; ".join(_changes(record, names))
            comment = f"{record['_comment']}: " if record.get("_comment") else ""
            if changes or comment:
                at_ns = record["_date"] * 1_000_000 - offset_ns
                yield LogLine(at_ns, "database", f"{comment}{changes}"[:_MOST_TEXT])


def _changes(record: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    for table, rows in record.items():
        if not isinstance(rows, dict):
            continue
        for uuid, row in rows.items():
            name = names.get(uuid, row.get("name", uuid[:8]) if isinstance(row, dict) else uuid[:8])
            if row is None:
                yield f"{table} {name} is deleted"
            elif columns := [f"{key}={json.dumps(value)}" for key, value in row.items() if key not in _LOUD]:
                yield f"{table} {name}: {' '.join(columns)}"
