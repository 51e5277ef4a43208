"""Counters that settle late are asked again only when the datapath lacks frames without a reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, Ledger, LedgerLine
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.datapath import Collector
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress
from tests.unit.test_search_algorithms import VirtualClock


class Late(Collector):
    """Counts ``drops``, but shows it only to those who wait."""

    def __init__(self) -> None:
        self.waited_for: list[int] = []

    def snapshot(self) -> CounterSnapshot:
        return CounterSnapshot("ovs", 0, (("drops", 0),))

    def settled(self, before: CounterSnapshot, after: CounterSnapshot, missing: int) -> CounterSnapshot:
        assert before == after == self.snapshot()
        self.waited_for.append(missing)
        return CounterSnapshot("ovs", 1, (("drops", missing),))


class Quick(Collector):
    """Has nothing that settles late."""

    def snapshot(self) -> CounterSnapshot:
        return CounterSnapshot("kernel", 0, ())


def by_drops(result: TrialResult, before: Sequence[CounterSnapshot], after: Sequence[CounterSnapshot]) -> Ledger:
    assert [snapshot.source for snapshot in before] == [snapshot.source for snapshot in after] == ["kernel", "ovs"]
    drops = after[1].as_dict()["drops"]
    lines = (LedgerLine("br0", "drops", drops),) if drops else ()
    return Ledger(result.offered, result.received, lines, result.lost - drops)


@pytest.mark.parametrize(("loss_ratio", "waits"), [(0.0, 0), (0.1, 1)])
def test_settled_counters_are_waited_for_only_when_frames_are_missing(loss_ratio: float, waits: int) -> None:
    topology = phy2phy()
    generator = FakeGenerator(1e6, loss_ratio=loss_ratio)
    generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
    clock = VirtualClock()
    generator.clock = clock
    late = Late()
    runner = TrialRunner(
        generator,
        [Quick(), late],
        make_ledger=by_drops,
        check_alive=lambda: None,
        context=Context(Recorder("r", [], clock), Progress(), clock),
    )
    trial = runner.run_once(TrialSpec(Traffic(), 1000, 1.0, topology.directions))
    assert trial.ledger is not None
    assert late.waited_for == [trial.result.lost] * waits
    assert trial.ledger.unexplained == 0
