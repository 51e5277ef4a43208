"""A private or the system's OVS as a ports.Datapath."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import read_cpus
from pytest_nfvperf.adapters.host.hugepages import ENOUGH_MIB, LEAST_MIB, read_hugepages
from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.host.polling_threads import PollingThreads
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces
from pytest_nfvperf.adapters.net.interface_counters import LinkCollector
from pytest_nfvperf.adapters.ovs.built_topology import BuiltNode, BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.controller import OwnController
from pytest_nfvperf.adapters.ovs.counters import KernelCollector, OvsCollector
from pytest_nfvperf.adapters.ovs.installation import MIN_MEMORY_MIB, OvsBinaries, dpdk_memory, lacks, locate
from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS, NO_UPLINKS, NicMaker, Uplinks
from pytest_nfvperf.adapters.ovs.ports import PortMaker
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions, OvsInstance, RunningOvs, Vswitchd
from pytest_nfvperf.adapters.ovs.sampler import OvsSampler
from pytest_nfvperf.adapters.ovs.system_ovs import SystemOvs, find_system, installation_facts
from pytest_nfvperf.adapters.ovs.upgrade import ovs_save, restart_as_ovs_ctl
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.outage import LogLine
from pytest_nfvperf.model.testbed.lab_cables import topology_cables
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut, Testbed, ovs_for_dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Collector, Datapath, Operation, Sampler

_FAILED_OPEN, _FAILS_OPEN_S = "failing open", 20.0
"""vswitchd says so when a bridge goes on without a controller (ofproto/fail-open.c), which takes it 3 s."""

_COUNTED_SLEEP_US = 500
"""The longest sleep of an idle PMD while instructions are counted, which runs everything on one CPU."""


class NodeOvs(Datapath):
    """The OVS of one node: an OvsDatapath on this machine; on another one a proxy that asks over ssh."""

    @abstractmethod
    def build(self, topology: Topology, uplinks: Uplinks = NO_UPLINKS) -> BuiltNode:
        """``uplinks``: where the underlays of a node's topology lead."""


