"""Ports of every kind: what OVS's interface needs, what is made for the far end, and what is refused."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces
from pytest_nfvperf.adapters.net.cabling import (
    Cabling,
    generator_pair,
    interface_of,
    link_pair,
    namespace_plans,
    packet_device,
)
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE, End, MovedInterface, Routes, VethPair, configure
from pytest_nfvperf.adapters.net.vduse import attach, detach, device_exists, remove, wait_gone
from pytest_nfvperf.adapters.ovs.nics import (
    NIC_MAKERS,
    NO_UPLINKS,
    NicContext,
    NicMaker,
    OvsPort,
    Uplinks,
    apply_tuning,
    by_af_xdp,
    maker_of,
    mtu_request,
    refuse_tap_on_kernel,
    set_neighbour,
)
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.testbed import DutPort
from pytest_nfvperf.model.topology.links import Tunnel, TunnelKind
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, HostNic, Nic, Offloads, Port, PortKind, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import VIRTIO_RING

_PREFIXES = {4: 24, 6: 64}
"""Prefix length of the network that holds both ends of a tunnel, by the version of IP."""

_LARGE_FRAME = 16384
_QUEUES = {"af_packet": "qpairs", "af_xdp": "queue_count"}

# Tunnel ports, and the address of the DUT's own end in the underlay.
#
# Userspace OVS sends encapsulated frames by a bridge whose local port has the tunnel's local address (OVS howto
# "userspace tunneling"); the kernel's datapath routes them by the same interface. So the underlay is the bridge of
# the topology that is joined to the remote end: a namespace's interface with an address in the same network, a
# node's uplink, or a generator's port, which answers no ARP and so needs a static neighbour.


@dataclass(frozen=True, slots=True)
class OuterPath:
    """The path of a tunnel's outer frames.

    Attributes:
        bridge: its local port gets the address.
        address: the tunnel's local one with its prefix length, "172.31.0.1/24".
        neighbour: MAC of the remote end if that is a generator's port.
    """

    bridge: str
    address: str
    neighbour: str | None = None


def _tunnel_port(tunnel: Tunnel, *, in_kernel: bool) -> OvsPort:
    """A tunnel as a port of its bridge. ``in_kernel``: of the kernel, whose GRE over IPv6 is another type."""
    key = str(tunnel.key) if tunnel.keys == 1 else "flow"
    options = {"local_ip": tunnel.local, "remote_ip": tunnel.remote, "key": key}
    over_6 = ipaddress.ip_address(tunnel.remote).version == 6
    kind = "ip6gre" if in_kernel and over_6 and tunnel.kind is TunnelKind.GRE else str(tunnel.kind)
    return OvsPort(tunnel.port, tunnel.bridge, tunnel.port, kind, options, has_link=False)


def outer_path(topology: Topology, tunnel: Tunnel) -> OuterPath:
    """Find a tunnel's outer path; ConfigError unless exactly one bridge of the topology leads to the remote end."""
    local = ipaddress.ip_address(tunnel.local)
    for nic in topology.nics:
        for network in (ipaddress.ip_interface(address).network for address in nic.addresses):
            if nic.bridge != tunnel.bridge and local in network:
                return OuterPath(nic.bridge, f"{local}/{network.prefixlen}")
    own = f"{local}/{_PREFIXES[local.version]}"
    uplink = next((port for port in topology.ports if port.role is PortRole.UPLINK), None)
    if uplink is not None:
        return OuterPath(uplink.bridge, own)
    with_tunnels = {other.bridge for other in topology.tunnels}
    ends = [port for port in topology.ports if port.role is PortRole.ENDPOINT and port.bridge not in with_tunnels]
    if len({port.bridge for port in ends}) != 1:
        raise ConfigError(
            f"tunnel {tunnel.port!r}: no bridge of topology {topology.name!r} leads to {tunnel.remote}; join to "
            f"another bridge a namespace's interface with an address in {tunnel.local}'s network, or a generator's port"
        )
    return OuterPath(ends[0].bridge, own, ends[0].mac)


