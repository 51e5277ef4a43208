"""Counters of the ports of Linux bridges, as the kernel keeps them for each interface. Source "linux-bridge"."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

from pytest_nfvperf.adapters.bridge.topology import BuiltBridgeTopology
from pytest_nfvperf.adapters.net import messages
from pytest_nfvperf.adapters.net.netlink import Netlink, attributes
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.ledger import CounterSnapshot
from pytest_nfvperf.model.topology_checks import all_ports

SOURCE = "linux-bridge"
_INTERFACE_BYTES = 16  # struct ifinfomsg
_NAME, _STATISTICS = 3, 23  # IFLA_IFNAME, IFLA_STATS64
_NAMES = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
)  # fmt: skip
_COUNTERS = struct.Struct(f"={len(_NAMES)}Q")  # the first of struct rtnl_link_stats64


class BridgeCollector:
    """``<port>.rx_packets`` and the others of every port; rx is what came in to the bridge by it."""

    def __init__(self, topologies: Callable[[], Sequence[BuiltBridgeTopology]]) -> None:
        """``topologies``: those that stand."""
        self._topologies = topologies

    def snapshot(self) -> CounterSnapshot:
        """All counters now; TestbedError when the bridges' namespace is gone."""
        counters: dict[str, int] = {}
        for built in self._topologies():
            ports = {port for _, port in all_ports(built.topology)}
            try:
                counters |= inside(built.home.path, partial(_read, ports))
            except OSError as error:
                raise TestbedError(f"no counters of the Linux bridges: {error}") from error
        return CounterSnapshot(SOURCE, time.time_ns(), tuple(sorted(counters.items())))


def _read(wanted: set[str]) -> dict[str, int]:
    counters = {}
    with Netlink() as netlink:
        for answer in netlink.ask(messages.list_links(statistics=True), dump=True):
            found = dict(attributes(answer[_INTERFACE_BYTES:]))
            port = found[_NAME].rstrip(b"\0").decode()
            if port in wanted and _STATISTICS in found:
                values = _COUNTERS.unpack_from(found[_STATISTICS])
                counters.update({f"{port}.{name}": value for name, value in zip(_NAMES, values, strict=True)})
    return counters
