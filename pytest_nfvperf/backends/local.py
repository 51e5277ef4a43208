"""The backend for a DUT on this machine: an OVS, and a generator that sends to it.

The order matters: lock the CPUs that will be measured, reap what dead runs left, keep this process off those CPUs, and
only then start anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_nfvperf.adapters.generators.engine import RecordedCeilings
from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine, check_iperf3, find_iperf3
from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine, SockperfEngine, watch_datagrams
from pytest_nfvperf.adapters.host.cpu_account import cpu_accountant
from pytest_nfvperf.adapters.host.cpus import check_cpu_rights, check_pages, check_resources, lacks_priority
from pytest_nfvperf.adapters.host.hugepages import RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.host.nic import nic_labels
from pytest_nfvperf.adapters.host.nic_binding import check_dpdk_device, check_nics, set_up_nics
from pytest_nfvperf.adapters.machine.fingerprint import fingerprint, is_virtual
from pytest_nfvperf.adapters.machine.reaper import kill_noted, kill_rest, open_journal, reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import check_free
from pytest_nfvperf.adapters.net.linux_bridge import KIND as LINUX_BRIDGE
from pytest_nfvperf.adapters.net.linux_bridge import BridgeDatapath
from pytest_nfvperf.adapters.ovs.installation import MEMORY_MIB, lacks, locate
from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS, NicMaker
from pytest_nfvperf.adapters.ovs.nodes_datapath import (
    NODE_HOSTS,
    NodeHosts,
    NodesDatapath,
    check_node_programs,
    lacks_nodes,
)
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import Vswitchd
from pytest_nfvperf.adapters.ovs.system_ovs import find_system
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.adapters.process.process import deferred_signals
from pytest_nfvperf.adapters.testpmd.datapath import TestpmdDatapath, joined_ports, lacks_testpmd
from pytest_nfvperf.adapters.vnf.guest import GuestVnf
from pytest_nfvperf.adapters.vnf.testpmd import TestpmdVnf
from pytest_nfvperf.backends.base import Backend, Daemons, T
from pytest_nfvperf.backends.foreign_datapaths import Makers, Workshop, lacks_foreign, versions_of
from pytest_nfvperf.backends.generator_side import (
    VHOST_USER,
    GeneratorSide,
    ReservedMachine,
    default_vnf_kind,
    lacks_roles,
)
from pytest_nfvperf.features import Point
from pytest_nfvperf.measure.cable_check import check_cabling
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import ConfigError, TestbedError, why_refused
from pytest_nfvperf.model.measure.cpu_profile import TIME, VIRTUAL
from pytest_nfvperf.model.measure.profile import Profile, estimate_search_s
from pytest_nfvperf.model.sla.rules import ON_OR_OFF
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, has_cabled_nodes, is_lab, ports_here
from pytest_nfvperf.model.testbed.ovs_settings import OVS, versioned_as
from pytest_nfvperf.model.testbed.testbed import (
    TESTPMD,
    Dut,
    DutPort,
    Testbed,
    describe_nodes,
    dut_kind,
    ovs_for_dut,
)
from pytest_nfvperf.model.topology.ports import VnfKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import Generator, MakeConnects, SendRequests, StreamEngine, Vnf, VnfMaker, VnfSpec
from pytest_nfvperf.ports.machine import Profiler

PROFILERS = Point[Callable[[Journal, set[int], Sequence[Poller], Sequence[int]], Profiler]]("profiler")
"""Samplers of CPUs, by the program that samples: made from the CPUs to sample or, if there are any, the threads; and
from the CPUs for the profiler itself."""
_MOST_WITHOUT_HUGEPAGES = 5
_SHARED_NICE = -10
"""A VNF without its own CPU shares one with the generator, whose priority is higher."""


class LocalBackend(Backend):
    """Wires a testbed whose DUT is on this machine.

    Args:
        record: directory for recordings of the conversation with the generator; None: it is not recorded.
        wait_s: how long to wait, in s, while another run measures on these CPUs.
        say: receives lines for the user: which run that is, and a right that this process lacks.
        side: the generator's.
        nic_makers: makers of namespaces' interfaces, by kind.
        datapaths: third parties' makers of datapaths, by kind.
    """

    def __init__(
        self,
        testbed: Testbed,
        side: GeneratorSide,
        *,
        keep: bool = False,
        record: Path | None = None,
        wait_s: float = 0.0,
        say: Callable[[str], None] = lambda _: None,
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
        datapaths: Makers = MappingProxyType({}),
    ) -> None:
        super().__init__(testbed)
        self.side = side
        has_remote = any(node.host is not None for node in testbed.nodes)
        self.remote_nodes = NODE_HOSTS.part("ssh")(testbed) if has_remote else NodeHosts()
        self._record = record
        self._keep = keep
        self._wait_s, self._say = wait_s, say
        self.nic_makers = nic_makers
        self.datapaths = datapaths
        self._abandoned = False
        self._journal: Journal | None = None
        self._left: list[str] = []
        self._lock: MeasurementLock | None = None
        self._affinity: set[int] | None = None

    def check(self) -> None:
        check_pages()
        check_resources(self.testbed)
        check_cpu_rights(self.testbed)
        own = versioned_as(self.testbed.ovs.datapath)
        versions_of(own, self.datapaths).look_at(self.testbed.ovs.prefix)
        for version in self.testbed.ovs.versions:
            try:
                versions_of(version.datapath or own, self.datapaths).look_at(version.prefix)
            except ConfigError as error:
                raise ConfigError(error.message, key=f"ovs.{version.name}") from error
        check_node_programs(self.testbed)
        self.remote_nodes.check()
        check_dut(self.testbed)
        self.side.check()
        check_iperf3(self.testbed.streams)

    def lacks(self, dut: Dut) -> str | None:
        if dut.nodes and is_lab(self.testbed) and not has_cabled_nodes(self.testbed):
            return (
                "this testbed's cables lead to one DUT, and the topology has nodes: leave --nfv-testbed out, or write "
                "in its file which ports the nodes have"
            )
        missing = lacks_cabled(self.testbed, dut)
        if missing is not None:
            return missing
        if dut.nodes:
            return lacks_nodes(self.testbed, dut)
        return self._lacks_datapath(dut)

    def _lacks_datapath(self, dut: Dut) -> str | None:
        kind = dut_kind(self.testbed.ovs, dut)
        if unknown := why_refused(partial(ovs_for_dut, self.testbed.ovs, dut)):
            return unknown
        if ":" in kind:
            return lacks_foreign(self.datapaths, kind)
        if kind == LINUX_BRIDGE:
            return BridgeDatapath.lacks(dut)
        return lacks_testpmd(self.testbed, dut) if kind == TESTPMD else lacks(self.testbed, dut)

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        roles = lacks_roles(self.testbed.generator.engine, self.testbed, topology, dut)
        own = why_refused(partial(joined_ports, topology)) if dut_kind(self.testbed.ovs, dut) == TESTPMD else None
        return roles or self.remote_nodes.lacks(topology) or own

    @property
    def journal(self) -> Journal:
        """The run's journal; TestbedError before ``parts``."""
        if self._journal is None:
            raise TestbedError("the machine was not taken yet: call parts() first")
        return self._journal

    def lacks_streams(self) -> str | None:
        return why_refused(partial(find_iperf3, self.testbed.streams))

    def labels(self) -> dict[str, str]:
        return {**super().labels(), **self._lab_labels, **({TIME: VIRTUAL} if is_virtual() else {})}

    @cached_property
    def _lab_labels(self) -> dict[str, str]:
        """Further labels of a lab: its NICs, read once, since a run takes them from the kernel; whether it offloads."""
        offload = self.testbed.ovs.hw_offload
        return {**nic_labels(self.testbed), "offload": ON_OR_OFF[offload]} if is_lab(self.testbed) or offload else {}

    def describe(self) -> list[str]:
        cables = [f"cable:     {text}" for text in cables_text(self.testbed)]
        nodes = describe_nodes(self.testbed)
        nics = [f"nic:       {nic}" for nic in self.testbed.nics]
        return [f"DUT:       {self._describe_dut()}", *nodes, f"generator: {self.side.describe()}", *cables, *nics]

    def _describe_dut(self) -> str:
        ovs, pmd = self.testbed.ovs, self.testbed.cpus.pmd
        if ovs.instance == "system":
            return f"the system's Open vSwitch in {find_system(ovs.run_dir).directory}, datapath {ovs.datapath}"
        if versioned_as(ovs.datapath) != OVS:
            version = versions_of(ovs.datapath, self.datapaths).look_at(ovs.prefix).version
            of_dpdk = f"testpmd of DPDK {version}, forwarding {ovs.forwarding}"
            return f"{of_dpdk if ovs.datapath == TESTPMD else f'{ovs.datapath} {version}'}, on CPU {cpu_list(pmd)}"
        binaries = locate(ovs.prefix, dpdk=ovs.datapath == "dpdk")
        dpdk = f", DPDK {binaries.dpdk_version}" if binaries.dpdk_version else ""
        return f"Open vSwitch {binaries.version}{dpdk}, datapath {ovs.datapath}, PMD on CPU {cpu_list(pmd)}"

    def parts(self) -> LocalParts:
        return LocalParts(self, self._take_machine())

    @property
    def can_share(self) -> bool:
        """Whether a second DUT can be started: private, in userspace, of this package; its ports are ours to make."""
        ovs = self.testbed.ovs
        private = not is_lab(self.testbed) and "system" not in {ovs.instance, ovs.datapath} and ":" not in ovs.datapath
        return private and self.side.extra_generator_mib() is not None

    def room(self) -> int:
        return read_hugepages().rooms(*RIG_MIB) if self.testbed.hugepages_mib else _MOST_WITHOUT_HUGEPAGES

    def shared_parts(self) -> LocalParts:
        return LocalParts(self, self._take_machine(shared=True))

    def daemons(self, of: Daemons[T]) -> T:
        return of.on_machine(lambda: self.journal, self.testbed.ovs)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        return fingerprint(self.testbed, {"far_nodes": self.remote_nodes.facts})

    def fingerprint(self) -> Mapping[str, Any]:
        return self._fingerprint

    def line_rate_bps(self) -> float | None:
        rates = [*(port.line_rate_bps for port in self.testbed.ports), self.side.line_rate_bps()]
        return min((rate for rate in rates if rate), default=None)

    def estimate_search_s(self, profile: Profile) -> float:
        return estimate_search_s(profile, profile.goals)

    def leftovers(self) -> list[str]:
        return list(self._left)

    def close(self) -> None:
        try:
            self.side.close()
        finally:
            self._give_machine_back()

    def abandon(self) -> None:
        self._abandoned = True
        if self._journal is not None:
            kill_noted(self._journal)

    def _take_machine(self, *, shared: bool = False) -> ReservedMachine:
        with deferred_signals():  # a run directory that nobody knows of would be left
            journal = self._journal = open_journal(keep=self._keep)
        cpus = self.testbed.cpus
        measured = {*cpus.pmd, *cpus.generator, *cpus.vnf}
        self._lock = MeasurementLock(measured, journal.tag, shared=shared, wait_s=self._wait_s, say=self._say)
        if (lacking := lacks_priority()) is not None:
            self._say(lacking)
        reap()  # after the wait: the run that had the CPUs may have been killed, and its OVS still polls on them
        self._affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus.housekeeping)
        if self.testbed.nics:
            set_up_nics(self.testbed.nics, journal)
            check_dut(self.testbed)  # VFs that were not there before
            self.side.check()
        return ReservedMachine(journal, self.clock, self._fingerprint, self._recording_path(journal), shared)

    def _give_machine_back(self) -> None:
        if self._affinity is not None:
            with suppress(OSError):  # a container manager may have taken CPUs away meanwhile
                os.sched_setaffinity(0, self._affinity)
            self._affinity = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._journal is not None:
            try:
                if self._abandoned:
                    kill_rest(self._journal)
            finally:
                self._journal.close()
            if self._keep:
                self._left.append(f"kept {self._journal.directory}; remove it with `nfvperf clean`")
            path = self._recording_path(self._journal)
            if path is not None and path.exists():
                self._left.append(f"recorded {path}")
            self._journal = None

    def _recording_path(self, journal: Journal) -> Path | None:
        return self._record / f"{self.testbed.generator.engine}-{journal.tag}.jsonl" if self._record else None


