"""One DUT of several OVS: a datapath for each compute node, their counters, and the topology built over them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_nfvperf.adapters.host.hugepages import RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.host.polling_threads import PollingThreads
from pytest_nfvperf.adapters.ovs.built_topology import BuiltNode
from pytest_nfvperf.adapters.ovs.installation import MEMORY_MIB, lacks, locate
from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS, NicMaker, UplinkEnd, Uplinks
from pytest_nfvperf.adapters.ovs.ovs_datapath import NodeOvs, OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import Vswitchd
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.wakeups import ShortTurns
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError, run_all
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.hw_offload import OffloadShare, share_of_nodes
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, off_node, on_node
from pytest_nfvperf.model.testbed.lab_cables import has_cabled_nodes, node_testbed, underlay_end
from pytest_nfvperf.model.testbed.ovs_settings import DATAPATHS, Tuning
from pytest_nfvperf.model.testbed.testbed import (
    TESTBED_DUT,
    DatapathInfo,
    Dut,
    NodeCpus,
    NodeSpec,
    Testbed,
    dut_of_node,
    node_cpus,
    node_spec,
    ovs_for_dut,
    unknown_node,
)
from pytest_nfvperf.model.topology.links import overlays
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge, node_topology
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath, LinkOutage

_SHARED_SLEEP_US = 20
"""The longest sleep of an idle PMD where nodes share a CPU. A PMD that never sleeps keeps the CPU until the kernel
takes it away, 3 to 4 ms later, and the other node's rings overflow meanwhile."""

_RUN_NS_OF_CPU = re.compile(r"pmd-sched\.c\d+\.run_ns")


