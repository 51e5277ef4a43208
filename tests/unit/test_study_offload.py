"""Studies on a DUT that offloads flows: the reading that fell back to software counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.study import Study
from pytest_nfvperf.model.measure.hw_offload import OFFLOAD_RULE, OffloadShare, worst_share
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure
from tests.unit.test_study import CEILING, Bench, chains

IN_HARDWARE, FALLEN = OffloadShare(2, 0, 0), OffloadShare(1, 0, 1, ("in_port(3), actions:2",))


class OffloadBench:
    """Beside a study: what the datapath says of its flows after each reading, by the number of bridges."""

    def __init__(self, *shares):
        self.shares = list(shares)

    def __call__(self, bench):
        deploy = bench.redeploy

        def redeploy(topology, dut, *, quiet):
            live = deploy(topology, dut, quiet=quiet)
            live.built = self
            return live

        deployment = SimpleNamespace(
            redeploy=redeploy, refuse_lacking=bench.refuse_lacking, side_by_side=bench.side_by_side
        )
        return Study(
            QUICK, {"suite": "s", "test": "t", "topology": "chain", "offload": "on"}, deployment,
            lambda *_: Limits(CEILING, None), lambda: None, lambda _: True, bench.context,
        )  # fmt: skip

    def offload_share(self):
        self.shares.append(self.shares.pop(0))
        return self.shares[-1]


def test_a_reading_that_fell_back_to_software_fails_its_subject_and_no_other():
    bench = Bench(lambda _: 4e6)
    # Rounds go there and back: of the first four readings the second and third are the second subject's.
    study = OffloadBench(IN_HARDWARE, FALLEN, *[IN_HARDWARE] * 40)(bench)

    outcomes = study.forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))

    assert [outcome.offload for outcome in outcomes] == [IN_HARDWARE, FALLEN]
    check = SlaCheck([OFFLOAD_RULE], MeasuredSubjects(), bench.context.recorder, lambda _: None)
    with pytest.raises(SlaFailure) as told:
        check.check_each(outcomes)
    assert "FAIL     offloaded_flows >= 100 %" in str(told.value)
    assert "not in hardware: in_port(3), actions:2" in str(told.value)
    assert "2 bridges" in str(told.value)
    assert "1 bridge" not in str(told.value)


def test_without_offload_a_study_asks_nobody():
    bench = Bench(lambda _: 4e6)
    assert {outcome.offload for outcome in bench.study().forwarding_rate("bridges", chains(1, 2), Traffic())} == {None}


@pytest.mark.parametrize(
    ("shares", "worst"),
    [
        ((), None),
        ((IN_HARDWARE, OffloadShare(0, 0, 0)), OffloadShare(0, 0, 0)),
        ((OffloadShare(0, 0, 0), FALLEN, OffloadShare(0, 1, 2)), OffloadShare(0, 1, 2)),
    ],
)
def test_the_worst_share_counts(shares, worst):
    assert worst_share(shares) == worst