class VduseDevices:
    """VDUSE devices of one topology, which OVS serves. ``close()`` ensures that they are gone.

    Attributes:
        wanted: each device with the end that it becomes; makers of interfaces append to it.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[Entry] = []
        self.wanted: list[MovedInterface] = []

    def new_name(self) -> str:
        """A name that no other device of the machine has; it contains the run's tag."""
        name = self._journal.link_name()
        while device_exists(name):
            name = self._journal.link_name()
        return name

    def note(self) -> None:
        self._entries = self._journal.note_all(Kind.VDUSE, [device.name for device in self.wanted])

    def close(self) -> None:
        """Wait until the devices are gone, or remove them. OVS has removed its ports or died before."""
        names = [device.name for device in self.wanted]
        try:
            wait_gone(names)
        except DeadlineError:
            try:
                for name in names:
                    remove(name)
            except OSError as error:
                raise TestbedError(f"cannot remove a device that Open vSwitch served: {error}") from error
        self._journal.forget_all(self._entries)
        self.wanted.clear()
        self._entries = []


# A lab's ports in OVS:
#
#   testbed file               type     dpdk-devargs
#   pci                        dpdk     0000:3b:00.0
#   pci and representor        dpdk     0000:3b:00.0,representor=[0]
#   interface, af_packet       dpdk     net_af_packet_NAME,iface=INTERFACE
#   interface, af_xdp          dpdk     net_af_xdp_NAME,iface=INTERFACE
#   interface, kernel          system   none
#
# Devargs follow the drivers' guides (DPDK: "AF_PACKET Poll Mode Driver", "AF_XDP", "Switch Representation").


def driver_of(port: DutPort, datapath: str) -> str:
    if port.kind == "pci":
        return "pci"
    return port.driver or ("af_packet" if datapath == "dpdk" else "kernel")


def devargs(port: DutPort, driver: str, mtu: int = DEFAULT_MTU) -> str:
    if driver == "pci":
        which, address = port.representor, pci_address(str(port.pci))
        if which is None:
            return address
        return f"{address},representor=[{which}]" if which.isdecimal() else f"{address},representor={which}"
    queues = f",{_QUEUES[driver]}={port.rxq}" if port.rxq > 1 else ""
    # A frame of the ring holds 1.9 KiB by default; DPDK cuts off larger ones without an error.
    room = f",blocksz={_LARGE_FRAME},framesz={_LARGE_FRAME}" if driver == "af_packet" and mtu > DEFAULT_MTU else ""
    return f"net_{driver}_{port.name},iface={port.interface}{queues}{room}"


def physical(port: Port, end: CabledEnd, datapath: str) -> OvsPort:
    """A topology's port on one or more of the lab's. The far end is the generator's device."""
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
        return OvsPort(port.name, port.bridge, interface, "system", mtu_request=mtu_request(mtu), vlan=port.vlan)
    physical_port = replace(physical_port, rxq=max(physical_port.rxq, port.queues))
    options = {"dpdk-devargs": devargs(physical_port, driver, mtu), "n_rxq": str(physical_port.rxq)}
    rings = {"n_rxq_desc": physical_port.rx_descriptors, "n_txq_desc": physical_port.tx_descriptors}
    options |= {key: str(descriptors) for key, descriptors in rings.items() if descriptors is not None}
    kernel = physical_port.interface
    name, request = physical_port.name, mtu_request(mtu)
    return OvsPort(port.name, port.bridge, name, "dpdk", options, mtu_request=request, vlan=port.vlan, kernel=kernel)


# A topology's ports:
#
#   kind         in OVS                                the far end
#   vhost-user   ``dpdkvhostuserclient``               ``net_virtio_user,path=SOCKET,server=1``
#   veth         one end, in OVS's namespace           ``net_af_packet,iface=FAR`` in ours
#   tap          ``tap``, moved out                    the same
#   AF_XDP       ``afxdp``, or DPDK's ``net_af_xdp``   as a veth; of a monitor ``net_af_xdp,iface=FAR``
#   Nic          see ``NIC_MAKERS``                    the Nic, in its namespace
#   veth link    both ends, in OVS's namespace         none
#   tunnel       ``vxlan``, ``geneve``, ``gre``        by the underlay
#   underlay     ``dpdk`` or a veth's end              another private OVS: see ``Uplinks``
#   of a lab     see ``physical``                      the generator's own, by a cable
#
# A generator's veth is for runs without DPDK. The far end stays in our own namespace, where the generator runs, too;
# its name has the run's tag, IPv6 is off, and it has no address.


