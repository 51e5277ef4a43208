"""OVS as a ports.Datapath."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from pytest_nfvperf.adapters.host.cpus import MIN_HUGEPAGES_MIB, read_cpus
from pytest_nfvperf.adapters.net.journal import Journal
from pytest_nfvperf.adapters.net.link_collector import LinkCollector
from pytest_nfvperf.adapters.ovs.collectors import OvsCollector, PmdSchedCollector
from pytest_nfvperf.adapters.ovs.instance import InstanceOptions, OvsInstance
from pytest_nfvperf.adapters.ovs.kernel_counters import OURS, KernelCollector
from pytest_nfvperf.adapters.ovs.locate import OvsBinaries, locate
from pytest_nfvperf.adapters.ovs.possible import DATAPATHS, dpdk_memory, lacks
from pytest_nfvperf.adapters.ovs.sampler import OvsSampler, PmdSampler
from pytest_nfvperf.adapters.ovs.topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.wiring import Wiring
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed import TESTBEDS_OWN, Dut, DutPort, Testbed
from pytest_nfvperf.model.topology import PortRole, Topology
from pytest_nfvperf.ports.collector import Collector
from pytest_nfvperf.ports.datapath import DatapathInfo
from pytest_nfvperf.ports.sampler import Sampler


class OvsDatapath:
    """A private OVS on which topologies are built."""

    def __init__(self, instance: OvsInstance, testbed: Testbed, journal: Journal, info: DatapathInfo) -> None:
        """Use ``start``."""
        self.instance = instance
        self._testbed = testbed
        self._journal = journal
        self._info = info
        self._built: list[BuiltOvsTopology] = []
        self._collector = OvsCollector(instance, self._live_topologies)

    @staticmethod
    def lacks(testbed: Testbed, dut: Dut) -> str | None:
        """What this machine lacks for this datapath, and what to do about it; None when it has all."""
        return lacks(testbed, dut)

    @staticmethod
    def start(testbed: Testbed, journal: Journal, dut: Dut = TESTBEDS_OWN, *, name: str = "ovs") -> OvsDatapath:
        """Start the testbed's OVS.

        A discovered testbed whose machine cannot do DPDK gets the userspace datapath without it, and
        ``info().detail`` says why; a testbed file that asks for DPDK gets an error.

        Args:
            testbed: what to start, and on which CPUs.
            dut: another datapath than the testbed's own.
            journal: of this run.
            name: of the instance; two in one run need two.

        Raises:
            ConfigError: a prefix without OVS, or a datapath that this project does not have.
            TestbedError: OVS is missing, or did not start.
        """
        if dut.kind is not None:
            testbed = replace(testbed, ovs=replace(testbed.ovs, datapath=dut.kind))
        spec = testbed.ovs
        _check_spec(testbed)
        _check_lacks(testbed, dut)
        # Userspace TSO is compiled in with DPDK only, also for the datapath without it.
        binaries = locate(spec.prefix, dpdk=spec.datapath == "dpdk" or dut.userspace_tso)
        memory, reason = dpdk_memory(binaries) if spec.datapath == "dpdk" else (0, _why_netdev(testbed))
        if spec.datapath == "dpdk" and not memory and not testbed.discovered:
            raise TestbedError(f"the testbed asks for the DPDK datapath: {reason}")
        options = InstanceOptions(
            housekeeping_cpus=testbed.cpus.housekeeping,
            pmd_cpus=testbed.cpus.pmd,
            dpdk=memory > 0,
            memory_mib=memory,
            datapath_type="system" if spec.datapath == "system" else "netdev",
            userspace_tso=dut.userspace_tso,
            numa_node=_node_of(testbed.cpus.pmd),
            pci=tuple(port.pci for port in testbed.ports if port.kind == "pci" and port.pci),
            other_config=dict(spec.other_config),
        )
        instance = OvsInstance(journal, binaries, options, name)
        return OvsDatapath(instance, testbed, journal, _describe(binaries, options, reason))

    def info(self) -> DatapathInfo:
        """Kind, versions, and why it is not DPDK when it is not."""
        return self._info

    def build(self, topology: Topology) -> BuiltOvsTopology:
        """Build in one transaction. Does not wait for links: the generator attaches in between."""
        self.instance.check_alive()
        self.instance.place_main_thread(self._main_thread_cpus(topology))
        wiring = Wiring(self._journal, self.instance, _physical_ports(self._testbed, topology))
        built = BuiltOvsTopology(self.instance, wiring, topology)
        self._built.append(built)
        return built

    def _main_thread_cpus(self, topology: Topology) -> tuple[int, ...]:
        """Where the main thread belongs; empty: where it is by default.

        It reads and writes the datapath's veth ends, as a PMD does its ports. Where a generator polls on the
        housekeeping CPU, both would take from each other at any load (the generator missed half of its frames): what
        the DUT does belongs on the DUT's CPU.
        """
        cpus = self._testbed.cpus
        reads = self.instance.options.dpdk and (topology.veths or topology.nics)
        shared = set(cpus.housekeeping) & set(cpus.generator)
        return cpus.pmd if reads and topology.ports and shared else ()

    def collectors(self) -> tuple[Collector, ...]:
        """The DUT's counters by source.

        "ovs": ports, PMDs, coverage. "pmd-sched": how PMDs were scheduled. "links": losses of link. "kernel":
        veth pairs and namespaces' interfaces.
        """
        losses = LinkCollector(lambda: [built.losses() for built in self._live_topologies()])
        home = self.instance.namespace.path if self.instance.namespace else OURS
        kernel = KernelCollector(home, self._live_topologies)
        return (self._collector, PmdSchedCollector(self.instance.vswitchd.pid), losses, kernel)

    def samplers(self) -> tuple[Sampler, ...]:
        """What of the DUT is sampled while a trial runs. OVS answers them on its main thread, not on a PMD's."""
        return (
            OvsSampler(self.instance, self._collector, self._live_topologies),
            PmdSampler(PmdSchedCollector(self.instance.vswitchd.pid)),
        )

    @property
    def collector(self) -> OvsCollector:
        """The counters that the ledger is made from, of all topologies that stand."""
        return self._collector

    def _live_topologies(self) -> list[BuiltOvsTopology]:
        self._built = [built for built in self._built if not built.closed]
        return self._built

    def remove_topologies(self) -> None:
        """Close every topology that still stands, the newest first."""
        for built in reversed(self._live_topologies()):
            built.close()

    def check_alive(self) -> None:
        """TestbedError when a daemon died, with the end of its log, or that names a namespace or link that went."""
        self.instance.check_alive()
        for built in self._live_topologies():
            built.check()

    def logs(self) -> Mapping[str, str]:
        """The ends of the daemons' logs."""
        return self.instance.logs()

    def close(self) -> None:
        """Stop OVS and remove all that it made. Can be called twice."""
        try:
            self.remove_topologies()
        finally:
            self.instance.close()


