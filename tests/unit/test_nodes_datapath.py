"""Where nodes cannot be: what is said, and what to do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.machine.machine_checks import CheckState, node_checks
from pytest_nfvperf.adapters.ovs.nodes_datapath import (
    check_node_programs,
    check_same_datapath,
    joint_info,
    lacks_nodes,
)
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs, Tuning
from pytest_nfvperf.model.testbed.testbed import (
    CpuPlan,
    DatapathInfo,
    Dut,
    GeneratorSpec,
    NodeCpus,
    NodeSpec,
    OvsSpec,
    Testbed,
    dut_of_node,
    node_cpus,
)

BED = Testbed("bed", CpuPlan((0,), (1,), (0,)), ovs=OvsSpec(), ports=(), generator=GeneratorSpec(), links=())


@pytest.mark.parametrize(
    ("ovs", "kind", "text"),
    [
        (OvsSpec(instance="system"), None, "nodes are private OVS, and this testbed's is the system's"),
        (OvsSpec(), "vpp", "nodes are private OVS, not the datapath 'vpp': use dpdk, netdev, system"),
    ],
)
def test_what_nodes_lack(ovs: OvsSpec, kind: str | None, text: str) -> None:
    found = lacks_nodes(replace(BED, ovs=ovs), Dut(kind, nodes=("node1", "node2")))
    assert found is not None
    assert found.startswith(text)


def node(kind: str, detail: str = "") -> Any:
    return SimpleNamespace(info=lambda: DatapathInfo(kind, "3.5", None, detail))


def test_memory_that_is_enough_for_one_node_only_is_no_mixture_of_datapaths() -> None:
    both = {"node1": "dpdk", "node2": "dpdk"}
    check_same_datapath({"node1": node("dpdk"), "node2": node("dpdk")}, both)
    check_same_datapath({"node1": node("netdev"), "node2": node("netdev")}, both)
    check_same_datapath({"node1": node("dpdk"), "node2": node("netdev")}, both | {"node2": "netdev"})
    with pytest.raises(
        TestbedError, match=r"for some only \(node1 dpdk, node2 netdev\): reserve more hugepages"
    ) as error:
        check_same_datapath({"node1": node("dpdk"), "node2": node("netdev", "200 MiB of free hugepages")}, both)
    assert error.value.evidence["node2"] == "200 MiB of free hugepages"


OLD = NamedOvs("old", "/nowhere/old", "/nowhere/old")
SPECS = (NodeSpec("node1", cpus=(2,)), NodeSpec("node2", "old", "netdev", (3,), Tuning(smc=True)))
NAMED = replace(BED, ovs=OvsSpec(versions=(OLD,), tuning=Tuning(smc=False)), nodes=SPECS, underlay_line_rate_bps=25e9)


def test_a_node_is_what_the_test_asks_for_else_what_its_file_says() -> None:
    asked = Dut("dpdk", nodes=("node1", "node2"), tuning=Tuning(rxq=2))
    assert dut_of_node(NAMED, Dut(nodes=("node1", "node2")), "node1") == Dut()
    assert dut_of_node(NAMED, Dut(nodes=("node1", "node2")), "node2") == Dut("netdev", False, Tuning(smc=True), "old")
    assert dut_of_node(NAMED, asked, "node2") == Dut("dpdk", False, Tuning(rxq=2, smc=True), "old")


def test_cpus_of_the_file_are_the_nodes_own() -> None:
    dealt = node_cpus(NAMED.cpus, ["node1", "node2"], SPECS)
    assert (dealt.of("node1"), dealt.of("node2"), dealt.shared) == ((2,), (3,), False)


def test_a_node_that_the_file_does_not_name_is_no_node_like_the_dut() -> None:
    why = "the testbed file has nodes node1, node2, and the topology has 'node3', too: add it to 'nodes'"
    assert lacks_nodes(NAMED, Dut(nodes=("node1", "node3"))) == why
    assert SimulatedBackend(NAMED).lacks(Dut(nodes=("node1", "node3"))) == why


def test_a_plan_shows_the_nodes_and_the_underlays_line_rate() -> None:
    assert SimulatedBackend(NAMED).describe()[1:] == [
        "node:      node1: PMD on CPU 2",
        "node:      node2: OVS old, datapath netdev, PMD on CPU 3, smc=on",
        "underlay:  25 Gbps between nodes",
    ]


def test_doctor_and_the_run_name_the_node_whose_ovs_is_not_there() -> None:
    own, old = node_checks(replace(NAMED, ovs=replace(NAMED.ovs, datapath="netdev")))
    assert own.state is CheckState.OK or "not" in own.advice, "where no OVS is installed doctor says so"
    assert (old.name, old.state, old.seen.split(",")[0]) == ("node node2", CheckState.MISSING, "OVS old")
    with pytest.raises(ConfigError, match=r"nodes\.node2\.ovs: .*/nowhere/old"):
        check_node_programs(replace(NAMED, nodes=SPECS[1:]))


def test_nodes_that_differ_are_both_named() -> None:
    cpus = NodeCpus((("node1", (2,)), ("node2", (3,))), shared=False)
    one = DatapathInfo("dpdk", "3.5.0", "25.11", "private", "/a", cores=2)
    other = DatapathInfo("netdev", "2.15.0", None, "polled", "/b", cores=1)
    both = joint_info({"node1": one, "node2": other}, cpus)
    assert (both.kind, both.version, both.dpdk_version, both.cores) == ("dpdk+netdev", "3.5.0 and 2.15.0", "25.11", 2)
    assert both.detail.startswith("2 nodes, node1 a private; node2 a polled; PMDs: node1 on CPU 2")
    assert joint_info({"node1": one, "node2": one}, cpus).detail.startswith("2 nodes, each a private; PMDs:")
