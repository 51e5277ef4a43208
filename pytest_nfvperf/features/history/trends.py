"""A history for other detectors of changes: CSV files for Apache Otava, documents in OpenSearch for orion."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from pytest_nfvperf.adapters.evidence.reader import PATTERN, read_run
from pytest_nfvperf.features.history.command import entry_of
from pytest_nfvperf.features.history.files import read_history, write_file
from pytest_nfvperf.features.history.series import COMMIT, SMALLEST, FigureSeries, HistoryEntry, SeriesPoint, series_of
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.metrics import HIGHER, LOWER, metric_of

NO_BOUND = "none"  # OpenSearch cannot be asked for an empty text

# A test compares docs/reference/export.md with this table.
COLUMNS: Mapping[str, Callable[[SeriesPoint], str | float | None]] = {
    "time": lambda p: datetime.fromtimestamp(p.run.started_ns / 1e9, UTC).isoformat(timespec="seconds"),
    "run": lambda p: p.run.run,
    "result": lambda p: p.run.result,
    "version": lambda p: p.run.versions.get(COMMIT) or p.run.versions.get("ovs") or "unknown",
    "value": lambda p: p.figure.value,
    "low": lambda p: p.figure.low,
    "high": lambda p: p.figure.high,
    "bound": lambda p: p.figure.bound or NO_BOUND,
    "why": lambda p: p.figure.figure().detail,
}
_NAME = "nfvperf"  # of Otava's group of tests, and of the index in OpenSearch


def entries_of(paths: Sequence[Path]) -> list[HistoryEntry]:
    """Read results directories and histories, each run once. Print on stderr which are left out, and why.

    Raises:
        ConfigError: a path has neither evidence nor a history, or no run has figures.
    """
    found: dict[str, HistoryEntry] = {}
    left_out: list[str] = []
    for path in paths:
        if path.is_dir() and not any(path.glob(PATTERN)):
            history = read_history(path)
            found |= {entry.run: entry for entry in history.entries}
            left_out += history.problems
            continue
        run = read_run(path)
        try:
            found[run.run_id] = entry_of(run)
        except ConfigError as error:
            left_out.append(str(error))
    for why in left_out:
        print(f"nfvperf: left out: {why}", file=sys.stderr)
    if not found:
        raise ConfigError("there are no figures in these runs, so nothing was written")
    return list(found.values())


def write_otava(entries: Sequence[HistoryEntry], directory: Path) -> list[Path]:
    """Write a CSV file a series, and the ``otava.yaml`` that lists them. ConfigError: a file cannot be written."""
    tests = {}
    for name, series in _named(series_of(entries)).items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([cell(point) for cell in COLUMNS.values()] for point in series.points)
        file = write_file(directory / f"{name}.csv", text.getvalue())
        direction = -1 if metric_of(series.metric).better == LOWER else 1
        metrics = {_slug(series.what): {"column": "value", "direction": direction}}
        shown = ["run", "version", "bound"]
        tests[name] = {"type": "csv", "file": file.name, "attributes": shown, "metrics": metrics}
    config = yaml.safe_dump({"tests": tests, "test_groups": {_NAME: list(tests)}}, sort_keys=False)
    return [write_file(directory / "otava.yaml", config)]


def write_orion(entries: Sequence[HistoryEntry], directory: Path) -> list[Path]:
    """Write ``orion.yaml``, and the documents as a bulk request. ConfigError: a file cannot be written."""
    tests, lines = [], []
    for name, series in _named(series_of(entries)).items():
        for point in series.points:
            # By the same id a second upload replaces the document.
            key = hashlib.sha256(f"{point.run.run} {name}".encode()).hexdigest()[:32]
            document = {**{column: cell(point) for column, cell in COLUMNS.items()}, "series": name}
            lines += [{"index": {"_index": _NAME, "_id": key}}, document]
        if not all(point.figure.bound for point in series.points):  # orion fails where it finds no document
            tests.append(_orion_test(name, series))
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    config = yaml.safe_dump({"tests": tests}, sort_keys=False)
    return [write_file(directory / "orion.yaml", config), write_file(directory / "orion.ndjson", text)]


def _orion_test(name: str, series: FigureSeries) -> dict[str, Any]:
    """Without a ``version_field``, by which orion would ask a service of OpenShift about each version."""
    chosen = {"series.keyword": name, "bound.keyword": NO_BOUND}
    metric: dict[str, Any] = {"name": _slug(series.what), **chosen, "metric_of_interest": "value"}
    metric["direction"] = {HIGHER: -1, LOWER: 1}.get(metric_of(series.metric).better or "", 0)  # of a regression
    metric["threshold"] = round(SMALLEST * 100)
    return {"name": name, "uuid_field": "run", "timestamp": "time", "metadata": dict(chosen), "metrics": [metric]}


def _named(several: Sequence[FigureSeries]) -> dict[str, FigureSeries]:
    """By names that can be those of files."""
    named: dict[str, FigureSeries] = {}
    for series in several:
        unit = "" if series.unit == metric_of(series.metric).unit else f" {series.unit}"
        machine = f" machine={series.machine}" if series.machine > 1 else ""
        name = _slug(f"{series.full_name} {series.what}{unit}{machine}")
        while name in named:
            name += "+"
        named[name] = series
    return named


def _slug(text: str) -> str:
    return re.sub(r"[^\w.=-]+", "-", text, flags=re.ASCII)[-200:].strip("-.")
