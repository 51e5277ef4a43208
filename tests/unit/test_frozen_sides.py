"""Which of several rigs works, and that none stays frozen, whatever happens to one of them."""

from __future__ import annotations

import pytest

from pytest_nfvperf.measure.alternation import SideBySide
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import phy2phy

SUBJECTS = [(phy2phy(), Dut(version=name)) for name in "abc"]


class StubRig:
    """Stands for a rig: notes whether it is frozen; ``wrong``: "dead", "will not stop" or "cannot be closed"."""

    def __init__(self, made):
        self.frozen, self.closed, self.wrong, self.made = False, False, "", made
        made.append(self)

    def beside(self, name):
        return StubRig(self.made)

    def freeze(self):
        if self.wrong in {"dead", "will not stop"}:
            raise TestbedError("not stopped")
        self.frozen = True

    def died(self):
        return self.wrong == "dead"

    def thaw(self):
        self.frozen = False

    def logs(self):
        return {}

    def remove_topology(self): ...

    def close(self):
        self.closed = True
        if self.wrong == "cannot be closed":
            raise TestbedError("not closed")


@pytest.fixture
def rigs():
    return []


@pytest.fixture
def beside(rigs):
    made = SideBySide(StubRig(rigs), lambda rig, topology, dut: object())
    made.begin_block(SUBJECTS, 0)
    return made


@pytest.mark.parametrize("subject", [0, 1, 2])
def test_one_works_and_the_others_are_frozen(beside, rigs, subject):
    beside.run(subject)

    assert [rig.frozen for rig in rigs] == [number != subject for number in range(3)]


def test_one_that_died_stops_nobody_else(beside, rigs):
    rigs[1].wrong = "dead"

    beside.run(0)

    assert rigs[2].frozen


def test_one_that_does_not_stop_would_spoil_the_others(beside, rigs):
    rigs[1].wrong = "will not stop"

    with pytest.raises(TestbedError, match="not stopped"):
        beside.run(0)


def test_nobody_stays_frozen_and_all_are_closed_though_one_cannot_be(beside, rigs):
    beside.run(0)
    rigs[2].wrong = "cannot be closed"

    with pytest.raises(TestbedError, match="not closed"):
        beside.close()

    assert [rig.frozen for rig in rigs] == [False] * 3
    assert [rig.closed for rig in rigs] == [False, True, True]


def test_a_rig_is_known_again_where_all_want_the_same_dut(rigs):
    made = SideBySide(StubRig(rigs), lambda rig, topology, dut: object())
    same = [(phy2phy(), Dut())] * 3
    seen = []
    for number in range(4):
        made.begin_block(same, number)
        seen.append([made.rig_of(subject) for subject in range(3)])

    assert seen == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_rigs_that_start_another_dut_every_few_blocks_are_not(beside):
    assert [beside.rig_of(subject) for subject in range(3)] == [None] * 3