class LocalVnfs(VnfMaker):
    def __init__(self, journal: Journal, testbed: Testbed) -> None:
        self._journal = journal
        self._testbed = testbed

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        vhost_user = all(port.device.startswith(VHOST_USER) for port in spec.ports)
        return default_vnf_kind(self._testbed, vnfs, vhost_user=vhost_user)

    def start(self, spec: VnfSpec, index: int) -> Vnf:
        for port in spec.ports:
            if not port.device.startswith(VHOST_USER):
                raise ConfigError(
                    f"VNF {spec.name!r} is of kind {spec.kind}, which needs vhost-user ports; {port.name!r} is "
                    f'{port.device.partition(",")[0] or "cabled"}: use Dut("dpdk"), or kind="loop"'
                )
        cpus = self._testbed.cpus
        own = cpus.vnf[index % len(cpus.vnf)] if cpus.vnf else None
        if spec.kind is VnfKind.QEMU:
            # The guest's second CPU forwards, and its first one does the rest; so do the first two of these.
            every = (*((own,) if own is not None else ()), *cpus.housekeeping)
            return GuestVnf(self._journal, spec, tuple(dict.fromkeys(every)))
        hugepages = self._testbed.hugepages_mib > 0
        # The housekeeping CPU is slow, but works.
        cpu, nice = (cpus.housekeeping[0], _SHARED_NICE) if own is None else (own, None)
        return TestpmdVnf(self._journal, spec, cpu, cpus.housekeeping, hugepages=hugepages, nice=nice)


