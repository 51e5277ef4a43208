"""S1's path brought to life on a standing topology: FRR, BIRD, and the agent that turns routes into flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.link_switch import LinkSwitch
from pytest_nfvperf.adapters.ovs.openflow.route_flows import Hop
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.adapters.routing import bird, frr
from pytest_nfvperf.adapters.routing.agent import RouteAgent
from pytest_nfvperf.adapters.routing.bird import BirdSpeaker
from pytest_nfvperf.adapters.routing.daemons import executable
from pytest_nfvperf.adapters.routing.fake_speaker import FakeSpeaker, FakeWire, NoSteps, SimulatedAgent, SimulatedLink
from pytest_nfvperf.adapters.routing.follower import Surroundings
from pytest_nfvperf.adapters.routing.frr import FrrSpeaker
from pytest_nfvperf.adapters.routing.steps import StepWatch
from pytest_nfvperf.adapters.routing.updates import UpdateWatch
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.routing.bgp import BfdStatus, SessionState
from pytest_nfvperf.model.scenarios.bgp_path import BIRD, BRIDGE, FRR, FRR_MAC, FRR_PORT, OUTSIDE, VM, BgpPathPlan
from pytest_nfvperf.ports.bgp_speaker import BgpSpeaker

ESTABLISHED_WITHIN_S = 5.0
_INSTALLED_WITHIN_S = 5.0


class RouteFollower(Protocol):
    """Turns routes into flows: ``RouteAgent``, or what stands for it in a plan."""

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until a prefix has a flow, or has none any more."""
        ...

    def await_count(self, count: int, deadline_s: float) -> None:
        """Wait until so many prefixes have flows."""
        ...

    def check(self) -> None:
        """TestbedError when it came to an end by itself."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Steps(Protocol):
    """Dates the steps of a change: ``StepWatch``, or what stands for it in a plan."""

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        """Seconds from ``began_ns`` (CLOCK_MONOTONIC) to each step that was seen."""
        ...

    def close(self) -> None:
        """Watch no longer."""
        ...


class Link(Protocol):
    """A cable that can be pulled."""

    def down(self) -> None:
        """Pull it."""
        ...

    def up(self) -> None:
        """Put it back."""
        ...

    def close(self) -> None:
        """Put it back if it was left pulled."""
        ...


@dataclass(frozen=True, slots=True)
class Links:
    """Of the two speakers. ``frr``: the VLAN port into FRR's namespace; ``bird``: between BIRD and the DUT's port."""

    frr: Link
    bird: Link


class BgpPath:
    """Daemons and agent of S1; ``close`` ends them. ``frr``: the DUT's. ``bird``: the neighbour."""

    def __init__(
        self,
        plan: BgpPathPlan,
        frr: BgpSpeaker,
        bird: BgpSpeaker,
        agent: RouteFollower,
        links: Links,
        watch_steps: Callable[[], Steps],
    ) -> None:
        self.plan = plan
        self.frr = frr
        self.bird = bird
        self.agent = agent
        self.links = links
        self._watch_steps = watch_steps

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Watch, within this context, how far each change of a route has come, and when."""
        watch = self._watch_steps()
        try:
            yield watch
        finally:
            watch.close()

    def await_established(self, deadline_s: float = ESTABLISHED_WITHIN_S) -> SessionState:
        """The session as FRR sees it, once it and its BFD session are up; DeadlineError says what was seen instead."""
        up = (None, BfdStatus.UP)
        return self.frr.await_session(
            self.plan.bird_address, lambda seen: seen.established and seen.bfd in up, "Established, BFD up", deadline_s
        )

    def await_ready(self) -> SessionState:
        """Established, and both ways' routes are flows: the VM's and the clients'."""
        state = self.await_established()
        for prefix in (self.plan.provider, self.plan.clients):
            self.agent.await_installed(prefix, _INSTALLED_WITHIN_S)
        return state

    def session(self) -> SessionState:
        """The session as FRR sees it now."""
        return self.frr.session(self.plan.bird_address)

    def healthy(self) -> bool:
        """True while all of it runs and the session is up with nothing but what the plan announces."""
        with suppress(TestbedError):
            self.check()
            as_planned = self.bird.config.announced == (self.plan.clients,)
            return as_planned and self.session().established
        return False

    def check(self) -> None:
        """TestbedError when a daemon died or hangs, or the agent ended."""
        for part in (self.frr, self.bird, self.agent):
            part.check()

    def close(self) -> None:
        """End all. Can be called twice."""
        with ExitStack() as stack:
            for part in (self.links.frr, self.links.bird, self.agent, self.frr, self.bird):
                stack.callback(part.close)


def start_path(journal: Journal, built: BuiltOvsTopology, plan: BgpPathPlan) -> BgpPath:
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
    return BgpPath(plan, dut, neighbor, agent, _links(built), partial(_watch_steps, built, agent))


def simulated_path(plan: BgpPathPlan) -> BgpPath:
    """For plans: nothing is started."""
    wire = FakeWire()
    dut = FakeSpeaker(wire, plan.frr_address, plan.frr_config())
    neighbor = FakeSpeaker(wire, plan.bird_address, plan.bird_config())
    for speaker in (dut, neighbor):
        speaker.start()
    return BgpPath(plan, dut, neighbor, SimulatedAgent(), Links(SimulatedLink(), SimulatedLink()), NoSteps)


def simulated_speaker() -> BgpSpeaker:
    """For plans: stands for one of a lab's."""
    plan = BgpPathPlan()
    speaker = FakeSpeaker(FakeWire(), plan.frr_address, plan.frr_config())
    speaker.start()
    return speaker


def lacks_daemons() -> str | None:
    """What this machine lacks for S1, and what to do; None when it has all."""
    try:
        for name, directories in (("bgpd", frr.DIRECTORIES), ("bird", bird.DIRECTORIES)):
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


def _links(built: BuiltOvsTopology) -> Links:
    dut, neighbor = _interfaces(built)
    return Links(LinkSwitch(*dut), LinkSwitch(*neighbor))


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
