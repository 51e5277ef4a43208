"""A port as OVS is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nfvperf.model.nodes import DEFAULT_MTU, Port, Vlan
from pytest_nfvperf.model.testbed import DutPort
from pytest_nfvperf.ports.generator import VIRTIO_RING


@dataclass(frozen=True, slots=True)
class Wired:
    """A port as OVS is told of it, and how its far end is reached.

    Attributes:
        port: its name in the topology.
        interface: name in OVS; differs from the topology's for an interface of the host.
        type: of OVS's interface: "system", "patch", "dpdkvhostuserclient".
        device: DPDK devargs of the far end; None when it is cabled, or no generator's.
        socket: where the far end will listen, for a vhost-user port.
        has_link: it is ready when it has link; a patch port or a tunnel has none.
    """

    port: str
    bridge: str
    interface: str
    type: str
    options: Mapping[str, str] = field(default_factory=dict)
    mtu_request: int | None = None
    vlan: Vlan | None = None
    device: str | None = None
    socket: Path | None = None
    has_link: bool = True


def vhost_user(port: Port, socket: Path) -> Wired:
    """The far end listens and OVS connects, as in the field. When it connects: ``vhost_connector``.

    ``dpdkvhostuser`` (OVS listens) is deprecated and in OVS 3.1 counts no packets.
    """
    queues = f",queues={port.queues}" if port.queues > 1 else ""
    return Wired(
        port.name,
        port.bridge,
        port.name,
        "dpdkvhostuserclient",
        mtu_request=unusual(port.mtu),
        vlan=port.vlan,
        device=f"net_virtio_user,path={socket},server=1,{VIRTIO_RING},mac={port.mac}{queues}",
        socket=socket,
    )


def pci(port: Port, physical: DutPort) -> Wired:
    """A NIC that DPDK drives."""
    options = {"dpdk-devargs": physical.pci or "", "n_rxq": str(max(physical.rxq, port.queues))}
    if physical.rx_descriptors is not None:
        options["n_rxq_desc"] = str(physical.rx_descriptors)
    if physical.tx_descriptors is not None:
        options["n_txq_desc"] = str(physical.tx_descriptors)
    mtu = unusual(physical.mtu or port.mtu)
    return Wired(port.name, port.bridge, port.name, "dpdk", options, mtu, port.vlan)


def patch(port: str, bridge: str, peer: str, vlan: Vlan | None) -> Wired:
    """One end of a patch."""
    return Wired(port, bridge, port, "patch", {"peer": peer}, vlan=vlan, has_link=False)


def unusual(mtu: int) -> int | None:
    """What OVS is asked for: nothing where the MTU is Ethernet's own."""
    return mtu if mtu != DEFAULT_MTU else None
