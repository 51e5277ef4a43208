"""The ledger without paths: pure, conserving, never clamped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.ovs.counters import DROP_COUNTERS, RX_REASONS, TX_REASONS
from pytest_nfvperf.adapters.ovs.trial_ledger import flat_ledger
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, LedgerLine
from tests.functional.ovs_support import phy2phy

TOPOLOGY = phy2phy()


def snapshot(**counters: int) -> CounterSnapshot:
    named = {name.replace("__", "."): value for name, value in counters.items()}
    return CounterSnapshot("ovs", 0, tuple(sorted(named.items())))


def test_a_full_ring_is_named_by_port_and_reason() -> None:
    before = snapshot(p1__tx_dropped=5, p1__ovs_tx_failure_drops=5, p1__ovs_tx_qos_drops=0)
    after = snapshot(p1__tx_dropped=25, p1__ovs_tx_failure_drops=20, p1__ovs_tx_qos_drops=0)
    ledger = flat_ledger(100, 80, before, after, TOPOLOGY)
    assert ledger.lines == (
        LedgerLine("p1 tx", "ovs_tx_failure_drops", 15),
        LedgerLine("p1 tx", "tx_dropped", 5),
    )
    assert ledger.unexplained == 0


def test_what_the_caller_knows_comes_first() -> None:
    refused = LedgerLine("p0 ring", "refused", 7)
    ledger = flat_ledger(100, 90, snapshot(), snapshot(), TOPOLOGY, (refused,))
    assert (ledger.lines, ledger.unexplained) == ((refused,), 3)


def test_a_failed_upcall_is_one_frame_however_often_it_is_counted() -> None:
    before = snapshot(pmd__upcalls_failed=0, coverage__datapath_drop_upcall_error=0)
    after = snapshot(pmd__upcalls_failed=9, coverage__datapath_drop_upcall_error=4)
    ledger = flat_ledger(9, 0, before, after, TOPOLOGY)
    assert ledger.lines == (
        LedgerLine("datapath", "datapath_drop_upcall_error", 4),
        LedgerLine("datapath", "upcalls_failed", 5),
    )
    assert ledger.unexplained == 0


def test_a_counter_that_went_back_gives_no_line_but_shows() -> None:
    ledger = flat_ledger(5, 5, snapshot(p0__rx_dropped=9), snapshot(p0__rx_dropped=2), TOPOLOGY)
    assert ledger.lines == ()
    assert ledger.deltas[0].went_back


def test_a_counter_of_one_snapshot_only_gives_no_line() -> None:
    ledger = flat_ledger(5, 0, snapshot(), snapshot(p0__rx_dropped=5), TOPOLOGY)
    assert (ledger.lines, ledger.unexplained) == ((), 5)


def test_frames_that_the_main_thread_did_not_read_are_named() -> None:
    before = snapshot(p0__rx_packets=0, p1__rx_packets=0, main__packets_received=0)
    after = snapshot(p0__rx_packets=60, p1__rx_packets=40, main__packets_received=90)
    ledger = flat_ledger(100, 90, before, after, TOPOLOGY)
    assert (ledger.lines, ledger.unexplained) == ((LedgerLine("datapath", "rx_socket_full", 10),), 0)


def test_frames_that_pmds_read_are_not_missed_at_the_main_thread() -> None:
    before = snapshot(p0__rx_packets=0, main__packets_received=0, pmd__packets_received=0)
    after = snapshot(p0__rx_packets=60, main__packets_received=1, pmd__packets_received=60)
    assert flat_ledger(60, 60, before, after, TOPOLOGY).lines == ()


def test_ports_of_other_topologies_are_left_out() -> None:
    ledger = flat_ledger(5, 0, snapshot(x__tx_dropped=0), snapshot(x__tx_dropped=5), TOPOLOGY)
    assert ledger.lines == ()


def test_more_drops_than_loss_is_not_clamped() -> None:
    ledger = flat_ledger(5, 5, snapshot(p0__rx_errors=0), snapshot(p0__rx_errors=3), TOPOLOGY)
    assert ledger.unexplained == -3


COUNTERS = [
    f"{port}.{name}"
    for port in ("p0", "p1")
    for name in ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors", *TX_REASONS, *RX_REASONS)
] + [
    "p0.rx_packets",
    "main.packets_received",
    "pmd.upcalls_failed",
    *(f"coverage.{name}" for name in DROP_COUNTERS[:4]),
]
COUNTS = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 1 << 40))


@given(COUNTS, COUNTS, st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_frames_are_conserved(before: dict[str, int], after: dict[str, int], offered: int, received: int) -> None:
    ledger = flat_ledger(offered, received, snapshot(**before), snapshot(**after), TOPOLOGY)
    assert offered - received == sum(line.frames for line in ledger.lines) + ledger.unexplained
    assert all(line.frames > 0 for line in ledger.lines)


SIDES = {"p1.tx_dropped": TX_REASONS, "p0.rx_dropped": RX_REASONS}


@pytest.mark.parametrize("total", SIDES)
@given(st.data())
def test_reasons_and_their_total_are_not_counted_twice(total: str, data: st.DataObject) -> None:
    names = SIDES[total]
    drops = data.draw(st.lists(st.integers(1, 1 << 30), min_size=len(names), max_size=len(names)))
    reasons = {f"{total[:2]}.{name}": frames for name, frames in zip(names, drops, strict=True)}
    before = snapshot(**dict.fromkeys([*reasons, total], 0))
    ledger = flat_ledger(sum(drops), 0, before, snapshot(**reasons, **{total: sum(drops)}), TOPOLOGY)
    assert ledger.unexplained == 0
