"""Several private OVS as one ports.Datapath: each is a node, and underlays join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pytest_nfvperf.adapters.host.hugepages import RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovs.counters.node_collectors import (
    NodesSched,
    Sched,
    SharedCpuSched,
    node_collector,
    of_node,
)
from pytest_nfvperf.adapters.ovs.instance.datapath_support import DATAPATHS, MEMORY_MIB
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.instance.private_ovs import Vswitchd
from pytest_nfvperf.adapters.ovs.node_ovs import FarStarter, NodeOvs
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.topology.built_node import BuiltNode
from pytest_nfvperf.adapters.ovs.topology.built_nodes import BuiltNodes
from pytest_nfvperf.adapters.ovs.topology.nic_makers import NIC_MAKERS, NicMaker
from pytest_nfvperf.adapters.ovs.topology.uplinks import UplinkEnd, Uplinks
from pytest_nfvperf.adapters.process.wakeups import ShortTurns
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.near import listed
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd, bed_of_node, has_cabled_nodes, underlay_end
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import (
    TESTBEDS_OWN,
    DatapathInfo,
    Dut,
    NodeCpus,
    Testbed,
    dut_of_node,
    node_cpus,
    node_spec,
    ovs_of,
    unknown_node,
)
from pytest_nfvperf.model.topology.links import LinkEnd, Underlay, link_ends
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge, standing_on
from pytest_nfvperf.ports.datapath import Collector

SHARED_SLEEP_US = 20
"""How long PMDs of nodes that share a CPU may sleep while no frames come. A PMD that never sleeps keeps the CPU until
the kernel takes it away, 3 to 4 ms later, and the other node's rings overflow meanwhile."""


