"""Collectors read counters before and after a trial, never during one (docs/measuring-method.md, rule 12)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.traffic.cpu_placement import Poller


class Collector(Protocol):
    """One source of counters."""

    def snapshot(self) -> CounterSnapshot:
        """All counters now. A counter the source lacks is absent. Under 20 ms."""
        ...


@runtime_checkable
class Settling(Protocol):
    """A source some of whose counters settle late: asked again only when frames are missing, after the trial."""

    def settled(self, before: CounterSnapshot, missing: int) -> CounterSnapshot:
        """All counters, as soon as those of drops explain ``missing`` frames since ``before``, or have settled."""
        ...


@runtime_checkable
class KnowsPollers(Protocol):
    """A source that knows the DUT's polling threads."""

    def pollers(self) -> tuple[Poller, ...]:
        """Those that run now, each with the CPU that it keeps to."""
        ...
