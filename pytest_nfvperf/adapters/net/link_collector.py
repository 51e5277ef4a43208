"""How often links were lost, as a collector: a veth pair that is pulled during a trial spoils it. Source "links"."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pytest_nfvperf.model.ledger.ledger import CounterSnapshot

SOURCE = "links"
LOSSES = "link_losses"
"""``<port>.link_losses``: how often the port lost its link since it was made (IFLA_CARRIER_DOWN_COUNT)."""


class LinkCollector:
    """Losses of link of every veth port."""

    def __init__(self, losses: Callable[[], Sequence[Mapping[str, int]]]) -> None:
        """``losses``: of each deployed topology, by its ports' names."""
        self._losses = losses

    def snapshot(self) -> CounterSnapshot:
        counters = {f"{port}.{LOSSES}": count for of_one in self._losses() for port, count in of_one.items()}
        return CounterSnapshot(SOURCE, time.monotonic_ns(), tuple(sorted(counters.items())))
