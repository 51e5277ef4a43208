"""``private_ovn`` and ``ovn_bgp_agent``: topologies with OVN over them; or a skip that says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.ovn.simulated_ovn import SimulatedOvn
from pytest_nfvperf.backends.base import Daemons, StartsDaemons
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.routing.logical_network import LogicalSwitch
from pytest_nfvperf.model.scenarios.ovn_path import OvnPathPlan
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut, OvsSpec
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.ovn import AgentPath, LogicalNetwork, OvnDaemons, RunsOvn
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.session.deploying import Deployer
from pytest_nfvperf.session.run import NfvSession

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.journal.journal import Journal


def _on_machine(journal: Callable[[], Journal], ovs: OvsSpec) -> OvnDaemons:
    from pytest_nfvperf.adapters.ovn.ovn_path_daemons import LocalOvn  # noqa: PLC0415 - a plan needs none of it

    return LocalOvn(journal, ovs)


OVN: Daemons[OvnDaemons] = Daemons(_on_machine, SimulatedOvn)


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
        """The one that runs now."""
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
        """What runs now."""
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