class NodesDatapath:
    """A DUT of several nodes."""

    def __init__(self, nodes: Mapping[str, NodeOvs], cpus: NodeCpus, testbed: Testbed, turns: ShortTurns) -> None:
        """Use ``start``."""
        self._nodes = dict(nodes)
        self._cpus = cpus
        self._turns = turns
        self._testbed = testbed
        self._built: BuiltNodes | None = None

    @staticmethod
    def lacks(testbed: Testbed, dut: Dut) -> str | None:
        if testbed.ovs.instance == "system":
            return "nodes are private OVS, and this testbed's is the system's: use dut.ovs.instance: private"
        unknown = unknown_node(testbed, dut)
        each = (_lacks(testbed, dut_of_node(testbed, dut, node), node) for node in dut.nodes)
        return unknown or next(filter(None, each), None)

    @staticmethod
    def start(
        testbed: Testbed,
        journal: Journal,
        dut: Dut,
        *,
        name: str = "ovs",
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
        start_far: FarStarter | None = None,
        counted: bool = False,
    ) -> NodesDatapath:
        """Start an OVS for each node of ``dut.nodes``, on CPUs of its own where there are enough.

        ``nic_makers``: of namespaces' interfaces, by kind. ``start_far``: for nodes on other machines.
        ``counted``: the instructions of those here are, and shall repeat.

        Raises:
            TestbedError: one did not start; those that did are stopped.
        """
        missing = NodesDatapath.lacks(testbed, dut)
        if missing is not None:
            raise TestbedError(missing)
        cpus = cpus_here(testbed, dut.nodes)
        started: dict[str, NodeOvs] = {}
        try:
            for node in dut.nodes:
                spec, bed = node_spec(testbed, node), bed_of_node(testbed, node)
                own = dut_of_node(testbed, dut, node)
                if spec.host is not None and start_far is not None:
                    started[node] = start_far(spec, bed, own, f"{name}-{node}")
                    continue
                started[node] = OvsDatapath.start(
                    replace(bed, cpus=replace(bed.cpus, pmd=cpus.of(node))),
                    journal,
                    _settled(testbed, own, cpus),
                    name=f"{name}-{node}",
                    nic_makers=nic_makers,
                    process=Vswitchd(shares_memory=not has_cabled_nodes(testbed), counted=counted),
                )
            wanted = {node: dut_of_node(testbed, dut, node).kind or testbed.ovs.datapath for node in started}
            check_alike(started, wanted)
            # Where instructions are counted, nothing is lost by a long turn: a burst waits for the one before.
            polling = not counted and cpus.shared and all(one.info().kind == "dpdk" for one in started.values())
            turns = ShortTurns(journal, cpus.pmd[0][1] if polling else (), name)
        except BaseException:
            for datapath in started.values():
                with suppress(TestbedError):  # why it did not start counts more
                    datapath.close()
            raise
        return NodesDatapath(started, cpus, testbed, turns)

    def processes(self) -> Mapping[int, CpuRole]:
        return {pid: role for node in self._nodes.values() for pid, role in node.processes().items()}

    def info(self) -> DatapathInfo:
        """Kinds and versions, once where the nodes are alike, and the CPUs of the nodes."""
        found = joint_info({node: datapath.info() for node, datapath in self._nodes.items()}, self._cpus)
        return replace(found, short_turns=self._turns.taken)

    def node(self, name: str) -> OvsDatapath:
        """The OVS of a node; KeyError for an unknown one, or one on another machine."""
        found = self._nodes[name]
        if not isinstance(found, OvsDatapath):
            raise KeyError(f"node {name!r} is on another machine")
        return found

    def build(self, topology: Topology) -> BuiltNodes:
        """Build each node's part on its OVS. Does not wait for links: the generator attaches in between."""
        at = node_of_bridge(topology)
        built: dict[str, BuiltNode] = {}
        try:
            for node in topology.nodes:
                uplinks = self._uplinks(topology, at, node.name, set(built))
                with of_node(node.name):
                    built[node.name] = self._nodes[node.name].build(standing_on(topology, node.name), uplinks)
        except BaseException:
            for one in reversed(built.values()):
                with suppress(TestbedError):
                    one.close()
            raise
        self._built = BuiltNodes(topology, built)
        return self._built

    def _uplinks(self, topology: Topology, at: Mapping[str, str], node: str, there: set[str]) -> Uplinks:
        """``there``: nodes that are built already."""
        ends = [(link, end) for link in topology.underlays for end in link_ends(link) if at[end.bridge] == node]
        if has_cabled_nodes(self._testbed):
            found = ((end.port, underlay_end(self._testbed, node, link.mtu)) for link, end in ends)
            return _one_cable(node, {port: cable for port, cable in found if cable is not None})
        return Uplinks({end.port: self._virtual_end(link, end, at, there) for link, end in ends})

    def _virtual_end(self, link: Underlay, end: LinkEnd, at: Mapping[str, str], there: set[str]) -> UplinkEnd:
        far = self.node(at[end.far_bridge])
        return UplinkEnd(
            first=at[end.far_bridge] not in there,
            ring=far.instance.options.dpdk and self.node(at[end.bridge]).instance.options.dpdk,
            socket=self.node(next(iter(self._nodes))).instance.sockets / f"{link.port_a}.sock",
            far_port=end.far_port,
            far_home=far.instance.home.path,
            far_pid=far.instance.pid,
        )

    def collectors(self) -> tuple[Collector, ...]:
        """Every node's counters, the sources called after the nodes; "pmd-sched" is of all."""
        own: list[Collector] = []
        sched: dict[str, Sched] = {}
        for node, datapath in self._nodes.items():
            for collector in datapath.collectors():
                if isinstance(collector, Sched):
                    sched[node] = collector
                else:
                    own.append(node_collector(node, collector, self._ports))
        here = [node for node, _ in self._cpus.pmd]
        if self._cpus.shared:
            return (*own, SharedCpuSched(sched, here, self._turns.run_ns))
        return (*own, NodesSched(sched, here))

    def _ports(self) -> Sequence[str]:
        if self._built is None:
            return ()
        return [name for node in self._nodes for name in self._built.node(node).interface_names().values()]

    def check_alive(self) -> None:
        for node, datapath in self._nodes.items():
            with of_node(node):
                datapath.check_alive()
        self._turns.check_alive()

    def logs(self) -> Mapping[str, str]:
        return {
            f"{node}/{name}": text for node, datapath in self._nodes.items() for name, text in datapath.logs().items()
        }

    def freeze(self) -> None:
        self._turns.freeze()
        for datapath in self._nodes.values():
            datapath.freeze()

    def thaw(self) -> None:
        for datapath in self._nodes.values():
            datapath.thaw()
        self._turns.thaw()

    def close(self) -> None:
        """Stop every node and remove all that was made, even when one node fails."""
        self._turns.close()
        errors: list[TestbedError] = []
        for datapath in reversed(self._nodes.values()):
            try:
                datapath.close()
            except TestbedError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def check_node_programs(testbed: Testbed) -> None:
    """ConfigError, with its key path, for a node on this machine whose OVS is not there or lacks DPDK."""
    for node in testbed.nodes:
        if node.host is not None:
            continue
        dut = dut_of_node(testbed, TESTBEDS_OWN, node.name)
        try:
            binaries = locate(ovs_of(testbed.ovs, dut).prefix, dpdk=(dut.kind or testbed.ovs.datapath) == "dpdk")
        except ConfigError as error:
            raise ConfigError(error.message, key=f"nodes.{node.name}.ovs") from error
        unknown = node.tuning.unknown_to(binaries.major_minor)
        if unknown is not None:
            raise ConfigError(unknown, key=f"nodes.{node.name}.tuning")


