"""The OVS of one node: on this machine it is an OvsDatapath; one on another machine answers over ssh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovs.topology.built_node import BuiltNode
from pytest_nfvperf.adapters.ovs.topology.uplinks import Uplinks
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut, NodeSpec, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Collector


class NodeOvs(Protocol):
    """One node's OVS."""

    def info(self) -> DatapathInfo: ...

    def processes(self) -> Mapping[int, CpuRole]:
        """Its daemons on this machine, by id."""
        ...

    def build(self, topology: Topology, uplinks: Uplinks) -> BuiltNode:
        """Build what stands on the node; ``uplinks``: where the underlays lead."""
        ...

    def collectors(self) -> tuple[Collector, ...]:
        """Its counters by source, "pmd-sched" among them."""
        ...

    def check_alive(self) -> None:
        """TestbedError when a daemon died, a namespace or link went, or the host does not answer."""
        ...

    def logs(self) -> Mapping[str, str]: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def close(self) -> None: ...


class FarStarter(Protocol):
    """Starts the OVS of a node that is on another machine."""

    def __call__(self, node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> NodeOvs:
        """``testbed``: as the node sees it. ``name``: of the instance. TestbedError where it does not start."""
        ...


class NodeHosts(Protocol):
    """Other machines that nodes of a testbed are on; there may be none."""

    @property
    def facts(self) -> dict[str, Any]:
        """The fingerprint of each, by the node; ConfigError where one is not as it should be."""
        ...

    def look_at(self, node: NodeSpec) -> dict[str, Any]:
        """The fingerprint of the machine of a node that is on another; UnavailableError where we cannot look."""
        ...

    def check(self) -> None:
        """ConfigError where one cannot be used."""
        ...

    def lacks(self, topology: Topology) -> str | None:
        """What of a topology would have to be on another machine, and cannot; None where all can be."""
        ...

    def starter(self, journal: Journal) -> FarStarter:
        """Starts nodes there. ``journal``: of the run."""
        ...


NODE_HOSTS = Point[Callable[[Testbed], NodeHosts]]("node hosts")
"""By what leads there."""