class OvsDatapath(NodeOvs):
    """An OVS on which topologies are built: a private one, or the system's."""

    def __init__(
        self,
        instance: RunningOvs,
        testbed: Testbed,
        journal: Journal,
        info: DatapathInfo,
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
        asked: tuple[Testbed, Dut] | None = None,
    ) -> None:
        """``asked``: the testbed and the Dut that it was started for."""
        self.instance = instance
        self._asked = asked or (testbed, TESTBED_DUT)
        self._testbed = testbed
        self._journal = journal
        self._info = info
        self._nic_makers = nic_makers
        self._built: list[BuiltOvsTopology] = []
        self._borrowed = BorrowedInterfaces(journal)
        self._controller = OwnController(instance)
        self.collector = OvsCollector(instance, self._live_topologies)

    @staticmethod
    def start(
        testbed: Testbed,
        journal: Journal,
        dut: Dut = TESTBED_DUT,
        *,
        name: str = "ovs",
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
        process: Vswitchd | None = None,
    ) -> OvsDatapath:
        """Start the testbed's OVS, or the one that ``dut`` asks for.

        A discovered testbed whose machine cannot run DPDK gets the userspace datapath without it;
        ``info().detail`` gives the reason. A testbed file that asks for DPDK gets an error.

        ``name``: two OVS of one run need two names. ``process``: how a private vswitchd runs; None for the default.

        Raises:
            ConfigError: a prefix without OVS, or a datapath that this project does not have.
            UnavailableError: the testbed has no version of the name that the dut asks for.
            TestbedError: OVS is missing, or did not start.
        """
        asked, testbed = (testbed, dut), _testbed_of(testbed, dut)
        spec = testbed.ovs
        if spec.instance == "system":
            return _system(testbed, journal, dut, name, nic_makers)
        # Report what is missing before starting something that would wait for it.
        missing = lacks(testbed, dut) if dut != TESTBED_DUT or spec.datapath not in {"dpdk", "netdev"} else None
        if missing is not None:
            if dut == TESTBED_DUT:
                raise ConfigError(f"{spec.datapath!r} is not possible here: {missing}", key="dut.ovs.datapath")
            raise TestbedError(f"the {spec.datapath!r} datapath is not possible here: {missing}")
        # Userspace TSO is compiled in with DPDK only, also for the datapath without it.
        binaries = locate(spec.prefix, dpdk=spec.datapath == "dpdk" or dut.userspace_tso)
        memory, reason = dpdk_memory(binaries) if spec.datapath == "dpdk" else (0, _why_netdev(testbed))
        if spec.datapath == "dpdk" and not memory and not testbed.discovered:
            raise TestbedError(f"the testbed asks for the DPDK datapath: {reason}")
        if process is not None and process.counted and memory:
            sleeping = Tuning(pmd_sleep_max_us=_COUNTED_SLEEP_US)
            if not sleeping.unknown_to(binaries.major_minor):
                dut = replace(dut, tuning=sleeping.over(dut.tuning))
            memory = MIN_MEMORY_MIB  # clearing more than needed takes long on an emulated CPU
        options = _options(testbed, dut, binaries, dpdk=memory > 0, memory_mib=memory)
        instance = OvsInstance(journal, binaries, replace(options, process=process or Vswitchd()), name)
        try:
            kind, detail = _describe(binaries, options, reason, cabled=bool(testbed.ports))
            cores = len(options.pmd_cpus) if spec.datapath != "system" else 0
            info = DatapathInfo(kind, detail=detail, cores=cores, **installation_facts(spec, instance))
        except BaseException:
            instance.close()
            raise
        return OvsDatapath(instance, testbed, journal, info, nic_makers, asked)

    def info(self) -> DatapathInfo:
        return self._info

    def build(self, topology: Topology, uplinks: Uplinks = NO_UPLINKS) -> BuiltOvsTopology:
        self.instance.check_alive()
        self.instance.pin_main_thread(self._main_thread_cpus(topology, uplinks))
        cabled = {**topology_cables(self._testbed, topology), **uplinks.cabled}
        port_maker = PortMaker(self._journal, self.instance, cabled, self._borrowed, uplinks, self._nic_makers)
        built = BuiltOvsTopology(self.instance, port_maker, topology)
        self._built.append(built)
        return built

    def _main_thread_cpus(self, topology: Topology, uplinks: Uplinks) -> tuple[int, ...]:
        """The CPUs for the main thread; empty for those on which it starts.

        The main thread reads and writes the datapath's veth ends, as a PMD does with its ports. If a generator polls
        on the housekeeping CPU, both slow each other at any load (the generator missed half of its frames), so this
        work of the DUT goes to the DUT's CPU. Interfaces of namespaces next to generator ports carry only a routing
        daemon's few frames, so for them the thread stays on the housekeeping CPU. On the PMD's CPU it preempts the
        PMD, waits in rte_vhost_vring_stats_get() for a lock that the PMD holds, and both stand still until the next
        tick: seen by perf, 10 to 20 ms at each reading of counters, which lost 0.2 % of 2 Mpps.
        """
        cpus = self._testbed.cpus
        has_veth = any(not end.ring for end in uplinks.ends.values())
        reads = self.instance.owned and self.instance.options.dpdk and (topology.veths or has_veth)
        return cpus.pmd if reads and topology.ports and self.instance.options.beside_generator else ()

    def collectors(self) -> tuple[Collector, ...]:
        """The sources "ovs" (ports, PMDs, coverage), "pmd-sched", "links" (losses of link) and "kernel"."""
        losses = LinkCollector(
            lambda: [built.losses() for built in self._live_topologies()],
            lambda: [built.link_watch for built in self._live_topologies() if built.link_watch is not None],
        )
        kernel = KernelCollector(self.instance.home.path, self._live_topologies)
        return (self.collector, PollingThreads(lambda: self.instance.pid), losses, kernel)

    def samplers(self) -> tuple[Sampler, ...]:
        # OVS answers both on its main thread, not on a PMD's.
        return (OvsSampler(self.instance, self.collector), PollingThreads(lambda: self.instance.pid))

    def _live_topologies(self) -> list[BuiltOvsTopology]:
        self._built = [built for built in self._built if not built.closed]
        return self._built

    def remove_topologies(self) -> None:
        for built in reversed(self._live_topologies()):
            built.close()

    def freeze(self) -> bool:
        """Stop a private vswitchd with its PMDs; the system's OVS keeps running."""
        if isinstance(self.instance, OvsInstance):
            self.instance.freeze()
        return self.instance.owned

    def thaw(self) -> None:
        self.instance.thaw()

    def restart(self, *, killed: bool = False) -> None:
        """Restart vswitchd, and restore what the database does not keep of its bridges.

        ``killed``: by SIGKILL, as in a crash; otherwise OVS is asked to exit. UnavailableError for the system's OVS.
        """
        instance = self._own()
        instance.stop_vswitchd(killed=killed)
        instance.start_vswitchd()
        self._serve(flows=True)

    def operation(self, name: str, **details: str) -> Operation:
        prepare: Mapping[str, Callable[..., Operation]] = {
            "restart": self._prepare_restart,
            "kill": lambda _: Operation(partial(self.restart, killed=True)),
            "upgrade": self._prepare_upgrade,
            "restart the database of": lambda instance: Operation(instance.restart_database),
            "give a controller to": lambda _, **more: Operation(partial(self._attach_controller, **more)),
            "take the controller from": self._prepare_loss,
        }
        if name in prepare:
            return prepare[name](self._own(), **details)
        return super().operation(name, **details)

    def _own(self) -> OvsInstance:
        if not isinstance(self.instance, OvsInstance):
            raise UnavailableError("the system's OVS is not restarted: write 'instance: private' for one of the run's")
        return self.instance

    def _prepare_restart(self, instance: OvsInstance, flows: str) -> Operation:
        if flows == "lost":
            return Operation(self.restart)
        ovs_save(instance.binaries)
        return Operation(partial(restart_as_ovs_ctl, instance, self._serve), partial(self._serve, flows=True))

    def _prepare_upgrade(self, instance: OvsInstance, to: str) -> Operation:
        testbed, dut = self._asked
        dut = replace(dut, version=to)
        testbed = _testbed_of(testbed, dut)
        binaries = locate(testbed.ovs.prefix, dpdk=testbed.ovs.datapath == "dpdk" or dut.userspace_tso)
        now = instance.options
        if now.dpdk and binaries.dpdk_version is None:
            raise UnavailableError(f"version {to!r} of OVS was built without DPDK, with which the DUT runs")
        options = _options(testbed, dut, binaries, dpdk=now.dpdk, memory_mib=now.memory_mib)
        for each in (instance.binaries, binaries):
            ovs_save(each)
        former = self._testbed, instance.binaries, now

        def undo() -> None:
            self._change_version(instance, *former)
            self._serve(flows=True)

        return Operation(
            partial(self._change_version, instance, testbed, binaries, replace(options, process=now.process)), undo
        )

    def _change_version(
        self, instance: OvsInstance, testbed: Testbed, binaries: OvsBinaries, options: InstanceOptions
    ) -> None:
        detail = self._info.detail.replace(str(instance.binaries.vswitchd), str(binaries.vswitchd))
        self._testbed = testbed
        restart_as_ovs_ctl(instance, self._serve, partial(instance.use, binaries, options))
        self.collector.forget_version()
        self._info = replace(self._info, detail=detail, **installation_facts(testbed.ovs, instance))

    def _attach_controller(self, fail_mode: str) -> None:
        """Give all bridges a controller of the run's, and the flows that OVS removes for it."""
        bridges = [name for built in self._live_topologies() for name in built.topology.bridges]
        self._controller.attach(bridges, fail_mode)
        self._serve(flows=True)

    def _prepare_loss(self, instance: OvsInstance, fail_mode: str) -> Operation:
        self._attach_controller(fail_mode)

        def lose() -> None:
            log, awaited = instance.log_text, f"OVS to log {_FAILED_OPEN!r}"
            before = log().count(_FAILED_OPEN)
            self._controller.lose()
            instance.note("the controller is lost")
            if fail_mode == "standalone":
                wait_until(lambda: log().count(_FAILED_OPEN) > before, awaited, _FAILS_OPEN_S, interval_s=0.1)

        return Operation(lose, partial(self._attach_controller, fail_mode))

    def _serve(self, *, flows: bool = False) -> None:
        for built in self._live_topologies():
            self.instance.pin_main_thread(self._main_thread_cpus(built.topology, NO_UPLINKS))  # nodes do not restart
            built.restarted(flows=flows)

    def log_since(self, ns: int) -> Sequence[LogLine]:
        return self.instance.log_since(ns) if isinstance(self.instance, OvsInstance) else ()

    def processes(self) -> Mapping[int, CpuRole]:
        return {self.instance.pid: CpuRole.VSWITCHD}

    def check_alive(self) -> None:
        self.instance.check_alive()
        for built in self._live_topologies():
            built.check()

    def logs(self) -> Mapping[str, str]:
        return self.instance.logs()

    def close(self) -> None:
        try:
            self.remove_topologies()
        finally:
            self._controller.lose()
            try:
                self._borrowed.close()  # a namespace would take a borrowed veth end with it when it is removed
            finally:
                self.instance.close(keep_namespace=bool(self._borrowed.held))


