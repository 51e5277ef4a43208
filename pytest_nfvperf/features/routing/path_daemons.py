"""The daemons of a path with BGP: speakers, route agent, and the links that a test cuts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.netlink import Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.openflow import NextHop
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.features.routing import bird as bird_speaker
from pytest_nfvperf.features.routing import frr as frr_speaker
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.daemons import executable
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.lab_speakers import LabBgpSpeaker
from pytest_nfvperf.features.routing.model import BIRD, BRIDGE, FRR, FRR_MAC, FRR_PORT, OUTSIDE, VM, BgpPathPlan
from pytest_nfvperf.features.routing.ports import BgpParts, BgpSpeaker
from pytest_nfvperf.features.routing.route_agent import RouteAgent, StepWatch, Surroundings, UpdateWatch
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology

# A link that a test cuts and restores, as if somebody pulled its cable.


class LinkSwitch:
    """Of one interface of ours in a namespace. Where it was left down, ``close`` sets it up again.

    Args:
        namespace: its name under /run/netns.
        interface: its name in there; its addresses stay while it is down, but for link-local ones of IPv6.
    """

    def __init__(self, namespace: str, interface: str) -> None:
        self._namespace = namespace
        self._interface = interface
        self._is_down = False

    def down(self) -> None:
        """Set it down; its peer, if it is one of a pair, loses its carrier. TestbedError when it is not there."""
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
            inside(NETNS_DIRECTORY / self._namespace, partial(self._set_here, up=up))
        except OSError as error:
            way = "up" if up else "down"
            raise TestbedError(
                f"cannot set {self._interface} in namespace {self._namespace} {way}: {error.strerror or error}"
            ) from error

    def _set_here(self, *, up: bool) -> None:
        index = socket.if_nametoindex(self._interface)
        change = rtnetlink.set_up if up else rtnetlink.set_down
        with Netlink() as netlink:
            netlink.send([change(index=index, name=self._interface)])


# Start of S1's daemons on a deployed topology: FRR, BIRD and the route agent.


class LocalBgp:
    """Fulfils ports.routing.BgpDaemons: FRR and BIRD of this machine.

    ``journal``: gives the run's, once the machine is taken.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal

    def lacks(self) -> str | None:
        return lacks_daemons()

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:
        return start_bgp(self._journal(), on_ovs(built, "BGP's flows"), plan)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:
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
    outside = NextHop(ofports[OUTSIDE], built.topology.port(OUTSIDE).mac, FRR_MAC)
    vm = NextHop(ofports[VM], built.topology.port(VM).mac, FRR_MAC)
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
