"""Which cable leads where in a lab: from a topology's port to the DUT's port, or bond, and the generator's device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.fields import normal_pci
from pytest_nfvperf.model.testbed.testbed import DutBond, DutPort, Testbed, node_spec
from pytest_nfvperf.model.topology.ports import GENERATOR, PortKind, PortRole
from pytest_nfvperf.model.topology.topology import Topology, node_topology

CABLING = "cabling"
"""Name of the topology that checks cables: its frames are only noted, and go nowhere."""


@dataclass(frozen=True, slots=True)
class CabledEnd:
    """A port of the DUT that a cable leads to, and what is at the other end.

    Attributes:
        name: of the port or bond in OVS.
        members: the port itself, or those of the bond.
        bond: None for a port that is none.
        generator_port: number of the generator's port, as text; None where no link names it.
        device: what ports.generator.GeneratorPort wants: DPDK devargs for the embedded generator, the number
            of the generator's port for other engines.
    """

    name: str
    members: tuple[DutPort, ...]
    bond: DutBond | None = None
    generator_port: str | None = None
    device: str | None = None


def is_pci(device: str) -> bool:
    """True for a PCI address, False for the name of a kernel interface."""
    return normal_pci(device) is not None


def is_lab(testbed: Testbed) -> bool:
    """True where ports of the DUT are cabled; on the embedded testbed each topology makes its own."""
    return any(port.kind != "vhost-user" for port in testbed.ports)


def cabled_ends(testbed: Testbed) -> tuple[CabledEnd, ...]:
    """The DUT's ends of all cables, in the order of the links; ports that no link names follow."""
    ports = {port.name: port for port in testbed.ports if port.kind != "vhost-user"}
    bonds = {bond.name: bond for bond in testbed.bonds}
    bonded = {name for bond in testbed.bonds for name in bond.members}
    cables = {cable.dut.removeprefix("dut."): cable.generator.removeprefix("generator.") for cable in testbed.links}
    for node in testbed.nodes:
        ports.pop(node.underlay or "", None)  # its cable leads to another node
    names = [name for name in cables if name in ports or name in bonds]
    names += [name for name in (*ports, *bonds) if name not in cables and name not in bonded]
    return tuple(
        CabledEnd(
            name,
            tuple(ports[member] for member in (bonds[name].members if name in bonds else (name,))),
            bonds.get(name),
            cables.get(name),
            _device(testbed, cables.get(name)),
        )
        for name in names
    )


def _device(testbed: Testbed, generator_port: str | None) -> str | None:
    if testbed.generator.engine != "embedded":
        return generator_port
    devices = dict(zip(map(str, testbed.generator.ports), testbed.generator.devices, strict=False))
    device = devices.get(generator_port or "")
    if device is None:
        return None
    return device if is_pci(device) else f"net_af_packet,iface={device}"


def topology_cables(testbed: Testbed, topology: Topology) -> dict[str, CabledEnd]:
    """The cabled ends by the names of the topology's ports for the generator, monitors too: by name, else in order.

    Endpoints that are said to be of another kind, a tap or vhost-user, have none. ConfigError if the topology has more
    endpoints than the testbed has cables.
    """
    if topology.nodes:
        parts = [(node_testbed(testbed, node.name), node_topology(topology, node.name)) for node in topology.nodes]
        return {name: end for bed, part in parts for name, end in topology_cables(bed, part).items()}
    cabled = cabled_ends(testbed)
    outside = [port for port in topology.ports if port.owner == GENERATOR and port.kind is PortKind.TESTBED]
    endpoints = [port.name for port in outside if port.role is not PortRole.FORWARDER]
    by_name = {end.name: end for end in cabled if end.name in endpoints}
    if not cabled or len(by_name) == len(endpoints):
        return by_name
    if len(endpoints) > len(cabled):
        raise ConfigError(
            f"topology {topology.name!r} has {len(endpoints)} endpoints, testbed {testbed.name!r} has "
            f"{len(cabled)} cabled ports",
            key="dut.ports",
        )
    return dict(zip(endpoints, cabled, strict=False))


def node_testbed(testbed: Testbed, name: str) -> Testbed:
    """The testbed as one of its nodes sees it: with the ports that it has, and their cables."""
    if not has_cabled_nodes(testbed):
        return testbed
    ports = tuple(port for port in testbed.ports if port.node == name)
    own = {port.name for port in ports}
    links = tuple(cable for cable in testbed.links if cable.dut.removeprefix("dut.") in own)
    own_spec = tuple(replace(node, ssh=None) for node in testbed.nodes if node.name == name)
    return replace(testbed, ports=ports, links=links, nodes=own_spec)


def has_cabled_nodes(testbed: Testbed) -> bool:
    """True where the testbed's nodes are joined by cables: its ports are theirs."""
    return any(node.underlay is not None for node in testbed.nodes)


def underlay_end(testbed: Testbed, name: str, mtu: int) -> CabledEnd | None:
    """The end of the cable to the other nodes; None where a virtual link joins them.

    ``mtu``: of the underlay, for a port that says none itself.
    """
    wanted = node_spec(testbed, name).underlay
    port = next((port for port in testbed.ports if port.name == wanted), None)
    if port is None:
        return None
    return CabledEnd(port.name, (replace(port, mtu=port.mtu or mtu),))


def ports_here(testbed: Testbed) -> tuple[DutPort, ...]:
    """The DUT's ports that are on this machine, not on a node that is on another one."""
    remote = {node.name for node in testbed.nodes if node.host is not None}
    return tuple(port for port in testbed.ports if port.node not in remote)
