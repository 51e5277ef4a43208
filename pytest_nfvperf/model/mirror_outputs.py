"""Where a mirror's copies can go, by S4's words: to a VM, to another port of the generator, to the host."""

from __future__ import annotations

from pytest_nfvperf.model.catalogue import BRIDGE
from pytest_nfvperf.model.nodes import DEFAULT_MTU, Port, PortKind
from pytest_nfvperf.model.parts import monitor
from pytest_nfvperf.model.vm_chain import vm_mac

OUTPUTS = ("virtual", "physical", "host")


def mirror_output(output: str, bridge: str = BRIDGE, *, mtu: int = DEFAULT_MTU) -> Port:
    """The port that copies leave by, on which the generator counts them.

    Args:
        output: ``virtual`` (vm3, a monitor VM's), ``physical`` (p1, the generator's second port; on the embedded
            testbed a virtual one, too) or ``host`` (tap0, a tap).
        bridge: of the port.
        mtu: bytes without Ethernet header and FCS.

    Raises:
        ValueError: there is no such output.
    """
    if output == "virtual":
        return monitor("vm3", bridge, mac=vm_mac(3), mtu=mtu, vm=True)
    if output == "physical":
        return monitor("p1", bridge, mtu=mtu)
    if output == "host":
        return monitor("tap0", bridge, mtu=mtu, kind=PortKind.TAP)
    raise ValueError(f"a mirror's output is one of {', '.join(OUTPUTS)}, not {output!r}")
