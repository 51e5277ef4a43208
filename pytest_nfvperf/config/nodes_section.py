"""``nodes`` and ``underlay`` of a testbed file, to and from the model. docs/testbed-file.md says what the keys mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.config.testbed_model import NodeModel, TestbedModel
from pytest_nfvperf.config.tuning_section import to_tuning, tuning_section
from pytest_nfvperf.config.units import BIT_RATE, shortest
from pytest_nfvperf.config.yaml_file import Document, show_path
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.testbed.testbed import FarHost, NodeSpec


def check_nodes(testbed: TestbedModel, document: Document) -> None:
    """ConfigError for a version that the file does not name, for CPUs that contradict, and where no nodes can be."""
    if not testbed.nodes:
        return
    if testbed.dut.ovs.instance == "system":
        raise document.error(
            "nodes are private OVS, and dut.ovs.instance is 'system': write 'instance: private', or leave 'nodes' out",
            ("nodes",),
        )
    for name, node in testbed.nodes.items():
        if node.ovs is not None and node.ovs not in testbed.ovs:
            hint = did_you_mean(node.ovs, list(testbed.ovs))
            there = listed(list(testbed.ovs)) or "none"
            raise document.error(
                f"the file's section 'ovs' has no version {node.ovs!r}{hint} (there are: {there}): write it there, "
                f"such as 'ovs: {{{node.ovs}: /opt/ovs}}'",
                ("nodes", name, "ovs"),
            )
    _check_cpus({name: node for name, node in testbed.nodes.items() if node.ssh is None}, document)


def _check_cpus(nodes: Mapping[str, NodeModel], document: Document) -> None:
    owners: dict[int, str] = {}
    for name, node in nodes.items():
        for cpu in node.cpus:
            if cpu in owners and owners[cpu] != name:
                raise document.error(
                    f"CPU {cpu} is also in {show_path(('nodes', owners[cpu], 'cpus'))}: give each node CPUs of its "
                    "own, or none to any; then nodes share where there are too few",
                    ("nodes", name, "cpus"),
                )
            owners[cpu] = name
    without = [name for name, node in nodes.items() if not node.cpus]
    if owners and without:
        raise document.error(
            "the other nodes have 'cpus': write it for all of them, or for none", ("nodes", without[0])
        )


def nodes_cpus(testbed: TestbedModel) -> tuple[int, ...]:
    """The CPUs of all nodes on this machine, in their order; empty where the file gives none."""
    return tuple(cpu for node in testbed.nodes.values() if node.ssh is None for cpu in node.cpus)


def to_nodes(models: Mapping[str, NodeModel], beside: Path) -> tuple[NodeSpec, ...]:
    """The section as data. ``beside``: the folder that paths count from."""
    return tuple(
        NodeSpec(name, node.ovs, node.datapath, node.cpus, to_tuning(node.tuning), node.underlay, _host(node, beside))
        for name, node in models.items()
    )


def _host(node: NodeModel, beside: Path) -> FarHost | None:
    if node.ssh is None:
        return None
    config = None if node.ssh_config is None else str(beside / node.ssh_config)
    return FarHost(node.ssh, node.python or "python3", config)


def nodes_section(nodes: Sequence[NodeSpec]) -> dict[str, Any] | None:
    """The section that reads back to ``nodes``; None when there are none."""
    return {node.name: _section(node) for node in nodes} or None


def _section(node: NodeSpec) -> dict[str, Any]:
    section = {
        "ovs": node.version,
        "datapath": node.datapath,
        "cpus": list(node.cpus) or None,
        "tuning": tuning_section(node.tuning),
        "underlay": node.underlay,
        "ssh": node.host.ssh if node.host else None,
        "python": node.host.python if node.host else None,
        "ssh_config": node.host.ssh_config if node.host else None,
    }
    return {key: value for key, value in section.items() if value is not None}


def underlay_section(line_rate_bps: float | None) -> dict[str, Any] | None:
    """The section that reads back to this line rate; None where there is none."""
    return None if line_rate_bps is None else {"line_rate": shortest(line_rate_bps, BIT_RATE)}
