"""Acme's switch as nfvperf sees it: a datapath on which topologies are built."""

from __future__ import annotations

from collections.abc import Mapping

import pytest_nfvperf as nfv
from pytest_nfvperf import extend


class AcmeTopology(extend.BuiltTopology):
    """Acme's switch does nothing to build a topology."""

    def __init__(self, topology: nfv.Topology) -> None:
        self.topology = topology

    def attachments(self) -> Mapping[str, str | None]:
        """Where the tester reaches each port."""
        return {port.name: f"acme:{port.name}" for port in self.topology.ports}

    def not_offloaded(self) -> str | None:
        """The switch forwards in hardware."""
        return None

    def wait_ready(self, deadline_s: float) -> None:
        """It is."""

    def configuration(self) -> str:
        """For the evidence."""
        return f"acme: {self.topology.name}"

    def close(self) -> None:
        """Nothing to remove."""


class AcmeSwitch(extend.Datapath):
    """It has no counters and no logs, and nobody can restart it."""

    def info(self) -> extend.DatapathInfo:
        """Kind and version."""
        return extend.DatapathInfo("acme", "1.0", None, "simulated")

    def build(self, topology: nfv.Topology) -> AcmeTopology:
        """At once."""
        return AcmeTopology(topology)

    def check_alive(self) -> None:
        """It is."""

    def close(self) -> None:
        """Nothing runs."""