class NodeHosts:
    """Other machines that host nodes of a testbed. By itself there are none."""

    @property
    def facts(self) -> dict[str, Any]:
        """The fingerprint of each machine, by node; ConfigError if one differs from the testbed file."""
        return {}

    def look_at(self, node: NodeSpec) -> dict[str, Any]:
        """The fingerprint of another machine's node; UnavailableError if we cannot reach it."""
        raise UnavailableError(f"node {node.name!r} is on no machine that can be reached")

    def check(self) -> None:
        """ConfigError if a machine cannot be reached, or lacks something."""

    def lacks(self, topology: Topology) -> str | None:  # noqa: ARG002 - none is elsewhere
        """Return the part of a topology that would have to be on another machine and cannot; None if all can."""
        return None

    def start(self, journal: Journal, node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> NodeOvs:  # noqa: ARG002
        """Start a node's OVS. ``testbed``: as the node sees it. ``name``: of the instance. TestbedError if it fails."""
        raise TestbedError(f"node {node.name!r} is on another machine, and the testbed has none")


NODE_HOSTS = Point[Callable[[Testbed], NodeHosts]]("node hosts")
"""The feature that reaches nodes on other machines."""


class BuiltNodes(BuiltTopology):
    """A live topology on several OVS, one per node, joined by underlays. Owns its teardown."""

    def __init__(self, topology: Topology, built: Mapping[str, BuiltNode]) -> None:
        self.topology = topology
        self._built = dict(built)
        self._node_of = node_of_bridge(topology)

    def node(self, name: str) -> BuiltNode:
        return self._built[name]

    def on(self, bridge: str) -> BuiltNode:
        return self._built[self._node_of[bridge]]

    def attachments(self) -> Mapping[str, str | None]:
        devices = {port: device for built in self._built.values() for port, device in built.attachments().items()}
        names = [*(port.name for port in self.topology.ports), *(behind.label for behind in self.topology.behind)]
        return {name: devices[name] for name in names if name in devices}

    def made_namespace(self, namespace: str) -> str:
        names = {spec.name: built for built in self._built.values() for spec in built.topology.namespaces}
        return names[namespace].netns(namespace)

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:
        """On the node of the first bridge that the arguments name; without one on the first node."""
        nodes = (self._node_of[one] for one in arguments if one in self._node_of)
        return self._built[next(nodes, next(iter(self._built)))].ovs(program, *arguments, lines=lines)

    def note_sources(self, macs: Sequence[str]) -> bool:
        noted = [built.note_sources(macs) for built in self._built.values()]
        return all(noted)

    def sources(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for built in self._built.values():
            for mac, ports in built.sources().items():
                found[mac] = (*found.get(mac, ()), *ports)
        return found

    def firewall(self) -> dict[str, Sequence[str]]:
        return {name: rules for built in self._built.values() for name, rules in built.firewall().items()}

    def not_offloaded(self) -> str | None:
        for node, built in self._built.items():
            why = built.not_offloaded()
            if why is not None:
                return f"{node}: {why}"
        return None

    def offload_share(self) -> OffloadShare:
        shares = {}
        for node, built in self._built.items():
            with of_node(node):
                shares[node] = built.offload_share()
        return share_of_nodes(shares)

    def connections(self) -> dict[int, int]:
        """Of nodes with the same zone the sum."""
        found = Counter[int]()
        for built in self._built.values():
            found.update(built.connections())
        return dict(found)

    def flush_connections(self) -> None:
        for node, built in self._built.items():
            with of_node(node):
                built.flush_connections()

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for link on every port, including underlays, and give tunnels the other ends' MAC addresses."""
        for built in self._built.values():
            built.wait_ready(deadline_s)
        # Frames would be lost while ARP looks for the addresses.
        for overlay in overlays(self.topology.nodes, self.topology.tunnels, self.topology.underlays):
            ends = {self._node_of[end.bridge]: end for end in overlay.underlay.ends}
            for tunnel in self.topology.tunnels:
                if tunnel.port in {overlay.port_a, overlay.port_b}:
                    end = ends[self._node_of[tunnel.bridge]]
                    peer = self._built[self._node_of[end.peer_bridge]]
                    local = self._built[self._node_of[end.bridge]]
                    local.set_neighbour(end.bridge, tunnel.remote, peer.mac_of(end.peer_bridge))

    def configuration(self) -> str:
        return "\n".join(f"## node {node}\n{built.configuration()}" for node, built in self._built.items())

    def close(self) -> None:
        _close_all(self._built.values())


def _close_all(parts: Collection[BuiltNode | NodeOvs]) -> None:
    run_all(part.close for part in reversed(list(parts)))


@contextmanager
def of_node(node: str) -> Iterator[None]:
    """Name the node in errors about the testbed."""
    try:
        yield
    except TestbedError as error:
        raise TestbedError(f"node {node}: {error.message}", evidence=error.evidence) from error


class NodeCollector(Collector):
    """A source of one node, renamed to "node1.ovs". ``ports``: returns the names of the ports of all nodes."""

    def __init__(self, node: str, source: Collector, ports: Callable[[], Collection[str]]) -> None:
        self.source = f"{node}.{source.source}"
        self._node = node
        self._collector = source
        self._ports = ports

    def snapshot(self) -> CounterSnapshot:
        with of_node(self._node):
            return self._rename(self._collector.snapshot())

    def _rename(self, snapshot: CounterSnapshot) -> CounterSnapshot:
        return on_node(snapshot, self._node, self._ports())

    def settled(self, before: CounterSnapshot, after: CounterSnapshot, missing: int) -> CounterSnapshot:
        before, after = (off_node(each, self._node) for each in (before, after))
        with of_node(self._node):
            return self._rename(self._collector.settled(before, after, missing))

    def outages(self, since_ns: int) -> tuple[LinkOutage, ...]:
        return self._collector.outages(since_ns)

    def forwarding_ns(self) -> int | None:
        with of_node(self._node):
            return self._collector.forwarding_ns()


class NodesSched(Collector):
    """The scheduling of all nodes' PMD threads, in one source "pmd-sched".

    Nodes that share CPUs wait for each other and for the process that shortens their turns. That is planned, and no
    theft of CPU time, so ``pmd-sched.beside_run_ns`` also holds the run time of those on the same CPUs.
    """

    def __init__(
        self,
        nodes: Mapping[str, Collector],
        here: Collection[str],
        turns_run_ns: Callable[[], Mapping[int, int]] | None = None,
    ) -> None:
        """``here``: the nodes on this machine. CPU 2 of another machine is another CPU.

        ``turns_run_ns``: of nodes that share CPUs, run time of the process that shortens their turns, by CPU, in ns
        (``ShortTurns``). Their threads are not watched.
        """
        self.source = PollingThreads.source
        self._nodes = dict(nodes)
        self._here = frozenset(here)
        self._turns_run_ns = turns_run_ns

    def pollers(self) -> tuple[Poller, ...]:
        if self._turns_run_ns is not None:
            return ()
        return tuple(poller for sched in self._nodes.values() for poller in sched.pollers())

    def snapshot(self) -> CounterSnapshot:
        by_node: dict[str, Mapping[str, int]] = {}
        for node, sched in self._nodes.items():
            with of_node(node):
                by_node[node] = sched.snapshot().as_dict()
        counters = {f"{node}.{name}": value for node, own in by_node.items() for name, value in own.items()}
        here = {node: own for node, own in by_node.items() if node in self._here}
        by_cpu = self._turns_run_ns() if self._turns_run_ns is not None else {}
        turns = {f"pmd-sched.c{cpu:02d}.run_ns": ran_ns for cpu, ran_ns in by_cpu.items()}
        companions_ns = 0
        for node, own in here.items():
            for other in (turns, *(here[name] for name in here if name != node)):
                # Both have a counter of this name only if both run on that CPU.
                companions_ns += sum(other.get(name, 0) for name in own if _RUN_NS_OF_CPU.fullmatch(name))
        if companions_ns:
            counters["pmd-sched.beside_run_ns"] = companions_ns
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(counters.items())))


