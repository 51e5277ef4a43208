"""What a test did to a live topology stays, or is told: while a ceiling is measured, and after each rebuild."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from listed_sink import Listed

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedTopology
from pytest_nfvperf.measure.alternation import SideBySide
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.rig import LiveTopology, Rig, RigParts, Service
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.machine import Progress

OWN = "priority=200,in_port=p0,ip,actions=drop"
EDGE = compose("edge", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), rules("br0", flows=OWN))
BY_HAND = " priority=999,in_port=p0 actions=drop"


class Bridges(SimulatedTopology):
    """Its one bridge has the topology's flows, and what ``ovs("ofctl", "add-flow", ...)`` adds."""

    flows: list[str]

    def ovs(self, program: str, *arguments: str) -> str:
        command, bridge, *rest = arguments
        assert (program, bridge) == ("ofctl", "br0")
        if command == "add-flow":
            self.flows.append(rest[0])
        return "\n".join(["OFPST_FLOW reply (OF1.4) (xid=0x2):", *self.flows]) if command == "dump-flows" else ""


@dataclass
class Dut(Datapath):
    """Counts its builds. ``works``: whether it has its CPU."""

    info_: DatapathInfo
    works: bool = True
    builds: int = 0

    def info(self) -> DatapathInfo:
        return self.info_

    def build(self, topology: Any) -> Bridges:
        self.builds += 1
        self.works = True
        built = Bridges(topology)
        built.flows = [f" {line}" for one in topology.rules for line in one.flows]
        built.close = lambda: setattr(self, "works", False)  # type: ignore[method-assign]
        return built

    def check_alive(self) -> None: ...

    def close(self) -> None: ...


class Freezable(Dut):
    def freeze(self) -> bool:
        self.works = False
        return True

    def thaw(self) -> None:
        self.works = True


@dataclass
class Ceilings:
    """Unknown ones; the DUT must not have its CPU while one is measured."""

    works: Callable[[], bool]
    fails: bool = False
    seen: list[bool] = field(default_factory=list)

    def cached(self, *_: object) -> None: ...

    def measure(self, *_: object) -> float:
        self.seen.append(self.works())
        if self.fails:
            raise TestbedError("no frame came back")
        return 9e6


class Parts(RigParts):
    def __init__(self, dut: Any, ceilings: Any, clock: VirtualClock) -> None:
        self.dut, self.ceilings, self.clock = dut, ceilings, clock

    def make_datapath(self, dut: object) -> Any:
        return self.dut

    def make_generator(self) -> FakeGenerator:
        return FakeGenerator(4e6, clock=self.clock)


@dataclass
class Bench:
    """A rig on a DUT of this kind."""

    dut: Any
    sink: Listed = field(default_factory=Listed)

    def __post_init__(self) -> None:
        clock = VirtualClock()
        self.ceilings = Ceilings(lambda: self.dut.works)
        self.parts = Parts(self.dut, self.ceilings, clock)
        self.context = Context(Recorder("r", [self.sink], clock), Progress(), clock)  # type: ignore[arg-type]
        self.rig = Rig(self.parts, self.context)

    def live(self, configure: Callable[[LiveTopology], object] | None = None) -> LiveTopology:
        self.context.configures[EDGE.name] = configure
        return self.rig.live(EDGE, 0)

    def ceiling(self, live: LiveTopology) -> float | None:
        return self.rig.ceiling_fps(live, Traffic(), 2)


def private(kind: str = "dpdk", origin: str = "installed") -> DatapathInfo:
    return DatapathInfo(kind, "3.1.0", None, "", origin=origin)


def flows(live: LiveTopology) -> list[str]:
    built: Any = live.deployment.built
    return list(built.flows)


def by_hand(live: LiveTopology) -> None:
    built: Any = live.deployment.built
    built.ovs("ofctl", "add-flow", "br0", BY_HAND)


@pytest.mark.parametrize("dut", [Freezable(private()), Dut(private("system")), Dut(private("linux-bridge"))])
def test_a_ceiling_leaves_the_topology_as_the_test_made_it(dut: Dut) -> None:
    """Seen: a drop rule of the test's was gone, and a DUT that drops every frame was accepted."""
    bench = Bench(dut)
    live = bench.live()
    by_hand(live)
    assert bench.ceiling(live) == 9e6
    assert flows(live) == [f" {OWN}", BY_HAND]
    assert (dut.builds, dut.works) == (1, True)
    assert bench.ceilings.seen == [dut.info_.kind != "dpdk"]  # the kernel polls nothing


