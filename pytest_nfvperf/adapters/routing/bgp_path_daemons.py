"""Starts S1's path on a deployed topology: FRR, BIRD, and the agent that turns routes into flows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.link_switch import LinkSwitch
from pytest_nfvperf.adapters.ovs.openflow.route_flows import Hop
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.adapters.routing.bird import bird_speaker
from pytest_nfvperf.adapters.routing.bird.bird_speaker import BirdSpeaker
from pytest_nfvperf.adapters.routing.frr import frr_speaker
from pytest_nfvperf.adapters.routing.frr.frr_speaker import FrrSpeaker
from pytest_nfvperf.adapters.routing.lab.lab_speaker import LabBgpSpeaker
from pytest_nfvperf.adapters.routing.route_agent.agent import RouteAgent
from pytest_nfvperf.adapters.routing.route_agent.follower import Surroundings
from pytest_nfvperf.adapters.routing.route_agent.steps import StepWatch
from pytest_nfvperf.adapters.routing.route_agent.updates import UpdateWatch
from pytest_nfvperf.adapters.routing.speakers.daemons import executable
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.scenarios.bgp_path import BIRD, BRIDGE, FRR, FRR_MAC, FRR_PORT, OUTSIDE, VM, BgpPathPlan
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.routing import BgpParts, BgpSpeaker


class LocalBgp:
    """Fulfils ports.routing.BgpDaemons: FRR and BIRD of this machine.

    ``journal``: gives the run's, once the machine is taken.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal

    def lacks(self) -> str | None:
        """FRR or BIRD, and how to install it; None when both are there."""
        return lacks_daemons()

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:
        """FRR and BIRD in the topology's namespaces, and the agent on its bridge."""
        return start_bgp(self._journal(), on_ovs(built, "BGP's flows"), plan)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:
        """By the sockets of a daemon that runs already."""
        return LabBgpSpeaker(self._journal(), spec)


def on_ovs(built: BuiltTopology, who: str) -> BuiltOvsTopology:
    """ConfigError where it is on no Open vSwitch. ``who``: needs one."""
    if not isinstance(built, BuiltOvsTopology):
        raise ConfigError(
            f"{who} needs Open vSwitch, and topology {built.topology.name!r} was built on another datapath"
        )
    return built


def start_bgp(journal: Journal, built: BuiltOvsTopology, plan: BgpPathPlan) -> BgpParts:
    """Start all on a bridge, that forwards nothing from then on but BGP and what routes say.

    Raises:
        ConfigError: a daemon refused its configuration.
        TestbedError: a daemon is not installed, or did not start.
    """
    with ExitStack() as undo:
        dut = FrrSpeaker(journal, built.netns(FRR), plan.frr_config(), role=FRR)
        undo.callback(dut.close)
        neighbor = BirdSpeaker(journal, built.netns(BIRD), plan.bird_config(), role=BIRD)
        undo.callback(neighbor.close)
        built.replace_flows(BRIDGE, _control_flows(built, plan))
        agent = _agent(journal, built, plan)
        undo.callback(agent.close)
        agent.start()
        dut.start()
        neighbor.start()
        undo.pop_all()
    frr_link, bird_link = (LinkSwitch(*interface) for interface in _interfaces(built))
    return BgpParts(dut, neighbor, agent, frr_link, bird_link, partial(_watch_steps, built, agent))


def lacks_daemons() -> str | None:
    """What this machine lacks for S1, and what to do; None when it has all."""
    try:
        for name, directories in (("bgpd", frr_speaker.DIRECTORIES), ("bird", bird_speaker.DIRECTORIES)):
            executable(name, directories)
    except TestbedError as error:
        return error.message
    return None


def _agent(journal: Journal, built: BuiltOvsTopology, plan: BgpPathPlan) -> RouteAgent:
    ofports = built.ofports()
    outside = Hop(ofports[OUTSIDE], built.topology.port(OUTSIDE).mac, FRR_MAC)
    vm = Hop(ofports[VM], built.topology.port(VM).mac, FRR_MAC)
    around = Surroundings(gateways={plan.bird_address: outside}, networks={plan.provider: vm})
    return RouteAgent(journal, NETNS_DIRECTORY / built.netns(FRR), BRIDGE, built.management_socket(BRIDGE), around)


def _watch_steps(built: BuiltOvsTopology, agent: RouteAgent) -> StepWatch:
    dut, neighbor = _interfaces(built)
    return StepWatch(UpdateWatch(*neighbor), UpdateWatch(*dut), agent.followed)


def _interfaces(built: BuiltOvsTopology) -> tuple[tuple[str, str], tuple[str, str]]:
    """FRR's and BIRD's, each with its namespace under /run/netns."""
    (dut,) = built.topology.nics
    (neighbor,) = built.topology.behind
    return (built.netns(FRR), dut.name), (built.netns(BIRD), neighbor.name)


def _control_flows(built: BuiltOvsTopology, plan: BgpPathPlan) -> list[str]:
    """The control VLAN is bridged; what no route leads on is dropped."""
    ofports = built.ofports()
    return [
        f"priority=60000,in_port={ofports[OUTSIDE]},dl_vlan={plan.vlan},actions=NORMAL",
        f"priority=60000,in_port={ofports[FRR_PORT]},actions=NORMAL",
        "priority=0,actions=drop",
    ]