def _check_spec(testbed: Testbed) -> None:
    spec = testbed.ovs
    if spec.instance != "private":
        raise ConfigError(
            f'{spec.instance!r} is not possible yet: write "private" (an OVS of our own, by prefix or package)',
            key="dut.ovs.instance",
        )
    if spec.datapath not in DATAPATHS:
        raise ConfigError(
            f"{spec.datapath!r} is not possible on a private instance: write one of {', '.join(DATAPATHS)}",
            key="dut.ovs.datapath",
        )


def _check_lacks(testbed: Testbed, dut: Dut) -> None:
    """Say what is missing before something is started that would wait for it."""
    kind = testbed.ovs.datapath
    missing = lacks(testbed, dut) if dut != TESTBEDS_OWN or kind == "system" else None
    if missing is not None and dut == TESTBEDS_OWN:
        raise ConfigError(f"{kind!r} is not possible here: {missing}", key="dut.ovs.datapath")
    if missing is not None:
        raise TestbedError(f"the {kind!r} datapath is not possible here: {missing}")


def _why_netdev(testbed: Testbed) -> str:
    if not testbed.discovered or testbed.hugepages_mib >= MIN_HUGEPAGES_MIB:
        return "as the testbed asks"
    return f"{testbed.hugepages_mib} MiB of hugepages reserved: sysctl -w vm.nr_hugepages=1024"


def _node_of(cpus: tuple[int, ...]) -> int:
    return read_cpus(cpus[:1])[0].node if cpus else 0


def _describe(binaries: OvsBinaries, options: InstanceOptions, reason: str) -> DatapathInfo:
    source = f"private instance of {binaries.vswitchd}"
    pmds = ",".join(map(str, options.pmd_cpus))
    if options.dpdk:
        detail = f"{source}; DPDK, PMD on CPU {pmds}, {options.memory_mib} MiB of hugepages"
        return DatapathInfo("dpdk", binaries.version, binaries.dpdk_version, detail)
    if options.datapath_type == "system":
        release = os.uname().release
        return DatapathInfo(
            "system", binaries.version, None, f"{source}; datapath of kernel {release}, ports are veth pairs"
        )
    detail = f"{source}; userspace datapath without DPDK ({reason}), polled on CPU {pmds}, ports are veth pairs"
    return DatapathInfo("netdev", binaries.version, None, detail)


def _physical_ports(testbed: Testbed, topology: Topology) -> dict[str, DutPort]:
    """The testbed's cabled ports by the names of the topology's endpoints: by name, else in order."""
    cabled = [port for port in testbed.ports if port.kind != "vhost-user"]
    endpoints = [port.name for port in topology.ports if port.role is PortRole.ENDPOINT]
    by_name = {port.name: port for port in cabled if port.name in endpoints}
    if not cabled or len(by_name) == len(endpoints):
        return by_name
    if len(endpoints) > len(cabled):
        raise ConfigError(
            f"topology {topology.name!r} has {len(endpoints)} endpoints, testbed {testbed.name!r} has "
            f"{len(cabled)} cabled ports",
            key="dut.ports",
        )
    return dict(zip(endpoints, cabled, strict=False))
