"""Nodes of the testbed that are on other machines: what is looked for before a run, and how they are started."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.node_ovs import FarStarter, NodeHosts, NodeOvs
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import Dut, NodeSpec, Testbed
from pytest_nfvperf.model.topology.ports import GENERATOR, PortKind
from pytest_nfvperf.model.topology.topology import Topology, standing_on


class FarNodes:
    """Those of a testbed; it may have none."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._nodes = [node for node in testbed.nodes if node.host is not None]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The fingerprint of each node's host, asked for once; ConfigError where a host is not as it should be."""
        return {node.name: self.look_at(node) for node in self._nodes}

    def look_at(self, node: NodeSpec) -> dict[str, Any]:
        """The same of one. UnavailableError where execnet is missing."""
        assert node.host is not None
        try:
            from pytest_nfvperf.adapters.far.line import look_at  # noqa: PLC0415 - needs execnet
        except ModuleNotFoundError as error:
            raise UnavailableError(
                f"nodes on other machines need {error.name}: pip install 'pytest-nfvperf[ssh]'"
            ) from error
        return look_at(self._testbed, node, node.host)

    def check(self) -> None:
        """Look at all hosts.

        Raises:
            ConfigError: execnet is missing, a host cannot be reached or lacks something, or nodes have other versions
                of Open vSwitch though the file gives them none of their own.
        """
        if not self._nodes:
            return
        try:
            facts = self.facts
        except UnavailableError as error:
            raise ConfigError(str(error), key="nodes") from error
        here = [node.name for node in self._testbed.nodes if node.host is None and node.version is None]
        versions = {name: locate(self._testbed.ovs.prefix).version for name in here[:1]}
        there = {node.name: str(facts[node.name]["ovs"]) for node in self._nodes if node.version is None}
        refuse_unlike(versions | there)

    def lacks(self, topology: Topology) -> str | None:
        """What of a topology would have to be on another machine, and cannot; None where all can be."""
        return lacks_far(self._testbed, topology)

    def starter(self, journal: Journal) -> FarStarter:
        """Starts such a node, whose ssh is noted in this journal."""

        def start(node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> NodeOvs:
            from pytest_nfvperf.adapters.far.far_ovs import FarOvs  # noqa: PLC0415 - needs execnet

            return FarOvs.start(journal, node, testbed, dut, name)

        return start


def refuse_unlike(versions: dict[str, str]) -> None:
    """ConfigError where Open vSwitch differs by node, and nobody said that it shall."""
    first = next(iter(versions), "")
    other = next((node for node, version in versions.items() if version != versions[first]), None)
    if other is not None:
        raise ConfigError(
            f"Open vSwitch is {versions[other]} on {other}, and {versions[first]} on {first}: install the same, or say "
            f"that it differs: 'ovs: {{other: installed}}' and 'nodes: {{{other}: {{ovs: other}}}}'",
            key=f"nodes.{other}",
        )


def lacks_far(testbed: Testbed, topology: Topology) -> str | None:
    """What of a topology would have to be on another machine, and cannot; None where all can be."""
    hosts = {node.name: node.host for node in testbed.nodes if node.host is not None}
    for node in topology.nodes:
        if node.name not in hosts:
            continue
        part = standing_on(topology, node.name)
        parts = [f"namespace {spec.name!r}" for spec in part.namespaces]
        parts += [
            f"port {port.name!r} of {port.owner}"
            for port in topology.ports
            if port.bridge in node.bridges and (port.owner != GENERATOR or port.kind is not PortKind.TESTBED)
        ]
        if parts:
            return (
                f"{parts[0]} of {topology.name!r} would be on {hosts[node.name]}: on another machine there can be "
                "cabled ports of the generator only"
            )
    return None


FAR_NODES: Callable[[Testbed], NodeHosts] = FarNodes
