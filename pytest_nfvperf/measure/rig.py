"""A rig: datapath, generator and topology together, ready to be measured, and taken down."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from pytest_nfvperf.measure.clocks import Stopwatch, SystemClock
from pytest_nfvperf.measure.cpu_placement import PlacementWatch
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner, add_evidence, underlying_death
from pytest_nfvperf.measure.vnf_processes import RunningVnfs, plan_vnfs, ports_of, with_kinds
from pytest_nfvperf.model.arguments import shown_value
from pytest_nfvperf.model.disturbance.cpu_distance import ObservedBands, Poller
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, TestbedError, UnavailableError, run_all
from pytest_nfvperf.model.evidence.records import AttachmentData, ErrorData, Span
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, Ledger
from pytest_nfvperf.model.testbed.ovs_settings import with_queues
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut, GeneratorInfo, with_nodes
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.topology import Topology, only_generator_sends
from pytest_nfvperf.model.traffic.mix import AnyTraffic, least_load_fps
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath, Sampler
from pytest_nfvperf.ports.generator import (
    MOST_ADDRESSES,
    Ceilings,
    Generator,
    GeneratorPort,
    MakeConnects,
    SendRequests,
    StreamEnd,
    StreamEngine,
    VnfMaker,
    Watch,
    WatchPath,
)
from pytest_nfvperf.ports.machine import CpuAccounting, Profiler, StoredValue

_NO_MAC = "00:00:00:00:00:00"
"""For a host whose kernel chose the address: the generator passes its frames on unchanged."""

LINK_DEADLINE_S = 10.0
"""A NIC of 100 Gbit/s negotiates for some seconds."""

MAX_RECOVERIES = 2
"""How often a broken testbed is rebuilt in one run before later tests cite the first cause."""


def _lacks(what: str) -> NoReturn:
    raise UnavailableError(f"this testbed has {what}")


class RigParts(ABC):
    """The parts of a rig, which a backend makes. What a testbed does not have keeps its default.

    Most are made by methods, because a broken rig is rebuilt.

    Attributes:
        ceilings: None if nobody can measure the generator's own limit: its ports are cabled to the DUT.
        pmd_cpus: number of CPUs of poll-mode threads, 0 if unknown.
        polling_cpus: CPUs whose distance from the generator's is watched.
        round_trips: those that earlier runs measured, unless nobody moves the CPUs.
        vnfs: starts VNFs that are processes, unless there is only the generator's loop.
        companions: more rigs can be made on the same CPUs; while one works the others are frozen.
    """

    ceilings: Ceilings | None = None
    pmd_cpus: int = 0
    polling_cpus: tuple[int, ...] = ()
    round_trips: StoredValue = StoredValue()
    vnfs: VnfMaker = VnfMaker()
    companions: bool = False

    @abstractmethod
    def make_datapath(self, dut: Dut) -> Datapath: ...

    @abstractmethod
    def make_generator(self) -> Generator: ...

    def ledger(
        self,
        topology: Topology,  # noqa: ARG002 - of datapaths with counters
        result: TrialResult,  # noqa: ARG002
        before: Sequence[CounterSnapshot],  # noqa: ARG002
        after: Sequence[CounterSnapshot],  # noqa: ARG002
        others: Mapping[str, Mapping[str, str]] = MappingProxyType({}),  # noqa: ARG002
    ) -> Ledger | None:
        """Where the frames of a trial went, by the counters around it; None if the datapath has no counters.

        ``others``: the ``drop_reasons`` of collectors, by their sources.
        """
        return None

    def make_streams(self) -> StreamEngine:
        _lacks("no engine for streams between namespaces")

    def make_requests(self) -> SendRequests:
        _lacks("nothing that sends requests between namespaces")

    def make_connects(self) -> MakeConnects:
        _lacks("nothing that measures TCP connects between namespaces")

    def watch_path(self, client: StreamEnd, server: StreamEnd) -> AbstractContextManager[Watch]:  # noqa: ARG002
        """Watch what passes between two namespaces; see ``ports.generator.WatchPath``."""
        _lacks("nobody who can restart the DUT and watch what passes meanwhile")

    def make_cpu_accounting(self) -> CpuAccounting | None:
        """None if nobody can account for CPU time."""
        return None

    def make_profiler(self, pollers: Sequence[Poller] = ()) -> Profiler:  # noqa: ARG002 - of rigs with profilers
        """Of these threads; without any, of the CPUs of DUT and streams."""
        _lacks("no profiler for the CPUs of its DUT")

    def check_cabling(self, datapath: Datapath, generator: Generator) -> None:  # noqa: B027 - there are none
        """TestbedError if cables are not where the testbed file says."""

    def beside(self, name: str) -> RigParts:
        """The parts of one more rig on the same CPUs."""
        _lacks(f"one DUT, and no room for {name!r} beside it")

    def room_for_companions(self) -> int:
        """For how many more rigs there is memory now."""
        return 0


def generator_ports(topology: Topology, built: BuiltTopology, others: Collection[str] = ()) -> list[GeneratorPort]:
    """The topology's ports as the generator attaches them, and then the hosts behind endpoints.

    Cabled ports are left out, because no device of ours belongs to them. So are ``others``, those of VNF processes.
    """
    devices = {port: device for port, device in built.attachments().items() if port not in others}
    # A frame may cross a bridge several times. A monitor distinguishes its copies by their destination.
    macs = dict.fromkeys(port.mac for port in topology.ports if port.role is not PortRole.MONITOR)
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
            members=port.members if " " in device else (),
            learns=port.bond_mode == "active-backup",
            lacp=port.lacp != "off",
            addresses=tuple(macs)[:MOST_ADDRESSES] if port.role is PortRole.MONITOR else (),
        )
        for port in topology.ports
        if (device := devices.get(port.name)) is not None
    ]
    hosts = [
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
    return [*ports, *hosts]


def learning_directions(topology: Topology) -> tuple[Direction, ...]:
    """The topology's directions, and those back from receivers that send nothing, if a bridge must learn them.

    RFC 2544 section 23: a bridge that never heard of a receiver floods its frames to all ports.
    """
    crossed = {crossing.bridge for crossing in topology.crossings}
    silent = {direction.rx: direction for direction in topology.directions}
    for direction in topology.directions:
        silent.pop(direction.tx, None)
    back = [Direction(one.rx, one.tx) for one in silent.values() if topology.port(one.rx).bridge not in crossed]
    return (*topology.directions, *back)


def directions_of(topology: Topology, traffic: AnyTraffic) -> tuple[Direction, ...]:
    """All directions, or those of the first sender."""
    sent = (each for each in topology.directions if traffic.bidirectional or each.tx == topology.directions[0].tx)
    return tuple(sent)


def trial_spec(
    live: LiveTopology, traffic: AnyTraffic, load_fps: float, duration_s: float, purpose: str, **more: Any
) -> TrialSpec:
    """A trial in the directions that the traffic has on this topology; ``more``: other fields of a TrialSpec."""
    directions = directions_of(live.topology, traffic)
    load_fps = max(least_load_fps(traffic, duration_s), round(load_fps))
    return TrialSpec(traffic, load_fps, duration_s, directions, purpose=purpose, **more)


class Service(ABC):
    """A service on a deployed topology, such as routing daemons. ``owns_flows``: the bridges' flows are its own."""

    owns_flows: ClassVar[bool] = False

    @abstractmethod
    def close(self) -> None:
        """End it. Can be called twice."""


