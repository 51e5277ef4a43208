"""What a Linux bridge cannot do that a topology may ask for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.ports import NicKind, PortKind, PortRole
from pytest_nfvperf.model.topology.topology import Topology


def refuse_impossible(topology: Topology) -> None:
    """ConfigError that names what of the topology a Linux bridge has not, and what to take instead."""
    checks: tuple[Callable[[Topology], str | None], ...] = (_patches, _tunnels, _rules, _ports, _nics, _crossings)
    for find in checks:
        problem = find(topology)
        if problem is not None:
            raise ConfigError(f"topology {topology.name!r} cannot be built of Linux bridges: {problem}")


def _patches(topology: Topology) -> str | None:
    if not topology.patches:
        return None
    return f"{topology.patches[0].port_a!r} is a patch port, which only Open vSwitch has; join them by veth"


def _tunnels(topology: Topology) -> str | None:
    return f"{topology.tunnels[0].port!r} is a tunnel; take an OVS datapath" if topology.tunnels else None


def _rules(topology: Topology) -> str | None:
    if not topology.rules:
        return None
    return f"{topology.rules[0].bridge!r} has OpenFlow rules, which only Open vSwitch has; leave rules(...) out"


def _ports(topology: Topology) -> str | None:
    for port in topology.ports:
        if port.kind not in {PortKind.TESTBED, PortKind.AF_PACKET}:
            return f"port {port.name!r} is {port.kind}; take the kind TESTBED or AF_PACKET, a veth pair"
        if port.role is PortRole.MONITOR:
            return f"port {port.name!r} is a monitor, and there are no mirrors; take an OVS datapath"
    return None


def _nics(topology: Topology) -> str | None:
    for nic in topology.nics:
        if nic.kind != NicKind.VETH:
            return f"interface {nic.name!r} is {nic.kind}; take a veth pair"
    return None


def _crossings(topology: Topology) -> str | None:
    """Learning does what crossings say where they join a bridge's only two ports, both ways; else it does not."""
    said: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for crossing in topology.crossings:
        said[crossing.bridge].add((crossing.in_port, crossing.out_port))
    for bridge, pairs in said.items():
        ports = topology.bridge_ports(bridge)
        if len(ports) != 2 or pairs != {ports, ports[::-1]}:
            return (
                f"the crossings of {bridge!r} are flows, and a Linux bridge has none: it learns addresses; "
                "leave the crossings out, or give it two ports that cross both ways"
            )
    return None