def test_a_dut_works_on_after_a_ceiling_that_could_not_be_measured() -> None:
    bench = Bench(Freezable(private()))
    live, bench.ceilings.fails = bench.live(), True
    with pytest.raises(TestbedError, match="no frame came back"):
        bench.ceiling(live)
    assert bench.dut.works


UNSTOPPABLE = [Dut(private()), Freezable(private(origin="system"))]


@pytest.mark.parametrize("dut", UNSTOPPABLE)
def test_what_a_rebuild_would_lose_is_an_error_that_says_what_to_write(dut: Dut) -> None:
    bench = Bench(replace(dut))
    live = bench.live()
    by_hand(live)
    with pytest.raises(ConfigError) as caught:
        bench.ceiling(live)
    assert BY_HAND.strip() in str(caught.value)
    assert OWN not in str(caught.value)
    assert "rules('br0', flows=...)" in str(caught.value)


@pytest.mark.parametrize("dut", UNSTOPPABLE)
def test_rules_and_configure_are_applied_to_each_build(dut: Dut) -> None:
    bench = Bench(replace(dut))
    live = bench.live(by_hand)
    assert bench.ceiling(live) == 9e6
    assert bench.dut.builds == 2
    assert flows(live) == [f" {OWN}", BY_HAND]
    assert bench.ceilings.seen == [False]
    calls = [record.data for record in bench.sink.records if record.kind == "attachment"]
    assert [call["name"] for call in calls] == ["configured: edge"] * 2
    assert "by_hand" in calls[0]["text"]


@pytest.mark.parametrize(("owns_flows", "lost"), [(True, False), (False, True)])
def test_a_service_starts_again_and_only_ovn_owns_all_flows(owns_flows: bool, lost: bool) -> None:
    """Sessions of daemons would end while the DUT is frozen."""
    bench, started = Bench(Freezable(private())), []

    class Daemons(Service):
        def close(self) -> None: ...

    Daemons.owns_flows = owns_flows

    def start(live: LiveTopology) -> Service:
        started.append(live)
        return Daemons()

    live = bench.live()
    live.start_service(start)
    by_hand(live)
    live.deployment.built.flows.append(" cookie=0x4e465650, priority=1024,ip actions=output:p1")  # type: ignore[attr-defined]
    if lost:
        with pytest.raises(ConfigError, match="priority=999") as caught:
            bench.ceiling(live)
        assert "cookie" not in str(caught.value)
    else:
        bench.ceiling(live)
    assert (len(started), bench.dut.builds) == (2, 2)


def test_nobody_disturbs_a_topology_whose_generator_has_no_ceiling() -> None:
    """Seen in a lab, where ports are cabled: each search took the topology down for nothing."""
    bench = Bench(Dut(private()))
    bench.parts.ceilings = None
    live = bench.live()
    by_hand(live)
    assert bench.ceiling(live) is None
    assert (bench.dut.builds, flows(live)) == (1, [f" {OWN}", BY_HAND])


def test_a_configure_that_fails_is_the_tests_and_leaves_nothing_half_set_up() -> None:
    bench = Bench(Freezable(private()))

    def fails(live: LiveTopology) -> None:
        by_hand(live)
        raise KeyError("vlan")

    with pytest.raises(KeyError, match="vlan"):
        bench.live(fails)
    assert flows(bench.live()) == [f" {OWN}"]
    assert bench.dut.builds == 2


def test_another_function_is_another_set_up() -> None:
    bench = Bench(Freezable(private()))
    first = bench.live(by_hand)
    assert bench.live(by_hand) is first
    assert flows(bench.live()) == [f" {OWN}"]
    assert (bench.dut.builds, first.replaced_by) == (2, "edge")


def test_side_by_side_each_build_is_set_up_and_a_ceiling_freezes_the_one_that_works() -> None:
    """A companion's topology was once built on the run's own rig, which was frozen."""
    own, other = Bench(Freezable(private())), Freezable(private())
    companion = Parts(other, own.ceilings, own.parts.clock)
    own.parts.beside = lambda _: companion  # type: ignore[method-assign]
    own.context.configures["edge"] = by_hand
    sides = SideBySide(own.rig, lambda rig, topology, dut: rig.live(topology, 0, dut))
    for block in range(2):
        sides.begin_block([(EDGE, TESTBED_DUT)] * 2, block)
        lives = [sides.run(number) for number in range(2)]
        assert [flows(live) for live in lives] == [[f" {OWN}", BY_HAND]] * 2
    own.ceilings.works = lambda: own.dut.works or other.works
    working = (own.dut.works, other.works)
    assert own.ceiling(lives[1]) == 9e6
    assert own.ceilings.seen == [False]
    assert working == (own.dut.works, other.works)
    assert sorted(working) == [False, True]
    assert (own.dut.builds, other.builds) == (2, 2)
