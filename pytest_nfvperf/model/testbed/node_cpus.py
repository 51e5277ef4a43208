"""Which of the DUT's CPUs belong to which node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.testbed.node_spec import NodeSpec
from pytest_nfvperf.model.testbed.testbed import CpuPlan


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The poll-mode threads' CPUs by node. ``shared``: there are fewer than nodes, and so all have the same."""

    pmd: tuple[tuple[str, tuple[int, ...]], ...]
    shared: bool

    @property
    def at_least(self) -> str:
        """Why rates are lower bounds of what the nodes forward; empty where they are not."""
        names = " and ".join(node for node, _ in self.pmd)
        return f"{names} share CPU {cpu_list(self.pmd[0][1])}" if self.shared else ""

    def of(self, node: str) -> tuple[int, ...]:
        """Those of a node; KeyError for an unknown one."""
        return dict(self.pmd)[node]

    def __str__(self) -> str:
        """``PMDs: node1 on CPU 2, node2 on CPU 3``; empty where no node is on this machine."""
        if not self.pmd:
            return ""
        said = ", ".join(f"{node} on CPU {cpu_list(cpus)}" for node, cpus in self.pmd)
        return f"PMDs: {said}{'; they share, so rates are at least those shown' if self.shared else ''}"


def node_cpus(plan: CpuPlan, nodes: Sequence[str], given: Sequence[NodeSpec] = ()) -> NodeCpus:
    """Deal the DUT's CPUs out to nodes, in turn; where there are fewer than nodes, all share them.

    ``given``: nodes of the testbed file, which has CPUs for all of them or for none.
    """
    own = {spec.name: spec.cpus for spec in given if spec.cpus}
    if all(node in own for node in nodes):
        return NodeCpus(tuple((node, own[node]) for node in nodes), shared=False)
    shared = len(plan.pmd) < len(nodes)
    dealt = [(node, plan.pmd if shared else plan.pmd[number :: len(nodes)]) for number, node in enumerate(nodes)]
    return NodeCpus(tuple(dealt), shared)