class PortMaker:
    """Makes and removes what the ports of one topology need outside OVS."""

    def __init__(
        self,
        journal: Journal,
        instance: RunningOvs,
        cabled: Mapping[str, CabledEnd],
        borrowed: BorrowedInterfaces,
        uplinks: Uplinks = NO_UPLINKS,
        nic_makers: Mapping[str, NicMaker] = NIC_MAKERS,
    ) -> None:
        self._instance = instance
        self._uplinks = uplinks
        self.cabled = cabled
        self._borrowed = borrowed
        self._nic_makers = nic_makers
        self._home = instance.home
        self.cabling = Cabling(journal, self._home)
        self._sockets: list[Path] = []
        self._pairs: list[VethPair] = []
        self._moved: list[MovedInterface] = []
        self._devices = VduseDevices(journal)
        self.hosts: dict[str, str | None] = {}
        self._underlays: dict[Tunnel, OuterPath] = {}

    def wire(self, topology: Topology) -> dict[str, OvsPort]:
        """Make what the ports need; returns the ports for OVS by name. ``close`` removes it."""
        wired = [self._bond(port) if port.members else self._wire(port) for port in topology.ports]
        self.cabling.make_namespaces(namespace_plans(topology, self._instance.name))
        wired += [self._wire_nic(nic) for nic in topology.nics]
        for link in topology.patches:
            ends = ((link.port_a, link.bridge_a, link.port_b), (link.port_b, link.bridge_b, link.port_a))
            for port, bridge, peer in ends:
                wired.append(OvsPort(port, bridge, port, "patch", {"peer": peer}, vlan=link.vlan, has_link=False))
        for veth in topology.veths:
            self._pairs.append(link_pair(veth, self._home.path))
            for port, bridge in ((veth.port_a, veth.bridge_a), (veth.port_b, veth.bridge_b)):
                wired.append(OvsPort(port, bridge, port, "system", vlan=veth.vlan))
        in_kernel = self._instance.options.datapath_type == "system"
        wired += [_tunnel_port(tunnel, in_kernel=in_kernel) for tunnel in topology.tunnels]
        self._underlays = {tunnel: outer_path(topology, tunnel) for tunnel in topology.tunnels}
        self.hosts = {one.label: self._behind(one) for one in topology.behind}
        self._devices.note()
        if self._pairs:
            # A gateway may be reached by an interface that OVS makes later: such namespaces get their routes then.
            late = {one.end.namespace for one in (*self._moved, *self._devices.wanted)}
            now = {path: routes for path, routes in self._routes(topology).items() if path not in late}
            self.cabling.join(self._pairs, now)
        tuning = self._instance.options.tuning
        return {one.port: apply_tuning(one, tuning) for one in wired}

    def finish(self, topology: Topology) -> None:
        """After OVS has made its ports, move its interfaces to their namespaces and give tunnels their addresses."""
        if self._moved or self._devices.wanted:
            devices = [replace(device, name=attach(device.name)) for device in self._devices.wanted]
            self.cabling.move_out(self._moved, devices, self._routes(topology))
        if not self._underlays:
            return
        addresses: dict[str, list[str]] = defaultdict(list)
        for bridge, address in sorted({(outer.bridge, outer.address) for outer in self._underlays.values()}):
            addresses[bridge].append(address)
        try:
            configure([End(bridge, self._home.path, addresses=tuple(own)) for bridge, own in addresses.items()])
        except OSError as error:
            raise TestbedError(f"cannot give a bridge a tunnel's address: {error}") from error
        self.set_neighbours()

    def release(self) -> None:
        """Remove interfaces that OVS must serve until they are gone; call it before OVS removes its ports."""
        detach([device.name for device in self._devices.wanted])

    def set_neighbours(self) -> None:
        """Give OVS the known MAC addresses of its tunnels' far ends."""
        for tunnel, outer in self._underlays.items():
            if outer.neighbour is not None:
                set_neighbour(self._instance, outer.bridge, tunnel.remote, outer.neighbour)

    def _routes(self, topology: Topology) -> Routes:
        return {self.cabling.namespace(spec.name).path: spec.routes for spec in topology.namespaces if spec.routes}

    def close(self) -> None:
        """Remove what ``wire`` made, after OVS has removed its ports. Can be called twice."""
        for socket in self._sockets:
            socket.unlink(missing_ok=True)  # a killed listener leaves it, and the next one could not bind
        try:
            self._devices.close()
        finally:
            self.cabling.close()

    def _wire(self, port: Port) -> OvsPort:
        end = self.cabled.get(port.name)
        if end is not None:
            for member in end.members:
                if member.interface is not None:
                    user, home = f"port {member.name!r}", self._home.path
                    self._borrowed.take(member.interface, user, key="dut.ports", namespace=home, mtu=member.mtu)
            options = self._instance.options
            return physical(port, end, "dpdk" if options.dpdk else options.datapath_type)
        if port.role is PortRole.UPLINK:
            return self._uplinks.wire(port, self._home.path, self._pairs, self._instance.options.tuning.rxq or 1)
        if port.kind is PortKind.VHOST_USER or (port.kind is PortKind.TESTBED and self._instance.options.dpdk):
            return self._vhost_user(port)
        if port.kind in {PortKind.TESTBED, PortKind.AF_PACKET}:
            return self._veth(port)
        if port.kind is PortKind.TAP:
            return self._tap(port)
        wired = self._veth(port)
        if port.role is PortRole.MONITOR:  # a monitor reads the far end by AF_XDP, too
            wired = replace(wired, device=f"net_af_xdp,iface={interface_of(str(wired.device))}")
        return by_af_xdp(wired, f"port {port.name!r}", self._interface_types, dpdk=self._instance.options.dpdk)

    def _bond(self, port: Port) -> OvsPort:
        """Each member is made as a port of its own; a lab's bond stays as the testbed file has it."""
        if (end := self.cabled.get(port.name)) is not None:
            if end.bond is None:
                raise ConfigError(
                    f"port {port.name!r} is a bond, and its cable in this testbed leads to {end.name!r}, which is "
                    "none: make a bond of dut.ports, and write it in the cable's link",
                    key="dut.bonds",
                )
            return self._wire(port)
        own = [self._wire(replace(port, name=name, members=())) for name in port.members]
        members, device = tuple(replace(one, port=port.name) for one in own), " ".join(str(one.device) for one in own)
        bond, name = {"bond_mode": port.bond_mode, "lacp": port.lacp}, port.name
        return OvsPort(name, port.bridge, name, "bond", vlan=port.vlan, device=device, members=members, bond=bond)

    def _behind(self, one: HostNic) -> str:
        peer = self.cabling.name_in_ours()
        namespace = self.cabling.namespace(one.namespace).path
        # The generator needs complete frames as on the wire.
        offloads = Offloads(tso=False, gso=False, tx_checksum=False)
        end = End(one.name, namespace, one.mac, one.addresses, offloads)
        self._pairs.append(VethPair(end, End(peer, OWN_NAMESPACE), one.mtu))
        return f"net_af_packet,iface={peer}"

    def _vhost_user(self, port: Port) -> OvsPort:
        # The far end listens and OVS connects, as in the field; ``VhostConnector`` times that. ``dpdkvhostuser`` (OVS
        # listens) is deprecated, and in OVS 3.1 counts no packets.
        if not self._instance.options.dpdk:
            raise ConfigError(
                f"port {port.name!r} is vhost-user, which needs DPDK: use Dut('dpdk'), or the kind TESTBED"
            )
        socket = self._instance.directory / f"{port.name}.sock"
        self._sockets.append(socket)
        queues = f",queues={port.queues}" if port.queues > 1 else ""
        device = f"net_virtio_user,path={socket},server=1,{VIRTIO_RING},mac={port.mac}{queues}"
        mtu = mtu_request(port.mtu)
        kind = "dpdkvhostuserclient"
        return OvsPort(
            port.name, port.bridge, port.name, kind, mtu_request=mtu, vlan=port.vlan, device=device, socket=socket
        )

    def _veth(self, port: Port) -> OvsPort:
        pair, device = generator_pair(port, self._home.path, self.cabling.name_in_ours())
        self._pairs.append(pair)
        return OvsPort(port.name, port.bridge, port.name, "system", vlan=port.vlan, device=device)

    def _tap(self, port: Port) -> OvsPort:
        refuse_tap_on_kernel(f"port {port.name!r}", self._instance.options)
        peer = self.cabling.name_in_ours()
        self._moved.append(MovedInterface(port.name, End(peer, OWN_NAMESPACE, mac=port.mac), port.mtu))
        device = packet_device(port, peer)
        mtu = mtu_request(port.mtu)
        return OvsPort(
            port.name, port.bridge, port.name, "tap", mtu_request=mtu, vlan=port.vlan, device=device, has_link=False
        )

    @property
    def _interface_types(self) -> Sequence[str]:
        return tuple(self._instance.db.root.iface_types)

    def _wire_nic(self, nic: Nic) -> OvsPort:
        making = NicContext(
            options=self._instance.options,
            interface_types=self._interface_types,
            home=self._home.path,
            inside=self.cabling.namespace(nic.namespace).path,
            pairs=self._pairs,
            moved=self._moved,
            dpdk_version=self._instance.dpdk_version if self._instance.options.dpdk else None,
            device_name=self._devices.new_name,
            devices=self._devices.wanted,
        )
        return maker_of(nic, self._nic_makers)(nic, making)
