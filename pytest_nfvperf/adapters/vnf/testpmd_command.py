"""dpdk-testpmd's command line for a VNF (testpmd's guide, "Running the Application"). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.topology.nodes import VnfMode
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES
from pytest_nfvperf.ports.vnf import VnfSpec

PROGRAM = "dpdk-testpmd"
PROMPT = "testpmd> "
MBUFS = 16384
_TX_DESCRIPTORS, _RX_DESCRIPTORS = 512, 1024
"""As the generator's own forwarders: what is in flight fits into the receiver's ring."""
_ETHERNET_HEADER_BYTES = 14


def forwarding_options(spec: VnfSpec) -> list[str]:
    """What follows ``--``: the forwarding mode, the ports' peers and rings."""
    options = [
        "-i",
        f"--forward-mode={spec.mode}",
        f"--port-topology={'loop' if len(spec.ports) == 1 else 'paired'}",
        f"--rxq={spec.queues}",
        f"--txq={spec.queues}",
        f"--txd={_TX_DESCRIPTORS}",
        f"--rxd={_RX_DESCRIPTORS}",
        f"--total-num-mbufs={MBUFS}",
    ]
    if spec.mode is VnfMode.MAC:
        options += [f"--eth-peer={number},{port.eth_peer}" for number, port in enumerate(spec.ports)]
    longest = spec.mtu + _ETHERNET_HEADER_BYTES + FCS_BYTES
    return [*options, f"--max-pkt-len={longest}"] if longest > _USUAL_BYTES else options


_USUAL_BYTES = 1518


def vdevs(spec: VnfSpec) -> list[str]:
    """EAL's virtual devices for the ports, in their order."""
    return [part for number, port in enumerate(spec.ports) for part in ("--vdev", _numbered(port.device, number))]


def _numbered(device: str, number: int) -> str:
    driver, _, rest = device.partition(",")
    return f"{driver}{number},{rest}"


def command(eal: Sequence[str], spec: VnfSpec) -> list[str]:
    """The whole command. Lines are given away as they end: a pipe would keep 4 KiB of them back."""
    return ["stdbuf", "-oL", PROGRAM, *eal, "-v", *vdevs(spec), "--", *forwarding_options(spec)]