class NodesDatapath(Datapath):
    """Several private OVS as one ports.Datapath: each is a node, and underlays join them."""

    def __init__(self, nodes: Mapping[str, NodeOvs], cpus: NodeCpus, testbed: Testbed, turns: ShortTurns) -> None:
        self._nodes = dict(nodes)
        self._cpus = cpus
        self._turns = turns
        self._testbed = testbed
        self._built: BuiltNodes | None = None

    @staticmethod
    def start(
        testbed: Testbed,
        journal: Journal,
        dut: Dut,
        *,
        name: str = "ovs",
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
        hosts: NodeHosts | None = None,
        counted: bool = False,
    ) -> NodesDatapath:
        """Start an OVS for each node of ``dut.nodes``, on CPUs of its own if there are enough.

        ``nic_makers``: of namespaces' interfaces, by kind. ``hosts``: of nodes on other machines.
        ``counted``: the local nodes' instructions are counted and must be repeatable.

        Raises:
            TestbedError: one did not start; those that did are stopped.
        """
        missing = lacks_nodes(testbed, dut)
        if missing is not None:
            raise TestbedError(missing)
        here = [node for node in dut.nodes if node_spec(testbed, node).host is None]
        cpus = node_cpus(testbed.cpus, here, [spec for spec in testbed.nodes if spec.host is None])
        started: dict[str, NodeOvs] = {}
        try:
            for node in dut.nodes:
                spec, bed = node_spec(testbed, node), node_testbed(testbed, node)
                own = dut_of_node(testbed, dut, node)
                if spec.host is not None:
                    started[node] = (hosts or NodeHosts()).start(journal, spec, bed, own, f"{name}-{node}")
                    continue
                started[node] = OvsDatapath.start(
                    replace(bed, cpus=replace(bed.cpus, pmd=cpus.of(node))),
                    journal,
                    _with_sleeping_pmds(testbed, own, cpus),
                    name=f"{name}-{node}",
                    nic_makers=nic_makers,
                    process=Vswitchd(shares_memory=not has_cabled_nodes(testbed), counted=counted),
                )
            wanted = {node: dut_of_node(testbed, dut, node).kind or testbed.ovs.datapath for node in started}
            check_same_datapath(started, wanted)
            # While instructions are counted a long turn loses nothing: each burst waits for the one before.
            polling = not counted and cpus.shared and all(one.info().kind == "dpdk" for one in started.values())
            turns = ShortTurns(journal, cpus.pmd[0][1] if polling else (), name)
        except BaseException:
            for datapath in started.values():
                with suppress(TestbedError):  # the reason for the failed start matters more
                    datapath.close()
            raise
        return NodesDatapath(started, cpus, testbed, turns)

    def processes(self) -> Mapping[int, CpuRole]:
        return {pid: role for node in self._nodes.values() for pid, role in node.processes().items()}

    def info(self) -> DatapathInfo:
        infos = {node: datapath.info() for node, datapath in self._nodes.items()}
        return replace(joint_info(infos, self._cpus), short_turns=self._turns.active)

    def node(self, name: str) -> OvsDatapath:
        """The OVS of a local node; KeyError for another one."""
        datapath = self._nodes[name]
        if not isinstance(datapath, OvsDatapath):
            raise KeyError(f"node {name!r} is on another machine")
        return datapath

    def build(self, topology: Topology) -> BuiltNodes:
        built: dict[str, BuiltNode] = {}
        try:
            for node in topology.nodes:
                uplinks = self._uplinks(topology, node.name, set(built))
                with of_node(node.name):
                    built[node.name] = self._nodes[node.name].build(node_topology(topology, node.name), uplinks)
        except BaseException:
            for one in reversed(built.values()):
                with suppress(TestbedError):
                    one.close()
            raise
        self._built = BuiltNodes(topology, built)
        return self._built

    def _uplinks(self, topology: Topology, node: str, built: set[str]) -> Uplinks:
        """The node's ends of underlays. ``built``: nodes that are built already."""
        node_of = node_of_bridge(topology)
        ends = [(link, end) for link in topology.underlays for end in link.ends if node_of[end.bridge] == node]
        if has_cabled_nodes(self._testbed):
            cables = {end.port: underlay_end(self._testbed, node, link.mtu) for link, end in ends}
            cabled = {port: cable for port, cable in cables.items() if cable is not None}
            if len(cabled) > 1:
                raise ConfigError(
                    f"{', '.join(cabled)} of the topology end there, and one cable leads to other nodes",
                    key=f"nodes.{node}.underlay",
                )
            return Uplinks(cabled=cabled)
        virtual: dict[str, UplinkEnd] = {}
        for link, end in ends:
            peer = self.node(node_of[end.peer_bridge]).instance
            virtual[end.port] = UplinkEnd(
                first=node_of[end.peer_bridge] not in built,
                ring=peer.options.dpdk and self.node(node).instance.options.dpdk,
                socket=self.node(next(iter(self._nodes))).instance.sockets / f"{link.port_a}.sock",
                peer_port=end.peer_port,
                peer_home=peer.home.path,
                peer_pid=peer.pid,
            )
        return Uplinks(virtual)

    def collectors(self) -> tuple[Collector, ...]:
        own: list[Collector] = []
        sched: dict[str, Collector] = {}
        for node, datapath in self._nodes.items():
            for collector in datapath.collectors():
                if collector.source == PollingThreads.source:
                    sched[node] = collector
                else:
                    own.append(NodeCollector(node, collector, self._ports))
        here = [node for node, _ in self._cpus.pmd]
        return (*own, NodesSched(sched, here, self._turns.run_ns if self._cpus.shared else None))

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

    def freeze(self) -> bool:
        self._turns.freeze()
        frozen = [datapath.freeze() for datapath in self._nodes.values()]
        return all(frozen)

    def thaw(self) -> None:
        for datapath in self._nodes.values():
            datapath.thaw()
        self._turns.thaw()

    def close(self) -> None:
        run_all((self._turns.close, partial(_close_all, self._nodes.values())))


