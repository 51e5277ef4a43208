"""What a node on another machine can be asked, by the names of methods. Answers are builtin types."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from pytest_nfvperf.adapters.fingerprint.fingerprint import fingerprint
from pytest_nfvperf.adapters.host.cpus import check_allowed, check_pages, check_promised
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.borrowed import check_free
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.topology.uplinks import Uplinks
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.dut_version import ovs_of
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Collector, KnowsPollers, Settling

AgedSnapshot = tuple[str, int, list[tuple[str, int]]]
"""Its source, how many ns ago it was taken, and its counters: this machine's clock is not the other one's."""


class Taken(Protocol):
    """The machine, taken for this node."""

    testbed: Testbed
    journal: Journal

    def close(self) -> None:
        """Give it back. Can be called twice."""
        ...


class FarNode:
    """One node's OVS, and what stands on it."""

    def __init__(self, take: Callable[[Testbed], Taken]) -> None:
        """``take``: takes the machine."""
        self._take = take
        self._machine: Taken | None = None
        self._ovs: OvsDatapath | None = None
        self._built: BuiltOvsTopology | None = None
        self._sources: tuple[Collector, ...] = ()

    def look(self, testbed: Testbed, dut: Dut) -> dict[str, Any]:
        """The fingerprint of this machine, with its OVS; changes nothing.

        Raises:
            ConfigError: a CPU, OVS or an interface is not there, or somebody needs the interface.
        """
        here = replace(testbed, cpus=CpuPlan((), (), ()), hugepages_mib=0)  # those are the other machine's
        check_pages()
        check_promised(here)
        check_allowed(here)
        kind = dut.kind or testbed.ovs.datapath
        binaries = locate(ovs_of(testbed.ovs, dut).prefix, dpdk=kind == "dpdk")
        unknown = dut.tuning.unknown_to(binaries.major_minor)
        if unknown is not None:
            raise ConfigError(unknown, key="tuning")
        for port in testbed.ports:
            if port.interface is not None:
                check_free(port.interface, f"port {port.name!r}", "dut.ports")
        return {**fingerprint(testbed), "ovs": binaries.version, "dpdk": binaries.dpdk_version, "datapath": kind}

    def start(self, testbed: Testbed, dut: Dut, name: str) -> dict[str, Any]:
        """Take the machine and start its OVS; what it is."""
        self._machine = self._take(testbed)
        self._ovs = OvsDatapath.start(self._machine.testbed, self._machine.journal, dut, name=name)
        self._sources = self._ovs.collectors()
        return asdict(self._ovs.info())

    def sources(self) -> list[tuple[bool, bool]]:
        """Of each source of counters: whether some settle late, and whether it knows the polling threads."""
        return [(isinstance(one, Settling), isinstance(one, KnowsPollers)) for one in self._sources]

    def snapshot(self, source: int) -> AgedSnapshot:
        """All counters of a source now."""
        return _aged(self._sources[source].snapshot())

    def settled(self, source: int, before: CounterSnapshot, missing: int) -> AgedSnapshot:
        """The same, once those of drops explain ``missing`` frames since ``before``, or have settled."""
        of = self._sources[source]
        return _aged(of.settled(before, missing) if isinstance(of, Settling) else of.snapshot())

    def build(self, topology: Topology, uplinks: Uplinks) -> tuple[dict[str, str], list[tuple[str, str | None]]]:
        """Build it; the topology's ports by OVS's interfaces, and the ports with what the generator has behind each."""
        self._built = self._running.build(topology, uplinks)
        return self._built.interface_names(), [(far.port, far.device) for far in self._built.attachments()]

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for link on every port."""
        self._live.wait_ready(deadline_s)

    def mac_of(self, bridge: str) -> str:
        """Of a bridge's local port."""
        return self._live.mac_of(bridge)

    def tell_neighbour(self, bridge: str, address: str, mac: str) -> None:
        """Who a tunnel's other end is."""
        self._live.tell_neighbour(bridge, address, mac)

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Make these the flows of a bridge."""
        self._live.replace_flows(bridge, flows)

    def learned(self) -> dict[str, str]:
        """Ports by MAC address."""
        return self._live.learned()

    def firewall(self) -> dict[str, list[str]]:
        """What filters frames, by namespace."""
        return self._live.firewall()

    def not_offloaded(self) -> str | None:
        """Why no flow is in hardware."""
        return self._live.not_offloaded()

    def configuration(self) -> str:
        """As text."""
        return self._live.configuration()

    def remove(self) -> None:
        """Remove what was built."""
        built, self._built = self._built, None
        if built is not None:
            built.close()

    def check_alive(self) -> None:
        """TestbedError when a daemon died, or a namespace or link went."""
        self._running.check_alive()

    def logs(self) -> Mapping[str, str]:
        """The ends of the daemons' logs."""
        return dict(self._running.logs())

    def freeze(self) -> None:
        """Stop OVS where it is."""
        self._running.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self._running.thaw()

    def close(self) -> None:
        """Stop OVS, remove all that was made, give the machine back. Can be called twice."""
        ovs, self._ovs, machine, self._machine = self._ovs, None, self._machine, None
        try:
            if ovs is not None:
                ovs.close()
        finally:
            if machine is not None:
                machine.close()

    @property
    def _running(self) -> OvsDatapath:
        if self._ovs is None:
            raise TestbedError("its OVS was not started")
        return self._ovs

    @property
    def _live(self) -> BuiltOvsTopology:
        if self._built is None:
            raise TestbedError("nothing stands on it")
        return self._built


def _aged(snapshot: CounterSnapshot) -> AgedSnapshot:
    return snapshot.source, time.monotonic_ns() - snapshot.time_ns, list(snapshot.counters)
