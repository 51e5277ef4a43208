"""A failure is about the topology on which its runs were measured, not about the one that was deployed last."""

from __future__ import annotations

import pytest

from pytest_nfvperf.measure.trials import DeployedOn, InvalidTrialsError, RunLocations
from pytest_nfvperf.model.errors import DutFailure
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.session.run import failed_on
from pytest_nfvperf.session.slas import SlaFailure

ONE, TWO, THREE = [(bridge_chain(number), TESTBED_DUT) for number in (1, 2, 3)]
DEPLOYED: dict[DeployedOn, TopologyData] = {
    deployed_on: TopologyData(deployed_on[0], "dpdk") for deployed_on in (ONE, TWO, THREE)
}


@pytest.fixture
def locations() -> RunLocations:
    """Two trials on the chain of one, one on that of two; the last run of streams on that of one."""
    locations = RunLocations()
    for run, deployed_on in (("trial-0001", ONE), ("trial-0002", TWO), ("trial-0003", ONE), ("stream-0001", ONE)):
        locations.ran(run, deployed_on)
    return locations


class InvalidTrial:
    def __init__(self, trial: str) -> None:
        self.id, self.invalid, self.result = trial, (), self


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (SlaFailure("table", Judgement.FAIL, ["trial-0002"]), [TWO]),
        (SlaFailure("table", Judgement.FAIL, ["trial-0002", "trial-0001", "trial-0003"]), [TWO, ONE]),
        (SlaFailure("table", Judgement.FAIL, ["soak-0001"]), [ONE]),  # nobody noted where it was
        (InvalidTrialsError([InvalidTrial("trial-0002")]), [TWO]),
        (DutFailure("no flow there"), [ONE]),
    ],
)
def test_of_what_failed_else_of_what_worked_last(
    error: Exception, about: list[DeployedOn], locations: RunLocations
) -> None:
    assert failed_on(error, DEPLOYED, locations) == [DEPLOYED[deployed_on] for deployed_on in about]


def test_where_nothing_was_measured_it_is_what_was_deployed_last(locations: RunLocations) -> None:
    locations.clear()
    assert failed_on(DutFailure("no flow there"), DEPLOYED, locations) == [DEPLOYED[THREE]]
    locations.last = TWO
    assert failed_on(DutFailure("no flow there"), DEPLOYED, locations) == [DEPLOYED[TWO]]
