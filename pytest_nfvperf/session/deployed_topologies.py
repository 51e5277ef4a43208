"""The topologies that a test deployed, and which of them its failure is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.adapters.report.texts import deployed_title, drawn
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.testbed.topology_text import port_kinds
from pytest_nfvperf.runs.invalid_trials import InvalidTrialsError
from pytest_nfvperf.runs.places import DeployedOn, Places
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.session.sla_check import SlaFailure

MOST_DRAWN = 2
"""Of more topologies than this the others are only named: the report draws them all."""


def topology_data(live: LiveTopology, testbed: Testbed) -> TopologyData:
    """What the evidence says of a deployed topology."""
    kinds = port_kinds(live.topology, live.datapath_kind, testbed)
    return TopologyData(live.as_deployed, live.datapath_kind, live.dut, kinds, live.datapath_info)


def failed_on(error: BaseException, deployed: Mapping[DeployedOn, TopologyData], places: Places) -> list[TopologyData]:
    """Those on which what failed was measured; else the one that was deployed, or worked, last.

    Args:
        error: what the test raised.
        deployed: all topologies of the test, in order; not empty.
        places: on which of them it measured what.
    """
    found = [deployed[place] for place in places.of(_runs_behind(error)) if place in deployed]
    if found:
        return [one for number, one in enumerate(found) if one not in found[:number]]
    if places.last is not None and places.last in deployed:
        return [deployed[places.last]]
    return [list(deployed.values())[-1]]


def _runs_behind(error: BaseException) -> Sequence[str]:
    """Ids of the trials, and of the runs of streams and requests, that an error is about."""
    if isinstance(error, SlaFailure):
        return error.runs
    if isinstance(error, InvalidTrialsError):
        return [trial.id for trial in error.trials]
    return ()


def sections(topologies: Sequence[TopologyData]) -> Iterator[tuple[str, str]]:
    """Titles and texts for the message of a failure."""
    for topology in topologies[:MOST_DRAWN]:
        yield f"topology {deployed_title(topology)}", drawn(topology)
    others = [deployed_title(topology) for topology in topologies[MOST_DRAWN:]]
    if others:
        yield "topologies", f"It failed on these, too, which the report draws: {'; '.join(others)}"
