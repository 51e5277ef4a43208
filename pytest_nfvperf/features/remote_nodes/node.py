"""OVS on another machine, as a node: each call is a request over the line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter

from pytest_nfvperf.adapters.ovs.built_topology import BuiltNode
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.nics import NO_UPLINKS, Uplinks
from pytest_nfvperf.adapters.ovs.nodes_datapath import NodeHosts
from pytest_nfvperf.adapters.ovs.ovs_datapath import NodeOvs
from pytest_nfvperf.adapters.process.journal import Journal, Kind, note_process
from pytest_nfvperf.features.remote_nodes.line import ANSWER_S, NodeLine, check_version
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.lab_cables import node_testbed
from pytest_nfvperf.model.testbed.testbed import (
    TESTBED_DUT,
    CpuPlan,
    DatapathInfo,
    Dut,
    NodeSpec,
    RemoteHost,
    Testbed,
    dut_of_node,
)
from pytest_nfvperf.model.topology.ports import GENERATOR, PortKind
from pytest_nfvperf.model.topology.topology import Topology, node_topology
from pytest_nfvperf.ports.datapath import Collector


class RemoteCounters(Collector):
    """A source of counters of another machine.

    The clocks of two machines differ: the far end reports a snapshot's age, and its time is that age before the answer
    left, by this machine's clock.

    ``number``, ``source``: of the source there, whose polling threads cannot be watched from here. ``settles``: some of
    its counters settle late.
    """

    def __init__(self, line: NodeLine, number: int, source: str, *, settles: bool = False) -> None:
        self._ask = partial(line.ask_timed, "of", f"source{number}")
        self.source = source
        self._settles = settles

    def snapshot(self) -> CounterSnapshot:
        return _snapshot_of(self._ask("snapshot"))

    def settled(self, before: CounterSnapshot, after: CounterSnapshot, missing: int) -> CounterSnapshot:
        return _snapshot_of(self._ask("settled", before, after, missing)) if self._settles else after


def _snapshot_of(answer: tuple[Any, int]) -> CounterSnapshot:
    (source, age_ns, counters), sent_ns = answer
    return CounterSnapshot(source, sent_ns - age_ns, tuple((name, value) for name, value in counters))


class _RemoteMethod:
    """A method that a part on the other machine executes; for objects with a ``_line``. ``part``: of ``RemoteNode``."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: Any, owner: type) -> Callable[..., Any]:
        return lambda *arguments: one._line.ask("of", self._part, self._name, *arguments)


class RemoteBuilt(BuiltNode):
    """A topology built on a node of another machine. Owns its teardown."""

    firewall = _RemoteMethod("built")
    not_offloaded = _RemoteMethod("built")
    configuration = _RemoteMethod("built")
    note_sources = _RemoteMethod("built")
    sources = _RemoteMethod("built")
    mac_of = _RemoteMethod("built")
    set_neighbour = _RemoteMethod("built")
    replace_flows = _RemoteMethod("built")
    flush_connections = _RemoteMethod("built")

    def __init__(self, line: NodeLine, host: RemoteHost, topology: Topology, uplinks: Uplinks) -> None:
        self.topology = topology
        self._line = line
        self._host = host
        self._closed = False
        self._interfaces, self._ports = line.ask("build", topology, uplinks)

    def attachments(self) -> Mapping[str, str | None]:
        return dict(self._ports)

    def interface_names(self) -> Mapping[str, str]:
        return dict(self._interfaces)

    def made_namespace(self, namespace: str) -> str:
        """Always TestbedError, because this machine cannot enter it."""
        raise TestbedError(f"namespace {namespace!r} is on {self._host}: nothing of this machine can be run in it")

    def offload_share(self) -> OffloadShare:
        return TypeAdapter(OffloadShare).validate_python(self._line.ask("of", "built", "offload_share"))

    def connections(self) -> dict[int, int]:
        return TypeAdapter(dict[int, int]).validate_python(self._line.ask("of", "built", "connections"))

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:
        if lines:
            raise UnavailableError(f"{self._host} takes no file of lines for ovs-{program}")
        return str(self._line.ask("of", "built", "ovs", program, *arguments))

    def wait_ready(self, deadline_s: float) -> None:
        self._line.ask("of", "built", "wait_ready", deadline_s, deadline_s=deadline_s + ANSWER_S)

    def close(self) -> None:
        if not self._closed and not self._line.lost:  # a far end whose line has ended removes everything by itself
            self._closed = True
            self._line.ask("remove")


