"""S4's chain of VMs on a bridge that learns MAC addresses: generator - VM1 - VM2 - generator.

Every VM has one port, as there, and so has the generator: a frame crosses the bridge once more than there are VMs.
"""

from __future__ import annotations

from pytest_nfvperf.model.arguments import INTEGER, MTU, NAME, TEXT, checked, optional
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.catalogue import BRIDGE, vnf_mac
from pytest_nfvperf.model.topology.compose import Part, compose
from pytest_nfvperf.model.topology.nodes import DEFAULT_MTU, VnfKind
from pytest_nfvperf.model.topology.parts import endpoint, one_armed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

GENERATOR_MAC = vnf_mac(0, 0x10)
"""S4's :10."""


def vm_mac(number: int) -> str:
    """Of the VM with this number, counted from 1: S4's :01 and :02."""
    return vnf_mac(0, number)


@checked(vms=INTEGER, kind=TEXT, mtu=MTU, name=optional(NAME))
def vm_chain(
    vms: int = 2, *parts: Part, kind: VnfKind | str = VnfKind.TESTBED, mtu: int = DEFAULT_MTU, name: str | None = None
) -> Topology:
    """The generator's port p0 sends to vm1, that to vm2, and so on, the last to p0.

    With one VM it is S4's forwarding baseline (1b); with two and no mirror the VM-to-VM baseline.

    Args:
        vms: how many, 1 to 15.
        parts: further parts, such as a monitor and a mirror; the bridge is br0.
        kind: what runs the VMs: "loop", "testpmd" or "qemu"; "testbed" for what the testbed says.
        mtu: bytes without Ethernet header and FCS.
        name: of the topology; None for ``vm-chain-2`` and the like.

    Raises:
        ValueError: S4 has no MAC addresses for so many VMs, or the parts do not fit.
    """
    if not 1 <= vms <= 15:
        raise ArgumentError(f"S4's MAC addresses allow 1 to 15 VMs in a chain, not {vms}")
    stops = [vm_mac(number) for number in range(1, vms + 1)]
    chain = [
        one_armed(f"vm{number}", BRIDGE, mac=mac, eth_peer=behind, mtu=mtu, kind=kind)
        for number, (mac, behind) in enumerate(zip(stops, [*stops[1:], GENERATOR_MAC], strict=True), start=1)
    ]
    generator = endpoint("p0", BRIDGE, mac=GENERATOR_MAC, mtu=mtu, eth_peer=stops[0])
    return compose(name or f"vm-chain-{vms}", generator, *chain, Direction("p0", "p0"), *parts)


@checked(mtu=MTU, name=NAME)
def vm_receiving(*parts: Part, mtu: int = DEFAULT_MTU, name: str = "vm-receiving") -> Topology:
    """S4's receive-only baseline of a VM (1a): p0 sends to vm1, which receives and never forwards.

    The receiver is the generator's own, so that sequence numbers tell loss from duplicates.

    Args:
        parts: further parts; the bridge is br0.
        mtu: bytes without Ethernet header and FCS.
        name: of the topology.
    """
    ends = (endpoint("p0", BRIDGE, mac=GENERATOR_MAC, mtu=mtu), endpoint("vm1", BRIDGE, mac=vm_mac(1), mtu=mtu))
    return compose(name, *ends, Direction("p0", "vm1"), *parts)
