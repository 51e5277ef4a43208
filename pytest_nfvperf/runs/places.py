"""Where the running test's runs were measured, so that a failure shows the right topology.

A comparison deploys many topologies: the last one deployed need not be the one that failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology

DeployedOn = tuple[Topology, Dut]
"""What a rig carries."""


@dataclass(slots=True)
class Places:
    """The places of one test. ``last``: what was deployed, woken or measured on last."""

    last: DeployedOn | None = None
    _of_run: dict[str, DeployedOn] = field(default_factory=dict)

    def ran(self, run: str, place: DeployedOn) -> None:
        self._of_run[run] = self.last = place

    def of(self, runs: Iterable[str]) -> tuple[DeployedOn, ...]:
        """The places of runs, each once, in the order of the runs; those that nobody noted are left out."""
        return tuple(dict.fromkeys(self._of_run[run] for run in runs if run in self._of_run))

    def clear(self) -> None:
        self.last = None
        self._of_run.clear()
