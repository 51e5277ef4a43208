"""Nodes with ports of their own, on other machines too: what a testbed file says of them, and what cannot be."""

from __future__ import annotations

import pytest

from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.testbed.testbed import CpuPlan, RemoteHost, describe_nodes
from tests.config_support import parse, refusal

TWO_HOSTS = """\
schema: 1
name: two hosts
dut:
  ports:
    - {name: left, interface: ens1f0, node: node1}
    - {name: up1, interface: ens1f1, node: node1}
    - {name: right, interface: ens1f0, node: node2}
    - {name: up2, interface: ens1f1, node: node2}
nodes:
  node1: {underlay: up1, cpus: [2]}
  node2: {underlay: up2, ssh: root@dut2, python: /opt/nfv/bin/python, ssh_config: /etc/lab.ssh, cpus: [2]}
generator: {devices: [ens5f0, ens1f0]}
links: [[generator.0, dut.left], [generator.1, dut.right]]
"""


def test_two_hosts_may_call_their_interfaces_and_cpus_alike():
    text = TWO_HOSTS.replace("devices: [ens5f0, ens1f0]", "devices: [ens5f0, ens5f1]")
    testbed, warnings = parse(text)
    assert warnings == ()
    assert [port.node for port in testbed.ports] == ["node1", "node1", "node2", "node2"]
    assert testbed.nodes[1].host == RemoteHost("root@dut2", "/opt/nfv/bin/python", "/etc/lab.ssh")
    assert testbed.cpus == CpuPlan((), (2,), ()), "another machine's are none of ours"
    assert describe_nodes(testbed) == [
        "node:      node1: PMD on CPU 2, underlay by up1",
        "node:      node2: PMD on CPU 2, underlay by up2, on root@dut2 by ssh",
    ]
    assert parse(yaml_of_testbed(testbed))[0] == testbed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ens5f0", "ens1f1", "generator.devices: 'ens1f1' is used twice: also by dut.ports 'up1'"),
        ("ens1f1, node: node2", "ens1f0, node: node2", "dut.ports[3].interface: 'ens1f0' is used twice"),
        (", node: node2}", "}", "dut.ports[2]: the file's nodes have ports of their own: on which one is 'right'?"),
        ("node: node2}", "node: node3}", "dut.ports[2].node: unknown node 'node3', did you mean "),
        ("underlay: up1, ", "", "nodes.node1: which port's cable leads to the other nodes? Write 'underlay: NAME'"),
        ("underlay: up2", "underlay: up1", "nodes.node2.underlay: node2 has no port 'up1', did you mean 'up2'?"),
        ("underlay: up2", "underlay: right", "a link cables 'right' to the generator: leave it out of 'links'"),
        ("underlay: up1, ", "underlay: up1, ssh: root@dut2, ", "'root@dut2' is the host of 'node1', too: each node"),
        ("ssh: root@dut2, ", "", "nodes.node2.python: python is of a host reached by ssh: write 'ssh: root@HOST'"),
        ("root@dut2", "'-oProxyCommand=x'", "nodes.node2.ssh: "),
        ("nodes:", "  bonds: [{name: b, members: [left, right]}]\nnodes:", "nodes that cables join have no bonds"),
    ],
)
def test_what_cannot_be_names_the_key_and_what_to_write(old, new, message):
    assert old in TWO_HOSTS
    text = TWO_HOSTS.replace("devices: [ens5f0, ens1f0]", "devices: [ens5f0, ens5f1]")
    assert message in str(refusal(text.replace(old, new, 1)))


def test_a_port_of_a_node_needs_nodes_that_cables_join():
    text = TWO_HOSTS.replace("underlay: up1, ", "").replace("underlay: up2, ssh: root@dut2, ", "")
    text = text.replace("python: /opt/nfv/bin/python, ssh_config: /etc/lab.ssh, cpus: [2]", "cpus: [3]")
    assert "dut.ports[0].node: the file's nodes have no 'underlay', and are joined by virtual links" in str(
        refusal(text)
    )
