"""What every Sink keeps to: takes any record, does not change it, closes twice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.features.allure.sink import AllureSink
from pytest_nfvperf.model.evidence.records import Record, RecordKind
from pytest_nfvperf.ports.machine import Sink
from tests.sample_comparison import comparison_records
from tests.sample_run import small_run
from tests.sample_study import study_records

MakeSink = Callable[[Path], Sink]


class MemorySink:
    """The fake: keeps records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def emit(self, record: Record) -> None:
        """Take one."""
        self.records.append(record)

    def close(self) -> None:
        """Nothing to do."""


SINKS: dict[str, MakeSink] = {
    "memory": lambda path: MemorySink(),
    "evidence": lambda path: EvidenceWriter(path / "evidence.jsonl"),
    "allure": lambda path: AllureSink(path / "allure", path),
}


@pytest.fixture(params=list(SINKS))
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    """Each sink in turn."""
    return SINKS[request.param](tmp_path)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """A run with every kind of record."""
    records = [*small_run(), *study_records(), *comparison_records()]
    assert {record.kind for record in records} == set(RecordKind)
    return records


def test_takes_every_kind_of_record_and_changes_none(sink: Sink, records: list[Record]) -> None:
    kept = copy.deepcopy(records)
    for record in records:
        sink.emit(record)
    sink.close()
    assert records == kept


def test_closes_twice(sink: Sink, records: list[Record]) -> None:
    sink.emit(records[0])
    sink.close()
    sink.close()


def test_closes_without_a_record(sink: Sink) -> None:
    sink.close()
