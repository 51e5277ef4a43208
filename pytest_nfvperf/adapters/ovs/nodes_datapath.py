"""One DUT of several OVS: a datapath for each compute node, their counters, and the topology built over them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from pytest_nfvperf.adapters.host.hugepages import RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovs.built_topology import BuiltNode
from pytest_nfvperf.adapters.ovs.installation import DATAPATHS, MEMORY_MIB, locate
from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS, NicMaker, UplinkEnd, Uplinks
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import Vswitchd
from pytest_nfvperf.adapters.process.wakeups import ShortTurns
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot, off_node, on_node
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd, bed_of_node, has_cabled_nodes, underlay_end
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import (
    TESTBEDS_OWN,
    DatapathInfo,
    Dut,
    NodeCpus,
    NodeSpec,
    Testbed,
    dut_of_node,
    node_cpus,
    node_spec,
    ovs_of,
    unknown_node,
)
from pytest_nfvperf.model.topology.links import LinkEnd, Overlay, Underlay, link_ends, overlays
from pytest_nfvperf.model.topology.topology import Topology, node_of_bridge, standing_on
from pytest_nfvperf.model.traffic.cpu_placement import Poller
from pytest_nfvperf.ports.datapath import Attachment, Collector, KnowsPollers, Settling
from pytest_nfvperf.ports.generator import KnowsForwardingThread

# The OVS of one node: on this machine it is an OvsDatapath; one on another machine answers over ssh.


class NodeOvs(Protocol):
    """One node's OVS."""

    def info(self) -> DatapathInfo: ...

    def processes(self) -> Mapping[int, CpuRole]:
        """Its daemons on this machine, by id."""
        ...

    def build(self, topology: Topology, uplinks: Uplinks) -> BuiltNode:
        """Build what stands on the node; ``uplinks``: where the underlays lead."""
        ...

    def collectors(self) -> tuple[Collector, ...]:
        """Its counters by source, "pmd-sched" among them."""
        ...

    def check_alive(self) -> None:
        """TestbedError when a daemon died, a namespace or link went, or the host does not answer."""
        ...

    def logs(self) -> Mapping[str, str]: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def close(self) -> None: ...


