"""A lab's ports as OVS is told of them: NICs of DPDK's, representors, kernel interfaces, bonds.

============================  ===========  =======================================================
in the testbed file           type in OVS  dpdk-devargs
============================  ===========  =======================================================
``pci``                       ``dpdk``     ``0000:3b:00.0``
``pci`` and ``representor``   ``dpdk``     ``0000:3b:00.0,representor=[0]``
``interface``, af_packet      ``dpdk``     ``net_af_packet_NAME,iface=INTERFACE``
``interface``, af_xdp         ``dpdk``     ``net_af_xdp_NAME,iface=INTERFACE``
``interface``, kernel         system       none
============================  ===========  =======================================================

Devargs are those of the drivers' guides (DPDK: "AF_PACKET Poll Mode Driver", "AF_XDP", "Switch Representation").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.net.borrowed import Borrowed
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort, unusual
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.testbed import DutPort
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, Port

_LARGE_FRAME = 16384
_QUEUES = {"af_packet": "qpairs", "af_xdp": "queue_count"}


@dataclass(frozen=True, slots=True)
class Cabled:
    """What a lab has for a topology: its ends by the names of the topology's ports."""

    ends: Mapping[str, CabledEnd]
    borrowed: Borrowed

    def wire(self, port: Port, end: CabledEnd, home: Path, datapath: str) -> OvsPort:
        """Move the kernel interfaces that the end needs into OVS's namespace; returns the port for OVS."""
        for member in end.members:
            if member.interface is not None:
                who = f"port {member.name!r}"
                self.borrowed.take(member.interface, who, key="dut.ports", namespace=home, mtu=member.mtu)
        return physical(port, end, datapath)


def driver_of(port: DutPort, datapath: str) -> str:
    """By which driver OVS has a port: "pci", "af_packet", "af_xdp" or "kernel"."""
    if port.kind == "pci":
        return "pci"
    return port.driver or ("af_packet" if datapath == "dpdk" else "kernel")


def devargs(port: DutPort, driver: str, mtu: int = DEFAULT_MTU) -> str:
    """What DPDK is told of a port (OVS: ``options:dpdk-devargs``)."""
    if driver == "pci":
        which = port.representor
        if which is None:
            return str(port.pci)
        return f"{port.pci},representor=[{which}]" if which.isdecimal() else f"{port.pci},representor={which}"
    queues = f",{_QUEUES[driver]}={port.rxq}" if port.rxq > 1 else ""
    # A frame of the ring holds 1.9 KiB by default: what is larger would be cut off in silence.
    room = f",blocksz={_LARGE_FRAME},framesz={_LARGE_FRAME}" if driver == "af_packet" and mtu > DEFAULT_MTU else ""
    return f"net_{driver}_{port.name},iface={port.interface}{queues}{room}"


def physical(port: Port, end: CabledEnd, datapath: str) -> OvsPort:
    """A topology's port on the lab's, whose far end is the generator's device."""
    members = tuple(_member(port, member, datapath) for member in end.members)
    if end.bond is None:
        return replace(members[0], device=end.device)
    bond = {"bond_mode": end.bond.mode, "lacp": end.bond.lacp}
    return OvsPort(
        port.name, port.bridge, end.name, "bond", vlan=port.vlan, device=end.device, members=members, bond=bond
    )


def _member(port: Port, physical_port: DutPort, datapath: str) -> OvsPort:
    driver = driver_of(physical_port, datapath)
    mtu = physical_port.mtu or port.mtu
    if driver == "kernel":
        interface = physical_port.interface or physical_port.name
        return OvsPort(port.name, port.bridge, interface, "system", mtu_request=unusual(mtu), vlan=port.vlan)
    options = {
        "dpdk-devargs": devargs(physical_port, driver, mtu),
        "n_rxq": str(max(physical_port.rxq, port.queues)),
    }
    rings = {"n_rxq_desc": physical_port.rx_descriptors, "n_txq_desc": physical_port.tx_descriptors}
    options |= {key: str(descriptors) for key, descriptors in rings.items() if descriptors is not None}
    kernel = physical_port.interface
    return OvsPort(port.name, port.bridge, physical_port.name, "dpdk", options, unusual(mtu), port.vlan, kernel=kernel)
