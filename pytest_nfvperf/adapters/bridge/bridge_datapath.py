"""Linux bridges as a ports.Datapath."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from itertools import count

from pytest_nfvperf.adapters.bridge.bridge_counters import BridgeCollector
from pytest_nfvperf.adapters.bridge.bridge_topology import BuiltBridgeTopology
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.link_collector import LinkCollector
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink
from pytest_nfvperf.adapters.net.threads import enter_new, in_own_thread
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, DatapathInfo, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Collector

KIND = "linux-bridge"


class BridgeDatapath:
    """Topologies of the kernel's bridges and veth pairs, each in a namespace of its own."""

    def __init__(self, journal: Journal, dut: Dut = TESTBEDS_OWN, *, name: str = "bridge") -> None:
        """Start nothing; two in one run need two names."""
        if dut.userspace_tso:
            raise ConfigError("userspace TSO is a setting of OVS's userspace datapath: a Linux bridge has none")
        self._journal = journal
        self._name = name
        self._numbers = count(1)
        self._built: list[BuiltBridgeTopology] = []
        self._collectors = (
            BridgeCollector(self._live_topologies),
            LinkCollector(lambda: [built.losses() for built in self._live_topologies()]),
        )

    @staticmethod
    def lacks(dut: Dut) -> str | None:
        if dut.userspace_tso:
            return "a Linux bridge has no userspace TSO: leave it out for this datapath"
        try:
            in_own_thread(partial(_try_bridge))
        except (OSError, KernelRefusedError) as error:
            return f"no Linux bridge can be made: {error}; run as root, on a kernel with the bridge module"
        return None

    def info(self) -> DatapathInfo:
        """The kernel's release is its version."""
        detail = "the kernel's bridge in a namespace of its own, ports are veth pairs"
        return DatapathInfo(KIND, os.uname().release, None, detail)

    def build(self, topology: Topology) -> BuiltBridgeTopology:
        built = BuiltBridgeTopology(self._journal, f"{self._name}{next(self._numbers)}", topology)
        self._built.append(built)
        return built

    def collectors(self) -> tuple[Collector, ...]:
        return self._collectors

    def check_alive(self) -> None:
        for built in self._live_topologies():
            built.check()

    def logs(self) -> Mapping[str, str]:
        return {}

    def remove_topologies(self) -> None:
        for built in reversed(self._live_topologies()):
            built.close()

    def close(self) -> None:
        self.remove_topologies()

    def _live_topologies(self) -> list[BuiltBridgeTopology]:
        self._built = [built for built in self._built if not built.closed]
        return self._built


def _try_bridge() -> None:
    enter_new()
    with Netlink() as netlink:
        netlink.send([rtnetlink.bridge("probe", vlan_filtering=False)])
