"""OVN for tests: its daemons on a topology, their simulation, the fixtures that deploy both, and events of outages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pytest_nfvperf.adapters.net.ends import End, configure
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.backends.base import Daemons
from pytest_nfvperf.features.ovn.bgp_agent import OvnBgpAgent, lacks_agent
from pytest_nfvperf.features.ovn.model import BIRD, PROVIDER, UPLINK, VM_PORT, LogicalSwitch, OvnPathPlan
from pytest_nfvperf.features.ovn.private_ovn import LogicalNetwork, PrivateOvn, lacks_ovn
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.path_daemons import lacks_daemons, require_ovs
from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.change_events import change_event, unused_addresses
from pytest_nfvperf.measure.events import EVENT_AT_S, Event, ForS
from pytest_nfvperf.measure.rig import LiveTopology, Service
from pytest_nfvperf.model.arguments import Name, checked, whole
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ArgumentError, DeadlineError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut, OvsSpec
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.session.deployment import Deployer
from pytest_nfvperf.session.run import NfvSession

_ESTABLISHED_WITHIN_S = 10.0
_POLL_S = 0.02
_NO_AGENT = "there is no simulation of ovn-bgp-agent for plans"


@dataclass(frozen=True, slots=True)
class OvnPath(Service):
    """OVN, speakers and ovn-bgp-agent. The VM's logical port exists from ``connect_vm`` to ``disconnect_vm``.

    FRR announces what the agent exposes.
    """

    owns_flows: ClassVar[bool] = True
    plan: OvnPathPlan
    ovn: PrivateOvn
    frr: FrrSpeaker
    bird: BirdSpeaker
    agent: OvnBgpAgent

    def connect_vm(self) -> None:
        """Create the VM's logical port; returns when it is up. The agent then sees it."""
        self.ovn.add(self.plan.switch(self.ovn.chassis))

    def disconnect_vm(self) -> None:
        self.ovn.remove_port(VM_PORT)

    def await_announced(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until FRR announces a prefix to BIRD, or does so no longer.

        Raises:
            DeadlineError: what it announces instead, with the logs of FRR and the agent.
        """
        announced: list[str] = []

        def is_as_awaited() -> bool:
            self.agent.check()
            announced[:] = self.frr.announced_to(self.plan.bgp.bird_address)
            return (prefix in announced) is not gone

        try:
            wait_until(
                is_as_awaited,
                f"FRR to announce {prefix}{' no longer' if gone else ''}",
                deadline_s,
                interval_s=_POLL_S,
                last_seen=lambda: ", ".join(announced) or "none",
            )
        except DeadlineError as error:
            error.evidence.update({**self.agent.logs(), **self.frr.logs()})
            raise

    def close(self) -> None:
        """End everything. Can be called twice."""
        with ExitStack() as stack:
            for part in (self.ovn, self.frr, self.bird, self.agent):
                stack.callback(part.close)


class OvnDaemons:
    """Starts OVN on a testbed. By itself for plans, which start nothing, and have no agent."""

    def lacks(self) -> str | None:
        """What this testbed lacks for OVN, as text for a person, and what to do; None if it has all."""
        return None

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:  # noqa: ARG002
        """Start OVN over a live topology that has br-int, with these switches.

        Raises:
            ConfigError: there is no br-int, or a logical port names none of its ports.
            TestbedError: OVN did not start.
        """
        return LogicalNetwork()

    def lacks_agent(self) -> str | None:
        """The same for ovn-bgp-agent."""
        return _NO_AGENT

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> OvnPath:  # noqa: ARG002
        """Start OVN, speakers and agent over a live topology of the plan; the VM's port does not exist yet.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: something is not installed or did not start, or the kernel lacks what the agent needs.
        """
        raise UnavailableError(_NO_AGENT)


class LocalOvn(OvnDaemons):
    """OVN of this machine, over a private OVS."""

    def __init__(self, journal: Callable[[], Journal], ovs: OvsSpec) -> None:
        self._journal = journal
        self._ovs = ovs

    def lacks(self) -> str | None:
        return self._lacks_private_ovs() or lacks_ovn()

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:
        localnets = [switch.localnet for switch in switches if switch.localnet is not None]
        mappings = {localnet.network: localnet.bridge for localnet in localnets}
        ovn = PrivateOvn(self._journal(), require_ovs(built, "OVN"), locate(self._ovs.prefix), mappings)
        with ExitStack() as undo:
            undo.callback(ovn.close)
            for switch in switches:
                ovn.add(switch)
            undo.pop_all()
        return ovn

    def lacks_agent(self) -> str | None:
        return self._lacks_private_ovs() or lacks_agent() or lacks_daemons()

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> OvnPath:
        over, journal = require_ovs(built, "ovn-bgp-agent"), self._journal()
        home = over.instance.home
        # The agent makes the kernel route by br-ex; only newer agents set that up themselves.
        configure([End(UPLINK, home.path, addresses=(plan.bgp.frr,)), End(PROVIDER, home.path)])
        with ExitStack() as undo:
            ovn = PrivateOvn(journal, over, locate(self._ovs.prefix), plan.mappings)
            undo.callback(ovn.close)
            frr = FrrSpeaker(journal, home.name, plan.frr_config())
            undo.callback(frr.close)
            bird = BirdSpeaker(journal, over.netns(BIRD), plan.bgp.bird_config())
            undo.callback(bird.close)
            frr.start()
            bird.start()
            frr.await_session(
                plan.bgp.bird_address, lambda seen: seen.established, "Established with BIRD", _ESTABLISHED_WITHIN_S
            )
            agent = OvnBgpAgent(journal, over.instance, ovn.northbound, frr)
            undo.pop_all()
        return OvnPath(plan, ovn, frr, bird, agent)

    def _lacks_private_ovs(self) -> str | None:
        is_private = self._ovs.instance == "private"
        return None if is_private else "OVN runs on a private OVS only: it writes into OVS's own database"


OVN: Daemons[OvnDaemons] = Daemons("OVN", LocalOvn, OvnDaemons)


class LiveOvn:
    """A topology with OVN over it: measure on ``live``; ``ovn`` has the logical network.

    Whenever the topology is built again, OVN starts with the same switches as at first, and ``ovn`` is a new one.
    """

    def __init__(self, daemons: OvnDaemons, live: LiveTopology, switches: Sequence[LogicalSwitch]) -> None:
        self.live = live
        self.ovn: LogicalNetwork

        def start(live: LiveTopology) -> LogicalNetwork:
            self.ovn = daemons.start(live.deployment.built, switches)
            return self.ovn

        live.start_service(start)


class LiveOvnPath:
    """The deployed path of ovn-bgp-agent: ``path`` has ``ovn``, ``frr`` and ``bird``.

    The VM's logical port exists from ``path.connect_vm()`` to ``path.disconnect_vm()``. Whenever the topology is built
    again, ``path`` is a new one.
    """

    def __init__(self, daemons: OvnDaemons, live: LiveTopology, plan: OvnPathPlan) -> None:
        self.live = live
        self.plan = plan
        self.path: OvnPath

        def start(live: LiveTopology) -> OvnPath:
            self.path = daemons.start_agent(live.deployment.built, plan)
            return self.path

        live.start_service(start)


class _OvnTopologies:
    """Topologies with OVN that a test deploys. They are removed after it, because their flows are OVN's."""

    def __init__(self, session: NfvSession, deploy: Deployer) -> None:
        self._session = session
        self._deploy = deploy
        self._deployed: list[LiveTopology] = []

    def _live(self, lacking: str | None, topology: Topology | None, dut: Dut, **named: Any) -> LiveTopology:
        if lacking is not None:
            raise UnavailableError(lacking)
        live = self._deploy(topology, dut=dut, **named)
        self._deployed.append(live)
        return live

    def close(self) -> None:
        """Remove the deployed topology: its rules and routes go with its OVS, its flows with the bridges."""
        if any(live.is_deployed for live in self._deployed):
            self._session.rig.remove_topology()
        self._deployed.clear()


class OvnDeployer(_OvnTopologies):
    """The fixture ``private_ovn``: deploys a topology and starts OVN over it."""

    def __call__(
        self, topology: Topology | None = None, *switches: LogicalSwitch, dut: Dut = TESTBED_DUT, **named: Any
    ) -> LiveOvn:
        """Deploy a topology and start OVN over it; skips the test, with the reason, where that is impossible.

        Args:
            topology: what to deploy, with a bridge br-int; None: what the test made of parts.
            switches: logical switches that OVN begins with.
            dut: the datapath to use.
            named: ``name`` of a topology made of parts.

        Raises:
            ConfigError: there is no br-int, or a logical port names none of its ports.
            TestbedError: it could not be built, or OVN did not start.
        """
        daemons = ovn_daemons(self._session)
        return LiveOvn(daemons, self._live(daemons.lacks(), topology, dut, **named), switches)


class OvnAgentDeployer(_OvnTopologies):
    """The fixture ``ovn_bgp_agent``: deploys the path of the real agent."""

    def __call__(self, plan: OvnPathPlan | None = None, *, dut: Dut = TESTBED_DUT) -> LiveOvnPath:
        """Deploy the path with the real agent; skips the test, with the reason, where that is impossible.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: something did not start; with the logs.
        """
        daemons, plan = ovn_daemons(self._session), plan or OvnPathPlan()
        return LiveOvnPath(daemons, self._live(daemons.lacks_agent(), plan.topology(), dut), plan)


def ovn_daemons(session: NfvSession) -> OvnDaemons:
    """What starts OVN on this testbed; UnavailableError if nothing does."""
    return session.backend.daemons(OVN)


# Events of outages.


def _ovn_of(live: LiveTopology) -> PrivateOvn:
    for service in live.deployment.services:
        found = getattr(service, "ovn", service)  # an OvnPath has one
        if isinstance(found, PrivateOvn):
            return found
    raise UnavailableError(f"topology {live.name!r} has no OVN of the run's: deploy it by the fixture private_ovn")


@checked("events.restart_ovn_controller")
def restart_ovn_controller(live: Live, *, release: bool = False) -> Event:
    """Restart ovn-controller, as ``ovn-ctl restart_controller``; it ends when br-int has its flows again.

    ``release``: as a service that stops and starts: it gives its ports up meanwhile, and OVN takes their flows away.
    """
    restart = partial(_ovn_of(live).restart_controller, release=release)
    return Event(f"restart of ovn-controller{', ports released' if release else ''}", EVENT_AT_S, restart)


@checked("events.change_northbound")
def change_northbound(
    live: Live, switch: Name, acls: Annotated[int, whole(1, 10_000)] = 1000, for_s: ForS = None
) -> Event:
    """A logical switch gets ACLs that no frame matches, in one transaction; it ends when br-int has their flows."""
    ovn = _ovn_of(live)
    before = ovn.nbctl("--if-exists", "get", "Logical_Switch", switch, "acls").strip()
    if not before:
        raise ArgumentError(f"events.change_northbound(): OVN has no logical switch {switch!r}")
    matches = (f"ip4.dst == {address} && udp" for address in unused_addresses(acls))
    added = [word for match in matches for word in ("--", "acl-add", switch, "to-lport", "1", match, "drop")]
    undo = partial(ovn.nbctl, "--wait=hv", "set", "Logical_Switch", switch, f"acls={before}")
    return change_event(f"{how_many(acls, 'ACL')} added", partial(ovn.nbctl, "--wait=hv", *added), undo, for_s)
