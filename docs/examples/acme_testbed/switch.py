"""Acme's switch as nfvperf sees it: a datapath on which topologies are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest_nfvperf as nfv
from pytest_nfvperf import extend


class AcmeTopology:
    """Fulfils extend.BuiltTopology."""

    def __init__(self, topology: nfv.Topology) -> None:
        self.topology = topology

    def attachments(self) -> tuple[extend.Attachment, ...]:
        """Where the tester reaches each port."""
        return tuple(extend.Attachment(port.name, f"acme:{port.name}") for port in self.topology.ports)

    def netns(self, namespace: str) -> str:
        """Acme's namespaces have no names on this machine."""
        raise KeyError(namespace)

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Nothing filters."""
        return {}

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


class AcmeSwitch:
    """Fulfils extend.Datapath."""

    def info(self) -> extend.DatapathInfo:
        """Kind and version."""
        return extend.DatapathInfo("acme", "1.0", None, "simulated")

    def build(self, topology: nfv.Topology) -> AcmeTopology:
        """At once."""
        return AcmeTopology(topology)

    def collectors(self) -> tuple[()]:
        """It has no counters."""
        return ()

    def check_alive(self) -> None:
        """It is."""

    def logs(self) -> Mapping[str, str]:
        """It writes none."""
        return {}

    def close(self) -> None:
        """Nothing runs."""
