"""OVN over a live topology: its northbound database, ovn-bgp-agent, and what starts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pytest_nfvperf.features.ovn.model import LogicalSwitch, OvnPathPlan
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology


class LogicalNetwork(Protocol):
    """OVN's northbound database, as a test uses it."""

    def add(self, switch: LogicalSwitch) -> None:
        """Create a logical switch, bind its ports, and wait until br-int has flows for them.

        Raises:
            ConfigError: br-int does not have the port that a logical port is bound to.
            DeadlineError: names the ports that are not up, and shows OVN's logs.
        """

    def remove_port(self, name: str) -> None: ...

    def flows(self) -> str:
        """The flows of br-int as text."""

    def close(self) -> None: ...


class AgentPath(Protocol):
    """OVN, speakers and ovn-bgp-agent. The VM's logical port exists from ``connect_vm`` to ``disconnect_vm``."""

    @property
    def ovn(self) -> LogicalNetwork: ...

    @property
    def frr(self) -> BgpSpeaker:
        """Announces what the agent exposes."""

    @property
    def bird(self) -> BgpSpeaker: ...

    def connect_vm(self) -> None:
        """Create the VM's logical port; returns when it is up. The agent then sees it."""

    def disconnect_vm(self) -> None: ...

    def await_announced(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until FRR announces a prefix to BIRD, or does so no longer.

        Raises:
            DeadlineError: what it announces instead, with the logs of FRR and the agent.
        """

    def close(self) -> None:
        """End everything. Can be called twice."""


class OvnDaemons(Protocol):
    """Starts OVN on a testbed."""

    def lacks(self) -> str | None:
        """What this testbed lacks for OVN, as text for a person, and what to do; None if it has all."""

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:
        """Start OVN over a live topology that has br-int, with these switches.

        Raises:
            ConfigError: there is no br-int, or a logical port names none of its ports.
            TestbedError: OVN did not start.
        """

    def lacks_agent(self) -> str | None:
        """The same for ovn-bgp-agent."""

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> AgentPath:
        """Start OVN, speakers and agent over a live topology of the plan; the VM's port does not exist yet.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: something is not installed or did not start, or the kernel lacks what the agent needs.
        """


@runtime_checkable
class RunsOvn(Protocol):
    """A backend that starts OVN: for the fixtures ``private_ovn`` and ``ovn_bgp_agent``."""

    def ovn(self) -> OvnDaemons: ...
