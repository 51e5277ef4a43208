"""Collectors read counters before and after a trial, never during one (MEASURING.md rule 12)."""

from __future__ import annotations

from typing import Protocol

from pytest_nfvperf.model.ledger import CounterSnapshot


class Collector(Protocol):
    """One source of counters."""

    def snapshot(self) -> CounterSnapshot:
        """All counters now. A counter the source lacks is absent. Under 20 ms."""
        ...
