"""Sinks take evidence records as they are made: the JSON-lines file, Allure, the terminal."""

from __future__ import annotations

from typing import Protocol

from pytest_nfvperf.model.evidence.records import Record


class Sink(Protocol):
    """Takes records in order."""

    def emit(self, record: Record) -> None:
        """Take one record; it is on disk, or wherever it goes, when this returns."""
        ...

    def close(self) -> None:
        """Finish. Can be called twice."""
        ...
