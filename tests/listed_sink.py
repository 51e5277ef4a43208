"""A sink that keeps what it is given, for tests that look at the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_nfvperf.model.evidence.records import Record


@dataclass
class Listed:
    """``records``: in the order in which they came."""

    records: list[Record] = field(default_factory=list)

    def emit(self, record: Record) -> None:
        """Keep it."""
        self.records.append(record)

    def close(self) -> None:
        """Nothing to close."""
