"""A rig: datapath, generator and topology together, ready to be measured, and taken down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_nfvperf.measure.cpu_placement import ForgottenRoundTrips, Placement, RoundTrips
from pytest_nfvperf.measure.trials import Context, TrialRunner, add_evidence, death_behind
from pytest_nfvperf.measure.vnf_processes import RunningVnfs, all_in_the_loop, plan_vnfs, ports_of, with_kinds
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, TestbedError
from pytest_nfvperf.model.evidence.records import ErrorData
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot, Ledger
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.testbed.ovs_settings import with_queues
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, DatapathInfo, Dut, GeneratorInfo, with_nodes
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.cpu_placement import BandsSeen
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialResult
from pytest_nfvperf.ports.datapath import (
    BuiltTopology,
    Collector,
    Datapath,
    Freezing,
    Restart,
    Restarting,
    Sampled,
    Sampler,
)
from pytest_nfvperf.ports.generator import MOST_ADDRESSES, Ceilings, Generator, GeneratorPort
from pytest_nfvperf.ports.machine import CpuAccounting, CpuProfiler
from pytest_nfvperf.ports.streams import ConnectEngine, Reachability, RequestEngine, StreamEngine
from pytest_nfvperf.ports.vnf import VnfMaker

# What a rig is made of: factories that a backend hands over.

LedgerFactory = Callable[[Topology, TrialResult, Sequence[CounterSnapshot], Sequence[CounterSnapshot]], Ledger]


@dataclass(frozen=True, slots=True)
class RigParts:
    """The parts of a rig. Most are factories, because a broken rig is built anew. None: the testbed does not have it.

    ``pmd_cpus``: number of CPUs of poll-mode threads, 0 if unknown. ``polling_cpus``: their distance from the
    generator's is watched; ``round_trips``: seen before. ``make_profiler``: of the CPUs of DUT and streams. ``vnfs``:
    starts VNFs that are processes; None where there is only the generator's loop. ``beside``: the parts of one more rig
    that shares the CPUs: while one works the others are frozen. ``room_beside``: for how many more there is memory now;
    0 where the testbed has but one DUT. ``check_cabling``: raises TestbedError when cables are not where the testbed
    file says.
    """

    make_datapath: Callable[[Dut], Datapath]
    make_generator: Callable[[], Generator]
    make_ledger: LedgerFactory | None
    ceilings: Ceilings
    pmd_cpus: int
    polling_cpus: tuple[int, ...] = ()
    round_trips: RoundTrips = field(default_factory=ForgottenRoundTrips)
    make_streams: Callable[[], StreamEngine] | None = None
    make_cpu_accounting: Callable[[], CpuAccounting | None] | None = None
    make_requests: Callable[[], RequestEngine] | None = None
    make_connects: Callable[[], ConnectEngine] | None = None
    reachability: Reachability | None = None
    make_profiler: Callable[[], CpuProfiler] | None = None
    vnfs: VnfMaker | None = None
    check_cabling: Callable[[Datapath, Generator], None] | None = None
    beside: Callable[[str], RigParts] | None = None
    room_beside: Callable[[], int] = lambda: 0


# What the generator is told of a deployed topology: which ports there are, and where to send learning frames.

_NO_MAC = "00:00:00:00:00:00"
"""For a host whose kernel chose the address: the generator passes its frames on unchanged."""


def generator_ports(topology: Topology, built: BuiltTopology, others: Collection[str] = ()) -> list[GeneratorPort]:
    """The topology's ports as the generator attaches them.

    Without those of ``others`` (VNFs that are processes) and cabled ones, which have no device of ours.
    """
    devices = {found.port: found.device for found in built.attachments() if found.port not in others}
    ports = [
        GeneratorPort(
            name=port.name,
            device=device,
            mac=port.mac,
            role=port.role,
            peer=port.peer,
            vnf_mode=port.vnf_mode,
            queues=port.queues,
            mtu=port.mtu,
            eth_peer=port.eth_peer,
            unread=port.unread,
            addresses=_told_apart(topology) if port.role is PortRole.MONITOR else (),
        )
        for port in topology.ports
        if (device := devices.get(port.name)) is not None
    ]
    return [*ports, *_hosts(topology, devices)]


def _hosts(topology: Topology, devices: Mapping[str, str | None]) -> list[GeneratorPort]:
    """Hosts behind endpoints. They can be attached once the endpoints are."""
    return [
        GeneratorPort(
            name=one.label,
            device=device,
            mac=one.mac or _NO_MAC,
            role=PortRole.HOST,
            peer=one.port,
            mtu=one.mtu,
            vlan=one.vlan,
        )
        for one in topology.behind
        if (device := devices.get(one.label)) is not None
    ]


def generator_port_names(topology: Topology) -> list[str]:
    """Names of all that ``generator_ports`` may have attached, hosts first, because they use the rings of others."""
    return [*(one.label for one in topology.behind), *(port.name for port in topology.ports)]


def learning_directions(topology: Topology) -> tuple[Direction, ...]:
    """The topology's directions, and the way back from receivers that send nothing, where a bridge must learn them.

    RFC 2544 section 23: a bridge that never heard of a receiver floods its frames to all ports.
    """
    crossed = {crossing.bridge for crossing in topology.crossings}
    silent = {direction.rx: direction for direction in topology.directions}
    for direction in topology.directions:
        silent.pop(direction.tx, None)
    back = [Direction(way.rx, way.tx) for way in silent.values() if topology.port(way.rx).bridge not in crossed]
    return (*topology.directions, *back)


def _told_apart(topology: Topology) -> tuple[str, ...]:
    """Destinations, by which a monitor tells apart the copies of a frame that crosses a bridge several times."""
    macs = [port.mac for port in topology.ports if port.role is not PortRole.MONITOR]
    return tuple(dict.fromkeys(macs))[:MOST_ADDRESSES]


# What a topology consists of while it is deployed.


class Service(Protocol):
    """What runs on a deployed topology, beside generator and DUT: routing daemons, for example."""

    def close(self) -> None:
        """End it. Can be called twice."""
        ...


@dataclass(slots=True)
class Deployment:
    """What a topology consists of while it is deployed.

    ``processes``: roles of the DUT's and the VNFs' on this machine, by their ids. ``restart``: of the DUT; None where
    nobody can. ``reachability``: watches what passes between namespaces; None where nobody does.
    """

    built: BuiltTopology
    dut: Dut
    datapath: DatapathInfo
    generator: Generator | None
    runner: TrialRunner | None
    collectors: tuple[Collector, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    restart: Restart | None = None
    reachability: Reachability | None = None
    check_alive: Callable[[], None] = lambda: None
    processes: Callable[[], Mapping[int, CpuRole]] = dict
    vnfs: RunningVnfs = field(default_factory=RunningVnfs)
    services: list[Service] = field(default_factory=list)

    def can(self, datapath: Datapath) -> None:
        if isinstance(datapath, Sampled):
            self.samplers = datapath.samplers()
        if isinstance(datapath, Restarting):
            self.restart = datapath.restart

    def close(self) -> None:
        try:
            self.stop_services()
            self.vnfs.close()
        finally:
            self.built.close()

    def stop_services(self) -> None:
        while self.services:
            self.services.pop().close()


# The rig: one DUT, one generator, at most one live topology, and what is remembered of failures.
#
# Only one topology lives at a time: unused ports would still be polled by the PMD and slow what is measured.
# Tests on the same topology share it.

LINK_DEADLINE_S = 10.0
MAX_RECOVERIES = 2
"""How often a broken testbed is built anew in one run before later tests cite the first cause."""


@dataclass(slots=True, eq=False)
class LiveTopology:
    """A deployed topology, with the generator attached: what a test measures on.

    ``repeats``: of an invalid trial. ``current``: None once it is not deployed any more. ``replaced_by``: the topology
    that was deployed after it, by name; "" for none.
    """

    topology: Topology
    repeats: int
    dut: Dut = TESTBEDS_OWN
    current: Deployment | None = None
    replaced_by: str = ""
    service_starters: list[Callable[[LiveTopology], Service]] = field(default_factory=list)

    def start_service(self, start: Callable[[LiveTopology], Service]) -> None:
        """Start something on it, such as routing daemons: closed before it is removed, started again if it is rebuilt.

        It is removed and built again where the generator's own ceiling has to be measured.
        """
        self.deployment.services.append(start(self))
        self.service_starters.append(start)

    def stop_services(self) -> None:
        self.service_starters.clear()
        if self.current is not None:
            self.current.stop_services()

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def as_deployed(self) -> Topology:
        return with_kinds(self.topology, self.deployment.vnfs.kinds)

    @property
    def is_deployed(self) -> bool:
        return self.current is not None

    @property
    def deployment(self) -> Deployment:
        """ArgumentError where the test deployed another topology since; TestbedError where it was removed otherwise."""
        if self.current is not None:
            return self.current
        self.refuse_replaced()
        raise TestbedError(f"topology {self.name!r} is no longer deployed: it was removed since")

    def refuse_replaced(self) -> None:
        """Raise ArgumentError where another topology was deployed after it: a test measures on the wrong one."""
        if self.replaced_by:
            raise ArgumentError(
                f"topology {self.name!r} is not deployed any more: {self.replaced_by!r} was deployed after it, and a "
                "testbed has one at a time. Measure on the first before you deploy the second; let a test have one "
                "fixture that deploys; or compare both by study.forwarding_rate(...)"
            )

    @property
    def runner(self) -> TrialRunner:
        """Runs trials on it; ConfigError for a topology that the generator has no port on."""
        if self.deployment.runner is None:
            raise ConfigError(
                f"topology {self.name!r} has no generator port: it allows no trial and no search for loss. "
                "Give it endpoints; or send streams between its namespaces, whose load is TCP's own: by the fixture "
                "'streams', or study.tcp_throughput"
            )
        return self.deployment.runner

    @property
    def datapath_kind(self) -> str:
        """Of the datapath it is built on: dpdk, netdev, system."""
        return self.deployment.datapath.kind

    @property
    def datapath_info(self) -> DatapathInfo:
        """What the DUT is that it is built on: kind, versions, installation."""
        return self.deployment.datapath

    def counters(self) -> list[CounterSnapshot]:
        return [collector.snapshot() for collector in self.deployment.collectors]

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Active firewall rules in its namespaces and the datapath's own, by namespace; empty if there are none."""
        return self.deployment.built.firewall()

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of one of its namespaces."""
        return self.deployment.built.netns(namespace)

    def learn(self, traffic: Traffic) -> None:
        generator = self.deployment.generator
        if generator is not None:
            generator.learn(traffic, learning_directions(self.topology))


class Rig:
    """Owns the DUT, the generator and the live topology; everything is made when first needed."""

    def __init__(self, parts: RigParts, context: Context, placement: Placement | None = None) -> None:
        """``placement``: of the rig beside which this one works, on the same CPUs."""
        self.context = context
        self._parts = parts
        self._placement = placement or Placement(
            parts.polling_cpus, parts.round_trips, context.clock, context.progress.soaking
        )
        self._datapath: Datapath | None = None
        self._dut = TESTBEDS_OWN
        self._generator: Generator | None = None
        self._streams: StreamEngine | None = None
        self._live: LiveTopology | None = None
        self._leaving: Deployment | None = None
        self._first_cause: tuple[str, TestbedError] | None = None
        self._first_record: str | None = None
        self._recoveries = 0
        self._cabling_checked = False

    @property
    def bands_seen(self) -> BandsSeen | None:
        """In which bands of CPU distance this run's trials were; None where nobody looked."""
        return self._placement.bands_seen

    def datapath(self, dut: Dut | None = None) -> Datapath:
        """The DUT, started if need be; another one that ran before is stopped. None: the one that runs."""
        self._refuse_if_broken()
        if dut is not None and dut != self._dut:
            self.remove_topology()
            datapath, self._datapath = self._datapath, None
            if datapath is not None:
                datapath.close()
            self._dut = dut
        if self._datapath is None:
            self._datapath = self._parts.make_datapath(self._dut)
        return self._datapath

    def room_beside(self) -> int:
        """How many more DUTs fit on the same CPUs; this one and its generator are started first."""
        if self._parts.beside is None:
            return 0
        self.datapath()
        self.generator()
        return self._parts.room_beside()

    def loops_vnfs(self, topology: Topology) -> bool:
        """True where its VNFs run in the generator's own loop, so that they rest between its trials."""
        return all_in_the_loop(topology, self._parts.vnfs)

    def beside(self, name: str) -> Rig | None:
        """One more rig on the same CPUs, not started yet; None where the testbed has but one DUT.

        One of the two is frozen while the other works. Whoever asked for it closes it.
        """
        if self._parts.beside is None:
            return None
        return Rig(self._parts.beside(name), self.context, self._placement)

    def freeze(self) -> None:
        """SIGSTOP the DUT: it takes no CPU, and nothing can be asked of it."""
        if isinstance(self._datapath, Freezing):
            self._datapath.freeze()

    def thaw(self) -> None:
        if isinstance(self._datapath, Freezing):
            self._datapath.thaw()

    def died(self) -> bool:
        try:
            if self._datapath is not None:
                self._datapath.check_alive()
        except TestbedError:
            return True
        return False

    def logs(self) -> Mapping[str, str]:
        return self._datapath.logs() if self._datapath is not None else {}

    def generator(self) -> Generator:
        self._refuse_if_broken()
        if self._generator is None:
            self._generator = self._parts.make_generator()
        return self._generator

    @property
    def generator_info(self) -> GeneratorInfo | None:
        """Of the generator, if one runs: topologies without a port for it do not start one."""
        return self._generator.info() if self._generator is not None else None

    def streams(self) -> StreamEngine:
        self._refuse_if_broken()
        if self._streams is None:
            if self._parts.make_streams is None:
                raise TestbedError("this testbed has no engine for streams between namespaces")
            self._streams = self._parts.make_streams()
        return self._streams

    @property
    def parts(self) -> RigParts:
        return self._parts

    def live(self, topology: Topology, repeats: int, dut: Dut = TESTBEDS_OWN) -> LiveTopology:
        """This topology, deployed on ``dut``; another one is removed first. ``repeats``: of an invalid trial."""
        topology = with_queues(topology, dut.tuning)
        dut = with_nodes(dut, topology)
        if self._live is not None and (self._live.topology, self._dut) == (topology, dut):
            return self._live
        if self._live is not None:
            self._live.replaced_by = topology.name
        self.remove_topology()
        live = LiveTopology(topology, repeats, dut)
        self._deploy(live)
        return live

    def ceiling_fps(self, live: LiveTopology, traffic: Traffic, directions: int, *, anew: bool = False) -> float | None:
        """The rig's own limit for this traffic, frames/s per direction; None if it cannot be measured.

        To measure it, or ``anew``, the topology is removed, because a PMD would poll on the CPU that the loop needs;
        ``live`` is deployed again afterwards.
        """
        ceilings = self._parts.ceilings
        known = ceilings.cached(traffic, directions)
        if known is not None and not anew:
            return known
        self.remove_topology()
        ceiling = ceilings.measure(traffic, directions)
        self._deploy(live)
        return ceiling

    def remove_topology(self) -> None:
        """Detach the generator and remove the live topology, if there is one."""
        live, deployment = self._taken_down()
        if live is None or deployment is None:
            return
        deployment.stop_services()
        if deployment.generator is not None:
            deployment.generator.detach(generator_port_names(live.topology))
        deployment.close()
        self._leaving = None

    def _taken_down(self) -> tuple[LiveTopology | None, Deployment | None]:
        live, self._live = self._live, None
        if live is None:
            return None, None
        deployment, live.current = live.current, None
        self._leaving = deployment
        return live, deployment

    def broken(self, test: str, error: TestbedError) -> TestbedError:
        """Remember that the testbed broke, with logs, and take everything down; returns what died behind the error."""
        if self._datapath is not None:
            error = death_behind(error, self._datapath.check_alive, self.context.clock)
            add_evidence(error, self._datapath.logs())
        if self._first_cause is None:
            self._first_cause = (test, error)
        self._recoveries += 1
        self._cabling_checked = False
        record = self.context.recorder.emit(
            ErrorData(type(error).__name__, error.message, error.evidence, first_cause=self._first_record)
        )
        self._first_record = self._first_record or record
        self.close()
        return error

    def interrupted(self) -> None:
        """Take everything down after a signal's handler broke off what was done here.

        The testbed did not break: it is built anew for the next test, however often.
        """
        self._cabling_checked = False
        self.close()

    def go_on_for(self, earlier: Rig) -> None:
        """Remember what broke on the rig in whose place this one is."""
        self._first_cause, self._first_record = earlier._first_cause, earlier._first_record
        self._recoveries = earlier._recoveries

    def close(self) -> None:
        """Remove everything, the DUT last. Every step is tried; the first error is raised at the end."""
        steps: list[Callable[[], None]] = [self._forget_live]
        if self._generator is not None:
            steps.append(self._generator.close)
        if self._streams is not None:
            steps.append(self._streams.close)
        if self._datapath is not None:
            steps.append(self._datapath.close)
        steps.append(self._placement.close)
        self._generator = self._datapath = self._streams = None
        errors: list[TestbedError] = []
        for step in steps:
            try:
                step()
            except TestbedError as error:
                errors.append(error)
        if errors and self._first_cause is None:
            raise errors[0]

    def _forget_live(self) -> None:
        """Also a topology that was being removed when that was interrupted."""
        half_removed = self._leaving
        _, deployment = self._taken_down()
        for each in (half_removed, deployment):
            if each is not None:
                each.close()
        self._leaving = None

    def _refuse_if_broken(self) -> None:
        if self._first_cause is not None and self._recoveries > MAX_RECOVERIES:
            test, error = self._first_cause
            raise TestbedError(
                f"the testbed broke {self._recoveries} times and is not built again; first in {test}: {error.message}",
                evidence=error.evidence,
            )

    def _deploy(self, live: LiveTopology) -> None:
        topology = live.topology
        datapath = self.datapath(live.dut)
        generator = self.generator() if topology.ports else None
        if generator is not None:
            self._check_cabling(datapath, generator)
        built = datapath.build(topology)
        vnfs = RunningVnfs()
        try:
            planned = plan_vnfs(topology, built, self._parts.vnfs)
            vnfs = RunningVnfs(planned, self._parts.vnfs)
            if generator is not None:
                generator.attach(generator_ports(topology, built, ports_of(planned)))
                generator.wait_links_up(LINK_DEADLINE_S)
            vnfs.wait_ready()
            built.wait_ready(LINK_DEADLINE_S)
        except BaseException as error:
            if isinstance(error, TestbedError):
                add_evidence(error, datapath.logs())  # now: taking the topology down fills the logs with its own
            vnfs.close()
            built.close()
            raise
        deployment = Deployment(built, live.dut, datapath.info(), generator, None, datapath.collectors(), vnfs=vnfs)
        deployment.can(datapath)
        deployment.reachability = self._parts.reachability
        deployment.check_alive = lambda: _all_alive(datapath, vnfs)
        deployment.processes = lambda: vnfs.processes_beside(datapath)
        if generator is not None:
            deployment.runner = self._runner(live, generator, deployment)
        live.current = deployment
        self._live = live
        self.context.places.last = (live.topology, live.dut)
        for start in live.service_starters:
            live.current.services.append(start(live))

    def _check_cabling(self, datapath: Datapath, generator: Generator) -> None:
        """Once, and again after something broke: it may have been a cable."""
        if self._parts.check_cabling is not None and not self._cabling_checked:
            try:
                self._parts.check_cabling(datapath, generator)
            except TestbedError as error:
                add_evidence(error, datapath.logs())
                raise
        self._cabling_checked = True

    def _runner(self, live: LiveTopology, generator: Generator, deployment: Deployment) -> TrialRunner:
        factory, topology = self._parts.make_ledger, live.topology
        return TrialRunner(
            generator,
            deployment.collectors,
            make_ledger=(lambda result, before, after: factory(topology, result, before, after)) if factory else None,
            check_alive=deployment.check_alive,
            context=replace(self.context, placement=self._placement, dut=self, place=(topology, live.dut)),
            repeats=live.repeats,
            pmd_cpus=self._parts.pmd_cpus,
            vnf_counts=deployment.vnfs.counts,
        )


def _all_alive(datapath: Datapath, vnfs: RunningVnfs) -> None:
    datapath.check_alive()
    vnfs.check_alive()