class LocalParts(RigParts):
    """The parts of a rig on this machine. ``process``: how a private vswitchd runs."""

    ledger = staticmethod(trial_ledger)
    watch_path = staticmethod(watch_datagrams)
    make_cpu_accounting = staticmethod(cpu_accountant)

    def __init__(self, backend: LocalBackend, machine: ReservedMachine, name: str = "") -> None:
        """``name``: suffix of a companion; "" for the run's own rig."""
        self._backend, self._machine, self._name = backend, machine, name
        self._testbed, self._side, journal = backend.testbed, backend.side, machine.journal
        self.ceilings = self._side.ceilings(machine)
        if machine.recording and self.ceilings:  # a replay asks for the same loads only below the same ceiling
            self.ceilings = RecordedCeilings(self.ceilings, machine.recording)
        self.pmd_cpus = len(self._testbed.cpus.pmd)
        self.polling_cpus = self._side.polling_cpus()
        self.round_trips = self._side.round_trips(machine)
        self.vnfs = LocalVnfs(journal, self._testbed)
        self.companions = backend.can_share and not name
        self.process = Vswitchd(counted=is_virtual(), preferred=not machine.shared)

    def make_datapath(self, dut: Dut) -> Datapath:
        journal, name, kind = self._machine.journal, f"ovs{self._name}", dut_kind(self._testbed.ovs, dut)
        if dut.kind == LINUX_BRIDGE:
            return BridgeDatapath(journal, dut)
        makers = self._backend.nic_makers
        if dut.nodes:
            return NodesDatapath.start(
                self._testbed,
                journal,
                dut,
                name=name,
                nic_makers=makers,
                hosts=self._backend.remote_nodes,
                counted=self.process.counted,
            )
        if kind == TESTPMD:
            name = f"{TESTPMD}{self._name}"
            return TestpmdDatapath(self._testbed, journal, dut, name=name, preferred=self.process.preferred)
        maker = self._backend.datapaths.get(kind)
        if maker is not None:
            prefix = ovs_for_dut(self._testbed.ovs, dut).prefix
            return maker.start(Workshop(journal, self._testbed.cpus, name, prefix))
        return OvsDatapath.start(self._testbed, journal, dut, name=name, nic_makers=makers, process=self.process)

    def make_generator(self) -> Generator:
        return self._side.make(self._machine, self._name)

    def make_streams(self) -> StreamEngine:
        return Iperf3Engine(self._machine.journal, self._testbed.streams)

    def make_requests(self) -> SendRequests:
        return SockperfEngine(self._machine.journal).run

    def make_connects(self) -> MakeConnects:
        return Iperf2Engine(self._machine.journal).run

    def make_profiler(self, pollers: Sequence[Poller] = ()) -> Profiler:
        cpus = self._testbed.cpus
        sampled = {*cpus.pmd, *cpus.housekeeping}
        return PROFILERS.part("perf")(self._machine.journal, sampled, pollers, cpus.housekeeping)

    def check_cabling(self, datapath: Datapath, generator: Generator) -> None:
        if is_lab(self._testbed):
            check_cabling(self._testbed, datapath, generator)

    def beside(self, name: str) -> RigParts:
        return LocalParts(self._backend, self._machine, f"-{name}")

    def room_for_companions(self) -> int:
        """Limited by free hugepages. Without hugepages the limit of the memory is unknown."""
        generator_mib = self._side.extra_generator_mib()
        if generator_mib is None:
            return 0
        return read_hugepages().rooms(MEMORY_MIB, generator_mib) if generator_mib else _MOST_WITHOUT_HUGEPAGES


