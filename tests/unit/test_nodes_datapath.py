"""Where nodes cannot be: what is said, and what to do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.ovs.nodes_datapath import NodesDatapath, check_alike
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.equipment import DatapathInfo
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Dut, GeneratorSpec, OvsSpec, Testbed

BED = Testbed("bed", OvsSpec(), CpuPlan((0,), (1,), (0,)), (), GeneratorSpec(), ())


@pytest.mark.parametrize(
    ("ovs", "kind", "text"),
    [
        (OvsSpec(instance="system"), None, "nodes are private OVS, and this testbed's is the system's"),
        (OvsSpec(), "system", "nodes need OVS in userspace, not the datapath 'system': use dpdk or netdev"),
        (OvsSpec(), "vpp", "nodes need OVS in userspace, not the datapath 'vpp': use dpdk or netdev"),
    ],
)
def test_what_nodes_lack(ovs: OvsSpec, kind: str | None, text: str) -> None:
    found = NodesDatapath.lacks(replace(BED, ovs=ovs), Dut(kind, nodes=("node1", "node2")))
    assert found is not None
    assert found.startswith(text)


def node(kind: str, detail: str = "") -> Any:
    return SimpleNamespace(info=lambda: DatapathInfo(kind, "3.5", None, detail))


def test_memory_that_is_enough_for_one_node_only_is_no_mixture_of_datapaths() -> None:
    check_alike({"node1": node("dpdk"), "node2": node("dpdk")})
    with pytest.raises(
        TestbedError, match=r"for some only \(node1 dpdk, node2 netdev\): reserve more hugepages"
    ) as error:
        check_alike({"node1": node("dpdk"), "node2": node("netdev", "200 MiB of free hugepages")})
    assert error.value.evidence["node2"] == "200 MiB of free hugepages"