def cpus_here(testbed: Testbed, nodes: Sequence[str]) -> NodeCpus:
    """The CPUs of those nodes that are on this machine."""
    specs = [spec for spec in testbed.nodes if spec.host is None]
    here = [node for node in nodes if node_spec(testbed, node).host is None]
    return node_cpus(testbed.cpus, here, specs)


def _one_cable(node: str, cabled: Mapping[str, CabledEnd]) -> Uplinks:
    """ConfigError where a topology has more underlays than the node has cables to other nodes."""
    if len(cabled) > 1:
        raise ConfigError(
            f"{', '.join(cabled)} of the topology end there, and one cable leads to other nodes",
            key=f"nodes.{node}.underlay",
        )
    return Uplinks(cabled=cabled)


def joint_info(infos: Mapping[str, DatapathInfo], cpus: NodeCpus) -> DatapathInfo:
    """What several nodes are as one DUT: "dpdk+netdev" of OVS "3.1.0 and 2.15.0" where they differ."""
    first, *others = infos.values()
    same = (first.kind, first.version, first.installation)
    alike = all((one.kind, one.version, one.installation) == same for one in others)
    each = f"each a {first.detail}" if alike else "; ".join(f"{node} a {info.detail}" for node, info in infos.items())
    dpdk = [info.dpdk_version for info in infos.values() if info.dpdk_version is not None]
    return replace(
        first,
        kind="+".join(dict.fromkeys(info.kind for info in infos.values())),
        version=" and ".join(dict.fromkeys(info.version for info in infos.values())),
        dpdk_version=" and ".join(dict.fromkeys(dpdk)) or None,
        detail="; ".join(filter(None, (f"{len(infos)} nodes, {each}", str(cpus)))),
        cores=max(info.cores for info in infos.values()),
        at_least=cpus.at_least,
    )


def check_alike(nodes: Mapping[str, NodeOvs], wanted: Mapping[str, str]) -> None:
    """A discovered testbed falls back to the datapath without DPDK where memory is short, each OVS by itself.

    ``wanted``: which datapath each node should be. All of them may fall back, and say so; some only are refused.
    """
    kinds = {node: datapath.info() for node, datapath in nodes.items()}
    short = [node for node, info in kinds.items() if info.kind != wanted[node]]
    if short and len(short) < sum(kind == "dpdk" for kind in wanted.values()):
        got = ", ".join(f"{node} {info.kind}" for node, info in kinds.items())
        raise TestbedError(
            f"nodes need one datapath, and memory was enough for some only ({got}): reserve more hugepages, such as "
            f"{read_hugepages().idle().advice(*[MEMORY_MIB] * len(nodes), *RIG_MIB)}",
            evidence={f"{node}": info.detail for node, info in kinds.items()},
        )


def _lacks(testbed: Testbed, dut: Dut, node: str) -> str | None:
    """What one node lacks. What another machine lacks was checked when the run began."""
    kind = dut.kind or testbed.ovs.datapath
    if kind not in DATAPATHS:
        return f"nodes are private OVS, not the datapath {kind!r}: use {listed(DATAPATHS)}"
    return OvsDatapath.lacks(testbed, dut) if node_spec(testbed, node).host is None else None


def _settled(testbed: Testbed, dut: Dut, cpus: NodeCpus) -> Dut:
    """A node's dut; its PMDs sleep briefly where nodes share a CPU and its version can."""
    sleeping = Tuning(pmd_sleep_max_us=SHARED_SLEEP_US)
    version = locate(ovs_of(testbed.ovs, dut).prefix).major_minor
    if not cpus.shared or (dut.kind or testbed.ovs.datapath) != "dpdk" or sleeping.unknown_to(version):
        return dut
    return replace(dut, tuning=dut.tuning.over(testbed.ovs.tuning).over(sleeping))
