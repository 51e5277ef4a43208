"""Starts the path of ovn-bgp-agent on a deployed topology: OVN, FRR, BIRD and the agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.ends import End, configure
from pytest_nfvperf.adapters.ovn.bgp_agent import AgentConfig, OvnBgpAgent, lacks_agent
from pytest_nfvperf.adapters.ovn.ovn_binaries import lacks_ovn
from pytest_nfvperf.adapters.ovn.private_ovn import PrivateOvn
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.routing.bgp_path_daemons import lacks_daemons, on_ovs
from pytest_nfvperf.adapters.routing.bird.bird_speaker import BirdSpeaker
from pytest_nfvperf.adapters.routing.frr.frr_speaker import FrrSpeaker
from pytest_nfvperf.model.errors import DeadlineError
from pytest_nfvperf.model.routing.logical_network import LogicalSwitch
from pytest_nfvperf.model.scenarios.ovn_path import BIRD, PROVIDER, UPLINK, VM_PORT, OvnPathPlan
from pytest_nfvperf.model.testbed.testbed import OvsSpec
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.ovn import AgentPath, LogicalNetwork

_ESTABLISHED_WITHIN_S = 10.0


class LocalOvn:
    """Fulfils ports.routing.OvnDaemons: OVN of this machine, over a private OVS.

    Args:
        journal: gives the run's, once the machine is taken.
        ovs: whose ovsdb-server serves OVN's databases.
    """

    def __init__(self, journal: Callable[[], Journal], ovs: OvsSpec) -> None:
        self._journal = journal
        self._ovs = ovs

    def lacks(self) -> str | None:
        """A private OVS, or OVN and how to install it; None when both are there."""
        return self._lacks_private_ovs() or lacks_ovn()

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:
        """Databases, northd and a controller, and the switches in the northbound database."""
        localnets = [switch.localnet for switch in switches if switch.localnet is not None]
        mappings = {localnet.network: localnet.bridge for localnet in localnets}
        ovn = PrivateOvn(self._journal(), on_ovs(built, "OVN"), locate(self._ovs.prefix), mappings=mappings)
        try:
            for switch in switches:
                ovn.add(switch)
        except BaseException:
            ovn.close()
            raise
        return ovn

    def lacks_agent(self) -> str | None:
        """A private OVS, OVN, the agent, FRR or BIRD, or devices of the kernel; None when all are there."""
        return self._lacks_private_ovs() or lacks_agent() or lacks_daemons()

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> AgentPath:
        """OVN, FRR, BIRD and the agent in the namespace of the private OVS."""
        return start_ovn_path(self._journal(), on_ovs(built, "ovn-bgp-agent"), locate(self._ovs.prefix), plan)

    def _lacks_private_ovs(self) -> str | None:
        if self._ovs.instance == "private":
            return None
        return "OVN runs on a private OVS only: it writes into OVS's own database"


_LOOK_S = 0.02


class OvnPath:
    """OVN, daemons and agent; ``close`` ends them."""

    def __init__(
        self, plan: OvnPathPlan, ovn: PrivateOvn, frr: FrrSpeaker, bird: BirdSpeaker, agent: OvnBgpAgent
    ) -> None:
        self.plan = plan
        self.ovn = ovn
        self.frr = frr
        self.bird = bird
        self.agent = agent

    def connect_vm(self) -> None:
        """Create the VM's logical port; returns when it is up. The agent then sees it."""
        self.ovn.add(self.plan.switch(self.ovn.chassis.name))

    def disconnect_vm(self) -> None:
        """Remove the VM's logical port."""
        self.ovn.remove_port(VM_PORT)

    def await_announced(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until FRR announces a prefix to BIRD, or does so no longer.

        Raises:
            DeadlineError: what it announces instead, with the logs of FRR and the agent.
        """
        announced: list[str] = []

        def looks() -> bool:
            self.agent.check()
            announced[:] = self.frr.announced_to(self.plan.bgp.bird_address)
            return (prefix in announced) is not gone

        awaited = f"FRR to announce {prefix}{' no longer' if gone else ''}"
        try:
            wait_until(looks, awaited, deadline_s, interval_s=_LOOK_S, last_seen=lambda: ", ".join(announced) or "none")
        except DeadlineError as error:
            error.evidence.update({**self.agent.logs(), **self.frr.logs()})
            raise

    def close(self) -> None:
        """End all. Can be called twice."""
        with ExitStack() as stack:
            for part in (self.ovn, self.frr, self.bird, self.agent):
                stack.callback(part.close)


def start_ovn_path(journal: Journal, built: BuiltOvsTopology, binaries: OvsBinaries, plan: OvnPathPlan) -> OvnPath:
    """Start all; the session is Established when this returns, the VM's port not yet there.

    Raises:
        ConfigError: a daemon refused its configuration.
        TestbedError: something is not installed or did not start, or the kernel lacks what the agent needs.
    """
    home = built.instance.home
    # The agent has the kernel route by br-ex, and only newer ones bring it up themselves
    configure([End(UPLINK, home.path, addresses=(plan.bgp.frr,)), End(PROVIDER, home.path)])
    with ExitStack() as undo:
        ovn = PrivateOvn(journal, built, binaries, mappings=plan.mappings)
        undo.callback(ovn.close)
        frr = FrrSpeaker(journal, home.name, plan.frr_config())
        undo.callback(frr.close)
        bird = BirdSpeaker(journal, built.netns(BIRD), plan.bgp.bird_config())
        undo.callback(bird.close)
        frr.start()
        bird.start()
        frr.await_session(
            plan.bgp.bird_address, lambda seen: seen.established, "Established with BIRD", _ESTABLISHED_WITHIN_S
        )
        config = AgentConfig(plan.bgp.frr_asn, plan.bgp.frr_address, ovn.northbound, frr.directory)
        agent = OvnBgpAgent(journal, built.instance, config)
        undo.pop_all()
    return OvnPath(plan, ovn, frr, bird, agent)
