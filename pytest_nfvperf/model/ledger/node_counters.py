"""Counters of several nodes side by side: which are a node's own, and what all of them make together. Pure.

A source of a node is called after both, "node1.ovs", so snapshots of two nodes are never paired. A port's counters keep
their names, because a topology has each port once; those of a node as a whole have the node before them,
"node1.pmd.packets_received".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pytest_nfvperf.model.ledger.ledger import CounterDelta, CounterSnapshot

_OF_MACHINE = "softnet"
"""Counters that all nodes of one machine have in common."""


def on_node(snapshot: CounterSnapshot, node: str, ports: Collection[str]) -> CounterSnapshot:
    """A snapshot that one node's source gave, with the node in the names of what is not a port's."""
    named = ((_on_node(name, node, ports), value) for name, value in snapshot.counters)
    return CounterSnapshot(f"{node}.{snapshot.source}", snapshot.time_ns, tuple(sorted(named)))


def _on_node(name: str, node: str, ports: Collection[str]) -> str:
    first = name.partition(".")[0]
    return name if first in ports or first == _OF_MACHINE else f"{node}.{name}"


def off_node(snapshot: CounterSnapshot, node: str) -> CounterSnapshot:
    """The reverse of ``on_node``: as the node's own source gave it."""
    named = ((name.removeprefix(f"{node}."), value) for name, value in snapshot.counters)
    return CounterSnapshot(kind_of(snapshot.source), snapshot.time_ns, tuple(sorted(named)))


def kind_of(source: str) -> str:
    """``ovs`` of ``node1.ovs``, and of ``ovs``."""
    return source.rpartition(".")[2]


def nodes_of(snapshots: Sequence[CounterSnapshot]) -> list[str]:
    """The nodes whose sources are among these."""
    names = (snapshot.source.rpartition(".")[0] for snapshot in snapshots)
    return list(dict.fromkeys(name for name in names if name))


def of_node(moved: Mapping[str, int], node: str, nodes: Sequence[str]) -> dict[str, int]:
    """What one node's counters did, by the names that they have without nodes; ports' counters are all there."""
    prefixes = tuple(f"{each}." for each in nodes)
    common = {name: delta for name, delta in moved.items() if not name.startswith(prefixes)}
    own = {name: delta for name, delta in moved.items() if name.startswith(f"{node}.")}
    return common | {name.removeprefix(f"{node}."): delta for name, delta in own.items()}


def sums(changes: Sequence[CounterDelta], nodes: Sequence[str]) -> list[CounterDelta]:
    """What the nodes' own counters did together, by the names that they have without nodes."""
    total = Counter[str]()
    for change in changes:
        node, _, name = change.name.partition(".")
        if node in nodes:
            total[name] += change.delta
    return [CounterDelta(name, delta, went_back=False) for name, delta in sorted(total.items())]


def as_one(snapshots: Sequence[CounterSnapshot], kinds: Collection[str]) -> CounterSnapshot:
    """The snapshots of these kinds as that of one DUT: what nodes count by themselves is added up."""
    chosen = [snapshot for snapshot in snapshots if kind_of(snapshot.source) in kinds]
    total = Counter[str]()
    for snapshot in chosen:
        node = snapshot.source.rpartition(".")[0]
        total.update({name.removeprefix(f"{node}."): value for name, value in snapshot.counters})
    return CounterSnapshot(kind_of(chosen[0].source), chosen[0].time_ns, tuple(sorted(total.items())))