def _options(testbed: Testbed, dut: Dut, binaries: OvsBinaries, *, dpdk: bool, memory_mib: int = 0) -> InstanceOptions:
    spec, pmd_cpus = testbed.ovs, testbed.cpus.pmd
    tuning = dut.tuning.over(spec.tuning)
    try:
        of_tuning = tuning.config(binaries.major_minor)
    except ValueError as error:
        raise ConfigError(str(error), key="dut.ovs.tuning") from error
    # ovs-vswitchd.conf.db(5)
    offload = {"hw-offload": "true"} if spec.hw_offload else {}
    policy = {"tc-policy": spec.tc_policy} if spec.tc_policy is not None else {}
    return InstanceOptions(
        housekeeping_cpus=testbed.cpus.housekeeping,
        pmd_cpus=pmd_cpus,
        dpdk=dpdk,
        memory_mib=memory_mib,
        datapath_type="system" if spec.datapath == "system" else "netdev",
        userspace_tso=dut.userspace_tso,
        numa_node=read_cpus(pmd_cpus[:1])[0].node if pmd_cpus else 0,
        pci=tuple(pci_address(port.pci) for port in testbed.ports if port.kind == "pci" and port.pci),
        other_config={**dict(spec.other_config), **offload, **policy, **of_tuning},
        tuning=tuning,
        beside_generator=bool(set(testbed.cpus.housekeeping) & set(testbed.cpus.generator)),
    )


