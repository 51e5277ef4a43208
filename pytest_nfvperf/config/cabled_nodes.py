"""Nodes that cables join: each has ports of its own, and may be another machine, reached by ssh."""

from __future__ import annotations

from pytest_nfvperf.config.testbed_model import NodeModel, TestbedModel
from pytest_nfvperf.config.yaml_file import Document, KeyPath
from pytest_nfvperf.model.near import did_you_mean, listed


def host_of(testbed: TestbedModel, node: str) -> str:
    """The host of a node, as ssh knows it; "" for this machine, and for a node that the file does not have."""
    return testbed.nodes[node].ssh or "" if node in testbed.nodes else ""


def check_cabled_nodes(testbed: TestbedModel, document: Document) -> None:
    """ConfigError for a node without its cable, for a port without its node, and for a host that two nodes have."""
    hosts: dict[str, str] = {}
    for name, node in testbed.nodes.items():
        path: KeyPath = ("nodes", name)
        key, problem = _host_problem(node) or _underlay_problem(testbed, name, node)
        if problem:
            raise document.error(problem, (*path, key) if getattr(node, key) is not None else path)
        if node.ssh is not None and node.ssh in hosts:
            raise document.error(
                f"{node.ssh!r} is the host of {hosts[node.ssh]!r}, too: each node has a host of its own", (*path, "ssh")
            )
        hosts[node.ssh or ""] = name
    _check_ports(testbed, document)


def _host_problem(node: NodeModel) -> tuple[str, str] | None:
    for key in ("python", "ssh_config"):
        if node.ssh is None and getattr(node, key) is not None:
            return key, f"{key} is of a host reached by ssh: write 'ssh: root@HOST', too, or leave it out"
    return None


def _underlay_problem(testbed: TestbedModel, name: str, node: NodeModel) -> tuple[str, str]:
    own = [port.name for port in testbed.dut.ports if port.node == name]
    if node.underlay is None:
        if any(other.ssh or other.underlay for other in testbed.nodes.values()):
            return "underlay", "which port's cable leads to the other nodes? Write 'underlay: NAME', one of dut.ports"
        return "underlay", ""
    if node.underlay not in own:
        hint = did_you_mean(node.underlay, own)
        there = listed(own) or f"none; write 'node: {name}' at its ports in dut.ports"
        return "underlay", f"{name} has no port {node.underlay!r}{hint} (there are: {there})"
    if any(f"dut.{node.underlay}" in link for link in testbed.links):
        return "underlay", f"a link cables {node.underlay!r} to the generator: leave it out of 'links'"
    return "underlay", ""


def _check_ports(testbed: TestbedModel, document: Document) -> None:
    cabled = any(node.underlay for node in testbed.nodes.values())
    for index, port in enumerate(testbed.dut.ports):
        path: KeyPath = ("dut", "ports", index)
        if port.node is not None and port.node not in testbed.nodes:
            hint, there = did_you_mean(port.node, list(testbed.nodes)), listed(list(testbed.nodes))
            raise document.error(f"unknown node {port.node!r}{hint} (there are: {there})", (*path, "node"))
        if port.node is not None and not cabled:
            raise document.error(
                "the file's nodes have no 'underlay', and are joined by virtual links: leave 'node' out, or write both",
                (*path, "node"),
            )
        if port.node is None and cabled:
            raise document.error(
                f"the file's nodes have ports of their own: on which one is {port.name!r}? Write 'node: NAME'", path
            )
    if cabled and testbed.dut.bonds:
        raise document.error("nodes that cables join have no bonds: leave them out", ("dut", "bonds"))
