"""``private_ovn`` and ``ovn_bgp_agent``: topologies with OVN over them; or a skip that says why not."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_nfvperf.adapters.ovn.bgp_agent import lacks_agent
from pytest_nfvperf.adapters.ovn.ovn_binaries import lacks_ovn
from pytest_nfvperf.adapters.ovn.ovn_path_daemons import OvnPath, start_ovn_path
from pytest_nfvperf.adapters.ovn.private_ovn import PrivateOvn
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.routing.bgp_path_daemons import lacks_daemons
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.routing.logical_network import LogicalSwitch
from pytest_nfvperf.model.scenarios.ovn_path import OvnPathPlan
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.session.deploying import Deployer
from pytest_nfvperf.session.run import NfvSession


class LogicalNetwork(Protocol):
    """What a test does with an OVN: ``PrivateOvn``, or what stands for it in a plan."""

    def add(self, switch: LogicalSwitch) -> None:
        """Make a switch and wait until br-int forwards for it."""
        ...

    def remove_port(self, name: str) -> None:
        """Take a logical port away, and its flows."""
        ...

    def flows(self) -> str:
        """The flows of br-int as text."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class SimulatedOvn:
    """For plans: nothing is started."""

    def add(self, switch: LogicalSwitch) -> None:
        """Nothing is made."""

    def remove_port(self, name: str) -> None:
        """Nothing is there."""

    def flows(self) -> str:
        """None."""
        return ""

    def close(self) -> None:
        """Nothing runs."""


class LiveOvn:
    """A topology with OVN over it: measure on ``live``, look at OVN by ``ovn``.

    OVN is started again, with the switches that it began with, whenever the topology is built again.
    """

    def __init__(self, session: NfvSession, live: LiveTopology, switches: tuple[LogicalSwitch, ...]) -> None:
        self.live = live
        self._session = session
        self._switches = switches
        self._ovn: LogicalNetwork = SimulatedOvn()
        live.attend(self._start)

    @property
    def ovn(self) -> LogicalNetwork:
        """The one that runs now."""
        return self._ovn

    def _start(self, live: LiveTopology) -> LogicalNetwork:
        backend, built = self._session.backend, live.now.built
        if isinstance(backend, LocalBackend) and isinstance(built, BuiltOvsTopology):
            localnets = [switch.localnet for switch in self._switches if switch.localnet is not None]
            mappings = {localnet.network: localnet.bridge for localnet in localnets}
            self._ovn = PrivateOvn(backend.journal, built, locate(backend.testbed.ovs.prefix), mappings=mappings)
            try:
                for switch in self._switches:
                    self._ovn.add(switch)
            except BaseException:
                self._ovn.close()
                raise
        return self._ovn


class OvnDeployer:
    """What the fixture ``private_ovn`` gives to a test."""

    def __init__(self, session: NfvSession, deploy: Deployer) -> None:
        self._session = session
        self._deploy = deploy
        self._made: list[LiveOvn] = []

    def __call__(
        self, topology: Topology | None = None, *switches: LogicalSwitch, dut: Dut = TESTBEDS_OWN, **named: Any
    ) -> LiveOvn:
        """Make a topology stand and start OVN over it; the test is skipped, with the reason, where that cannot be.

        Args:
            topology: what shall stand, with a bridge br-int; None: what the test made of parts.
            switches: logical switches that OVN begins with.
            dut: on which datapath.
            named: ``name`` of a topology made of parts.

        Raises:
            ConfigError: no br-int, or a logical port that is at none of its ports.
            TestbedError: it could not be built, or OVN did not start.
        """
        self._skip_where_lacking()
        made = LiveOvn(self._session, self._deploy(topology, dut=dut, **named), switches)
        self._made.append(made)
        return made

    def _skip_where_lacking(self) -> None:
        if isinstance(self._session.backend, SimulatedBackend):
            return
        lacking = _lacks_private_ovs(self._session) or lacks_ovn()
        if lacking is not None:
            raise UnavailableError(lacking)

    def close(self) -> None:
        """Remove what stands with OVN's flows: the next test's topology is built anew."""
        if any(made.live.deployment is not None for made in self._made):
            self._session.rig.remove_topology()
        self._made.clear()


class LiveOvnPath:
    """The path of ovn-bgp-agent as it stands: ``path`` has ``ovn``, ``frr``, ``bird`` and ``agent``.

    The VM's logical port is there from ``path.connect_vm()`` to ``path.disconnect_vm()``.
    """

    def __init__(self, session: NfvSession, live: LiveTopology, plan: OvnPathPlan) -> None:
        self.live = live
        self.plan = plan
        self._session = session
        self._path: OvnPath | None = None
        live.attend(self._start)

    @property
    def path(self) -> OvnPath:
        """What runs now."""
        if self._path is None:
            raise RuntimeError("not started")  # attend() starts it in the constructor
        return self._path

    def _start(self, live: LiveTopology) -> OvnPath:
        backend, built = self._session.backend, live.now.built
        if not isinstance(backend, LocalBackend) or not isinstance(built, BuiltOvsTopology):
            raise TestbedError("ovn-bgp-agent needs a private Open vSwitch")
        self._path = start_ovn_path(backend.journal, built, locate(backend.testbed.ovs.prefix), self.plan)
        return self._path


class OvnAgentDeployer:
    """What the fixture ``ovn_bgp_agent`` gives to a test."""

    def __init__(self, session: NfvSession, deploy: Deployer) -> None:
        self._session = session
        self._deploy = deploy
        self._made: list[LiveOvnPath] = []

    def __call__(self, plan: OvnPathPlan | None = None, *, dut: Dut = TESTBEDS_OWN) -> LiveOvnPath:
        """Make the path stand with the real agent; the test is skipped, with the reason, where that cannot be.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: something did not start; with the logs.
        """
        lacking = _lacks_private_ovs(self._session) or lacks_agent() or lacks_daemons()
        if lacking is not None:
            raise UnavailableError(lacking)
        plan = plan or OvnPathPlan()
        made = LiveOvnPath(self._session, self._deploy(plan.topology(), dut=dut), plan)
        self._made.append(made)
        return made

    def close(self) -> None:
        """Remove the path: its rules and routes go with its topology's OVS, its flows with the bridges."""
        if any(made.live.deployment is not None for made in self._made):
            self._session.rig.remove_topology()
        self._made.clear()


def _lacks_private_ovs(session: NfvSession) -> str | None:
    backend = session.backend
    if isinstance(backend, SimulatedBackend):
        return "there is no simulation of ovn-bgp-agent for plans"
    if not isinstance(backend, LocalBackend) or backend.testbed.ovs.instance != "private":
        return "OVN runs on a private OVS only: it writes into OVS's own database"
    return None
