"""OVN for plans: nothing is started."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.routing.logical_network import LogicalSwitch
from pytest_nfvperf.model.scenarios.ovn_path import OvnPathPlan
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.ovn import AgentPath, LogicalNetwork

_NO_AGENT = "there is no simulation of ovn-bgp-agent for plans"


class SimulatedNetwork:
    """Fulfils ports.routing.LogicalNetwork."""

    def add(self, switch: LogicalSwitch) -> None:
        """Nothing is made."""

    def remove_port(self, name: str) -> None:
        """Nothing is there."""

    def flows(self) -> str:
        """None."""
        return ""

    def close(self) -> None:
        """Nothing runs."""


class SimulatedOvn:
    """Fulfils ports.routing.OvnDaemons, but for the agent."""

    def lacks(self) -> str | None:
        return None

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:  # noqa: ARG002
        """One that takes all and does nothing."""
        return SimulatedNetwork()

    def lacks_agent(self) -> str | None:
        """It has to be the real one."""
        return _NO_AGENT

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> AgentPath:  # noqa: ARG002
        """UnavailableError: see ``lacks_agent``."""
        raise UnavailableError(_NO_AGENT)
