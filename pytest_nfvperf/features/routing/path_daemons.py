"""The daemons of a path with BGP: speakers, route agent, and the links that a test sets down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from pytest_nfvperf.adapters.net.ends import set_admin_state
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.openflow import NextHop
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.features.routing import bird as bird_speaker
from pytest_nfvperf.features.routing import frr as frr_speaker
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.daemons import executable
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.lab_speakers import lab_speaker
from pytest_nfvperf.features.routing.model import BIRD, BRIDGE, FRR, FRR_MAC, FRR_PORT, OUTSIDE, VM, BgpPathPlan
from pytest_nfvperf.features.routing.ports import BgpDaemons, BgpPath, BgpSpeaker
from pytest_nfvperf.features.routing.route_agent import KnownHops, RouteAgent, StepWatch, UpdateWatch
from pytest_nfvperf.model.errors import ConfigError, TestbedError, why_refused
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology


class LinkSwitch:
    """Sets an interface in a namespace down and up, as if its cable was pulled. ``close`` sets it up if left down.

    Args:
        namespace: its name under /run/netns.
        interface: its name in the namespace. Its addresses stay while it is down, except IPv6 link-local ones.
    """

    def __init__(self, namespace: str, interface: str) -> None:
        self._namespace = namespace
        self._interface = interface
        self._is_down = False

    def down(self) -> None:
        """Set it down; the other end of a pair loses its carrier. TestbedError if there is no such interface."""
        self._is_down = True
        self._set(up=False)

    def up(self) -> None:
        self._set(up=True)
        self._is_down = False

    def close(self) -> None:
        if self._is_down:
            self.up()

    def _set(self, *, up: bool) -> None:
        try:
            inside(NETNS_DIRECTORY / self._namespace, partial(set_admin_state, self._interface, up=up))
        except OSError as error:
            state = "up" if up else "down"
            raise TestbedError(
                f"cannot set {self._interface} in namespace {self._namespace} {state}: {error.strerror or error}"
            ) from error


def lacks_daemons() -> str | None:
    """What this machine lacks for FRR and BIRD, and what to do; None if it has both."""
    lacks_frr = why_refused(partial(executable, "bgpd", frr_speaker.DIRECTORIES))
    return lacks_frr or why_refused(partial(executable, "bird", bird_speaker.DIRECTORIES))


def require_ovs(built: BuiltTopology, who: str) -> BuiltOvsTopology:
    """ConfigError for a topology on another datapath. ``who``: what needs Open vSwitch, for the message."""
    if not isinstance(built, BuiltOvsTopology):
        raise ConfigError(
            f"{who} needs Open vSwitch, and topology {built.topology.name!r} was built on another datapath"
        )
    return built


class LocalBgp(BgpDaemons):
    """FRR and BIRD of this machine.

    Args:
        journal: returns the run's journal, once the machine is taken.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal

    def lacks(self) -> str | None:
        return lacks_daemons()

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpPath:
        """Start FRR, BIRD and the route agent. The bridge then forwards only BGP, and what routes lead to."""
        journal, ovs = self._journal(), require_ovs(built, "BGP's flows")
        (frr_nic,) = ovs.topology.nics
        (bird_nic,) = ovs.topology.behind
        at_frr, at_bird = (ovs.netns(FRR), frr_nic.name), (ovs.netns(BIRD), bird_nic.name)
        with ExitStack() as undo:
            dut = FrrSpeaker(journal, ovs.netns(FRR), plan.frr_config(), role=FRR)
            undo.callback(dut.close)
            neighbor = BirdSpeaker(journal, ovs.netns(BIRD), plan.bird_config(), role=BIRD)
            undo.callback(neighbor.close)
            ofports = ovs.ofports()
            control_flows = [
                f"priority=60000,in_port={ofports[OUTSIDE]},dl_vlan={plan.vlan},actions=NORMAL",
                f"priority=60000,in_port={ofports[FRR_PORT]},actions=NORMAL",
                "priority=0,actions=drop",
            ]
            ovs.replace_flows(BRIDGE, control_flows)
            outside = NextHop(ofports[OUTSIDE], ovs.topology.port(OUTSIDE).mac, FRR_MAC)
            vm = NextHop(ofports[VM], ovs.topology.port(VM).mac, FRR_MAC)
            hops = KnownHops(gateways={plan.bird_address: outside}, networks={plan.provider: vm})
            namespace = NETNS_DIRECTORY / ovs.netns(FRR)
            agent = RouteAgent(journal, namespace, BRIDGE, ovs.management_socket(BRIDGE), hops)
            undo.callback(agent.close)
            dut.start()
            neighbor.start()
            undo.pop_all()
        return BgpPath(
            plan,
            frr=dut,
            bird=neighbor,
            agent=agent,
            frr_link=LinkSwitch(*at_frr),
            bird_link=LinkSwitch(*at_bird),
            watch_steps=lambda: StepWatch(UpdateWatch(*at_bird), UpdateWatch(*at_frr), agent.batches),
        )

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:
        return lab_speaker(self._journal(), spec)
