"""What of a topology is namespaces and veth pairs, on whatever datapath."""

from __future__ import annotations

from pathlib import Path

from pytest_nfvperf.adapters.net.ends import OURS, End, Pair
from pytest_nfvperf.adapters.net.namespaces import NamespacePlan
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.links import VethLink
from pytest_nfvperf.model.topology.ports import LONGEST_KERNEL_NAME, Nic, Offloads, Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology


def namespace_plans(topology: Topology, prefix: str) -> dict[str, NamespacePlan]:
    """The namespaces of a topology by their names; ``prefix`` tells those of one datapath from another's."""
    ipv6 = {nic.namespace for nic in topology.interfaces if any(":" in address for address in nic.addresses)}
    return {
        spec.name: NamespacePlan(f"{prefix}-{spec.name}", spec.routing, spec.name in ipv6)
        for spec in topology.namespaces
    }


def nic_pair(nic: Nic, home: Path, namespace: Path, offloads: Offloads) -> Pair:
    """A namespace's interface, whose other end is a port of a bridge at home."""
    far = End(nic.name, namespace, nic.mac, nic.addresses, offloads)
    return Pair(End(nic.port, home), far, nic.mtu, nic.queues)


def link_pair(link: VethLink, home: Path) -> Pair:
    """Both ends are ports of bridges at home."""
    near, far = (End(name, home, offloads=link.offloads) for name in (link.port_a, link.port_b))
    return Pair(near, far, link.mtu)


MONITOR_RING = 4096
"""Frames that wait at the far end of a monitor while the generator does not read: 7 ms of 580,000 copies/s. DPDK's
af_packet driver has 512 where nobody says (DPDK NIC guide, "AF_PACKET Poll Mode Driver", framecnt)."""


def packet_device(port: Port, far: str) -> str:
    """The DPDK device by which the generator takes a kernel interface."""
    room = f",framecnt={MONITOR_RING}" if port.role is PortRole.MONITOR else ""
    return f"net_af_packet,iface={far}{room}"


def interface_of(device: str) -> str:
    """The kernel interface that a DPDK device takes (``net_af_packet``, ``net_af_xdp``)."""
    return device.partition("iface=")[2].partition(",")[0]


def generator_pair(port: Port, home: Path, far: str) -> tuple[Pair, str]:
    """A generator's port by a veth pair, and the DPDK device by which the generator takes the far end."""
    if len(port.name.encode()) > LONGEST_KERNEL_NAME:
        raise ConfigError(f"port name {port.name!r} is longer than {LONGEST_KERNEL_NAME} bytes; shorten it")
    pair = Pair(End(port.name, home), End(far, OURS, mac=port.mac), port.mtu, port.queues)
    return pair, packet_device(port, far)