class RemoteOvs(NodeOvs):
    """The OVS of a node on another machine: connects, locks the machine, and starts it.

    ``journal``: ssh is noted there. ``testbed``: as the node sees it. ``name``: of the instance.

    Raises:
        TestbedError: it can no longer be reached, or its OVS did not start; nothing is left there.
    """

    check_alive = _RemoteMethod("ovs")
    freeze = _RemoteMethod("ovs")
    thaw = _RemoteMethod("ovs")

    def __init__(self, journal: Journal, node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> None:
        if node.host is None:
            raise ValueError(f"node {node.name!r} is on this machine")
        self._host = host = node.host
        try:
            check_version(node.name, host)
        except ConfigError as error:  # it was right when the run began
            raise TestbedError(f"node {node.name}: {error.message}") from error
        entry = journal.note(Kind.PROCESS, f"ssh to {host}", gentle=True)
        self._forget = partial(journal.forget, entry)
        try:
            log = journal.directory / f"ssh-{node.name}.log"
            self._line = NodeLine(host, log, partial(note_process, journal, entry))
            try:
                bed = replace(testbed, cpus=CpuPlan((), node.cpus, ()))  # the far end plans the others
                info, sources = self._line.ask("start", bed, dut, name)
            except BaseException:
                self._line.close()
                raise
        except TestbedError as error:
            raise TestbedError(f"node {node.name}: {error.message}", evidence=error.evidence) from error
        build = tuple((name, value) for name, value in info["build"])
        there = {"detail": f"{info['detail']}, on {host}", "installation": f"{host}:{info['installation']}"}
        self._info = DatapathInfo(**{**info, **there, "build": build})
        self._collectors = tuple(
            RemoteCounters(self._line, number, source, settles=settles)
            for number, (source, settles) in enumerate(sources)
        )

    def info(self) -> DatapathInfo:
        return self._info

    def build(self, topology: Topology, uplinks: Uplinks = NO_UPLINKS) -> RemoteBuilt:
        return RemoteBuilt(self._line, self._host, topology, uplinks)

    def collectors(self) -> tuple[Collector, ...]:
        return self._collectors

    def logs(self) -> Mapping[str, str]:
        try:
            return dict(self._line.ask("of", "ovs", "logs"))
        except TestbedError as error:
            return {"connection": error.message}

    def close(self) -> None:
        try:
            if not self._line.lost:
                self._line.ask("close")
        finally:
            self._line.close()
            self._forget()  # ssh has ended


class RemoteNodes(NodeHosts):
    """A testbed's nodes on other machines."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._nodes = [node for node in testbed.nodes if node.host is not None]

    @cached_property
    def facts(self) -> dict[str, Any]:
        return {node.name: self.look_at(node) for node in self._nodes}

    def look_at(self, node: NodeSpec) -> dict[str, Any]:
        """The fingerprint of a node's host; starts no OVS there.

        Raises:
            ConfigError: it cannot be reached, has another version of this package, or lacks OVS or an interface.
            UnavailableError: execnet is missing here.
        """
        host = node.host
        assert host is not None
        if find_spec("execnet") is None:
            raise UnavailableError("nodes on other machines need execnet: pip install 'pytest-nfvperf[ssh]'")
        check_version(node.name, host)
        dut = dut_of_node(self._testbed, TESTBED_DUT, node.name)
        with TemporaryDirectory(prefix="nfvperf-") as folder:
            try:
                with closing(NodeLine(host, Path(folder) / "ssh.log")) as line:
                    facts: dict[str, Any] = line.ask("look", node_testbed(self._testbed, node.name), dut)
            except ConfigError as error:
                raise ConfigError(f"on {host}: {error.message}", key=error.key or f"nodes.{node.name}") from error
            except TestbedError as error:
                raise ConfigError(f"on {host}: {error}", key=f"nodes.{node.name}") from error
        return facts

    def check(self) -> None:
        """Look at all hosts.

        Raises:
            ConfigError: execnet is missing, a host cannot be reached or lacks something, or nodes have different
                versions of Open vSwitch, and the file does not say so.
        """
        try:
            facts = self.facts
        except UnavailableError as error:
            raise ConfigError(str(error), key="nodes") from error
        here = [node.name for node in self._testbed.nodes if node.host is None and node.version is None]
        versions = {name: locate(self._testbed.ovs.prefix).version for name in here[:1]}
        there = {node.name: str(facts[node.name]["ovs"]) for node in self._nodes if node.version is None}
        refuse_different_versions(versions | there)

    def lacks(self, topology: Topology) -> str | None:
        hosts = {node.name: node.host for node in self._nodes}
        for node in topology.nodes:
            if node.name not in hosts:
                continue
            impossible = [f"namespace {spec.name!r}" for spec in node_topology(topology, node.name).namespaces]
            impossible += [
                f"port {port.name!r} of {port.owner}"
                for port in topology.ports
                if port.bridge in node.bridges and (port.owner != GENERATOR or port.kind is not PortKind.TESTBED)
            ]
            if impossible:
                return (
                    f"{impossible[0]} of {topology.name!r} would be on {hosts[node.name]}: on another machine there "
                    "can be cabled ports of the generator only"
                )
        return None

    def start(self, journal: Journal, node: NodeSpec, testbed: Testbed, dut: Dut, name: str) -> RemoteOvs:
        return RemoteOvs(journal, node, testbed, dut, name)


def refuse_different_versions(versions: dict[str, str]) -> None:
    """Raise ConfigError if Open vSwitch differs between nodes whose version the file does not give."""
    first = next(iter(versions), "")
    other = next((node for node, version in versions.items() if version != versions[first]), None)
    if other is not None:
        raise ConfigError(
            f"Open vSwitch is {versions[other]} on {other}, and {versions[first]} on {first}: install the same, or say "
            f"that it differs: 'ovs: {{other: installed}}' and 'nodes: {{{other}: {{ovs: other}}}}'",
            key=f"nodes.{other}",
        )
