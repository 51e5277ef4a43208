"""Losses by port and reason, without a path: for topologies where directions share ports. Pure.

What can be said then: which counters of drops moved, and how much is left over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nfvperf.adapters.ovs.counters.drop_reasons import RX_OUTSIDE_DROPPED, RX_REASONS, TX_REASONS
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot, Ledger, LedgerLine, deltas
from pytest_nfvperf.model.topology.topology import Topology

_DROP_PREFIXES = ("coverage.datapath_drop_", "coverage.drop_action_")
_UPCALL_DROPS = ("coverage.datapath_drop_upcall_error", "coverage.datapath_drop_lock_error")


def flat_ledger(
    offered: int,
    received: int,
    before: CounterSnapshot,
    after: CounterSnapshot,
    topology: Topology,
    known: Sequence[LedgerLine] = (),
) -> Ledger:
    """Name hop and reason for lost frames.

    Args:
        offered: frames that the DUT was asked to take (sent + refused).
        received: distinct frames that came back.
        before: the "ovs" collector's snapshot before the trial.
        after: the snapshot after it; the settled one when frames were lost.
        topology: its ports are examined in its order.
        known: lines from elsewhere, such as frames that the generator counted as refused by the ring at p0.

    Returns:
        offered - received = sum of lines + unexplained. Negative unexplained (more drops counted than
        frames lost: foreign frames, learning frames) is shown as it is. A counter that fell gives no line.
    """
    changes = deltas(before, after)
    moved = {change.name: change.delta for change in changes if change.delta > 0}
    lines = list(known)
    for port in topology.ports:
        lines += _port_lines(port.name, moved)
    lines += [*_unread_lines(topology, moved), *_datapath_lines(moved)]
    lines += _upcall_lines(moved, offered - received - _frames(lines))
    return Ledger(offered, received, tuple(lines), offered - received - _frames(lines), changes)


def _frames(lines: Sequence[LedgerLine]) -> int:
    return sum(line.frames for line in lines)


def _port_lines(port: str, moved: Mapping[str, int]) -> list[LedgerLine]:
    lines = _lines_by_reason(f"{port} rx", port, "rx_dropped", RX_REASONS, moved)
    lines += _lines_by_reason(f"{port} tx", port, "tx_dropped", TX_REASONS, moved)
    for direction, names in (("rx", (*RX_OUTSIDE_DROPPED, "rx_errors")), ("tx", ("tx_errors",))):
        lines += [
            LedgerLine(f"{port} {direction}", name, moved[f"{port}.{name}"])
            for name in names
            if f"{port}.{name}" in moved
        ]
    return lines


def _lines_by_reason(
    hop: str, port: str, total: str, reasons: Sequence[str], moved: Mapping[str, int]
) -> list[LedgerLine]:
    """The reasons that the port names, and what is left of its total without one."""
    lines = [LedgerLine(hop, name, moved[f"{port}.{name}"]) for name in reasons if f"{port}.{name}" in moved]
    left = moved.get(f"{port}.{total}", 0) - sum(line.frames for line in lines)
    return [*lines, LedgerLine(hop, total, left)] if left > 0 else lines


def _unread_lines(topology: Topology, moved: Mapping[str, int]) -> list[LedgerLine]:
    """Without DPDK the kernel counts a port's frames, and OVS those that it read from its sockets in time."""
    if any(name.startswith("pmd.") for name in moved):
        return []
    came = sum(moved.get(f"{port.name}.rx_packets", 0) for port in topology.ports)
    unread = came - moved.get("main.packets_received", came)
    return [LedgerLine("datapath", "rx_socket_full", unread)] if unread > 0 else []


def _datapath_lines(moved: Mapping[str, int]) -> list[LedgerLine]:
    return [
        LedgerLine("datapath", name.removeprefix("coverage."), frames)
        for name, frames in sorted(moved.items())
        if name.startswith(_DROP_PREFIXES)
    ]


def _upcall_lines(moved: Mapping[str, int], missing: int) -> list[LedgerLine]:
    """A failed upcall is counted by the PMD at once and by coverage a second later: the same frame.

    And it may have lost no frame at all: without room for a flow OVS counts one, and forwards the frame.
    """
    failed = moved.get("pmd.upcalls_failed", 0) + moved.get("main.upcalls_failed", 0)
    left = min(failed - sum(moved.get(name, 0) for name in _UPCALL_DROPS), missing)
    return [LedgerLine("datapath", "upcalls_failed", left)] if left > 0 else []