def lacks_nodes(testbed: Testbed, dut: Dut) -> str | None:
    """What this machine lacks for a DUT's nodes, and what to do; None if it has all."""
    if testbed.ovs.instance == "system":
        return "nodes are private OVS, and this testbed's is the system's: use dut.ovs.instance: private"
    if unknown := unknown_node(testbed, dut):
        return unknown
    for node in dut.nodes:
        own = dut_of_node(testbed, dut, node)
        kind = own.kind or testbed.ovs.datapath
        if kind not in DATAPATHS:
            return f"nodes are private OVS, not the datapath {kind!r}: use {listed(DATAPATHS)}"
        # other machines were checked when the run began
        missing = lacks(testbed, own) if node_spec(testbed, node).host is None else None
        if missing:
            return missing
    return None


def check_node_programs(testbed: Testbed) -> None:
    """ConfigError, with its key path, for a node on this machine whose OVS is missing or lacks DPDK."""
    for node in testbed.nodes:
        if node.host is not None:
            continue
        dut = dut_of_node(testbed, TESTBED_DUT, node.name)
        try:
            binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=(dut.kind or testbed.ovs.datapath) == "dpdk")
        except ConfigError as error:
            raise ConfigError(error.message, key=f"nodes.{node.name}.ovs") from error
        unknown = node.tuning.unknown_to(binaries.major_minor)
        if unknown is not None:
            raise ConfigError(unknown, key=f"nodes.{node.name}.tuning")


def joint_info(infos: Mapping[str, DatapathInfo], cpus: NodeCpus) -> DatapathInfo:
    """Describe several nodes as one DUT: "dpdk+netdev" of OVS "3.1.0 and 2.15.0" if they differ."""
    first, *others = infos.values()
    same = (first.kind, first.version, first.installation)
    alike = all((other.kind, other.version, other.installation) == same for other in others)
    kinds = f"each a {first.detail}" if alike else "; ".join(f"{node} a {info.detail}" for node, info in infos.items())
    dpdk = [info.dpdk_version for info in infos.values() if info.dpdk_version is not None]
    return replace(
        first,
        kind="+".join(dict.fromkeys(info.kind for info in infos.values())),
        version=" and ".join(dict.fromkeys(info.version for info in infos.values())),
        dpdk_version=" and ".join(dict.fromkeys(dpdk)) or None,
        detail="; ".join(filter(None, (f"{len(infos)} nodes, {kinds}", str(cpus)))),
        cores=max(info.cores for info in infos.values()),
        at_least=cpus.at_least,
    )


def check_same_datapath(nodes: Mapping[str, NodeOvs], wanted: Mapping[str, str]) -> None:
    """Raise TestbedError if some nodes, but not all, lack memory and fell back to the datapath without DPDK.

    ``wanted``: the datapath that each node should have.
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


def _with_sleeping_pmds(testbed: Testbed, dut: Dut, cpus: NodeCpus) -> Dut:
    """Let a node's idle PMDs sleep briefly if nodes share a CPU and its version can."""
    sleeping = Tuning(pmd_sleep_max_us=_SHARED_SLEEP_US)
    version = locate(ovs_for_dut(testbed.ovs, dut).prefix).major_minor
    if not cpus.shared or (dut.kind or testbed.ovs.datapath) != "dpdk" or sleeping.unknown_to(version):
        return dut
    return replace(dut, tuning=dut.tuning.over(testbed.ovs.tuning).over(sleeping))
