"""Counters of the ports of Linux bridges, as the kernel keeps them for each interface. Source "linux-bridge"."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from pytest_nfvperf.adapters.bridge.bridge_topology import BuiltBridgeTopology
from pytest_nfvperf.adapters.net.interface_counters import link_counters
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.topology.topology import all_ports

SOURCE = "linux-bridge"


class BridgeCollector:
    """``<port>.rx_packets`` and the others of every port; rx is what came in to the bridge by it."""

    def __init__(self, topologies: Callable[[], Sequence[BuiltBridgeTopology]]) -> None:
        self._topologies = topologies

    def snapshot(self) -> CounterSnapshot:
        counters: dict[str, int] = {}
        for built in self._topologies():
            ports = {port for _, port in all_ports(built.topology)}
            try:
                counters |= inside(built.home.path, partial(_read, ports))
            except OSError as error:
                raise TestbedError(f"no counters of the Linux bridges: {error}") from error
        return CounterSnapshot(SOURCE, time.monotonic_ns(), tuple(sorted(counters.items())))


def _read(wanted: set[str]) -> dict[str, int]:
    with Netlink() as netlink:
        _, counters = link_counters(netlink)
    return {f"{port}.{name}": value for port in wanted & set(counters) for name, value in counters[port].items()}
