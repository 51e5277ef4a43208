"""Nodes on other machines, without one: what is refused, how snapshots are dated, when the far end gives up."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from pytest_nfvperf.adapters.ovs.nodes_datapath import NodesSched
from pytest_nfvperf.backends.local import lacks_cabled
from pytest_nfvperf.features.remote_nodes import server
from pytest_nfvperf.features.remote_nodes.node import RemoteCounters, RemoteNodes, refuse_different_versions
from pytest_nfvperf.measure.cable_check import cabling_topology, linked_ends
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, node_testbed, ports_here, topology_cables, underlay_end
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    Dut,
    DutPort,
    GeneratorSpec,
    NodeSpec,
    OvsSpec,
    Testbed,
)
from pytest_nfvperf.model.topology.compose import compose, node
from pytest_nfvperf.model.topology.parts import endpoint, namespace, underlay
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from pytest_nfvperf.ports.datapath import Collector

NODES = ("node1", "node2")


def port(name: str, of: str) -> DutPort:
    return DutPort(name, "interface", interface=f"if-{name}", node=of)


BED = Testbed(
    "two hosts",
    CpuPlan((0,), (1,), (0,)),
    ovs=OvsSpec(datapath="netdev"),
    ports=(port("up1", "node1"), port("right", "node2"), port("left", "node1"), port("up2", "node2")),
    generator=GeneratorSpec(devices=("g0", "g1")),
    links=(CableSpec("0", "right"), CableSpec("1", "left")),
    nodes=(NodeSpec("node1", underlay="up1"), NodeSpec("node2", underlay="up2", ssh="root@dut2")),
)


def test_each_end_of_a_topology_gets_a_cable_of_its_own_node():
    found = topology_cables(BED, vm_to_vm("vxlan"))
    assert {name: (end.name, end.device) for name, end in found.items()} == {
        "vm1-tx": ("left", "net_af_packet,iface=g1"),
        "vm2-rx": ("right", "net_af_packet,iface=g0"),
    }
    assert [end.name for end in cabled_ends(BED)] == ["right", "left"], "cables between nodes are none of the generator"
    cable = underlay_end(BED, "node2", 1550)
    assert cable is not None
    assert (cable.name, cable.members[0].mtu) == ("up2", 1550)
    assert [one.name for one in ports_here(BED)] == ["up1", "left"]
    there = node_testbed(BED, "node2")
    assert [one.name for one in ports_here(there)] == ["right", "up2"], "there they are on this machine"


def test_cables_are_checked_on_a_bridge_of_each_node():
    topology = cabling_topology(linked_ends(BED))
    assert [(one.name, one.bridges) for one in topology.nodes] == [("node2", ("cabling1",)), ("node1", ("cabling2",))]
    assert [(one.name, one.bridge) for one in topology.ports] == [("right", "cabling1"), ("left", "cabling2")]


def test_versions_that_differ_unsaid_are_refused():
    refuse_different_versions({"node1": "3.1.0", "node2": "3.1.0"})
    refuse_different_versions({})
    with pytest.raises(ConfigError, match=r"Open vSwitch is 2\.15\.0 on node2, and 3\.1\.0 on node1: install"):
        refuse_different_versions({"node1": "3.1.0", "node2": "2.15.0"})


def test_what_cables_cannot_join_is_skipped_with_the_reason():
    assert lacks_cabled(BED, Dut(nodes=NODES)) is None
    assert "the ports of this testbed are on its nodes, node1, node2" in str(lacks_cabled(BED, Dut()))
    assert "the testbed file has node 'node2', and the topology has not" in str(lacks_cabled(BED, Dut(nodes=NODES[:1])))
    assert lacks_cabled(replace(BED, nodes=()), Dut()) is None


def test_another_machine_has_cabled_ports_only():
    assert RemoteNodes(BED).lacks(vm_to_vm("vxlan")) is None
    one, two = node("node1", endpoint("p0", "int1"), "phy1"), namespace("pod", "phy2", "10.0.0.2/24")
    pods = compose("pods", one, node("node2", two), underlay("phy1", "phy2"))
    lacking = str(RemoteNodes(BED).lacks(pods))
    assert lacking.startswith("namespace 'pod' of 'pods' would be on root@dut2: on another machine")


class _Line:
    def ask_timed(self, *asked: str) -> tuple[object, int]:
        assert asked == ("of", "source3", "snapshot")
        return ("ovs", 40, [("a", 1)]), 1_000


def test_a_snapshot_is_dated_by_the_clock_here():
    assert RemoteCounters(_Line(), 3, "ovs").snapshot() == CounterSnapshot("ovs", 960, (("a", 1),))


class _Sched(Collector):
    source = "pmd-sched"

    def __init__(self, ran_ns: int) -> None:
        self._counters = (("pmd-sched.c01.run_ns", ran_ns),)

    def snapshot(self) -> CounterSnapshot:
        return CounterSnapshot("pmd-sched", 0, self._counters)


@pytest.mark.parametrize(("here", "beside"), [(NODES, 30), (NODES[:1], None)])
def test_a_cpu_of_another_machine_is_another_cpu(here, beside):
    found = NodesSched({"node1": _Sched(10), "node2": _Sched(20)}, here).snapshot().as_dict()
    assert found.get("pmd-sched.beside_run_ns") == beside


def test_each_pmd_waits_for_who_makes_turns_short_on_its_cpu():
    shared = NodesSched({"node1": _Sched(10), "node2": _Sched(20)}, NODES, lambda: {1: 5, 2: 700})
    assert shared.snapshot().as_dict()["pmd-sched.beside_run_ns"] == 30 + 2 * 5


class _Channel:
    """Hears some questions, then nothing: for too long, or because it closed."""

    TimeoutError = TimeoutError

    def __init__(self, ends: type[Exception], *asked: bytes) -> None:
        self._asked = list(asked)
        self._ends = ends
        self.sent: list[Any] = []

    def send(self, item: object) -> None:
        self.sent.append(item)

    def receive(self, timeout: float | None = None) -> Any:
        assert timeout == server.LEASE_S
        if not self._asked:
            raise self._ends
        return self._asked.pop(0)


class _Node:
    def __init__(self) -> None:
        closed.append(self)

    def fails(self, why: str) -> None:
        raise TestbedError(why, evidence={"log": "text"})

    def is_wrong(self) -> None:
        raise ZeroDivisionError

    def now(self) -> int:
        return time.monotonic_ns() and 7

    def close(self) -> None:
        closed.clear()


closed: list[object] = []


@pytest.mark.parametrize("ends", [EOFError, TimeoutError])
def test_the_far_end_answers_until_nobody_is_heard_and_then_closes(monkeypatch, ends):
    monkeypatch.setattr(server, "RemoteNode", _Node)
    monkeypatch.setattr(server.signal, "signal", lambda *_: None)
    asked = [pickle.dumps(one) for one in ((1, "now", ()), (2, "fails", ("broke",)), (3, "is_wrong", ()))]
    channel = _Channel(ends, server.ALIVE, *asked)
    server.serve(channel)
    assert closed == []
    (one, ok, seven, _), two, (three, _, kind, said, evidence, _) = channel.sent
    assert (one, ok, seven) == (1, "ok", 7)
    assert two == (2, "error", "TestbedError", "broke", {"log": "text"}, None)
    assert (three, kind, said) == (3, "TestbedError", "is_wrong failed there, and should not")
    assert "ZeroDivisionError" in evidence["traceback"]


def test_only_nodes_on_other_machines_need_execnet(monkeypatch):
    without = "import sys; sys.modules['execnet'] = None; import pytest_nfvperf.features.remote_nodes.node"
    subprocess.run([sys.executable, "-c", without], check=True)
    monkeypatch.setitem(sys.modules, "execnet", None)
    RemoteNodes(replace(BED, nodes=())).check()
    with pytest.raises(ConfigError, match=r"nodes on other machines need execnet: pip install 'pytest-nfvperf\[ssh\]'"):
        RemoteNodes(BED).check()
