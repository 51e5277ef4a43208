"""Counters of several OVS as those of one DUT: sources "node1.ovs", "node2.ovs", ... and "pmd-sched" of all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot, off_node, on_node
from pytest_nfvperf.model.traffic.cpu_placement import Poller
from pytest_nfvperf.ports.datapath import Collector, KnowsPollers, Settling
from pytest_nfvperf.ports.generator import KnowsForwardingThread


@contextmanager
def of_node(node: str) -> Iterator[None]:
    """Errors say on which node the testbed broke."""
    try:
        yield
    except TestbedError as error:
        raise TestbedError(f"node {node}: {error.message}", evidence=error.evidence) from error


Ports = Callable[[], Collection[str]]
"""Names of the ports of all nodes."""

TurnsRun = Callable[[], Mapping[int, int]]
_NOBODY: Mapping[int, int] = {}

_RUN_OF_ONE = re.compile(r"pmd-sched\.c\d+\.run_ns")


class NodeCollector:
    """A source of one node, called after it."""

    def __init__(self, node: str, source: Collector, ports: Ports) -> None:
        self._node = node
        self._source = source
        self._ports = ports

    def snapshot(self) -> CounterSnapshot:
        with of_node(self._node):
            return on_node(self._source.snapshot(), self._node, self._ports())

    def forwarding_ns(self) -> int | None:
        """How long the node's own thread that forwards has run, in ns; None where the node has none."""
        with of_node(self._node):
            return self._source.forwarding_ns() if isinstance(self._source, KnowsForwardingThread) else None


class SettlingNodeCollector:
    """A NodeCollector of a source some of whose counters settle late."""

    def __init__(self, node: str, source: Settling, now: NodeCollector, ports: Ports) -> None:
        self._node = node
        self._source = source
        self._now = now
        self._ports = ports

    def snapshot(self) -> CounterSnapshot:
        return self._now.snapshot()

    def forwarding_ns(self) -> int | None:
        return self._now.forwarding_ns()

    def settled(self, before: CounterSnapshot, missing: int) -> CounterSnapshot:
        """Wait until this node's drops explain ``missing`` frames since ``before``, or have settled."""
        with of_node(self._node):
            return on_node(self._source.settled(off_node(before, self._node), missing), self._node, self._ports())


def node_collector(node: str, source: Collector, ports: Ports) -> Collector:
    """A node's source, as what it is."""
    now = NodeCollector(node, source, ports)
    return SettlingNodeCollector(node, source, now, ports) if isinstance(source, Settling) else now


@runtime_checkable
class Sched(Collector, KnowsPollers, Protocol):
    """How the PMD threads of one node were scheduled; of another machine's none can be watched from here."""


class SharedCpuSched:
    """How all nodes' PMD threads were scheduled, in one source "pmd-sched".

    Nodes that share CPUs wait for each other, and for the process that makes their turns short. The plan causes that,
    nobody steals, so ``pmd-sched.beside_run_ns`` has what those ran on the same CPUs, beside vswitchd's main threads.
    """

    def __init__(
        self, nodes: Mapping[str, Sched], here: Collection[str], turns_run_ns: TurnsRun = lambda: _NOBODY
    ) -> None:
        """``here``: the nodes on this machine. CPU 2 of another one is another CPU.

        ``turns_run_ns``: how long the process that makes turns short has run, by CPU, ns (``short_turns``).
        """
        self._nodes = dict(nodes)
        self._here = frozenset(here)
        self._turns_run_ns = turns_run_ns

    def snapshot(self) -> CounterSnapshot:
        by_node = {node: _scheduled(node, of) for node, of in self._nodes.items()}
        counters = {f"{node}.{name}": value for node, of in by_node.items() for name, value in of.items()}
        beside = [
            _run_beside(of, other)
            for node, of in by_node.items()
            for name, other in by_node.items()
            if name != node and {name, node} <= self._here
        ]
        turns = {f"pmd-sched.c{cpu:02d}.run_ns": ran_ns for cpu, ran_ns in self._turns_run_ns().items()}
        beside += [_run_beside(by_node[node], turns) for node in self._here & set(by_node)]
        if any(beside):
            counters["pmd-sched.beside_run_ns"] = sum(beside)
        return CounterSnapshot("pmd-sched", time.monotonic_ns(), tuple(sorted(counters.items())))


def _scheduled(node: str, of: Sched) -> Mapping[str, int]:
    with of_node(node):
        return of.snapshot().as_dict()


def _run_beside(of: Mapping[str, int], other: Mapping[str, int]) -> int:
    """How long others ran so far on the CPUs of a node's PMDs, ns: another node's PMDs, or who makes turns short."""
    return sum(other.get(name, 0) for name in of if _RUN_OF_ONE.fullmatch(name))


class NodesSched:
    """PMD scheduling of nodes with CPUs of their own, whose threads can be watched."""

    def __init__(self, nodes: Mapping[str, Sched], here: Collection[str]) -> None:
        self._all = SharedCpuSched(nodes, here)
        self._nodes = tuple(nodes.values())

    def snapshot(self) -> CounterSnapshot:
        return self._all.snapshot()

    def pollers(self) -> tuple[Poller, ...]:
        return tuple(poller for of in self._nodes for poller in of.pollers())