@dataclass(slots=True)
class Deployment:
    """What a topology consists of while it is deployed.

    Attributes:
        restart: restarts the DUT; UnavailableError if it cannot be restarted.
        watch_path: watches what passes between namespaces; UnavailableError if the testbed cannot.
        dut: what it is deployed on; None in tests of parts.
        processes: roles of the processes of DUT and VNFs on this machine, by their ids.
    """

    built: BuiltTopology
    datapath: DatapathInfo
    generator: Generator | None
    runner: TrialRunner | None
    restart: Callable[..., None]
    watch_path: WatchPath
    dut: Datapath | None = None
    collectors: tuple[Collector, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    check_alive: Callable[[], None] = lambda: None
    processes: Callable[[], Mapping[int, CpuRole]] = dict
    vnfs: RunningVnfs = field(default_factory=lambda: RunningVnfs((), VnfMaker()))
    services: list[Service] = field(default_factory=list)

    def close(self) -> None:
        run_all((self.stop_services, self.vnfs.close, self.built.close))

    def stop_services(self) -> None:
        run_all(self.services.pop().close for _ in self.services[:])


@dataclass(slots=True, eq=False)
class LiveTopology:
    """A deployed topology, with the generator attached: what a test measures on.

    Attributes:
        repeats: how often an invalid trial is repeated.
        rig: that it was deployed on.
        current: None once it is not deployed any more.
        replaced_by: the topology that was deployed after it, by name; "" for none.
        configure: the test's own function, called after each build.
        changed: an event changed the DUT below it: the next test has it built anew.
    """

    topology: Topology
    repeats: int
    dut: Dut = TESTBED_DUT
    rig: Rig | None = None
    current: Deployment | None = None
    replaced_by: str = ""
    service_starters: list[Callable[[LiveTopology], Service]] = field(default_factory=list)
    stopwatch: Stopwatch = field(default_factory=lambda: Stopwatch(SystemClock()))
    configure: Callable[[LiveTopology], object] | None = None
    changed: bool = False

    def apply_configure(self, recorder: Recorder) -> None:
        """Let the test set up what was built, or started again."""
        if self.configure is not None:
            recorder.emit(AttachmentData(f"configured: {self.name}", text=f"by {shown_value(self.configure)}"))
            self.configure(self)

    def start_service(self, start: Callable[[LiveTopology], Service]) -> None:
        """Start a service, such as routing daemons. It ends before the topology is removed, and starts again with it.

        The topology is removed and rebuilt to measure the generator's own ceiling.
        """
        with self.stopwatch.of(Span.BUILDING):
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
        """ArgumentError if the test deployed another topology since; TestbedError if it was removed otherwise."""
        if self.current is not None:
            return self.current
        self.refuse_replaced()
        raise TestbedError(f"topology {self.name!r} is no longer deployed: it was removed since")

    def refuse_replaced(self) -> None:
        if self.replaced_by:
            raise ArgumentError(
                f"topology {self.name!r} is not deployed any more: {self.replaced_by!r} was deployed after it, and a "
                "testbed has one at a time. Measure on the first before you deploy the second; let a test have one "
                "fixture that deploys; or compare both by study.forwarding_rate(...)"
            )

    @property
    def runner(self) -> TrialRunner:
        """ConfigError if the topology has no generator port."""
        if self.deployment.runner is None:
            raise ConfigError(
                f"topology {self.name!r} has no generator port: it allows no trial and no search for loss. "
                "Give it endpoints; or send streams between its namespaces, whose load is TCP's own: by the fixture "
                "'streams', or study.tcp_throughput"
            )
        return self.deployment.runner

    @property
    def datapath_kind(self) -> str:
        """``dpdk``, ``netdev`` or ``system``."""
        return self.deployment.datapath.kind

    @property
    def datapath_info(self) -> DatapathInfo:
        return self.deployment.datapath

    @property
    def sending(self) -> Mapping[str, str]:
        """How the generator drives the rings of its vhost-user ports; empty if it has none, or another driver."""
        generator = self.deployment.generator
        return generator.sending() if generator is not None else {}

    def counters(self) -> list[CounterSnapshot]:
        return [collector.snapshot() for collector in self.deployment.collectors]

    def connections(self) -> Mapping[int, int]:
        """How many connections the DUT tracks now, by zone of the topology's parts; {} for one without any."""
        return self.deployment.built.connections()

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Active firewall rules of the datapath and its namespaces, by namespace; empty if there are none."""
        return self.deployment.built.firewall()

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of one of its namespaces."""
        return self.deployment.built.netns(namespace)

    def learn(self, traffic: AnyTraffic) -> None:
        generator = self.deployment.generator
        if generator is not None and self.deployment.built.come_back != "never":
            with self.stopwatch.of(Span.WARM_UP):
                generator.learn(traffic, learning_directions(self.topology))


class Rig:
    """Owns the DUT, the generator and the live topology. Everything is made when first needed.

    Only one topology lives at a time: a PMD would still poll unused ports, which slows what is measured. Tests on the
    same topology share it.
    """

    def __init__(self, parts: RigParts, context: Context, placement: PlacementWatch | None = None) -> None:
        """``placement``: that of the rig whose companion this one is, on the same CPUs."""
        self.context = context
        self.parts = parts
        self._stopwatch = context.recorder.stopwatch
        self._placement = placement or PlacementWatch(
            parts.polling_cpus, parts.round_trips, context.clock, context.progress.soaking
        )
        self._datapath: Datapath | None = None
        self._dut = TESTBED_DUT
        self._generator: Generator | None = None
        self._streams: StreamEngine | None = None
        self._live: LiveTopology | None = None
        self._leaving: Deployment | None = None
        self._first_cause: tuple[str, TestbedError] | None = None
        self._first_record: str | None = None
        self._recoveries = 0
        self._cabling_checked = False

    @property
    def observed_bands(self) -> ObservedBands | None:
        return self._placement.observed_bands

    def datapath(self, dut: Dut | None = None) -> Datapath:
        """The DUT, started if need be; another one that ran before is stopped. None: the one that runs."""
        self._refuse_if_broken()
        with self._stopwatch.of(Span.BUILDING):
            if dut is not None and dut != self._dut:
                self.remove_topology()
                datapath, self._datapath = self._datapath, None
                if datapath is not None:
                    datapath.close()
                self._dut = dut
            if self._datapath is None:
                self._datapath = self.parts.make_datapath(self._dut)
            return self._datapath

    def room_for_companions(self) -> int:
        """How many more DUTs fit on the same CPUs. This rig's own DUT and generator are started first."""
        if not self.parts.companions:
            return 0
        self.datapath()
        self.generator()
        return self.parts.room_for_companions()

    def beside(self, name: str) -> Rig:
        """A companion: one more rig on the same CPUs, not started yet. UnavailableError if there can be none.

        One of the two is frozen while the other works. The caller closes it.
        """
        return Rig(self.parts.beside(name), self.context, self._placement)

    def freeze(self) -> None:
        """Stop the DUT by SIGSTOP: it takes no CPU, and answers nothing."""
        if self._datapath is not None:
            self._datapath.freeze()

    def thaw(self) -> None:
        if self._datapath is not None:
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
            with self._stopwatch.of(Span.BUILDING):
                self._generator = self.parts.make_generator()
        return self._generator

    @property
    def generator_info(self) -> GeneratorInfo | None:
        """None if no generator runs: topologies without a port for it do not start one."""
        return self._generator.info() if self._generator is not None else None

    def streams(self) -> StreamEngine:
        self._refuse_if_broken()
        if self._streams is None:
            self._streams = self.parts.make_streams()
        return self._streams

    def live(self, topology: Topology, repeats: int, dut: Dut = TESTBED_DUT) -> LiveTopology:
        """Deploy this topology on ``dut``; another one is removed first. ``repeats``: of an invalid trial."""
        topology = with_queues(topology, dut.tuning)
        dut = with_nodes(dut, topology)
        configure = self.context.configures.get(topology.name)
        wanted = (topology, dut, configure)
        if self._live and not self._live.changed and (self._live.topology, self._dut, self._live.configure) == wanted:
            return self._live
        if self._live is not None:
            self._live.replaced_by = topology.name
        live = LiveTopology(topology, repeats, dut, self, stopwatch=self._stopwatch, configure=configure)
        with self._stopwatch.of(Span.BUILDING):
            self._remove()
            self._deploy(live)
        return live

    def ceiling_fps(
        self, live: LiveTopology, traffic: AnyTraffic, directions: int, *, remeasured: bool = False
    ) -> float | None:
        """The rig's own limit for this traffic, frames/s per direction; None if it cannot be measured.

        An unknown one is measured; with ``remeasured`` a known one, too.
        """
        ceilings = self.parts.ceilings
        known = None if ceilings is None else ceilings.cached(traffic, directions)
        if ceilings is None or (known is not None and not remeasured):
            return known
        rig = live.rig  # another one than this where a study has companions
        with self._stopwatch.of(Span.CEILING), rig.off_cpu(live) if rig is not None else nullcontext():
            return ceilings.measure(traffic, directions)

    @contextmanager
    def off_cpu(self, live: LiveTopology) -> Iterator[None]:
        """Keep a topology off its CPUs: its PMD would poll where the ceiling's loop runs.

        Its DUT is frozen, with all that the test did to it; the kernel polls nothing. Where others poll on, or sessions
        would end, it is built again: ConfigError if what the test did by hand is lost by that.
        """
        info, deployment = live.datapath_info, live.deployment
        others = deployment.services or deployment.vnfs.kinds or info.origin == "system"
        with ExitStack() as stack:
            if info.kind not in {"system", "linux-bridge"}:
                stack.callback(self.thaw)
                if others or not self.datapath().freeze():
                    stack.enter_context(self._rebuilding(live))
            yield

    @contextmanager
    def _rebuilding(self, live: LiveTopology) -> Iterator[None]:
        had = _openflow_of(live)
        self._remove()
        yield
        self._deploy(live)
        if lost := sorted(had - _openflow_of(live)):
            raise ConfigError(
                f"topology {live.name!r} was built again to measure the generator's own ceiling, and what the test had "
                f"done by hand is gone: {'; '.join(lost)}. Write it as rules({lost[0].partition(':')[0]!r}, flows=...) "
                "into the topology, or do it in a function: deploy(topology, configure=f)"
            )

    def remove_topology(self) -> None:
        with self._stopwatch.of(Span.BUILDING):
            self._remove()

    def _remove(self) -> None:
        topology, deployment = self._forget_live()
        if topology is None or deployment is None:
            return
        deployment.stop_services()
        if deployment.generator is not None:
            # All that ``generator_ports`` may have attached, hosts first, because they use the rings of others.
            names = [*(one.label for one in topology.behind), *(port.name for port in topology.ports)]
            deployment.generator.detach(names)
        deployment.close()
        self._leaving = None

    def _forget_live(self) -> tuple[Topology | None, Deployment | None]:
        live, self._live = self._live, None
        if live is None:
            return None, None
        deployment, live.current = live.current, None
        self._leaving = deployment
        return live.topology, deployment

    def broken(self, test: str, error: TestbedError) -> TestbedError:
        """Remember that the testbed broke, and its logs. Take everything down; return the death behind the error."""
        if self._datapath is not None:
            error = underlying_death(error, self._datapath.check_alive, self.context.clock)
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
        """Take everything down after a signal interrupted this rig.

        The testbed did not break: it is rebuilt for the next test, however often.
        """
        self._cabling_checked = False
        self.close()

    def adopt_failures_of(self, earlier: Rig) -> None:
        self._first_cause, self._first_record = earlier._first_cause, earlier._first_record
        self._recoveries = earlier._recoveries

    def close(self) -> None:
        """Remove everything, the DUT last. Every step is tried; the first error is raised at the end."""
        owned = [each for each in (self._generator, self._streams, self._datapath) if each is not None]
        steps = [self._close_deployments, *(each.close for each in owned), self._placement.close]
        self._generator = self._datapath = self._streams = None
        try:
            with self._stopwatch.of(Span.BUILDING):
                run_all(steps)
        except TestbedError:
            if self._first_cause is None:
                raise

    def _close_deployments(self) -> None:
        half_removed = self._leaving  # its removal was interrupted
        _, deployment = self._forget_live()
        run_all(each.close for each in (half_removed, deployment) if each is not None)
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
        vnfs = RunningVnfs((), self.parts.vnfs)
        try:
            planned = plan_vnfs(topology, built, self.parts.vnfs)
            vnfs = RunningVnfs(planned, self.parts.vnfs)
            if generator is not None:
                generator.attach(generator_ports(topology, built, ports_of(planned)))
                generator.wait_links_up(LINK_DEADLINE_S)
            vnfs.wait_ready()
            built.wait_ready(LINK_DEADLINE_S)
        except BaseException as error:
            if isinstance(error, TestbedError):
                add_evidence(error, datapath.logs())  # now: taking the topology down fills the logs with its own lines
            run_all((vnfs.close, built.close))
            raise

        def check_alive() -> None:
            datapath.check_alive()
            vnfs.check_alive()

        deployment = Deployment(
            built=built,
            datapath=datapath.info(),
            generator=generator,
            runner=None,
            restart=datapath.restart,
            watch_path=self.parts.watch_path,
            dut=datapath,
            collectors=datapath.collectors(),
            samplers=datapath.samplers(),
            check_alive=check_alive,
            processes=lambda: vnfs.process_roles(datapath),
            vnfs=vnfs,
        )
        if generator is not None:
            deployment.runner = self._runner(live, generator, deployment)
        live.current = deployment
        self._live = live
        self.context.locations.last = (live.topology, live.dut)
        try:
            live.apply_configure(self.context.recorder)
        except BaseException:
            self._remove()  # without that it is not what the test asked for
            raise
        for start in live.service_starters:
            live.current.services.append(start(live))

    def _check_cabling(self, datapath: Datapath, generator: Generator) -> None:
        """Once, and again after something broke: it may have been a cable."""
        if not self._cabling_checked:
            try:
                self.parts.check_cabling(datapath, generator)
            except TestbedError as error:
                add_evidence(error, datapath.logs())
                raise
        self._cabling_checked = True

    def _runner(self, live: LiveTopology, generator: Generator, deployment: Deployment) -> TrialRunner:
        topology = live.topology
        ledger = partial(self.parts.ledger, topology)
        reasons = {one.source: one.drop_reasons for one in deployment.collectors if one.drop_reasons is not None}
        return TrialRunner(
            generator,
            deployment.collectors,
            # A backend of others may know OVS's reasons only, and take no more arguments.
            make_ledger=partial(ledger, others=reasons) if reasons else ledger,
            check_alive=deployment.check_alive,
            context=replace(
                self.context, placement=self._placement, dut=self._datapath, deployed_on=(topology, live.dut)
            ),
            repeats=live.repeats,
            pmd_cpus=self.parts.pmd_cpus,
            vnf_counts=deployment.vnfs.counts,
            alone=only_generator_sends(topology),
            come_back=deployment.built.come_back,
            flush=deployment.built.flush_connections,
        )


def _openflow_of(live: LiveTopology) -> set[str]:
    """Flows, groups and meters of its bridges, but those that end by themselves, or are a service's."""
    if any(service.owns_flows for service in live.deployment.services):
        return set()
    ovs, dumps = live.deployment.built.ovs, ("dump-flows", "dump-groups", "dump-meters")
    asked = ((dump, bridge, "--names", "--no-stats") for bridge in live.topology.bridges for dump in dumps)
    try:
        lines = [f"{words[1]}: {line.strip()}" for words in asked for line in ovs("ofctl", *words).splitlines()]
    except UnavailableError:  # no OVS: nobody can have changed its flows
        return set()
    return {line for line in lines if not re.search(r" reply |_timeout=|cookie=", line)}