# What only a lab has: cables, the system's OVS, interfaces that are there.


def check_dut(testbed: Testbed) -> None:
    """Check that the DUT's parts in the testbed file exist, before anything is touched.

    Raises:
        ConfigError: an interface or a PCI device does not exist, is in use, or is not as DPDK needs it.
        TestbedError: the system's OVS does not run.
    """
    if testbed.ovs.instance == "system":
        find_system(testbed.ovs.run_dir)
    check_nics(testbed.nics)
    here = ports_here(testbed)
    for number, port in enumerate(testbed.ports):
        if port in here and port.interface is not None:
            check_free(port.interface, f"port {port.name!r}", f"dut.ports[{number}].interface")
        if port in here and port.pci is not None:
            check_dpdk_device(port.pci, f"port {port.name!r}", f"dut.ports[{number}].pci", testbed.nics)


def cables_text(testbed: Testbed) -> list[str]:
    """Every cable of a generator's port, for the header; none where ports are made as needed."""

    def member(port: DutPort) -> str:
        name = port.pci or port.interface or port.name
        return name if port.representor is None else f"{name} representor {port.representor}"

    return [
        f"generator.{end.generator_port} ({(end.device or 'by number').removeprefix('net_af_packet,iface=')}) - "
        f"{end.name} ({', '.join(map(member, end.members))})"
        for end in cabled_ends(testbed)
        if end.generator_port is not None
    ]


def lacks_cabled(testbed: Testbed, dut: Dut) -> str | None:
    """Why a topology with these nodes cannot be on a testbed with cables; None where it can, or there are no cables."""
    if not has_cabled_nodes(testbed):
        return None
    names = [node.name for node in testbed.nodes]
    if not dut.nodes:
        return f"the ports of this testbed are on its nodes, {', '.join(names)}: deploy a topology with these nodes"
    missing = next((name for name in names if name not in dut.nodes), None)
    return missing and f"the testbed file has node {missing!r}, and the topology has not: leave it out of 'nodes'"
