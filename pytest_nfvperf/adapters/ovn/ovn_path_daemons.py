"""Starts the path of ovn-bgp-agent on a deployed topology: OVN, FRR, BIRD and the agent."""

from __future__ import annotations

from contextlib import ExitStack

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.ends import End, configure
from pytest_nfvperf.adapters.ovn.bgp_agent import AgentConfig, OvnBgpAgent
from pytest_nfvperf.adapters.ovn.private_ovn import PrivateOvn
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.wait import wait_until
from pytest_nfvperf.adapters.routing.bird.bird_speaker import BirdSpeaker
from pytest_nfvperf.adapters.routing.frr.frr_speaker import FrrSpeaker
from pytest_nfvperf.model.errors import DeadlineError
from pytest_nfvperf.model.scenarios.ovn_path import BIRD, PROVIDER, UPLINK, VM_PORT, OvnPathPlan

_ESTABLISHED_WITHIN_S = 10.0
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
