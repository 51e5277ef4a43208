"""Evidence as flat files for other tools: CSV, and Parquet by pyarrow."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.export_columns import TABLES, Table
from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.model.errors import ConfigError

NO_PYARROW = "Parquet files need pyarrow: pip install 'pytest-nfvperf[export]', or write CSV (--format csv)"


def export(runs: Sequence[RunEvidence], directory: Path, *, parquet: bool = False) -> list[Path]:
    """Write a file a table, with the rows of all runs; files that are there are replaced.

    Args:
        runs: from ``read_run``.
        directory: made when missing.
        parquet: write Parquet instead of CSV.

    Returns:
        The files.

    Raises:
        ConfigError: no pyarrow, or the files cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [(_parquet if parquet else _csv)(table, runs, directory) for table in TABLES]
    except OSError as error:
        raise ConfigError(f"cannot export to {directory}: {error}") from error


def _csv(table: Table, runs: Sequence[RunEvidence], directory: Path) -> Path:
    """Empty where not measured; true and false in lower case."""
    path = directory / f"{table.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in table.columns])
        for run in runs:
            for row in table.rows(run):
                writer.writerow([_text(column.cell(row)) for column in table.columns])
    return path


def _text(cell: object) -> object:
    return str(cell).lower() if isinstance(cell, bool) else cell


def _parquet(table: Table, runs: Sequence[RunEvidence], directory: Path) -> Path:
    """A row group a run: no more than one run's rows are in memory."""
    arrow, written = _pyarrow()
    types = {"text": arrow.string(), "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_()}
    schema = arrow.schema(
        [arrow.field(column.name, types[column.kind], metadata={"meaning": column.meaning}) for column in table.columns]
    )
    path = directory / f"{table.name}.parquet"
    with written.ParquetWriter(path, schema) as writer:
        for run in runs:
            rows = list(table.rows(run))
            columns = {column.name: [column.cell(row) for row in rows] for column in table.columns}
            writer.write_table(arrow.table(columns, schema=schema))
    return path


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(NO_PYARROW) from error
    return arrow, parquet
