"""Where a mirror's copies can go, by S4's words: to a VM, to another port of the generator, to the host."""

from __future__ import annotations

from pytest_nfvperf.model.arguments import MTU, NAME, TEXT, checked
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.scenarios.vm_chain import vm_mac
from pytest_nfvperf.model.topology.catalogue import BRIDGE
from pytest_nfvperf.model.topology.nodes import DEFAULT_MTU, Port, PortKind
from pytest_nfvperf.model.topology.parts import monitor

OUTPUTS = ("virtual", "physical", "host", "af_packet", "af_xdp")
_OF_HOST = {
    "host": ("tap0", PortKind.TAP),
    "af_packet": ("afp0", PortKind.AF_PACKET),
    "af_xdp": ("xdp0", PortKind.AF_XDP),
}


@checked(output=TEXT, bridge=NAME, mtu=MTU)
def mirror_output(output: str, bridge: str = BRIDGE, *, mtu: int = DEFAULT_MTU) -> Port:
    """The output port of a mirror, on which the generator counts copies.

    Args:
        output: ``virtual`` (vm3, a monitor VM's), ``physical`` (p1, the generator's second port; on the embedded
            testbed a virtual one, too); or the host's, by ``host`` (tap0, a tap), ``af_packet`` (afp0) or ``af_xdp``
            (xdp0), a veth pair with a socket of that sort at its far end.
        bridge: of the port.
        mtu: bytes without Ethernet header and FCS.

    Raises:
        ValueError: there is no such output.
    """
    if output == "virtual":
        return monitor("vm3", bridge, mac=vm_mac(3), mtu=mtu, vm=True)
    if output == "physical":
        return monitor("p1", bridge, mtu=mtu)
    if output in _OF_HOST:
        name, kind = _OF_HOST[output]
        return monitor(name, bridge, mtu=mtu, kind=kind)
    raise ArgumentError(f"a mirror's output is one of {', '.join(OUTPUTS)}, not {output!r}")
