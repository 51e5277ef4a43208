"""Which topologies an engine that only sends and receives, such as TRex, can be at the ends of."""

from __future__ import annotations

from pytest_nfvperf.adapters.generators.packet_socket.generator import ENGINE as VIRTUAL_ENGINE
from pytest_nfvperf.adapters.vnf.maker import usual_kind
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.nodes import GENERATOR, Port, PortKind, PortRole, VnfKind
from pytest_nfvperf.model.topology.topology import Topology

_NAMES = {"trex": "TRex", VIRTUAL_ENGINE: "in virtual time the generator"}
"""Of those engines, as a person writes them."""


def lacks_roles(engine: str, testbed: Testbed, topology: Topology, dut: Dut) -> str | None:
    """What the topology wants of the generator and the engine cannot be, and what to do; None when it can be all.

    Args:
        engine: "trex", "embedded", ... Only those that send and receive and do nothing else lack anything.
        testbed: its ``vnf`` and its CPUs say what runs VNFs.
        topology: what to deploy.
        dut: on which datapath.
    """
    name = _NAMES.get(engine)
    if name is None:
        return None
    loops = _in_the_loop(testbed, topology, dut)
    if loops and engine == VIRTUAL_ENGINE:
        return f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in it"
    if loops:
        return (
            f"{name} only sends and receives: VNF {', '.join(loops)} of {topology.name!r} would run in the generator. "
            "Write 'vnf: {kind: testpmd}' (or qemu) in the testbed file, or use the embedded engine"
        )
    for port in topology.ports:
        other = _other_than_a_cabled_port(port)
        if other:
            return f"{name} only sends and receives on cabled ports: {port.name!r} of {topology.name!r} is {other}"
    return None


def _in_the_loop(testbed: Testbed, topology: Topology, dut: Dut) -> list[str]:
    """The VNFs that the generator itself would forward for."""
    owners = {port.owner: port for port in topology.ports if port.role is PortRole.FORWARDER}
    vhost_user = (dut.kind or testbed.ovs.datapath) == "dpdk"
    return [owner for owner, port in owners.items() if _kind(testbed, port, len(owners), vhost_user) is VnfKind.LOOP]


def _kind(testbed: Testbed, port: Port, vnfs: int, vhost_user: bool) -> VnfKind:
    if port.vnf_kind is not VnfKind.TESTBED:
        return port.vnf_kind
    return usual_kind(testbed, vnfs, vhost_user=vhost_user and port.kind in {PortKind.TESTBED, PortKind.VHOST_USER})


def _other_than_a_cabled_port(port: Port) -> str | None:
    if port.owner != GENERATOR:
        return None
    if port.role is not PortRole.ENDPOINT:
        return f"a {port.role}"
    return None if port.kind is PortKind.TESTBED else f"a {port.kind} port"
