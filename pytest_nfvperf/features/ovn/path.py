"""The path with OVN for tests: its daemons, its simulation, and what deploys it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.ends import End, configure
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.backends.base import Daemons, StartsDaemons
from pytest_nfvperf.features.ovn.bgp_agent import AgentConfig, OvnBgpAgent, lacks_agent
from pytest_nfvperf.features.ovn.model import BIRD, PROVIDER, UPLINK, VM_PORT, LogicalSwitch, OvnPathPlan
from pytest_nfvperf.features.ovn.ports import AgentPath, LogicalNetwork, OvnDaemons, RunsOvn
from pytest_nfvperf.features.ovn.private_ovn import PrivateOvn, lacks_ovn
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.path_daemons import lacks_daemons, on_ovs
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.errors import DeadlineError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut, OvsSpec
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.session.deploying import Deployer
from pytest_nfvperf.session.run import NfvSession

# Start of the daemons on a deployed topology: OVN, FRR, BIRD and ovn-bgp-agent.

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
        return self._lacks_private_ovs() or lacks_ovn()

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:
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
        return self._lacks_private_ovs() or lacks_agent() or lacks_daemons()

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> AgentPath:
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
        self.ovn.add(self.plan.switch(self.ovn.chassis.name))

    def disconnect_vm(self) -> None:
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


# For plans: nothing is started.

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


# The fixtures' side: deploy the topology with OVN, or skip with the reason.

OVN: Daemons[OvnDaemons] = Daemons(LocalOvn, SimulatedOvn)


class LiveOvn:
    """A topology with OVN over it: measure on ``live``, look at OVN by ``ovn``.

    OVN is started again, with the switches that it began with, whenever the topology is built again.
    """

    def __init__(self, session: NfvSession, live: LiveTopology, switches: tuple[LogicalSwitch, ...]) -> None:
        self.live = live
        self._session = session
        self._switches = switches
        self._ovn: LogicalNetwork | None = None
        live.start_service(self._start)

    @property
    def ovn(self) -> LogicalNetwork:
        if self._ovn is None:
            raise RuntimeError("not started")  # start_service() starts it in the constructor
        return self._ovn

    def _start(self, live: LiveTopology) -> LogicalNetwork:
        self._ovn = ovn_daemons(self._session).start(live.deployment.built, self._switches)
        return self._ovn


class OvnDeployer:
    """The fixture ``private_ovn``: deploys a topology and starts OVN over it."""

    def __init__(self, session: NfvSession, deploy: Deployer) -> None:
        self._session = session
        self._deploy = deploy
        self._made: list[LiveOvn] = []

    def __call__(
        self, topology: Topology | None = None, *switches: LogicalSwitch, dut: Dut = TESTBEDS_OWN, **named: Any
    ) -> LiveOvn:
        """Deploy a topology and start OVN over it; the test is skipped, with the reason, where that cannot be.

        Args:
            topology: what to deploy, with a bridge br-int; None: what the test made of parts.
            switches: logical switches that OVN begins with.
            dut: on which datapath.
            named: ``name`` of a topology made of parts.

        Raises:
            ConfigError: there is no br-int, or a logical port names none of its ports.
            TestbedError: it could not be built, or OVN did not start.
        """
        lacking = ovn_daemons(self._session).lacks()
        if lacking is not None:
            raise UnavailableError(lacking)
        made = LiveOvn(self._session, self._deploy(topology, dut=dut, **named), switches)
        self._made.append(made)
        return made

    def close(self) -> None:
        """Remove what was deployed with OVN's flows: the next test's topology is built anew."""
        if any(made.live.is_deployed for made in self._made):
            self._session.rig.remove_topology()
        self._made.clear()


class LiveOvnPath:
    """The path of ovn-bgp-agent as it is deployed: ``path`` has ``ovn``, ``frr``, ``bird`` and ``agent``.

    The VM's logical port is there from ``path.connect_vm()`` to ``path.disconnect_vm()``.
    """

    def __init__(self, session: NfvSession, live: LiveTopology, plan: OvnPathPlan) -> None:
        self.live = live
        self.plan = plan
        self._session = session
        self._path: AgentPath | None = None
        live.start_service(self._start)

    @property
    def path(self) -> AgentPath:
        if self._path is None:
            raise RuntimeError("not started")  # start_service() starts it in the constructor
        return self._path

    def _start(self, live: LiveTopology) -> AgentPath:
        self._path = ovn_daemons(self._session).start_agent(live.deployment.built, self.plan)
        return self._path


class OvnAgentDeployer:
    """The fixture ``ovn_bgp_agent``: deploys the path of the real agent."""

    def __init__(self, session: NfvSession, deploy: Deployer) -> None:
        self._session = session
        self._deploy = deploy
        self._made: list[LiveOvnPath] = []

    def __call__(self, plan: OvnPathPlan | None = None, *, dut: Dut = TESTBEDS_OWN) -> LiveOvnPath:
        """Deploy the path with the real agent; the test is skipped, with the reason, where that cannot be.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: something did not start; with the logs.
        """
        lacking = ovn_daemons(self._session).lacks_agent()
        if lacking is not None:
            raise UnavailableError(lacking)
        plan = plan or OvnPathPlan()
        made = LiveOvnPath(self._session, self._deploy(plan.topology(), dut=dut), plan)
        self._made.append(made)
        return made

    def close(self) -> None:
        """Remove the path: its rules and routes go with its topology's OVS, its flows with the bridges."""
        if any(made.live.is_deployed for made in self._made):
            self._session.rig.remove_topology()
        self._made.clear()


def ovn_daemons(session: NfvSession) -> OvnDaemons:
    """Who starts OVN on this testbed; UnavailableError where nobody does."""
    backend = session.backend
    if isinstance(backend, RunsOvn):
        return backend.ovn()
    if isinstance(backend, StartsDaemons):
        return backend.daemons(OVN)
    raise UnavailableError("OVN on this testbed is not possible: its backend starts none")
