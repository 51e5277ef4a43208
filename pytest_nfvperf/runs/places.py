"""Where the running test's runs were measured, so that a failure shows the topology that it is about.

A comparison deploys many topologies, and works on one at a time: the one that was deployed last says nothing.
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
    """Of one test.

    Attributes:
        last: what was deployed, let work or measured on last; None before anything was.
    """

    last: DeployedOn | None = None
    _of_run: dict[str, DeployedOn] = field(default_factory=dict)

    def ran(self, run: str, place: DeployedOn) -> None:
        """A trial, or a run of streams or requests, was measured there. ``run``: its id in the evidence."""
        self._of_run[run] = self.last = place

    def of(self, runs: Iterable[str]) -> tuple[DeployedOn, ...]:
        """The places of runs, each once, in the order of the runs; those that nobody noted are left out."""
        return tuple(dict.fromkeys(self._of_run[run] for run in runs if run in self._of_run))

    def clear(self) -> None:
        """Forget them all: another test begins."""
        self.last = None
        self._of_run.clear()