def _testbed_of(testbed: Testbed, dut: Dut) -> Testbed:
    """The testbed with the OVS that a Dut names."""
    spec = ovs_for_dut(testbed.ovs, dut)
    return replace(testbed, ovs=replace(spec, datapath=dut.kind or spec.datapath))


def _system(testbed: Testbed, journal: Journal, dut: Dut, name: str, nic_makers: Mapping[str, NicMaker]) -> OvsDatapath:
    spec = testbed.ovs
    if dut.userspace_tso:
        raise TestbedError("OVS reads userspace TSO at its start, and nfvperf does not restart the system's OVS")
    dpdk = spec.datapath == "dpdk"
    binaries = locate(spec.prefix, dpdk=dpdk)
    options = _options(testbed, dut, binaries, dpdk=dpdk)
    if testbed.cpus.pmd and dpdk:
        mask = {"pmd-cpu-mask": hex(sum(1 << cpu for cpu in testbed.cpus.pmd))}
        options = replace(options, other_config=mask | dict(options.other_config))
    sockets = find_system(spec.run_dir)
    ofctl = binaries.command(binaries.ofctl, sockets.directory)
    instance = SystemOvs(journal, sockets, options, ofctl=ofctl, name=name)
    info = DatapathInfo(
        spec.datapath,
        instance.version,
        instance.dpdk_version if options.dpdk else None,
        f"the system's OVS in {instance.sockets}, pid {instance.pid}; our bridges are marked nfvperf={journal.tag}",
        installation=str(Path(f"/proc/{instance.pid}/exe").resolve()),
        origin="system",
    )
    return OvsDatapath(instance, testbed, journal, info, nic_makers)


def _why_netdev(testbed: Testbed) -> str:
    pages = read_hugepages().idle()
    if not testbed.discovered or pages.rooms(*LEAST_MIB):
        return "as the testbed asks"
    return f"{pages.total_mib} MiB of hugepages reserved{pages.in_pages}: {pages.advice(*ENOUGH_MIB)}"


def _describe(binaries: OvsBinaries, options: InstanceOptions, reason: str, *, cabled: bool) -> tuple[str, str]:
    """The kind of datapath, and how it runs. ``reason``: why it has no DPDK. ``cabled``: the ports are a lab's."""
    ports = "ports are the lab's interfaces" if cabled else "ports are veth pairs"
    source = f"private instance of {binaries.vswitchd}"
    pmds = ",".join(map(str, options.pmd_cpus))
    if options.dpdk:
        return "dpdk", f"{source}; DPDK, PMD on CPU {pmds}, {options.memory_mib} MiB of hugepages"
    if options.datapath_type == "system":
        return "system", f"{source}; datapath of kernel {os.uname().release}, {ports}"
    polled = f"userspace datapath without DPDK ({reason}), polled on CPU {pmds}, {ports}"
    return "netdev", f"{source}; {polled}"
