"""``nodes`` and ``underlay`` of testbed files: what each node is, and what cannot be."""

from __future__ import annotations

import pytest

from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import CpuPlan, NodeSpec
from tests.config_support import parse, refusal

NODES = """\
schema: 1
name: two nodes
ovs: {old: "debian:bullseye"}
nodes:
  node1: {cpus: [2, 3]}
  node2: {ovs: old, datapath: netdev, cpus: 4-5, tuning: {smc: true}}
underlay: {line_rate: 10 Gbps}
"""


def changed(old, new):
    assert old in NODES
    return NODES.replace(old, new, 1)


def test_nodes_of_a_file():
    testbed, warnings = parse(NODES)
    assert warnings == ()
    assert testbed.nodes == (
        NodeSpec("node1", cpus=(2, 3)),
        NodeSpec("node2", "old", "netdev", (4, 5), Tuning(smc=True)),
    )
    assert testbed.cpus == CpuPlan((), (2, 3, 4, 5), ()), "they are what the DUT has"
    assert testbed.underlay_line_rate_bps == 1e10
    assert parse(yaml_of_testbed(testbed))[0] == testbed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "ovs: old,",
            "ovs: odl,",
            "lab.yaml:6: nodes.node2.ovs: the file's section 'ovs' has no version 'odl', did you mean 'old'?",
        ),
        ("cpus: 4-5", "cpus: 3-4", "lab.yaml:6: nodes.node2.cpus: CPU 3 is also in nodes.node1.cpus: give each node"),
        ("cpus: 4-5, ", "", "nodes.node2: the other nodes have 'cpus': write it for all of them, or for none"),
        ("datapath: netdev", "datapath: vpp", "lab.yaml:6: nodes.node2.datapath: "),
        ("node1: {cpus", "Node_1: {cpus", "lab.yaml:5: nodes.Node_1: 'Node_1' cannot be used here"),
        (
            "node1: {cpus",
            "node1: {pmd_cpus: [6], cpus",
            "pmd_cpus: unknown key 'pmd_cpus', did you mean 'cpus'? (known here: ovs,",
        ),
        ("10 Gbps", "10", "underlay.line_rate: "),
        ("10 Gbps", "0 Gbps", "underlay.line_rate: "),
        ("nodes:", "cpus: {pmd: [2]}\nnodes:", "nodes: [2, 3, 4, 5] contradicts cpus.pmd [2]: keep one"),
        ("nodes:", "cpus: {generator: [4]}\nnodes:", "CPU 4 is given to two owners: cpus.generator and nodes"),
        ("nodes:", "dut: {ovs: {instance: system}}\nnodes:", "nodes: nodes are private OVS, and dut.ovs.instance is"),
    ],
)
def test_nodes_that_cannot_be(old, new, message):
    assert message in refusal(changed(old, new))