class FarStarter(Protocol):
    """Starts the OVS of a node that is on another machine."""

    def __call__(self, node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> NodeOvs:
        """``testbed``: as the node sees it. ``name``: of the instance. TestbedError where it does not start."""
        ...


class NodeHosts(Protocol):
    """Other machines that nodes of a testbed are on; there may be none."""

    @property
    def facts(self) -> dict[str, Any]:
        """The fingerprint of each, by the node; ConfigError where one is not as it should be."""
        ...

    def look_at(self, node: NodeSpec) -> dict[str, Any]:
        """The fingerprint of the machine of a node that is on another; UnavailableError where we cannot look."""
        ...

    def check(self) -> None:
        """ConfigError where one cannot be used."""
        ...

    def lacks(self, topology: Topology) -> str | None:
        """What of a topology would have to be on another machine, and cannot; None where all can be."""
        ...

    def starter(self, journal: Journal) -> FarStarter:
        """Starts nodes there. ``journal``: of the run."""
        ...


NODE_HOSTS = Point[Callable[[Testbed], NodeHosts]]("node hosts")
"""By what leads there."""


# A topology built on several OVS, one a node, which underlays join.


class BuiltNodes:
    """A live topology with nodes. Owns its teardown."""

    def __init__(self, topology: Topology, built: Mapping[str, BuiltNode]) -> None:
        """``built``: what stands on each node, in the order in which it was made."""
        self.topology = topology
        self._built = dict(built)
        self._at = node_of_bridge(topology)

    def node(self, name: str) -> BuiltNode:
        """What stands on a node; KeyError for an unknown one."""
        return self._built[name]

    def attachments(self) -> tuple[Attachment, ...]:
        found = {each.port: each for built in self._built.values() for each in built.attachments()}
        names = [*(port.name for port in self.topology.ports), *(behind.label for behind in self.topology.behind)]
        return tuple(found[name] for name in names if name in found)

    def netns(self, namespace: str) -> str:
        for built in self._built.values():
            if namespace in {spec.name for spec in built.topology.namespaces}:
                return built.netns(namespace)
        raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")

    def learned(self) -> dict[str, str]:
        """Port of each learned MAC address; the last node wins where several learned it."""
        return {mac: port for built in self._built.values() for mac, port in built.learned().items()}

    def firewall(self) -> dict[str, Sequence[str]]:
        return {name: rules for built in self._built.values() for name, rules in built.firewall().items()}

    def not_offloaded(self) -> str | None:
        for node, built in self._built.items():
            why = built.not_offloaded()
            if why is not None:
                return f"{node}: {why}"
        return None

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for link on every port, the underlays' too, and give tunnels the other ends' MAC addresses."""
        for built in self._built.values():
            built.wait_ready(deadline_s)
        for overlay in overlays(self.topology.nodes, self.topology.tunnels, self.topology.underlays):
            self._introduce(overlay)

    def _introduce(self, overlay: Overlay) -> None:
        """Give both ends the other's MAC address. ARP would find it, and lose frames meanwhile."""
        below = {self._at[end.bridge]: end for end in link_ends(overlay.underlay)}
        ports = {overlay.port_a: overlay.bridge_a, overlay.port_b: overlay.bridge_b}
        for tunnel in self.topology.tunnels:
            if tunnel.port in ports:
                end = below[self._at[tunnel.bridge]]
                far = self._built[self._at[end.far_bridge]]
                local = self._built[self._at[end.bridge]]
                local.tell_neighbour(end.bridge, tunnel.remote, far.mac_of(end.far_bridge))

    def configuration(self) -> str:
        return "\n".join(f"## node {node}\n{built.configuration()}" for node, built in self._built.items())

    def close(self) -> None:
        """Close every node, the last first, even when one fails."""
        errors: list[TestbedError] = []
        for built in reversed(self._built.values()):
            try:
                built.close()
            except TestbedError as error:
                errors.append(error)
        if errors:
            raise errors[0]


# Counters of several OVS as those of one DUT: sources "node1.ovs", "node2.ovs", ... and "pmd-sched" of all.


@contextmanager
def of_node(node: str) -> Iterator[None]:
    """Errors say on which node the testbed broke."""
    try:
        yield
    except TestbedError as error:
        raise TestbedError(f"node {node}: {error.message}", evidence=error.evidence) from error


Ports = Callable[[], Collection[str]]
"""Names of the ports of all nodes."""

TurnsRun = Callable[[], Mapping[int, int]]
_NOBODY: Mapping[int, int] = {}

_RUN_OF_ONE = re.compile(r"pmd-sched\.c\d+\.run_ns")


class NodeCollector:
    """A source of one node, called after it."""

    def __init__(self, node: str, source: Collector, ports: Ports) -> None:
        self._node = node
        self._source = source
        self._ports = ports

    def snapshot(self) -> CounterSnapshot:
        with of_node(self._node):
            return on_node(self._source.snapshot(), self._node, self._ports())

    def forwarding_ns(self) -> int | None:
        """How long the node's own thread that forwards has run, in ns; None where the node has none."""
        with of_node(self._node):
            return self._source.forwarding_ns() if isinstance(self._source, KnowsForwardingThread) else None


class SettlingNodeCollector:
    """A NodeCollector of a source some of whose counters settle late."""

    def __init__(self, node: str, source: Settling, now: NodeCollector, ports: Ports) -> None:
        self._node = node
        self._source = source
        self._now = now
        self._ports = ports

    def snapshot(self) -> CounterSnapshot:
        return self._now.snapshot()

    def forwarding_ns(self) -> int | None:
        return self._now.forwarding_ns()

    def settled(self, before: CounterSnapshot, missing: int) -> CounterSnapshot:
        """Wait until this node's drops explain ``missing`` frames since ``before``, or have settled."""
        with of_node(self._node):
            return on_node(self._source.settled(off_node(before, self._node), missing), self._node, self._ports())


def node_collector(node: str, source: Collector, ports: Ports) -> Collector:
    """A node's source, as what it is."""
    now = NodeCollector(node, source, ports)
    return SettlingNodeCollector(node, source, now, ports) if isinstance(source, Settling) else now


@runtime_checkable
class Sched(Collector, KnowsPollers, Protocol):
    """How the PMD threads of one node were scheduled; of another machine's none can be watched from here."""


class SharedCpuSched:
    """How all nodes' PMD threads were scheduled, in one source "pmd-sched".

    Nodes that share CPUs wait for each other, and for the process that makes their turns short. The plan causes that,
    nobody steals, so ``pmd-sched.beside_run_ns`` has what those ran on the same CPUs, beside vswitchd's main threads.
    """

    def __init__(
        self, nodes: Mapping[str, Sched], here: Collection[str], turns_run_ns: TurnsRun = lambda: _NOBODY
    ) -> None:
        """``here``: the nodes on this machine. CPU 2 of another one is another CPU.

        ``turns_run_ns``: how long the process that makes turns short has run, by CPU, ns (``short_turns``).
        """
        self._nodes = dict(nodes)
        self._here = frozenset(here)
        self._turns_run_ns = turns_run_ns

    def snapshot(self) -> CounterSnapshot:
        by_node = {node: _scheduled(node, of) for node, of in self._nodes.items()}
        counters = {f"{node}.{name}": value for node, of in by_node.items() for name, value in of.items()}
        beside = [
            _run_beside(of, other)
            for node, of in by_node.items()
            for name, other in by_node.items()
            if name != node and {name, node} <= self._here
        ]
        turns = {f"pmd-sched.c{cpu:02d}.run_ns": ran_ns for cpu, ran_ns in self._turns_run_ns().items()}
        beside += [_run_beside(by_node[node], turns) for node in self._here & set(by_node)]
        if any(beside):
            counters["pmd-sched.beside_run_ns"] = sum(beside)
        return CounterSnapshot("pmd-sched", time.monotonic_ns(), tuple(sorted(counters.items())))


def _scheduled(node: str, of: Sched) -> Mapping[str, int]:
    with of_node(node):
        return of.snapshot().as_dict()


def _run_beside(of: Mapping[str, int], other: Mapping[str, int]) -> int:
    """How long others ran so far on the CPUs of a node's PMDs, ns: another node's PMDs, or who makes turns short."""
    return sum(other.get(name, 0) for name in of if _RUN_OF_ONE.fullmatch(name))


class NodesSched:
    """PMD scheduling of nodes with CPUs of their own, whose threads can be watched."""

    def __init__(self, nodes: Mapping[str, Sched], here: Collection[str]) -> None:
        self._all = SharedCpuSched(nodes, here)
        self._nodes = tuple(nodes.values())

    def snapshot(self) -> CounterSnapshot:
        return self._all.snapshot()

    def pollers(self) -> tuple[Poller, ...]:
        return tuple(poller for of in self._nodes for poller in of.pollers())


# Several private OVS as one ports.Datapath: each is a node, and underlays join them.

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
